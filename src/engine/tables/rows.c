/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "base/workers.h"
#include "engine/tables/tables_state.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/format/row.h"

/* Rows in memory, and their initial values: uniform within 1 / sqrt(rows), as in
 * facebookresearch/dlrm (dlrm_s_pytorch.py, create_emb). Each number is drawn from seed, table, row
 * and column, so that shards of any kind begin with the same table: four columns of a row are one
 * block of the table's Philox sequence, whose key is drawn from the seed. */
enum { DRAWN = 256, BLOCK = 4, PIECE_ROWS = 1024 };
#define TABLES_STREAM UINT32_C(0x7461626c)

typedef struct drawn_shard {
    const orr_tables_entry *entry;
    const orr_row_store *store;
    uint32_t key[2];
    int64_t row_blocks; /* of the whole table */
    double bound;
    float *numbers; /* shape (threads, columns) */
} drawn_shard;

static void draw_row(const drawn_shard *d, int64_t row, float *ret)
{
    const uint64_t first = (uint64_t)((d->entry->first_row + row) * d->row_blocks +
                                      d->entry->shard->column_begin / BLOCK);
    uint32_t words[DRAWN];
    for (int64_t at = 0; at < d->store->columns; at += DRAWN) {
        const int64_t left = d->store->columns - at, n = left < DRAWN ? left : DRAWN;
        orr_vector_math_of_cpu()->philox(d->key, first + (uint64_t)(at / BLOCK),
                                         (n + BLOCK - 1) / BLOCK, words);
        for (int64_t i = 0; i < n; i++)
            ret[at + i] = (float)((2 * (words[i] + 0.5) * 0x1p-32 - 1) * d->bound);
    }
}

static void draw_piece(void *ctx, size_t piece, int thread)
{
    const drawn_shard *d = ctx;
    const orr_row_store *s = d->store;
    const int64_t begin = (int64_t)piece * PIECE_ROWS,
                  end = begin + PIECE_ROWS < s->rows ? begin + PIECE_ROWS : s->rows;
    float *numbers = d->numbers + thread * s->columns;
    for (int64_t row = begin; row < end; row++) {
        draw_row(d, row, numbers);
        orr_row_from_fp32(s->format, numbers, s->columns, s->base + row * s->record_bytes);
    }
    if (s->states != NULL)
        memset(s->states + begin * s->state_bytes, 0, (size_t)((end - begin) * s->state_bytes));
}

static orr_status draw_shard(const orr_tables *t, uint32_t i, orr_error *err)
{
    const orr_tables_entry *entry = &t->entries[i];
    const orr_embedding *table = &t->layout.plan->tables[entry->table];
    const uint64_t seed = t->source.seed;
    const uint32_t seed_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                   counter[4] = {entry->table, 0, 0, TABLES_STREAM};
    const size_t threads = (size_t)orr_workers_count(t->source.workers);
    drawn_shard d = {.entry = entry,
                     .store = &t->stores[i],
                     .row_blocks = (table->columns + BLOCK - 1) / BLOCK,
                     .bound = 1 / sqrt((double)table->rows),
                     .numbers = orr_calloc(threads, entry->columns * sizeof(float))};
    uint32_t drawn[4];
    if (d.numbers == NULL)
        return orr_fail_memory(err);
    orr_philox4x32(counter, seed_key, drawn);
    memcpy(d.key, drawn, sizeof d.key);
    orr_workers_run(t->source.workers, (size_t)((entry->rows + PIECE_ROWS - 1) / PIECE_ROWS),
                    draw_piece, &d);
    orr_free(d.numbers);
    return ORR_OK;
}

orr_status orr_tables_make_rows(orr_tables *t, orr_error *err)
{
    orr_backend *b = t->backend;
    for (uint32_t i = 0; i < t->n_shards; i++) {
        orr_row_store *s = &t->stores[i];
        void *base, *states = NULL;
        *s = orr_tables_store_of(&t->layout, &t->entries[i], t->source.trained);
        ORR_TRY(b->allocate(b, (size_t)(s->rows * s->record_bytes), &base, err));
        s->base = base;
        if (s->state_bytes > 0)
            ORR_TRY(b->allocate(b, (size_t)(s->rows * s->state_bytes), &states, err));
        s->states = states;
        ORR_TRY(draw_shard(t, i, err));
    }
    return ORR_OK;
}

void orr_tables_free_rows(orr_tables *t)
{
    orr_backend *b = t->backend;
    for (uint32_t i = 0; t->stores != NULL && i < t->n_shards; i++) {
        const orr_row_store *s = &t->stores[i];
        if (s->base != NULL)
            b->release(b, s->base, (size_t)(s->rows * s->record_bytes));
        if (s->states != NULL)
            b->release(b, s->states, (size_t)(s->rows * s->state_bytes));
    }
}
