/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "../io/block/transfers.h"

#include "support/simulated/block_device.h"

static orr_sim_drive *drive_of(uint64_t seed, bool in_order)
{
    const orr_sim_drive_options options = {.seed = seed, .bytes = 1 << 16, .in_order = in_order};
    orr_sim_drive *drive = NULL;
    assert_int_equal(orr_sim_drive_new(&options, &drive, NULL), ORR_OK);
    return drive;
}

static orr_block_device *open_drive(orr_sim_drive *drive)
{
    orr_block_device *device = NULL;
    assert_int_equal(orr_sim_drive_open(drive, false, &device, NULL), ORR_OK);
    return device;
}

static int write_one(orr_block_device *device, uint64_t sector, uint8_t value)
{
    static _Alignas(512) uint8_t memory[512];
    memset(memory, value, sizeof memory);
    return transfer(device, ORR_BLOCK_WRITE, sector * 512, memory, 512);
}

static int read_one(orr_block_device *device, uint64_t sector, uint8_t *ret)
{
    static _Alignas(512) uint8_t memory[512];
    const int error = transfer(device, ORR_BLOCK_READ, sector * 512, memory, 512);
    *ret = memory[0];
    return error;
}

static void test_transfers(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        orr_sim_drive *drive = drive_of(seed, seed % 2 == 1);
        check_transfers(open_drive(drive), seed, 200);
        assert_int_equal(orr_sim_drive_changed_writes(drive), 0);
        assert_true(orr_sim_drive_now_ns(drive) > 0);
        orr_sim_drive_free(drive);
    }
}

static void test_errors(void **state)
{
    (void)state;
    orr_sim_drive *drive = drive_of(1, false);
    orr_block_device *device = open_drive(drive), *other = NULL;
    uint8_t value;
    assert_int_equal(orr_sim_drive_open(drive, false, &other, NULL), ORR_LIMIT);
    assert_int_equal(write_one(device, 3, 7), 0);
    const uint64_t now = orr_sim_drive_operations(drive);
    assert_int_equal(now, 2); /* begun, completed */
    orr_sim_drive_plan(drive, ORR_SIM_DRIVE_READ_EIO, now + 1);
    orr_sim_drive_plan(drive, ORR_SIM_DRIVE_NO_SPACE, now + 1);
    assert_int_equal(read_one(device, 3, &value), EIO);
    assert_int_equal(read_one(device, 3, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(write_one(device, 3, 8), ENOSPC);
    assert_int_equal(read_one(device, 3, &value), 0);
    assert_int_equal(value, 7);
    assert_int_equal(orr_sim_drive_struck(drive), 2);
    orr_sim_drive_set_full(drive, true);
    assert_int_equal(write_one(device, 3, 8), ENOSPC);
    orr_sim_drive_set_full(drive, false);
    orr_sim_drive_plan(drive, ORR_SIM_DRIVE_READ_SHORT, 0);
    assert_int_equal(read_one(device, 3, &value), EIO);
    orr_sim_drive_plan(drive, ORR_SIM_DRIVE_WRITE_EIO, 0);
    assert_int_equal(write_one(device, 3, 9), EIO);
    orr_sim_drive_flip(drive, 5 * 512, 4);
    assert_int_equal(read_one(device, 5, &value), 0);
    assert_int_equal(value, 16);
    device->close(device);
    orr_sim_drive_free(drive);
}

/* A reader beside the writer, which is refused what it may not. */
static void test_reader(void **state)
{
    (void)state;
    orr_sim_drive *drive = drive_of(1, false);
    orr_block_device *device = open_drive(drive), *reader = NULL;
    assert_int_equal(orr_sim_drive_open(drive, true, &reader, NULL), ORR_OK);
    assert_int_equal(write_one(device, 1, 42), 0);
    uint8_t value;
    assert_int_equal(read_one(reader, 1, &value), 0);
    assert_int_equal(value, 42);
    static _Alignas(512) uint8_t memory[512];
    const orr_block_request bad[] = {
        {.operation = ORR_BLOCK_WRITE, .bytes = 512, .data = memory},
        {.at = 100, .bytes = 512, .data = memory},
        {.bytes = 512, .data = memory + 8},
        {.at = 1 << 16, .bytes = 512, .data = memory},
    };
    for (int k = 0; k < 4; k++) {
        uint32_t n;
        assert_int_equal(reader->submit(reader, &bad[k], 1, &n, NULL), ORR_INVALID);
    }
    orr_sim_drive_crash(drive, ORR_SIM_DRIVE_KILL); /* of the writer alone */
    assert_int_equal(read_one(reader, 1, &value), 0);
    orr_sim_drive_crash(drive, ORR_SIM_DRIVE_POWER_LOSS);
    assert_int_equal(reader->sync(reader, NULL), ORR_IO);
    reader->close(reader);
    device->close(device);
    orr_sim_drive_free(drive);
}

static void test_crash(void **state)
{
    (void)state;
    int lost = 0, kept = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        orr_sim_drive *drive = drive_of(seed, false);
        orr_block_device *device = open_drive(drive);
        assert_int_equal(write_one(device, 1, 10), 0);
        assert_int_equal(device->sync(device, NULL), ORR_OK);
        assert_int_equal(orr_sim_drive_syncs(drive), 1);
        assert_int_equal(write_one(device, 2, 20), 0);
        orr_sim_drive_crash(drive, seed % 2 ? ORR_SIM_DRIVE_KILL : ORR_SIM_DRIVE_POWER_LOSS);
        assert_true(orr_sim_drive_crashed(drive));
        assert_int_equal(device->sync(device, NULL), ORR_IO);
        orr_block_device *next = open_drive(drive); /* before the dead one is closed */
        device->close(device);
        assert_false(orr_sim_drive_crashed(drive));
        uint8_t value;
        assert_int_equal(read_one(next, 1, &value), 0);
        assert_int_equal(value, 10);
        assert_int_equal(read_one(next, 2, &value), 0);
        assert_true(value == 20 || (value == 0 && seed % 2 == 0));
        lost += value == 0;
        kept += seed % 2 == 0 && value == 20;
        /* What a kill has left stands only after a sync. */
        if (seed % 4 == 1)
            assert_int_equal(next->sync(next, NULL), ORR_OK);
        orr_sim_drive_crash(drive, ORR_SIM_DRIVE_POWER_LOSS);
        lost += seed % 4 == 3 && orr_sim_drive_content(drive)[1024] == 0 ? 1000 : 0;
        assert_true(seed % 4 != 1 || orr_sim_drive_durable(drive)[1024] == 20);
        next->close(next);
        orr_sim_drive_free(drive);
    }
    assert_true(lost % 1000 > 5 && kept > 5 && lost > 3000);
}

static void test_failed_sync(void **state)
{
    (void)state;
    int gone = 0, there = 0, still_read = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        orr_sim_drive *drive = drive_of(seed, false);
        orr_block_device *device = open_drive(drive);
        assert_int_equal(write_one(device, 1, 10), 0);
        orr_sim_drive_plan(drive, ORR_SIM_DRIVE_SYNC_EIO, 0);
        assert_int_equal(device->sync(device, NULL), ORR_IO);
        assert_int_equal(device->sync(device, NULL), ORR_OK); /* as if nothing had been */
        uint8_t before;
        assert_int_equal(read_one(device, 1, &before), 0);
        orr_sim_drive_crash(drive, ORR_SIM_DRIVE_POWER_LOSS);
        const uint8_t after = orr_sim_drive_content(drive)[512];
        assert_true(before == 10 || after == 0);
        gone += after == 0;
        there += after == 10;
        still_read += before == 10 && after == 0;
        device->close(device);
        orr_sim_drive_free(drive);
    }
    assert_true(gone > 5 && there > 5 && still_read > 5);
}

