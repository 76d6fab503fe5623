/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_HTTP_H
#define ORR_ENGINE_SERVE_HTTP_H

#include "engine/serve/service.h"
#include "io/http/listener.h"

/* A service over HTTP:
 *
 *   POST /score, /bags, /update   request.h; JSON, or application/octet-stream: binary
 *   POST /swap                    the weights are read again, as they stand now
 *   GET  /metrics, /health
 *
 * 200; 400 what is wrong with the request; 404, 405; 409 the tables do not change; 413 too large;
 * 500; 503 with Retry-After: the queue is full, or the server ends. */
typedef struct orr_serve_http orr_serve_http;
typedef struct orr_serve_http_options {
    const char *where; /* as orr_http_listener_options.where */
    size_t body_bytes;
    uint32_t connections, idle_seconds, body_seconds;
    orr_service *service;
    /* Asks for an exchange of the weights, which another thread makes; NULL: no. */
    void (*swap)(void *ctx);
    void *ctx;
} orr_serve_http_options;
orr_status orr_serve_http_open(const orr_serve_http_options *options, orr_serve_http **ret,
                               orr_error *err) ORR_MUST_CHECK;
const char *orr_serve_http_address(const orr_serve_http *http);
/* Connections and requests are refused from now on; those handed in are answered. */
void orr_serve_http_drain(orr_serve_http *http);
void orr_serve_http_close(
    orr_serve_http *http); /* after the service was drained; NULL is allowed */

#endif /* ORR_ENGINE_SERVE_HTTP_H */
