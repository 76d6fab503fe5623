/* SPDX-License-Identifier: Apache-2.0 */
/* A raw device whose sectors are 4 KiB, which a loop device is; memory that runs out. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transfers.h"

#include "base/alloc.h"

#include "../folder.h"

/* The name of a loop device over a file of 4 MiB; false: they cannot be had here. */
static bool attach(const char *file, char *ret, size_t room)
{
    char command[4400];
    const int fd = open(file, O_CREAT | O_RDWR, 0600);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, 4 << 20), 0);
    close(fd);
    (void)snprintf(command, sizeof command, "losetup -f --show -b 4096 '%s' 2>/dev/null", file);
    FILE *pipe = popen(command, "r");
    const bool said = pipe != NULL && fgets(ret, (int)room, pipe) != NULL;
    if (pipe == NULL || pclose(pipe) != 0 || !said)
        return false;
    ret[strcspn(ret, "\n")] = '\0';
    return true;
}

static void detach(const char *device)
{
    char command[300];
    (void)snprintf(command, sizeof command, "losetup -d %s", device);
    assert_int_equal(system(command), 0);
}

static void test_raw(void **state)
{
    char path[200];
    if (!attach(in_folder(state, "disk"), path, sizeof path)) {
        print_message("there are no loop devices: raw devices are not tested\n");
        skip();
    }
    orr_block_device *device = NULL, *other = NULL;
    orr_error err = {0};
    orr_block_open how = {.path = path, .create = true, .bytes = 1 << 20};
    if (orr_block_device_open(&how, &device, &err) != ORR_OK) {
        detach(path);
        fail_msg("%s", err.text);
    }
    assert_int_equal(device->sector, 4096);
    assert_int_equal(device->bytes, 1 << 20);
    assert_int_equal(orr_block_device_open(&how, &other, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, path));
    check_transfers(device, 11, 60);
    how = (orr_block_open){.path = path};
    assert_int_equal(orr_block_device_open(&how, &device, &err), ORR_OK);
    assert_int_equal(device->bytes, 4 << 20); /* all of it */
    device->close(device);
    how = (orr_block_open){.path = path, .create = true, .bytes = 8 << 20};
    assert_int_equal(orr_block_device_open(&how, &device, &err), ORR_IO);
    assert_non_null(strstr(err.text, "no space left"));
    assert_int_equal(access(path, F_OK), 0);
    detach(path);
}

/* Whatever cannot be allocated: an error or another way, and no file that was not wanted. */
static void test_no_memory(void **state)
{
    const char *path = in_folder(state, "rows");
    int refused = 0;
    for (uint64_t nth = 1;; nth++) {
        orr_block_device *device = NULL;
        const orr_block_open how = {.path = path, .create = true, .bytes = 8192};
        orr_alloc_fail_from(nth);
        const orr_status status = orr_block_device_open(&how, &device, NULL);
        orr_alloc_fail_from(0);
        if (status == ORR_OK) {
            const bool whole = device->remark == NULL || strstr(device->remark, "memory") == NULL;
            device->close(device);
            unlink(path);
            if (whole)
                break;
            continue;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(access(path, F_OK), -1);
        refused++;
    }
    assert_true(refused > 1);
    for (uint64_t nth = 1;; nth++) {
        orr_block_device *device = NULL;
        const orr_block_map how = {.path = path, .create = true, .bytes = 8192, .sector = 64};
        orr_alloc_fail_from(nth);
        const orr_status status = orr_block_device_map(&how, &device, NULL);
        orr_alloc_fail_from(0);
        if (status == ORR_OK) {
            device->close(device);
            break;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(access(path, F_OK), -1);
    }
    orr_block_device *memory = NULL, *device = NULL;
    const orr_block_map how = {.node = -1, .bytes = 8192, .sector = 64};
    const orr_block_limits limits = {.read_ns = 1};
    assert_int_equal(orr_block_device_map(&how, &memory, NULL), ORR_OK);
    for (uint64_t nth = 1; device == NULL; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_block_device_throttle(memory, &limits, &device, NULL);
        orr_alloc_fail_from(0);
        assert_int_equal(status, device == NULL ? ORR_NO_MEMORY : ORR_OK);
    }
    device->close(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_raw, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_no_memory, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
