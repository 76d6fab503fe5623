/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RING_HAND_H
#define TESTS_RING_HAND_H

#include <stdio.h>
#include <string.h>

#include "team/ring/ring.h"
#include "team/ring/parts.h"

/* A net by hand, for one ring: what the ring does is noted, and what it is told is up to the test.
 */
enum { HAND_NOTES = 256 };
typedef struct hand_note {
    orr_conn conn;
    orr_net_frame frame;
    const void *payload;
    bool keep;
} hand_note;

typedef struct hand_net {
    orr_net net;
    const orr_net_callbacks *user;
    orr_conn conns; /* made by the ring: 1, 2 .. */
    hand_note sent[HAND_NOTES];
    uint32_t n_sent;
    orr_conn closed[HAND_NOTES];
    uint32_t n_closed;
    size_t queued; /* what it says */
    uint32_t wakes;
    bool refuses; /* to connect */

    uint32_t reduced, broken, about; /* what the ring told */
    char why[160];
} hand_net;

static int64_t hand_now(orr_net *net)
{
    (void)net;
    return 1;
}

static orr_status hand_listen(orr_net *net, const orr_net_callbacks *user, const char *where,
                              char ret[ORR_NET_ADDRESS_BYTES], orr_error *err)
{
    ((hand_net *)net)->user = user;
    if (where == NULL)
        return orr_fail(err, ORR_INVALID, "no address");
    snprintf(ret, ORR_NET_ADDRESS_BYTES, "%s", where);
    return ORR_OK;
}

static orr_status hand_connect(orr_net *net, const orr_net_callbacks *user, const char *address,
                               orr_conn *ret, orr_error *err)
{
    hand_net *hand = (hand_net *)net;
    (void)user;
    if (hand->refuses)
        return orr_fail(err, ORR_IO, "no way to %s", address);
    *ret = ++hand->conns;
    return ORR_OK;
}

static void hand_send(orr_net *net, orr_conn conn, const orr_net_frame *frame, const void *payload,
                      bool keep)
{
    hand_net *hand = (hand_net *)net;
    if (hand->n_sent < HAND_NOTES)
        hand->sent[hand->n_sent++] = (hand_note){conn, *frame, payload, keep};
}

static size_t hand_queued(orr_net *net, orr_conn conn)
{
    (void)conn;
    return ((hand_net *)net)->queued;
}

static void hand_close(orr_net *net, orr_conn conn, bool flush)
{
    hand_net *hand = (hand_net *)net;
    (void)flush;
    if (hand->n_closed < HAND_NOTES)
        hand->closed[hand->n_closed++] = conn;
}

static void hand_wake(orr_net *net, const orr_net_callbacks *user, int64_t at_ns)
{
    (void)user, (void)at_ns;
    ((hand_net *)net)->wakes++;
}

static void hand_forget(orr_net *net, const orr_net_callbacks *user)
{
    (void)net, (void)user;
}

static void hand_reduced(void *ctx, uint32_t op)
{
    (void)op;
    ((hand_net *)ctx)->reduced++;
}

static void hand_broken(void *ctx, uint32_t member, const char *why)
{
    hand_net *hand = ctx;
    hand->broken++;
    hand->about = member;
    snprintf(hand->why, sizeof hand->why, "%s", why);
}

static inline void hand_init(hand_net *hand)
{
    *hand = (hand_net){.net = {.name = "hand",
                               .now_ns = hand_now,
                               .listen = hand_listen,
                               .connect = hand_connect,
                               .send = hand_send,
                               .queued = hand_queued,
                               .close = hand_close,
                               .wake_at = hand_wake,
                               .forget = hand_forget}};
}

static inline orr_status hand_ring(hand_net *hand, const orr_ring_options *options, orr_ring **ret)
{
    const orr_ring_callbacks user = {.ctx = hand, .reduced = hand_reduced, .broken = hand_broken};
    return orr_ring_new(&hand->net, "hand", options, NULL, &user, ret, NULL);
}

static inline orr_status hand_form(orr_ring *ring, uint64_t epoch, uint64_t step, uint32_t n,
                                   uint32_t me)
{
    const char *addresses[ORR_RING_MAX_MEMBERS];
    for (uint32_t i = 0; i < n; i++)
        addresses[i] = "neighbour";
    return orr_ring_form(ring, epoch, step, addresses, n, me, NULL);
}

/* A whole frame comes; where it was placed. `payload` NULL: what is in place. */
static inline void *hand_give(hand_net *hand, orr_conn conn, const orr_net_frame *frame,
                              const void *payload)
{
    static char room[ORR_NET_BUFFER_BYTES];
    void *place = hand->user->place(hand->user->ctx, conn, frame);
    if (payload != NULL && place != NULL)
        memcpy(place, payload, frame->bytes);
    else if (payload != NULL && frame->bytes <= sizeof room)
        memcpy(room, payload, frame->bytes);
    hand->user->frame(hand->user->ctx, conn, frame, place != NULL ? place : room);
    return place;
}

static inline void hand_hello(hand_net *hand, orr_conn conn, uint64_t epoch, uint32_t from,
                              uint16_t lane)
{
    const orr_net_frame hello = {
        .kind = ORR_RING_HELLO, .lane = lane, .epoch = epoch, .from = from};
    hand->user->accepted(hand->user->ctx, conn);
    hand->user->frame(hand->user->ctx, conn, &hello, NULL);
}

static inline bool hand_is_closed(const hand_net *hand, orr_conn conn)
{
    for (uint32_t i = 0; i < hand->n_closed; i++)
        if (hand->closed[i] == conn)
            return true;
    return false;
}

/* Frames of this kind sent to a connection. */
static inline uint32_t hand_count(const hand_net *hand, orr_conn conn, uint16_t kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < hand->n_sent; i++)
        count += hand->sent[i].conn == conn && hand->sent[i].frame.kind == kind;
    return count;
}

#endif /* TESTS_RING_HAND_H */
