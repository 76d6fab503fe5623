/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_RING_PARTS_H
#define ORR_TEAM_RING_PARTS_H

#include "base/array.h"
#include "team/ring/ring.h"

/* Private to team/ring: cursors, rounds, and the argument why nothing queued is overwritten.
 *
 * Partitions of all operations of a step are numbered through, g; g goes on stream g mod streams.
 * Cursors over them:
 *
 *   0 ...... first ......... granted ......... opened ......... end
 *   complete | in flight, sent or received    | not opened      | not posted
 *
 *   first     lowest that is not complete: all received, all sent
 *   granted   the left neighbour may send for those below (credits)
 *   opened    those in [first, opened) have an orr_ring_partition; at most `window` of them
 *   end       posted
 *
 * In a partition, round t of 2(N-1) sends shard me - t to the right and receives shard me - 1 - t
 * from the left, modulo N: rounds below N-1 are reduce-scatter, the others all-gather. Round t may
 * be sent when round t-1 has been received. For N = 3, with aK the input of member K in shard a:
 *
 *   round              member 0 sends   member 1 sends   member 2 sends
 *   0 reduce-scatter   a0               b1               c2
 *   1 reduce-scatter   c2+c0            a0+a1            b1+b2
 *   2 all-gather       b1+b2+b0         c2+c0+c1         a0+a1+a2
 *   3 all-gather       a (sum)          b (sum)          c (sum)
 *
 * so the sum of a shard begins at its own member. In the all-gather of small operations, which goes
 * both ways, ceil((N-1)/2) rounds go to the right and floor((N-1)/2) leftward: leftward round t
 * sends shard me + 1 + t, and receives shard me + 2 + t from the right.
 *
 * Why nothing that is still queued from `out` is ever overwritten in an attempt: a shard is written
 * twice. First as a partial sum, before it is sent (round 0 sends from `in`, or zeros put there
 * first). Then with the final one, which its owner made from what the right neighbour got from
 * here: so the whole of the partial sum has left this member's memory. What is final is sent on,
 * and not written again. A neighbour that violates the protocol is found out by the rounds it must
 * keep to, or sends sums that differ and so another digest.
 *
 * Sums of 16-bit numbers travel as fp32 from places of their own (`partials`). The place of a shard
 * is taken again by the partition a window later, when this one is complete: so final, and gone. */
enum {
    /* kinds of frames */
    ORR_RING_HELLO = 0x80, /* the first on a connection: epoch, from, lane */
    ORR_RING_CREDIT, /* to the left: partition: `granted`; round: chunks taken in the attempt */
    ORR_RING_CHUNK,
    /* lane: the stream, and this towards the left neighbour */
    ORR_RING_LEFTWARD = 0x100,
    ORR_RING_MAX_PENDING = 32, /* connections not yet of this epoch, at most */
    ORR_RING_MAX_STREAMS = 16
};

/* The connection of one stream to a neighbour. */
typedef struct orr_ring_connection {
    orr_conn conn; /* 0: none                                      */
    uint64_t sent; /* bytes of payloads kept                       */
    uint64_t mark; /* of `sent`, that is to be handed over         */
    void *scratch; /* of the left: chunk_bytes, when they are large */
} orr_ring_connection;

/* An accepted connection whose caller is not known, or not of this epoch yet. */
typedef struct orr_ring_pending {
    orr_conn conn;
    uint64_t epoch; /* 0: it has not said */
    uint32_t from;
    uint16_t lane;
} orr_ring_pending;

typedef struct orr_ring_op {
    const char *in;
    char *out;
    size_t n;
    orr_team_dtype dtype;
    bool both_ways;             /* its all-gather             */
    uint32_t first, partitions; /* its first, of the step's   */
} orr_ring_op;

/* A partition in flight: how many rounds of it are received and sent, rightward and leftward. */
typedef struct orr_ring_partition {
    uint32_t op, partition; /* of the operation */
    uint16_t received, sent;
    uint16_t leftward_received, leftward_sent;
} orr_ring_partition;

typedef enum orr_ring_state {
    ORR_RING_IDLE, /* in no epoch */
    ORR_RING_LIVE,
    ORR_RING_BROKEN /* frames are dropped and nothing is sent, until the next epoch */
} orr_ring_state;

static const uint32_t ORR_RING_NONE = UINT32_MAX; /* no member, no operation */

struct orr_ring {
    orr_net *net;
    orr_net_callbacks net_user;
    orr_ring_options options;
    orr_ring_reducer reducer;
    orr_ring_callbacks user;
    char address[ORR_NET_ADDRESS_BYTES];

    /* the team */
    orr_ring_state state;
    uint64_t changes; /* of what is under way: a callback may have made one */
    uint64_t epoch, step;
    uint32_t n, me;
    bool is_near;                      /* all members talk over the loopback of one machine */
    orr_ring_connection *right, *left; /* shape (streams): made here, and accepted */
    orr_ring_pending held[ORR_RING_MAX_PENDING]; /* the oldest first */
    uint32_t n_held;

    /* the step */
    orr_array(orr_ring_op) ops;
    orr_ring_partition *parts; /* shape (window): g is at g mod window */
    uint64_t *hashes;          /* of final chunks: shape (window, n)   */
    char *partials; /* fp32 sums of narrow numbers, on their way: shape (window, n, chunk_bytes) */
    uint32_t first, granted, opened, end;
    uint32_t open_op; /* of `opened` */
    /* Operations: those below `reduced` are told of, those below `done` are complete; for those
     * below `marked` it is known behind what they must wait until it is handed over. */
    uint32_t reduced, marked, done;
    uint64_t digest;

