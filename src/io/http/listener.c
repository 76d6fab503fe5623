/* SPDX-License-Identifier: Apache-2.0 */
#include "io/http/listener.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <microhttpd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/library.h"
#include "io/socket/address.h"

/* The functions that are used; the library is opened when the first listener is. */
#define FUNCTION_MAP(X)                                                                            \
    X(MHD_add_response_header)                                                                     \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_destroy_response)                                                                        \
    X(MHD_get_daemon_info)                                                                         \
    X(MHD_lookup_connection_value)                                                                 \
    X(MHD_queue_response)                                                                          \
    X(MHD_quiesce_daemon)                                                                          \
    X(MHD_resume_connection)                                                                       \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)                                                                             \
    X(MHD_suspend_connection)

ORR_LIBRARY_API(FUNCTION_MAP, "libmicrohttpd.so.12")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api();
}

enum { REQUEST_BYTES = 16 << 10, ADDRESS_CHARS = 64, BODY_STEP = 16 << 10 };

struct orr_http_listener {
    struct MHD_Daemon *daemon;
    orr_http_listener_options options;
    int quiet_fd; /* the socket of a listener that takes no more; -1 */
    pthread_mutex_t lock;
    pthread_cond_t all_sent;
    uint32_t unsent; /* exchanges whose answers are not sent whole */
    char address[ADDRESS_CHARS];
};

/* Of a request: from its first line to its end (ended()). */
struct orr_http_exchange {
    orr_http_listener *listener;
    struct MHD_Connection *connection;
    char *body;
    size_t n, room;
    int64_t began_ns;
    bool given;       /* to the user */
    atomic_bool over; /* `response` is the answer, or there is none */
    struct MHD_Response *response;
    unsigned code;
};

static struct MHD_Response *response_of(const orr_http_answer *a)
{
    /* Copied; the library's word for that is a pointer that may be written to. */
    struct MHD_Response *r = api.MHD_create_response_from_buffer(
        a->bytes, (void *)(uintptr_t)a->body, MHD_RESPMEM_MUST_COPY);
    if (r == NULL)
        return NULL;
    if (api.MHD_add_response_header(r, MHD_HTTP_HEADER_CONTENT_TYPE, a->type) == MHD_YES &&
        api.MHD_add_response_header(r, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES &&
        (a->header == NULL || api.MHD_add_response_header(r, a->header, a->value) == MHD_YES))
        return r;
    api.MHD_destroy_response(r);
    return NULL;
}

void orr_http_exchange_answer(orr_http_exchange *x, const orr_http_answer *answer)
{
    x->response = response_of(answer); /* NULL, out of memory: the connection is closed */
    x->code = answer->code;
    atomic_store(&x->over, true);
    api.MHD_resume_connection(x->connection);
}

static enum MHD_Result send_answer(orr_http_exchange *x)
{
    if (x->response == NULL)
        return MHD_NO;
    const enum MHD_Result result = api.MHD_queue_response(x->connection, x->code, x->response);
    api.MHD_destroy_response(x->response);
    x->response = NULL;
    return result;
}

static enum MHD_Result refuse(struct MHD_Connection *connection, unsigned code, const char *text)
{
    const orr_http_answer answer = {.code = code,
                                    .type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .bytes = strlen(text),
                                    .header = MHD_HTTP_HEADER_CONNECTION,
                                    .value = "close"};
    struct MHD_Response *r = response_of(&answer);
    if (r == NULL)
        return MHD_NO;
    const enum MHD_Result result = api.MHD_queue_response(connection, code, r);
    api.MHD_destroy_response(r);
    return result;
}

/* The first call for a request comes before its body: one that says it is too long is refused
 * before it is sent. */
static enum MHD_Result begin(orr_http_listener *l, struct MHD_Connection *connection,
                             void **request)
{
    const char *length = api.MHD_lookup_connection_value(connection, MHD_HEADER_KIND,
                                                         MHD_HTTP_HEADER_CONTENT_LENGTH);
    if (length != NULL && strtoull(length, NULL, 10) > l->options.body_bytes)
        return refuse(connection, MHD_HTTP_CONTENT_TOO_LARGE, "The body is too long.\n");
    orr_http_exchange *x = orr_calloc(1, sizeof *x);
    if (x == NULL)
        return MHD_NO;
    x->listener = l;
    x->connection = connection;
    x->began_ns = orr_clock_now_ns(&orr_clock_monotonic);
    *request = x;
    return MHD_YES;
}

/* A part of the body. MHD_NO hangs up: nothing can be answered before the body has ended. */
static enum MHD_Result take(orr_http_exchange *x, const char *body, size_t n)
{
    const orr_http_listener_options *o = &x->listener->options;
    const int64_t most_ns = (int64_t)o->body_seconds * 1000000000;
    if (n > o->body_bytes - x->n || orr_clock_now_ns(&orr_clock_monotonic) - x->began_ns > most_ns)
        return MHD_NO;
    if (n > x->room - x->n) {
        const size_t room = x->room + x->room / 2 + n + BODY_STEP;
        char *larger = orr_realloc(x->body, room);
        if (larger == NULL)
            return MHD_NO;
        x->body = larger;
        x->room = room;
    }
    memcpy(x->body + x->n, body, n);
    x->n += n;
    return MHD_YES;
}

static enum MHD_Result handle(void *ctx, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_n, void **request)
{
    orr_http_listener *l = ctx;
    orr_http_exchange *x = *request;
    (void)version;
    if (x == NULL)
        return begin(l, connection, request);
    if (*body_n > 0) {
        const enum MHD_Result result = take(x, body, *body_n);
        *body_n = 0;
        return result;
    }
    if (x->given)
        return atomic_load(&x->over) ? send_answer(x) : MHD_YES;
    const char *type =
        api.MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_TYPE);
    const orr_http_request whole = {.method = method,
                                    .path = path,
                                    .type = type != NULL ? type : "",
                                    .body = x->body,
                                    .bytes = x->n};
    x->given = true;
    (void)pthread_mutex_lock(&l->lock);
    l->unsent++;
    (void)pthread_mutex_unlock(&l->lock);
    api.MHD_suspend_connection(connection);
    l->options.request(l->options.ctx, x, &whole);
    return MHD_YES;
}

