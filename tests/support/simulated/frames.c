/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/net/frame.h"
#include "support/simulated/network_internal.h"

/* Header and payload as they travel. false: out of memory. */
static bool fill(orr_simnet *world, orr_simnet_event *event, const orr_net_frame *frame,
                 const void *payload, bool late)
{
    event->frame = *frame;
    orr_net_frame_seal(&event->frame, payload, world->options.unhashed);
    if (!world->options.unhashed && (late || frame->payload_hash != 0))
        event->flags |= ORR_FRAME_CHECK;
    if (late) {
        event->flags |= ORR_FRAME_LATE;
        event->payload = payload;
    } else if (frame->bytes > 0) {
        void *copy = orr_buffer_pool_take(&world->pool, frame->bytes, &event->size);
        if (copy == NULL)
            return false;
        event->payload = memcpy(copy, payload, frame->bytes);
    }
    return true;
}

static void arm_drain(orr_simnet *world, orr_simnet_end *end)
{
    const orr_simnet_event drain = {.kind = ORR_SIMNET_EVENT_DRAINED,
                                    .host = end->host,
                                    .conn = orr_simnet_conn_of(world, end)};
    if (!end->drain_armed && end->user->drained != NULL)
        end->drain_armed = orr_simnet_schedule(world, end->free_ns, &drain);
}

/* Corruption takes the next frame: one bit of it, in the header or behind. */
static uint8_t break_next(orr_simnet *world, const orr_simnet_end *end, uint32_t to,
                          const orr_net_frame *frame)
{
    if (!(orr_simnet_link_faults(world, end->host, to) & ORR_SIMNET_LINK_CORRUPT))
        return 0;
    orr_simnet_link_set(world, end->host, to, ORR_SIMNET_LINK_CORRUPT, false);
    return frame->bytes > 0 && orr_random_u32(&world->random) % 2 == 0 ? ORR_FRAME_BROKEN_PAYLOAD
                                                                       : ORR_FRAME_BROKEN_HEADER;
}

void orr_simnet_send(orr_net *net, orr_conn conn, const orr_net_frame *frame, const void *payload,
                     bool keep)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    orr_simnet *world = host->world;
    orr_simnet_end *end = orr_simnet_end_of(world, conn);
    if (host->dead || end == NULL || end->state == ORR_SIMNET_CLOSED)
        return;
    assert(end->host == host->index);
    const uint32_t to = orr_simnet_peer(world, end)->host;
    orr_simnet_event event = {.kind = ORR_SIMNET_EVENT_FRAME, .host = to, .conn = conn ^ 1};
    if (world->links.n > 0) {
        end->lost |= (orr_simnet_link_faults(world, end->host, to) & ORR_SIMNET_LINK_CUT) != 0;
        event.flags = end->lost ? 0 : break_next(world, end, to, frame);
    }
    const bool late = keep && frame->bytes > 0 && end->reads_late && event.flags == 0;
    const double slowness = orr_simnet_slowdown(world, end->host, to);
    const double takes_ns =
        (double)(frame->bytes + ORR_NET_FRAME_BYTES) * world->ns_per_byte * slowness;
    const int64_t from_ns = end->free_ns > world->now_ns ? end->free_ns : world->now_ns;
    end->free_ns = from_ns + (int64_t)takes_ns;
    end->early_bytes +=
        end->state == ORR_SIMNET_CONNECTING ? frame->bytes + ORR_NET_FRAME_BYTES : 0;
    end->late += late;
    end->late_bytes += late ? frame->bytes + ORR_NET_FRAME_BYTES : 0;
    arm_drain(world, end);
    if (end->lost)
        return;
    const int64_t at_ns = end->free_ns + orr_simnet_delay_ns(world, end->host, to);
    end->arrive_ns = at_ns > end->arrive_ns ? at_ns : end->arrive_ns;
    event.handed_ns = late ? INT64_MAX : end->free_ns;
    if (!fill(world, &event, frame, payload, late) ||
        !orr_simnet_schedule(world, end->arrive_ns, &event)) {
        world->short_of_memory = end->lost = true;
        orr_simnet_event_drop(world, &event);
    }
}

size_t orr_simnet_queued(orr_net *net, orr_conn conn)
{
    const orr_simnet *world = ((orr_simnet_host *)net)->world;
    const orr_simnet_end *end = orr_simnet_end_of(world, conn);
    if (end == NULL || end->state == ORR_SIMNET_CLOSED)
        return 0;
    if (end->state == ORR_SIMNET_CONNECTING)
        return end->early_bytes;
    const int64_t left_ns = end->free_ns - world->now_ns;
    const size_t leaving = left_ns > 0 ? (size_t)((double)left_ns / world->ns_per_byte) : 0;
    return leaving > end->late_bytes ? leaving : end->late_bytes;
}

static void keep_copy(orr_simnet *world, orr_simnet_event *event, orr_conn to)
{
    if (event->kind != ORR_SIMNET_EVENT_FRAME || event->conn != to ||
        !(event->flags & ORR_FRAME_LATE))
        return;
    void *copy = orr_buffer_pool_take(&world->pool, event->frame.bytes, &event->size);
    if (copy == NULL) {
        world->short_of_memory = true;
        event->conn = 0; /* lost */
        return;
    }
    event->payload = memcpy(copy, event->payload, event->frame.bytes);
    event->flags &= (uint8_t)~ORR_FRAME_LATE;
    event->handed_ns = world->now_ns;
}

