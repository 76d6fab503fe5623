/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_STATUS_HTTP_H
#define ORR_TEAM_STATUS_HTTP_H

#include <orrery/arena.h>

#include "io/json/reader.h"
#include "team/status/status.h"

/* What a coordinator shows over HTTP: GET /metrics (Prometheus), /status (JSON), / (one line). A
 * thread of its own answers, from pages that are whole and never change: publishing makes new ones
 * and takes the place of the old under a lock that is held for a few instructions, so that nobody
 * who asks, however slowly, holds up the coordinator. */
typedef struct orr_http_server orr_http_server;

/* `where`: "host:port", "[::1]:port", ":port" (all addresses); port 0: any. Errors: INVALID: no
 * address; IO: it cannot be had; UNSUPPORTED: built without libmicrohttpd. */
orr_status orr_http_server_open(const char *where, orr_http_server **ret,
                                orr_error *err) ORR_MUST_CHECK;
const char *orr_http_server_address(const orr_http_server *endpoint); /* "127.0.0.1:9469" */
/* From now on this is shown; before the first, requests are answered with 503. From one thread at a
 * time. NO_MEMORY: the old one stays. */
orr_status orr_http_server_publish(orr_http_server *endpoint, const orr_team_status *status,
                                   orr_error *err);
void orr_http_server_close(orr_http_server *endpoint); /* NULL is allowed */

/* The body of the answer to GET `path`, NUL behind it, in the arena: for an endpoint as above, with
 * or without libmicrohttpd. `address`: "host:port", perhaps after "http://". Errors: IO: nobody is
 * there, or no whole answer within timeout_ns (names are looked up in the system's own time);
 * INVALID; NOT_FOUND: no such path; LIMIT: beyond 4 MiB. */
orr_status orr_http_get(const char *address, const char *path, int64_t timeout_ns, orr_arena *arena,
                        orr_text *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TEAM_STATUS_HTTP_H */
