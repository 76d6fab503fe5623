/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "support/seeds.h"
#include "support/served_tables.h"

/* Readers of rows that a writer updates, commits and swaps meanwhile, with caches of a few rows.
 * Each row says which row it is and how often it was updated, in every number, so a row that is
 * half one and half the other is seen; and readers hold it against what the writer had finished
 * before they began, and begun before they ended. */
enum { ROWS = 700, COLUMNS = 24, READERS = 8, ROUNDS = 60, BAGS = 40, TABLES = 2 };

/* liburing maps rings by system calls that the thread sanitizer does not see: a ring where another
 * thread had one looks like a race. */
#if defined __SANITIZE_THREAD__
#define NO_RINGS true
#elif defined __has_feature
#if __has_feature(thread_sanitizer)
#define NO_RINGS true
#endif
#endif
#ifndef NO_RINGS
#define NO_RINGS false
#endif

typedef struct shared_case {
    uint64_t seed;
    orr_row_server *server;
    served_tables tables;
    char path[2][300];
    _Atomic uint32_t begun[TABLES][ROWS], done[TABLES][ROWS];
    _Atomic bool stop;
    _Atomic uint32_t torn, stale, failed;
    char text[512];
} shared_case;

/* Exact in FP16: all numbers are whole and below 2048. */
static float number_of(int64_t row, uint32_t version, uint32_t column)
{
    return (float)((row * 31 + version * 7 + column) % 1024);
}

static void set_numbers(int64_t row, uint32_t version, float *ret)
{
    for (uint32_t j = 0; j < COLUMNS; j++)
        ret[j] = number_of(row, version, j);
}

static bool is_sum(const float *numbers, int64_t row, uint32_t v, uint32_t w, bool twice)
{
    for (uint32_t j = 0; j < COLUMNS; j++)
        if (numbers[j] != number_of(row, v, j) + (twice ? number_of(row, w, j) : 0))
            return false;
    return true;
}

/* The numbers are those of versions from `oldest` on; each of two lookups may see another one. */
static bool is_of_versions(const float *numbers, int64_t row, uint32_t oldest, uint32_t newest,
                           bool twice)
{
    for (uint32_t v = oldest; v <= newest; v++)
        for (uint32_t w = v; w <= (twice ? newest : v); w++)
            if (is_sum(numbers, row, v, w, twice))
                return true;
    return false;
}

/* Bags of one row, or of twice a row, which the cache of pooled embeddings has at times. */
static void check_bag(shared_case *c, uint32_t table, int64_t row, uint32_t oldest,
                      const float *numbers, bool twice)
{
    const uint32_t newest = atomic_load(&c->begun[table][row]);
    if (is_of_versions(numbers, row, oldest, newest, twice))
        return;
    atomic_fetch_add(is_of_versions(numbers, row, 0, newest, twice) ? &c->stale : &c->torn, 1);
}

static void *read_rows(void *ctx)
{
    shared_case *c = ctx;
    static _Atomic uint64_t stream;
    orr_random random = orr_random_of(c->seed, 100 + atomic_fetch_add(&stream, 1));
    orr_row_reader *reader;
    orr_error err;
    if (orr_row_reader_open(c->server, &reader, &err) != ORR_OK) {
        atomic_fetch_add(&c->failed, 1);
        return NULL;
    }
    while (!atomic_load(&c->stop) && atomic_load(&c->failed) == 0) {
        int32_t lengths[TABLES][BAGS];
        int64_t ids[TABLES][2 * BAGS], rows[TABLES][BAGS];
        uint32_t oldest[TABLES][BAGS];
        float sums[TABLES][BAGS * COLUMNS];
        orr_row_bags bags[TABLES];
        for (uint32_t t = 0; t < TABLES; t++) {
            int64_t *to = ids[t];
            for (int i = 0; i < BAGS; i++) {
                const uint64_t most = orr_random_below(&random, 2) ? ROWS : 20;
                rows[t][i] = (int64_t)orr_random_below(&random, most);
                lengths[t][i] = 1 + (int32_t)orr_random_below(&random, 2);
                for (int32_t k = 0; k < lengths[t][i]; k++)
                    *to++ = rows[t][i];
                oldest[t][i] = atomic_load(&c->done[t][rows[t][i]]);
            }
            bags[t] = (orr_row_bags){t, BAGS, lengths[t], ids[t], sums[t], COLUMNS};
        }
        if (orr_row_reader_bags(reader, bags, TABLES, &err) != ORR_OK) {
            if (atomic_fetch_add(&c->failed, 1) == 0)
                memcpy(c->text, err.text, sizeof c->text);
            break;
        }
        for (uint32_t t = 0; t < TABLES; t++)
            for (int i = 0; i < BAGS; i++)
                check_bag(c, t, rows[t][i], oldest[t][i], sums[t] + i * COLUMNS,
                          lengths[t][i] == 2);
    }
    orr_row_reader_close(reader);
    return NULL;
}

