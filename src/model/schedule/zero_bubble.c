/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

/* Zero bubble: a backward pass in two, the gradient of the input, which the stage before waits for,
 * and that of the weights, which nobody does and which fills what would be idle. */

/* 1F1B whose weight gradients run late by as many micro-batches as there are stages before: then
 * every stage holds as many as the first (Qi et al., arXiv 2401.10241, section 2.2.1). */
void orr_slots_zb_h1(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    const uint32_t m = spec->micro_batches, ahead = spec->stages - 1 - stage;
    uint32_t forward = 0, weight = 0;
    while (forward < m && forward < ahead)
        orr_slot_list_add(ret, ORR_SLOT_FORWARD, 0, forward++);
    for (uint32_t input = 0; input < m; input++) {
        if (forward < m)
            orr_slot_list_add(ret, ORR_SLOT_FORWARD, 0, forward++);
        orr_slot_list_add(ret, ORR_SLOT_INPUT, 0, input);
        if (input >= stage)
            orr_slot_list_add(ret, ORR_SLOT_WEIGHT, 0, weight++);
    }
    while (weight < m)
        orr_slot_list_add(ret, ORR_SLOT_WEIGHT, 0, weight++);
}

/* One stage of a V: how many of each phase of its two chunks have been given. Micro-batches from
 * `m` on only keep the rhythm: they are counted and left out. */
typedef struct vee {
    orr_slot_list *slots;
    uint32_t m, done[2][ORR_SLOT_PHASES];
} vee;

static void next(vee *v, orr_slot_phase phase, uint32_t chunk)
{
    const uint32_t micro_batch = v->done[chunk][phase]++;
    if (micro_batch < v->m)
        orr_slot_list_add(v->slots, phase, chunk, micro_batch);
}

static void back(vee *v, uint32_t chunk)
{
    next(v, ORR_SLOT_INPUT, chunk);
    next(v, ORR_SLOT_WEIGHT, chunk);
}

/* Forwards go down through chunk 0 and up again through chunk 1, so that the stage which has the
 * loss is the first, and gradients come back at once (arXiv 2401.10241, section 6). With F = B = W
 * and 2p - 1 micro-batches or more nobody waits; with fewer, the same order without those that
 * are not there. */
void orr_slots_zb_v(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    const uint32_t p = spec->stages, m = spec->micro_batches;
    const uint32_t rounds = m > 2 * p - 1 ? m : 2 * p - 1;
    vee v = {.slots = ret, .m = m};
    for (uint32_t i = 0; i < 2 * (p - stage) - 1; i++)
        next(&v, ORR_SLOT_FORWARD, 0);
    for (uint32_t i = 0; i < stage; i++) {
        next(&v, ORR_SLOT_FORWARD, 1);
        next(&v, ORR_SLOT_FORWARD, 0);
    }
    for (uint32_t i = 0; i < p - stage; i++) {
        next(&v, ORR_SLOT_FORWARD, 1);
        back(&v, 1);
    }
    while (v.done[1][ORR_SLOT_FORWARD] < rounds) {
        if (v.done[0][ORR_SLOT_FORWARD] < rounds)
            next(&v, ORR_SLOT_FORWARD, 0);
        back(&v, 0);
        next(&v, ORR_SLOT_FORWARD, 1);
        back(&v, 1);
    }
    for (uint32_t i = 0; i < stage; i++) {
        next(&v, ORR_SLOT_INPUT, 0);
        next(&v, ORR_SLOT_INPUT, 1);
    }
    for (uint32_t i = 0; i < p - stage; i++)
        back(&v, 0);
    while (v.done[1][ORR_SLOT_WEIGHT] < rounds)
        next(&v, ORR_SLOT_WEIGHT, 1);
    while (v.done[0][ORR_SLOT_WEIGHT] < rounds)
        next(&v, ORR_SLOT_WEIGHT, 0);
}
