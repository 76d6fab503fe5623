/* SPDX-License-Identifier: Apache-2.0 */
/* Files as block devices: by io_uring where this machine allows it, and by pread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfers.h"

#include "../folder.h"

static orr_block_device *make(const orr_block_open *how)
{
    orr_block_device *device = NULL;
    orr_error err = {0};
    if (orr_block_device_open(how, &device, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return device;
}

static void refuses(const orr_block_open *how, orr_status status, const char *text)
{
    orr_block_device *device = NULL;
    orr_error err = {0};
    assert_int_equal(orr_block_device_open(how, &device, &err), status);
    assert_null(device);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
    assert_non_null(strstr(err.text, how->path));
}

static void test_transfers(void **state)
{
    static const uint32_t depths[] = {1, 7, 32, 0};
    for (int variant = 0; variant < 16; variant++) {
        const orr_block_open how = {.path = in_folder(state, "rows"),
                                    .create = true,
                                    .bytes = 1 << 19,
                                    .depth = depths[variant % 4],
                                    .plain = (variant & 4) != 0,
                                    .cached = (variant & 8) != 0};
        orr_block_device *device = make(&how);
        assert_int_equal(device->bytes, 1 << 19);
        assert_true(device->sector >= 512);
        assert_string_equal(device->name, how.plain || device->remark ? "pread" : "io_uring");
        assert_ptr_equal(orr_block_device_remark(device), device->remark);
        check_transfers(device, (uint64_t)variant, 60);
        unlink(how.path);
    }
}

static void test_content_stays(void **state)
{
    orr_block_open how = {.path = in_folder(state, "rows"), .create = true, .bytes = 1 << 16};
    char *memory = aligned_alloc(4096, 4096);
    orr_block_device *device = make(&how);
    memset(memory, 7, 4096);
    assert_int_equal(transfer(device, ORR_BLOCK_WRITE, 8192, memory, 4096), 0);
    device->close(device);
    how.create = false;
    how.read_only = true;
    device = make(&how);
    assert_int_equal(device->bytes, 1 << 16);
    assert_int_equal(transfer(device, ORR_BLOCK_READ, 8192, memory, 4096), 0);
    assert_int_equal(memory[0] + memory[4095], 14);
    assert_int_not_equal(transfer(device, ORR_BLOCK_WRITE, 8192, memory, 4096), 0);
    device->close(device);
    how.read_only = false;
    how.create = true; /* anew: zeros */
    device = make(&how);
    assert_int_equal(transfer(device, ORR_BLOCK_READ, 8192, memory, 4096), 0);
    assert_int_equal(memory[0], 0);
    device->close(device);
    free(memory);
}

static void test_opening(void **state)
{
    const char *path = in_folder(state, "rows");
    refuses(&(orr_block_open){.path = path}, ORR_IO, "No such file");
    refuses(&(orr_block_open){.path = path, .create = true, .bytes = 1000}, ORR_INVALID,
            "1000 bytes are not whole sectors");
    refuses(&(orr_block_open){.path = path, .create = true}, ORR_INVALID, "0 bytes");
    refuses(&(orr_block_open){.path = path, .create = true, .bytes = 8192, .sector = 1000},
            ORR_INVALID, "no power of two");
    refuses(&(orr_block_open){.path = path, .create = true, .bytes = 8192, .read_only = true},
            ORR_INVALID, "only read");
    assert_int_equal(access(path, F_OK), -1); /* what was refused was not made */
    refuses(&(orr_block_open){.path = in_folder(state, "none/rows"), .create = true, .bytes = 8192},
            ORR_IO, "No such file");
    refuses(&(orr_block_open){.path = *state, .read_only = true}, ORR_INVALID, "kept in a file");

    const orr_block_open how = {.path = path, .create = true, .bytes = 16384, .sector = 8192};
    orr_block_device *device = make(&how);
    assert_int_equal(device->sector, 8192);
    device->close(device);
    device = make(&(orr_block_open){.path = path, .sector = 512, .cached = true});
    assert_int_equal(device->bytes, 16384);
    device->close(device);
    assert_int_equal(truncate(path, 16000), 0);
    refuses(&(orr_block_open){.path = path}, ORR_INVALID, "cut short");
}

/* In this process and in another one; a reader may come in, too. */
static void test_lock(void **state)
{
    const char *path = in_folder(state, "rows");
    const orr_block_open how = {.path = path, .create = true, .bytes = 8192};
    orr_block_device *device = make(&how);
    refuses(&(orr_block_open){.path = path}, ORR_LIMIT, "another process has it open");
    refuses(&how, ORR_LIMIT, "another process has it open");
    assert_int_equal(access(path, F_OK), 0);
    const pid_t child = fork();
    if (child == 0) {
        orr_block_device *other;
        _exit(orr_block_device_open(&(orr_block_open){.path = path}, &other, NULL) == ORR_LIMIT
                  ? 0
                  : 1);
    }
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    orr_block_device *reader = make(&(orr_block_open){.path = path, .read_only = true});
    reader->close(reader);
    device->close(device);
    device = make(&(orr_block_open){.path = path});
    device->close(device);
}

