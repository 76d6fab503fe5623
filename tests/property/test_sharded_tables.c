/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "base/workers.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"
#include "support/naive_tables.h"
#include "support/seeds.h"

/* Tables in every format, with every optimizer, in shards of rows and columns, on some threads and
 * CPU levels: near a naive version in doubles, and of the same bits however they are sharded. */
enum { STEPS = 2, SHARDS_MAX = 15, THREADS_MAX = 3 };

static orr_workers *all_workers[THREADS_MAX + 1];

/* A table and its lookups, the same in each step. */
typedef struct bag_case {
    uint64_t seed;
    orr_random random;
    orr_embedding table;
    int64_t samples, n;
    int32_t *lengths;
    int64_t *ids;
    float *gradient; /* shape (samples, columns) */
    float *initial;  /* shape (rows, columns), as the format has them */
    double scale;
} bag_case;

static int64_t below(bag_case *c, uint64_t bound)
{
    return (int64_t)orr_random_below(&c->random, bound);
}

/* In (-1, 1); some are zeros of either sign. */
static float number(bag_case *c)
{
    const float value = (float)(2 * orr_random_unit(&c->random) - 1);
    return below(c, 50) == 0 ? value * 0 : value;
}

static void draw_lookups(bag_case *c)
{
    static const int64_t MOST[] = {12, 12, 60, 400}; /* kernels differ by the length of bags */
    const int64_t hot = below(c, (uint64_t)c->table.rows), most = MOST[below(c, 4)];
    const bool fixed = below(c, 2);
    c->lengths = orr_calloc((size_t)c->samples, sizeof *c->lengths);
    for (int64_t s = 0; s < c->samples; s++) {
        c->lengths[s] = fixed ? (int32_t)most : (int32_t)below(c, (uint64_t)most);
        c->n += c->lengths[s];
    }
    c->ids = orr_calloc((size_t)c->n + 1, sizeof *c->ids);
    for (int64_t i = 0; i < c->n; i++)
        c->ids[i] = below(c, 5) == 0 ? hot : below(c, (uint64_t)c->table.rows);
}

static void case_begin(bag_case *c, uint64_t seed)
{
    static const uint32_t COLUMNS[] = {1, 7, 16, 20, 33, 64, 80, 100, 128};
    static const orr_row_format FORMATS[] = {ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_FP16,
                                             ORR_ROW_FORMAT_BF16, ORR_ROW_FORMAT_INT8,
                                             ORR_ROW_FORMAT_INT4};
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->random = orr_random_of(seed, 7);
    c->table.rows = below(c, 3) == 0 ? 1 + below(c, 255) : 256 + below(c, 3000);
    c->table.columns = COLUMNS[below(c, sizeof COLUMNS / sizeof *COLUMNS)];
    c->table.format = (uint8_t)FORMATS[seed % 5];
    c->table.optimizer = (uint8_t)(seed / 5 % ORR_ROW_OPTIMIZERS);
    c->samples = 1 + below(c, 150);
    c->scale = below(c, 2) ? 1 : 0.25;
    draw_lookups(c);
    const int64_t columns = c->table.columns;
    const orr_row_format format = (orr_row_format)c->table.format;
    c->gradient = orr_calloc((size_t)(c->samples * columns), sizeof *c->gradient);
    c->initial = orr_calloc((size_t)(c->table.rows * columns), sizeof *c->initial);
    for (int64_t i = 0; i < c->samples * columns; i++)
        c->gradient[i] = number(c);
    for (int64_t i = 0; i < c->table.rows * columns; i++)
        c->initial[i] = number(c);
    char *bytes = orr_calloc(1, (size_t)orr_row_format_bytes(format, columns));
    for (int64_t r = 0; r < c->table.rows && format < ORR_ROW_FORMAT_INT8; r++) {
        orr_row_from_fp32(format, c->initial + r * columns, columns, bytes);
        orr_row_to_fp32(format, bytes, columns, c->initial + r * columns);
    }
    orr_free(bytes);
}

static void case_end(bag_case *c)
{
    orr_free(c->lengths);
    orr_free(c->ids);
    orr_free(c->gradient);
    orr_free(c->initial);
}

/* A shard with its store and its own lookups; slot k has row k, or rows are in any slots of more
 * than there are rows, of which others hold rows of nobody. */
