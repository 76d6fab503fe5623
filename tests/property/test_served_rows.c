/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/seeds.h"
#include "support/served_tables.h"

/* Tables of every format, served from a snapshot with caches of any size: the bits of training's
 * sums in memory, cold and warm, as stored and dequantized, pooled or not, updated, swapped. */
enum { ROUNDS = 6, SAMPLES_MAX = 60, TABLES = 4 };

static void must(orr_status status, const orr_error *err, uint64_t seed)
{
    if (status != ORR_OK)
        seed_fail(seed, "%s", err->text);
}

typedef struct serve_case {
    uint64_t seed;
    orr_random random;
    served_tables tables;
    orr_row_server_options options;
    char path[300], other[300], trace[320];
    orr_row_server *server;
    orr_row_reader *reader;
} serve_case;

static uint64_t below(serve_case *c, uint64_t bound)
{
    return orr_random_below(&c->random, bound);
}

static void draw_tables(serve_case *c)
{
    static const orr_row_format FORMATS[] = {ORR_ROW_FORMAT_FP32, ORR_ROW_FORMAT_FP16,
                                             ORR_ROW_FORMAT_BF16, ORR_ROW_FORMAT_INT8,
                                             ORR_ROW_FORMAT_INT4};
    static const uint32_t COLUMNS[] = {1, 8, 16, 20, 33, 64, 128, 400};
    for (uint32_t i = 0; i < TABLES; i++)
        served_table_add(&c->tables, FORMATS[(c->seed + i) % 5],
                         below(c, 3) == 0 ? 1 + (int64_t)below(c, 255)
                                          : 256 + (int64_t)below(c, 3000),
                         COLUMNS[below(c, 8)]);
    served_tables_fill(&c->tables, &c->random);
}

static void open_reader(serve_case *c)
{
    orr_error err;
    must(orr_row_reader_open(c->server, &c->reader, &err), &err, c->seed);
}

static void case_begin(serve_case *c, uint64_t seed)
{
    orr_error err;
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->random = orr_random_of(seed, 3);
    draw_tables(c);
    c->options = (orr_row_server_options){
        .cache_bytes = below(c, 4) == 0 ? 0 : below(c, 200000) * (1 + 9 * below(c, 2)),
        .pooled_bytes = below(c, 3) == 0 ? 0 : below(c, 300000),
        .dequantize_on_load = below(c, 2) != 0,
        .depth = 1 + (uint32_t)below(c, 40),
        .plain = below(c, 2) != 0,
    };
    served_path(c->path, sizeof c->path, "served_rows");
    served_path(c->other, sizeof c->other, "served_rows_next");
    snprintf(c->trace, sizeof c->trace, "%s.lookups", c->path);
    must(orr_row_snapshot_pack(c->path, &c->tables.facts, served_rows, &c->tables, &err), &err,
         seed);
    must(orr_row_server_open(c->path, &c->tables.facts, &c->options, &c->server, &err), &err, seed);
    open_reader(c);
}

static void case_end(serve_case *c)
{
    orr_row_reader_close(c->reader);
    orr_row_server_close(c->server);
    served_tables_done(&c->tables);
    (void)unlink(c->path);
    (void)unlink(c->other);
    (void)unlink(c->trace);
}

/* Lookups in one table; some bags come again, in the same order of sums or another. */
typedef struct bag_set {
    orr_row_bags bags;
    int32_t lengths[SAMPLES_MAX];
    int64_t *ids;
    float *sums;
} bag_set;

static void swap_two(int64_t *ids, uint64_t a, uint64_t b)
{
    const int64_t id = ids[a];
    ids[a] = ids[b];
    ids[b] = id;
}

