/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_TRAFFIC_H
#define ORR_EXPERTS_PLACEMENT_TRAFFIC_H

#include "experts/placement/index.h"

/* Where the tokens of routes go, layer by layer. */
typedef struct orr_traffic {
    const orr_expert_placement *placement;
    const orr_routes *routes;
    const uint32_t *rank_of_request; /* shape (requests); NULL: routes->rank */
    bool by_share;
} orr_traffic;

/* INVALID: routes of other layers or more experts than the placement. */
orr_status orr_routes_check(const orr_routes *routes, const orr_expert_placement *placement,
                            orr_error *err) ORR_MUST_CHECK;
/* INVALID: the same; no ranks of tokens, or one
 * beyond those of the placement. */
orr_status orr_traffic_check(const orr_traffic *traffic, orr_error *err) ORR_MUST_CHECK;

/* Tokens [first, first + n) of a layer, resolved: shape (n, K) each, and (n). At most
 * ORR_TRAFFIC_BLOCK choices (n * K). */
enum { ORR_TRAFFIC_BLOCK = 4096 };
typedef struct orr_traffic_block {
    uint32_t n;
    uint16_t to[ORR_TRAFFIC_BLOCK];     /* rank of a choice; UINT16_MAX: the expert has no slot */
    uint16_t from[ORR_TRAFFIC_BLOCK];   /* shape (n): rank of a token */
    uint16_t choice[ORR_TRAFFIC_BLOCK]; /* expert of a choice */
} orr_traffic_block;
void orr_traffic_resolve(const orr_traffic *traffic, const orr_copy_index *index, uint64_t first,
                         uint32_t n, orr_traffic_block *ret);

/* Groups of ranks that requests are dealt to; 1 without groups of requests. */
static inline uint32_t orr_expert_request_groups(const orr_expert_options *o)
{
    return o->group_of_request == NULL ? 1 : o->request_groups > 0 ? o->request_groups : o->ranks;
}

/* Deals requests to ranks as serving does: each, in their order, to the rank of its group that has
 * the fewest tokens so far and is not dead, the lowest first. Groups are those of the options, of
 * consecutive ranks; without, all ranks are one. Requests without tokens may be of no group. ret:
 * shape (requests). INVALID: groups that do not divide the ranks, a request of no group, a group
 * all of whose ranks are dead. */
orr_status orr_expert_requests_deal(const orr_routes *routes, const orr_expert_options *options,
                                    orr_arena *arena, const uint32_t **ret,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_PLACEMENT_TRAFFIC_H */