typedef struct shard_case {
    orr_embedding_shard shard;
    orr_row_store store;
    char *data, *states;
    int64_t *slot_of; /* shape (rows); NULL: slot k has row k */
    uint64_t *owner;
    uint32_t *slots;
    orr_shard_lookups lookups;
    int32_t *lengths;
    int64_t *ids;
    float *bags, *squares; /* sums of subtrees; squares of blocks that it gave */
    int64_t rows;          /* of them */
    uint32_t blocks;
} shard_case;

static int64_t slot_of(const shard_case *s, int64_t row)
{
    return s->slot_of != NULL ? s->slot_of[row] : row;
}

/* Rows in random slots. The upper bits of owners are the cache's. */
static void draw_slots(bag_case *c, shard_case *s)
{
    const int64_t rows = s->store.rows;
    s->store.slots = rows + (int64_t)below(c, (uint64_t)rows + 20) + 1;
    s->owner = orr_calloc((size_t)s->store.slots, sizeof *s->owner);
    s->slot_of = orr_calloc((size_t)rows + 1, sizeof *s->slot_of);
    for (int64_t k = 0; k < s->store.slots; k++)
        s->owner[k] = (uint64_t)k;
    for (int64_t k = s->store.slots - 1; k > 0; k--) {
        const int64_t other = (int64_t)below(c, (uint64_t)k + 1);
        const uint64_t moved = s->owner[k];
        s->owner[k] = s->owner[other];
        s->owner[other] = moved;
    }
    for (int64_t k = 0; k < s->store.slots; k++) {
        if (s->owner[k] < (uint64_t)rows)
            s->slot_of[s->owner[k]] = k;
        s->owner[k] |= (uint64_t)below(c, 1 << 16) << 48;
    }
    s->store.owner = s->owner;
    s->slots = orr_calloc((size_t)s->lookups.n + 1, sizeof *s->slots);
    for (int64_t i = 0; i < s->lookups.n; i++)
        s->slots[i] = (uint32_t)s->slot_of[s->ids[i]];
    s->lookups.slots = s->slots;
}

static void make_store(bag_case *c, shard_case *s, bool in_order)
{
    const int64_t columns = s->shard.column_end - s->shard.column_begin, rows = s->store.rows;
    s->store = (orr_row_store){
        .rows = rows,
        .columns = columns,
        .format = c->table.format,
        .optimizer = c->table.optimizer,
        .record_bytes = orr_row_format_bytes((orr_row_format)c->table.format, columns),
        .state_bytes = orr_row_optimizer_bytes((orr_row_optimizer)c->table.optimizer, columns)};
    if (!in_order)
        draw_slots(c, s);
    const size_t slots = (size_t)(in_order ? rows : s->store.slots) + 1;
    s->data = orr_calloc(slots, (size_t)s->store.record_bytes);
    s->states = orr_calloc(slots, (size_t)s->store.state_bytes + 1);
    s->store.base = s->data;
    s->store.states = s->store.state_bytes > 0 ? s->states : NULL;
    for (int64_t r = 0; r < rows; r++)
        orr_row_from_fp32((orr_row_format)c->table.format,
                          c->initial + (s->lookups.first_row + r) * c->table.columns +
                              s->shard.column_begin,
                          columns, s->data + slot_of(s, r) * s->store.record_bytes);
}

static void shard_begin(bag_case *c, shard_case *s, const orr_embedding_shard *shard)
{
    const int64_t first = orr_embedding_range_begin(c->table.rows, shard->range_begin),
                  end = orr_embedding_range_begin(c->table.rows, shard->range_end);
    memset(s, 0, sizeof *s);
    s->shard = *shard;
    s->store.rows = end - first;
    s->lengths = orr_calloc((size_t)c->samples, sizeof *s->lengths);
    s->ids = orr_calloc((size_t)c->n + 1, sizeof *s->ids);
    s->lookups = (orr_shard_lookups){.store = &s->store,
                                     .shard = &s->shard,
                                     .table_rows = c->table.rows,
                                     .first_row = first,
                                     .samples = c->samples,
                                     .lengths = s->lengths,
                                     .ids = s->ids};
    for (int64_t b = 0, i = 0; b < c->samples; b++)
        for (int32_t k = 0; k < c->lengths[b]; k++, i++)
            if (c->ids[i] >= first && c->ids[i] < end) {
                s->ids[s->lookups.n++] = c->ids[i] - first;
                s->lengths[b]++;
            }
    make_store(c, s, below(c, 2));
}

