/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_HTTP_LISTENER_H
#define ORR_IO_HTTP_LISTENER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Answers HTTP requests (RFC 9112), by libmicrohttpd, which is opened at run time. A thread of the
 * listener's own reads requests whole and gives each to `request`, which answers it at once or
 * later, from any thread; meanwhile others are read. What is no HTTP, too long or too slow is
 * refused here. */
typedef struct orr_http_listener orr_http_listener;
typedef struct orr_http_exchange orr_http_exchange; /* a request until it is answered */

typedef struct orr_http_request {
    const char *method, *path, *type; /* type: of the body, "" where it is not said */
    const void *body;                 /* good until it is answered; NULL: none */
    size_t bytes;
} orr_http_request;

typedef struct orr_http_answer {
    unsigned code;    /* 200 */
    const char *type; /* of the body: "application/json" */
    const void *body; /* copied */
    size_t bytes;
    const char *header, *value; /* one more header; or NULL */
} orr_http_answer;

typedef struct orr_http_listener_options {
    const char *where; /* "host:port", "[::1]:port", ":port" (all addresses); port 0: any */
    size_t body_bytes; /* of a request, at most: 413 */
    uint32_t connections;
    uint32_t idle_seconds; /* a connection on which nothing moves is closed */
    uint32_t body_seconds; /* a request that is not whole by then is given up */
    const char *what;      /* "serving tables", of errors */
    void (*request)(void *ctx, orr_http_exchange *exchange, const orr_http_request *request);
    void *ctx;
} orr_http_listener_options;
/* INVALID: no address; IO: it cannot be had; UNSUPPORTED: built without libmicrohttpd, or it is not
 * installed. */
orr_status orr_http_listener_open(const orr_http_listener_options *options, orr_http_listener **ret,
                                  orr_error *err) ORR_MUST_CHECK;
const char *orr_http_listener_address(const orr_http_listener *listener); /* "127.0.0.1:9469" */
/* Takes no further connections; those that are there go on. */
void orr_http_listener_quiesce(orr_http_listener *listener);
/* After every exchange has been answered; sends the answers first, for 10 s at most. NULL is
 * allowed.
 */
void orr_http_listener_close(orr_http_listener *listener);
/* Once for every exchange, which is no more afterwards. Any thread. */
void orr_http_exchange_answer(orr_http_exchange *exchange, const orr_http_answer *answer);

#endif /* ORR_IO_HTTP_LISTENER_H */
