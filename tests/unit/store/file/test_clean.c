/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/philox.h"
#include "store/file/row_file.h"
#include "support/simulated/block_device.h"

/* Cleaning in a steady state: rows that are drawn uniformly are written until every place has been
 * written some times, in a file that is full to a given part. What is counted: bytes written for a
 * byte of changed rows. */
enum { ROWS = 6000, DEPTH = 32 };

static const orr_row_shard SHARD = {"t", ROWS, 0, ROWS, 32, 0, 32, 0, 1, 128, 4};
static const orr_row_file_facts FACTS = {1, 1, 0, 1, 1, &SHARD};

typedef struct bench {
    orr_sim_drive *drive;
    orr_block_device *device;
    orr_row_file *file;
    orr_error err;
    int64_t step;
    uint32_t checkpoints; /* that were needed before it was time */
} bench;

static void reap(bench *b)
{
    orr_block_completion done[DEPTH];
    uint32_t n = 0;
    if (orr_row_file_in_flight(b->file) > 0)
        assert_int_equal(b->device->reap(b->device, 1, done, DEPTH, &n, &b->err), ORR_OK);
    assert_int_equal(orr_row_file_pump(b->file, done, n, &b->err), ORR_OK);
}

static void commit(bench *b)
{
    orr_row_file_lock(b->file);
    assert_int_equal(orr_row_file_begin_commit(b->file, ++b->step, &b->err), ORR_OK);
    orr_row_file_unlock(b->file);
    assert_int_equal(orr_row_file_finish_commit(b->file, NULL, NULL, &b->err), ORR_OK);
    orr_row_file_lock(b->file);
    orr_row_file_settle(b->file, b->step);
    orr_row_file_unlock(b->file);
}

static void put(bench *b, int64_t row, bool durable)
{
    uint8_t record[132];
    memset(record, (int)row, sizeof record);
    for (int i = 0;; i++) {
        orr_row_entry home;
        assert_true(i < 100000);
        orr_row_file_lock(b->file);
        const orr_status status =
            orr_row_file_append(b->file, 0, row, record, record + 128, false, &home, &b->err);
        if (status == ORR_OK)
            orr_row_file_entries(b->file, 0)[row] = home;
        const bool cleaning = orr_row_file_cleaning(b->file);
        orr_row_file_unlock(b->file);
        if (status == ORR_OK)
            return;
        if (status != ORR_LIMIT || (!cleaning && !durable))
            fail_msg("%s", b->err.text);
        if (cleaning || orr_row_file_in_flight(b->file) > 0) {
            reap(b);
        } else {
            commit(b);
            b->checkpoints++;
        }
    }
}

/* Bytes written for each byte of changed rows. `full`: of the places. */
static double amplification(orr_row_writes writes, bool durable, double full, uint32_t *ret_more)
{
    bench b = {.step = 0};
    orr_random random = orr_random_of(7, 0);
    const orr_row_file_options o = {.writes = writes, .durable = durable};
    uint64_t bytes;
    assert_int_equal(orr_row_file_bytes(&FACTS, 512, 1 / full - 1, &bytes, &b.err), ORR_OK);
    const orr_sim_drive_options d = {.seed = 1, .bytes = bytes, .in_order = true, .depth = DEPTH};
    assert_int_equal(orr_sim_drive_new(&d, &b.drive, &b.err), ORR_OK);
    assert_int_equal(orr_sim_drive_open(b.drive, false, &b.device, &b.err), ORR_OK);
    assert_int_equal(orr_row_file_create(b.device, &FACTS, &o, &b.file, &b.err), ORR_OK);
    for (int64_t row = 0; row < ROWS; row++)
        put(&b, row, durable);
    if (durable)
        commit(&b);
    orr_row_file_stats before = {0};
    const int rounds = 6;
    uint64_t changed = 0;
    for (int round = 0; round < rounds; round++) {
        if (round == rounds / 2) {
            before = orr_row_file_stats_of(b.file);
            changed = 0;
            b.checkpoints = 0;
        }
        for (int64_t i = 0; i < ROWS; i++) {
            put(&b, (int64_t)orr_random_below(&random, ROWS), durable);
            changed++;
            if (i % 16 == 0)
                reap(&b);
            if (durable && i % (ROWS / 50) == 0) /* 2 % of the rows */
                commit(&b);
        }
    }
    const orr_row_file_stats after = orr_row_file_stats_of(b.file);
    *ret_more = b.checkpoints;
    orr_row_file_close(b.file);
    orr_sim_drive_free(b.drive);
    return (double)(after.bytes_written - before.bytes_written + after.log_bytes -
                    before.log_bytes) /
           (double)(changed * 132);
}

static void test_cleaning_keeps_up(void **state)
{
    static const double FULL[] = {0.5, 0.7, 0.8, 0.9};
    static const double MOST[] = {3, 4.5, 6.5, 13}; /* against a change for the worse */
    (void)state;
    printf("full  extents  holes  extents with commits  holes with commits (more commits)\n");
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t more[4];
        double is[4];
        for (uint32_t k = 0; k < 4; k++)
            is[k] = amplification(k % 2 == 0 ? ORR_ROW_WRITES_EXTENTS : ORR_ROW_WRITES_HOLES,
                                  k >= 2, FULL[i], &more[k]);
        printf("%.1f   %5.2f    %5.2f  %5.2f (%u)            %5.2f (%u)\n", FULL[i], is[0], is[1],
               is[2], more[2], is[3], more[3]);
        fflush(stdout);
        for (uint32_t k = 0; k < 2; k++)
            assert_true(is[k] >= 1 && is[k] < MOST[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cleaning_keeps_up)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
