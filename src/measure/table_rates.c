/* SPDX-License-Identifier: Apache-2.0 */
/* How fast this machine sums bags and updates rows: row-wise Adagrad over rows of 64 columns, in a
 * table that the caches hold and in one that they do not. */
#include <string.h>

#include "base/clock.h"
#include "base/philox.h"
#include "base/workers.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "measure/embedding_tables.h"

enum { COLUMNS = 64, SAMPLES = 1024, POOLING = 32, LOOKUPS = SAMPLES * POOLING, BATCHES = 8 };
enum { SMALL_ROWS = 4096, RUNS_MAX = 64 };
/* Of the large table: its rows in fp32 are this many times what the caches hold. */
static const int64_t LARGE_CACHES = 6;

typedef struct table {
    orr_row_store store;
    orr_embedding_shard shard;
    orr_shard_lookups lookups[BATCHES];
    int32_t lengths[SAMPLES];
    int64_t *ids; /* shape (BATCHES, LOOKUPS) */
    float *bags;  /* shape (SAMPLES, COLUMNS): bags, and their gradients */
    void *workspace;
} table;

static void draw_ids(table *t)
{
    orr_random random = orr_random_of(1, (uint64_t)t->store.rows);
    for (int64_t i = 0; i < (int64_t)BATCHES * LOOKUPS; i++)
        t->ids[i] = (int64_t)orr_random_below(&random, (uint64_t)t->store.rows);
}

static orr_shard_update update_of(const table *t, int batch, const orr_update *by)
{
    return (orr_shard_update){.lookups = &t->lookups[batch],
                              .gradient = t->bags,
                              .gradient_stride = COLUMNS,
                              .by = by,
                              .seed = 1,
                              .table_columns = COLUMNS};
}

static orr_status make_table(table *t, const orr_timing *timing, int64_t rows, uint8_t format,
                             orr_error *err)
{
    const int64_t row_bytes = orr_row_format_bytes((orr_row_format)format, COLUMNS);
    orr_arena_reset(timing->room);
    *t = (table){.store = {.rows = rows,
                           .columns = COLUMNS,
                           .format = format,
                           .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD,
                           .record_bytes = row_bytes,
                           .state_bytes = sizeof(float)},
                 .shard = {.range_end = ORR_EMBEDDING_RANGES, .column_end = COLUMNS}};
    t->store.base = orr_arena_alloc(timing->room, (size_t)(rows * row_bytes), 1, 64);
    t->store.states = orr_arena_alloc(timing->room, (size_t)rows * sizeof(float), 1, 64);
    t->ids = orr_arena_array(timing->room, int64_t, (size_t)BATCHES * LOOKUPS);
    t->bags = orr_arena_array(timing->room, float, (size_t)SAMPLES *COLUMNS);
    if (t->store.base == NULL || t->store.states == NULL || t->ids == NULL || t->bags == NULL)
        return orr_fail_memory(err);
    memset(t->store.base, 0x3c, (size_t)(rows * row_bytes));
    memset(t->store.states, 0, (size_t)rows * sizeof(float));
    draw_ids(t);
    for (int s = 0; s < SAMPLES; s++)
        t->lengths[s] = POOLING;
    for (int b = 0; b < BATCHES; b++)
        t->lookups[b] = (orr_shard_lookups){.store = &t->store,
                                            .shard = &t->shard,
                                            .table_rows = rows,
                                            .samples = SAMPLES,
                                            .n = LOOKUPS,
                                            .lengths = t->lengths,
                                            .ids = t->ids + (int64_t)b * LOOKUPS};
    const orr_update by = {.step = 1, .gradient_scale = 1};
    const orr_shard_update update = update_of(t, 0, &by);
    const size_t of_update = orr_shard_update_bytes(&update),
                 of_sums = orr_shard_bag_bytes(&t->lookups[0], timing->workers);
    t->workspace = orr_arena_alloc(timing->room, of_update > of_sums ? of_update : of_sums, 1, 64);
    return t->workspace != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status work(table *t, bool update, int batch, orr_workers *workers, orr_error *err)
{
    const orr_update by = {.rate = 1e-6, .epsilon = 1e-8, .step = 1, .gradient_scale = 1};
    if (!update)
        return orr_shard_bag_sums(&t->lookups[batch], t->bags, COLUMNS, t->workspace, workers, err);
    const orr_shard_update u = update_of(t, batch, &by);
    return orr_shard_update_run(&u, t->workspace, workers, err);
}

/* Batches in turn, so that a large table's rows are found in memory. */
static orr_status time_table(const orr_timing *timing, table *t, bool update,
                             orr_measured_table *ret, orr_error *err)
{
    int64_t ns[RUNS_MAX], all = 0;
    uint32_t n = 0;
    for (int b = 0; b < BATCHES; b++)
        ORR_TRY(work(t, update, b, timing->workers, err));
    while (n < RUNS_MAX && (n < BATCHES || all < timing->least_ns)) {
        const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        ORR_TRY(work(t, update, (int)(n % BATCHES), timing->workers, err));
        ns[n] = orr_clock_now_ns(&orr_clock_monotonic) - began;
        all += ns[n++];
    }
    *ret = (orr_measured_table){.update = update,
                                .format = t->store.format,
                                .optimizer = t->store.optimizer,
                                .threads = timing->threads,
                                .columns = COLUMNS,
                                .rows = t->store.rows,
                                .samples = SAMPLES,
                                .lookups = LOOKUPS};
    ret->ns = orr_median_of(ns, n, &ret->spread);
    return ORR_OK;
}

orr_status orr_measure_table_rates(const orr_timing *timing, bool quick, orr_measured_table *ret,
                                   uint32_t *n, orr_error *err)
{
    static const uint8_t formats[] = {ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_BF16};
    const int64_t caches = quick ? LARGE_CACHES / 2 : LARGE_CACHES,
                  large = caches * timing->cache_bytes / (COLUMNS * (int64_t)sizeof(float));
    const int64_t rows[] = {SMALL_ROWS, large > SMALL_ROWS ? large : 2 * SMALL_ROWS};
    table t;
    for (int f = 0; f < 2; f++)
        for (int r = 0; r < 2; r++) {
            ORR_TRY(make_table(&t, timing, rows[r], formats[f], err));
            for (int update = 0; update <= 1; update++)
                ORR_TRY(time_table(timing, &t, update, &ret[(*n)++], err));
        }
    return ORR_OK;
}
