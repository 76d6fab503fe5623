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
    int64_t first, columns; /* that are drawn: the shard's, or all */
    float *numbers;         /* shape (threads, columns) */
    char *quantized;        /* shape (threads, bytes of a whole row); NULL: rows have no scale */
    int64_t row_bytes;
} drawn_shard;

static void draw_row(const drawn_shard *d, int64_t row, float *ret)
{
    const uint64_t first =
        (uint64_t)((d->entry->first_row + row) * d->row_blocks + d->first / BLOCK);
    uint32_t words[DRAWN];
    for (int64_t at = 0; at < d->columns; at += DRAWN) {
        const int64_t left = d->columns - at, n = left < DRAWN ? left : DRAWN;
        orr_vector_math_of_cpu()->philox(d->key, first + (uint64_t)(at / BLOCK),
                                         (n + BLOCK - 1) / BLOCK, words);
        for (int64_t i = 0; i < n; i++)
            ret[at + i] = (float)((2 * (words[i] + 0.5) * 0x1p-32 - 1) * d->bound);
    }
}

/* Rows that have a scale are quantized whole: a shard has the scale and its own columns. */
static void quantize_row(const drawn_shard *d, const float *numbers, char *whole, char *record)
{
    const orr_row_store *s = d->store;
    const size_t head = (size_t)orr_row_format_bytes(s->format, 0);
    orr_row_from_fp32(s->format, numbers, d->columns, whole);
    memcpy(record, whole, head);
    memcpy(record + head, whole + orr_row_format_bytes(s->format, d->entry->shard->column_begin),
           (size_t)s->record_bytes - head);
}

static void draw_piece(void *ctx, size_t piece, int thread)
{
    const drawn_shard *d = ctx;
    const orr_row_store *s = d->store;
    const int64_t begin = (int64_t)piece * PIECE_ROWS,
                  end = begin + PIECE_ROWS < s->rows ? begin + PIECE_ROWS : s->rows;
    float *numbers = d->numbers + thread * d->columns;
    for (int64_t row = begin; row < end; row++) {
        char *record = s->base + row * s->record_bytes;
        draw_row(d, row, numbers);
        if (d->quantized != NULL)
            quantize_row(d, numbers, d->quantized + thread * d->row_bytes, record);
        else
            orr_row_from_fp32(s->format, numbers, s->columns, record);
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
    const bool quantized = orr_row_format_bytes(table->format, 0) > 0;
    drawn_shard d = {.entry = entry,
                     .store = &t->stores[i],
                     .row_blocks = (table->columns + BLOCK - 1) / BLOCK,
                     .bound = 1 / sqrt((double)table->rows),
                     .first = quantized ? 0 : entry->shard->column_begin,
                     .columns = quantized ? table->columns : entry->columns,
                     .row_bytes = orr_row_format_bytes(table->format, table->columns)};
    uint32_t drawn[4];
    orr_status status = ORR_OK;
    orr_philox4x32(counter, seed_key, drawn);
    memcpy(d.key, drawn, sizeof d.key);
    d.numbers = orr_calloc(threads, (size_t)d.columns * sizeof *d.numbers);
    d.quantized = quantized ? orr_calloc(threads, (size_t)d.row_bytes) : NULL;
    if (d.numbers == NULL || (quantized && d.quantized == NULL))
        status = orr_fail_memory(err);
    else
        orr_workers_run(t->source.workers, (size_t)((entry->rows + PIECE_ROWS - 1) / PIECE_ROWS),
                        draw_piece, &d);
    orr_free(d.numbers);
    orr_free(d.quantized);
    return status;
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
