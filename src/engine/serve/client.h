/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_CLIENT_H
#define ORR_ENGINE_SERVE_CLIENT_H

#include "engine/serve/request.h"

/* Who asks a server of tables over a connection of io/net (frames.h). Threads: one at a time. */
typedef struct orr_serve_client orr_serve_client;
typedef struct orr_serve_client_options {
    const char *address; /* "host:port", perhaps with |shm as the server tells it */
    const orr_dlrm *model;
    /* An answer: `number` is that of the question, values are fp32 where the code is 200, else
     * text of head->bytes. Called by poll() and score(). NULL: answers are dropped. */
    void (*answered)(void *ctx, uint64_t number, const orr_answer_header *head, const void *body);
    void *ctx;
} orr_serve_client_options;
/* IO: nobody listens there; INVALID: no address. */
orr_status orr_serve_client_open(const orr_serve_client_options *options, orr_serve_client **ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_serve_client_close(orr_serve_client *client); /* NULL is allowed */

/* Sends a question, and waits for nothing. IO: the connection is no more; LIMIT: too large. */
orr_status orr_serve_client_ask(orr_serve_client *client, uint64_t number,
                                const orr_score_batch *batch, orr_error *err) ORR_MUST_CHECK;
uint64_t orr_serve_client_waiting(const orr_serve_client *client); /* questions not answered */
/* Takes answers until a time, or the first; the clock is orr_clock_monotonic. IO: the connection is
 * no more, or what came is no answer. */
orr_status orr_serve_client_poll(orr_serve_client *client, int64_t until_ns,
                                 orr_error *err) ORR_MUST_CHECK;
/* ret, shape (samples): probabilities; waits for them, while no other question waits. Errors: the
 * above, and the server's: INVALID, LIMIT; IO: any other, or no answer in a minute. */
orr_status orr_serve_client_score(orr_serve_client *client, const orr_score_batch *batch,
                                  float *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_SERVE_CLIENT_H */
