/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "store/file/header.h"
#include "support/simulated/block_device.h"

/* A row file of two tables on a simulated drive: what is appended is read, before it is written and
 * after, and after commits, undone commits and damage. */

static const orr_row_shard SHARDS[] = {
    {"t0", 5000, 1000, 3000, 32, 0, 32, 0, 1, 128, 4}, /* 3 records a sector of 512 bytes */
    {"t1", 40, 0, 40, 128, 0, 128, 0, 1, 512, 4},      /* over a sector */
};
static const orr_row_file_facts FACTS = {77, 42, 1, 4, 2, SHARDS};

typedef struct bench {
    orr_sim_drive *drive;
    orr_row_file *file;
    orr_error err;
} bench;

static orr_row_file_options options(bool durable)
{
    return (orr_row_file_options){.writes = ORR_ROW_WRITES_HOLES, .durable = durable};
}

static void setup(bench *b, bool durable)
{
    orr_block_device *device;
    uint64_t bytes;
    const orr_row_file_options o = options(durable);
    assert_int_equal(orr_row_file_bytes(&FACTS, 512, 0.5, &bytes, &b->err), ORR_OK);
    const orr_sim_drive_options d = {.seed = 1, .bytes = bytes};
    assert_int_equal(orr_sim_drive_new(&d, &b->drive, &b->err), ORR_OK);
    assert_int_equal(orr_sim_drive_open(b->drive, false, &device, &b->err), ORR_OK);
    const orr_status status = orr_row_file_create(device, &FACTS, &o, &b->file, &b->err);
    if (status != ORR_OK)
        fail_msg("%s", b->err.text);
}

static void teardown(bench *b)
{
    orr_row_file_close(b->file);
    orr_sim_drive_free(b->drive);
}

static orr_status try_reopen(bench *b, const orr_row_file_facts *facts, int64_t step)
{
    orr_block_device *device;
    const orr_row_file_options o = options(true);
    orr_row_file_close(b->file);
    b->file = NULL;
    assert_int_equal(orr_sim_drive_open(b->drive, false, &device, &b->err), ORR_OK);
    const orr_status status = orr_row_file_open(device, facts, step, &o, &b->file, &b->err);
    if (status != ORR_OK)
        device->close(device);
    return status;
}

static void reopen(bench *b, int64_t step)
{
    if (try_reopen(b, &FACTS, step) != ORR_OK)
        fail_msg("%s", b->err.text);
}

static void content(uint32_t shard, int64_t row, int64_t version, uint8_t *ret)
{
    for (uint32_t i = 0; i < SHARDS[shard].row_bytes + SHARDS[shard].state_bytes; i++)
        ret[i] = (uint8_t)(row * 7 + version * 31 + (int64_t)i * (shard + 3) + i / 50);
}

static void put(bench *b, uint32_t shard, int64_t row, int64_t version)
{
    uint8_t record[1024];
    orr_row_entry home;
    content(shard, row, version, record);
    orr_row_file_lock(b->file);
    if (orr_row_file_append(b->file, shard, row, record, record + SHARDS[shard].row_bytes, false,
                            &home, &b->err) != ORR_OK)
        fail_msg("%s", b->err.text);
    orr_row_file_entries(b->file, shard)[row] = home;
    orr_row_file_unlock(b->file);
}

/* Reads a row as a cache would, by a device of its own. */
static orr_status get(bench *b, uint32_t shard, int64_t row, uint8_t *ret)
{
    static _Alignas(4096) uint8_t sectors[4096];
    const orr_row_entry home = orr_row_file_entries(b->file, shard)[row] & ORR_ROW_HOME_MASK;
    assert_int_not_equal(home, 0);
    const orr_row_read at = orr_row_file_locate(b->file, shard, home);
    const void *from = at.data;
    if (from == NULL) {
        orr_block_device *device;
        uint32_t n;
        orr_block_completion done;
        const orr_block_request request = {ORR_BLOCK_READ, at.bytes, at.at, sectors, 1};
        assert_true(at.bytes <= sizeof sectors);
        assert_int_equal(orr_sim_drive_open(b->drive, true, &device, &b->err), ORR_OK);
        assert_int_equal(device->submit(device, &request, 1, &n, &b->err), ORR_OK);
        assert_int_equal(device->reap(device, 1, &done, 1, &n, &b->err), ORR_OK);
        assert_int_equal(done.error, 0);
        device->close(device);
        from = sectors;
    }
    return orr_row_file_check(b->file, shard, row, home, from, ret, ret + SHARDS[shard].row_bytes,
                              &b->err);
}

