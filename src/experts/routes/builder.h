/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_BUILDER_H
#define ORR_EXPERTS_ROUTES_BUILDER_H

#include <orrery/experts.h>

#include "base/array.h"

/* Builds routes token by token: what readers, generators and recorders share. Every layer has a
 * growing column of its own, so that nothing is transposed in the end, and a finished column is
 * copied and freed before the next. Threads: none. */
typedef struct orr_routes_builder {
    uint32_t layers, top_k;
    uint32_t *number;                /* shape (L) */
    orr_array(uint8_t) * low, *high; /* shape (L) */
    orr_array(float) * score;        /* shape (L); NULL: no scores */
    orr_array(uint32_t) request, position;
    orr_array(uint8_t) phase;
    orr_array(uint16_t) rank;
    uint32_t most; /* the last expert that was chosen */
} orr_routes_builder;

/* INVALID: no layers, numbers that do not ascend, K of 0 or over ORR_ROUTE_CHOICES_MAX. */
orr_status orr_routes_builder_init(orr_routes_builder *b, const uint32_t *number, uint32_t layers,
                                   uint32_t top_k, bool scores, orr_error *err) ORR_MUST_CHECK;
/* One token. choice, score: shape (L, K); score NULL where the builder has none; rank: all tokens
 * have one, or none has (UINT16_MAX). Experts are below ORR_EXPERTS_MAX: the caller has checked. */
typedef struct orr_routes_row {
    uint32_t request, position;
    uint8_t phase;
    uint16_t rank;
    const uint16_t *choice;
    const float *score;
} orr_routes_row;
orr_status orr_routes_builder_push(orr_routes_builder *b, const orr_routes_row *row,
                                   orr_error *err) ORR_MUST_CHECK;
/* The same in blocks: the tokens without their choices, and the choices of n tokens, shape (n, K),
 * in each layer (an index) in any order. No scores. */
orr_status orr_routes_builder_token(orr_routes_builder *b, const orr_routes_row *row,
                                    orr_error *err) ORR_MUST_CHECK;
orr_status orr_routes_builder_choices(orr_routes_builder *b, uint32_t layer, size_t n,
                                      const uint16_t *choice, orr_error *err) ORR_MUST_CHECK;
/* Puts the tokens, whose choices are all there, in the order of their requests; those of a request
 * stay as they are. */
orr_status orr_routes_builder_order(orr_routes_builder *b, orr_error *err) ORR_MUST_CHECK;
/* Freezes what was pushed into the arena, and frees the builder. `names` has requests, kinds and
 * source. INVALID: no tokens; an expert that is not below `experts` (0: any). */
typedef struct orr_routes_names {
    uint32_t requests, kinds, experts;
    const char *const *request_name; /* shape (requests), in the arena; NULL: their numbers */
    const uint32_t *kind;            /* shape (requests); NULL: one kind, "" */
    const char *const *kind_name;    /* shape (kinds) */
    uint64_t warm_up;                /* rows that were left out */
    const char *source;
} orr_routes_names;
orr_status orr_routes_builder_finish(orr_routes_builder *b, const orr_routes_names *names,
                                     orr_arena *arena, const orr_routes **ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* The same, but the columns stay where they are: valid until the next push. */
orr_status orr_routes_builder_view(orr_routes_builder *b, const orr_routes_names *names,
                                   orr_arena *arena, orr_routes *ret,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_routes_builder_done(orr_routes_builder *b); /* also after finish */

#endif /* ORR_EXPERTS_ROUTES_BUILDER_H */
