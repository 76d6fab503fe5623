/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <string.h>

/* Activation transfers between stages, and those of gradients back. A receive is posted early on
 * a stream of its own, in the order in which its neighbour sends: so no order of slots can
 * deadlock two stages. A blocking send delays the next computation of its stage. */

static bool gives_gradient(uint8_t phase)
{
    return phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_INPUT;
}

/* The transfer after a slot. False: the result stays on the stage. */
static bool pass_of(const orr_schedule_spec *spec, uint32_t stage, const orr_schedule_slot *slot,
                    orr_stage_transfer *ret)
{
    const uint32_t k = orr_schedule_virtual_stage_at(spec, stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (forward ? k + 1 >= orr_schedule_virtual_stages(spec)
                : !gives_gradient(slot->phase) || k == 0)
        return false;
    const uint32_t to = orr_schedule_place(spec, forward ? k + 1 : k - 1, slot->micro_batch).stage;
    *ret = (orr_stage_transfer){stage, to, forward ? k : k - 1, slot->micro_batch, !forward};
    return to != stage;
}

orr_status orr_step_stage_transfers(const orr_schedule_plan *schedule, bool trains,
                                    orr_arena *arena, orr_stage_transfers *ret, orr_error *err)
{
    const orr_schedule_spec *spec = &schedule->spec;
    const uint32_t n_turns = schedule->first[spec->stages];
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)spec->stages + 2);
    orr_stage_transfer *at = orr_arena_array(arena, orr_stage_transfer, n_turns), pass;
    if (first == NULL || at == NULL)
        return orr_fail_memory(err);
    for (int filling = 0; filling < 2; filling++) {
        for (uint32_t s = 0; s < spec->stages; s++)
            for (uint32_t i = schedule->first[s]; i < schedule->first[s + 1]; i++) {
                const orr_schedule_slot *slot = &schedule->slots[i];
                if ((!trains && slot->phase != ORR_SLOT_FORWARD) || !pass_of(spec, s, slot, &pass))
                    continue;
                if (filling)
                    at[first[pass.to + 1]++] = pass;
                else
                    first[pass.to + 2]++;
            }
        for (uint32_t s = 0; s < spec->stages && !filling; s++)
            first[s + 2] += first[s + 1];
    }
    *ret = (orr_stage_transfers){first, at};
    return ORR_OK;
}

static size_t key_of(const orr_stage_emitter *l, uint32_t boundary, bool back, uint32_t micro_batch)
{
    return ((size_t)boundary * 2 + back) * l->job->schedule->spec.micro_batches + micro_batch;
}

static orr_emitted_transfer transfer_of(const orr_stage_emitter *l, const orr_stage_transfer *pass,
                                        bool receives)
{
    const uint32_t p = l->job->schedule->spec.stages;
    const bool down = pass->to == (pass->from + 1) % p;
    const uint32_t lane = 2u * pass->back + (receives ? down : !down);
    return (orr_emitted_transfer){
        .grouping = ORR_AXIS_PP,
        .collective = receives ? ORR_COLL_RECV : ORR_COLL_SEND,
        .lane = (orr_step_lane)((receives ? ORR_STEP_RECV : ORR_STEP_SEND) + lane),
        .bytes = l->job->row->boundary_bytes,
        .price = l->job->hops[down ? pass->from : pass->to],
        .peer = (int32_t)(receives ? pass->from : pass->to),
        .ordinal = (uint32_t)key_of(l, pass->boundary, pass->back, pass->micro_batch)};
}

void orr_stage_emit_posted_receives(orr_stage_emitter *l)
{
    const orr_schedule_spec *spec = &l->job->schedule->spec;
    const orr_stage_transfers *passes = &l->job->passes;
    const size_t n = 2 * (size_t)orr_schedule_virtual_stages(spec) * spec->micro_batches;
    l->recv_of = orr_arena_array(l->scratch, orr_node_id, n);
    if (l->recv_of == NULL) {
        l->status = orr_fail_memory(l->err);
        return;
    }
    memset(l->recv_of, 0xff, n * sizeof *l->recv_of);
    for (uint32_t i = passes->first[l->stage]; i < passes->first[l->stage + 1]; i++) {
        const orr_stage_transfer *pass = &passes->at[i];
        const orr_emitted_transfer transfer = transfer_of(l, pass, true);
        l->now.micro_batch = pass->micro_batch;
        l->now.phase = pass->back ? ORR_SLOT_BACKWARD : ORR_SLOT_FORWARD;
        l->now.chunk =
            (uint16_t)orr_schedule_place(spec, pass->boundary + !pass->back, pass->micro_batch)
                .chunk;
        l->recv_of[transfer.ordinal] = orr_stage_emit_transfer(l, &transfer, ORR_NONE);
    }
}

void orr_stage_emit_receive(orr_stage_emitter *l, const orr_schedule_slot *slot)
{
    const orr_schedule_spec *spec = &l->job->schedule->spec;
    const uint32_t k = orr_schedule_virtual_stage_at(spec, l->stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (forward ? k == 0
                : !gives_gradient(slot->phase) || k + 1 >= orr_schedule_virtual_stages(spec))
        return;
    orr_stage_emit_wait(l, l->recv_of[key_of(l, forward ? k - 1 : k, !forward, slot->micro_batch)]);
}

void orr_stage_emit_send(orr_stage_emitter *l, const orr_schedule_slot *slot)
{
    orr_stage_transfer pass;
    if (!pass_of(&l->job->schedule->spec, l->stage, slot, &pass))
        return;
    const orr_emitted_transfer transfer = transfer_of(l, &pass, false);
    const orr_node_id sent = orr_stage_emit_transfer_in_order(l, &transfer);
    if (l->job->plan->overlap_pp == ORR_SWITCH_OFF)
        orr_stage_emit_wait(l, sent);
}
