/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped memory, and a device slowed down, in virtual time. */
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfers.h"

#include "io/block/throttled.h"

#include "../folder.h"

static orr_block_device *memory_of(uint64_t bytes)
{
    orr_block_device *device = NULL;
    orr_error err = {0};
    const orr_block_map how = {.node = -1, .bytes = bytes, .sector = 64};
    assert_int_equal(orr_block_device_map(&how, &device, &err), ORR_OK);
    return device;
}

static orr_block_device *throttled(const orr_block_limits *limits, const orr_clock *clock)
{
    orr_block_device *device = NULL;
    orr_error err = {0};
    assert_int_equal(orr_block_device_throttle_by(memory_of(1 << 16), limits, clock, &device, &err),
                     ORR_OK);
    return device;
}

/* Reads `n` times `bytes` at full depth; the virtual time that it took. */
static int64_t read_ns(orr_block_device *device, int64_t *now_ns, uint32_t n, uint32_t bytes)
{
    char *memory = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
    const int64_t began_ns = *now_ns;
    uint32_t begun = 0, reaped = 0;
    while (reaped < n) {
        uint32_t some = 1;
        const orr_block_request request = {.bytes = bytes, .data = memory, .tag = begun};
        while (begun < n && some > 0) {
            assert_int_equal(device->submit(device, &request, 1, &some, NULL), ORR_OK);
            begun += some;
        }
        orr_block_completion done;
        assert_int_equal(device->reap(device, 1, &done, 1, &some, NULL), ORR_OK);
        assert_int_equal(some, 1);
        reaped++;
    }
    free(memory);
    return *now_ns - began_ns;
}

static void test_limits(void **state)
{
    (void)state;
    int64_t now_ns = 1000;
    const orr_clock clock = orr_clock_manual(&now_ns);
    orr_block_limits limits = {.read_ns = 80000};
    orr_block_device *device = throttled(&limits, &clock);
    /* Latency alone: whole batches of as many as fit. */
    assert_int_equal(read_ns(device, &now_ns, 1, 512), 80000);
    assert_int_equal(read_ns(device, &now_ns, device->depth, 512), 80000);
    device->close(device);

    limits = (orr_block_limits){.read_ns = 80000, .read_iops = 1e6};
    device = throttled(&limits, &clock);
    assert_int_equal(read_ns(device, &now_ns, 10000, 512), 10000 * 1000 + 80000);
    device->close(device);

    limits = (orr_block_limits){.read_iops = 1e6, .read_bytes = 1e9};
    device = throttled(&limits, &clock);
    assert_int_equal(read_ns(device, &now_ns, 1000, 512), 1000 * 1000); /* IOPS bind */
    now_ns += 1000000; /* what was not used is not saved up */
    assert_int_equal(read_ns(device, &now_ns, 1000, 4096), 1000 * 4096);
    device->close(device);
}