static void shard_end(shard_case *s)
{
    orr_free(s->slot_of);
    orr_free(s->owner);
    orr_free(s->slots);
    orr_free(s->data);
    orr_free(s->states);
    orr_free(s->lengths);
    orr_free(s->ids);
    orr_free(s->bags);
    orr_free(s->squares);
}

/* A table in shards, by column, then by row. */
typedef struct sharded {
    bag_case *c;
    uint32_t row_parts, column_parts, n;
    shard_case shards[SHARDS_MAX];
    uint32_t now;   /* of the columns whose squares are summed */
    bool collected; /* squares of all shards */
} sharded;

static void sharded_begin(sharded *t, bag_case *c, uint32_t row_parts, uint32_t column_parts)
{
    const uint32_t columns = c->table.columns;
    *t = (sharded){.c = c, .row_parts = row_parts, .column_parts = column_parts};
    for (uint32_t p = 0; p < column_parts; p++)
        for (uint32_t r = 0; r < row_parts; r++) {
            const orr_embedding_shard shard = {
                .table = 3,
                .range_begin = orr_embedding_range_split(row_parts, r),
                .range_end = orr_embedding_range_split(row_parts, r + 1),
                .column_begin = orr_embedding_column_split(columns, column_parts, p),
                .column_end = orr_embedding_column_split(columns, column_parts, p + 1)};
            shard_begin(c, &t->shards[t->n++], &shard);
        }
}

static void sharded_end(sharded *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        shard_end(&t->shards[i]);
}

static orr_workers *draw_threads(bag_case *c)
{
    orr_cpu_level_limit((orr_cpu_level_id)below(c, ORR_CPU_LEVELS));
    return all_workers[1 + below(c, THREADS_MAX)];
}

/* The bags of all shards, joined: `ret`, shape (samples, columns). */
static void sharded_bags(sharded *t, float *ret)
{
    bag_case *c = t->c;
    for (uint32_t i = 0; i < t->n; i++) {
        shard_case *s = &t->shards[i];
        orr_range_subtree subtrees[ORR_SHARD_SUBTREES_MAX];
        const uint32_t n = orr_shard_subtrees(&s->shard, subtrees);
        orr_free(s->bags);
        s->bags = orr_malloc((size_t)(c->samples * n * s->store.columns) * sizeof(float) + 1);
        orr_workers *workers = draw_threads(c);
        void *workspace = orr_malloc_aligned(orr_shard_bag_bytes(&s->lookups, workers));
        assert_int_equal(orr_shard_bag_sums(&s->lookups, s->bags, n * s->store.columns, workspace,
                                            workers, NULL),
                         ORR_OK);
        orr_free(workspace);
    }
    for (int64_t b = 0; b < c->samples; b++)
        for (uint32_t p = 0; p < t->column_parts; p++) {
            orr_range_subtree subtrees[SHARDS_MAX * ORR_SHARD_SUBTREES_MAX];
            const float *parts[SHARDS_MAX * ORR_SHARD_SUBTREES_MAX];
            uint32_t n = 0;
            const shard_case *first = &t->shards[p * t->row_parts];
            const int64_t columns = first->store.columns;
            for (uint32_t r = 0; r < t->row_parts; r++) {
                const shard_case *s = first + r;
                const uint32_t each = orr_shard_subtrees(&s->shard, subtrees + n);
                for (uint32_t k = 0; k < each; k++)
                    parts[n + k] = s->bags + (b * each + k) * columns;
                n += each;
            }
            orr_join_subtrees(subtrees, parts, n, columns,
                              ret + b * c->table.columns + first->shard.column_begin);
        }
}

/* Squares of all columns of a row part, from those that its shards gave; the first time they are
 * collected, and the update ends. */