static void assert_version(bench *b, uint32_t shard, int64_t row, int64_t version)
{
    uint8_t is[1024], want[1024];
    if (get(b, shard, row, is) != ORR_OK)
        fail_msg("%s", b->err.text);
    content(shard, row, version, want);
    assert_memory_equal(is, want, SHARDS[shard].row_bytes + SHARDS[shard].state_bytes);
}

static void pump(bench *b)
{
    assert_int_equal(orr_row_file_pump(b->file, NULL, 0, &b->err), ORR_OK);
}

static void begin(bench *b, int64_t step)
{
    orr_row_file_lock(b->file);
    assert_int_equal(orr_row_file_begin_commit(b->file, step, &b->err), ORR_OK);
    orr_row_file_unlock(b->file);
}

static void finish(bench *b)
{
    if (orr_row_file_finish_commit(b->file, NULL, NULL, &b->err) != ORR_OK)
        fail_msg("%s", b->err.text);
}

static void settle(bench *b, int64_t step)
{
    orr_row_file_lock(b->file);
    orr_row_file_settle(b->file, step);
    orr_row_file_unlock(b->file);
}

static void test_rows_come_back(void **state)
{
    bench b;
    (void)state;
    setup(&b, true);
    for (int64_t row = 0; row < 3000; row++)
        put(&b, 0, row, 1);
    for (int64_t row = 0; row < 40; row++)
        put(&b, 1, row, 1);
    pump(&b);
    for (int64_t row = 0; row < 40; row++)
        assert_version(&b, 1, row, 1);
    begin(&b, 10);
    put(&b, 0, 5, 2); /* of the next commit */
    finish(&b);
    assert_int_equal(orr_row_file_step(b.file), 10);
    assert_version(&b, 0, 5, 2);
    reopen(&b, -1);
    assert_int_equal(orr_row_file_step(b.file), 10);
    for (int64_t row = 0; row < 3000; row++)
        assert_version(&b, 0, row, 1);
    for (int64_t row = 0; row < 40; row++)
        assert_version(&b, 1, row, 1);
    teardown(&b);
}

static void test_an_earlier_commit_is_opened_until_it_is_settled(void **state)
{
    bench b;
    (void)state;
    setup(&b, true);
    for (int64_t step = 1; step <= 5; step++) {
        for (int64_t row = 0; row < 40; row++)
            put(&b, 1, row, step);
        begin(&b, step);
        finish(&b);
    }
    settle(&b, 2);
    reopen(&b, 3);
    assert_int_equal(orr_row_file_step(b.file), 3);
    for (int64_t row = 0; row < 40; row++)
        assert_version(&b, 1, row, 3);
    put(&b, 1, 7, 9);
    begin(&b, 4);
    finish(&b);
    assert_int_equal(try_reopen(&b, &FACTS, 5), ORR_NOT_FOUND);
    assert_string_equal(b.err.text,
                        "there is no commit of step 5: those of steps 3 to 4 can be opened");
    reopen(&b, 4);
    assert_version(&b, 1, 7, 9);
    assert_version(&b, 1, 8, 3);
    teardown(&b);
}

