/* SPDX-License-Identifier: Apache-2.0 */
#include "team/status/http.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <microhttpd.h>

#include "base/alloc.h"
#include "base/library.h"
#include "io/socket/address.h"
#include "team/status/text.h"

/* The functions that are used; the library is opened when the first endpoint is. */
#define FUNCTION_MAP(X)                                                                            \
    X(MHD_add_response_header)                                                                     \
    X(MHD_create_response_from_buffer)                                                             \
    X(MHD_destroy_response)                                                                        \
    X(MHD_get_daemon_info)                                                                         \
    X(MHD_queue_response)                                                                          \
    X(MHD_start_daemon)                                                                            \
    X(MHD_stop_daemon)

ORR_LIBRARY_API(FUNCTION_MAP, "libmicrohttpd.so.12")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api();
}

/* Pages are libmicrohttpd's responses: counted references to bytes that stay as they are. */
enum {
    MOST_CONNECTIONS = 64,
    SECONDS_IDLE = 5,
    REQUEST_BYTES = 16 << 10,
    PAGES = 3,
    ADDRESS_CHARS = 64
};

typedef struct page {
    const char *path, *type;
} page;

static const page pages[PAGES] = {
    {"/", "text/plain; charset=utf-8"},
    {"/metrics", ORR_PROMETHEUS_TYPE},
    {"/status", "application/json"},
};

/* What is answered when there is no page. */
typedef enum refusal { NO_PAGE, NO_METHOD, NOT_YET, REFUSALS } refusal;
static const struct {
    unsigned code;
    const char *text;
} refusals[REFUSALS] = {
    {MHD_HTTP_NOT_FOUND, "There is /, /metrics and /status.\n"},
    {MHD_HTTP_METHOD_NOT_ALLOWED, "GET and HEAD are answered.\n"},
    {MHD_HTTP_SERVICE_UNAVAILABLE, "There is no team to show yet.\n"},
};

struct orr_http_server {
    struct MHD_Daemon *daemon;
    pthread_mutex_t lock;
    struct MHD_Response *shown[PAGES]; /* under the lock; NULL: nothing yet */
    struct MHD_Response *refused[REFUSALS];
    char address[ADDRESS_CHARS];
};

static struct MHD_Response *response_of(const char *text, size_t n, const char *type)
{
    /* Copied; the library's word for that is a pointer that may be written to. */
    struct MHD_Response *response =
        api.MHD_create_response_from_buffer(n, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
    if (response == NULL)
        return NULL;
    if (api.MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES &&
        api.MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store") == MHD_YES)
        return response;
    api.MHD_destroy_response(response);
    return NULL;
}

static enum MHD_Result refuse(orr_http_server *endpoint, struct MHD_Connection *connection,
                              refusal why)
{
    return api.MHD_queue_response(connection, refusals[why].code, endpoint->refused[why]);
}

static bool is_get(const char *method)
{
    return strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
}

/* The first call for a request comes before its body, of which ours have none: who sends one is
 * refused or hung up on. */
static enum MHD_Result answer(void *ctx, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *body,
                              size_t *body_n, void **request)
{
    static char seen;
    orr_http_server *endpoint = ctx;
    (void)version, (void)body;
    if (*request == NULL) {
        *request = &seen;
        return is_get(method) ? MHD_YES : refuse(endpoint, connection, NO_METHOD);
    }
    if (*body_n > 0)
        return MHD_NO;
    int which = 0;
    while (which < PAGES && strcmp(path, pages[which].path) != 0)
        which++;
    if (which == PAGES)
        return refuse(endpoint, connection, NO_PAGE);
    (void)pthread_mutex_lock(&endpoint->lock);
    struct MHD_Response *shown = endpoint->shown[which];
    enum MHD_Result result = MHD_NO;
    if (shown != NULL)
        result = api.MHD_queue_response(connection, MHD_HTTP_OK, shown);
    (void)pthread_mutex_unlock(&endpoint->lock);
    return shown != NULL ? result : refuse(endpoint, connection, NOT_YET);
}

/* The library's thread hears no signals: they are for the program. */
static struct MHD_Daemon *start(orr_http_server *endpoint, const struct addrinfo *at)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    errno = 0;
    const unsigned flags =
        MHD_USE_AUTO_INTERNAL_THREAD | (at->ai_family == AF_INET6 ? MHD_USE_IPv6 : 0u);
    struct MHD_Daemon *daemon = api.MHD_start_daemon(
        flags, 0, NULL, NULL, answer, endpoint, MHD_OPTION_SOCK_ADDR, at->ai_addr,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)MOST_CONNECTIONS, MHD_OPTION_CONNECTION_TIMEOUT,
        (unsigned)SECONDS_IDLE, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
        MHD_OPTION_END);
    const int why = errno;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    errno = why;
    return daemon;
}

