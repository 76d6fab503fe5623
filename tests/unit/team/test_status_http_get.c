/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "etcd.h"
#include "team/status/http.h"

static const int64_t MS = 1000 * 1000;
static const int64_t PATIENT = 1800 * INT64_C(1000000000);

/* A server that answers one request with these bytes, a piece at a time, and then closes, or stays.
 */
typedef struct server {
    const char *answer;
    size_t n, piece; /* piece 0: all at once */
    bool stay;
    int listener;
    char address[64], request[512];
    pthread_t thread;
} server;

static void *run_server(void *ctx)
{
    server *s = ctx;
    const int fd = accept(s->listener, NULL, NULL);
    if (fd < 0)
        return NULL;
    size_t n = 0;
    while (n < sizeof s->request - 1 && strstr(s->request, "\r\n\r\n") == NULL) {
        const ssize_t some = recv(fd, s->request + n, sizeof s->request - 1 - n, 0);
        if (some <= 0)
            break;
        n += (size_t)some;
    }
    for (size_t at = 0, piece; at < s->n; at += piece) {
        piece = s->piece == 0 || s->n - at < s->piece ? s->n - at : s->piece;
        if (send(fd, s->answer + at, piece, MSG_NOSIGNAL) < 0)
            break;
        if (s->piece > 0)
            (void)usleep(200);
    }
    char byte;
    if (s->stay)
        (void)!recv(fd, &byte, 1, 0); /* until the other closes */
    (void)close(fd);
    return NULL;
}

static void serve(server *s)
{
    int port;
    s->listener = bound_socket(&port);
    (void)snprintf(s->address, sizeof s->address, "127.0.0.1:%d", port);
    assert_int_equal(listen(s->listener, 4), 0);
    assert_int_equal(pthread_create(&s->thread, NULL, run_server, s), 0);
}

static void served(server *s)
{
    (void)pthread_join(s->thread, NULL);
    (void)close(s->listener);
}

/* What comes of an answer. */
static orr_status get_of(const char *answer, size_t n, size_t piece, char *ret, size_t room,
                         orr_error *err)
{
    server s = {.answer = answer, .n = n, .piece = piece};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_text text = {"-", 1};
    serve(&s);
    const orr_status status = orr_http_get(s.address, "/status", PATIENT, arena, &text, err);
    served(&s);
    assert_int_equal(strncmp(s.request, "GET /status HTTP/1.0\r\n", 22), 0);
    assert_non_null(strstr(s.request, s.address));
    (void)snprintf(ret, room, "%.*s", (int)text.n, text.at);
    orr_arena_free(arena);
    return status;
}