static orr_status sum_squares(void *ctx, const float *squares, int64_t rows, uint32_t blocks,
                              float *ret, orr_error *err)
{
    sharded *t = ctx;
    shard_case *s = &t->shards[t->now];
    if (!t->collected) {
        orr_free(s->squares);
        s->squares = orr_malloc((size_t)(rows * blocks) * sizeof *squares + 1);
        memcpy(s->squares, squares, (size_t)(rows * blocks) * sizeof *squares);
        s->rows = rows;
        s->blocks = blocks;
        return orr_fail(err, ORR_CANCELED, "squares are collected first");
    }
    assert_int_equal(rows, s->rows);
    for (int64_t r = 0; r < rows; r++) {
        float all[16];
        uint32_t n = 0;
        for (uint32_t p = 0; p < t->column_parts; p++) {
            const shard_case *part = &t->shards[p * t->row_parts + t->now % t->row_parts];
            assert_int_equal(part->rows, rows);
            for (uint32_t b = 0; b < part->blocks; b++)
                all[n++] = part->squares[r * part->blocks + b];
        }
        ret[r] = orr_sum_blocks(all, n);
    }
    return ORR_OK;
}

static orr_update update_of(const bag_case *c, int64_t step)
{
    return (orr_update){.rate = 0.05,
                        .beta1 = 0.9,
                        .beta2 = 0.99,
                        .epsilon = 1e-3,
                        .step = step,
                        .gradient_scale = c->scale};
}

static void update_shard(sharded *t, uint32_t i, const orr_update *by)
{
    const bag_case *c = t->c;
    shard_case *s = &t->shards[i];
    const orr_shard_update update = {.lookups = &s->lookups,
                                     .gradient = c->gradient + s->shard.column_begin,
                                     .gradient_stride = c->table.columns,
                                     .by = by,
                                     .seed = c->seed,
                                     .table_columns = c->table.columns,
                                     .sum_squares = t->column_parts > 1 ? sum_squares : NULL,
                                     .ctx = t};
    void *workspace = orr_malloc_aligned(orr_shard_update_bytes(&update) + 1);
    orr_error err;
    t->now = i;
    const orr_status status = orr_shard_update_run(&update, workspace, draw_threads(t->c), &err);
    if (status != ORR_OK && (t->collected || status != ORR_CANCELED))
        seed_fail(c->seed, "%s", err.text);
    orr_free(workspace);
}

static void sharded_update(sharded *t, int64_t step)
{
    const orr_update by = update_of(t->c, step);
    const orr_row_optimizer optimizer = (orr_row_optimizer)t->c->table.optimizer;
    t->collected = false;
    if (t->column_parts > 1 && (optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                                optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM))
        for (uint32_t i = 0; i < t->n; i++)
            update_shard(t, i, &by);
    t->collected = true;
    for (uint32_t i = 0; i < t->n; i++)
        update_shard(t, i, &by);
}

/* Rows of all shards: `ret`, shape (rows, columns). */
static void sharded_rows(const sharded *t, float *ret)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const shard_case *s = &t->shards[i];
        for (int64_t r = 0; r < s->store.rows; r++)
            orr_row_to_fp32((orr_row_format)s->store.format,
                            s->data + slot_of(s, r) * s->store.record_bytes, s->store.columns,
                            ret + (s->lookups.first_row + r) * t->c->table.columns +
                                s->shard.column_begin);
    }
}

static bool trains(const bag_case *c)
{
    return c->table.format < ORR_ROW_FORMAT_INT8;
}

/* Bags before each step and rows after the last: `ret_bags`, shape (STEPS, samples, columns). */
static void run_sharded(bag_case *c, uint32_t row_parts, uint32_t column_parts, float *ret_bags,
                        float *ret_rows)
{
    sharded t;
    sharded_begin(&t, c, row_parts, column_parts);
    for (int64_t step = 1; step <= STEPS; step++) {
        sharded_bags(&t, ret_bags + (step - 1) * c->samples * c->table.columns);
        if (trains(c))
            sharded_update(&t, step);
    }
    sharded_rows(&t, ret_rows);
    sharded_end(&t);
}

static void hold_near(const bag_case *c, const float *got, const double *want, int64_t n,
                      double tolerance, const char *what)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            seed_fail(c->seed, "%s, number %lld of %lld: %.9g, not %.9g", what, (long long)i,
                      (long long)n, (double)got[i], want[i]);
}

/* The error of a number in a step of rounding, up or down: a unit of the last place. */
static double rounding(const bag_case *c)
{
    return c->table.format == ORR_ROW_FORMAT_FP32   ? 2e-5
           : c->table.format == ORR_ROW_FORMAT_FP16 ? 0x1p-10 + 2e-5
                                                    : 0x1p-7 + 2e-5;
}

