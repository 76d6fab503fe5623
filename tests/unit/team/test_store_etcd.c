/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "../io/folder.h"
#include "base/alloc.h"
#include "base/clock.h"
#include "etcd.h"
#include "team/store/store.h"

static const int64_t SECOND = 1000 * 1000 * 1000;
static const int64_t PATIENT = 1800 * INT64_C(1000000000); /* a busy machine starts etcd slowly */

/* Built with libcurl, and there is an etcd; else the test is skipped, with a word. */
static void need_etcd(void)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    if (orr_team_store_etcd("127.0.0.1:1", "key", SECOND, &store, &err) == ORR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    orr_team_store_close(store);
    if (!etcd_is_installed()) {
        print_message("skipped: no etcd is installed\n");
        skip();
    }
}

static orr_team_store *store_at(const char *endpoints, int64_t timeout_ns)
{
    orr_error err = {0};
    orr_team_store *store = NULL;
    if (orr_team_store_etcd(endpoints, "jobs/a b", timeout_ns, &store, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_string_equal(store->name, "etcd");
    return store;
}

static const char *endpoint_of(int port)
{
    static char text[4][64];
    static int next;
    char *at = text[next++ % 4];
    (void)snprintf(at, sizeof text[0], "http://127.0.0.1:%d", port);
    return at;
}

static void expect(orr_team_store *store, uint64_t version, const char *record)
{
    orr_error err = {0};
    char got[4096];
    uint64_t got_version;
    size_t n;
    if (store->load(store, &got_version, got, sizeof got, &n, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(got_version, version);
    assert_int_equal(n, strlen(record));
    assert_memory_equal(got, record, n);
}

static void expect_none(orr_team_store *store)
{
    orr_error err = {0};
    char got[16];
    uint64_t version = 77;
    size_t n = 78;
    const orr_status status = store->load(store, &version, got, sizeof got, &n, &err);
    if (status != ORR_NOT_FOUND)
        fail_msg("%s: %s", orr_status_name(status), err.text);
    assert_int_equal(version, 77);
    assert_int_equal(n, 78);
}

static orr_status save(orr_team_store *store, uint64_t version, const char *record, orr_error *err)
{
    return store->save(store, version, record, strlen(record), err);
}

static void save_ok(orr_team_store *store, uint64_t version, const char *record)
{
    orr_error err = {0};
    if (save(store, version, record, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static void test_save_load(void **state)
{
    need_etcd();
    etcd_process etcd;
    etcd_new(&etcd, in_folder(state, "etcd"));
    orr_team_store *store = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(store);
    save_ok(store, 4, "first");
    expect(store, 4, "first");
    save_ok(store, 5, "");
    expect(store, 5, "");
    orr_error err = {0};
    assert_int_equal(save(store, 5, "again", &err), ORR_INVALID);
    char small[2];
    uint64_t version;
    size_t n;
    save_ok(store, 9, "\x01\xff\"{}");
    assert_int_equal(store->load(store, &version, small, sizeof small, &n, &err), ORR_LIMIT);
    orr_team_store_close(store);
    store = store_at(endpoint_of(etcd.port), PATIENT);
    expect(store, 9, "\x01\xff\"{}");
    save_ok(store, 10, "the next coordinator's");
    orr_team_store_close(store);
    /* etcd's own limit is not ours: its sentence is passed on, the record stays. */
    store = store_at(endpoint_of(etcd.port), PATIENT);
    expect(store, 10, "the next coordinator's");
    char *large = calloc(1, 2 << 20);
    const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
    assert_int_equal(store->save(store, 11, large, 600 * 1000, &err), ORR_IO);
    assert_true(orr_clock_now_ns(&orr_clock_monotonic) - before < PATIENT / 2);
    assert_non_null(strstr(err.text, "too large"));
    assert_int_equal(store->save(store, 11, large, 2 << 20, &err), ORR_LIMIT);
    free(large);
    expect(store, 10, "the next coordinator's");
    orr_team_store_close(store);
    etcd_kill(&etcd);
}

static void test_another_writer(void **state)
{
    need_etcd();
    etcd_process etcd;
    etcd_new(&etcd, in_folder(state, "etcd"));
    orr_error err = {0};
    orr_team_store *a = store_at(endpoint_of(etcd.port), PATIENT);
    orr_team_store *b = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(a);
    expect_none(b);
    save_ok(a, 1, "a");
    assert_int_equal(save(b, 1, "a", &err), ORR_CANCELED); /* the same bytes, but not its own */
    assert_non_null(strstr(err.text, "another coordinator"));
    expect(b, 1, "a");
    save_ok(b, 2, "b");
    for (uint64_t v = 2; v < 5; v++)
        assert_int_equal(save(a, v, "a", &err), ORR_CANCELED);
    expect(b, 2, "b");
    /* Who never looked may not write over what is there. */
    orr_team_store *blind = store_at(endpoint_of(etcd.port), PATIENT);
    assert_int_equal(save(blind, 9, "c", &err), ORR_CANCELED);
    orr_team_store_close(blind);
    expect(b, 2, "b");
    orr_team_store_close(a);
    orr_team_store_close(b);
    etcd_kill(&etcd);
}

/* Another program's value is not taken for a record, and not written over unseen. */
static void test_foreign_value(void **state)
{
    need_etcd();
    etcd_process etcd;
    char command[256];
    etcd_new(&etcd, in_folder(state, "etcd"));
    orr_team_store *store = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(store);
    (void)snprintf(command, sizeof command,
                   "ETCDCTL_API=3 etcdctl --endpoints=%s put 'jobs/a b' hello >/dev/null 2>&1",
                   endpoint_of(etcd.port));
    if (system(command) == 0) {
        orr_error err = {0};
        char got[64];
        uint64_t version;
        size_t n;
        assert_int_equal(save(store, 1, "x", &err), ORR_CANCELED);
        assert_int_equal(store->load(store, &version, got, sizeof got, &n, &err), ORR_PARSE);
        save_ok(store, 1, "x"); /* seen now */
        expect(store, 1, "x");
    }
    orr_team_store_close(store);
    etcd_kill(&etcd);
}

static void test_killed_and_restarted(void **state)
{
    need_etcd();
    etcd_process etcd;
    etcd_new(&etcd, in_folder(state, "etcd"));
    orr_team_store *store = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(store);
    for (uint64_t v = 1; v < 4; v++) {
        save_ok(store, v, "kept");
        etcd_kill(&etcd);
        etcd_start(&etcd);
    }
    expect(store, 3, "kept");
    etcd_kill(&etcd);
    orr_error err = {0};
    orr_team_store *hurried = store_at(endpoint_of(etcd.port), SECOND / 5);
    assert_int_equal(save(hurried, 4, "lost", &err), ORR_IO);
    assert_non_null(strstr(err.text, "127.0.0.1"));
    orr_team_store_close(hurried);
    orr_team_store_close(store);
}

static void test_dead_endpoint(void **state)
{
    need_etcd();
    etcd_process etcd;
    char list[256];
    etcd_new(&etcd, in_folder(state, "etcd"));
    /* One that refuses, and one that accepts and never answers. */
    int silent_port;
    const int silent = bound_socket(&silent_port);
    assert_int_equal(listen(silent, 16), 0);
    (void)snprintf(list, sizeof list, "127.0.0.1:%d,%s,%s/", free_port(), endpoint_of(silent_port),
                   endpoint_of(etcd.port));
    orr_team_store *store = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(store); /* it is up */
    orr_team_store_close(store);
    store = store_at(list, 6 * SECOND);
    expect_none(store);
    /* The one that answered is asked first from now on. */
    const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
    save_ok(store, 1, "one");
    save_ok(store, 2, "two");
    expect(store, 2, "two");
    assert_true(orr_clock_now_ns(&orr_clock_monotonic) - before < 2 * SECOND);
    orr_team_store_close(store);
    (void)close(silent);
    etcd_kill(&etcd);
}

static void test_stopped(void **state)
{
    need_etcd();
    etcd_process etcd;
    orr_error err = {0};
    etcd_new(&etcd, in_folder(state, "etcd"));
    orr_team_store *patient = store_at(endpoint_of(etcd.port), PATIENT);
    orr_team_store *store = store_at(endpoint_of(etcd.port), SECOND / 2);
    expect_none(patient);
    expect_none(store);
    assert_int_equal(kill(etcd.pid, SIGSTOP), 0);
    const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
    assert_int_equal(save(store, 1, "stopped", &err), ORR_IO);
    const int64_t took = orr_clock_now_ns(&orr_clock_monotonic) - before;
    assert_true(took >= SECOND / 2 - SECOND / 20);
    assert_int_equal(kill(etcd.pid, SIGCONT), 0);
    /* It may well carry out now what it was asked for: that is no other writer's. */
    (void)usleep(300 * 1000);
    orr_status status = ORR_IO;
    for (uint64_t v = 2; v < 50 && status == ORR_IO; v++)
        status = save(store, v, "goes on", &err);
    assert_int_equal(status, ORR_OK);
    assert_int_equal(save(patient, 60, "x", &err), ORR_CANCELED);
    orr_team_store_close(store);
    orr_team_store_close(patient);
    etcd_kill(&etcd);
}

/* Between a store and etcd, and loses the next answers that it is told to lose. */
typedef struct proxy {
    int listener, port, etcd_port;
    atomic_int losing, lost;
    atomic_bool ended;
} proxy;

static int connect_to(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (connect(fd, (struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    (void)close(fd);
    return -1;
}

/* false: nothing more comes that way. */
static bool pass(int from, int to)
{
    char bytes[1 << 16];
    const ssize_t n = recv(from, bytes, sizeof bytes, 0);
    return n > 0 && send(to, bytes, (size_t)n, MSG_NOSIGNAL) == n;
}

static void serve(proxy *p, int fd)
{
    const int etcd = connect_to(p->etcd_port);
    struct pollfd both[2] = {{.fd = fd, .events = POLLIN}, {.fd = etcd, .events = POLLIN}};
    for (bool on = etcd >= 0; on && !p->ended;) {
        (void)poll(both, 2, 50);
        if (both[0].revents != 0)
            on = pass(fd, etcd);
        if (on && both[1].revents != 0) {
            if (p->losing > 0) {
                p->losing--;
                p->lost++;
                break;
            }
            on = pass(etcd, fd);
        }
    }
    (void)close(etcd);
    (void)close(fd);
}

static void *run_proxy(void *ctx)
{
    proxy *p = ctx;
    while (!p->ended) {
        struct pollfd one = {.fd = p->listener, .events = POLLIN};
        if (poll(&one, 1, 50) == 1)
            serve(p, accept(p->listener, NULL, NULL));
    }
    return NULL;
}

/* The write was carried out and nobody was told: the store finds its own record and is content. */
static void test_lost_answers(void **state)
{
    need_etcd();
    etcd_process etcd;
    pthread_t thread;
    etcd_new(&etcd, in_folder(state, "etcd"));
    proxy p = {.etcd_port = etcd.port};
    p.listener = bound_socket(&p.port);
    assert_int_equal(listen(p.listener, 16), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_proxy, &p), 0);
    orr_team_store *store = store_at(endpoint_of(p.port), PATIENT);
    orr_team_store *reader = store_at(endpoint_of(etcd.port), PATIENT);
    expect_none(reader);
    expect_none(store);
    for (int losing = 1; losing < 5; losing++) {
        char record[32];
        (void)snprintf(record, sizeof record, "lost %d", losing);
        p.lost = 0;
        p.losing = losing;
        save_ok(store, (uint64_t)losing, record);
        assert_int_equal(p.lost, losing);
        expect(reader, (uint64_t)losing, record);
    }
    orr_error err = {0};
    assert_int_equal(save(reader, 8, "another's", &err), ORR_OK);
    p.losing = 1;
    assert_int_equal(save(store, 9, "too late", &err), ORR_CANCELED);
    p.ended = true;
    (void)pthread_join(thread, NULL);
    (void)close(p.listener);
    orr_team_store_close(store);
    orr_team_store_close(reader);
    etcd_kill(&etcd);
}

static void test_refused_arguments(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_team_store *store = NULL;
    if (orr_team_store_etcd("a", "key", SECOND, &store, &err) == ORR_UNSUPPORTED)
        skip();
    orr_team_store_close(store);
    static const char *const wrong[] = {"", ",", "a,", "a,,b", "ftp://a:1", "http://", "a/b"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(orr_team_store_etcd(wrong[i], "key", SECOND, &store, &err), ORR_INVALID);
    assert_int_equal(orr_team_store_etcd("a", "", SECOND, &store, &err), ORR_INVALID);
    assert_int_equal(orr_team_store_etcd("a", "key", 0, &store, &err), ORR_INVALID);
    for (uint64_t n = 1;; n++) {
        orr_alloc_fail_from(n);
        const orr_status status = orr_team_store_etcd("a,b", "key", SECOND, &store, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(n < 20);
    }
    orr_team_store_close(store);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        TEST(test_save_load),     TEST(test_another_writer),
        TEST(test_foreign_value), TEST(test_killed_and_restarted),
        TEST(test_dead_endpoint), TEST(test_stopped),
        TEST(test_lost_answers),  cmocka_unit_test(test_refused_arguments),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
