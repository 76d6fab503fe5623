/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/alloc.h"
#include "files.h"
#include "io/stream/output.h"

static size_t files_in(void **state)
{
    glob_t found;
    const int code = glob(in_folder(state, "*"), 0, NULL, &found);
    const size_t n = code == 0 ? found.gl_pathc : 0;
    globfree(&found);
    return n;
}

static void there_when_finished(void **state)
{
    const char *path = in_folder(state, "out.json");
    orr_output *out;
    assert_int_equal(orr_output_open(path, &out, NULL), ORR_OK);
    orr_output_text(out, "hello ");
    orr_output_printf(out, "%d %0700d", 42, 7);
    orr_output_write(out, "\0", 1);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(files_in(state), 1);
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    assert_int_equal(access(path, F_OK), 0);
    orr_output_close(out);
    assert_int_equal(files_in(state), 1);
    size_t n;
    char *all = read_all(path, &n, NULL);
    assert_int_equal(n, 6 + 3 + 700 + 1);
    assert_memory_equal(all, "hello 42 000", 12);
    free(all);
}

static void gone_when_not_finished(void **state)
{
    const char *path = in_folder(state, "out.json");
    write_file(path, "old", 3);
    orr_output *out;
    assert_int_equal(orr_output_open(path, &out, NULL), ORR_OK);
    orr_output_text(out, "new");
    assert_int_equal(files_in(state), 2);
    orr_output_close(out);
    orr_output_close(NULL);
    assert_int_equal(files_in(state), 1);
    size_t n;
    char *all = read_all(path, &n, NULL);
    assert_string_equal(all, "old");
    free(all);
}

