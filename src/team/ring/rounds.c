/* SPDX-License-Identifier: Apache-2.0 */
#include <xxhash.h>

#include "io/net/frame.h"
#include "team/ring/parts.h"

/* Chunks that come and go. All that is derived is derived from what this member expects; what a
 * frame says is only held against it. */

/* Each chunk of what is gathered has its part in the digest, wherever it was made and in whatever
 * order it came. */
static uint64_t digest(uint32_t op, uint32_t partition, uint32_t shard, uint64_t hash)
{
    const uint64_t chunk[3] = {hash, (uint64_t)op << 32 | partition, shard};
    return XXH3_64bits(chunk, sizeof chunk);
}

/* The first round sends from `in`; without it, from zeros that are put where nothing is until the
 * very last. */
static const char *input_of(const orr_ring *ring, const orr_ring_op *op,
                            const orr_ring_shard *shard)
{
    if (op->in != NULL)
        return op->in + shard->at;
    ring->reducer.add(ring->reducer.ctx, op->dtype, op->out + shard->at, NULL, NULL, shard->n);
    return op->out + shard->at;
}

/* A shard of g in its round, to the left or to the right, from memory that stays. A forwarded one
 * keeps the hash of who made it; of an empty one nets have their own. */
static void send(orr_ring *ring, uint32_t g, bool left, uint32_t round, uint32_t number)
{
    const orr_ring_partition *part = orr_ring_partition_of(ring, g);
    const orr_ring_op *op = &ring->ops.at[part->op];
    const orr_ring_shard shard = orr_ring_shard_of(ring, op, part->partition, number);
    const uint32_t stream = g % ring->options.streams;
    orr_ring_connection *link = left ? &ring->left[stream] : &ring->right[stream];
    const bool is_input = !left && round == 0, is_final = left || round + 1 >= ring->n;
    const bool is_partial = !left && orr_ring_is_partial(ring, op, round);
    const size_t bytes = is_partial ? shard.n * sizeof(float) : shard.bytes;
    const void *payload = is_input     ? input_of(ring, op, &shard)
                          : is_partial ? orr_ring_partial_of(ring, g, number)
                                       : op->out + shard.at;
    const orr_net_frame frame = {
        .kind = ORR_RING_CHUNK,
        .lane = (uint16_t)(stream | (left ? ORR_RING_LEFTWARD : 0)),
        .epoch = ring->epoch,
        .step = ring->step,
        .op = part->op,
        .partition = part->partition,
        .chunk = number,
        .round = round,
        .bytes = (uint32_t)bytes,
        .payload_hash = is_final && shard.n > 0 ? *orr_ring_hash_of(ring, g, number) : 0,
        .from = ring->me};
    link->sent += bytes;
    ring->sent++;
    ring->net->send(ring->net, link->conn, &frame, payload, true);
}

void orr_ring_send_round(orr_ring *ring, uint32_t g)
{
    const uint32_t round = orr_ring_partition_of(ring, g)->sent++;
    ring->sent_right++;
    send(ring, g, false, round, (ring->me + 2 * ring->n - round) % ring->n);
}

void orr_ring_send_leftward(orr_ring *ring, uint32_t g)
{
    const uint32_t round = orr_ring_partition_of(ring, g)->leftward_sent++;
    send(ring, g, true, round, (ring->me + 1 + round) % ring->n);
}

/* A chunk as this member expects it. */
typedef struct arrival {
    orr_ring_connection *link;
    bool left; /* from the left neighbour: a round; else one of the way back */
    uint32_t g, number;
    orr_ring_partition *part;
    const orr_ring_op *op;
    orr_ring_shard shard;
    bool is_partial;
    size_t bytes; /* of its payload */
} arrival;

static bool is_gathered(const orr_ring *ring, const arrival *x)
{
    return !x->left || x->part->received + 1u >= ring->n;
}

/* Of this attempt, and not of a step before: those are dropped. */
static bool is_ours(const orr_ring *ring, const arrival *x, const orr_net_frame *frame)
{
    return ring->state == ORR_RING_LIVE && x->link != NULL && frame->epoch == ring->epoch &&
           frame->kind == ORR_RING_CHUNK && frame->step >= ring->step;
}