    /* the attempt */
    uint64_t credit_step;
    uint32_t credit; /* partitions of credit_step that the right neighbour has granted  */
    uint32_t acked,
        acked_left; /* chunks: taken, as the right neighbour said and as the left was told */
    uint64_t sent, received;         /* frames of chunks */
    uint32_t sent_right, taken_left; /* of them, what flow control counts */
};

/* partition.c: cutting operations into partitions and shards. */
typedef struct orr_ring_shard {
    size_t at, bytes; /* in `in` and `out` */
    size_t n;         /* numbers           */
} orr_ring_shard;
static inline bool orr_ring_is_narrow(orr_team_dtype dtype)
{
    return dtype == ORR_TEAM_BF16 || dtype == ORR_TEAM_FP16;
}
/* Of a number's sum on its way. */
static inline size_t orr_ring_sum_bytes(orr_team_dtype dtype)
{
    return dtype == ORR_TEAM_FP64 ? 8 : 4;
}
/* Partitions of all that is posted, numbered from 0. LIMIT: more than 32 bits. */
orr_status orr_ring_partition_all(orr_ring *ring, orr_error *err) ORR_MUST_CHECK;
orr_status orr_ring_partition_op(orr_ring *ring, orr_ring_op *op, orr_error *err) ORR_MUST_CHECK;
orr_ring_shard orr_ring_shard_of(const orr_ring *ring, const orr_ring_op *op, uint32_t partition,
                                 uint32_t shard);

/* connections.c: both neighbours, and those who have not said which they are. */
void orr_ring_close_connections(orr_ring *ring, uint32_t member); /* NONE: of all */
orr_status orr_ring_connect(orr_ring *ring, const char *right, orr_error *err) ORR_MUST_CHECK;
void orr_ring_adopt_pending(
    orr_ring *ring); /* those held, that are the left neighbour's of this epoch */
void orr_ring_on_accepted(void *ctx, orr_conn conn);
void orr_ring_on_closed(void *ctx, orr_conn conn, orr_net_close_reason why);
/* On a connection that is no neighbour's yet. */
void orr_ring_on_hello(orr_ring *ring, orr_conn conn, const orr_net_frame *frame);
/* NULL: no neighbour's. */
orr_ring_connection *orr_ring_connection_of(orr_ring *ring, orr_conn conn, bool *ret_left);
/* Ends the attempt and calls broken(); nothing may be done after it. */
void orr_ring_break(orr_ring *ring, uint32_t member, const char *why);
static inline uint32_t orr_ring_right(const orr_ring *ring)
{
    return (ring->me + 1) % ring->n;
}
static inline uint32_t orr_ring_left(const orr_ring *ring)
{
    return (ring->me + ring->n - 1) % ring->n;
}

/* flow_control.c: what may be sent when, and what is complete. */
void orr_ring_advance(orr_ring *ring);       /* after a post or a change: opens, grants, sends */
void orr_ring_reset_cursors(orr_ring *ring); /* all cursors at the beginning                   */
const char *orr_ring_on_credit(orr_ring *ring,
                               const orr_net_frame *frame); /* NULL, or what is wrong with it */
void orr_ring_on_chunk(orr_ring *ring, uint32_t g);         /* a chunk of this partition */
void orr_ring_complete(orr_ring *ring); /* moves `done`, when `first` has moved */
void orr_ring_report_reduced(
    orr_ring *ring); /* reduced(), of what is handed over; nothing may be done after it */

/* rounds.c: sending and receiving chunks. */
void *orr_ring_place(void *ctx, orr_conn conn, const orr_net_frame *frame);
void orr_ring_on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload);
void orr_ring_send_round(orr_ring *ring, uint32_t g); /* to the right, the next one */
void orr_ring_send_leftward(orr_ring *ring, uint32_t g);
void orr_ring_run_alone(orr_ring *ring); /* a ring of one */
static inline orr_ring_partition *orr_ring_partition_of(const orr_ring *ring, uint32_t g)
{
    return &ring->parts[g % ring->options.window];
}
static inline uint64_t *orr_ring_hash_of(const orr_ring *ring, uint32_t g, uint32_t shard)
{
    return &ring->hashes[(size_t)(g % ring->options.window) * ring->n + shard];
}
/* How many rounds there are. */
static inline uint32_t orr_ring_rounds(const orr_ring *ring, const orr_ring_op *op)
{
    const uint32_t hops = ring->n - 1;
    return hops + (op->both_ways ? (hops + 1) / 2 : hops);
}
/* True: what travels rightward in this round are fp32 sums of narrow numbers: neither input nor
 * final. */
static inline bool orr_ring_is_partial(const orr_ring *ring, const orr_ring_op *op, uint32_t round)
{
    return orr_ring_is_narrow(op->dtype) && round > 0 && round + 1 < ring->n;
}
static inline char *orr_ring_partial_of(const orr_ring *ring, uint32_t g, uint32_t shard)
{
    const size_t slot = (size_t)(g % ring->options.window) * ring->n + shard;
    return ring->partials + slot * ring->options.chunk_bytes;
}
static inline uint32_t orr_ring_leftward_rounds(const orr_ring *ring, const orr_ring_op *op)
{
    return op->both_ways ? (ring->n - 1) / 2 : 0;
}

#endif /* ORR_TEAM_RING_PARTS_H */
