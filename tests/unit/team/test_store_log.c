/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../io/files.h"
#include "base/alloc.h"
#include "base/philox.h"
#include "team/store/store.h"

enum { ROOM = 1 << 16 };

/* The record of a version: its length and every byte follow from it. */
static size_t record_of(uint64_t version, uint8_t *ret)
{
    orr_random r = orr_random_of(version, 7);
    const size_t n = orr_random_below(&r, 60);
    for (size_t i = 0; i < n; i++)
        ret[i] = (uint8_t)orr_random_u32(&r);
    return n;
}

static orr_status save(orr_team_store *store, uint64_t version, orr_error *err)
{
    uint8_t record[64];
    const size_t n = record_of(version, record);
    return store->save(store, version, record, n, err);
}

/* What load gives, which must be what was saved as that version. */
static orr_status load(orr_team_store *store, uint64_t *ret_version)
{
    orr_error err = {0};
    uint8_t got[ROOM], want[64];
    size_t n = SIZE_MAX;
    *ret_version = UINT64_MAX;
    const orr_status status = store->load(store, ret_version, got, sizeof got, &n, &err);
    if (status == ORR_OK) {
        assert_int_equal(n, record_of(*ret_version, want));
        assert_memory_equal(got, want, n);
    } else {
        assert_int_equal(*ret_version, UINT64_MAX);
        assert_true(err.text[0] != '\0');
    }
    return status;
}