/* The log of so small a file is full after a few commits. */
static void test_logs_take_turns(void **state)
{
    bench b;
    (void)state;
    setup(&b, true);
    for (int64_t step = 1; step <= 100; step++) {
        for (int64_t row = 0; row < 200; row++)
            put(&b, 0, (row + step * 200) % 3000, step);
        put(&b, 1, step % 40, step);
        begin(&b, step);
        put(&b, 1, 0, step);
        finish(&b);
        settle(&b, step);
    }
    reopen(&b, 100);
    assert_version(&b, 0, (199 + 100 * 200) % 3000, 100);
    assert_version(&b, 1, 0, 99);
    assert_version(&b, 1, 39, 79);
    teardown(&b);
}

static void test_what_does_not_fit_is_told(void **state)
{
    bench b;
    orr_row_shard shards[2] = {SHARDS[0], SHARDS[1]};
    orr_row_file_facts other = FACTS;
    (void)state;
    setup(&b, true);
    other.shards = shards;
    other.model = 78;
    assert_int_equal(try_reopen(&b, &other, -1), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "of another model"));
    other.model = 77;
    other.seed = 43;
    assert_int_equal(try_reopen(&b, &other, -1), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "seed 42, and 43 is wanted"));
    other.seed = 42;
    other.rank = 2;
    assert_int_equal(try_reopen(&b, &other, -1), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "rank 1 of 4, and 2 of 4"));
    other.rank = 1;
    shards[1].format = 2;
    assert_int_equal(try_reopen(&b, &other, -1), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "table t1: rows of format 0"));
    shards[1].format = 0;
    shards[0].first_row = 0;
    assert_int_equal(try_reopen(&b, &other, -1), ORR_INVALID);
    assert_non_null(strstr(b.err.text, "table t0: 3000 rows from 1000 of 5000"));
    orr_sim_drive_flip(b.drive, 100, 3);
    assert_int_equal(try_reopen(&b, &FACTS, -1), ORR_PARSE);
    assert_non_null(strstr(b.err.text, "header of the rows is damaged"));
    teardown(&b);
}

static void test_a_flipped_bit_is_found(void **state)
{
    bench b;
    uint8_t record[1024];
    (void)state;
    setup(&b, true);
    for (int64_t row = 0; row < 40; row++)
        put(&b, 1, row, 1);
    begin(&b, 1);
    finish(&b);
    const orr_row_read at = orr_row_file_locate(b.file, 1, orr_row_file_entries(b.file, 1)[17]);
    assert_null(at.data);
    orr_sim_drive_flip(b.drive, at.at + 100, 0);
    assert_int_equal(get(&b, 1, 17, record), ORR_PARSE);
    assert_non_null(strstr(b.err.text, "table t1, row 17: sector "));
    assert_version(&b, 1, 30, 1);
    teardown(&b);
}

static void test_facts_are_read_from_the_header(void **state)
{
    (void)state;
    bench b;
    orr_block_device *device;
    orr_row_file_facts facts;
    orr_arena *arena = orr_arena_new(0, 0);
    setup(&b, true);
    orr_row_file_close(b.file);
    b.file = NULL;
    assert_int_equal(orr_sim_drive_open(b.drive, false, &device, &b.err), ORR_OK);
    assert_int_equal(orr_row_file_read_facts(device, arena, &facts, &b.err), ORR_OK);
    device->close(device);
    const orr_row_header header = {.facts = facts};
    if (orr_row_header_check(&header, &FACTS, &b.err) != ORR_OK)
        fail_msg("%s", b.err.text);
    orr_sim_drive_flip(b.drive, 100, 3);
    assert_int_equal(orr_sim_drive_open(b.drive, false, &device, &b.err), ORR_OK);
    assert_int_equal(orr_row_file_read_facts(device, arena, &facts, &b.err), ORR_PARSE);
    assert_non_null(strstr(b.err.text, "header of the rows is damaged"));
    device->close(device);
    orr_arena_free(arena);
    teardown(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_come_back),
        cmocka_unit_test(test_an_earlier_commit_is_opened_until_it_is_settled),
        cmocka_unit_test(test_logs_take_turns),
        cmocka_unit_test(test_what_does_not_fit_is_told),
        cmocka_unit_test(test_a_flipped_bit_is_found),
        cmocka_unit_test(test_facts_are_read_from_the_header),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
