/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/serve/server.h"

/* Bags of a reader, by chunks of lookups. The rows of each bag are put in the order of sums, first
 * by the address of their entry, which is prefetched; some rows later entries are looked at, and
 * name the slot. What is missing is read at once for the whole chunk, then bags are summed where
 * their rows lie. */
enum {
    CHUNK = 8192, /* lookups, about */
    CHUNK_BAGS = 4096,
    BEHIND = 96,        /* rows between an entry's prefetch and its use, at least */
    INSERTION_MAX = 16, /* most lookups of a bag for insertion sort */
    FEW_MAX = 255,      /* most whose counts are bytes */
};

typedef struct gathering {
    orr_row_reader *reader;
    orr_row_snapshot *snapshot;
    const orr_served_table *table;
    uint32_t table_number;
    orr_reader_counts *counts;
    uint32_t resolved; /* rows whose entries have been looked at */
} gathering;

static orr_status reserve(orr_row_reader *r, uint64_t rows, orr_error *err)
{
    if (rows <= r->room)
        return ORR_OK;
    if (rows > UINT32_MAX / 2)
        return orr_fail(err, ORR_LIMIT, "a bag of %llu lookups", (unsigned long long)rows);
    const size_t room = (size_t)rows + CHUNK;
    void *ranged = orr_realloc(r->rows, room * sizeof *r->rows);
    r->rows = ranged != NULL ? ranged : r->rows;
    void *keys = orr_realloc(r->keys, room * sizeof *r->keys);
    r->keys = keys != NULL ? keys : r->keys;
    void *misses = orr_realloc(r->misses, room * sizeof *r->misses);
    r->misses = misses != NULL ? misses : r->misses;
    if (ranged == NULL || keys == NULL || misses == NULL)
        return orr_fail_memory(err);
    r->room = (uint32_t)room;
    return ORR_OK;
}

static void insert_rows(const orr_served_table *t, const int64_t *ids, int64_t n,
                        orr_ranged_row *to)
{
    for (int64_t i = 0; i < n; i++) {
        const orr_ranged_row row = {(const char *)&t->entries[ids[i]],
                                    orr_served_range_of(t, ids[i])};
        __builtin_prefetch(row.at);
        int64_t at = i;
        for (; at > 0 && to[at - 1].range > row.range; at--)
            to[at] = to[at - 1];
        to[at] = row;
    }
}

/* With counts in bytes: prefix sums of eight at once are a product with 0x0101010101010101. */
static void count_few_rows(const orr_served_table *t, const int64_t *ids, int64_t n,
                           orr_ranged_row *to)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    union {
        uint8_t of[ORR_EMBEDDING_RANGES];
        uint64_t eight[ORR_EMBEDDING_RANGES / 8];
    } place = {.of = {0}};
    uint8_t range[FEW_MAX];
    uint64_t at = 0;
    for (int64_t i = 0; i < n; i++) {
        __builtin_prefetch((const char *)&t->entries[ids[i]]);
        place.of[range[i] = (uint8_t)orr_served_range_of(t, ids[i])]++;
    }
    for (int r = 0; r < ORR_EMBEDDING_RANGES / 8; r++) {
        const uint64_t sums = place.eight[r] * ones;
        place.eight[r] = (sums << 8) + at * ones;
        at += sums >> 56;
    }
    for (int64_t i = 0; i < n; i++)
        to[place.of[range[i]]++] = (orr_ranged_row){(const char *)&t->entries[ids[i]], range[i]};
}

static void count_rows(const orr_served_table *t, const int64_t *ids, int64_t n, orr_ranged_row *to)
{
    uint32_t place[ORR_EMBEDDING_RANGES] = {0}, at = 0;
    for (int64_t i = 0; i < n; i++) {
        __builtin_prefetch((const char *)&t->entries[ids[i]]);
        place[orr_served_range_of(t, ids[i])]++;
    }
    for (int r = 0; r < ORR_EMBEDDING_RANGES; r++) {
        const uint32_t count = place[r];
        place[r] = at;
        at += count;
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t range = orr_served_range_of(t, ids[i]);
        to[place[range]++] = (orr_ranged_row){(const char *)&t->entries[ids[i]], range};
    }
}

/* Puts the rows of a bag in the order of sums: by range, those of a range as they were looked up.
 */
static void order_rows(const orr_served_table *t, const int64_t *ids, int64_t n, orr_ranged_row *to)
{
    if (n <= INSERTION_MAX)
        insert_rows(t, ids, n, to);
    else if (n <= FEW_MAX)
        count_few_rows(t, ids, n, to);
    else
        count_rows(t, ids, n, to);
}