static orr_team_store *open_log(const char *path)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    if (orr_team_store_log(path, &store, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(store->name, "log");
    return store;
}

static void expect(const char *path, orr_status status, uint64_t version)
{
    uint64_t got;
    orr_team_store *store = open_log(path);
    assert_int_equal(load(store, &got), status);
    if (status == ORR_OK)
        assert_int_equal(got, version);
    orr_team_store_close(store);
}

static void save_all(const char *path, uint64_t from, uint64_t to)
{
    orr_error err = {0};
    orr_team_store *store = open_log(path);
    for (uint64_t v = from; v <= to; v++)
        if (save(store, v, &err) != ORR_OK)
            fail_msg("%s", err.text);
    orr_team_store_close(store);
}

static void test_save_load(void **state)
{
    const char *path = in_folder(state, "log");
    expect(path, ORR_NOT_FOUND, 0);
    save_all(path, 3, 3);
    expect(path, ORR_OK, 3);
    orr_team_store *store = open_log(path);
    orr_error err = {0};
    uint64_t version;
    for (uint64_t v = 4; v < 40; v += 3) {
        assert_int_equal(save(store, v, &err), ORR_OK);
        assert_int_equal(load(store, &version), ORR_OK);
        assert_int_equal(version, v);
    }
    /* An older version is a mistake of the caller's. */
    assert_int_equal(save(store, 37, &err), ORR_INVALID);
    assert_int_equal(save(store, 5, &err), ORR_INVALID);
    orr_team_store_close(store);
    expect(path, ORR_OK, 37);
}

static void test_room(void **state)
{
    orr_team_store *store = open_log(in_folder(state, "log"));
    orr_error err = {0};
    char got[8] = "-------";
    uint64_t version = 5;
    size_t n = 6;
    assert_int_equal(store->save(store, 1, "12345678", 8, &err), ORR_OK);
    assert_int_equal(store->load(store, &version, got, 7, &n, &err), ORR_LIMIT);
    assert_int_equal(version, 5);
    assert_int_equal(n, 6);
    assert_int_equal(store->load(store, &version, got, 8, &n, &err), ORR_OK);
    assert_memory_equal(got, "12345678", 8);
    assert_int_equal(store->save(store, 2, got, (size_t)1 << 30, &err), ORR_LIMIT);
    assert_int_equal(store->save(store, 2, NULL, 0, &err), ORR_OK);
    assert_int_equal(store->load(store, &version, got, 8, &n, &err), ORR_OK);
    assert_int_equal(version, 2);
    assert_int_equal(n, 0);
    orr_team_store_close(store);
}

/* Of five records; where each ends is found by saving one at a time. */
enum { RECORDS = 5 };
typedef struct example {
    char *bytes;
    size_t size, end[RECORDS + 1];
} example;

static example make_example(const char *path)
{
    example x = {0};
    orr_error err = {0};
    for (uint64_t v = 1; v <= RECORDS; v++) {
        struct stat about;
        save_all(path, v, v);
        assert_int_equal(stat(path, &about), 0);
        x.end[v] = (size_t)about.st_size;
    }
    x.bytes = read_all(path, &x.size, &err);
    assert_int_equal(x.size, x.end[RECORDS]);
    return x;
}

/* What a process that died while it appended leaves. */
static void test_cut_at_every_byte(void **state)
{
    const char *path = in_folder(state, "log");
    const example x = make_example(path);
    for (size_t n = 0; n < x.size; n++) {
        uint64_t want = 0;
        while (want < RECORDS && x.end[want + 1] <= n)
            want++;
        write_file(path, x.bytes, n);
        expect(path, n == 0 ? ORR_NOT_FOUND : want == 0 ? ORR_PARSE : ORR_OK, want);
        /* It goes on from there, and nothing of the torn record comes back. */
        save_all(path, want + 1, want + 1);
        expect(path, ORR_OK, want + 1);
        struct stat about;
        assert_int_equal(stat(path, &about), 0);
        assert_int_equal(about.st_size, x.end[want + 1]);
    }
    free(x.bytes);
}

/* A byte of one record changed: the newest of the others. */
static void test_every_byte_changed(void **state)
{
    const char *path = in_folder(state, "log");
    const example x = make_example(path);
    for (size_t i = 0; i < x.size; i++)
        for (int bit = 0; bit < 8; bit++) {
            x.bytes[i] ^= (char)(1 << bit);
            write_file(path, x.bytes, x.size);
            expect(path, ORR_OK, i < x.end[RECORDS - 1] ? RECORDS : RECORDS - 1);
            write_file(path, x.bytes, x.end[1]);
            expect(path, i < x.end[1] ? ORR_PARSE : ORR_OK, 1);
            x.bytes[i] ^= (char)(1 << bit);
        }
    free(x.bytes);
}

static void test_garbage(void **state)
{
    const char *path = in_folder(state, "log"), *aside = in_folder(state, "log.unreadable");
    orr_random r = orr_random_of(11, 0);
    uint8_t bytes[4096] = {0};
    for (int round = 0; round < 50; round++) {
        const size_t n = 1 + orr_random_below(&r, sizeof bytes);
        for (size_t i = 0; round > 0 && i < n; i++)
            bytes[i] = (uint8_t)(orr_random_below(&r, 3) == 0 ? orr_random_u32(&r) : 0);
        (void)unlink(aside);
        write_file(path, bytes, n);
        expect(path, ORR_PARSE, 0);
        save_all(path, 9, 9);
        expect(path, ORR_OK, 9);
        /* What nobody could read is not thrown away. */
        size_t kept_n;
        orr_error err = {0};
        char *kept = read_all(aside, &kept_n, &err);
        assert_int_equal(kept_n, n);
        assert_memory_equal(kept, bytes, n);
        free(kept);
    }
}

/* A record that holds what looks like a log does not become one when its own header is lost. */
static void test_log_in_a_record(void **state)
{
    const char *inner = in_folder(state, "inner"), *outer = in_folder(state, "outer");
    orr_error err = {0};
    size_t n;
    save_all(inner, 50, 53);
    char *bytes = read_all(inner, &n, &err);
    orr_team_store *store = open_log(outer);
    assert_int_equal(store->save(store, 1, bytes, n, &err), ORR_OK);
    orr_team_store_close(store);
    free(bytes);
    bytes = read_all(outer, &n, &err);
    bytes[0] ^= 1;
    write_file(outer, bytes, n);
    free(bytes);
    expect(outer, ORR_PARSE, 0);
}

/* It does not grow beyond a mebibyte, and each record is there at once. */
static void test_compaction(void **state)
{
    const char *path = in_folder(state, "log");
    static uint8_t record[200 * 1000], got[sizeof record];
    orr_error err = {0};
    struct stat about;
    orr_team_store *store = open_log(path);
    assert_int_equal(chmod(path, 0640), 0);
    off_t largest = 0;
    int shrunk = 0;
    for (uint64_t v = 1; v <= 40; v++) {
        memset(record, (int)v, sizeof record);
        assert_int_equal(store->save(store, v, record, sizeof record - v, &err), ORR_OK);
        assert_int_equal(stat(path, &about), 0);
        shrunk += about.st_size < largest;
        largest = about.st_size;
        assert_true(about.st_size <= 1 << 20);
        uint64_t version;
        size_t n;
        assert_int_equal(store->load(store, &version, got, sizeof got, &n, &err), ORR_OK);
        assert_int_equal(version, v);
        assert_int_equal(n, sizeof record - v);
        assert_memory_equal(got, record, n);
    }
    assert_int_equal(shrunk, 7);
    assert_int_equal(about.st_mode & 07777, 0640);
    assert_int_not_equal(access(in_folder(state, "log.new"), F_OK), 0);
    /* The file that took the old one's place is held too. */
    orr_team_store *second = NULL;
    assert_int_equal(orr_team_store_log(path, &second, &err), ORR_LIMIT);
    orr_team_store_close(store);
    store = open_log(path);
    static uint8_t large[(1 << 20) + 1];
    for (uint64_t v = 41; v < 44; v++)
        assert_int_equal(store->save(store, v, large, sizeof large - 1, &err), ORR_OK);
    assert_int_equal(store->save(store, 44, large, sizeof large, &err), ORR_LIMIT);
    orr_team_store_close(store);
}

static void test_one_holder(void **state)
{
    const char *path = in_folder(state, "log"), *link_path = in_folder(state, "link");
    orr_error err = {0};
    orr_team_store *store = open_log(path), *second = NULL;
    assert_int_equal(symlink(path, link_path), 0);
    assert_int_equal(orr_team_store_log(path, &second, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, path));
    assert_non_null(strstr(err.text, "another process"));
    assert_int_equal(orr_team_store_log(link_path, &second, &err), ORR_LIMIT);
    assert_int_equal(save(store, 1, &err), ORR_OK);
    const pid_t child = fork();
    if (child == 0)
        _exit(orr_team_store_log(path, &second, &err) == ORR_LIMIT ? 0 : 1);
    int code;
    assert_int_equal(waitpid(child, &code, 0), child);
    assert_int_equal(code, 0);
    orr_team_store_close(store);
    /* By a link: the file it leads to is written, the link stays one. */
    save_all(link_path, 2, 2);
    struct stat about;
    assert_int_equal(lstat(link_path, &about), 0);
    assert_true(S_ISLNK(about.st_mode));
    expect(path, ORR_OK, 2);
}

static void test_no_file(void **state)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    assert_int_equal(orr_team_store_log(in_folder(state, "none/log"), &store, &err), ORR_IO);
    assert_int_equal(orr_team_store_log(*state, &store, &err), ORR_IO);
    assert_int_equal(orr_team_store_log("/dev/null", &store, &err), ORR_IO);
    assert_non_null(strstr(err.text, "/dev/null"));
    assert_int_equal(orr_team_store_log("", &store, &err), ORR_IO);
    assert_null(store);
}

