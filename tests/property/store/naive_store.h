/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_STORE_H
#define TESTS_NAIVE_STORE_H

#include <stdlib.h>
#include <string.h>

#include "../support/seeds.h"
#include "support/simulated/block_device.h"
#include "store/store.h"

/* A store on a simulated drive, and beside it the same rows as arrays: whatever is done to one is
 * done to the other, and what the store gives is held against the arrays. */
enum { NAIVE_SHARDS = 4, NAIVE_COMMITS = 64, NAIVE_WINDOW = 4, NAIVE_IDS = 120 };

/* Lookups of a batch in every shard. */
typedef struct naive_batch {
    int64_t n[NAIVE_SHARDS];
    int64_t ids[NAIVE_SHARDS][NAIVE_IDS];
    uint32_t slots[NAIVE_SHARDS][NAIVE_IDS];
} naive_batch;

typedef struct naive_store {
    uint64_t seed;
    orr_random random;
    orr_row_shard shards[NAIVE_SHARDS];
    bool resident[NAIVE_SHARDS];
    double cached_rows[NAIVE_SHARDS];
    orr_row_file_facts facts;
    orr_store_options options;
    orr_sim_drive *drive;
    orr_store *store;
    char *rows[NAIVE_SHARDS];       /* as they are, shape (rows, record) */
    size_t bytes;                   /* of all rows */
    char *committed[NAIVE_COMMITS]; /* as they were at each commit */
    int64_t step, durable, settled; /* of the last commit that began; known to be durable; -1 */
    naive_batch batches[NAIVE_WINDOW];
    uint64_t first, next; /* batches first .. next - 1 are announced */
} naive_store;

static inline uint64_t naive_below(naive_store *s, uint64_t bound)
{
    return orr_random_below(&s->random, bound);
}

static inline size_t naive_record(const naive_store *s, uint32_t shard)
{
    return (size_t)s->shards[shard].row_bytes + s->shards[shard].state_bytes;
}

/* orr_row_initial. */
static inline void naive_initial(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    const naive_store *s = ctx;
    orr_random random = orr_random_of(s->facts.seed + shard, (uint64_t)row);
    for (size_t i = 0; i < naive_record(s, shard); i++)
        ((char *)ret_record)[i] = (char)orr_random_u32(&random);
}

static inline void naive_fill_initial(naive_store *s)
{
    for (uint32_t i = 0; i < s->facts.n_shards; i++)
        for (int64_t row = 0; row < s->shards[i].rows; row++)
            naive_initial(s, i, row, s->rows[i] + (size_t)row * naive_record(s, i));
}

static inline void naive_draw_shards(naive_store *s)
{
    static const char *const NAMES[NAIVE_SHARDS] = {"t0", "t1", "t2", "t3"};
    s->facts = (orr_row_file_facts){.model = 5, .seed = s->seed, .ranks = 1, .shards = s->shards};
    s->facts.n_shards = 1 + (uint32_t)naive_below(s, NAIVE_SHARDS);
    for (uint32_t i = 0; i < s->facts.n_shards; i++) {
        const int64_t rows = 1 + (int64_t)naive_below(s, naive_below(s, 3) == 0 ? 20 : 600);
        const uint32_t columns = 1 + (uint32_t)naive_below(s, 40);
        static const uint32_t STATES[] = {0, 4, 1};
        const uint32_t state = STATES[naive_below(s, 3)];
        s->shards[i] = (orr_row_shard){.table = NAMES[i],
                                       .table_rows = rows,
                                       .rows = rows,
                                       .table_columns = columns,
                                       .column_end = columns,
                                       .row_bytes = columns * 4,
                                       .state_bytes = state == 1 ? columns * 4 : state};
        /* Shards whose records are of one size share a pool. */
        if (i > 0 && naive_below(s, 2)) {
            s->shards[i].row_bytes = s->shards[0].row_bytes;
            s->shards[i].state_bytes = s->shards[0].state_bytes;
            s->shards[i].table_columns = s->shards[i].column_end = s->shards[0].column_end;
        }
        s->resident[i] = naive_below(s, 5) == 0;
        s->cached_rows[i] = NAIVE_IDS;
        s->bytes += (size_t)rows * naive_record(s, i);
    }
    s->rows[0] = malloc(s->bytes);
    for (uint32_t i = 1; i < s->facts.n_shards; i++)
        s->rows[i] = s->rows[i - 1] + (size_t)s->shards[i - 1].rows * naive_record(s, i - 1);
    naive_fill_initial(s);
}

