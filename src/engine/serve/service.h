/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_SERVICE_H
#define ORR_ENGINE_SERVE_SERVICE_H

#include "engine/serve/request.h"

/* Threads that answer requests to a scorer, behind a queue of bounded length. Fronts (HTTP, frames)
 * hand requests in and get each answered once, from a thread of the service. */
typedef struct orr_service_options {
    orr_scorer *scorer;
    uint32_t threads;
    uint32_t queue; /* requests that may wait */
    orr_ask_limits limits;
} orr_service_options;

typedef struct orr_service orr_service;
orr_status orr_service_open(const orr_service_options *options, orr_service **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* Answers what is queued, then ends. NULL is allowed. */
void orr_service_close(orr_service *service);

/* An answer: `code` as HTTP has it, and a body: JSON or, of binary requests, as request.h says. */
typedef struct orr_service_answer {
    unsigned code;
    bool binary;
    const void *body;
    size_t bytes;
} orr_service_answer;
typedef struct orr_service_request {
    uint8_t kind; /* orr_ask_kind; binary requests say their own */
    bool binary;
    const void *body; /* until it is answered */
    size_t bytes;
    void (*answer)(void *ctx, const orr_service_answer *answer); /* body: until it returns */
    void *ctx;
    int64_t came_ns; /* filled in */
} orr_service_request;
/* False: the queue is full, or the service ends; nobody will answer. Any thread. */
bool orr_service_submit(orr_service *service, const orr_service_request *request);
/* No request is taken from now on; returns when all have been answered. */
void orr_service_drain(orr_service *service);
/* Prometheus' text format. Any thread. */
void orr_service_metrics(orr_service *service, orr_output *out);
#define ORR_SERVICE_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"
/* Requests answered so far. */
uint64_t orr_service_answered(const orr_service *service);

#endif /* ORR_ENGINE_SERVE_SERVICE_H */