/* No file of this process may grow beyond so much: writes stop in the middle, as on a full disk. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void test_full_disk(void **state)
{
    const char *path = in_folder(state, "log"), *fresh = in_folder(state, "log.new");
    const example x = make_example(path);
    (void)signal(SIGXFSZ, SIG_IGN);
    for (size_t n = x.end[2]; n < x.size; n++) {
        orr_error err = {0};
        uint64_t version;
        write_file(path, x.bytes, x.end[2]);
        orr_team_store *store = open_log(path);
        limit_files(n);
        uint64_t v = 3;
        while (v <= RECORDS && x.end[v] <= n)
            assert_int_equal(save(store, v++, &err), ORR_OK);
        assert_true(v <= RECORDS);
        assert_int_equal(save(store, v, &err), ORR_IO);
        assert_int_equal(err.os_errno, EFBIG);
        assert_non_null(strstr(err.text, path));
        assert_int_equal(load(store, &version), ORR_OK);
        assert_int_equal(version, v - 1);
        limit_files(1);
        assert_int_equal(save(store, v, &err), ORR_IO); /* nor does a new file fit */
        assert_int_equal(load(store, &version), ORR_OK);
        assert_int_equal(version, v - 1);
        limit_files(RLIM_INFINITY);
        assert_int_not_equal(access(fresh, F_OK), 0);
        orr_team_store_close(store);
        expect(path, ORR_OK, v - 1);
        /* There is room again. */
        store = open_log(path);
        limit_files(n);
        assert_int_equal(save(store, v, &err), ORR_IO);
        limit_files(RLIM_INFINITY);
        assert_int_equal(save(store, v, &err), ORR_OK);
        assert_int_equal(save(store, v + 1, &err), ORR_OK);
        orr_team_store_close(store);
        expect(path, ORR_OK, v + 1);
    }
    (void)signal(SIGXFSZ, SIG_DFL);
    free(x.bytes);
}

