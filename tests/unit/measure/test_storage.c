/* SPDX-License-Identifier: Apache-2.0 */
/* Storage measured on a device whose speed is known, in virtual time; which writes are cheaper. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/block/throttled.h"
#include "measure/storage.h"

static bool about(double value, double expected, double share)
{
    return fabs(value - expected) <= share * expected;
}

static orr_measured_access probed(const orr_block_limits *limits, orr_storage_access access,
                                  uint32_t bytes, uint32_t depth)
{
    int64_t now_ns = 5;
    const orr_clock clock = orr_clock_manual(&now_ns);
    orr_block_device *memory = NULL, *device = NULL;
    const orr_block_map how = {.node = -1, .bytes = 1 << 20, .sector = 512};
    orr_error err = {0};
    assert_int_equal(orr_block_device_map(&how, &memory, &err), ORR_OK);
    assert_int_equal(orr_block_device_throttle_by(memory, limits, &clock, &device, &err), ORR_OK);
    const orr_storage_probe probe = {.device = device,
                                     .clock = &clock,
                                     .least_ns = 200000000,
                                     .memory = aligned_alloc(4096, 1 << 20)};
    orr_measured_access found = {0};
    if (orr_probe_storage(&probe, access, bytes, depth, &found, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(found.access, access);
    assert_int_equal(found.bytes, bytes);
    assert_int_equal(found.depth, depth);
    assert_true(found.cpu_ns > 0);
    device->close(device);
    free(probe.memory);
    return found;
}

static void test_probe(void **state)
{
    (void)state;
    const orr_block_limits limits = {.read_ns = 80000,
                                     .write_ns = 20000,
                                     .read_iops = 100000,
                                     .write_iops = 20000,
                                     .read_bytes = 1e9,
                                     .write_bytes = 5e8};
    /* Alone a read takes its turn, 10 us, and its latency. */
    orr_measured_access a = probed(&limits, ORR_STORAGE_RANDOM_READ, 512, 1);
    assert_true(about(a.per_s, 1e9 / 90000, 0.01));
    assert_true(about((double)a.p50_ns, 90000, 0.03) && about((double)a.p99_ns, 90000, 0.03));
    /* Many at a time: what the device can do; each waits for those before it. */
    a = probed(&limits, ORR_STORAGE_RANDOM_READ, 512, 64);
    assert_true(about(a.per_s, 100000, 0.02));
    assert_true(about((double)a.p50_ns, 640000, 0.05));
    a = probed(&limits, ORR_STORAGE_RANDOM_WRITE, 4096, 32);
    assert_true(about(a.per_s, 20000, 0.02));
    a = probed(&limits, ORR_STORAGE_READ, 1 << 16, 8);
    assert_true(about(a.per_s * a.bytes, 1e9, 0.02));
    a = probed(&limits, ORR_STORAGE_WRITE, 1 << 16, 8);
    assert_true(about(a.per_s * a.bytes, 5e8, 0.02));
    /* A sync of memory takes no time; the write before it does. */
    a = probed(&limits, ORR_STORAGE_SYNC, 512, 1);
    assert_true(about(a.per_s, 1e9 / 70000, 0.02));
    assert_int_equal(a.p99_ns, 0);
}

/* A device like an NVMe disk behind a hypervisor: 3 GB/s in sequence, 35,000 writes of a sector. */
static const orr_measured_access accesses[] = {
    {.access = ORR_STORAGE_RANDOM_WRITE, .bytes = 512, .depth = 1, .per_s = 5000},
    {.access = ORR_STORAGE_RANDOM_WRITE, .bytes = 512, .depth = 128, .per_s = 35000},
    {.access = ORR_STORAGE_RANDOM_WRITE, .bytes = 4096, .depth = 128, .per_s = 30000},
    {.access = ORR_STORAGE_READ, .bytes = 1 << 20, .depth = 8, .per_s = 2000},
    {.access = ORR_STORAGE_WRITE, .bytes = 1 << 20, .depth = 8, .per_s = 3000},
};
static orr_measured_storage storage_of(uint32_t sector)
{
    return (orr_measured_storage){.path = "/data",
                                  .engine = "io_uring",
                                  .sector = sector,
                                  .bytes = 1 << 30,
                                  .accesses = accesses,
                                  .n_accesses = 5};
}

