/* SPDX-License-Identifier: Apache-2.0 */
#include "team/ring/parts.h"

/* What may be sent is decided by two numbers that the right neighbour says: below which partition
 * it has seats for what comes, so that nothing ever arrives that is not posted there; and how many
 * chunks it has taken, so that no more than `window` of them are under way. Both are told when they
 * have grown by half a window, not each time; a member never waits for the rest, since what it may
 * send then is what the other waits for.
 *
 * Over the loopback of one machine a chunk under way lies in socket memory and is read from there
 * by the same cores: three at a time stay in a cache of 1 to 2 MiB, and more only wait in memory.
 * With 4 ranks on 2 cores 8 MiB took 0.74 of the time that 8 under way took. Small
 * operations are bound by latency, and have the whole window. */
enum { NEAR_UNDER_WAY = 3, NEAR_TAKEN = 2 };

void orr_ring_reset_cursors(orr_ring *ring)
{
    ring->first = ring->granted = ring->opened = ring->open_op = 0;
    ring->done = ring->marked = ring->reduced = 0;
    ring->digest = 0;
}

static void open_seats(orr_ring *ring)
{
    while (ring->opened < ring->end && ring->opened - ring->first < ring->options.window) {
        const orr_ring_op *op = &ring->ops.at[ring->open_op];
        if (ring->opened == op->first + op->partitions) {
            ring->open_op++;
            continue;
        }
        *orr_ring_partition_of(ring, ring->opened) =
            (orr_ring_partition){.op = ring->open_op, .partition = ring->opened - op->first};
        ring->opened++;
    }
}

static void grant(orr_ring *ring)
{
    const uint32_t half = ring->options.window > 1 ? ring->options.window / 2 : 1;
    const uint32_t more = ring->opened - ring->granted;
    const uint32_t taken = ring->is_near && half > NEAR_TAKEN ? NEAR_TAKEN : half;
    const bool due = more >= half || (more > 0 && ring->opened == ring->end) ||
                     ring->taken_left - ring->acked_left >= taken;
    if (!due || ring->left[0].conn == 0)
        return;
    const orr_net_frame credit = {.kind = ORR_RING_CREDIT,
                                  .lane = ORR_RING_LEFTWARD,
                                  .epoch = ring->epoch,
                                  .step = ring->step,
                                  .partition = ring->opened,
                                  .round = ring->taken_left,
                                  .from = ring->me};
    ring->granted = ring->opened;
    ring->acked_left = ring->taken_left;
    ring->net->send(ring->net, ring->left[0].conn, &credit, NULL, false);
}

static uint32_t may_send_below(const orr_ring *ring)
{
    const uint32_t credit = ring->credit_step == ring->step ? ring->credit : 0;
    return credit < ring->opened ? credit : ring->opened;
}

/* Chunks of the operation that may be under way to the right. */
static uint32_t may_be_under_way(const orr_ring *ring, const orr_ring_op *op)
{
    const uint32_t window = ring->options.window;
    return ring->is_near && !op->both_ways && window > NEAR_UNDER_WAY ? NEAR_UNDER_WAY : window;
}

/* What is ready of one partition. */
static void send_part(orr_ring *ring, uint32_t g)
{
    orr_ring_partition *part = orr_ring_partition_of(ring, g);
    const orr_ring_op *op = &ring->ops.at[part->op];
    const uint32_t rounds = orr_ring_rounds(ring, op), back = orr_ring_leftward_rounds(ring, op);
    const uint32_t under_way = may_be_under_way(ring, op);
    while (part->sent < rounds && part->sent <= part->received &&
           ring->sent_right - ring->acked < under_way)
        orr_ring_send_round(ring, g);
    while (part->leftward_sent < back && part->received >= ring->n - 1 &&
           part->leftward_sent <= part->leftward_received)
        orr_ring_send_leftward(ring, g);
}

static bool is_complete(const orr_ring *ring, const orr_ring_partition *part)
{
    const orr_ring_op *op = &ring->ops.at[part->op];
    const uint32_t rounds = orr_ring_rounds(ring, op), back = orr_ring_leftward_rounds(ring, op);
    return part->received == rounds && part->sent == rounds && part->leftward_received == back &&
           part->leftward_sent == back;
}

/* The oldest first: what others wait for longest. */
static void send_all(orr_ring *ring)
{
    const uint32_t below = may_send_below(ring);
    for (uint32_t g = ring->first; g < below; g++)
        send_part(ring, g);
}

void orr_ring_complete(orr_ring *ring)
{
    while (ring->done < ring->ops.n) {
        const orr_ring_op *op = &ring->ops.at[ring->done];
        if (ring->first < op->first + op->partitions)
            return;
        ring->done++;
    }
}

/* True: there are seats again. */
static bool free_seats(orr_ring *ring)
{
    const uint32_t first = ring->first;
    while (ring->first < ring->opened &&
           is_complete(ring, orr_ring_partition_of(ring, ring->first)))
        ring->first++;
    orr_ring_complete(ring);
    return ring->first != first;
}

void orr_ring_advance(orr_ring *ring)
{
    if (ring->n == 1)
        return;
    do {
        open_seats(ring);
        send_all(ring);
    } while (free_seats(ring));
    grant(ring);
}

void orr_ring_on_chunk(orr_ring *ring, uint32_t g)
{
    if (g < may_send_below(ring))
        send_part(ring, g);
    if (free_seats(ring))
        orr_ring_advance(ring);
    else
        grant(ring);
}

const char *orr_ring_on_credit(orr_ring *ring, const orr_net_frame *frame)
{
    const uint32_t taken = frame->round - ring->acked;
    if (frame->bytes != 0 || taken > ring->sent_right - ring->acked)
        return "it says that it has taken what was not sent";
    if (frame->step < ring->credit_step ||
        (frame->step == ring->credit_step && frame->partition < ring->credit))
        return "it takes back what it granted";
    ring->acked = frame->round;
    ring->credit_step = frame->step;
    ring->credit = frame->partition;
    orr_ring_advance(ring);
    return NULL;
}

/* A mark is set behind what was sent when the operations below `marked` were complete: under a
 * steady stream a queue may never be empty. */
static void set_mark(orr_ring *ring)
{
    ring->marked = ring->done;
    for (uint32_t i = 0; i < ring->options.streams; i++) {
        ring->right[i].mark = ring->right[i].sent;
        ring->left[i].mark = ring->left[i].sent;
    }
}

/* What is queued may count headers too: then it is only more careful. */
static bool is_past_mark(const orr_ring *ring, const orr_ring_connection *link)
{
    return link->conn == 0 || link->mark == 0 ||
           link->mark + ring->net->queued(ring->net, link->conn) <= link->sent;
}

static bool is_handed_over(const orr_ring *ring)
{
    for (uint32_t i = 0; i < ring->options.streams; i++)
        if (!is_past_mark(ring, &ring->right[i]) || !is_past_mark(ring, &ring->left[i]))
            return false;
    return true;
}

void orr_ring_report_reduced(orr_ring *ring)
{
    const uint64_t changes = ring->changes;
    while (ring->changes == changes && ring->reduced < ring->done) {
        if (ring->marked == ring->reduced)
            set_mark(ring);
        if (!is_handed_over(ring))
            return;
        const uint32_t op = ring->reduced++;
        ring->user.reduced(ring->user.ctx, op);
    }
}