static void test_first_save_fails(void **state)
{
    const char *path = in_folder(state, "log");
    orr_error err = {0};
    uint64_t version;
    orr_team_store *store = open_log(path);
    (void)signal(SIGXFSZ, SIG_IGN);
    limit_files(10);
    assert_int_equal(save(store, 1, &err), ORR_IO);
    limit_files(RLIM_INFINITY);
    (void)signal(SIGXFSZ, SIG_DFL);
    assert_int_equal(load(store, &version), ORR_NOT_FOUND);
    orr_team_store_close(store);
    expect(path, ORR_NOT_FOUND, 0);
}

/* A child that saves as fast as it can and says what it has saved. It begins anew every few
 * records, so that deaths fall into both ways of writing. */
static void save_until_killed(const char *path, uint64_t from, int to)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    if (orr_team_store_log(path, &store, &err) != ORR_OK)
        _exit(1);
    static uint8_t record[300 * 1000];
    for (uint64_t v = from;; v++) {
        memset(record, (int)(v * 37), sizeof record);
        if (store->save(store, v, record, sizeof record - v % 1000, &err) != ORR_OK ||
            write(to, &v, sizeof v) != sizeof v)
            _exit(1);
    }
}

static void test_kill(void **state)
{
    const char *path = in_folder(state, "log");
    orr_random r = orr_random_of(3, 0);
    uint64_t saved = 0;
    static uint8_t got[300 * 1000];
    for (int round = 0; round < 60; round++) {
        int ends[2];
        assert_int_equal(pipe(ends), 0);
        const pid_t child = fork();
        if (child == 0)
            save_until_killed(path, saved + 1, ends[1]);
        (void)close(ends[1]);
        /* Every other one lives until it has saved a record. */
        if (round % 2 == 0)
            assert_int_equal(read(ends[0], &saved, sizeof saved), sizeof saved);
        (void)usleep((useconds_t)orr_random_below(&r, 15000));
        (void)kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        for (uint64_t v; read(ends[0], &v, sizeof v) == sizeof v;)
            saved = v;
        (void)close(ends[0]);
        orr_error err = {0};
        uint64_t version;
        size_t n;
        orr_team_store *store = open_log(path);
        const orr_status status = store->load(store, &version, got, sizeof got, &n, &err);
        if (saved == 0 && status == ORR_NOT_FOUND) {
            orr_team_store_close(store);
            continue;
        }
        assert_int_equal(status, ORR_OK);
        assert_true(version == saved || version == saved + 1);
        assert_int_equal(n, sizeof got - version % 1000);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(got[i], (uint8_t)(version * 37));
        saved = version;
        orr_team_store_close(store);
    }
    assert_true(saved >= 30);
}

static void test_no_memory(void **state)
{
    const char *path = in_folder(state, "log");
    save_all(path, 1, 2);
    orr_error err = {0};
    for (uint64_t n = 1;; n++) {
        orr_team_store *store = NULL;
        orr_alloc_fail_from(n);
        const orr_status status = orr_team_store_log(path, &store, &err);
        orr_alloc_fail_from(0);
        orr_team_store_close(store);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(n < 20);
    }
    expect(path, ORR_OK, 2);
}

/* Thousands of syncs: in memory, where there is such a file system. */
int main(void)
{
    if (getenv("TMPDIR") == NULL && access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 1);
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_save_load),         TEST(test_room),
        TEST(test_cut_at_every_byte), TEST(test_every_byte_changed),
        TEST(test_garbage),           TEST(test_log_in_a_record),
        TEST(test_compaction),        TEST(test_one_holder),
        TEST(test_no_file),           TEST(test_full_disk),
        TEST(test_first_save_fails),  TEST(test_kill),
        TEST(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
