/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/message/messages.h"

/* Ring, direct and halvingDoubling, packet by packet. They share one state machine: a packet is
 * made (moved through the memory, and reduced with what arrived), then sent while messages are
 * left, and a receive is posted for each message sent; each arrival makes the next packet. They
 * differ in their partners, in the number of packets in flight, and in sizes. */

static uint32_t place_add(const orr_line *line, uint32_t place, uint32_t offset)
{
    return place + offset >= line->n ? place + offset - line->n : place + offset;
}

/* Place that a packet is sent to. */
static uint32_t target(const orr_collective_phase *phase, const orr_line *line, uint32_t place,
                       uint32_t packet, bool backwards)
{
    uint32_t offset = 1;
    switch ((orr_astra_algorithm)phase->algorithm) {
    case ORR_ASTRA_DIRECT:
        offset += packet < phase->n - 1 ? packet : packet % (phase->n - 1);
        break;
    case ORR_ASTRA_HALVING_DOUBLING:
        return place ^ phase->halving[packet].offset;
    case ORR_ASTRA_RING:
    case ORR_ASTRA_DOUBLE_BINARY_TREE:
        break;
    }
    return place_add(line, place, backwards ? line->n - offset : offset);
}

/* Number of a message of direct between the one who counts forwards and the one who counts
 * backwards; its own inverse. Messages carry the number that the receiver has forwards. */
static uint32_t carried(const orr_collective_phase *phase, uint32_t index, bool backwards)
{
    if (!backwards || phase->algorithm != ORR_ASTRA_DIRECT)
        return index;
    const uint32_t peers = phase->n - 1, round = index / peers;
    return round * peers + peers - 1 - (index - round * peers);
}

/* Time of a message without congestion. Within a dimension it is known but for the hops. */
static int64_t flight_ns(const orr_messages *m, const orr_collective_plan *plan,
                         const orr_collective_phase *phase, uint32_t member, uint32_t to_member,
                         uint32_t index, int64_t bytes)
{
    const orr_astra_network *network = m->job->network;
    const orr_line *line = &plan->lines[phase->line];
    if (line->dim < 0)
        return orr_message_ns_between(network, orr_communicator_rank(plan->members, member),
                                      orr_communicator_rank(plan->members, to_member), bytes);
    if (phase->algorithm == ORR_ASTRA_HALVING_DOUBLING)
        return phase->halving[index].ns;
    if (phase->algorithm == ORR_ASTRA_RING)
        return phase->near_ns;
    const uint32_t hops = orr_hops(network->topology[line->dim], line->n,
                                   orr_line_place(line, member), orr_line_place(line, to_member));
    return (int64_t)(hops * network->latency_ns[line->dim] + phase->serial_ns);
}

void orr_packets_send(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                      uint32_t to, uint32_t index, int64_t bytes)
{
    const orr_collective_plan *plan = task->plan;
    const orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    const uint32_t number = c->phase;
    const orr_collective_phase *phase = &plan->phases[number];
    const orr_line *line = &plan->lines[phase->line];
    const uint32_t to_member = member + (to - orr_line_place(line, member)) * line->stride;
    const orr_message_event arrival = {
        orr_message_what(ORR_MESSAGE_ARRIVES, task->root->number, chunk, number),
        m->folded ? 0 : to_member, carried(phase, index, c->backwards)};
    if (m->mode == ORR_ASTRA_AWARE)
        orr_links_send(&m->links, m->now_ns, ORR_MESSAGE_HOP, ORR_MESSAGE_LINK,
                       orr_communicator_rank(plan->members, member),
                       orr_communicator_rank(plan->members, to_member), bytes, arrival);
    else
        orr_bucket_queue_push(
            &m->queue, m->now_ns + flight_ns(m, plan, phase, member, to_member, index, bytes),
            arrival);
}

void orr_packets_post_receive(orr_messages *m, orr_collective_task *task, uint32_t member,
                              uint32_t chunk, uint32_t index)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    if (__builtin_expect(c->early == 0, 1))
        return;
    const orr_message_event key = {
        orr_message_what(ORR_MESSAGE_ARRIVES, task->root->number, chunk, c->phase), member,
        carried(&task->plan->phases[c->phase], index, c->backwards)};
    if (!orr_unexpected_take(&m->early, key))
        return;
    c->early--;
    orr_bucket_queue_push(
        &m->queue, m->now_ns,
        (orr_message_event){orr_message_what(ORR_MESSAGE_RECEIVED, task->number, chunk, c->phase),
                            member, index});
}

void orr_packets_pack(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                      uint32_t index)
{
    const orr_collective_plan *plan = task->plan;
    const uint32_t phase = orr_collective_task_chunk(task, member, chunk)->phase;
    orr_messages_at(
        m, orr_communicator_rank(plan->members, member),
        m->now_ns + plan->phases[phase].endpoint_ns,
        (orr_message_event){orr_message_what(ORR_MESSAGE_BUNDLE, task->number, chunk, phase),
                            member, index});
}

static void pack_next(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    orr_packets_pack(m, task, member, chunk,
                     orr_collective_task_chunk(task, member, chunk)->packets++);
}

