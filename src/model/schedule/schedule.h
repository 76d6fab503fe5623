/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SCHEDULE_SCHEDULE_H
#define ORR_MODEL_SCHEDULE_SCHEDULE_H

#include <orrery/plan.h>

/* Do forward and backward slots run at once in pairs, so that the tokens of one travel to experts
 * beside the computation of the other? Megatron-Core does so, and asks for virtual stages where
 * there are stages (--overlap-moe-expert-parallel-comm); groups of fewer micro-batches than stages
 * would wait for one another. FSDP gathers the weights of one slot at a
 * time. */
static inline bool orr_plan_overlaps_slots(const orr_plan *plan)
{
    const bool one_by_one =
        plan->schedule == ORR_SCHEDULE_1F1B || plan->schedule == ORR_SCHEDULE_INTERLEAVED;
    return plan->overlap_ep == ORR_SWITCH_ON && plan->ep > 1 && plan->zero < 3 && one_by_one &&
           (plan->pp <= 1 || (plan->vp > 1 && plan->group >= plan->pp));
}

/* The schedule that a completed plan asks for. */
static inline orr_schedule_spec orr_plan_schedule(const orr_plan *plan)
{
    return (orr_schedule_spec){.schedule = plan->schedule,
                               .stages = plan->pp,
                               .chunks = plan->vp,
                               .micro_batches = plan->micro_batches,
                               .group = plan->group,
                               .overlapped = orr_plan_overlaps_slots(plan)};
}

/* Does the schedule have slots that run at once? */
static inline bool orr_schedule_has_pairs(const orr_schedule_spec *spec)
{
    return spec->schedule == ORR_SCHEDULE_DUALPIPE || spec->overlapped;
}
static inline bool orr_plan_has_pairs(const orr_plan *plan)
{
    return plan->schedule == ORR_SCHEDULE_DUALPIPE || orr_plan_overlaps_slots(plan);
}

/* Checks that the schedule exists for these numbers of stages, chunks and micro-batches. INVALID
 * with the reason. */
orr_status orr_schedule_spec_check(const orr_schedule_spec *spec, orr_error *err) ORR_MUST_CHECK;

/* The smallest group of consecutive micro-batches of a chunk with which interleaved stages do
 * not deadlock: the number of stages, or more where the last group would be smaller. Llama 3
 * runs any number of micro-batches in this way. */
uint32_t orr_schedule_smallest_group(uint32_t stages, uint32_t micro_batches);

/* Do all forwards come before all backwards, since groups are smaller than the number of stages? */
static inline bool orr_schedule_fills_at_once(const orr_schedule_spec *spec)
{
    return spec->schedule == ORR_SCHEDULE_INTERLEAVED && spec->chunks > 1 &&
           spec->group < spec->stages && spec->group < spec->micro_batches;
}

/* Virtual stages that the model is cut into: stages x chunks; with DUALPIPE `stages`. */
static inline uint32_t orr_schedule_virtual_stages(const orr_schedule_spec *spec)
{
    return spec->schedule == ORR_SCHEDULE_DUALPIPE ? spec->stages : spec->stages * spec->chunks;
}

/* The virtual stage that a chunk of a stage holds. */
static inline uint32_t orr_schedule_virtual_stage_at(const orr_schedule_spec *spec, uint32_t stage,
                                                     uint32_t chunk)
{
    const uint32_t p = spec->stages;
    if (spec->schedule == ORR_SCHEDULE_ZB_V)
        return chunk == 0 ? stage : 2 * p - 1 - stage;
    if (spec->schedule == ORR_SCHEDULE_DUALPIPE)
        return chunk == 0 ? stage : p - 1 - stage;
    return chunk * p + stage;
}

/* Stage and chunk of a virtual stage, for a given micro-batch. */
typedef struct orr_stage_chunk {
    uint32_t stage, chunk;
} orr_stage_chunk;
static inline orr_stage_chunk orr_schedule_place(const orr_schedule_spec *spec, uint32_t k,
                                                 uint32_t micro_batch)
{
    const uint32_t p = spec->stages;
    if (spec->schedule == ORR_SCHEDULE_ZB_V)
        return k < p ? (orr_stage_chunk){k, 0} : (orr_stage_chunk){2 * p - 1 - k, 1};
    if (spec->schedule == ORR_SCHEDULE_DUALPIPE)
        return micro_batch < spec->micro_batches / 2 ? (orr_stage_chunk){k, 0}
                                                     : (orr_stage_chunk){p - 1 - k, 1};
    return (orr_stage_chunk){k % p, k / p};
}

/* Slots of one stage, while they are emitted. */
typedef struct orr_slot_list {
    orr_schedule_slot *at;
    uint32_t n;
} orr_slot_list;
static inline void orr_slot_list_add(orr_slot_list *t, orr_slot_phase phase, uint32_t chunk,
                                     uint32_t micro_batch)
{
    t->at[t->n++] = (orr_schedule_slot){
        .phase = (uint8_t)phase, .chunk = (uint16_t)chunk, .micro_batch = micro_batch};
}

/* Emitters of the schedules: the slots of one stage in order. `ret` has room for all of them. */
void orr_slots_gpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_1f1b(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_interleaved(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_zb_h1(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_zb_v(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_dualpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);

#endif /* ORR_MODEL_SCHEDULE_SCHEDULE_H */
