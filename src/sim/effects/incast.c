/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/effects/incast.h"

#include <math.h>

#include "base/alloc.h"

static const double PACKET_BYTES = 4096;
static const uint64_t MOST_PACKETS = 1 << 22;

/* State of a sender. Packets are numbered by sender, from 0. */
typedef struct sender {
    uint32_t next;    /* next packet to send */
    uint32_t reached; /* highest packet ever sent, plus one */
    uint32_t acked;   /* all packets below are acknowledged */
    uint32_t wanted;  /* packet that the receiver expects */
    uint32_t credits;
    bool reported;    /* the gap has been reported */
    int64_t heard_at; /* slot of the last feedback */
} sender;

typedef struct packet {
    uint32_t from, number;
} packet;

/* Feedback to a sender that arrives a fixed number of slots later: a list for each slot of a
 * ring. */
typedef struct news {
    uint32_t ack, back; /* back: go back to packet `ack` */
    uint32_t credits;
} news;

typedef struct port {
    const orr_incast_job *job;
    uint32_t n, packets, window, room, stop_at, round_trip, way, hop;
    sender *senders;
    uint32_t *arriving; /* shape (hop + 1, n): packet number + 1; 0: none */
    news *returning;    /* shape (way + 1, n) */
    packet *queue;      /* ring buffer of `room` */
    uint32_t head, queued;
    bool *stops; /* shape (hop + 1): pause state as senders hear it */
    bool stopped;
    uint32_t unused_credits, turn;
    uint64_t sum, busy, paused;
    orr_incast ret;
} port;

static double slots_of(const orr_incast_job *job, double ns)
{
    return fmax(1, round(ns * job->bytes_per_s * 1e-9 / PACKET_BYTES));
}

static uint32_t packets_of(double bytes, uint64_t most)
{
    return (uint32_t)fmax(1, fmin(ceil(bytes / PACKET_BYTES), (double)most));
}

static orr_status set_up(port *p, orr_error *err)
{
    const orr_incast_job *job = p->job;
    const double all = (double)job->senders * ceil(job->sender_bytes / PACKET_BYTES);
    if (job->senders == 0 || !(job->sender_bytes > 0) || !(job->bytes_per_s > 0) ||
        job->hop_ns < 0 || job->round_trip_ns < job->hop_ns)
        return orr_fail(err, ORR_INVALID, "incast: nobody sends, or over nothing");
    if (!(fmax(all, slots_of(job, (double)job->round_trip_ns)) <= (double)MOST_PACKETS))
        return orr_fail(err, ORR_LIMIT, "incast: over 2^22 packets");
    p->n = job->senders;
    p->packets = packets_of(job->sender_bytes, MOST_PACKETS);
    p->window = job->window_bytes > 0 ? packets_of(job->window_bytes, MOST_PACKETS) : p->packets;
    p->room = packets_of(job->buffer_bytes, (uint64_t)all);
    p->hop = (uint32_t)slots_of(job, (double)job->hop_ns);
    p->way = (uint32_t)slots_of(job, (double)(job->round_trip_ns - job->hop_ns));
    p->round_trip = p->hop + p->way;
    const uint64_t until_heard = (uint64_t)p->n * (2 * p->hop + 1);
    p->stop_at = until_heard < p->room ? p->room - (uint32_t)until_heard : 0;
    p->senders = orr_calloc(p->n, sizeof *p->senders);
    p->arriving = orr_calloc((size_t)(p->hop + 1) * p->n, sizeof *p->arriving);
    p->returning = orr_calloc((size_t)(p->way + 1) * p->n, sizeof *p->returning);
    p->queue = orr_calloc(p->room, sizeof *p->queue);
    p->stops = orr_calloc(p->hop + 1, sizeof *p->stops);
    if (p->senders == NULL || p->arriving == NULL || p->returning == NULL || p->queue == NULL ||
        p->stops == NULL)
        return orr_fail_memory(err);
    return ORR_OK;
}

static void tear_down(port *p)
{
    orr_free(p->senders);
    orr_free(p->arriving);
    orr_free(p->returning);
    orr_free(p->queue);
    orr_free(p->stops);
}

/* Feedback that reaches the senders in this slot; its place is then free for the slot `way`
 * later. */
static void hear(port *p, int64_t now)
{
    news *all = p->returning + (size_t)(now % (p->way + 1)) * p->n;
    for (uint32_t i = 0; i < p->n; i++) {
        sender *s = &p->senders[i];
        s->credits += all[i].credits;
        if (all[i].ack > s->acked) {
            s->acked = all[i].ack;
            s->heard_at = now;
        }
        if (all[i].back > 0) {
            s->next = s->acked;
            s->heard_at = now;
        }
        all[i] = (news){0};
    }
}