static void test_kinds_apart(void **state)
{
    (void)state;
    int64_t now_ns = 0;
    const orr_clock clock = orr_clock_manual(&now_ns);
    const orr_block_limits limits = {.read_ns = 10, .write_ns = 7000, .write_iops = 1000};
    orr_block_device *device = throttled(&limits, &clock);
    char *memory = aligned_alloc(4096, 4096);
    assert_int_equal(transfer(device, ORR_BLOCK_WRITE, 0, memory, 512), 0);
    assert_int_equal(now_ns, 1007000);
    assert_int_equal(transfer(device, ORR_BLOCK_READ, 0, memory, 512), 0);
    assert_int_equal(now_ns, 1007010);
    /* Who polls does not wait; a later read overtakes a write. */
    const orr_block_request both[] = {
        {.operation = ORR_BLOCK_WRITE, .bytes = 512, .data = memory, .tag = 1},
        {.operation = ORR_BLOCK_READ, .at = 512, .bytes = 512, .data = memory + 512, .tag = 2}};
    uint32_t n = 0;
    assert_int_equal(device->submit(device, both, 2, &n, NULL), ORR_OK);
    orr_block_completion done[2];
    assert_int_equal(device->reap(device, 0, done, 2, &n, NULL), ORR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(device->reap(device, 1, done, 2, &n, NULL), ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(done[0].tag, 2);
    assert_int_equal(device->reap(device, 9, done, 2, &n, NULL), ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(done[0].tag, 1);
    device->close(device);
    free(memory);
    orr_block_device *memory_device = memory_of(4096);
    const orr_block_limits bad = {.read_iops = -1};
    assert_int_equal(orr_block_device_throttle(memory_device, &bad, &device, NULL), ORR_INVALID);
    memory_device->close(memory_device);
}

static void test_throttled_transfers(void **state)
{
    (void)state;
    int64_t now_ns = 0;
    const orr_clock clock = orr_clock_manual(&now_ns);
    const orr_block_limits limits = {
        .read_ns = 5000, .write_ns = 2000, .read_iops = 1e6, .write_bytes = 1e9};
    check_transfers(throttled(&limits, &clock), 1, 300);
    orr_block_device *device = NULL; /* on the real clock */
    assert_int_equal(orr_block_device_throttle(memory_of(1 << 14), &limits, &device, NULL), ORR_OK);
    check_transfers(device, 2, 20);
}

static void test_mapped(void **state)
{
    check_transfers(memory_of(1 << 16), 3, 300);
    const char *path = in_folder(state, "rows");
    orr_block_map how = {.path = path, .create = true, .bytes = 1 << 16, .sector = 256};
    orr_block_device *device = NULL, *other = NULL;
    assert_int_equal(orr_block_device_map(&how, &device, NULL), ORR_OK);
    orr_error err = {0};
    assert_int_equal(orr_block_device_map(&how, &other, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, path));
    check_transfers(device, 4, 300);
    how.create = false;
    how.bytes = 0;
    assert_int_equal(orr_block_device_map(&how, &device, NULL), ORR_OK);
    assert_int_equal(device->bytes, 1 << 16);
    char *memory = aligned_alloc(4096, 4096);
    memset(memory, 9, 4096);
    assert_int_equal(transfer(device, ORR_BLOCK_WRITE, 256, memory, 256), 0);
    assert_int_equal(device->sync(device, NULL), ORR_OK);
    orr_block_map reading = {.path = path, .read_only = true, .sector = 256};
    assert_int_equal(orr_block_device_map(&reading, &other, NULL), ORR_OK); /* beside it */
    assert_int_equal(transfer(other, ORR_BLOCK_READ, 256, memory, 256), 0);
    assert_int_equal(memory[0], 9);
    const orr_block_request write = {.operation = ORR_BLOCK_WRITE, .bytes = 256, .data = memory};
    uint32_t begun;
    assert_int_equal(other->submit(other, &write, 1, &begun, NULL), ORR_INVALID);
    assert_int_equal(other->sync(other, NULL), ORR_OK);
    other->close(other);
    reading.create = true;
    assert_int_equal(orr_block_device_map(&reading, &other, NULL), ORR_INVALID);
    device->close(device);
    orr_block_device *reader = NULL; /* what was stored is in the file */
    const orr_block_open open_how = {.path = path, .read_only = true};
    assert_int_equal(orr_block_device_open(&open_how, &reader, NULL), ORR_OK);
    assert_int_equal(transfer(reader, ORR_BLOCK_READ, 0, memory, 4096), 0);
    assert_int_equal(memory[256], 9);
    assert_int_equal(memory[511], 9);
    reader->close(reader);
    free(memory);
}

static void refuses(const orr_block_map *how, orr_status status, const char *text)
{
    orr_block_device *device = NULL;
    orr_error err = {0};
    assert_int_equal(orr_block_device_map(how, &device, &err), status);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void test_mapped_refusals(void **state)
{
    const char *path = in_folder(state, "rows");
    refuses(&(orr_block_map){.path = path, .create = true, .bytes = 4096, .sector = 100},
            ORR_INVALID, "no power of two");
    refuses(&(orr_block_map){.path = path, .create = true, .bytes = 4096, .sector = 8192},
            ORR_INVALID, "no power of two");
    refuses(&(orr_block_map){.path = path, .create = true, .bytes = 4100, .sector = 64},
            ORR_INVALID, "not whole granules");
    refuses(&(orr_block_map){.path = path, .sector = 64}, ORR_IO, "No such file");
    refuses(&(orr_block_map){.node = -2, .bytes = 4096, .sector = 64}, ORR_INVALID, "no number");
    assert_int_equal(access(path, F_OK), -1);
    /* A node that no machine has: said, not ignored. */
    orr_block_device *device = NULL;
    orr_error err = {0};
    const orr_block_map far_node = {.node = 1000, .bytes = 4096, .sector = 64};
    const orr_status status = orr_block_device_map(&far_node, &device, &err);
    assert_true(status == ORR_INVALID || status == ORR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "1000"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_kinds_apart),
        cmocka_unit_test(test_throttled_transfers),
        cmocka_unit_test_setup_teardown(test_mapped, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_mapped_refusals, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