/* From the left: the round that is due. A final chunk can only come when this member has sent what
 * it is made of. */
static const char *expect_rightward(const orr_ring *ring, arrival *x, const orr_net_frame *frame)
{
    const uint32_t round = x->part->received;
    if (x->g >= ring->granted)
        return "it sent what it was not granted";
    if (round >= orr_ring_rounds(ring, x->op) || frame->round != round)
        return "it sent a chunk out of turn";
    if (round + 1 >= ring->n && x->part->sent + ring->n < round + 2)
        return "it sent a sum that cannot be made yet";
    x->number = (ring->me + 2 * ring->n - 1 - round) % ring->n;
    return NULL;
}

/* From the right, of the way back. */
static const char *expect_leftward(const orr_ring *ring, arrival *x, const orr_net_frame *frame)
{
    const uint32_t round = x->part->leftward_received;
    if (round >= orr_ring_leftward_rounds(ring, x->op) || frame->round != round)
        return "it sent a chunk out of turn, on the way back";
    if (x->part->sent + 1u < ring->n)
        return "it sent a sum that cannot be made yet, on the way back";
    x->number = (ring->me + 2 + round) % ring->n;
    return NULL;
}

/* NULL, or what cannot be. */
static const char *expect(orr_ring *ring, arrival *x, const orr_net_frame *frame)
{
    const uint32_t stream = (uint32_t)(x->link - (x->left ? ring->left : ring->right));
    if (frame->step != ring->step)
        return "it sent a chunk of a step that is not here yet";
    if (frame->from != (x->left ? orr_ring_left(ring) : orr_ring_right(ring)) ||
        frame->lane != (x->left ? stream : (stream | ORR_RING_LEFTWARD)))
        return "it sent a chunk of another's";
    if (frame->op >= ring->ops.n || frame->partition >= ring->ops.at[frame->op].partitions)
        return "it sent a chunk of what is not posted";
    x->op = &ring->ops.at[frame->op];
    x->g = x->op->first + frame->partition;
    if (x->g < ring->first || x->g >= ring->opened || x->g % ring->options.streams != stream)
        return "it sent a chunk of what is not under way";
    x->part = orr_ring_partition_of(ring, x->g);
    const char *wrong =
        x->left ? expect_rightward(ring, x, frame) : expect_leftward(ring, x, frame);
    if (wrong != NULL)
        return wrong;
    x->shard = orr_ring_shard_of(ring, x->op, frame->partition, x->number);
    x->is_partial = x->left && orr_ring_is_partial(ring, x->op, x->part->received);
    x->bytes = x->is_partial ? x->shard.n * sizeof(float) : x->shard.bytes;
    if (frame->chunk != x->number || frame->bytes != x->bytes)
        return "it sent a chunk of a wrong size";
    return NULL;
}

/* Sums are read beside `out` and added to it; small ones in the net's room. The rest goes straight
 * there. */
void *orr_ring_place(void *ctx, orr_conn conn, const orr_net_frame *frame)
{
    orr_ring *ring = ctx;
    arrival x = {0};
    x.link = orr_ring_connection_of(ring, conn, &x.left);
    if (!is_ours(ring, &x, frame) || expect(ring, &x, frame) != NULL)
        return NULL;
    if (is_gathered(ring, &x) || (x.op->in == NULL && !orr_ring_is_narrow(x.op->dtype)))
        return x.op->out + x.shard.at;
    return x.bytes > ORR_NET_BUFFER_BYTES ? x.link->scratch : NULL;
}

/* A final chunk is here. */
static void record_hash(orr_ring *ring, const arrival *x, uint64_t hash)
{
    *orr_ring_hash_of(ring, x->g, x->number) = hash;
    ring->digest += digest(x->part->op, x->part->partition, x->number, hash);
}