/* A process that is killed in the midst of its requests leaves no lock behind. */
static void test_killed(void **state)
{
    const char *path = in_folder(state, "rows");
    for (int k = 0; k < 10; k++) {
        int ready[2];
        char byte;
        assert_int_equal(pipe(ready), 0);
        const pid_t child = fork();
        if (child == 0) {
            static _Alignas(4096) char memory[16][4096];
            const orr_block_open how = {.path = path, .create = true, .bytes = 1 << 16};
            orr_block_device *device;
            uint32_t n = 0;
            if (orr_block_device_open(&how, &device, NULL) != ORR_OK)
                _exit(1);
            for (uint32_t r = 0; r < 16; r++) {
                const orr_block_request request = {.operation = ORR_BLOCK_WRITE,
                                                   .at = 4096ULL * r,
                                                   .bytes = 4096,
                                                   .data = memory[r]};
                if (device->submit(device, &request, 1, &n, NULL) != ORR_OK)
                    _exit(1);
            }
            if (write(ready[1], "r", 1) != 1)
                _exit(1);
            for (;;)
                pause();
        }
        close(ready[1]);
        assert_int_equal(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        assert_int_equal(kill(child, SIGKILL), 0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        orr_block_device *device = make(&(orr_block_open){.path = path});
        device->close(device);
    }
}

static void refuses_request(orr_block_device *device, uint64_t at, void *data, uint32_t bytes,
                            const char *text)
{
    const orr_block_request request = {.at = at, .bytes = bytes, .data = data};
    uint32_t n = 9;
    orr_error err = {0};
    assert_int_equal(device->submit(device, &request, 1, &n, &err), ORR_INVALID);
    assert_int_equal(n, 9);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static void test_requests(void **state)
{
    for (int plain = 0; plain < 2; plain++) {
        const char *path = in_folder(state, "rows");
        orr_block_device *device = make(&(orr_block_open){
            .path = path, .create = true, .bytes = 16384, .sector = 4096, .plain = plain == 1});
        char *memory = aligned_alloc(4096, 8192);
        refuses_request(device, 512, memory, 4096, "not whole sectors");
        refuses_request(device, 0, memory, 512, "not whole sectors");
        refuses_request(device, 0, memory, 0, "not whole sectors");
        refuses_request(device, 0, memory + 8, 4096, "not aligned");
        refuses_request(device, 16384, memory, 4096, "beyond the end");
        refuses_request(device, 12288, memory, 8192, "beyond the end");
        refuses_request(device, UINT64_MAX - 4095, memory, 4096, "beyond the end");
        /* Cut short under us: an error, no zeros. */
        assert_int_equal(truncate(path, 8192), 0);
        assert_int_equal(transfer(device, ORR_BLOCK_READ, 8192, memory, 4096), EIO);
        assert_int_equal(transfer(device, ORR_BLOCK_READ, 4096, memory, 8192), EIO);
        assert_int_equal(transfer(device, ORR_BLOCK_READ, 4096, memory, 4096), 0);
        device->close(device);
        free(memory);
    }
}

static void *write_sector(void *ctx)
{
    orr_block_device *device = ctx;
    char *memory = aligned_alloc(4096, 4096);
    memset(memory, 5, 4096);
    assert_int_equal(transfer(device, ORR_BLOCK_WRITE, 4096, memory, 4096), 0);
    free(memory);
    return NULL;
}

/* Threads take turns while nothing is in flight. */
static void test_threads(void **state)
{
    orr_block_device *device =
        make(&(orr_block_open){.path = in_folder(state, "rows"), .create = true, .bytes = 16384});
    char *memory = aligned_alloc(4096, 4096);
    orr_error err = {0};
    if (device->use_memory != NULL)
        assert_int_equal(device->use_memory(device, memory, 4096, &err), ORR_OK);
    assert_int_equal(transfer(device, ORR_BLOCK_READ, 4096, memory, 4096), 0);
    assert_int_equal(memory[0], 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, write_sector, device), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(transfer(device, ORR_BLOCK_READ, 4096, memory, 4096), 0);
    assert_int_equal(memory[0], 5);
    device->close(device);
    free(memory);
}

static void test_full_disk(void **state)
{
    const char *folder = in_folder(state, "small");
    assert_int_equal(mkdir(folder, 0777), 0);
    if (mount("none", folder, "tmpfs", 0, "size=1m") != 0) {
        print_message("no tmpfs can be mounted here: a full disk is not tested\n");
        skip();
    }
    char path[4300];
    (void)snprintf(path, sizeof path, "%s/rows", folder);
    refuses(&(orr_block_open){.path = path, .create = true, .bytes = 1 << 22}, ORR_IO,
            "0.004 GiB could not be allocated: no space left");
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(umount(folder), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_transfers, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_content_stays, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_opening, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_lock, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_killed, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_requests, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_threads, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(test_full_disk, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
