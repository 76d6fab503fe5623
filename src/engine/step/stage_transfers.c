/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* Activation and gradient transfers between pipeline stages. Each neighbour has a lane for sends
 * and one for receives, both in the order of the sender's slots: a stage's computation waits only
 * for its own message, never for a peer to be ready, so no order of slots can deadlock. A receive
 * is posted one slot before the slot that needs it, together with all messages that come before it
 * from that sender. */

static bool sends_gradient(uint8_t phase)
{
    return phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_INPUT;
}

/* 0: to the next stage of the ring; 1: to the previous one. */
static uint8_t side_of(const orr_engine_step *step, uint32_t from, uint32_t to)
{
    return to != (from + 1) % step->plan.pp;
}

/* The message that a slot of a stage sends; false: none. */
static bool message_of(const orr_step_writer *w, uint32_t stage, const orr_schedule_slot *slot,
                       orr_step_receive *ret, uint32_t *ret_to)
{
    const orr_schedule_spec *spec = &w->step->schedule.spec;
    const uint32_t k = orr_schedule_virtual_stage_at(spec, stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (!forward && !w->trains)
        return false;
    if (forward ? k + 1 >= orr_schedule_virtual_stages(spec)
                : !sends_gradient(slot->phase) || k == 0)
        return false;
    *ret_to = orr_schedule_place(spec, forward ? k + 1 : k - 1, slot->micro_batch).stage;
    const uint8_t side = side_of(w->step, stage, *ret_to);
    *ret = (orr_step_receive){.boundary = forward ? k : k - 1,
                              .micro_batch = slot->micro_batch,
                              .back = !forward,
                              .peer = stage,
                              .value = ORR_NONE,
                              .lane = (uint8_t)(ORR_STEP_LANE_RECV + side)};
    return *ret_to != stage;
}

static uint32_t fill_messages(orr_step_writer *w, orr_step_receive *ret)
{
    const orr_schedule_plan *schedule = &w->step->schedule;
    uint32_t n = 0, to;
    for (uint32_t s = 0; s < schedule->spec.stages; s++)
        for (uint32_t i = schedule->first[s]; i < schedule->first[s + 1]; i++) {
            orr_step_receive message;
            if (!message_of(w, s, &schedule->slots[i], &message, &to) || to != w->step->stage)
                continue;
            if (ret != NULL)
                ret[n] = message;
            n++;
        }
    return n;
}

void orr_step_list_receives(orr_step_writer *w)
{
    w->n_messages = fill_messages(w, NULL);
    w->messages = orr_arena_array(w->scratch, orr_step_receive, w->n_messages);
    if (w->messages == NULL)
        orr_step_writer_fail(w, orr_fail_memory(w->err));
    else
        fill_messages(w, w->messages);
}

/* The type of the residual stream at stage boundaries. */
static const orr_type *stream_type(const orr_step_writer *w)
{
    const orr_engine_step *step = w->step;
    for (uint32_t place = 0; place < step->row.n; place++) {
        const orr_module *module = step->at_place[place];
        if (module != NULL && module->in != ORR_NONE)
            return &module->tape->values[module->in].type;
        if (module != NULL && module->out != ORR_NONE)
            return &module->tape->values[module->out].type;
    }
    return NULL;
}

static void receive(orr_step_writer *w, orr_step_receive *m)
{
    const orr_type *type = stream_type(w);
    const orr_op_args args = {
        .axis = ORR_AXIS_PP, .members = w->step->plan.pp, .count = (int64_t)m->peer + 1};
    if (!orr_step_writer_ok(w) || m->posted || type == NULL)
        return;
    m->posted = true;
    m->value = orr_step_apply(w, &(orr_step_op){.op = ORR_OP_RECV,
                                                .pass = m->back ? ORR_PASS_INPUT : ORR_PASS_FORWARD,
                                                .lane = m->lane,
                                                .args = &args,
                                                .out = type,
                                                .name = m->back ? "gradient" : "hidden"});
}

static orr_step_receive *find(const orr_step_writer *w, uint32_t boundary, bool back,
                              uint32_t micro_batch)
{
    for (uint32_t i = 0; i < w->n_messages; i++) {
        orr_step_receive *m = &w->messages[i];
        if (m->boundary == boundary && m->back == back && m->micro_batch == micro_batch)
            return m;
    }
    return NULL;
}

/* Also posts earlier messages of the same sender and direction. */
void orr_step_post_receives(orr_step_writer *w, const orr_schedule_slot *slot)
{
    const orr_schedule_spec *spec = &w->step->schedule.spec;
    const uint32_t k = orr_schedule_virtual_stage_at(spec, w->step->stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (forward ? k == 0
                : !sends_gradient(slot->phase) || k + 1 >= orr_schedule_virtual_stages(spec))
        return;
    const orr_step_receive *needed = find(w, forward ? k - 1 : k, !forward, slot->micro_batch);
    for (orr_step_receive *m = w->messages; needed != NULL && m <= needed; m++)
        if (m->lane == needed->lane && m->peer == needed->peer)
            receive(w, m);
}

orr_value orr_step_received(orr_step_writer *w, uint32_t boundary, bool back, uint32_t micro_batch)
{
    const orr_step_receive *m = find(w, boundary, back, micro_batch);
    return m != NULL ? m->value : ORR_NONE;
}

void orr_step_send(orr_step_writer *w, uint32_t boundary, bool back, orr_value value)
{
    orr_engine_step *step = w->step;
    const orr_schedule_spec *spec = &step->schedule.spec;
    const uint32_t to =
        orr_schedule_place(spec, back ? boundary : boundary + 1, w->slot.micro_batch).stage;
    if (to == step->stage || !orr_step_writer_ok(w))
        return;
    const orr_op_args args = {
        .axis = ORR_AXIS_PP, .members = step->plan.pp, .begin = (int64_t)to + 1};
    const uint8_t side = side_of(step, step->stage, to);
    const bool beside = step->plan.overlap_pp == ORR_SWITCH_ON;
    orr_step_apply(
        w, &(orr_step_op){.op = ORR_OP_SEND,
                          .pass = back ? ORR_PASS_INPUT : ORR_PASS_FORWARD,
                          .lane = (uint8_t)(beside ? ORR_STEP_LANE_SEND + side : ORR_LANE_COMPUTE),
                          .args = &args,
                          .n_in = 1,
                          .in = {value},
                          .name = back ? "gradient" : "hidden"});
}
