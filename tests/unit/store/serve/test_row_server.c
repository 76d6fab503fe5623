/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/stat.h>

#include "../../../property/support/served_tables.h"
#include "store/serve/server.h"

/* Servers of damaged files, of wrong lookups, and with caps. */
enum { ROWS = 600, COLUMNS = 32 };

static char path[300], other[300];
static served_tables tables;

static void pack(void)
{
    orr_error err;
    assert_int_equal(orr_row_snapshot_pack(path, &tables.facts, served_rows, &tables, &err),
                     ORR_OK);
}

static orr_row_server *serve(const orr_row_server_options *options)
{
    orr_row_server *server;
    orr_error err;
    assert_int_equal(orr_row_server_open(path, NULL, options, &server, &err), ORR_OK);
    return server;
}

/* Reads rows first .. first + n - 1 of table 0, in bags of one. */
static orr_status read_rows(orr_row_reader *reader, int64_t first, int64_t n, float *ret,
                            orr_error *err)
{
    int32_t lengths[ROWS];
    int64_t ids[ROWS];
    for (int64_t i = 0; i < n; i++) {
        lengths[i] = 1;
        ids[i] = first + i;
    }
    const orr_row_bags bags = {0, n, lengths, ids, ret, COLUMNS};
    return orr_row_reader_bags(reader, &bags, 1, err);
}

static bool is_row(const float *numbers, int64_t row)
{
    return memcmp(numbers, tables.rows[0] + row * tables.shard[0].row_bytes,
                  COLUMNS * sizeof *numbers) == 0;
}

/* Reads what can be read. */
static int damaged_of(orr_row_reader *reader)
{
    orr_error err = {.text = ""};
    int damaged = 0;
    for (int again = 0; again < 2; again++)
        for (int64_t r = 0; r < ROWS; r++) {
            float numbers[COLUMNS];
            const orr_status status = read_rows(reader, r, 1, numbers, &err);
            if (status == ORR_OK)
                assert_true(is_row(numbers, r));
            else {
                assert_true(status == ORR_PARSE || status == ORR_IO);
                assert_non_null(strstr(err.text, "table t0, row "));
                damaged++;
            }
        }
    return damaged;
}

static int count_damaged(orr_row_server *server)
{
    orr_row_reader *reader;
    orr_error err;
    assert_int_equal(orr_row_reader_open(server, &reader, &err), ORR_OK);
    const int damaged = damaged_of(reader);
    orr_row_reader_close(reader);
    return damaged;
}

static void flip(int64_t at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    const int byte = fgetc(f);
    assert_int_equal(fseek(f, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ 16, f), byte ^ 16);
    assert_int_equal(fclose(f), 0);
}

/* Where the rows lie: the first byte of the numbers of a row that is in no other place. */
static int64_t find_row(int64_t row)
{
    FILE *f = fopen(path, "rb");
    struct stat facts;
    assert_non_null(f);
    assert_int_equal(fstat(fileno(f), &facts), 0);
    char *bytes = orr_malloc((size_t)facts.st_size);
    assert_int_equal(fread(bytes, 1, (size_t)facts.st_size, f), facts.st_size);
    const char *at =
        memmem(bytes, (size_t)facts.st_size, tables.rows[0] + row * tables.shard[0].row_bytes, 64);
    const int64_t place = at != NULL ? at - bytes : -1;
    orr_free(bytes);
    assert_int_equal(fclose(f), 0);
    return place;
}

static void finds_damage(void **state)
{
    (void)state;
    const orr_row_server_options options = {.cache_bytes = 1 << 20};
    pack();
    const int64_t at = find_row(300);
    assert_true(at > 0);
    for (int i = 0; i < 12; i++) {
        flip(at + i * 37);
        orr_row_server *server = serve(&options);
        assert_true(count_damaged(server) >= 2); /* cold and again */
        orr_row_server_close(server);
        flip(at + i * 37);
    }
    orr_row_server *server = serve(&options);
    assert_int_equal(count_damaged(server), 0);
    orr_row_server_close(server);
}

