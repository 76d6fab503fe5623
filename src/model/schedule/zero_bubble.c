/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

/* Zero-bubble schedules (Qi et al., arXiv 2401.10241): a backward pass is split into the input
 * gradient, which the stage before waits for, and the weight gradient, which nothing waits for
 * and which therefore fills what would be a bubble. */

/* ZB-H1: 1F1B whose weight gradients are delayed by as many micro-batches as there are stages
 * before this one; every stage then holds as many activations as the first (section 2.2.1). */
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

/* State of one stage of ZB-V: passes of each phase of its two chunks so far. The schedule is the
 * fixed order for 2p - 1 micro-batches, truncated: passes of micro-batches from `m` on are
 * counted, so that the order stays the same, and emit no slot. */
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

/* ZB-V: forwards go down the stages through chunk 0 and up again through chunk 1. The stage with
 * the loss is the first, so that gradients start there at once (section 6). With F = B = W and
 * at least 2p - 1 micro-batches there is no bubble; with fewer, slots of absent micro-batches
 * are left out of the same order. */
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
