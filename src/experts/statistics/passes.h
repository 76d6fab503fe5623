/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_STATISTICS_PASSES_H
#define ORR_EXPERTS_STATISTICS_PASSES_H

#include <orrery/graph.h>

#include "experts/statistics/statistics.h"

/* The two passes over routes that statistics are made of, each over independent parts, so that
 * threads may share them. */

enum { ORR_ROUTES_CHUNK = 4096 }; /* tokens decoded at once */

/* By layer. Tokens are counted by class: kind of request, half of the kind's requests (the even and
 * the odd ones, in order of appearance), phase. */
typedef struct orr_expert_layer_pass {
    const orr_routes *routes;
    uint32_t experts;
    uint32_t kinds;                        /* compared ones; kind `kinds` stands for all others */
    const uint16_t *class;                 /* shape (T): (kind * 2 + half) * 2 + phase */
    orr_expert_layer_statistics *of_layer; /* shape (L) */
    double *load;                          /* shape (L, E) */
    uint32_t n_shift;
    double *shift; /* shape (L, n_shift): distances of kinds a <= b, in rows of a */
} orr_expert_layer_pass;
static inline uint32_t orr_expert_classes(uint32_t kinds)
{
    return 4 * (kinds + 1);
}
/* A layer of which nothing but its number is known. */
orr_expert_layer_statistics orr_expert_layer_unknown(uint32_t layer);
/* Layer l; for orr_parallel_for(). */
orr_status orr_expert_layer_pass_one(void *pass, size_t l, orr_error *err) ORR_MUST_CHECK;

/* By request: correlations of prefill and decode, NAN where a request lacks one of them. Requests
 * are taken in blocks, `stride` apart, since neighbours in a file are often alike; `other` is with
 * the decode of the next request of the block that has both phases. */
enum { ORR_REQUEST_BLOCK = 32 };
typedef struct orr_expert_request_pass {
    const orr_routes *routes;
    uint32_t experts;
    const orr_expert_layer_statistics *of_layer; /* concentrated ones are passed over */
    const uint64_t *first;                       /* shape (requests + 1): of `token` */
    const uint32_t *token;                       /* shape (T): tokens, by request */
    uint32_t stride;                             /* without a factor in common with requests */
    double *own, *other;                         /* shape (requests) */
} orr_expert_request_pass;
orr_status orr_expert_request_pass_one(void *pass, size_t block, orr_error *err) ORR_MUST_CHECK;

/* Pearson's correlation of two series of counts; NAN where one is constant. */
double orr_expert_correlation(const uint32_t *a, const uint32_t *b, uint32_t n);

#endif /* ORR_EXPERTS_STATISTICS_PASSES_H */
