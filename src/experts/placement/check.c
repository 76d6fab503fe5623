/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "experts/placement/build.h"

/* What a placement must be to be served from. */

uint32_t orr_expert_placement_slots(const orr_expert_placement *placement)
{
    return orr_placement_first(placement, placement->layers - 1, placement->ranks);
}

static orr_status check_head(const orr_expert_placement *p, orr_error *err)
{
    if (p->layers == 0 || p->experts == 0 || p->experts > ORR_EXPERTS_MAX || p->ranks == 0 ||
        p->ranks > ORR_PLACEMENT_RANKS_MAX || p->host_ranks == 0)
        return orr_fail(
            err, ORR_INVALID,
            "a placement of %u layers, %u experts, %u ranks, %u of a host: at least 1 of "
            "each, at most %d experts and %d ranks",
            p->layers, p->experts, p->ranks, p->host_ranks, ORR_EXPERTS_MAX,
            ORR_PLACEMENT_RANKS_MAX);
    for (uint32_t l = 1; l < p->layers; l++)
        if (p->number[l] <= p->number[l - 1])
            return orr_fail(err, ORR_INVALID, "a placement with layer %u after layer %u",
                            p->number[l], p->number[l - 1]);
    for (size_t i = 0, n = (size_t)p->layers * (p->ranks + 1); i < n; i++)
        if (i == 0 ? p->first_slot[i] != 0
                   : p->first_slot[i] < p->first_slot[i - 1] ||
                         (i % (p->ranks + 1) == 0 && p->first_slot[i] != p->first_slot[i - 1]))
            return orr_fail(err, ORR_INVALID,
                            "layer %u: slots of rank %zu do not follow those before",
                            p->number[i / (p->ranks + 1)], i % (p->ranks + 1));
    return ORR_OK;
}

/* Per expert of a layer, for check_layer(). */
typedef struct seen_experts {
    bool has_slot[ORR_EXPERTS_MAX];
    double share[ORR_EXPERTS_MAX]; /* of its copies, summed */
} seen_experts;

static orr_status check_slot(const orr_expert_placement *p, uint32_t layer, uint32_t rank,
                             uint32_t slot, seen_experts *seen, orr_error *err)
{
    const uint32_t e = p->expert[slot];
    if (e >= p->experts)
        return orr_fail(err, ORR_INVALID, "layer %u, rank %u: expert %u is none of the %u",
                        p->number[layer], rank, e, p->experts);
    if (!(p->share[slot] >= 0 && p->share[slot] <= 1))
        return orr_fail(err, ORR_INVALID, "layer %u, rank %u, expert %u: a share of %g",
                        p->number[layer], rank, e, (double)p->share[slot]);
    seen->has_slot[e] = true;
    seen->share[e] += (double)p->share[slot];
    return ORR_OK;
}

static orr_status check_layer(const orr_expert_placement *p, uint32_t layer,
                              const uint32_t (*missing)[2], uint32_t n_missing, orr_error *err)
{
    static const double SUM_FRAC = 1e-4; /* floats, and what people round in files */
    seen_experts seen;
    memset(seen.has_slot, 0, p->experts * sizeof *seen.has_slot);
    memset(seen.share, 0, p->experts * sizeof *seen.share);
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t s = orr_placement_first(p, layer, r);
             s < orr_placement_first(p, layer, r + 1); s++)
            ORR_TRY(check_slot(p, layer, r, s, &seen, err));
    for (uint32_t i = 0; i < n_missing; i++)
        if (missing[i][0] == layer && missing[i][1] < p->experts && !seen.has_slot[missing[i][1]]) {
            seen.has_slot[missing[i][1]] = true;
            seen.share[missing[i][1]] = 1;
        }
    for (uint32_t e = 0; e < p->experts; e++) {
        if (!seen.has_slot[e])
            return orr_fail(err, ORR_INVALID, "layer %u: expert %u is on no rank", p->number[layer],
                            e);
        if (fabs(seen.share[e] - 1) > SUM_FRAC)
            return orr_fail(err, ORR_INVALID,
                            "layer %u, expert %u: shares of its copies sum to %g, not to 1",
                            p->number[layer], e, seen.share[e]);
    }
    return ORR_OK;
}

orr_status orr_expert_placement_check(const orr_expert_placement *placement,
                                      const uint32_t (*missing)[2], uint32_t n_missing,
                                      orr_error *err)
{
    ORR_TRY(check_head(placement, err));
    for (uint32_t l = 0; l < placement->layers; l++)
        ORR_TRY(check_layer(placement, l, missing, n_missing, err));
    return ORR_OK;
}
