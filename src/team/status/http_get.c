/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "io/socket/tcp.h"
#include "team/status/http.h"

/* HTTP/1.0: one request, one answer, and the connection is closed. */
enum { MOST_ANSWER = 4 << 20, PIECE = 16 << 10 };

typedef struct getter {
    const char *address;
    int socket;
    int64_t deadline_ns;
    orr_array(char) answer;
} getter;

static orr_status broken(const getter *g, int why, orr_error *err)
{
    const orr_status status =
        orr_fail(err, ORR_IO, "no answer from %s: %s", g->address, strerror(why));
    if (err != NULL)
        err->os_errno = why;
    return status;
}

static orr_status connect_to(getter *g, orr_error *err)
{
    struct addrinfo *found;
    ORR_TRY(orr_address_resolve_text(g->address, false, &found, err));
    g->socket = orr_tcp_connect(found, g->deadline_ns);
    const orr_status status = g->socket < 0 ? broken(g, errno, err) : ORR_OK;
    freeaddrinfo(found);
    return status;
}

static orr_status ask(getter *g, const char *path, orr_error *err)
{
    char request[1024];
    const int n =
        snprintf(request, sizeof request,
                 "GET %s HTTP/1.0\r\nHost: %s\r\nConnection: close\r\n\r\n", path, g->address);
    if (n < 0 || (size_t)n >= sizeof request || path[0] != '/' || strpbrk(path, " \r\n") != NULL)
        return orr_fail(err, ORR_INVALID, "'%s' is no path to ask for", path);
    struct iovec left = {request, (size_t)n};
    while (left.iov_len > 0) {
        const ssize_t sent = orr_socket_send(g->socket, &left, 1);
        if (sent < 0 || (sent == 0 && !orr_socket_wait(g->socket, POLLOUT, g->deadline_ns)))
            return broken(g, errno, err);
        left.iov_base = (char *)left.iov_base + sent;
        left.iov_len -= (size_t)sent;
    }
    return ORR_OK;
}

static orr_status hear(getter *g, orr_error *err)
{
    for (;;) {
        if (g->answer.n > MOST_ANSWER)
            return orr_fail(err, ORR_LIMIT, "the answer of %s is longer than %d bytes", g->address,
                            MOST_ANSWER);
        if (!orr_array_reserve(&g->answer, PIECE))
            return orr_fail_memory(err);
        struct iovec room = {g->answer.at + g->answer.n, PIECE};
        const ssize_t n = orr_socket_receive(g->socket, &room, 1);
        if (n < 0 && errno == 0)
            return ORR_OK;
        if (n < 0 || (n == 0 && !orr_socket_wait(g->socket, POLLIN, g->deadline_ns)))
            return broken(g, errno, err);
        g->answer.n += (size_t)n;
    }
}

static orr_status no_http(const getter *g, orr_error *err)
{
    return orr_fail(err, ORR_IO, "what %s answers is no whole answer of HTTP", g->address);
}

/* The value of a header, at its digits; NULL: there is none. */
static const char *header_of(const char *at, const char *end, const char *name)
{
    const size_t n = strlen(name);
    while (at < end) {
        if ((size_t)(end - at) > n && strncasecmp(at, name, n) == 0 && at[n] == ':')
            return at + n + 1 + strspn(at + n + 1, " ");
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        at = newline != NULL ? newline + 1 : end;
    }
    return NULL;
}

/* "HTTP/1.1 200 OK", headers, an empty line, as many bytes as a header says. */
static orr_status take(const getter *g, const char *path, orr_text *ret, orr_error *err)
{
    const char *at = g->answer.at;
    const char *gap = g->answer.n > 0 ? memmem(at, g->answer.n, "\r\n\r\n", 4) : NULL;
    if (gap == NULL || gap - at < 12 || memcmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ')
        return no_http(g, err);
    const orr_text body = {gap + 4, g->answer.n - (size_t)(gap + 4 - at)};
    const char *length = header_of(at, gap + 2, "Content-Length");
    if (length != NULL) {
        char *end;
        errno = 0;
        if (strtoull(length, &end, 10) != body.n || end == length || errno != 0)
            return no_http(g, err);
    }
    if (memcmp(at + 9, "404", 3) == 0)
        return orr_fail(err, ORR_NOT_FOUND, "%s has no %s", g->address, path);
    if (memcmp(at + 9, "200", 3) != 0)
        return orr_fail(err, ORR_IO, "%s answers: %.*s", g->address, (int)strcspn(body.at, "\r\n"),
                        body.at);
    *ret = body;
    return ORR_OK;
}

/* A NUL stands behind what has been heard, where texts end. */
static orr_status get(getter *g, const char *path, orr_text *ret, orr_error *err)
{
    ORR_TRY(connect_to(g, err));
    ORR_TRY(ask(g, path, err));
    ORR_TRY(hear(g, err));
    if (!orr_array_push(&g->answer, '\0'))
        return orr_fail_memory(err);
    g->answer.n--;
    return take(g, path, ret, err);
}

orr_status orr_http_get(const char *address, const char *path, int64_t timeout_ns, orr_arena *arena,
                        orr_text *ret, orr_error *err)
{
    static const char SCHEME[] = "http://";
    if (strncmp(address, SCHEME, sizeof SCHEME - 1) == 0)
        address += sizeof SCHEME - 1;
    const int64_t now = orr_clock_now_ns(&orr_clock_monotonic);
    getter g = {.address = address, .socket = -1};
    g.deadline_ns = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
    orr_text body = {0};
    orr_status status = get(&g, path, &body, err);
    if (status == ORR_OK) {
        const char *copy = orr_arena_strndup(arena, body.at, body.n);
        if (copy != NULL)
            *ret = (orr_text){copy, body.n};
        else
            status = orr_fail_memory(err);
    }
    if (g.socket >= 0)
        (void)close(g.socket);
    orr_array_done(&g.answer);
    return status;
}