static void test_answers(void **state)
{
    (void)state;
    static const struct {
        const char *answer;
        orr_status status;
        const char *text; /* the body, or a part of the error */
    } cases[] = {
        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", ORR_OK, "hello"},
        {"HTTP/1.0 200 OK\r\n\r\nhello", ORR_OK, "hello"},
        {"HTTP/1.1 200 OK\r\nA: b\r\ncontent-length:0\r\n\r\n", ORR_OK, ""},
        {"HTTP/1.1 404 Not Found\r\n\r\nnothing", ORR_NOT_FOUND, "/status"},
        {"HTTP/1.1 503 No\r\n\r\nnot yet\nno", ORR_IO, "not yet"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello", ORR_IO, "no whole answer"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhello", ORR_IO, "no whole answer"},
        {"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", ORR_IO, "no whole answer"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello", ORR_IO, "whole"},
        {"HTTP/1.1 200 OK\r\nA: b\r\n", ORR_IO, "no whole answer"},
        {"SSH-2.0-OpenSSH_9.2\r\n\r\n", ORR_IO, "no whole answer"},
        {"HTTP/1.1\r\n\r\n", ORR_IO, "no whole answer"},
        {"", ORR_IO, "no whole answer"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (size_t piece = 0; piece < 2; piece++) {
            orr_error err = {0};
            char got[64];
            const orr_status status =
                get_of(cases[i].answer, strlen(cases[i].answer), piece, got, sizeof got, &err);
            assert_int_equal(status, cases[i].status);
            if (status == ORR_OK)
                assert_string_equal(got, cases[i].text);
            else if (strstr(err.text, cases[i].text) == NULL || strcmp(got, "-") != 0)
                fail_msg("'%s' gives '%s'", cases[i].answer, err.text);
        }
}

/* Cut off at any byte it is no answer, if it says how long it is. */
static void test_cut_off(void **state)
{
    (void)state;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    for (size_t n = 0; n < sizeof answer - 1; n++) {
        orr_error err = {0};
        char got[64];
        assert_int_equal(get_of(answer, n, 0, got, sizeof got, &err), ORR_IO);
    }
}

static void test_too_long(void **state)
{
    (void)state;
    const size_t n = 5 << 20;
    char *answer = calloc(1, n);
    memset(answer, 'x', n);
    memcpy(answer, "HTTP/1.1 200 OK\r\n\r\n", 19);
    orr_error err = {0};
    char got[64];
    assert_int_equal(get_of(answer, n, 0, got, sizeof got, &err), ORR_LIMIT);
    assert_int_equal(get_of(answer, 3 << 20, 0, got, sizeof got, &err), ORR_OK);
    free(answer);
}

/* It returns when it is told to, whatever the other side does. */
static void test_time(void **state)
{
    (void)state;
    static const char part[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell";
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_text text;
    for (int i = 0; i < 2; i++) {
        server s = {.answer = part, .n = i == 0 ? 0 : sizeof part - 1, .stay = true};
        serve(&s);
        const int64_t before = orr_clock_now_ns(&orr_clock_monotonic);
        assert_int_equal(orr_http_get(s.address, "/status", 200 * MS, arena, &text, &err), ORR_IO);
        assert_int_equal(err.os_errno, ETIMEDOUT);
        const int64_t took = orr_clock_now_ns(&orr_clock_monotonic) - before;
        assert_true(took >= 200 * MS);
        served(&s);
    }
    orr_arena_free(arena);
}

static void test_nobody(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_text text = {NULL, 7};
    char address[64];
    (void)snprintf(address, sizeof address, "http://127.0.0.1:%d", free_port());
    assert_int_equal(orr_http_get(address, "/status", PATIENT, arena, &text, &err), ORR_IO);
    assert_int_equal(err.os_errno, ECONNREFUSED);
    assert_non_null(strstr(err.text, address + 7));
    static const char *const wrong[] = {"", "host", "host:", "a:b:1", "https://host:1"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        assert_int_equal(orr_http_get(wrong[i], "/", PATIENT, arena, &text, &err), ORR_INVALID);
    assert_int_equal(text.n, 7);
    orr_arena_free(arena);
}

static void test_paths(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "status", "/a b", "/a\r\nHost: b"};
    orr_arena *arena = orr_arena_new(0, 0);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_error err = {0};
        orr_text text;
        server s = {.answer = "", .n = 0};
        serve(&s);
        assert_int_equal(orr_http_get(s.address, wrong[i], PATIENT, arena, &text, &err),
                         ORR_INVALID);
        served(&s);
        assert_string_equal(s.request, "");
    }
    orr_arena_free(arena);
}

static void test_no_memory(void **state)
{
    (void)state;
    static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";
    orr_arena *arena = orr_arena_new(0, 0);
    for (uint64_t n = 1;; n++) {
        orr_error err = {0};
        orr_text text;
        server s = {.answer = answer, .n = sizeof answer - 1};
        serve(&s);
        orr_alloc_fail_from(n);
        const orr_status status = orr_http_get(s.address, "/status", PATIENT, arena, &text, &err);
        orr_alloc_fail_from(0);
        served(&s);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(n < 20);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),   cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_too_long),  cmocka_unit_test(test_time),
        cmocka_unit_test(test_nobody),    cmocka_unit_test(test_paths),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
