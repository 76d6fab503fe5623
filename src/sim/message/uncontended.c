/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/messages.h"

/* Shortcut for ring and halvingDoubling where no message can delay another: no congestion, one
 * phase, one packet in flight. What a rank does between an arrival and its next send is then
 * known at the arrival and needs no events of its own: one event a message. The times are those
 * of packets.c; a property test compares both. */

bool orr_uncontended_applies(const orr_messages *m, const orr_collective_plan *plan)
{
    return m->mode == ORR_ASTRA_UNAWARE && !m->literal && plan->n_phases == 1 &&
           plan->lines[plan->phases[0].line].dim >= 0 &&
           (plan->phases[0].algorithm == ORR_ASTRA_RING ||
            plan->phases[0].algorithm == ORR_ASTRA_HALVING_DOUBLING);
}

/* Sends packet number `packet` at `ready_ns`. */
static void send(orr_messages *m, const orr_collective_task *task, orr_chunk *c, uint32_t member,
                 uint32_t chunk, uint32_t packet, int64_t ready_ns)
{
    const orr_collective_phase *phase = &task->plan->phases[0];
    const orr_line *line = &task->plan->lines[phase->line];
    const uint32_t place = orr_line_place(line, member);
    uint32_t to =
        c->backwards ? (place == 0 ? line->n : place) - 1 : (place + 1 == line->n ? 0 : place + 1);
    int64_t ns = phase->near_ns;
    if (phase->algorithm == ORR_ASTRA_HALVING_DOUBLING) {
        to = place ^ phase->halving[packet].offset;
        ns = phase->halving[packet].ns;
    }
    c->ready_ns = ready_ns;
    c->sent = packet + 1;
    orr_bucket_queue_push(
        &m->queue, ready_ns + ns,
        (orr_message_event){orr_message_what(ORR_MESSAGE_ARRIVES, task->root->number, chunk, 0),
                            m->folded ? 0 : member + (to - place) * line->stride, packet});
}

/* Was message `index` unexpected, that is, there before its receive is posted at c->ready_ns? */
static bool take_early(orr_messages *m, const orr_collective_task *task, orr_chunk *c,
                       uint32_t member, uint32_t chunk, uint32_t index)
{
    const orr_message_event key = {
        orr_message_what(ORR_MESSAGE_ARRIVES, task->root->number, chunk, 0), member, index};
    if (c->early == 0 || !orr_unexpected_take(&m->early, key))
        return false;
    c->early--;
    return true;
}

/* Message `index` has arrived: continues as long as the next one is there too. */
static void go_on(orr_messages *m, orr_collective_task *task, orr_chunk *c, uint32_t member,
                  uint32_t chunk, uint32_t index)
{
    const orr_collective_phase *phase = &task->plan->phases[0];
    const bool halving = phase->algorithm == ORR_ASTRA_HALVING_DOUBLING;
    int64_t in_ns = m->now_ns > c->ready_ns ? m->now_ns : c->ready_ns;
    for (;; index++) {
        const uint32_t packet = index + 1;
        if (packet == phase->steps) {
            if (in_ns == m->now_ns)
                orr_packets_pack(m, task, member, chunk, packet);
            else
                orr_bucket_queue_push(&m->queue, in_ns,
                                      (orr_message_event){orr_message_what(ORR_MESSAGE_RECEIVED,
                                                                           task->number, chunk, 0),
                                                          member, index});
            return;
        }
        int64_t ready_ns = in_ns + phase->endpoint_ns;
        if (orr_phase_reduces(phase, packet))
            ready_ns += halving ? phase->halving[packet].reduce_ns : phase->reduce_ns;
        send(m, task, c, member, chunk, packet, ready_ns);
        if (__builtin_expect(!take_early(m, task, c, member, chunk, packet), 1))
            return;
        in_ns = ready_ns;
    }
}

void orr_uncontended_begin(orr_messages *m, orr_collective_task *task, uint32_t member,
                           uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    c->left = 0; /* the last bundle ends the phase */
    send(m, task, c, member, chunk, 0, m->now_ns + task->plan->phases[0].endpoint_ns);
    if (take_early(m, task, c, member, chunk, 0))
        go_on(m, task, c, member, chunk, 0);
}

void orr_uncontended_received(orr_messages *m, orr_collective_task *task, uint32_t member,
                              uint32_t chunk, uint32_t index)
{
    go_on(m, task, orr_collective_task_chunk(task, member, chunk), member, chunk, index);
}
