/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_RANGES_H
#define ORR_EXPERTS_ROUTES_RANGES_H

#include "base/array.h"
#include "experts/routes/builder.h"

/* Tokens that are kept of routes, as ranges: those of a request mostly stand together. */
typedef struct orr_token_range {
    uint64_t first, n;
} orr_token_range;
typedef struct orr_token_ranges {
    orr_array(orr_token_range) range; /* ascending, apart */
    uint64_t tokens;                  /* in all of them */
} orr_token_ranges;

/* The next token that is kept, behind all before. False: no memory. */
bool orr_token_ranges_add(orr_token_ranges *ranges, uint64_t token);
void orr_token_ranges_done(orr_token_ranges *ranges);
/* Moves the rows of the ranges to the front, in order; `to` may be `from`. */
void orr_token_ranges_take(const orr_token_ranges *ranges, const void *from, size_t row_bytes,
                           void *to);

/* Takes the warm-up out of what was pushed: runs of at least ORR_ROUTES_WARM_UP tokens of a request
 * that all chose the same experts in every layer. Serving engines warm up by dummy requests, whose
 * tokens are all the same one. */
orr_status orr_routes_builder_drop_warm_up(orr_routes_builder *b, uint64_t *ret_dropped,
                                           orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_ROUTES_RANGES_H */