static void name_address(orr_http_server *endpoint)
{
    const union MHD_DaemonInfo *info =
        api.MHD_get_daemon_info(endpoint->daemon, MHD_DAEMON_INFO_LISTEN_FD);
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char host[48] = "", port[8] = "";
    if (info == NULL || getsockname(info->listen_fd, (struct sockaddr *)&at, &n) != 0 ||
        getnameinfo((struct sockaddr *)&at, n, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
        return;
    const bool colons = strchr(host, ':') != NULL;
    (void)snprintf(endpoint->address, sizeof endpoint->address, "%s%s%s:%s", colons ? "[" : "",
                   host, colons ? "]" : "", port);
}

static orr_status listen_at(orr_http_server *endpoint, const char *where, orr_error *err)
{
    struct addrinfo *found;
    int why = 0;
    ORR_TRY(orr_address_resolve_text(where, true, &found, err));
    for (const struct addrinfo *at = found; at != NULL && endpoint->daemon == NULL;
         at = at->ai_next) {
        endpoint->daemon = start(endpoint, at);
        why = errno;
    }
    freeaddrinfo(found);
    if (endpoint->daemon == NULL)
        return orr_fail(err, ORR_IO, "cannot listen on %s: %s", where,
                        why != 0 ? strerror(why) : "libmicrohttpd does not start");
    name_address(endpoint);
    return ORR_OK;
}

orr_status orr_http_server_open(const char *where, orr_http_server **ret, orr_error *err)
{
    orr_status status = ORR_OK;
    (void)pthread_once(&opened, open_library);
    if (!available)
        return orr_fail(err, ORR_UNSUPPORTED, "showing a team over HTTP needs libmicrohttpd.so.12");
    orr_http_server *endpoint = orr_calloc(1, sizeof *endpoint);
    if (endpoint == NULL)
        return orr_fail_memory(err);
    (void)pthread_mutex_init(&endpoint->lock, NULL);
    for (int i = 0; i < REFUSALS; i++) {
        endpoint->refused[i] =
            response_of(refusals[i].text, strlen(refusals[i].text), pages[0].type);
        if (endpoint->refused[i] == NULL) {
            status = orr_fail_memory(err);
            goto out;
        }
    }
    if (api.MHD_add_response_header(endpoint->refused[NO_METHOD], MHD_HTTP_HEADER_ALLOW,
                                    "GET, HEAD") != MHD_YES) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, listen_at(endpoint, where, err));
out:
    if (status == ORR_OK)
        *ret = endpoint;
    else
        orr_http_server_close(endpoint);
    return status;
}

const char *orr_http_server_address(const orr_http_server *endpoint)
{
    return endpoint->address;
}

static void put_line(const orr_team_status *s, orr_output *out)
{
    orr_output_printf(out, "Orrery team: %s, epoch %llu, ", orr_team_state_name(s->state),
                      (unsigned long long)s->epoch);
    if (s->step == ORR_TEAM_NONE)
        orr_output_text(out, "no step committed");
    else
        orr_output_printf(out, "step %llu committed", (unsigned long long)s->step);
    orr_output_printf(out, ", %u members; see /metrics and /status\n", s->n);
}

/* NULL: out of memory. */
static struct MHD_Response *render(int which, const orr_team_status *status)
{
    static void (*const renders[PAGES])(const orr_team_status *, orr_output *) = {
        put_line, orr_team_status_prometheus, orr_team_status_json};
    orr_output *out;
    struct MHD_Response *response = NULL;
    if (orr_output_open_memory(&out, NULL) != ORR_OK)
        return NULL;
    renders[which](status, out);
    if (orr_output_finish(out, NULL) == ORR_OK) {
        size_t n;
        const char *text = orr_output_memory(out, &n);
        response = response_of(text, n, pages[which].type);
    }
    orr_output_close(out);
    return response;
}

orr_status orr_http_server_publish(orr_http_server *endpoint, const orr_team_status *status,
                                   orr_error *err)
{
    struct MHD_Response *fresh[PAGES] = {NULL}, *old[PAGES] = {NULL};
    bool whole = true;
    for (int i = 0; i < PAGES; i++)
        whole &= (fresh[i] = render(i, status)) != NULL;
    if (whole) {
        (void)pthread_mutex_lock(&endpoint->lock);
        memcpy(old, endpoint->shown, sizeof old);
        memcpy(endpoint->shown, fresh, sizeof fresh);
        (void)pthread_mutex_unlock(&endpoint->lock);
    }
    for (int i = 0; i < PAGES; i++) {
        struct MHD_Response *unwanted = whole ? old[i] : fresh[i];
        if (unwanted != NULL)
            api.MHD_destroy_response(unwanted);
    }
    return whole ? ORR_OK : orr_fail_memory(err);
}

void orr_http_server_close(orr_http_server *endpoint)
{
    if (endpoint == NULL)
        return;
    if (endpoint->daemon != NULL)
        api.MHD_stop_daemon(endpoint->daemon);
    for (int i = 0; i < PAGES; i++)
        if (endpoint->shown[i] != NULL)
            api.MHD_destroy_response(endpoint->shown[i]);
    for (int i = 0; i < REFUSALS; i++)
        if (endpoint->refused[i] != NULL)
            api.MHD_destroy_response(endpoint->refused[i]);
    (void)pthread_mutex_destroy(&endpoint->lock);
    orr_free(endpoint);
}
