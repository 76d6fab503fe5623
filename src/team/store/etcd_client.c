/* SPDX-License-Identifier: Apache-2.0 */
#include "team/store/etcd_client.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CURL_DISABLE_TYPECHECK
#include <curl/curl.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/library.h"
#include "team/store/etcd_message.h"

/* The functions that are used; the library is opened when the first client is. */
#define FUNCTION_MAP(X)                                                                            \
    X(curl_easy_cleanup)                                                                           \
    X(curl_easy_getinfo)                                                                           \
    X(curl_easy_init)                                                                              \
    X(curl_easy_perform)                                                                           \
    X(curl_easy_setopt)                                                                            \
    X(curl_easy_strerror)                                                                          \
    X(curl_global_init)                                                                            \
    X(curl_slist_append)                                                                           \
    X(curl_slist_free_all)

ORR_LIBRARY_API(FUNCTION_MAP, "libcurl.so.4")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api() && api.curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* etcd takes requests of 1.5 MiB by default, and answers ours with one value. */
enum { MOST_ANSWER = 16 << 20, MOST_ENDPOINTS = 16 };
static const int64_t MS = 1000 * 1000, PAUSE_NS = 25 * 1000 * 1000;

struct orr_etcd_client {
    CURL *curl;
    struct curl_slist *headers;
    char *endpoints[MOST_ENDPOINTS]; /* "http://a:2379" */
    uint32_t n, first;               /* first: the one to ask first */
    orr_array(char) answer;
    bool no_memory; /* for the answer */
    char why[CURL_ERROR_SIZE];
};

static size_t receive(char *bytes, size_t one, size_t n, void *ctx)
{
    orr_etcd_client *client = ctx;
    n *= one;
    if (client->answer.n + n > MOST_ANSWER)
        return 0;
    if (!orr_array_reserve(&client->answer, n)) {
        client->no_memory = true;
        return 0;
    }
    memcpy(client->answer.at + client->answer.n, bytes, n);
    client->answer.n += n;
    return n;
}

/* A file that a variable names, to curl. */
static void certificate(orr_etcd_client *client, CURLoption option, const char *variable)
{
    const char *path = getenv(variable);
    if (path != NULL && path[0] != '\0')
        (void)api.curl_easy_setopt(client->curl, option, path);
}

static orr_status set_up(orr_etcd_client *client, orr_error *err)
{
    client->curl = api.curl_easy_init();
    struct curl_slist *json = api.curl_slist_append(NULL, "Content-Type: application/json");
    client->headers = json != NULL ? api.curl_slist_append(json, "Expect:") : NULL;
    if (client->curl == NULL || client->headers == NULL) {
        api.curl_slist_free_all(client->headers == NULL ? json : NULL);
        return orr_fail_memory(err);
    }
    CURL *curl = client->curl;
    (void)api.curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
    (void)api.curl_easy_setopt(curl, CURLOPT_NOPROXY, "*");
    (void)api.curl_easy_setopt(curl, CURLOPT_TCP_NODELAY, 1L);
    (void)api.curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, client->why);
    (void)api.curl_easy_setopt(curl, CURLOPT_HTTPHEADER, client->headers);
    (void)api.curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, receive);
    (void)api.curl_easy_setopt(curl, CURLOPT_WRITEDATA, client);
    certificate(client, CURLOPT_CAINFO, "ETCDCTL_CACERT");
    certificate(client, CURLOPT_SSLCERT, "ETCDCTL_CERT");
    certificate(client, CURLOPT_SSLKEY, "ETCDCTL_KEY");
    return ORR_OK;
}

/* One endpoint of the list, slashes at its end left out. */
static orr_status add_endpoint(orr_etcd_client *client, const char *at, size_t n, orr_error *err)
{
    const bool https = n >= 8 && memcmp(at, "https://", 8) == 0;
    const bool http = n >= 7 && memcmp(at, "http://", 7) == 0;
    const char *host = at + (https ? 8 : http ? 7 : 0);
    size_t host_n = (size_t)(at + n - host);
    while (host_n > 0 && host[host_n - 1] == '/')
        host_n--;
    if (host_n == 0 || memchr(host, '/', host_n) != NULL)
        return orr_fail(err, ORR_INVALID,
                        "'%.*s' is no endpoint of etcd: they read http://host:2379", (int)n, at);
    if (client->n == MOST_ENDPOINTS)
        return orr_fail(err, ORR_INVALID, "more than %d endpoints of etcd", MOST_ENDPOINTS);
    const char *scheme = https ? "https://" : "http://";
    const size_t room = strlen(scheme) + host_n + 1;
    char *endpoint = orr_malloc(room);
    if (endpoint == NULL)
        return orr_fail_memory(err);
    (void)snprintf(endpoint, room, "%s%.*s", scheme, (int)host_n, host);
    client->endpoints[client->n++] = endpoint;
    return ORR_OK;
}