static void draw_bags(serve_case *c, bag_set *set, uint32_t table)
{
    static const uint64_t MOST[] = {4, 16, 40, 300};
    const orr_row_shard *s = &c->tables.shard[table];
    const uint64_t most = MOST[below(c, 4)], hot = 1 + below(c, (uint64_t)s->rows);
    set->bags = (orr_row_bags){.table = table, .samples = (int64_t)below(c, SAMPLES_MAX + 1)};
    set->ids = orr_calloc(SAMPLES_MAX * 300, sizeof *set->ids);
    int64_t *to = set->ids;
    for (int64_t i = 0; i < set->bags.samples; i++) {
        int32_t n = (int32_t)below(c, most + 1);
        if (i > 0 && below(c, 3) == 0) {
            n = set->lengths[i - 1];
            memcpy(to, to - n, (size_t)n * sizeof *to);
            if (n > 1 && below(c, 2) == 0)
                swap_two(to, below(c, (uint64_t)n), below(c, (uint64_t)n));
        } else
            for (int32_t k = 0; k < n; k++)
                to[k] = (int64_t)(below(c, 2) ? below(c, (uint64_t)s->rows)
                                              : below(c, hot) % (uint64_t)s->rows);
        set->lengths[i] = n;
        to += n;
    }
    set->bags.lengths = set->lengths;
    set->bags.ids = set->ids;
    set->bags.ret_stride = s->table_columns + below(c, 3);
    set->sums = orr_calloc((size_t)set->bags.ret_stride * SAMPLES_MAX + 1, sizeof *set->sums);
    set->bags.ret = set->sums;
}

static void compare(serve_case *c, const bag_set *set, const char *when)
{
    orr_error err;
    const orr_row_shard *s = &c->tables.shard[set->bags.table];
    const size_t columns = s->table_columns;
    float *want = orr_calloc(SAMPLES_MAX * columns, sizeof *want);
    must(served_sums(&c->tables, &set->bags, want, &err), &err, c->seed);
    for (int64_t i = 0; i < set->bags.samples; i++)
        if (memcmp(want + (size_t)i * columns, set->sums + i * set->bags.ret_stride,
                   columns * sizeof *want) != 0)
            seed_fail(c->seed, "%s: table %s (%s, %u columns), sample %lld differs", when, s->table,
                      orr_row_format_name((orr_row_format)s->format), s->table_columns,
                      (long long)i);
    orr_free(want);
}

static void look_up(serve_case *c, const char *when)
{
    bag_set set[TABLES + 2];
    orr_row_bags bags[TABLES + 2];
    orr_error err;
    for (uint32_t i = 0; i < TABLES + 2; i++) {
        draw_bags(c, &set[i], i < TABLES ? i : (uint32_t)below(c, TABLES));
        bags[i] = set[i].bags;
    }
    for (int again = 0; again < 3; again++) {
        must(orr_row_reader_bags(c->reader, bags, TABLES + 2, &err), &err, c->seed);
        for (uint32_t i = 0; i < TABLES + 2; i++)
            compare(c, &set[i], when);
    }
    for (uint32_t i = 0; i < TABLES + 2; i++) {
        orr_free(set[i].ids);
        orr_free(set[i].sums);
    }
}

static void update(serve_case *c)
{
    const uint32_t table = (uint32_t)below(c, TABLES),
                   columns = c->tables.shard[table].table_columns;
    const int64_t n = 1 + (int64_t)below(c, 60);
    const uint32_t row_bytes = c->tables.shard[table].row_bytes;
    int64_t rows[60];
    char *records = orr_calloc((size_t)n, row_bytes);
    orr_error err;
    for (int64_t i = 0; i < n; i++) {
        float numbers[400];
        rows[i] = (int64_t)below(c, (uint64_t)c->tables.shard[table].rows);
        for (uint32_t j = 0; j < columns; j++)
            numbers[j] = (float)(2 * orr_random_unit(&c->random) - 1);
        served_row_set(&c->tables, table, rows[i], numbers);
        memcpy(records + i * row_bytes, c->tables.rows[table] + rows[i] * row_bytes, row_bytes);
    }
    must(orr_row_server_update(c->server, table, rows, n, records, &err), &err, c->seed);
    if (below(c, 3) == 0)
        must(orr_row_server_sync(c->server, &err), &err, c->seed);
    orr_free(records);
}

