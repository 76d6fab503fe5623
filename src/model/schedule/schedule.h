/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SCHEDULE_SCHEDULE_H
#define ORR_MODEL_SCHEDULE_SCHEDULE_H

#include <orrery/plan.h>

/* The schedule of a completed plan. */
static inline orr_schedule_spec orr_plan_schedule(const orr_plan *plan)
{
    return (orr_schedule_spec){.schedule = plan->schedule,
                               .stages = plan->pp,
                               .chunks = plan->vp,
                               .micro_batches = plan->micro_batches,
                               .group = plan->group};
}

/* Numbers that the schedule goes with. INVALID with the reason. */
orr_status orr_schedule_spec_check(const orr_schedule_spec *spec, orr_error *err) ORR_MUST_CHECK;

/* The least number of micro-batches in a row that interleaved stages can have: as many as there are
 * stages, unless that leaves fewer for the last. Llama 3 runs any number of micro-batches so. */
uint32_t orr_schedule_smallest_group(uint32_t stages, uint32_t micro_batches);

/* Virtual stages that the model is cut into: stages x chunks, but of DUALPIPE `stages`. */
static inline uint32_t orr_schedule_virtual_stages(const orr_schedule_spec *spec)
{
    return spec->schedule == ORR_SCHEDULE_DUALPIPE ? spec->stages : spec->stages * spec->chunks;
}

/* Virtual stage that a chunk of a stage is. */
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

/* Where virtual stage k is of a micro-batch. */
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

/* Turns of one stage in the making. */
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

/* The order of one stage, into room for all of its slots. */
void orr_slots_gpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_1f1b(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_interleaved(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_zb_h1(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_zb_v(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
void orr_slots_dualpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);

#endif /* ORR_MODEL_SCHEDULE_SCHEDULE_H */
