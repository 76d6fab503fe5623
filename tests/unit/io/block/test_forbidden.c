/* SPDX-License-Identifier: Apache-2.0 */
/* io_uring forbidden by seccomp, as in many containers: rows are read all the same, and it is said.
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transfers.h"

#include "../folder.h"

/* From here on io_uring_setup() fails with `error` in this process. */
static bool forbid(int error)
{
#ifdef SYS_io_uring_setup
    struct sock_filter rules[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0), /* seccomp_data.nr */
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ((unsigned)error & SECCOMP_RET_DATA)),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = 4, .filter = rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
#else
    (void)error;
    return false;
#endif
}

enum { FINE = 0, CANNOT_FORBID = 1, NOT_OPENED, NOT_SAID, NOT_MOVED };

/* In a process of its own: what is forbidden stays so. */
static int child(const char *path, int error, const char *word)
{
    if (!forbid(error))
        return CANNOT_FORBID;
    const orr_block_open how = {.path = path, .create = true, .bytes = 8192};
    orr_block_device *device;
    if (orr_block_device_open(&how, &device, NULL) != ORR_OK)
        return NOT_OPENED;
    const char *remark = orr_block_device_remark(device);
    if (strcmp(device->name, "pread") != 0 || remark == NULL || strstr(remark, "pread") == NULL)
        return NOT_SAID;
    if (strstr(remark, word) == NULL && strstr(remark, "built without liburing") == NULL)
        return NOT_SAID;
    char *memory = aligned_alloc(4096, 8192);
    memset(memory, 3, 4096);
    const orr_block_request both[] = {
        {.operation = ORR_BLOCK_WRITE, .at = 4096, .bytes = 4096, .data = memory, .tag = 1},
        {.operation = ORR_BLOCK_READ, .at = 4096, .bytes = 4096, .data = memory + 4096, .tag = 2}};
    orr_block_completion done[2];
    uint32_t begun, n;
    if (device->submit(device, both, 2, &begun, NULL) != ORR_OK || begun != 2 ||
        device->reap(device, 2, done, 2, &n, NULL) != ORR_OK || n != 2 || done[0].error != 0 ||
        done[1].error != 0 || memory[8191] != 3 || device->sync(device, NULL) != ORR_OK)
        return NOT_MOVED;
    device->close(device);
    free(memory);
    return FINE;
}

static void test_forbidden(void **state)
{
    static const struct {
        int error;
        const char *word;
    } cases[] = {{EPERM, "EPERM"},
                 {EACCES, "EACCES"},
                 {ENOSYS, "ENOSYS"},
                 {ENOMEM, "ENOMEM"},
                 {EINVAL, "does not start"}};
    for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
        const char *path = in_folder(state, "rows");
        const pid_t pid = fork();
        if (pid == 0)
            _exit(child(path, cases[k].error, cases[k].word));
        int code;
        assert_int_equal(waitpid(pid, &code, 0), pid);
        assert_true(WIFEXITED(code));
        if (WEXITSTATUS(code) == CANNOT_FORBID) {
            print_message("seccomp cannot be used here\n");
            skip();
        }
        assert_int_equal(WEXITSTATUS(code), FINE);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_forbidden, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