/* Looks at entries: rows in slots have their address, others are misses. */
static void resolve(gathering *g, uint32_t end)
{
    orr_row_reader *r = g->reader;
    const orr_served_table *t = g->table;
    const orr_slot_pool *pool = &g->snapshot->pools[t->pool];
    const uint32_t begin = g->resolved, missed = r->n_misses;
    uint64_t random = r->random;
    for (uint32_t i = begin; i < end; i++) {
        orr_shared_entry *at = (orr_shared_entry *)(uintptr_t)r->rows[i].at;
        const uint64_t entry = atomic_load(at);
        if ((entry & ORR_ROW_RESIDENT) != 0) {
            orr_entry_used(at, entry, orr_next_random(&random));
            r->rows[i].at = orr_slot_at(pool, orr_entry_slot(entry));
        } else
            r->misses[r->n_misses++] = (orr_row_miss){
                .entry = entry, .table = g->table_number, .lookup = i, .row = at - t->entries};
    }
    r->random = random;
    g->resolved = end;
    orr_count(&g->counts->lookups, end - begin);
    orr_count(&g->counts->hits, end - begin - (r->n_misses - missed));
}

/* The key of a pooled embedding: rows in the order of sums; of the first two of a range, whose sum
 * does not depend on their order, the smaller one first. */
static void make_key(gathering *g, orr_served_bag *bag, orr_pooled_key *key)
{
    const orr_ranged_row *rows = g->reader->rows + bag->first;
    int64_t *to = g->reader->keys + bag->first;
    for (uint32_t i = 0; i < bag->n; i++) {
        to[i] = (const orr_shared_entry *)(const void *)rows[i].at - g->table->entries;
        if (i > 0 && rows[i].range == rows[i - 1].range && to[i] < to[i - 1] &&
            (i == 1 || rows[i - 2].range != rows[i].range)) {
            const int64_t first = to[i];
            to[i] = to[i - 1];
            to[i - 1] = first;
        }
    }
    *key = (orr_pooled_key){
        .table = g->table_number, .n = bag->n, .rows = to, .columns = g->table->columns};
    orr_pooled_hash(key);
    bag->hash = key->hash;
}

/* True: the bag's sum was in the cache. */
static bool find_pooled(gathering *g, orr_served_bag *bag, float *ret)
{
    orr_pooled_key key;
    make_key(g, bag, &key);
    const float *sum = orr_pooled_find(&g->snapshot->pooled, &key, &bag->keep);
    orr_count(&g->counts->pooled_lookups, 1);
    if (sum == NULL)
        return false;
    memcpy(ret, sum, g->table->columns * sizeof *ret);
    orr_count(&g->counts->pooled_hits, 1);
    orr_count(&g->counts->pooled_rows_saved, bag->n);
    return true;
}

static orr_status check_ids(const orr_served_table *t, const orr_row_bags *b, int64_t sample,
                            const int64_t *ids, orr_error *err)
{
    for (int32_t i = 0; i < b->lengths[sample]; i++)
        if ((uint64_t)ids[i] >= (uint64_t)t->rows)
            return orr_fail(err, ORR_INVALID, "table %s, sample %lld: id %lld of %lld rows",
                            t->shard->table, (long long)sample, (long long)ids[i],
                            (long long)t->rows);
    return ORR_OK;
}

static orr_status gather_bag(gathering *g, const orr_row_bags *b, uint32_t item, int64_t sample,
                             const int64_t *ids, orr_error *err)
{
    orr_row_reader *r = g->reader;
    const int32_t n = b->lengths[sample];
    float *ret = b->ret + sample * b->ret_stride;
    if (n < 0)
        return orr_fail(err, ORR_INVALID, "table %s, sample %lld: %d lookups",
                        g->table->shard->table, (long long)sample, n);
    if (n == 0) {
        memset(ret, 0, g->table->columns * sizeof *ret);
        return ORR_OK;
    }
    ORR_TRY(check_ids(g->table, b, sample, ids, err));
    ORR_TRY(reserve(r, (uint64_t)r->n_rows + (uint32_t)n, err));
    orr_served_bag bag = {.item = item, .first = r->n_rows, .n = (uint32_t)n, .sample = sample};
    order_rows(g->table, ids, n, r->rows + bag.first);
    if (n > 1 && g->snapshot->pooled.memory != NULL && find_pooled(g, &bag, ret))
        return ORR_OK;
    r->n_rows += bag.n;
    r->bags[r->n_bags++] = bag;
    if (r->n_rows - g->resolved > 2 * BEHIND)
        resolve(g, r->n_rows - BEHIND);
    return ORR_OK;
}

