/* SPDX-License-Identifier: Apache-2.0 */
#include "team/ring/parts.h"

/* A member calls its right neighbour and is called by its left one. Who calls says in which epoch;
 * a neighbour may be in a later one already, and then its connections wait for form(). */

static void close_all(orr_ring *ring, orr_ring_connection *links)
{
    for (uint32_t i = 0; i < ring->options.streams; i++) {
        if (links[i].conn != 0)
            ring->net->close(ring->net, links[i].conn, false);
        links[i].conn = 0;
    }
}

void orr_ring_close_connections(orr_ring *ring, uint32_t member)
{
    if (member == ORR_RING_NONE || member == orr_ring_right(ring))
        close_all(ring, ring->right);
    if (member == ORR_RING_NONE || member == orr_ring_left(ring))
        close_all(ring, ring->left);
}

/* The other neighbour's connections stay, deaf: were they closed too, that neighbour would complain
 * of this member, which is well. The team hears of it from its coordinator. */
void orr_ring_break(orr_ring *ring, uint32_t member, const char *why)
{
    if (ring->state != ORR_RING_LIVE)
        return;
    ring->state = ORR_RING_BROKEN;
    ring->changes++;
    orr_ring_close_connections(ring, member);
    ring->user.broken(ring->user.ctx, member, why);
}

orr_status orr_ring_connect(orr_ring *ring, const char *right, orr_error *err)
{
    for (uint32_t i = 0; i < ring->options.streams; i++) {
        orr_conn conn = 0;
        ORR_TRY(ring->net->connect(ring->net, &ring->net_user, right, &conn, err));
        ring->right[i] = (orr_ring_connection){.conn = conn};
        const orr_net_frame hello = {.kind = ORR_RING_HELLO,
                                     .lane = (uint16_t)i,
                                     .epoch = ring->epoch,
                                     .step = ring->step,
                                     .from = ring->me};
        ring->net->send(ring->net, conn, &hello, NULL, false);
    }
    return ORR_OK;
}

static void drop_held(orr_ring *ring, uint32_t i)
{
    ring->n_held--;
    for (; i < ring->n_held; i++)
        ring->held[i] = ring->held[i + 1];
}

static void close_held(orr_ring *ring, uint32_t i)
{
    const orr_conn conn = ring->held[i].conn;
    drop_held(ring, i);
    ring->net->close(ring->net, conn, false);
}

static uint32_t held_of(const orr_ring *ring, orr_conn conn)
{
    for (uint32_t i = 0; i < ring->n_held; i++)
        if (ring->held[i].conn == conn)
            return i;
    return ORR_RING_NONE;
}

/* Strangers that say nothing go first. */
void orr_ring_on_accepted(void *ctx, orr_conn conn)
{
    orr_ring *ring = ctx;
    if (ring->n_held == ORR_RING_MAX_PENDING) {
        uint32_t least = 0;
        for (uint32_t i = 1; i < ring->n_held; i++)
            if (ring->held[i].epoch < ring->held[least].epoch)
                least = i;
        close_held(ring, least);
    }
    ring->held[ring->n_held++] = (orr_ring_pending){.conn = conn};
}

/* After a break they stay too, deaf. */
static bool is_lefts(const orr_ring *ring, const orr_ring_pending *held)
{
    return ring->state != ORR_RING_IDLE && ring->n > 1 && held->epoch == ring->epoch &&
           held->from == orr_ring_left(ring) && held->lane < ring->options.streams &&
           ring->left[held->lane].conn == 0;
}

void orr_ring_adopt_pending(orr_ring *ring)
{
    for (uint32_t i = 0; i < ring->n_held;) {
        const orr_ring_pending *held = &ring->held[i];
        if (is_lefts(ring, held)) {
            orr_ring_connection *link = &ring->left[held->lane];
            *link = (orr_ring_connection){.conn = held->conn, .scratch = link->scratch};
            drop_held(ring, i);
        } else if (held->epoch != 0 && held->epoch <= ring->epoch) {
            close_held(ring, i);
        } else {
            i++;
        }
    }
}

void orr_ring_on_hello(orr_ring *ring, orr_conn conn, const orr_net_frame *frame)
{
    const uint32_t i = held_of(ring, conn);
    if (i == ORR_RING_NONE)
        return;
    const bool reads = frame->kind == ORR_RING_HELLO && frame->bytes == 0 && frame->epoch != 0 &&
                       frame->from < ORR_RING_MAX_MEMBERS && ring->held[i].epoch == 0;
    if (!reads) {
        close_held(ring, i);
        return;
    }
    ring->held[i].epoch = frame->epoch;
    ring->held[i].from = (uint32_t)frame->from;
    ring->held[i].lane = frame->lane;
    orr_ring_adopt_pending(ring);
    if (ring->state == ORR_RING_LIVE)
        orr_ring_advance(ring);
}

orr_ring_connection *orr_ring_connection_of(orr_ring *ring, orr_conn conn, bool *ret_left)
{
    for (uint32_t i = 0; conn != 0 && i < ring->options.streams; i++) {
        *ret_left = ring->left[i].conn == conn;
        if (*ret_left)
            return &ring->left[i];
        if (ring->right[i].conn == conn)
            return &ring->right[i];
    }
    return NULL;
}

void orr_ring_on_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    orr_ring *ring = ctx;
    bool left;
    orr_ring_connection *link = orr_ring_connection_of(ring, conn, &left);
    const uint32_t held = held_of(ring, conn);
    if (held != ORR_RING_NONE)
        drop_held(ring, held);
    if (link == NULL)
        return;
    link->conn = 0;
    orr_ring_break(ring, left ? orr_ring_left(ring) : orr_ring_right(ring),
                   orr_net_close_reason_text(why));
}