static inline orr_block_device *naive_open_drive(naive_store *s)
{
    orr_error err;
    orr_block_device *device = NULL;
    if (orr_sim_drive_open(s->drive, false, &device, &err) != ORR_OK)
        seed_fail(s->seed, "open the drive: %s", err.text);
    return device;
}

/* `inline_io`: 0, 1, or 2: either. */
static inline void naive_begin(naive_store *s, uint64_t seed, uint64_t inline_io)
{
    orr_error err;
    static const uint32_t SECTORS[] = {512, 512, 4096, 64};
    memset(s, 0, sizeof *s);
    s->seed = seed;
    s->random = orr_random_of(seed, 77);
    s->step = s->durable = s->settled = -1;
    naive_draw_shards(s);
    uint64_t room = 0;
    for (uint32_t i = 0; i < s->facts.n_shards; i++)
        room += naive_record(s, i) + 64;
    s->options = (orr_store_options){
        /* Now and then as small as batches allow: each shard has slots for all lookups of one. */
        .cache_bytes = room * (NAIVE_IDS + naive_below(s, 2) * naive_below(s, 400)),
        .cached_rows = s->cached_rows,
        .resident = s->resident,
        .policy = (orr_cache_policy)naive_below(s, ORR_CACHE_POLICIES),
        .writes = (orr_row_writes)naive_below(s, 2),
        .durable = true,
        .inline_io = inline_io == 2 ? naive_below(s, 2) : inline_io,
        .depth = (uint32_t)naive_below(s, 9),
        .window = 1 + (uint32_t)naive_below(s, NAIVE_WINDOW),
        .initial = naive_initial,
        .ctx = s};
    orr_sim_drive_options drive = {.seed = seed,
                                   .sector = SECTORS[naive_below(s, 4)],
                                   .depth = 1 + (uint32_t)naive_below(s, 20)};
    if (orr_row_file_bytes(&s->facts, drive.sector, 5, &drive.bytes, &err) != ORR_OK ||
        orr_sim_drive_new(&drive, &s->drive, &err) != ORR_OK ||
        orr_store_create(naive_open_drive(s), &s->facts, &s->options, &s->store, &err) != ORR_OK)
        seed_fail(seed, "create: %s", err.text);
}

static inline void naive_end(naive_store *s)
{
    orr_store_close(s->store);
    orr_sim_drive_free(s->drive);
    free(s->rows[0]);
    for (int i = 0; i < NAIVE_COMMITS; i++)
        free(s->committed[i]);
}

/* Lookups of the next batch: some rows often, others seldom. */
static inline void naive_draw_batch(naive_store *s, naive_batch *b)
{
    for (uint32_t i = 0; i < s->facts.n_shards; i++) {
        const uint64_t rows = (uint64_t)s->shards[i].rows;
        b->n[i] = (int64_t)naive_below(s, naive_below(s, 4) == 0 ? NAIVE_IDS : 20);
        for (int64_t k = 0; k < b->n[i]; k++)
            b->ids[i][k] = (int64_t)naive_below(s, naive_below(s, 2) ? rows : 1 + rows / 10);
    }
}

/* ORR_LIMIT: not all of its rows have slots; the batch is to be forgotten. */
static inline orr_status naive_announce(naive_store *s, orr_error *err)
{
    naive_batch *b = &s->batches[s->next % NAIVE_WINDOW];
    naive_draw_batch(s, b);
    s->next++;
    for (uint32_t i = 0; i < s->facts.n_shards; i++)
        ORR_TRY(orr_store_announce(s->store, s->next - 1, i, b->ids[i], b->n[i], b->slots[i], err));
    return ORR_OK;
}

static inline char *naive_row(naive_store *s, uint32_t shard, int64_t row)
{
    return s->rows[shard] + (size_t)row * naive_record(s, shard);
}

/* The rows of a batch, in their slots. */
static inline void naive_check_batch(naive_store *s, const naive_batch *b)
{
    for (uint32_t i = 0; i < s->facts.n_shards; i++) {
        const orr_store_slots at = orr_store_slots_of(s->store, i);
        for (int64_t k = 0; k < b->n[i]; k++) {
            const uint32_t slot = b->slots[i][k];
            const char *want = naive_row(s, i, b->ids[i][k]);
            if ((int64_t)slot >= at.n || (at.resident && slot != b->ids[i][k]) ||
                memcmp(at.rows + slot * at.row_bytes, want, (size_t)at.row_bytes) != 0 ||
                memcmp(at.states + slot * at.state_bytes, want + at.row_bytes,
                       (size_t)at.state_bytes) != 0)
                seed_fail(s->seed, "batch %llu: shard %u, row %lld in slot %u is another",
                          (unsigned long long)s->first, i, (long long)b->ids[i][k], slot);
        }
    }
}

