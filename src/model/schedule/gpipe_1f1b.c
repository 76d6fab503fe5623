/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

/* Schedules in which a backward pass is one slot: GPipe, 1F1B and interleaved 1F1B. */

void orr_slots_gpipe(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    (void)stage;
    for (uint32_t i = 0; i < spec->micro_batches; i++)
        orr_slot_list_add(ret, ORR_SLOT_FORWARD, 0, i);
    for (uint32_t i = 0; i < spec->micro_batches; i++)
        orr_slot_list_add(ret, ORR_SLOT_BACKWARD, 0, i);
}

/* The n-th pass over all chunks and micro-batches: `group` micro-batches of one chunk, as many
 * of the next chunk, ..., then the next `group`. */
typedef struct pass {
    uint32_t chunk, micro_batch;
} pass;

static pass pass_at(const orr_schedule_spec *spec, uint32_t i)
{
    const uint32_t of_group = spec->group * spec->chunks, first = i / of_group * spec->group;
    const uint32_t left = spec->micro_batches - first;
    const uint32_t size = left < spec->group ? left : spec->group;
    const uint32_t within = i % of_group;
    return (pass){within / size, first + within % size};
}

static void add_forward(const orr_schedule_spec *spec, uint32_t i, orr_slot_list *ret)
{
    const pass at = pass_at(spec, i);
    orr_slot_list_add(ret, ORR_SLOT_FORWARD, at.chunk, at.micro_batch);
}

static void add_backward(const orr_schedule_spec *spec, uint32_t i, orr_slot_list *ret)
{
    const pass at = pass_at(spec, i);
    orr_slot_list_add(ret, ORR_SLOT_BACKWARD, spec->chunks - 1 - at.chunk, at.micro_batch);
}

/* Warm-up phase of `ahead` forwards, steady state of one forward and one backward alternately,
 * cool-down of the remaining backwards. Overlapped, the two run at once: the forward is that of
 * another micro-batch, so the warm-up is one forward longer (Megatron-Core, schedules.py,
 * get_pp_rank_microbatches()). */
static void one_by_one(const orr_schedule_spec *spec, uint64_t ahead, orr_slot_list *ret)
{
    const uint32_t n = spec->micro_batches * spec->chunks;
    uint32_t forward = 0;
    ahead += spec->overlapped;
    while (forward < n && forward < ahead)
        add_forward(spec, forward++, ret);
    for (uint32_t backward = 0; backward < n; backward++) {
        if (forward < n) {
            add_forward(spec, forward++, ret);
            ret->at[ret->n - 1].paired = spec->overlapped;
        }
        add_backward(spec, backward, ret);
    }
}

void orr_slots_1f1b(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    orr_schedule_spec one = *spec;
    one.chunks = one.group = 1;
    one_by_one(&one, spec->stages - 1 - stage, ret);
}

/* Length of the warm-up phase as in Megatron-LM: all chunks but the last of a first group of
 * micro-batches, and two slots for each stage behind this one, which is how long the first
 * gradient takes to come back. With a group smaller than the number of stages a chunk would wait
 * for a slot behind it, so all forwards come before all backwards, as in Llama 3. */
void orr_slots_interleaved(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret)
{
    if (spec->chunks == 1) {
        orr_slots_1f1b(spec, stage, ret);
        return;
    }
    const uint64_t ahead =
        orr_schedule_fills_at_once(spec)
            ? UINT64_MAX
            : 2 * (uint64_t)(spec->stages - 1 - stage) + (uint64_t)(spec->chunks - 1) * spec->group;
    one_by_one(spec, ahead, ret);
}