static void count_sent(orr_http_listener *l)
{
    (void)pthread_mutex_lock(&l->lock);
    if (--l->unsent == 0)
        (void)pthread_cond_signal(&l->all_sent);
    (void)pthread_mutex_unlock(&l->lock);
}

/* Whatever became of it: answered, or the client has left. */
static void ended(void *ctx, struct MHD_Connection *connection, void **request,
                  enum MHD_RequestTerminationCode why)
{
    orr_http_exchange *x = *request;
    (void)ctx, (void)connection, (void)why;
    if (x == NULL)
        return;
    if (x->response != NULL)
        api.MHD_destroy_response(x->response);
    if (x->given)
        count_sent(x->listener);
    orr_free(x->body);
    orr_free(x);
    *request = NULL;
}

/* The library's thread hears no signals: they are for the program. */
static struct MHD_Daemon *start(orr_http_listener *l, const struct addrinfo *at)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = 0;
    const unsigned flags = MHD_USE_AUTO_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                           (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    struct MHD_Daemon *daemon =
        api.MHD_start_daemon(flags, 0, NULL, NULL, handle, l, MHD_OPTION_SOCK_ADDR, at->ai_addr,
                             MHD_OPTION_CONNECTION_LIMIT, (unsigned)l->options.connections,
                             MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)l->options.idle_seconds,
                             MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
                             MHD_OPTION_NOTIFY_COMPLETED, ended, NULL, MHD_OPTION_END);
    const int why = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return daemon;
}

static void name_address(orr_http_listener *l)
{
    const union MHD_DaemonInfo *info =
        api.MHD_get_daemon_info(l->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[48] = "", port[8] = "";
    if (info == NULL || getsockname(info->listen_fd, (struct sockaddr *)&at, &n) != 0 ||
        getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    const bool colons = strchr(host, ':') != NULL;
    (void)snprintf(l->address, sizeof l->address, "%s%s%s:%s", colons ? "[" : "", host,
                   colons ? "]" : "", port);
}

static orr_status listen_at(orr_http_listener *l, orr_error *err)
{
    struct addrinfo *found;
    int why = 0;
    ORR_TRY(orr_address_resolve_text(l->options.where, true, &found, err));
    for (const struct addrinfo *at = found; at != NULL && l->daemon == NULL; at = at->ai_next) {
        l->daemon = start(l, at);
        why = errno;
    }
    freeaddrinfo(found);
    if (l->daemon == NULL)
        return orr_fail(err, ORR_IO, "cannot listen on %s: %s", l->options.where,
                        why != 0 ? strerror(why) : "libmicrohttpd does not start");
    name_address(l);
    return ORR_OK;
}

orr_status orr_http_listener_open(const orr_http_listener_options *options, orr_http_listener **ret,
                                  orr_error *err)
{
    (void)pthread_once(&opened, open_library);
    if (!available)
        return orr_fail(err, ORR_UNSUPPORTED, "%s over HTTP needs libmicrohttpd.so.12",
                        options->what);
    orr_http_listener *l = orr_calloc(1, sizeof *l);
    if (l == NULL)
        return orr_fail_memory(err);
    l->options = *options;
    l->quiet_fd = -1;
    (void)pthread_mutex_init(&l->lock, NULL);
    (void)pthread_cond_init(&l->all_sent, NULL);
    const orr_status status = listen_at(l, err);
    if (status == ORR_OK)
        *ret = l;
    else
        orr_http_listener_close(l);
    return status;
}

const char *orr_http_listener_address(const orr_http_listener *listener)
{
    return listener->address;
}

void orr_http_listener_quiesce(orr_http_listener *l)
{
    if (l->quiet_fd < 0)
        l->quiet_fd = api.MHD_quiesce_daemon(l->daemon);
    if (l->quiet_fd >= 0)
        (void)shutdown(l->quiet_fd, SHUT_RDWR); /* connections are refused, not left waiting */
}

/* The library stops without sending the answers that it has. A client that reads nothing is left.
 */
static void wait_until_sent(orr_http_listener *l)
{
    enum { SECONDS = 10 };
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += SECONDS;
    (void)pthread_mutex_lock(&l->lock);
    while (l->unsent > 0 && pthread_cond_timedwait(&l->all_sent, &l->lock, &until) == 0)
        continue;
    (void)pthread_mutex_unlock(&l->lock);
}

void orr_http_listener_close(orr_http_listener *l)
{
    if (l == NULL)
        return;
    if (l->daemon != NULL) {
        wait_until_sent(l);
        api.MHD_stop_daemon(l->daemon);
    }
    (void)pthread_cond_destroy(&l->all_sent);
    (void)pthread_mutex_destroy(&l->lock);
    if (l->quiet_fd >= 0)
        (void)close(l->quiet_fd);
    orr_free(l);
}