/* New numbers for the rows of a batch. */
static inline void naive_change_batch(naive_store *s, const naive_batch *b)
{
    for (uint32_t i = 0; i < s->facts.n_shards; i++) {
        const orr_store_slots at = orr_store_slots_of(s->store, i);
        for (int64_t k = 0; k < b->n[i]; k++) {
            char *row = naive_row(s, i, b->ids[i][k]);
            const uint32_t slot = b->slots[i][k];
            for (size_t j = 0; j < naive_record(s, i); j++)
                row[j] = (char)(row[j] * 5 + (char)s->first + 1);
            memcpy(at.rows + slot * at.row_bytes, row, (size_t)at.row_bytes);
            memcpy(at.states + slot * at.state_bytes, row + at.row_bytes, (size_t)at.state_bytes);
        }
    }
}

/* The first batch is computed. */
static inline orr_status naive_step(naive_store *s, orr_error *err)
{
    const naive_batch *b = &s->batches[s->first % NAIVE_WINDOW];
    ORR_TRY(orr_store_wait(s->store, s->first, err));
    naive_check_batch(s, b);
    const bool change = naive_below(s, 8) != 0;
    if (change) {
        ORR_TRY(orr_store_change(s->store, s->first, err));
        naive_change_batch(s, b);
    }
    orr_store_end(s->store, s->first++, change);
    return ORR_OK;
}

/* The last two commits can be opened. */
static inline orr_status naive_commit(naive_store *s, orr_error *err)
{
    if (s->step >= 0) {
        ORR_TRY(orr_store_committed(s->store, &s->durable, err));
        orr_store_settle(s->store, s->durable);
        s->settled = s->durable;
    }
    char *copy = malloc(s->bytes);
    memcpy(copy, s->rows[0], s->bytes);
    s->step++;
    free(s->committed[s->step % NAIVE_COMMITS]);
    s->committed[s->step % NAIVE_COMMITS] = copy;
    return orr_store_commit(s->store, s->step, err);
}

/* All rows, by scans. No batch may be announced. */
static inline orr_status naive_scan(naive_store *s, orr_error *err)
{
    for (uint32_t i = 0; i < s->facts.n_shards; i++) {
        const size_t record = naive_record(s, i);
        char *records = malloc((size_t)s->shards[i].rows * record);
        for (int64_t row = 0; row < s->shards[i].rows;) {
            const int64_t left = s->shards[i].rows - row;
            const int64_t n = 1 + (int64_t)naive_below(s, (uint64_t)left);
            const orr_store_scan scan = {i, row, n, records};
            const orr_status status = orr_store_read(s->store, &scan, err);
            if (status != ORR_OK) {
                free(records);
                return status;
            }
            if (memcmp(records, naive_row(s, i, row), (size_t)n * record) != 0)
                seed_fail(s->seed, "a scan of shard %u from row %lld gives others", i,
                          (long long)row);
            row += n;
        }
        free(records);
    }
    return ORR_OK;
}

/* Some rows are written by a scan. No batch may be announced. */
static inline orr_status naive_write(naive_store *s, orr_error *err)
{
    const uint32_t shard = (uint32_t)naive_below(s, s->facts.n_shards);
    const int64_t first = (int64_t)naive_below(s, (uint64_t)s->shards[shard].rows);
    const int64_t n = 1 + (int64_t)naive_below(s, (uint64_t)(s->shards[shard].rows - first));
    char *at = naive_row(s, shard, first);
    for (size_t i = 0; i < (size_t)n * naive_record(s, shard); i++)
        at[i] = (char)(at[i] + 3);
    const orr_store_scan scan = {shard, first, n, at};
    return orr_store_write(s->store, &scan, err);
}

/* Opens the store again, whose drive may have crashed. *ret_step: whose rows it has. */
static inline orr_status naive_reopen(naive_store *s, int64_t step, orr_error *err)
{
    orr_store_close(s->store);
    s->store = NULL;
    s->first = s->next = 0;
    orr_block_device *device = naive_open_drive(s);
    const orr_status status = orr_store_open(device, &s->facts, step, &s->options, &s->store, err);
    if (status != ORR_OK)
        device->close(device);
    return status;
}

#endif /* TESTS_NAIVE_STORE_H */