static void same_bits(void **state)
{
    (void)state;
    const seed_range range = seeds(30);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        serve_case c;
        orr_error err;
        case_begin(&c, seed);
        for (int round = 0; round < ROUNDS; round++) {
            look_up(&c, "read");
            update(&c);
            look_up(&c, "updated");
        }
        must(orr_row_server_sync(c.server, &err), &err, seed);
        const orr_row_server_stats stats = orr_row_server_stats_of(c.server, UINT32_MAX);
        assert_true(stats.hits <= stats.lookups && stats.pooled_hits <= stats.pooled_lookups);
        assert_true(stats.lookups - stats.hits >= stats.reads);
        assert_true(stats.bytes_written > 0 && stats.updates > 0);
        case_end(&c);
    }
}

/* What was synced is there when it is opened again. */
static void durable(void **state)
{
    (void)state;
    const seed_range range = seeds(8);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        serve_case c;
        orr_error err;
        case_begin(&c, seed);
        for (int round = 0; round < 3; round++) {
            for (int i = 0; i < 5; i++)
                update(&c);
            must(orr_row_server_sync(c.server, &err), &err, seed);
            orr_row_reader_close(c.reader);
            orr_row_server_close(c.server);
            c.options.read_only = round == 2;
            must(orr_row_server_open(c.path, NULL, &c.options, &c.server, &err), &err, seed);
            open_reader(&c);
            look_up(&c, "opened again");
        }
        assert_int_equal(orr_row_server_update(c.server, 0, (int64_t[]){0}, 1, "", &err),
                         ORR_INVALID);
        case_end(&c);
    }
}

/* The next snapshot has other numbers. */
static void swapped(void **state)
{
    (void)state;
    const seed_range range = seeds(8);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        serve_case c;
        orr_error err;
        case_begin(&c, seed);
        look_up(&c, "first");
        served_tables_fill(&c.tables, &c.random);
        must(orr_row_snapshot_pack(c.other, &c.tables.facts, served_rows, &c.tables, &err), &err,
             seed);
        must(orr_row_server_swap(c.server, c.other, &err), &err, seed);
        look_up(&c, "second");
        update(&c);
        look_up(&c, "second, updated");
        assert_int_equal(orr_row_server_stats_of(c.server, UINT32_MAX).swaps, 1);
        case_end(&c);
    }
}

/* Rows that a recording asked for are in the cache, if it has room for all. */
static void warmed(void **state)
{
    (void)state;
    const seed_range range = seeds(8);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        serve_case c;
        orr_error err;
        bag_set set;
        case_begin(&c, seed);
        must(orr_row_server_record(c.server, c.trace, &err), &err, seed);
        draw_bags(&c, &set, 1);
        must(orr_row_reader_bags(c.reader, &set.bags, 1, &err), &err, seed);
        must(orr_row_server_record(c.server, NULL, &err), &err, seed);
        orr_row_reader_close(c.reader);
        orr_row_server_close(c.server);
        c.options.cache_bytes = 64 << 20;
        c.options.pooled_bytes = 0;
        must(orr_row_server_open(c.path, NULL, &c.options, &c.server, &err), &err, seed);
        must(orr_row_server_warm(c.server, c.trace, &err), &err, seed);
        open_reader(&c);
        must(orr_row_reader_bags(c.reader, &set.bags, 1, &err), &err, seed);
        compare(&c, &set, "warm");
        const orr_row_server_stats stats = orr_row_server_stats_of(c.server, 1);
        assert_int_equal(stats.hits, stats.lookups);
        orr_free(set.ids);
        orr_free(set.sums);
        case_end(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(same_bits), cmocka_unit_test(durable),
                                       cmocka_unit_test(swapped), cmocka_unit_test(warmed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