static void mode_and_link_are_kept(void **state)
{
    const char *path = in_folder(state, "real");
    const char *name = in_folder(state, "link");
    write_file(path, "old", 3);
    assert_int_equal(chmod(path, 0640), 0);
    assert_int_equal(symlink(path, name), 0);
    orr_output *out;
    assert_int_equal(orr_output_open(name, &out, NULL), ORR_OK);
    orr_output_text(out, "new");
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    orr_output_close(out);
    struct stat about;
    assert_int_equal(lstat(name, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    assert_int_equal(stat(path, &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
    assert_int_equal(about.st_size, 3);
    const mode_t old = umask(027);
    assert_int_equal(orr_output_open(in_folder(state, "fresh"), &out, NULL), ORR_OK);
    umask(old);
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    orr_output_close(out);
    assert_int_equal(stat(in_folder(state, "fresh"), &about), 0);
    assert_int_equal(about.st_mode & 0777, 0640);
}

static void compressed_by_its_name(void **state)
{
    static const char *const names[] = {"a.gz", "b.gz", "a.zst", "b.zst"};
    enum { LEN = 1000000 };
    char *text = malloc(LEN);
    for (size_t i = 0; i < LEN; i++)
        text[i] = (char)('a' + i * i % 17);
    struct stat about[4];
    for (int i = 0; i < 4; i++) {
        orr_output *out;
        assert_int_equal(orr_output_open(in_folder(state, names[i]), &out, NULL), ORR_OK);
        for (size_t at = 0; at < LEN; at += 10000)
            orr_output_write(out, text + at, 10000);
        assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
        orr_output_close(out);
        size_t n = 0;
        char *all = read_all(in_folder(state, names[i]), &n, NULL);
        assert_non_null(all);
        assert_int_equal(n, LEN);
        assert_memory_equal(all, text, LEN);
        free(all);
        assert_int_equal(stat(in_folder(state, names[i]), &about[i]), 0);
        assert_true(about[i].st_size < LEN / 10);
    }
    /* Equal input, equal bytes. */
    char command[9000];
    (void)snprintf(command, sizeof command, "cmp -s '%s' '%s'", in_folder(state, "a.gz"),
                   in_folder(state, "b.gz"));
    assert_int_equal(system(command), 0);
    (void)snprintf(command, sizeof command, "cmp -s '%s' '%s'", in_folder(state, "a.zst"),
                   in_folder(state, "b.zst"));
    assert_int_equal(system(command), 0);
    free(text);
}

static void empty_outputs(void **state)
{
    static const char *const names[] = {"empty", "empty.gz", "empty.zst"};
    for (int i = 0; i < 3; i++) {
        orr_output *out;
        assert_int_equal(orr_output_open(in_folder(state, names[i]), &out, NULL), ORR_OK);
        assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
        orr_output_close(out);
        size_t n = 77;
        char *all = read_all(in_folder(state, names[i]), &n, NULL);
        assert_non_null(all);
        assert_int_equal(n, 0);
        free(all);
    }
}

static void large_writes(void **state)
{
    enum { LEN = 3 << 20 };
    char *bytes = malloc(LEN);
    memset(bytes, 'q', LEN);
    orr_output *out;
    const char *path = in_folder(state, "large");
    assert_int_equal(orr_output_open(path, &out, NULL), ORR_OK);
    orr_output_write(out, "begin", 5);
    orr_output_write(out, bytes, LEN);
    orr_output_write(out, "end", 3);
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    orr_output_close(out);
    size_t n;
    char *all = read_all(path, &n, NULL);
    assert_int_equal(n, LEN + 8);
    assert_memory_equal(all, "beginqqq", 8);
    assert_memory_equal(all + LEN + 2, "qqqend", 6);
    free(all);
    free(bytes);
}

static void what_cannot_be_written(void **state)
{
    orr_error err;
    orr_output *out = NULL;
    assert_int_equal(orr_output_open(in_folder(state, "no/such/folder"), &out, &err), ORR_IO);
    assert_non_null(strstr(err.text, "No such file"));
    assert_int_equal(orr_output_open(in_folder(state, "."), &out, &err), ORR_IO);
    assert_non_null(strstr(err.text, "directory"));
    assert_null(out);
}

/* The first failure is what finish tells, and the old file stays. */
static void full_disk(void **state)
{
    (void)state;
    orr_error err;
    orr_output *out;
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(orr_output_open("/dev/full", &out, &err), ORR_OK);
    for (int i = 0; i < 200000; i++)
        orr_output_text(out, "0123456789");
    assert_int_equal(orr_output_finish(out, &err), ORR_IO);
    assert_int_equal(err.os_errno, ENOSPC);
    assert_non_null(strstr(err.text, "No space left on device"));
    assert_int_equal(orr_output_finish(out, &err), ORR_IO);
    orr_output_close(out);
}

static void file_too_large(void **state)
{
    const char *path = in_folder(state, "out");
    write_file(path, "old", 3);
    struct rlimit old, small;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = 1000000;
    signal(SIGXFSZ, SIG_IGN);
    orr_error err;
    orr_output *out;
    assert_int_equal(orr_output_open(path, &out, &err), ORR_OK);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int i = 0; i < 200000; i++)
        orr_output_text(out, "0123456789");
    const orr_status status = orr_output_finish(out, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    orr_output_close(out);
    assert_int_equal(status, ORR_IO);
    assert_non_null(strstr(err.text, "cannot write"));
    assert_int_equal(files_in(state), 1);
    size_t n;
    char *all = read_all(path, &n, NULL);
    assert_string_equal(all, "old");
    free(all);
}

static void memory(void **state)
{
    (void)state;
    orr_output *out;
    size_t n = 7;
    assert_int_equal(orr_output_open_memory(&out, NULL), ORR_OK);
    assert_string_equal(orr_output_memory(out, &n), "");
    assert_int_equal(n, 0);
    for (int i = 0; i < 100000; i++)
        orr_output_printf(out, "%d,", i % 10);
    assert_int_equal(orr_output_finish(out, NULL), ORR_OK);
    const char *text = orr_output_memory(out, &n);
    assert_int_equal(n, 200000);
    assert_memory_equal(text, "0,1,2,3,4,5,6,7,8,9,0,", 22);
    orr_output_close(out);
}

static void standard_output(void **state)
{
    const char *path = in_folder(state, "stdout");
    fflush(stdout);
    const int saved = dup(STDOUT_FILENO);
    const int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(dup2(fd, STDOUT_FILENO) >= 0);
    orr_output *out;
    const orr_status opened = orr_output_open("-", &out, NULL);
    orr_output_text(out, "data");
    const orr_status finished = orr_output_finish(out, NULL);
    orr_output_close(out);
    const bool still_open = fcntl(STDOUT_FILENO, F_GETFD) >= 0;
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    close(fd);
    assert_int_equal(opened, ORR_OK);
    assert_int_equal(finished, ORR_OK);
    assert_true(still_open);
    size_t n;
    char *all = read_all(path, &n, NULL);
    assert_string_equal(all, "data");
    free(all);
}

/* A signal in the middle leaves nothing behind. */
static void handler(int number)
{
    orr_output_remove_temporaries();
    _exit(number);
}

static void signal_removes_temporaries(void **state)
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGINT, handler);
        orr_output *outs[3];
        static const char *const names[] = {"a", "b", "c.gz"};
        for (int i = 0; i < 3; i++)
            if (orr_output_open(in_folder(state, names[i]), &outs[i], NULL) != ORR_OK)
                _exit(99);
        if (orr_output_finish(outs[0], NULL) != ORR_OK)
            _exit(98);
        raise(SIGINT);
        _exit(97);
    }
    int how;
    assert_int_equal(waitpid(child, &how, 0), child);
    assert_true(WIFEXITED(how));
    assert_int_equal(WEXITSTATUS(how), SIGINT);
    assert_int_equal(files_in(state), 1);
    assert_int_equal(access(in_folder(state, "a"), F_OK), 0);
}

static void every_allocation_may_fail(void **state)
{
    static const char *const names[] = {"x", "x.gz", "x.zst"};
    for (int i = 0; i < 3; i++) {
        orr_status status = ORR_NO_MEMORY;
        for (uint64_t nth = 1; status != ORR_OK; nth++) {
            orr_output *out = NULL;
            orr_alloc_fail_from(nth);
            status = orr_output_open(in_folder(state, names[i]), &out, NULL);
            if (status == ORR_OK) {
                orr_output_printf(out, "%0800d", 1);
                status = orr_output_finish(out, NULL);
            }
            orr_output_close(out);
            orr_alloc_fail_from(0);
            assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
            assert_int_equal(files_in(state), (status == ORR_OK) + i);
            assert_in_range(nth, 1, 50);
        }
    }
    orr_output *out = NULL;
    orr_alloc_fail_from(1);
    assert_int_equal(orr_output_open_memory(&out, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(2);
    const orr_status opened = orr_output_open_memory(&out, NULL);
    orr_output_text(out, "x");
    const orr_status status = orr_output_finish(out, NULL);
    orr_alloc_fail_from(0);
    orr_output_close(out);
    assert_int_equal(opened, ORR_OK);
    assert_int_equal(status, ORR_NO_MEMORY);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(there_when_finished),
        IN_FOLDER(gone_when_not_finished),
        IN_FOLDER(mode_and_link_are_kept),
        IN_FOLDER(compressed_by_its_name),
        IN_FOLDER(empty_outputs),
        IN_FOLDER(large_writes),
        IN_FOLDER(what_cannot_be_written),
        cmocka_unit_test(full_disk),
        IN_FOLDER(file_too_large),
        cmocka_unit_test(memory),
        IN_FOLDER(standard_output),
        IN_FOLDER(signal_removes_temporaries),
        IN_FOLDER(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