static void send_all(port *p, int64_t now)
{
    uint32_t *arriving = p->arriving + (size_t)((now + p->hop) % (p->hop + 1)) * p->n;
    const bool credits = p->job->credits;
    const bool stopped = p->stops[now % (p->hop + 1)];
    p->paused += stopped;
    for (uint32_t i = 0; i < p->n; i++) {
        sender *s = &p->senders[i];
        arriving[i] = 0;
        if (s->acked < s->next && now - s->heard_at > 4 * (int64_t)p->round_trip + p->room) {
            s->next = s->acked;
            s->heard_at = now;
        }
        if (s->next == p->packets || s->next - s->acked >= p->window || stopped ||
            (credits && s->credits == 0))
            continue;
        p->ret.resent += s->next < s->reached;
        s->credits -= credits;
        arriving[i] = ++s->next;
        s->reached = s->next > s->reached ? s->next : s->reached;
    }
}

/* Arrivals at the port. The buffer may fill in the middle of a slot, so the order of senders
 * rotates from slot to slot. */
static void arrive(port *p, int64_t now)
{
    const uint32_t *arriving = p->arriving + (size_t)(now % (p->hop + 1)) * p->n;
    for (uint32_t k = 0; k < p->n; k++) {
        const uint32_t i = (uint32_t)((now + k) % p->n);
        if (arriving[i] == 0)
            continue;
        if (p->queued == p->room) {
            p->ret.lost++;
            continue;
        }
        p->queue[(p->head + p->queued++) % p->room] = (packet){i, arriving[i] - 1};
    }
    if (p->queued * PACKET_BYTES > p->ret.peak_bytes)
        p->ret.peak_bytes = p->queued * PACKET_BYTES;
}

/* Moves one packet through the port to the receiver. */
static void pass(port *p, int64_t now)
{
    if (p->queued == 0)
        return;
    p->sum += p->queued;
    p->busy++;
    const packet one = p->queue[p->head];
    news *back = p->returning + (size_t)((now + p->way) % (p->way + 1)) * p->n + one.from;
    sender *s = &p->senders[one.from];
    p->head = (p->head + 1) % p->room;
    p->queued--;
    if (one.number == s->wanted) {
        s->wanted++;
        s->reported = false;
    } else if (one.number > s->wanted && !s->reported) {
        s->reported = true;
        back->back = 1;
    }
    back->ack = s->wanted;
    p->unused_credits -= p->unused_credits > 0;
}

static void tell_to_stop(port *p, int64_t now)
{
    if (!p->job->pauses)
        return;
    if (!p->stopped && p->queued > p->stop_at) {
        p->stopped = true;
        p->ret.pauses++;
    } else if (p->stopped && p->queued <= p->stop_at / 2) {
        p->stopped = false;
    }
    p->stops[(now + p->hop) % (p->hop + 1)] = p->stopped;
}

/* The receiver's credit of this slot goes to the next sender in turn that has data left. */
static void give_credit(port *p, int64_t now)
{
    if (!p->job->credits || p->unused_credits > p->round_trip)
        return;
    for (uint32_t tried = 0; tried < p->n; tried++) {
        const uint32_t i = p->turn++ % p->n;
        if (p->senders[i].wanted == p->packets)
            continue;
        p->returning[(size_t)((now + p->way) % (p->way + 1)) * p->n + i].credits++;
        p->unused_credits++;
        return;
    }
}

static bool is_done(const port *p)
{
    for (uint32_t i = 0; i < p->n; i++)
        if (p->senders[i].acked < p->packets)
            return false;
    return true;
}

orr_status orr_incast_simulate(const orr_incast_job *job, orr_incast *ret, orr_error *err)
{
    port p = {.job = job};
    int64_t now = 0, most = 0;
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, set_up(&p, err));
    most = 64 * ((int64_t)p.n * p.packets + 8 * (int64_t)p.round_trip);
    for (; !is_done(&p) && now < most; now++) {
        hear(&p, now);
        send_all(&p, now);
        arrive(&p, now);
        pass(&p, now);
        tell_to_stop(&p, now);
        give_credit(&p, now);
    }
    if (now == most) {
        status =
            orr_fail(err, ORR_LIMIT, "incast: not done after %lld packets' time", (long long)most);
        goto out;
    }
    p.ret.ns = (int64_t)((double)now * PACKET_BYTES * 1e9 / job->bytes_per_s);
    p.ret.goodput_frac = (double)p.n * p.packets / (double)now;
    p.ret.mean_bytes = (double)p.sum * PACKET_BYTES / (double)p.busy;
    p.ret.paused_frac = (double)p.paused / (double)now;
    *ret = p.ret;
out:
    tear_down(&p);
    return status;
}