/* The order of completions, slow ones, and memory that changes under a write. */
static void test_completions(void **state)
{
    (void)state;
    static _Alignas(512) uint8_t memory[8][512];
    int disordered = 0;
    for (uint64_t seed = 0; seed < 40; seed++) {
        orr_sim_drive *drive = drive_of(seed, seed % 2 == 1);
        orr_block_device *device = open_drive(drive);
        orr_block_request requests[8];
        for (uint32_t k = 0; k < 8; k++)
            requests[k] = (orr_block_request){.operation = ORR_BLOCK_WRITE,
                                              .at = 512ULL * k,
                                              .bytes = 512,
                                              .data = memory[k],
                                              .tag = k};
        orr_sim_drive_plan(drive, ORR_SIM_DRIVE_SLOW, 8); /* the last to begin */
        uint32_t n;
        assert_int_equal(device->submit(device, requests, 8, &n, NULL), ORR_OK);
        memory[2][7]++;
        orr_block_completion done[8];
        assert_int_equal(device->reap(device, 7, done, 8, &n, NULL), ORR_OK);
        assert_int_equal(n, 7);
        for (uint32_t k = 0; k < 7; k++) {
            disordered += done[k].tag != k;
            assert_true(seed % 2 == 0 || done[k].tag == k);
        }
        assert_true(orr_sim_drive_now_ns(drive) < 1000000000);
        assert_int_equal(device->reap(device, 1, done, 8, &n, NULL), ORR_OK);
        assert_int_equal(done[0].tag, 7);
        assert_true(orr_sim_drive_now_ns(drive) > 1000000000);
        assert_int_equal(orr_sim_drive_changed_writes(drive), 1);
        device->close(device);
        orr_sim_drive_free(drive);
    }
    assert_true(disordered > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transfers),   cmocka_unit_test(test_errors),
        cmocka_unit_test(test_reader),      cmocka_unit_test(test_crash),
        cmocka_unit_test(test_failed_sync), cmocka_unit_test(test_completions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