/* The connection is about to be no more, and what was sent is to arrive: memory of the sender's is
 * copied now. Rare, so the queue is searched. */
void orr_simnet_keep_copies(orr_simnet *world, const orr_simnet_end *from)
{
    const orr_conn to = orr_simnet_conn_of(world, from) ^ 1;
    const orr_simnet_host *host = orr_simnet_host_at(world, orr_simnet_peer(world, from)->host);
    orr_simnet_event *events = world->queue.events.at;
    for (size_t i = 0; i < world->queue.heap.n; i++)
        keep_copy(world, &events[orr_simnet_queue_entry_event(&world->queue.heap.at[i])], to);
    for (uint32_t i = host->waiting_first; i != ORR_SIMNET_NONE; i = events[i].next)
        keep_copy(world, &events[i], to);
}

static void drain_after(orr_simnet *world, orr_simnet_end *sender, const orr_simnet_event *event)
{
    sender->late--;
    sender->late_bytes -= event->frame.bytes + ORR_NET_FRAME_BYTES;
    if (sender->late > 0 || !sender->drain_waits || sender->state != ORR_SIMNET_OPEN)
        return;
    const orr_simnet_event drain = {
        .kind = ORR_SIMNET_EVENT_DRAINED, .host = sender->host, .conn = event->conn ^ 1};
    sender->drain_waits = false;
    sender->drain_armed = orr_simnet_schedule(
        world, world->now_ns + orr_simnet_delay_ns(world, event->host, sender->host), &drain);
}

void orr_simnet_drained(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    if (end == NULL || end->state == ORR_SIMNET_CLOSED)
        return;
    end->drain_armed = false;
    if (end->free_ns > world->now_ns)
        arm_drain(world, end);
    else if (end->state == ORR_SIMNET_CONNECTING || end->late > 0)
        end->drain_waits = true;
    else
        end->user->drained(end->user->ctx, event->conn);
}

static void refuse(orr_simnet *world, orr_conn conn)
{
    orr_simnet_end *end = orr_simnet_end_of(world, conn);
    const orr_net_callbacks *user = end->user;
    orr_simnet_disconnect(world, end, ORR_DISCONNECT_CLOSE);
    user->closed(user->ctx, conn, ORR_NET_CORRUPT);
}

/* Nobody is there any more. A machine that forgot the connection says so. */
static void arrives_at_nobody(orr_simnet *world, orr_simnet_end *end, const orr_simnet_event *event)
{
    orr_simnet_end *sender = orr_simnet_peer(world, end);
    const bool back = end->vanished && !orr_simnet_host_at(world, end->host)->dead;
    if (!back || orr_simnet_link_faults(world, end->host, sender->host) & ORR_SIMNET_LINK_CUT)
        return;
    end->vanished = false;
    orr_simnet_report_closed(world, sender,
                             world->now_ns + orr_simnet_delay_ns(world, event->host, sender->host),
                             ORR_NET_PEER_CLOSED);
}

/* Is the payload what its hash says? Kept memory that is not was changed too early. */
static bool is_whole(orr_simnet *world, const orr_simnet_event *event)
{
    if (event->flags & ORR_FRAME_BROKEN_PAYLOAD)
        return false;
    if (!(event->flags & ORR_FRAME_CHECK) ||
        orr_net_frame_payload_is_valid(&event->frame, event->payload))
        return true;
    world->changed += (event->flags & ORR_FRAME_LATE) != 0;
    return false;
}

static void deliver(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    const orr_net_callbacks *user = end->user;
    const bool own_memory = end->own_memory;
    const orr_net_frame frame = event->frame;
    const void *payload = frame.bytes > 0 ? event->payload : &frame; /* NULL says: dropped */
    void *place = user->place != NULL ? user->place(user->ctx, event->conn, &frame) : NULL;
    end = orr_simnet_end_of(world, event->conn);
    if (end == NULL || end->state != ORR_SIMNET_OPEN)
        return;
    if (place == NULL && frame.bytes > ORR_NET_BUFFER_BYTES)
        payload = NULL;
    else if (place != NULL && frame.bytes > 0 && !own_memory)
        payload = memcpy(place, payload, frame.bytes);
    if (event->flags & ORR_FRAME_BROKEN_PAYLOAD && place != NULL && !own_memory)
        ((uint8_t *)place)[frame.payload_hash % frame.bytes] ^= 1;
    if (is_whole(world, event))
        user->frame(user->ctx, event->conn, &frame, payload);
    else
        refuse(world, event->conn);
}

void orr_simnet_frame_arrives(orr_simnet *world, orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    if (end != NULL) {
        orr_simnet_end *sender = orr_simnet_peer(world, end);
        const bool handed = event->handed_ns <= sender->handed_ns;
        if (end->state != ORR_SIMNET_OPEN) {
            arrives_at_nobody(world, end, event);
        } else if (handed) {
            if (event->flags & ORR_FRAME_LATE)
                drain_after(world, sender, event);
            if (event->flags & ORR_FRAME_BROKEN_HEADER)
                refuse(world, event->conn);
            else
                deliver(world, event);
        }
    }
    orr_simnet_event_drop(world, event);
}
