/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_PLACED_EXPERTS_H
#define TESTS_PLACED_EXPERTS_H

#include <string.h>

#include "small_models.h"

/* Many choices of many experts, as Qwen's and DeepSeek's, and no shared expert. */
static inline small_model small_qwen3_moe(void)
{
    orr_model m = small_llama();
    m.kv_heads = 2;
    m.qk_norm = 1;
    m.moe = (orr_moe){.experts = 12, .top_k = 5, .expert_ffn = 8, .every = 1};
    return (small_model){"qwen 3", m};
}

/* Placements of all experts of a small model. Each expert of a layer is: on the last rank,
 * whichever it is; on one rank, equally many a rank, the last expert first or in any order; on any
 * rank, and on each other with a chance of a third. */
typedef enum experts_placed {
    EXPERTS_TOGETHER,
    EXPERTS_REVERSED,
    EXPERTS_SHUFFLED,
    EXPERTS_COPIED
} experts_placed;

enum { PLACED_LAYERS = 8, PLACED_EXPERTS = 16, PLACED_RANKS = 4 };

static inline bool expert_has_slot(experts_placed kind, uint32_t rank, uint32_t ranks,
                                   uint32_t home, orr_random *random)
{
    if (kind == EXPERTS_TOGETHER)
        return rank == ranks - 1;
    return rank == home || (kind == EXPERTS_COPIED && orr_random_below(random, 3) == 0);
}

/* The slots of one layer from slot `n` on, and their shares; returns the number of slots so far. */
static inline uint32_t place_layer(orr_expert_placement *p, experts_placed kind, uint32_t n,
                                   uint32_t *first, uint16_t *expert, float *share,
                                   orr_random *random)
{
    uint32_t home[PLACED_EXPERTS], copies[PLACED_EXPERTS] = {0}, begin = n;
    uint16_t order[PLACED_EXPERTS];
    for (uint32_t e = 0; e < p->experts; e++) { /* a shuffle; in front, the last stay first */
        const uint32_t at =
            kind == EXPERTS_REVERSED ? 0 : (uint32_t)orr_random_below(random, e + 1);
        memmove(order + at + 1, order + at, (e - at) * sizeof *order);
        order[at] = (uint16_t)e;
        home[e] = (uint32_t)orr_random_below(random, p->ranks);
    }
    for (uint32_t i = 0; kind != EXPERTS_COPIED && i < p->experts; i++)
        home[order[i]] = i * p->ranks / p->experts;
    for (uint32_t r = 0; r < p->ranks; r++) {
        first[r] = n;
        for (uint32_t i = 0; i < p->experts; i++)
            if (expert_has_slot(kind, r, p->ranks, home[order[i]], random)) {
                expert[n++] = order[i];
                copies[order[i]]++;
            }
    }
    first[p->ranks] = n;
    for (uint32_t s = begin; s < n; s++)
        share[s] = 1 / (float)copies[expert[s]];
    return n;
}

static inline const orr_expert_placement *place_experts(const orr_model *m, experts_placed kind,
                                                        uint32_t ranks, uint32_t host_ranks,
                                                        uint64_t seed, orr_random *random,
                                                        orr_arena *arena)
{
    enum { SLOTS = PLACED_LAYERS * PLACED_EXPERTS * PLACED_RANKS };
    orr_expert_placement *p = orr_arena_one(arena, orr_expert_placement);
    uint32_t *number = orr_arena_array(arena, uint32_t, PLACED_LAYERS);
    uint32_t *first = orr_arena_array(arena, uint32_t, PLACED_LAYERS * (PLACED_RANKS + 1));
    uint16_t *expert = orr_arena_array(arena, uint16_t, SLOTS);
    float *share = orr_arena_array(arena, float, SLOTS);
    *p = (orr_expert_placement){.experts = m->moe.experts,
                                .ranks = ranks,
                                .host_ranks = host_ranks,
                                .number = number,
                                .first_slot = first,
                                .expert = expert,
                                .share = share,
                                .policy = "",
                                .source = "drawn"};
    for (uint32_t layer = 0, n = 0; layer < m->layers; layer++)
        if (orr_model_layer_moe(m, layer)) {
            n = place_layer(p, kind, n, first + p->layers * (ranks + 1), expert, share, random);
            number[p->layers++] = layer;
        }
    orr_error err;
    if (orr_expert_placement_check(p, NULL, 0, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    return p;
}

#endif /* TESTS_PLACED_EXPERTS_H */
