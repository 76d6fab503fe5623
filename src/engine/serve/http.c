/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/http.h"

#include <stdatomic.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"

struct orr_serve_http {
    orr_serve_http_options options;
    orr_http_listener *listener;
    atomic_bool draining;
};

static void answer_text(orr_http_exchange *x, unsigned code, const char *text)
{
    static const char AFTER[] = "Retry-After", ALLOW[] = "Allow";
    const orr_http_answer answer = {.code = code,
                                    .type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .bytes = strlen(text),
                                    .header = code == 503   ? AFTER
                                              : code == 405 ? ALLOW
                                                            : NULL,
                                    .value = code == 503 ? "1" : "GET, HEAD, POST"};
    orr_http_exchange_answer(x, &answer);
}

/* From a thread of the service. */
static void answered(void *ctx, const orr_service_answer *a)
{
    const orr_http_answer answer = {.code = a->code,
                                    .type =
                                        a->binary ? "application/octet-stream" : "application/json",
                                    .body = a->body,
                                    .bytes = a->bytes};
    orr_http_exchange_answer(ctx, &answer);
}

static void show_metrics(const orr_serve_http *h, orr_http_exchange *x)
{
    orr_output *out;
    orr_http_answer answer = {.code = 200, .type = ORR_SERVICE_METRICS_TYPE};
    if (orr_output_open_memory(&out, NULL) != ORR_OK) {
        answer_text(x, 500, "out of memory\n");
        return;
    }
    orr_service_metrics(h->options.service, out);
    if (orr_output_finish(out, NULL) == ORR_OK) {
        answer.body = orr_output_memory(out, &answer.bytes);
        orr_http_exchange_answer(x, &answer);
    } else {
        answer_text(x, 500, "out of memory\n");
    }
    orr_output_close(out);
}

static void get(const orr_serve_http *h, orr_http_exchange *x, const char *path)
{
    if (strcmp(path, "/metrics") == 0)
        show_metrics(h, x);
    else if (strcmp(path, "/health") == 0)
        answer_text(x, atomic_load(&h->draining) ? 503 : 200,
                    atomic_load(&h->draining) ? "ending\n" : "ok\n");
    else if (strcmp(path, "/") == 0)
        answer_text(x, 200,
                    "Orrery serves tables: POST /score, /bags, /update, /swap; GET "
                    "/metrics, /health\n");
    else
        answer_text(x, 404, "There is /score, /bags, /update, /swap, /metrics and /health.\n");
}

static void post(const orr_serve_http *h, orr_http_exchange *x, const orr_http_request *r)
{
    orr_service_request request = {
        .body = r->body, .bytes = r->bytes, .answer = answered, .ctx = x};
    request.binary = strncasecmp(r->type, "application/octet-stream", 24) == 0;
    if (strcmp(r->path, "/swap") == 0) {
        if (h->options.swap == NULL) {
            answer_text(x, 409, "The weights do not change.\n");
            return;
        }
        h->options.swap(h->options.ctx);
        answer_text(x, 202, "The weights are read again.\n");
        return;
    }
    for (request.kind = 0; request.kind < ORR_ASK_KINDS; request.kind++)
        if (strcmp(r->path + 1, orr_ask_kind_name((orr_ask_kind)request.kind)) == 0)
            break;
    if (request.kind == ORR_ASK_KINDS)
        answer_text(x, 404, "There is /score, /bags, /update, /swap, /metrics and /health.\n");
    else if (!orr_service_submit(h->options.service, &request))
        answer_text(x, 503, "Too many requests wait, or the server ends.\n");
}

static void handle(void *ctx, orr_http_exchange *x, const orr_http_request *r)
{
    const orr_serve_http *h = ctx;
    if (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0)
        get(h, x, r->path);
    else if (strcmp(r->method, "POST") == 0)
        post(h, x, r);
    else
        answer_text(x, 405, "GET, HEAD and POST are answered.\n");
}

orr_status orr_serve_http_open(const orr_serve_http_options *options, orr_serve_http **ret,
                               orr_error *err)
{
    orr_serve_http *h = orr_calloc(1, sizeof *h);
    if (h == NULL)
        return orr_fail_memory(err);
    h->options = *options;
    const orr_http_listener_options listener = {.where = options->where,
                                                .body_bytes = options->body_bytes,
                                                .connections = options->connections,
                                                .idle_seconds = options->idle_seconds,
                                                .body_seconds = options->body_seconds,
                                                .what = "serving tables",
                                                .request = handle,
                                                .ctx = h};
    const orr_status status = orr_http_listener_open(&listener, &h->listener, err);
    if (status == ORR_OK)
        *ret = h;
    else
        orr_free(h);
    return status;
}

const char *orr_serve_http_address(const orr_serve_http *h)
{
    return orr_http_listener_address(h->listener);
}

void orr_serve_http_drain(orr_serve_http *h)
{
    atomic_store(&h->draining, true);
    orr_http_listener_quiesce(h->listener);
}

void orr_serve_http_close(orr_serve_http *h)
{
    if (h == NULL)
        return;
    orr_http_listener_close(h->listener);
    orr_free(h);
}
