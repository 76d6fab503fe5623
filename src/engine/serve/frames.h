/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_FRAMES_H
#define ORR_ENGINE_SERVE_FRAMES_H

#include "engine/serve/service.h"
#include "io/net/net.h"

/* A service over connections of io/net: the payload of a frame of kind ASK is a binary request
 * (request.h), that of the ANSWER is its answer, and has the `step` of the ASK. Many requests of a
 * connection may be under way; they are answered as they are done, in any order.
 *
 * Limits are those of HTTP: `body_bytes` of a request, and of all requests of one connection that
 * are not answered yet (413, 503; 503 too while as much of answers is not fetched); connections
 * beyond `connections` are closed, and so are those that say nothing for `idle_seconds`, need
 * `body_seconds` for one frame or to fetch answers, leave a GiB of them, or send other kinds of
 * frames. */
enum { ORR_SERVE_FRAME_ASK = 0x4153, ORR_SERVE_FRAME_ANSWER = 0x4e41 };

typedef struct orr_serve_frames orr_serve_frames;
typedef struct orr_serve_frames_options {
    const char *where; /* as orr_net.listen() has it */
    size_t body_bytes;
    uint32_t connections, idle_seconds, body_seconds;
    orr_service *service;
} orr_serve_frames_options;
/* Begins a thread of its own. Errors: those of listening. */
orr_status orr_serve_frames_open(const orr_serve_frames_options *options, orr_serve_frames **ret,
                                 orr_error *err) ORR_MUST_CHECK;
const char *orr_serve_frames_address(const orr_serve_frames *frames);
/* Connections and requests are refused from now on; those handed in are answered. */
void orr_serve_frames_drain(orr_serve_frames *frames);
/* After the service was drained: sends what is answered, for 5 s at most. NULL is allowed. */
void orr_serve_frames_close(orr_serve_frames *frames);

#endif /* ORR_ENGINE_SERVE_FRAMES_H */