orr_status orr_etcd_client_new(const char *endpoints, orr_etcd_client **ret, orr_error *err)
{
    (void)pthread_once(&opened, open_library);
    if (!available)
        return orr_fail(err, ORR_UNSUPPORTED, "a store in etcd needs libcurl.so.4: give a file");
    orr_status status = ORR_OK;
    orr_etcd_client *client = orr_calloc(1, sizeof *client);
    if (client == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, set_up(client, err));
    for (const char *at = endpoints;;) {
        const size_t n = strcspn(at, ",");
        ORR_TRY_OUT(status, add_endpoint(client, at, n, err));
        if (at[n] == '\0')
            break;
        at += n + 1;
    }
    *ret = client;
out:
    if (status != ORR_OK)
        orr_etcd_client_free(client);
    return status;
}

void orr_etcd_client_free(orr_etcd_client *client)
{
    if (client == NULL)
        return;
    if (client->curl != NULL)
        api.curl_easy_cleanup(client->curl);
    api.curl_slist_free_all(client->headers);
    for (uint32_t i = 0; i < client->n; i++)
        orr_free(client->endpoints[i]);
    orr_array_done(&client->answer);
    orr_free(client);
}

/* *ret_final: nobody else would answer otherwise. */
static orr_status judge(orr_etcd_client *client, const char *endpoint, CURLcode code,
                        bool *ret_final, orr_error *err)
{
    long http = 0;
    *ret_final = client->no_memory;
    if (client->no_memory)
        return orr_fail_memory(err);
    if (code != CURLE_OK)
        return orr_fail(err, ORR_IO, "%s: %s", endpoint,
                        client->why[0] != '\0' ? client->why : api.curl_easy_strerror(code));
    (void)api.curl_easy_getinfo(client->curl, CURLINFO_RESPONSE_CODE, &http);
    if (http == 200)
        return ORR_OK;
    char why[200];
    orr_etcd_read_refusal(
        (orr_text){client->answer.n > 0 ? client->answer.at : "", client->answer.n}, why,
        sizeof why);
    *ret_final = http >= 400 && http < 500 && http != 408 && http != 429; /* these pass */
    return orr_fail(err, ORR_IO, "%s refuses (HTTP %ld): %s", endpoint, http, why);
}

static orr_status ask(orr_etcd_client *client, const char *endpoint, const char *path,
                      orr_text body, int64_t timeout_ns, bool *ret_final, orr_error *err)
{
    char url[1024];
    *ret_final = true;
    if ((size_t)snprintf(url, sizeof url, "%s%s", endpoint, path) >= sizeof url)
        return orr_fail(err, ORR_INVALID, "an endpoint of etcd is too long");
    CURL *curl = client->curl;
    client->answer.n = 0;
    client->no_memory = false;
    client->why[0] = '\0';
    if (api.curl_easy_setopt(curl, CURLOPT_URL, url) != CURLE_OK)
        return orr_fail_memory(err);
    (void)api.curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)body.n);
    (void)api.curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body.at);
    (void)api.curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS,
                               (long)(timeout_ns < MS ? 1 : timeout_ns / MS));
    return judge(client, endpoint, api.curl_easy_perform(curl), ret_final, err);
}

/* Once around. */
static orr_status ask_all(orr_etcd_client *client, const char *path, orr_text body,
                          int64_t deadline_ns, bool *ret_final, orr_error *err)
{
    orr_status status = ORR_IO;
    *ret_final = false;
    for (uint32_t i = 0; i < client->n && !*ret_final; i++) {
        const uint32_t which = (client->first + i) % client->n;
        const int64_t left = deadline_ns - orr_clock_now_ns(&orr_clock_monotonic);
        if (left <= 0 && i > 0)
            break;
        status = ask(client, client->endpoints[which], path, body, left / (client->n - i),
                     ret_final, err);
        if (status == ORR_OK) {
            client->first = which;
            return ORR_OK;
        }
    }
    return status;
}

orr_status orr_etcd_post(orr_etcd_client *client, const char *path, orr_text body,
                         int64_t timeout_ns, orr_text *ret, orr_error *err)
{
    const int64_t now = orr_clock_now_ns(&orr_clock_monotonic);
    const int64_t deadline = timeout_ns > INT64_MAX - now ? INT64_MAX : now + timeout_ns;
    for (;;) {
        bool final;
        const orr_status status = ask_all(client, path, body, deadline, &final, err);
        if (status == ORR_OK) {
            *ret = (orr_text){client->answer.n > 0 ? client->answer.at : "", client->answer.n};
            return ORR_OK;
        }
        const int64_t resume = orr_clock_now_ns(&orr_clock_monotonic) + PAUSE_NS;
        if (final || resume >= deadline) {
            orr_error_prefix(err, "etcd: ");
            return status;
        }
        orr_clock_sleep_until_ns(&orr_clock_monotonic, resume);
    }
}