/* Bags are summed in the order in which they were gathered. */
static void sum_bags(orr_row_reader *r, orr_row_snapshot *s, const orr_row_bags *bags,
                     uint64_t begun)
{
    for (uint32_t i = 0; i < r->n_bags; i++) {
        const orr_served_bag *bag = &r->bags[i];
        const orr_row_bags *b = &bags[bag->item];
        const orr_served_table *t = &s->tables[b->table];
        const uint32_t more = r->n_rows - bag->first - bag->n; /* prefetching cannot fault */
        float *ret = b->ret + bag->sample * b->ret_stride;
        t->tree(r->rows + bag->first, bag->n, more, t->columns, ret);
        if (bag->keep) {
            const int64_t *keys = r->keys + bag->first;
            const orr_pooled_key key = {bag->hash, b->table, bag->n, keys, t->columns};
            orr_pooled_insert(&s->pooled, &r->pooled, &key, begun, ret);
        }
    }
}

/* Where the next chunk begins. */
typedef struct place {
    uint32_t item;
    int64_t sample;
    const int64_t *ids; /* of the sample */
} place;

static orr_status gather_item(gathering *g, const orr_row_bags *bags, place *at, orr_error *err)
{
    orr_row_reader *r = g->reader;
    const orr_row_bags *b = &bags[at->item];
    if (b->table >= g->snapshot->n_tables)
        return orr_fail(err, ORR_INVALID, "table %u of %u", b->table, g->snapshot->n_tables);
    g->table = &g->snapshot->tables[b->table];
    g->table_number = b->table;
    g->counts = &r->counts[b->table];
    g->resolved = r->n_rows;
    for (; at->sample < b->samples && r->n_rows < CHUNK && r->n_bags < CHUNK_BAGS; at->sample++) {
        ORR_TRY(gather_bag(g, b, at->item, at->sample, at->ids, err));
        at->ids += b->lengths[at->sample];
    }
    resolve(g, r->n_rows);
    return ORR_OK;
}

static orr_status make_chunk(orr_row_reader *r, const orr_row_bags *bags, uint32_t n, place *at,
                             orr_error *err)
{
    orr_row_snapshot *s = atomic_load(&r->server->snapshot);
    gathering g = {.reader = r, .snapshot = s};
    orr_recording *recording = atomic_load(&r->server->recording);
    r->n_rows = r->n_bags = r->n_misses = 0;
    ORR_TRY(orr_reader_follow(r, s, err));
    const uint64_t begun = orr_pooled_begin(&s->pooled);
    while (at->item < n && r->n_rows < CHUNK && r->n_bags < CHUNK_BAGS) {
        const int64_t *ids = at->ids;
        ORR_TRY(gather_item(&g, bags, at, err));
        if (recording != NULL)
            orr_recorder_add(&r->recorder, recording, bags[at->item].table, ids, at->ids - ids);
        if (at->sample == bags[at->item].samples) {
            at->item++;
            at->sample = 0;
            at->ids = at->item < n ? bags[at->item].ids : NULL;
        }
    }
    ORR_TRY(orr_reader_fetch(r, s, err));
    sum_bags(r, s, bags, begun);
    return ORR_OK;
}

static void recycle(orr_row_reader *r)
{
    for (uint32_t p = 0; p < r->n_pools; p++)
        orr_slot_stock_recycle(&r->stocks[p], &r->server->epochs);
}

static orr_status load_chunk(orr_row_reader *r, uint32_t table, const int64_t *rows, int64_t n,
                             orr_error *err)
{
    orr_row_snapshot *s = atomic_load(&r->server->snapshot);
    r->n_rows = r->n_misses = 0;
    ORR_TRY(orr_reader_follow(r, s, err));
    ORR_TRY(reserve(r, (uint64_t)n, err));
    for (int64_t i = 0; i < n && rows[i] < s->tables[table].rows; i++) {
        const uint64_t entry = atomic_load(&s->tables[table].entries[rows[i]]);
        if ((entry & ORR_ROW_RESIDENT) == 0)
            r->misses[r->n_misses++] = (orr_row_miss){
                .entry = entry, .table = table, .lookup = (uint32_t)i, .row = rows[i]};
    }
    return orr_reader_fetch(r, s, err);
}

orr_status orr_reader_load(orr_row_reader *reader, uint32_t table, const int64_t *rows, int64_t n,
                           orr_error *err)
{
    recycle(reader);
    orr_epoch_enter(&reader->server->epochs, reader->participant);
    const orr_status status = load_chunk(reader, table, rows, n, err);
    orr_epoch_exit(&reader->server->epochs, reader->participant);
    return status;
}

orr_status orr_row_reader_bags(orr_row_reader *reader, const orr_row_bags *bags, uint32_t n,
                               orr_error *err)
{
    place at = {.ids = n > 0 ? bags[0].ids : NULL};
    orr_epochs *epochs = &reader->server->epochs;
    orr_status status = ORR_OK;
    while (status == ORR_OK && at.item < n) {
        recycle(reader);
        orr_epoch_enter(epochs, reader->participant);
        status = make_chunk(reader, bags, n, &at, err);
        orr_epoch_exit(epochs, reader->participant);
    }
    return status;
}