/* The sum goes on as fp32, or is final and rounded. */
static void accumulate_narrow(orr_ring *ring, const arrival *x, char *out, const void *payload,
                              const char *in)
{
    const bool goes_on = orr_ring_is_partial(ring, x->op, x->part->received + 1u);
    void *sum = goes_on ? orr_ring_partial_of(ring, x->g, x->number) : out;
    ring->reducer.add_wide(ring->reducer.ctx, x->op->dtype, sum, goes_on, payload, x->is_partial,
                           in, x->shard.n);
}

static void accumulate(orr_ring *ring, const arrival *x, const void *payload)
{
    char *out = x->op->out + x->shard.at;
    const char *in = x->op->in != NULL ? x->op->in + x->shard.at : NULL;
    if (x->shard.n > 0 && orr_ring_is_narrow(x->op->dtype))
        accumulate_narrow(ring, x, out, payload, in);
    else if (x->shard.n > 0 && (in != NULL || payload != out))
        ring->reducer.add(ring->reducer.ctx, x->op->dtype, out, payload, in, x->shard.n);
    if (++x->part->received + 1u == ring->n)
        record_hash(ring, x, orr_net_frame_hash(out, x->shard.bytes));
}

static void gather(orr_ring *ring, const arrival *x, const void *payload, uint64_t hash)
{
    char *out = x->op->out + x->shard.at;
    if (x->shard.n > 0 && payload != out)
        ring->reducer.add(ring->reducer.ctx, x->op->dtype, out, payload, NULL, x->shard.n);
    if (x->left)
        x->part->received++;
    else
        x->part->leftward_received++;
    record_hash(ring, x,
                x->shard.bytes > 0 ? hash : orr_net_frame_hash(NULL, 0)); /* nets may differ */
}

static const char *take(orr_ring *ring, arrival *x, const orr_net_frame *frame, const void *payload)
{
    const char *wrong = expect(ring, x, frame);
    if (wrong != NULL)
        return wrong;
    if (payload == NULL && x->bytes > 0)
        return "a chunk of it was lost";
    if (is_gathered(ring, x))
        gather(ring, x, payload, frame->payload_hash);
    else
        accumulate(ring, x, payload);
    orr_ring_on_chunk(ring, x->g);
    return NULL;
}

static const char *frame_of(orr_ring *ring, arrival *x, const orr_net_frame *frame,
                            const void *payload)
{
    if (frame->kind == ORR_RING_CHUNK) {
        ring->received++;
        ring->taken_left += x->left;
        return is_ours(ring, x, frame) ? take(ring, x, frame, payload) : NULL;
    }
    if (frame->kind == ORR_RING_CREDIT && x->link == &ring->right[0] &&
        frame->from == orr_ring_right(ring))
        return orr_ring_on_credit(ring, frame);
    return "it sent a frame of an unknown kind";
}

void orr_ring_on_frame(void *ctx, orr_conn conn, const orr_net_frame *frame, const void *payload)
{
    orr_ring *ring = ctx;
    arrival x = {0};
    x.link = orr_ring_connection_of(ring, conn, &x.left);
    if (x.link == NULL) {
        orr_ring_on_hello(ring, conn, frame);
        return;
    }
    if (ring->state != ORR_RING_LIVE || frame->epoch != ring->epoch)
        return;
    const char *wrong = frame_of(ring, &x, frame, payload);
    if (wrong != NULL)
        orr_ring_break(ring, x.left ? orr_ring_left(ring) : orr_ring_right(ring), wrong);
    else
        orr_ring_report_reduced(ring);
}

/* A ring of one: copies, and hashes of them. */
void orr_ring_run_alone(orr_ring *ring)
{
    for (; ring->done < ring->ops.n; orr_ring_complete(ring)) {
        const orr_ring_op *op = &ring->ops.at[ring->done];
        for (uint32_t i = 0; i < op->partitions; i++) {
            const orr_ring_shard shard = orr_ring_shard_of(ring, op, i, 0);
            char *out = op->out + shard.at;
            ring->reducer.add(ring->reducer.ctx, op->dtype, out,
                              op->in != NULL ? op->in + shard.at : NULL, NULL, shard.n);
            ring->digest += digest(ring->done, i, 0, orr_net_frame_hash(out, shard.bytes));
        }
        ring->first += op->partitions;
    }
}
