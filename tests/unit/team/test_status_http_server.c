/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/philox.h"
#include "status_example.h"
#include "team/status/http.h"
#include "team/status/text.h"

static const int64_t SECOND = 1000 * 1000 * 1000;
static const int64_t PATIENT = 1800 * INT64_C(1000000000);

static orr_http_server *open_endpoint(const char *where)
{
    orr_error err = {0};
    orr_http_server *endpoint = NULL;
    const orr_status status = orr_http_server_open(where, &endpoint, &err);
    if (status == ORR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    if (status != ORR_OK)
        fail_msg("%s", err.text);
    return endpoint;
}

static void publish(orr_http_server *endpoint, const orr_team_status *status)
{
    orr_error err = {0};
    assert_int_equal(orr_http_server_publish(endpoint, status, &err), ORR_OK);
}

static orr_text get_ok(const orr_http_server *endpoint, const char *path, orr_arena *arena)
{
    orr_error err = {0};
    orr_text text;
    if (orr_http_get(orr_http_server_address(endpoint), path, PATIENT, arena, &text, &err) !=
        ORR_OK)
        fail_msg("%s: %s", path, err.text);
    assert_int_equal(text.at[text.n], '\0');
    return text;
}

static void test_pages(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_text text;
    const char *address = orr_http_server_address(endpoint);
    assert_int_equal(strncmp(address, "127.0.0.1:", 10), 0);
    assert_int_not_equal(atoi(address + 10), 0);
    assert_int_equal(orr_http_get(address, "/status", PATIENT, arena, &text, &err), ORR_IO);
    assert_non_null(strstr(err.text, "no team to show"));

    orr_team_status s = status_example(), got;
    publish(endpoint, &s);
    assert_int_equal(orr_team_status_read(get_ok(endpoint, "/status", arena), &got, &err), ORR_OK);
    assert_int_equal(got.epoch, 12);
    assert_int_equal(got.n, 3);
    assert_non_null(
        strstr(get_ok(endpoint, "/metrics", arena).at, "\norrery_team_committed_step 3456\n"));
    assert_string_equal(get_ok(endpoint, "/", arena).at,
                        "Orrery team: running, epoch 12, step 3456 committed, 3 members; see "
                        "/metrics and /status\n");
    assert_non_null(strstr(get_ok(endpoint, "/status?pretty=1", arena).at, "orrery.team/1"));

    s.epoch = 13;
    s.step = ORR_TEAM_NONE;
    publish(endpoint, &s);
    assert_non_null(strstr(get_ok(endpoint, "/metrics", arena).at, "\norrery_team_epoch 13\n"));
    assert_non_null(strstr(get_ok(endpoint, "/", arena).at, "epoch 13, no step committed,"));
    assert_int_equal(orr_http_get(address, "/favicon.ico", PATIENT, arena, &text, &err),
                     ORR_NOT_FOUND);
    orr_arena_free(arena);
    orr_http_server_close(endpoint);
    orr_http_server_close(NULL);
}

static void test_addresses(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint(":0"), *second = NULL;
    orr_error err = {0};
    assert_non_null(strrchr(orr_http_server_address(endpoint), ':'));
    orr_http_server_close(endpoint);
    endpoint = open_endpoint("127.0.0.1:0");
    assert_int_equal(orr_http_server_open(orr_http_server_address(endpoint), &second, &err),
                     ORR_IO);
    assert_non_null(strstr(err.text, "in use"));
    assert_non_null(strstr(err.text, orr_http_server_address(endpoint)));
    orr_http_server_close(endpoint);
    static const char *const wrong[] = {"",      "127.0.0.1",       "127.0.0.1:", "::1:80",
                                        "[::1]", "127.0.0.1:http:", "127.0.0.1:x"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(orr_http_server_open(wrong[i], &second, &err), ORR_INVALID);
    assert_int_equal(orr_http_server_open("no.such.host.invalid:80", &second, &err), ORR_IO);
    assert_null(second);
    /* Where the machine has IPv6. */
    if (orr_http_server_open("[::1]:0", &second, &err) == ORR_OK) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_team_status s = status_example();
        assert_int_equal(strncmp(orr_http_server_address(second), "[::1]:", 6), 0);
        publish(second, &s);
        (void)get_ok(second, "/metrics", arena);
        orr_arena_free(arena);
        orr_http_server_close(second);
    }
}

/* A connection of one's own. */
static int call(const orr_http_server *endpoint)
{
    const char *port = strrchr(orr_http_server_address(endpoint), ':') + 1;
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(port))};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* What comes until the other side closes, at most for so long, as text. */
static const char *hear(int fd, int ms, char *ret, size_t room)
{
    size_t n = 0;
    struct pollfd one = {.fd = fd, .events = POLLIN};
    while (n < room - 1 && poll(&one, 1, ms) == 1) {
        const ssize_t some = recv(fd, ret + n, room - 1 - n, 0);
        if (some <= 0)
            break;
        n += (size_t)some;
    }
    ret[n] = '\0';
    return ret;
}

