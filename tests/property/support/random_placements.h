/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RANDOM_PLACEMENTS_H
#define TESTS_RANDOM_PLACEMENTS_H

#include <string.h>

#include "base/philox.h"
#include "experts/placement/build.h"
#include "experts/routes/builder.h"

/* Placements and routes drawn at random: ranks and layers with different numbers of slots, shares
 * that differ, ranks without any. */
enum { DRAWN_LAYERS = 5, DRAWN_EXPERTS = 40, DRAWN_RANKS = 10 };

static inline uint32_t draw_from(orr_random *random, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(random, most - least + 1);
}

/* Shares that sum to 1 for each expert of a layer; of some, copies have 0. */
static inline void draw_shares(orr_placement_draft *draft, orr_random *random)
{
    const orr_expert_placement *p = &draft->placement;
    for (uint32_t l = 0; l < p->layers; l++) {
        double sum[DRAWN_EXPERTS] = {0};
        const uint32_t begin = orr_placement_first(p, l, 0),
                       end = orr_placement_first(p, l, p->ranks);
        for (int pass = 0; pass < 2; pass++)
            for (uint32_t s = begin; s < end; s++)
                if (pass == 0) {
                    draft->share[s] = (float)(1 + orr_random_below(random, 4));
                    sum[draft->expert[s]] += (double)draft->share[s];
                } else {
                    draft->share[s] = (float)((double)draft->share[s] / sum[draft->expert[s]]);
                }
    }
}

/* The experts of each rank of a layer, none as yet: each on one, then copies where a coin falls. */
static inline void draw_holders(const orr_expert_placement *like, double copies, orr_random *random,
                                bool holds[DRAWN_RANKS][DRAWN_EXPERTS])
{
    for (uint32_t e = 0; e < like->experts; e++) {
        holds[orr_random_below(random, like->ranks)][e] = true;
        for (uint32_t r = 0; r < like->ranks; r++)
            if (orr_random_unit(random) < copies)
                holds[r][e] = true;
    }
}

/* A placement of the shape of `like`, whose ranks have each expert once at most; `copies`: odds of
 * a further copy on a rank. */
static inline orr_placement_draft draw_placement(const orr_expert_placement *like, double copies,
                                                 orr_random *random, orr_arena *arena)
{
    bool holds[DRAWN_LAYERS][DRAWN_RANKS][DRAWN_EXPERTS] = {{{false}}};
    uint32_t slots[DRAWN_LAYERS * DRAWN_RANKS] = {0}, n = 0;
    orr_placement_draft draft;
    orr_error err = {0};
    for (uint32_t l = 0; l < like->layers; l++) {
        draw_holders(like, copies, random, holds[l]);
        for (uint32_t r = 0; r < like->ranks; r++)
            for (uint32_t e = 0; e < like->experts; e++)
                slots[l * like->ranks + r] += holds[l][r][e];
    }
    if (orr_placement_draft_new(like, slots, true, arena, &draft, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (uint32_t l = 0; l < like->layers; l++)
        for (uint32_t r = 0; r < like->ranks; r++)
            for (uint32_t e = 0; e < like->experts; e++)
                if (holds[l][r][e])
                    draft.expert[n++] = (uint16_t)e;
    draw_shares(&draft, random);
    return draft;
}

static inline orr_expert_placement draw_shape(orr_random *random)
{
    return (orr_expert_placement){.layers = draw_from(random, 1, DRAWN_LAYERS),
                                  .experts = draw_from(random, 1, DRAWN_EXPERTS),
                                  .ranks = draw_from(random, 1, DRAWN_RANKS),
                                  .host_ranks = draw_from(random, 1, DRAWN_RANKS),
                                  .nearest = orr_random_below(random, 2)};
}

/* Routes over the experts of a placement: few choices of many are common. */
static inline const orr_routes *draw_routes(const orr_expert_placement *p, uint32_t tokens,
                                            uint32_t top_k, uint32_t requests, orr_random *random,
                                            orr_arena *arena)
{
    orr_routes_builder b;
    const orr_routes *ret;
    orr_error err = {0};
    uint16_t choice[DRAWN_LAYERS * ORR_ROUTE_CHOICES_MAX];
    orr_status status = orr_routes_builder_init(&b, p->number, p->layers, top_k, false, &err);
    for (uint32_t t = 0; status == ORR_OK && t < tokens; t++) {
        for (uint32_t l = 0; l < p->layers; l++) {
            uint16_t order[DRAWN_EXPERTS];
            for (uint32_t e = 0; e < p->experts; e++)
                order[e] = (uint16_t)e;
            for (uint32_t k = 0; k < top_k; k++) {
                const uint32_t left = p->experts - k;
                const double u = orr_random_unit(random);
                const uint32_t at = k + (uint32_t)(u * u * left);
                choice[l * top_k + k] = order[at];
                order[at] = order[k];
            }
        }
        const orr_routes_row row = {.request = t % requests,
                                    .position = t / requests,
                                    .rank = (uint16_t)orr_random_below(random, p->ranks),
                                    .choice = choice};
        status = orr_routes_builder_push(&b, &row, &err);
    }
    if (status == ORR_OK)
        status = orr_routes_builder_finish(
            &b, &(orr_routes_names){.requests = requests, .kinds = 1, .source = "drawn"}, arena,
            &ret, &err);
    if (status != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

#endif /* TESTS_RANDOM_PLACEMENTS_H */