static void update(shared_case *c, orr_random *random)
{
    const uint32_t table = (uint32_t)orr_random_below(random, TABLES);
    const uint32_t row_bytes = c->tables.shard[table].row_bytes;
    int64_t rows[16];
    char records[16 * COLUMNS * 4];
    orr_error err;
    const int64_t n = 1 + (int64_t)orr_random_below(random, 16);
    const uint64_t first = orr_random_below(random, 2) ? orr_random_below(random, ROWS - 16) : 0;
    for (int64_t i = 0; i < n; i++) {
        float numbers[COLUMNS];
        rows[i] = (int64_t)first + i;
        set_numbers(rows[i], atomic_fetch_add(&c->begun[table][rows[i]], 1) + 1, numbers);
        served_row_set(&c->tables, table, rows[i], numbers);
        memcpy(records + i * row_bytes, c->tables.rows[table] + rows[i] * row_bytes, row_bytes);
    }
    if (orr_row_server_update(c->server, table, rows, n, records, &err) != ORR_OK)
        seed_fail(c->seed, "%s", err.text);
    for (int64_t i = 0; i < n; i++)
        atomic_fetch_add(&c->done[table][rows[i]], 1);
}

static void write_rows(shared_case *c)
{
    orr_random random = orr_random_of(c->seed, 1);
    orr_error err = {.text = ""};
    int which = 0;
    for (int round = 0; round < ROUNDS && atomic_load(&c->failed) == 0; round++) {
        for (int i = 0; i < 8; i++)
            update(c, &random);
        if (round % 3 == 0 && orr_row_server_sync(c->server, &err) != ORR_OK)
            seed_fail(c->seed, "%s", err.text);
        if (round % 15 == 14) { /* the same numbers in another file */
            which = 1 - which;
            if (orr_row_snapshot_pack(c->path[which], &c->tables.facts, served_rows, &c->tables,
                                      &err) != ORR_OK ||
                orr_row_server_swap(c->server, c->path[which], &err) != ORR_OK)
                seed_fail(c->seed, "%s", err.text);
        }
    }
}

static void run_case(uint64_t seed)
{
    static shared_case c;
    pthread_t threads[READERS];
    orr_error err = {.text = ""};
    memset((void *)&c, 0, sizeof c);
    c.seed = seed;
    served_path(c.path[0], sizeof c.path[0], "served_updates");
    served_path(c.path[1], sizeof c.path[1], "served_updates_next");
    for (uint32_t t = 0; t < TABLES; t++) {
        served_table_add(&c.tables, t == 0 ? ORR_ROW_FORMAT_FP32 : ORR_ROW_FORMAT_FP16, ROWS,
                         COLUMNS);
        for (int64_t r = 0; r < ROWS; r++) {
            float numbers[COLUMNS];
            set_numbers(r, 0, numbers);
            served_row_set(&c.tables, t, r, numbers);
        }
    }
    const orr_row_server_options options = {.cache_bytes = seed % 3 == 0 ? 0 : 20000,
                                            .pooled_bytes = seed % 2 == 0 ? 40000 : 0,
                                            .dequantize_on_load = seed % 4 < 2,
                                            .depth = 8,
                                            .plain = seed % 2 == 0 || NO_RINGS};
    if (orr_row_snapshot_pack(c.path[0], &c.tables.facts, served_rows, &c.tables, &err) != ORR_OK ||
        orr_row_server_open(c.path[0], NULL, &options, &c.server, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_rows, &c), 0);
    write_rows(&c);
    atomic_store(&c.stop, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    const orr_row_server_stats stats = orr_row_server_stats_of(c.server, UINT32_MAX);
    orr_row_server_close(c.server);
    served_tables_done(&c.tables);
    (void)unlink(c.path[0]);
    (void)unlink(c.path[1]);
    if (c.failed > 0)
        seed_fail(seed, "%s", c.text);
    if (c.torn > 0 || c.stale > 0)
        seed_fail(seed, "%u rows torn, %u stale", c.torn, c.stale);
    assert_true(stats.lookups > 0 && stats.hits > 0 && stats.reads > 0 && stats.swaps > 0);
    assert_true(seed % 2 == 1 || stats.pooled_hits > 0);
}

static void readers_and_a_writer(void **state)
{
    (void)state;
    const seed_range range = seeds(6);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        run_case(seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(readers_and_a_writer)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