static void expect_answer(const orr_http_server *endpoint, const char *request, const char *want,
                          const char *want_also)
{
    char got[1 << 15];
    const int fd = call(endpoint);
    assert_int_equal(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    (void)hear(fd, 5000, got, sizeof got);
    (void)close(fd);
    if (strncmp(got, want, strlen(want)) != 0 || strcasestr(got, want_also) == NULL)
        fail_msg("'%s' is answered by '%s'", request, got);
}

static void test_http(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    const orr_team_status s = status_example();
    publish(endpoint, &s);
#define HOST " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"
    expect_answer(endpoint, "GET /metrics" HOST "\r\n", "HTTP/1.1 200 ",
                  "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n");
    expect_answer(endpoint, "GET /status" HOST "\r\n", "HTTP/1.1 200 ",
                  "Content-Type: application/json\r\n");
    expect_answer(endpoint, "GET /nothing" HOST "\r\n", "HTTP/1.1 404 ", "/metrics");
    expect_answer(endpoint, "DELETE /status" HOST "\r\n", "HTTP/1.1 405 ", "Allow: GET, HEAD\r\n");
    expect_answer(endpoint, "POST /status" HOST "Content-Length: 3\r\n\r\nabc", "HTTP/1.1 405 ",
                  "GET and HEAD");
    /* The headers of the page, and no page. */
    char got[4096];
    const int fd = call(endpoint);
    static const char head[] = "HEAD /status" HOST "\r\n";
    assert_int_equal(send(fd, head, sizeof head - 1, MSG_NOSIGNAL), sizeof head - 1);
    (void)hear(fd, 5000, got, sizeof got);
    (void)close(fd);
    assert_int_equal(strncmp(got, "HTTP/1.1 200 ", 13), 0);
    assert_string_equal(strstr(got, "\r\n\r\n"), "\r\n\r\n");
    orr_http_server_close(endpoint);
}

/* Bytes that are no requests, requests that break off, connections that say nothing: those who ask
 * properly are answered all the same. */
static void test_garbage(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    const orr_team_status s = status_example();
    publish(endpoint, &s);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_random r = orr_random_of(17, 0);
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\nContent-Length: 99\r\n\r\nx";
    int silent[20];
    for (int i = 0; i < 20; i++)
        silent[i] = call(endpoint);
    for (int round = 0; round < 300; round++) {
        char bytes[70000], got[1 << 15];
        size_t n = 1 + orr_random_below(&r, round % 50 == 0 ? sizeof bytes - 1 : 200);
        for (size_t i = 0; i < n; i++)
            bytes[i] = (char)orr_random_u32(&r);
        if (round % 3 == 1) {
            n = 1 + orr_random_below(&r, sizeof request - 1);
            memcpy(bytes, request, n);
        }
        if (round % 6 == 4)
            bytes[orr_random_below(&r, n)] ^= (char)(1 + orr_random_below(&r, 255));
        if (round % 50 == 1) /* a header without an end */
            memset(bytes, 'G', n = sizeof bytes);
        const int fd = call(endpoint);
        (void)!send(fd, bytes, n, MSG_NOSIGNAL);
        if (round % 2 == 0)
            (void)hear(fd, 1, got, sizeof got);
        (void)close(fd);
        if (round % 20 == 0) {
            (void)get_ok(endpoint, "/metrics", arena);
            orr_arena_reset(arena);
        }
    }
    (void)get_ok(endpoint, "/status", arena);
    for (int i = 0; i < 20; i++)
        (void)close(silent[i]);
    orr_arena_free(arena);
    orr_http_server_close(endpoint);
}

/* Many who ask while it changes: each gets a page that was published, whole. */
typedef struct asker {
    const orr_http_server *endpoint;
    atomic_uint *published;
    uint32_t asked, wrong;
} asker;

static void *run_asker(void *ctx)
{
    asker *a = ctx;
    orr_arena *arena = orr_arena_new(0, 0);
    for (int i = 0; i < 60; i++) {
        orr_error err;
        orr_text text;
        orr_team_status got;
        const unsigned before = atomic_load(a->published);
        if (orr_http_get(orr_http_server_address(a->endpoint), "/status", PATIENT, arena, &text,
                         &err) != ORR_OK ||
            orr_team_status_read(text, &got, &err) != ORR_OK || got.epoch != got.commits ||
            got.n != got.epoch % 100 || got.epoch < before ||
            got.epoch > atomic_load(a->published) + 1)
            a->wrong++;
        a->asked++;
        orr_arena_reset(arena);
    }
    orr_arena_free(arena);
    return NULL;
}

static void test_many_at_once(void **state)
{
    (void)state;
    enum { ASKERS = 8 };
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    atomic_uint published = 1;
    asker askers[ASKERS];
    pthread_t threads[ASKERS];
    orr_team_status s = {.epoch = 1, .commits = 1, .n = 1};
    publish(endpoint, &s);
    for (int i = 0; i < ASKERS; i++) {
        askers[i] = (asker){.endpoint = endpoint, .published = &published};
        assert_int_equal(pthread_create(&threads[i], NULL, run_asker, &askers[i]), 0);
    }
    for (unsigned n = 2; n < 400; n++) {
        s.epoch = s.commits = n;
        s.n = n % 100;
        publish(endpoint, &s);
        atomic_store(&published, n);
        (void)usleep(500);
    }
    for (int i = 0; i < ASKERS; i++) {
        (void)pthread_join(threads[i], NULL);
        assert_int_equal(askers[i].asked, 60);
        assert_int_equal(askers[i].wrong, 0);
    }
    orr_http_server_close(endpoint);
}

/* One who asks for a page and does not read it holds up neither the others nor the coordinator. */
static void test_slow_reader(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    orr_team_status s = status_example();
    s.n = sizeof s.members / sizeof s.members[0];
    publish(endpoint, &s);
    static const char request[] = "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n";
    int slow[20];
    for (int i = 0; i < 20; i++) {
        slow[i] = call(endpoint);
        const int least = 1;
        (void)setsockopt(slow[i], SOL_SOCKET, SO_RCVBUF, &least, sizeof least);
        for (int k = 0; k < 50; k++)
            (void)!send(slow[i], request, sizeof request - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
    }
    orr_arena *arena = orr_arena_new(0, 0);
    int64_t least_ns = INT64_MAX;
    for (uint64_t epoch = 20; epoch < 40; epoch++) {
        s.epoch = epoch;
        const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
        publish(endpoint, &s);
        const int64_t took_ns = orr_clock_now_ns(&orr_clock_monotonic) - before;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
        char line[64];
        (void)snprintf(line, sizeof line, "\norrery_team_epoch %d\n", (int)epoch);
        assert_non_null(strstr(get_ok(endpoint, "/metrics", arena).at, line));
    }
    orr_arena_free(arena);
    assert_true(least_ns < 2 * SECOND); /* a slow reader is waited for as long as 5 s */
    orr_http_server_close(endpoint);
    for (int i = 0; i < 20; i++)
        (void)close(slow[i]);
}

static void test_no_memory(void **state)
{
    (void)state;
    orr_http_server *endpoint = open_endpoint("127.0.0.1:0");
    orr_team_status s = status_example();
    orr_arena *arena = orr_arena_new(0, 0);
    publish(endpoint, &s);
    s.epoch = 13;
    for (uint64_t n = 1;; n++) {
        orr_error err = {0};
        orr_alloc_fail_from(n);
        const orr_status status = orr_http_server_publish(endpoint, &s, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_non_null(strstr(get_ok(endpoint, "/", arena).at, "epoch 12,"));
        assert_true(n < 200);
    }
    assert_non_null(strstr(get_ok(endpoint, "/", arena).at, "epoch 13,"));
    orr_arena_free(arena);
    orr_http_server_close(endpoint);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pages),        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_http),         cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_many_at_once), cmocka_unit_test(test_slow_reader),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