/* The end of the file is gone while it is served. */
static void says_which_row_cannot_be_read(void **state)
{
    (void)state;
    const orr_row_server_options options = {.cache_bytes = 1 << 20};
    pack();
    const int64_t at = find_row(300) / 4096 * 4096;
    orr_row_server *server = serve(&options);
    orr_row_reader *reader;
    orr_error err;
    float numbers[COLUMNS];
    assert_int_equal(orr_row_reader_open(server, &reader, &err), ORR_OK);
    assert_int_equal(read_rows(reader, 0, 1, numbers, &err), ORR_OK);
    assert_int_equal(truncate(path, at), 0);
    assert_in_range(damaged_of(reader), 2, 2 * ROWS - 2);
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

static void refuses_wrong_lookups(void **state)
{
    (void)state;
    const orr_row_server_options options = {.cache_bytes = 1 << 20};
    orr_error err = {.text = ""};
    orr_row_reader *reader;
    float sums[3 * COLUMNS];
    pack();
    orr_row_server *server = serve(&options);
    assert_int_equal(orr_row_reader_open(server, &reader, &err), ORR_OK);
    orr_row_bags bags = {0, 3, (int32_t[]){1, 0, 2}, (int64_t[]){1, 2, ROWS}, sums, COLUMNS};
    assert_int_equal(orr_row_reader_bags(reader, &bags, 1, &err), ORR_INVALID);
    assert_string_equal(err.text, "table t0, sample 2: id 600 of 600 rows");
    bags.ids = (int64_t[]){1, -1, 0};
    assert_int_equal(orr_row_reader_bags(reader, &bags, 1, &err), ORR_INVALID);
    bags.ids = (int64_t[]){1, 1, 0};
    bags.lengths = (int32_t[]){1, -1, 2};
    assert_int_equal(orr_row_reader_bags(reader, &bags, 1, &err), ORR_INVALID);
    bags.lengths = (int32_t[]){1, 0, 2};
    bags.table = 1;
    assert_int_equal(orr_row_reader_bags(reader, &bags, 1, &err), ORR_INVALID);
    bags.table = 0;
    assert_int_equal(orr_row_reader_bags(reader, &bags, 1, &err), ORR_OK);
    assert_true(is_row(sums, 1));
    assert_int_equal(orr_row_server_update(server, 0, (int64_t[]){ROWS}, 1, sums, &err),
                     ORR_INVALID);
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

static void refuses_what_it_cannot_serve(void **state)
{
    (void)state;
    const orr_row_server_options options = {.cache_bytes = 1 << 20},
                                 only_read = {.read_only = true};
    orr_row_server *server, *second;
    orr_error err = {.text = ""};
    orr_row_file_facts facts = tables.facts;
    orr_row_shard shard = tables.shard[0];
    facts.shards = &shard;
    shard.state_bytes = 4;
    assert_int_equal(orr_row_snapshot_pack(other, &facts, served_rows, &tables, &err), ORR_INVALID);
    assert_int_not_equal(access(other, F_OK), 0);
    assert_int_equal(orr_row_server_open(other, NULL, &options, &server, &err), ORR_IO);
    pack();
    server = serve(&options);
    assert_int_equal(orr_row_server_open(path, NULL, &options, &second, &err), ORR_LIMIT);
    assert_int_equal(orr_row_server_open(path, NULL, &only_read, &second, &err), ORR_OK);
    assert_int_equal(orr_row_server_update(second, 0, (int64_t[]){0}, 1, "", &err), ORR_INVALID);
    assert_int_equal(orr_row_server_swap(server, other, &err), ORR_IO);
    assert_int_equal(count_damaged(server), 0);
    assert_int_equal(count_damaged(second), 0);
    orr_row_server_close(second);
    orr_row_server_close(server);
}

/* Rows that are far apart are read one by one, no faster than the cap. */
static void keeps_to_the_caps(void **state)
{
    (void)state;
    for (int of_table = 0; of_table < 2; of_table++) {
        int64_t now = INT64_C(1000000000);
        const int64_t begin = now;
        const orr_clock clock = orr_clock_manual(&now);
        const orr_row_server_options options = {.cache_bytes = 1 << 20,
                                                .device_iops = of_table ? 0 : 100,
                                                .table_iops = of_table ? 100 : 0,
                                                .clock = &clock};
        orr_error err;
        orr_row_reader *reader;
        float numbers[COLUMNS];
        pack();
        orr_row_server *server = serve(&options);
        assert_int_equal(orr_row_reader_open(server, &reader, &err), ORR_OK);
        for (int64_t r = 0; r < ROWS; r += 20)
            assert_int_equal(read_rows(reader, r, 1, numbers, &err), ORR_OK);
        const orr_row_server_stats stats = orr_row_server_stats_of(server, 0);
        assert_int_equal(stats.reads, ROWS / 20);
        assert_in_range(stats.throttled, ROWS / 20 - 2, ROWS / 20);
        assert_in_range((now - begin) / 1000000, (ROWS / 20 - 2) * 10, ROWS / 20 * 10);
        for (int64_t r = 0; r < ROWS; r += 20) /* hits are not capped */
            assert_int_equal(read_rows(reader, r, 1, numbers, &err), ORR_OK);
        assert_int_equal(orr_row_server_stats_of(server, 0).throttled, stats.throttled);
        orr_row_reader_close(reader);
        orr_row_server_close(server);
    }
}

/* Who has the file keeps no reader waiting. */
static void reads_while_another_has_the_file(void **state)
{
    (void)state;
    const orr_row_server_options options = {.cache_bytes = 1 << 16};
    orr_error err;
    orr_row_reader *reader;
    float numbers[ROWS * COLUMNS];
    pack();
    orr_row_server *server = serve(&options);
    assert_int_equal(orr_row_reader_open(server, &reader, &err), ORR_OK);
    orr_row_file *file = atomic_load(&server->snapshot)->file;
    orr_row_file_lock(file);
    assert_int_equal(read_rows(reader, 0, ROWS, numbers, &err), ORR_OK);
    orr_row_file_unlock(file);
    for (int64_t r = 0; r < ROWS; r++)
        assert_true(is_row(numbers + r * COLUMNS, r));
    orr_row_reader_close(reader);
    orr_row_server_close(server);
}

/* Many times all rows are updated, uniformly drawn, with commits of 2 % of them: what is written
 * for a changed byte stays small, and cleaning keeps up, so that few updates wait for a commit. */
static void keeps_up_with_updates(void **state)
{
    (void)state;
    enum { MANY = 12000, AT_ONCE = 64, UPDATES = 8 * MANY / AT_ONCE, MOST = 4 };
    const orr_row_server_options options = {.cache_bytes = 0};
    served_tables many = {0};
    orr_random random = orr_random_of(6, 6);
    orr_error err;
    static char records[AT_ONCE * COLUMNS * 4];
    int64_t rows[AT_ONCE];
    uint64_t syncs = 0;
    served_table_add(&many, ORR_ROW_FORMAT_FP32, MANY, COLUMNS);
    served_tables_fill(&many, &random);
    assert_int_equal(orr_row_snapshot_pack(path, &many.facts, served_rows, &many, &err), ORR_OK);
    orr_row_server *server = serve(&options);
    const orr_row_snapshot *snapshot = atomic_load(&server->snapshot);
    for (int i = 0; i < UPDATES; i++) {
        for (int k = 0; k < AT_ONCE; k++) {
            rows[k] = (int64_t)orr_random_below(&random, MANY);
            memcpy(records + (size_t)k * COLUMNS * 4, many.rows[0] + rows[k] * COLUMNS * 4,
                   COLUMNS * 4);
        }
        assert_int_equal(orr_row_server_update(server, 0, rows, AT_ONCE, records, &err), ORR_OK);
        if (i % (MANY / 50 / AT_ONCE + 1) == 0) {
            assert_int_equal(orr_row_server_sync(server, &err), ORR_OK);
            syncs++;
        }
    }
    const double changed = (double)UPDATES * AT_ONCE * COLUMNS * 4,
                 written = (double)orr_row_server_stats_of(server, UINT32_MAX).bytes_written;
    const uint64_t more = orr_row_file_stats_of(snapshot->file).commits - syncs;
    print_message(
        "sector %u: %.2f bytes written for a changed byte, %llu syncs, %llu more commits\n",
        snapshot->sector, written / changed, (unsigned long long)syncs, (unsigned long long)more);
    assert_true(written < MOST * changed);
    assert_true(more < syncs / 10);
    orr_row_server_close(server);
    served_tables_done(&many);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_damage),          cmocka_unit_test(says_which_row_cannot_be_read),
        cmocka_unit_test(refuses_wrong_lookups), cmocka_unit_test(refuses_what_it_cannot_serve),
        cmocka_unit_test(keeps_to_the_caps),     cmocka_unit_test(reads_while_another_has_the_file),
        cmocka_unit_test(keeps_up_with_updates)};
    orr_random random = orr_random_of(5, 5);
    served_path(path, sizeof path, "row_server");
    served_path(other, sizeof other, "row_server_other");
    served_table_add(&tables, ORR_ROW_FORMAT_FP32, ROWS, COLUMNS);
    served_tables_fill(&tables, &random);
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    served_tables_done(&tables);
    (void)unlink(path);
    (void)unlink(other);
    return failed;
}