void orr_packets_begin(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    const orr_collective_phase *phase = &task->plan->phases[c->phase];
    c->packets = c->sent = c->received = c->free = 0;
    c->left = phase->steps;
    c->state = 1;
    if (task->relayed) {
        orr_uncontended_begin(m, task, member, chunk);
        return;
    }
    if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE) {
        orr_tree_begin(m, task, member, chunk);
        return;
    }
    for (uint32_t i = 0; i < phase->parallel; i++)
        pack_next(m, task, member, chunk);
}

/* Sends the next packet, if one is made, free, and messages are left. */
static void send_next(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                      const orr_collective_phase *phase)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    if (c->sent == c->packets || c->left == 0 || c->free == 0)
        return;
    const uint32_t packet = c->sent;
    const orr_line *line = &task->plan->lines[phase->line];
    const bool halving = phase->algorithm == ORR_ASTRA_HALVING_DOUBLING;
    c->sent++;
    c->left--;
    c->free--;
    orr_packets_send(m, task, member, chunk,
                     target(phase, line, orr_line_place(line, member), packet, c->backwards),
                     packet, halving ? phase->halving[packet].bytes : phase->bytes);
    orr_packets_post_receive(m, task, member, chunk, packet);
}

/* A bundle has passed; the original's "General" event. */
static void packed(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                   const orr_collective_phase *phase)
{
    orr_chunk *c = orr_collective_task_chunk(task, member, chunk);
    uint32_t times = 1;
    c->free++;
    /* The second half of a direct all-reduce begins when all of the first has arrived. */
    if (phase->algorithm == ORR_ASTRA_DIRECT && phase->reducing == ORR_REDUCES_EVERY_SECOND &&
        c->left <= phase->n - 1) {
        if (c->received < phase->n - 1)
            return;
        times = phase->parallel;
    }
    for (uint32_t i = 0; i < times && c->free > 0 && c->left > 0 && c->sent < c->packets; i++)
        send_next(m, task, member, chunk, phase);
    if (c->left == 0 && c->free == phase->parallel)
        orr_chunk_phase_end(m, task, member, chunk);
}

static void received(orr_messages *m, orr_collective_task *task, uint32_t member, uint32_t chunk,
                     uint32_t index, const orr_collective_phase *phase)
{
    if (task->relayed) {
        orr_uncontended_received(m, task, member, chunk, index);
        return;
    }
    if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE) {
        orr_tree_received(m, task, member, chunk, index);
        return;
    }
    orr_collective_task_chunk(task, member, chunk)->received++;
    pack_next(m, task, member, chunk);
}

void orr_packets_arrive(orr_messages *m, orr_message_event event)
{
    orr_collective_task *task = m->tasks.at[orr_what_task(event.what)];
    if (__builtin_expect(task->twin != NULL, 0))
        task = orr_collective_task_of(task, event.who);
    const uint32_t chunk = orr_what_chunk(event.what), phase = orr_what_phase(event.what);
    orr_chunk *c = orr_collective_task_chunk(task, event.who, chunk);
    const orr_collective_phase *p = &task->plan->phases[phase];
    const bool asked = c->state != 0 && c->phase == phase &&
                       (p->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE
                            ? orr_tree_has_posted(c, event.index)
                            : c->sent > carried(p, event.index, c->backwards));
    if (__builtin_expect(asked, 1)) {
        received(m, task, event.who, chunk, event.index, p);
    } else {
        c->early++;
        if (!orr_unexpected_add(&m->early, event))
            m->failed = true;
    }
}

void orr_packets_received(orr_messages *m, orr_message_event event)
{
    orr_collective_task *task = m->tasks.at[orr_what_task(event.what)];
    received(m, task, event.who, orr_what_chunk(event.what), event.index,
             &task->plan->phases[orr_what_phase(event.what)]);
}

static void go_on(orr_messages *m, orr_collective_task *task, orr_message_event event,
                  const orr_collective_phase *phase)
{
    if (phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE)
        orr_tree_packed(m, task, event.who, orr_what_chunk(event.what));
    else
        packed(m, task, event.who, orr_what_chunk(event.what), phase);
}

void orr_packets_packed(orr_messages *m, orr_message_event event)
{
    orr_collective_task *task = m->tasks.at[orr_what_task(event.what)];
    const orr_collective_phase *phase = &task->plan->phases[orr_what_phase(event.what)];
    const bool tree = phase->algorithm == ORR_ASTRA_DOUBLE_BINARY_TREE;
    if (tree ? !orr_tree_reduces(event.index) : !orr_phase_reduces(phase, event.index)) {
        go_on(m, task, event, phase);
        return;
    }
    const bool halving = phase->algorithm == ORR_ASTRA_HALVING_DOUBLING;
    event.what += (uint64_t)(ORR_MESSAGE_REDUCED - ORR_MESSAGE_BUNDLE);
    orr_messages_at(
        m, orr_communicator_rank(task->plan->members, event.who),
        m->now_ns + (halving ? phase->halving[event.index].reduce_ns : phase->reduce_ns), event);
}

void orr_packets_reduced(orr_messages *m, orr_message_event event)
{
    orr_collective_task *task = m->tasks.at[orr_what_task(event.what)];
    go_on(m, task, event, &task->plan->phases[orr_what_phase(event.what)]);
}
