/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_UNIT_SIM_WORLD_LAB_H
#define ORR_TESTS_UNIT_SIM_WORLD_LAB_H

#include <stdio.h>
#include <string.h>

#include "support/simulated/network.h"

/* Hosts that note what they are told. */
enum { LAB_NOTES = 64, LAB_BYTES = 1 << 17 };
typedef struct lab_note {
    char what; /* a: accepted, c: connected, f: frame, d: drained, x: closed, w: woken */
    orr_conn conn;
    int64_t at_ns;
    uint64_t step; /* of a frame */
    orr_net_close_reason why;
} lab_note;
typedef struct lab_host {
    orr_net *net;
    orr_net_callbacks user;
    uint32_t host;
    char address[ORR_NET_ADDRESS_BYTES];
    lab_note notes[LAB_NOTES];
    uint32_t n, frames;
    orr_conn accepted;
    bool places; /* place() gives `room` */
    bool wrong;  /* a payload was not what fill() makes */
    uint8_t room[LAB_BYTES];
    void (*on_frame)(struct lab_host *host, orr_conn conn);
} lab_host;

static void lab_fill(uint8_t *bytes, size_t n, uint64_t step)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(i * 7 + step);
}

static void lab_note_down(lab_host *host, lab_note note)
{
    note.at_ns = host->net->now_ns(host->net);
    host->notes[host->n++ % LAB_NOTES] = note;
}
static void lab_accepted(void *ctx, orr_conn conn)
{
    ((lab_host *)ctx)->accepted = conn;
    lab_note_down(ctx, (lab_note){.what = 'a', .conn = conn});
}
static void lab_connected(void *ctx, orr_conn conn)
{
    lab_note_down(ctx, (lab_note){.what = 'c', .conn = conn});
}
static void lab_drained(void *ctx, orr_conn conn)
{
    lab_note_down(ctx, (lab_note){.what = 'd', .conn = conn});
}
static void lab_closed(void *ctx, orr_conn conn, orr_net_close_reason why)
{
    lab_note_down(ctx, (lab_note){.what = 'x', .conn = conn, .why = why});
}
static void lab_woken(void *ctx)
{
    lab_note_down(ctx, (lab_note){.what = 'w'});
}
static void *lab_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    lab_host *host = ctx;
    (void)conn;
    return host->places && frame->bytes <= LAB_BYTES ? host->room : NULL;
}
static void lab_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    static uint8_t expected[LAB_BYTES];
    lab_host *host = ctx;
    lab_fill(expected, frame->bytes, frame->step);
    if (payload == NULL ? frame->bytes <= ORR_NET_BUFFER_BYTES || host->places
                        : memcmp(payload, expected, frame->bytes) != 0)
        host->wrong = true;
    host->frames++;
    lab_note_down(host, (lab_note){.what = 'f', .conn = conn, .step = frame->step});
    if (host->on_frame != NULL)
        host->on_frame(host, conn);
}

static orr_simnet *lab_world(uint64_t seed)
{
    orr_simnet *world;
    const orr_simnet_options options = {
        .seed = seed, .latency_ns = 20000, .jitter_ns = 10000, .bytes_per_s = 1e9};
    assert_int_equal(orr_simnet_new(&options, &world, NULL), ORR_OK);
    return world;
}

/* A host of the world that listens. */
static void lab_begin(orr_simnet *world, lab_host *host)
{
    memset(host, 0, sizeof *host);
    assert_int_equal(orr_simnet_add_host(world, &host->host, NULL), ORR_OK);
    host->net = orr_simnet_host_net(world, host->host);
    host->user = (orr_net_callbacks){.ctx = host,
                                     .accepted = lab_accepted,
                                     .connected = lab_connected,
                                     .place = lab_place,
                                     .frame = lab_frame,
                                     .drained = lab_drained,
                                     .closed = lab_closed,
                                     .woken = lab_woken};
    assert_int_equal(host->net->listen(host->net, &host->user, "here:0", host->address, NULL),
                     ORR_OK);
}

static orr_conn lab_connect(lab_host *from, const lab_host *to)
{
    orr_conn conn = 0;
    assert_int_equal(from->net->connect(from->net, &from->user, to->address, &conn, NULL), ORR_OK);
    assert_true(conn != 0);
    return conn;
}

/* A copy of a payload that lab_frame() knows. */
static void lab_send(lab_host *from, orr_conn conn, uint64_t step, uint32_t bytes)
{
    static uint8_t payload[LAB_BYTES];
    const orr_net_frame frame = {.kind = 1, .step = step, .bytes = bytes};
    lab_fill(payload, bytes, step);
    from->net->send(from->net, conn, &frame, payload, false);
    memset(payload, 0xee, bytes);
}

/* Two hosts with a connection between them, made and settled. */
static orr_conn lab_pair(orr_simnet *world, lab_host *a, lab_host *b)
{
    lab_begin(world, a);
    lab_begin(world, b);
    const orr_conn conn = lab_connect(a, b);
    orr_simnet_run(world, orr_simnet_now_ns(world) + 1000000);
    assert_int_equal(a->n, 1);
    assert_int_equal(a->notes[0].what, 'c');
    assert_int_equal(b->notes[0].what, 'a');
    a->n = b->n = 0;
    return conn;
}

static uint32_t lab_count(const lab_host *host, char what)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < host->n && i < LAB_NOTES; i++)
        n += host->notes[i].what == what;
    return n;
}

/* Its last note is that its connection ended, for this reason. */
static void lab_expect_closed(const lab_host *host, orr_net_close_reason why)
{
    assert_int_equal(lab_count(host, 'x'), 1);
    assert_int_equal(host->notes[host->n - 1].what, 'x');
    assert_int_equal(host->notes[host->n - 1].why, why);
}

#endif /* ORR_TESTS_UNIT_SIM_WORLD_LAB_H */