static void hold_naive(const bag_case *c, const float *bags, const float *rows)
{
    const int64_t columns = c->table.columns, n_bags = c->samples * columns,
                  n_rows = c->table.rows * columns;
    naive_table t = {.rows = c->table.rows,
                     .columns = columns,
                     .optimizer = (orr_row_optimizer)c->table.optimizer,
                     .row = orr_calloc((size_t)n_rows, sizeof(double)),
                     .state = orr_calloc((size_t)(n_rows + c->table.rows), sizeof(double))};
    double *want = orr_calloc((size_t)n_bags, sizeof *want),
           *g = orr_calloc((size_t)n_rows, sizeof *g);
    const orr_row_format format = (orr_row_format)c->table.format;
    char *bytes = orr_calloc(1, (size_t)orr_row_format_bytes(format, columns));
    float *numbers = orr_calloc((size_t)columns, sizeof *numbers);
    for (int64_t r = 0; r < c->table.rows; r++) {
        orr_row_from_fp32(format, c->initial + r * columns, columns, bytes);
        orr_row_to_fp32(format, bytes, columns, numbers);
        for (int64_t j = 0; j < columns; j++)
            t.row[r * columns + j] = (double)numbers[j];
    }
    naive_bags(&t, c->lengths, c->ids, c->samples, want);
    hold_near(c, bags, want, n_bags, 1e-4, "bags");
    for (int64_t step = 1; step <= STEPS && trains(c); step++) {
        const orr_update by = update_of(c, step);
        naive_row_gradients(&t, c->lengths, c->ids, c->samples, c->gradient, c->scale, g);
        bool *seen = orr_calloc((size_t)t.rows, sizeof *seen);
        for (int64_t i = 0; i < c->n; i++)
            seen[c->ids[i]] = true;
        for (int64_t r = 0; r < t.rows; r++)
            if (seen[r])
                naive_row_step(&t, &by, r, g + r * columns);
        orr_free(seen);
    }
    if (trains(c))
        hold_near(c, rows, t.row, n_rows, STEPS * rounding(c), "rows");
    void *all[] = {t.row, t.state, want, g, bytes, numbers};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        orr_free(all[i]);
}

static void one_case(uint64_t seed)
{
    bag_case c;
    case_begin(&c, seed);
    const size_t bags = (size_t)(STEPS * c.samples * c.table.columns),
                 rows = (size_t)(c.table.rows * c.table.columns);
    float *want_bags = orr_calloc(bags, sizeof(float)), *want = orr_calloc(rows, sizeof(float)),
          *got_bags = orr_calloc(bags, sizeof(float)), *got = orr_calloc(rows, sizeof(float));
    run_sharded(&c, 1, 1, want_bags, want);
    hold_naive(&c, want_bags, want);
    const uint32_t most = trains(&c) ? 3 : 1; /* shards of columns of INT8 have their own scales */
    for (uint32_t row_parts = 1; row_parts <= 5; row_parts++)
        for (uint32_t column_parts = 1; column_parts <= most; column_parts++) {
            run_sharded(&c, row_parts, column_parts, got_bags, got);
            if (memcmp(got_bags, want_bags, bags * sizeof *got_bags) != 0)
                seed_fail(seed, "bags of %u by %u parts differ", row_parts, column_parts);
            if (memcmp(got, want, rows * sizeof *got) != 0)
                seed_fail(seed, "rows of %u by %u parts differ", row_parts, column_parts);
        }
    orr_free(want_bags);
    orr_free(want);
    orr_free(got_bags);
    orr_free(got);
    case_end(&c);
}

static void every_sharding_gives_the_same_bits(void **state)
{
    (void)state;
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        one_case(seed);
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static int start(void **state)
{
    (void)state;
    for (int threads = 1; threads <= THREADS_MAX; threads++)
        if (orr_workers_new(threads, &all_workers[threads], NULL) != ORR_OK)
            return -1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    for (int threads = 1; threads <= THREADS_MAX; threads++)
        orr_workers_free(all_workers[threads]);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sharding_gives_the_same_bits),
    };
    return cmocka_run_group_tests(tests, start, end);
}