static orr_write_costs costs_of(const orr_measured_storage *storage, uint32_t record, double used)
{
    orr_write_costs costs;
    orr_error err = {0};
    if (orr_storage_write_costs(storage, record, used, &costs, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(costs.holes, costs.holes_ns < costs.extents_ns);
    assert_true(strlen(costs.reason) > 20 && strlen(costs.reason) < sizeof costs.reason - 1);
    return costs;
}

static void test_write_costs(void **state)
{
    (void)state;
    const orr_measured_storage storage = storage_of(512);
    /* One row a sector. In an extent of which half is in use a fifth is left when it is cleaned
     * (the root of (c - 1) / ln c = 0.5 is 0.2032). */
    orr_write_costs costs = costs_of(&storage, 480, 0.5);
    const double moved_ns = 512e9 * (1 / (3000.0 * (1 << 20)) + 1 / (2000.0 * (1 << 20)));
    assert_true(about(costs.extents_ns, moved_ns / (1 - 0.2032), 0.001));
    assert_true(about(costs.holes_ns, 0.5 * 1e9 / 35000, 0.001));
    assert_false(costs.holes);
    assert_non_null(strstr(costs.reason, "extents"));
    /* Nearly full, cleaning moves all the time: holes are cheaper. */
    costs = costs_of(&storage, 480, 0.995);
    assert_true(costs.holes);
    assert_non_null(strstr(costs.reason, "holes"));
    /* Three rows a sector: it is free once all have moved, which 6/11 of the places allow. */
    assert_true(isfinite(costs_of(&storage, 160, 0.54).holes_ns));
    costs = costs_of(&storage, 160, 0.55);
    assert_true(isinf(costs.holes_ns) && !costs.holes);
    assert_non_null(strstr(costs.reason, "55 %"));
    /* A row of several sectors. */
    assert_true(costs_of(&storage, 1600, 0.5).extents_ns >
                3.1 * costs_of(&storage, 480, 0.5).extents_ns);
    /* More in use never costs less. */
    for (int k = 1; k < 90; k++) {
        const orr_write_costs less = costs_of(&storage, 200, k / 100.0),
                              more = costs_of(&storage, 200, (k + 1) / 100.0);
        assert_true(more.extents_ns >= less.extents_ns && more.holes_ns >= less.holes_ns);
    }
    orr_write_costs unused;
    assert_int_equal(orr_storage_write_costs(&storage, 100, 0, &unused, NULL), ORR_INVALID);
    assert_int_equal(orr_storage_write_costs(&storage, 100, 1, &unused, NULL), ORR_INVALID);
    assert_int_equal(orr_storage_write_costs(&storage, 100, NAN, &unused, NULL), ORR_INVALID);
    const orr_measured_storage nothing = {.path = "/data", .sector = 512};
    assert_int_equal(orr_storage_write_costs(&nothing, 100, 0.5, &unused, NULL), ORR_NOT_FOUND);
}

static void test_storage_of(void **state)
{
    (void)state;
    const orr_measured_storage storage[] = {
        {.path = "/data"}, {.path = "/data/fast/"}, {.path = "/"}};
    const orr_measured measured = {.storage = storage, .n_storage = 3};
    assert_ptr_equal(orr_measured_storage_of(&measured, "/data/rows"), &storage[0]);
    assert_ptr_equal(orr_measured_storage_of(&measured, "/data"), &storage[0]);
    assert_ptr_equal(orr_measured_storage_of(&measured, "/data/fast/rows"), &storage[1]);
    assert_ptr_equal(orr_measured_storage_of(&measured, "/database/rows"), &storage[2]);
    const orr_measured fewer = {.storage = storage, .n_storage = 2};
    assert_null(orr_measured_storage_of(&fewer, "/database/rows"));
}

/* A folder of this machine, briefly; nothing is left in it. */
static void test_folder(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_measured_storage storage;
    orr_error err = {0};
    char folder[] = "/tmp/orrery-storage-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const orr_status status = orr_measure_storage(folder, 64 << 20, true, arena, &storage, &err);
    assert_int_equal(rmdir(folder), 0);
    if (status == ORR_IO && strstr(err.text, "no space left") != NULL) {
        print_message("no 64 MiB are free: storage is not measured\n");
        skip();
    }
    if (status != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(storage.path, folder);
    assert_int_equal(storage.bytes, 64 << 20);
    int seen[ORR_STORAGE_ACCESSES] = {0};
    for (uint32_t k = 0; k < storage.n_accesses; k++) {
        assert_true(storage.accesses[k].per_s > 0);
        assert_true(storage.accesses[k].p99_ns >= storage.accesses[k].p50_ns);
        seen[storage.accesses[k].access]++;
    }
    for (int k = 0; k < ORR_STORAGE_ACCESSES; k++)
        assert_true(seen[k] > 0);
    orr_write_costs costs;
    assert_int_equal(orr_storage_write_costs(&storage, 256, 0.5, &costs, &err), ORR_OK);
    assert_int_equal(orr_measure_storage("/none", 0, true, arena, &storage, &err), ORR_IO);
    assert_int_equal(orr_measure_storage("/tmp", 1 << 20, true, arena, &storage, &err), ORR_LIMIT);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_probe), cmocka_unit_test(test_write_costs),
        cmocka_unit_test(test_storage_of), cmocka_unit_test(test_folder)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
