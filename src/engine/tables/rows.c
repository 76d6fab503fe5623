/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "base/workers.h"
#include "engine/tables/tables_state.h"
#include "kernel/cpu/simd/vector_math.h"
#include "kernel/format/row.h"

/* Rows that live in memory, and initial values of all: uniform within 1 / sqrt(rows), as in
 * facebookresearch/dlrm (dlrm_s_pytorch.py, create_emb). Each number is drawn from seed, table, row
 * and column, so that shards of any kind begin with the same table: four columns of a row are one
 * block of the table's Philox sequence, whose key is drawn from the seed. */
enum { DRAWN = 256, BLOCK = 4, PIECE_ROWS = 1024 };
#define TABLES_STREAM UINT32_C(0x7461626c)

static void draw_row(const orr_tables_drawing *d, int64_t row, float *ret)
{
    const uint64_t first = (uint64_t)((d->first_row + row) * d->row_blocks + d->first / BLOCK);
    uint32_t words[DRAWN];
    for (int64_t at = 0; at < d->columns; at += DRAWN) {
        const int64_t left = d->columns - at, n = left < DRAWN ? left : DRAWN;
        orr_vector_math_of_cpu()->philox(d->key, first + (uint64_t)(at / BLOCK),
                                         (n + BLOCK - 1) / BLOCK, words);
        for (int64_t i = 0; i < n; i++)
            ret[at + i] = (float)((2 * (words[i] + 0.5) * 0x1p-32 - 1) * d->bound);
    }
}

/* Rows that have a scale are quantized whole: a shard has the scale and its own columns. `numbers`
 * and `whole`: room for a row. */
static void put_row(const orr_tables_drawing *d, int64_t row, float *numbers, char *whole,
                    char *ret)
{
    draw_row(d, row, numbers);
    if (!d->quantized) {
        orr_row_from_fp32(d->format, numbers, d->columns, ret);
        return;
    }
    const int64_t head = orr_row_format_bytes(d->format, 0);
    orr_row_from_fp32(d->format, numbers, d->columns, whole);
    memcpy(ret, whole, (size_t)head);
    memcpy(ret + head, whole + orr_row_format_bytes(d->format, d->column_begin),
           (size_t)(d->row_bytes - head));
}

orr_tables_drawing orr_tables_drawing_of(const orr_embedding *table, uint32_t number,
                                         int64_t first_row, uint32_t column_begin,
                                         uint32_t column_end, bool trained, uint64_t seed)
{
    const uint32_t seed_key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                   counter[4] = {number, 0, 0, TABLES_STREAM};
    const int64_t columns = column_end - column_begin;
    const bool quantized = orr_row_format_bytes(table->format, 0) > 0;
    orr_tables_drawing d = {.format = table->format,
                            .quantized = quantized,
                            .first_row = first_row,
                            .row_blocks = (table->columns + BLOCK - 1) / BLOCK,
                            .bound = 1 / sqrt((double)table->rows),
                            .first = quantized ? 0 : column_begin,
                            .columns = quantized ? table->columns : columns,
                            .column_begin = column_begin,
                            .row_bytes = orr_row_format_bytes(table->format, columns),
                            .state_bytes =
                                trained ? orr_row_optimizer_bytes(table->optimizer, columns) : 0};
    uint32_t drawn[4];
    orr_philox4x32(counter, seed_key, drawn);
    memcpy(d.key, drawn, sizeof d.key);
    return d;
}

orr_tables_drawing orr_tables_drawing_of_shard(const orr_tables *t, uint32_t shard)
{
    const orr_tables_entry *e = &t->entries[shard];
    return orr_tables_drawing_of(&t->layout.plan->tables[e->table], e->table, e->first_row,
                                 e->shard->column_begin, e->shard->column_end, t->source.trained,
                                 t->source.seed);
}

void orr_tables_draw_record(const orr_tables_drawing *d, int64_t row, char *ret)
{
    float numbers[ORR_SHARD_UPDATE_COLUMNS];
    char whole[ORR_SHARD_UPDATE_COLUMNS * sizeof(float)]; /* rows that have a scale are shorter */
    put_row(d, row, numbers, whole, ret);
    memset(ret + d->row_bytes, 0, (size_t)d->state_bytes);
}

typedef struct drawn_shard {
    orr_tables_drawing drawing;
    const orr_row_store *store;
    float *numbers;  /* shape (threads, columns) */
    char *quantized; /* shape (threads, bytes of a whole row) */
    int64_t whole_bytes;
} drawn_shard;

static void draw_piece(void *ctx, size_t piece, int thread)
{
    const drawn_shard *d = ctx;
    const orr_row_store *s = d->store;
    const int64_t begin = (int64_t)piece * PIECE_ROWS,
                  end = begin + PIECE_ROWS < s->rows ? begin + PIECE_ROWS : s->rows;
    for (int64_t row = begin; row < end; row++)
        put_row(&d->drawing, row, d->numbers + thread * d->drawing.columns,
                d->quantized + thread * d->whole_bytes, s->base + row * s->record_bytes);
    if (s->states != NULL)
        memset(s->states + begin * s->state_bytes, 0, (size_t)((end - begin) * s->state_bytes));
}

static orr_status draw_shard(const orr_tables *t, uint32_t i, orr_error *err)
{
    const orr_embedding *table = &t->layout.plan->tables[t->entries[i].table];
    const size_t threads = (size_t)orr_workers_count(t->source.workers);
    drawn_shard d = {.drawing = orr_tables_drawing_of_shard(t, i),
                     .store = &t->stores[i],
                     .whole_bytes = orr_row_format_bytes(table->format, table->columns)};
    orr_status status = ORR_OK;
    d.numbers = orr_calloc(threads, (size_t)d.drawing.columns * sizeof *d.numbers);
    d.quantized = orr_calloc(threads, (size_t)d.whole_bytes);
    if (d.numbers == NULL || d.quantized == NULL)
        status = orr_fail_memory(err);
    else
        orr_workers_run(t->source.workers,
                        (size_t)((t->entries[i].rows + PIECE_ROWS - 1) / PIECE_ROWS), draw_piece,
                        &d);
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
        if (orr_tables_tier_of(&t->source, t->entries[i].table) != ORR_TIER_DRAM)
            continue;
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
        if (orr_tables_tier_of(&t->source, t->entries[i].table) != ORR_TIER_DRAM)
            continue;
        if (s->base != NULL)
            b->release(b, s->base, (size_t)(s->rows * s->record_bytes));
        if (s->states != NULL)
            b->release(b, s->states, (size_t)(s->rows * s->state_bytes));
    }
}
