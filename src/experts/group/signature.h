/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_GROUP_SIGNATURE_H
#define ORR_EXPERTS_GROUP_SIGNATURE_H

#include <orrery/experts.h>

/* The signature of a request: of each layer the square roots of the shares that its experts have of
 * the request's choices in prefill, divided by sqrt(L). A unit vector; the scalar product of two is
 * the mean over layers of the Bhattacharyya coefficient of their shares, so that no layer and no
 * long request weighs more than another.
 *
 * Source: expert activation vectors of requests, arXiv 2604.23150 and 2607.00466 (ELDR), there by
 * counts; by roots a layer's hottest expert does not drown the others. */

/* Which tokens of routes belong to which request. */
typedef struct orr_request_tokens {
    const uint64_t *begin; /* shape (requests + 1): those of request i are [begin[i], begin[i + 1])
                            * of: */
    const uint64_t *token; /* shape (tokens of that phase): rows of the routes, ascending */
} orr_request_tokens;
orr_status orr_request_tokens_make(const orr_routes *routes, int phase, orr_arena *arena,
                                   orr_request_tokens *ret, orr_error *err) ORR_MUST_CHECK;

/* counts: shape (L, E); ret: shape (L, E). A layer without choices has zeros. */
void orr_signature_of_counts(const uint32_t *counts, uint32_t layers, uint32_t experts, float *ret);
/* The signature of a request of the routes. counts: shape (L, E), zeroed, and zeroed again. */
void orr_signature_of_request(const orr_routes *routes, const orr_request_tokens *tokens,
                              uint32_t request, uint32_t *counts, float *ret);
/* Scalar product, in an order that depends on n alone. */
float orr_signature_dot(const float *a, const float *b, size_t n);

#endif /* ORR_EXPERTS_GROUP_SIGNATURE_H */
