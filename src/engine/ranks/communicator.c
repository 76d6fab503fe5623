/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/ranks/communicator.h"

#include <string.h>

#include <orrery/graph.h>

#include "base/alloc.h"
#include "base/sum.h"
#include "engine/ranks/reduction.h"

/* Collectives by pairwise exchange: in round k each member sends to the member k places after it
 * and receives from the member k places before it. n - 1 rounds move every part once, directly,
 * whatever n is.
 *
 * All-reduce is reduce-scatter and all-gather: each member sums its own part from all members'
 * numbers, in member order, and sends the sums to the others. The order does not depend on arrival,
 * so results are bitwise reproducible and the same on all members; scratch for the members' parts
 * is the price (ring algorithms need less). Small vectors are gathered whole and summed by
 * everyone, which halves the rounds. */
enum {
    SCRATCH_BYTES_MIN = 64 << 10,
    SMALL_BYTES = 8 << 10,       /* up to this, an all-reduce gathers everything: fewer rounds */
    BLOCK_BYTES = 256 << 10,     /* of a part: what is summed is still in the cache */
    BROADCAST_BYTES = 256 << 10, /* a piece of a broadcast, forwarded while the next arrives */
    ALIGN = 64
};

orr_status orr_communicator_make(orr_transport *transport, const uint32_t *members, uint32_t n,
                                 uint32_t channel, size_t scratch_bytes, orr_arena *arena,
                                 orr_communicator **ret, orr_error *err)
{
    uint32_t me = ORR_NONE;
    for (uint32_t i = 0; i < n; i++) {
        if (members[i] >= transport->ranks)
            return orr_fail(err, ORR_INVALID, "rank %u, of %u", members[i], transport->ranks);
        if (members[i] == transport->rank)
            me = i;
    }
    if (me == ORR_NONE)
        return orr_fail(err, ORR_INVALID, "rank %u is no member of the group", transport->rank);
    if (channel >= ORR_CHANNELS)
        return orr_fail(err, ORR_INVALID, "channel %u, of %d", channel, ORR_CHANNELS);
    if (scratch_bytes < SCRATCH_BYTES_MIN)
        scratch_bytes = SCRATCH_BYTES_MIN;
    if (scratch_bytes < (size_t)n * ALIGN)
        scratch_bytes = (size_t)n * ALIGN;
    orr_communicator *c = orr_arena_one(arena, orr_communicator);
    uint32_t *copy = orr_arena_array(arena, uint32_t, n);
    const void **parts = orr_arena_array(arena, const void *, n);
    void *scratch = n > 1 ? orr_arena_alloc(arena, scratch_bytes, 1, ALIGN) : NULL;
    if (c == NULL || copy == NULL || parts == NULL || (n > 1 && scratch == NULL))
        return orr_fail_memory(err);
    memcpy(copy, members, n * sizeof *copy);
    *c = (orr_communicator){.transport = transport,
                            .members = copy,
                            .n = n,
                            .me = me,
                            .channel = channel,
                            .scratch = scratch,
                            .scratch_bytes = scratch_bytes,
                            .parts = parts};
    *ret = c;
    return ORR_OK;
}

static uint32_t after(const orr_communicator *c, uint32_t k)
{
    return (uint32_t)(((uint64_t)c->me + k) % c->n);
}

static uint32_t before(const orr_communicator *c, uint32_t k)
{
    return (uint32_t)(((uint64_t)c->me + c->n - k) % c->n);
}

orr_status orr_send_receive(orr_communicator *c, uint32_t to, const void *out, size_t out_bytes,
                            uint32_t from, void *in, size_t in_bytes, orr_error *err)
{
    if ((to != ORR_NONE && to >= c->n) || (from != ORR_NONE && from >= c->n))
        return orr_fail(err, ORR_INVALID, "member %u, of %u",
                        to != ORR_NONE && to >= c->n ? to : from, c->n);
    const orr_exchange x = {.channel = c->channel,
                            .to = to == ORR_NONE ? 0 : c->members[to],
                            .from = from == ORR_NONE ? 0 : c->members[from],
                            .out = out,
                            .in = in,
                            .out_bytes = to == ORR_NONE ? 0 : out_bytes,
                            .in_bytes = from == ORR_NONE ? 0 : in_bytes};
    return c->transport->exchange(c->transport, &x, err);
}

/* Bytes of n numbers; of 4-bit types n must fill whole bytes. */
static orr_status bytes_of(int64_t n, orr_dtype dtype, size_t members, size_t *ret, orr_error *err)
{
    size_t bytes = 0, all = 0;
    const double each = orr_dtype_bytes(dtype);
    if (n < 0 || !orr_mul_size((size_t)n, each < 1 ? 1 : (size_t)each, &bytes))
        return orr_fail(err, ORR_INVALID, "%lld numbers", (long long)n);
    if (each < 1)
        bytes = (bytes + 1) / 2;
    if (!orr_mul_size(bytes, members, &all))
        return orr_fail(err, ORR_INVALID, "%lld numbers of %zu members", (long long)n, members);
    *ret = bytes;
    return ORR_OK;
}

static orr_status sums_begin(const orr_communicator *c, int64_t n, orr_dtype dtype,
                             size_t *ret_bytes, orr_error *err)
{
    if (!orr_reduction_supports(dtype))
        return orr_fail(err, ORR_UNSUPPORTED, "sums of %s over ranks", orr_dtype_name(dtype));
    return bytes_of(n, dtype, c->n, ret_bytes, err);
}

static orr_status gather_bytes(orr_communicator *c, const void *in, uint8_t *out, size_t bytes,
                               orr_error *err)
{
    if (bytes > 0 && in != out + c->me * bytes) /* in-place data may be read meanwhile */
        memmove(out + c->me * bytes, in, bytes);
    for (uint32_t k = 1; k < c->n && bytes > 0; k++)
        ORR_TRY(orr_send_receive(c, after(c, k), out + c->me * bytes, bytes, before(c, k),
                                 out + before(c, k) * bytes, bytes, err));
    return ORR_OK;
}

orr_status orr_all_gather(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err)
{
    size_t bytes = 0;
    ORR_TRY(bytes_of(n, dtype, c->n, &bytes, err));
    return gather_bytes(c, in, out, bytes, err);
}

/* Where a member's numbers arrive: slots in member order, without this member's own. */
static uint8_t *slot_of(const orr_communicator *c, uint32_t member, size_t slot_bytes)
{
    return (uint8_t *)c->scratch + (member < c->me ? member : member - 1) * slot_bytes;
}

static size_t slot_bytes_of(const orr_communicator *c)
{
    const size_t most = c->scratch_bytes / (c->n - 1) / ALIGN * ALIGN;
    return most < BLOCK_BYTES ? most : BLOCK_BYTES;
}

static void sum_slots(orr_communicator *c, const void *mine, int64_t n, size_t slot_bytes,
                      orr_dtype dtype, void *out)
{
    for (uint32_t i = 0; i < c->n; i++)
        c->parts[i] = i == c->me ? mine : slot_of(c, i, slot_bytes);
    orr_reduction_sum(dtype, c->parts, c->n, n, out);
}

/* Small all-reduce: everyone gathers everything and computes all sums. */
static orr_status reduce_small(orr_communicator *c, const void *in, void *out, int64_t n,
                               size_t bytes, orr_dtype dtype, orr_error *err)
{
    for (uint32_t k = 1; k < c->n; k++)
        ORR_TRY(orr_send_receive(c, after(c, k), in, bytes, before(c, k),
                                 slot_of(c, before(c, k), bytes), bytes, err));
    sum_slots(c, in, n, bytes, dtype, out);
    return ORR_OK;
}

/* All-reduce of numbers from .. from + n - 1, a part for each member: reduce-scatter, then
 * all-gather. */
typedef struct sum_block {
    int64_t from, n;
    size_t each_bytes, slot_bytes;
} sum_block;

static size_t piece_at(const orr_communicator *c, const sum_block *b, uint32_t member,
                       size_t *ret_bytes)
{
    const size_t begin = orr_part_begin((size_t)b->n, c->n, member);
    *ret_bytes = (orr_part_begin((size_t)b->n, c->n, member + 1) - begin) * b->each_bytes;
    return ((size_t)b->from + begin) * b->each_bytes;
}

static orr_status reduce_block(orr_communicator *c, const sum_block *b, const uint8_t *in,
                               uint8_t *out, orr_dtype dtype, orr_error *err)
{
    size_t own_bytes = 0;
    const size_t own = piece_at(c, b, c->me, &own_bytes);
    for (uint32_t k = 1; k < c->n; k++) {
        size_t bytes = 0;
        const size_t at = piece_at(c, b, after(c, k), &bytes);
        ORR_TRY(orr_send_receive(c, after(c, k), in + at, bytes, before(c, k),
                                 slot_of(c, before(c, k), b->slot_bytes), own_bytes, err));
    }
    sum_slots(c, in + own, (int64_t)(own_bytes / b->each_bytes), b->slot_bytes, dtype, out + own);
    for (uint32_t k = 1; k < c->n; k++) {
        size_t bytes = 0;
        const size_t at = piece_at(c, b, before(c, k), &bytes);
        ORR_TRY(orr_send_receive(c, after(c, k), out + own, own_bytes, before(c, k), out + at,
                                 bytes, err));
    }
    return ORR_OK;
}

orr_status orr_all_reduce(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err)
{
    size_t bytes = 0;
    ORR_TRY(sums_begin(c, n, dtype, &bytes, err));
    if (n == 0)
        return ORR_OK;
    if (c->n == 1) {
        memmove(out, in, bytes);
        return ORR_OK;
    }
    if (bytes <= SMALL_BYTES && bytes <= c->scratch_bytes / (c->n - 1))
        return reduce_small(c, in, out, n, bytes, dtype, err);
    sum_block b = {.each_bytes = (size_t)orr_dtype_bytes(dtype), .slot_bytes = slot_bytes_of(c)};
    const int64_t most = (int64_t)(b.slot_bytes / b.each_bytes) * c->n;
    for (b.from = 0; b.from < n; b.from += b.n) {
        b.n = n - b.from < most ? n - b.from : most;
        ORR_TRY(reduce_block(c, &b, in, out, dtype, err));
    }
    return ORR_OK;
}

orr_status orr_reduce_scatter(orr_communicator *c, const void *in, void *out, int64_t n,
                              orr_dtype dtype, orr_error *err)
{
    size_t bytes = 0;
    ORR_TRY(sums_begin(c, n, dtype, &bytes, err));
    if (c->n == 1 && n > 0)
        memmove(out, in, bytes);
    if (c->n == 1)
        return ORR_OK;
    const size_t each = (size_t)orr_dtype_bytes(dtype), slot_bytes = slot_bytes_of(c);
    const int64_t most = (int64_t)(slot_bytes / each);
    for (int64_t from = 0; from < n; from += most) {
        const int64_t m = n - from < most ? n - from : most;
        const uint8_t *block = (const uint8_t *)in + (size_t)from * each;
        for (uint32_t k = 1; k < c->n; k++)
            ORR_TRY(orr_send_receive(c, after(c, k), block + after(c, k) * bytes, (size_t)m * each,
                                     before(c, k), slot_of(c, before(c, k), slot_bytes),
                                     (size_t)m * each, err));
        sum_slots(c, block + c->me * bytes, m, slot_bytes, dtype,
                  (uint8_t *)out + (size_t)from * each);
    }
    return ORR_OK;
}

orr_status orr_all_to_all(orr_communicator *c, const void *in, const int64_t *in_bytes, void *out,
                          const int64_t *out_bytes, orr_error *err)
{
    for (uint32_t i = 0; i < c->n; i++)
        if (in_bytes[i] < 0 || out_bytes[i] < 0)
            return orr_fail(err, ORR_INVALID, "%lld bytes of member %u",
                            (long long)(in_bytes[i] < 0 ? in_bytes[i] : out_bytes[i]), i);
    for (uint32_t k = 0; k < c->n; k++) {
        const uint32_t to = after(c, k), from = before(c, k);
        size_t in_at = 0, out_at = 0;
        for (uint32_t i = 0; i < to; i++)
            in_at += (size_t)in_bytes[i];
        for (uint32_t i = 0; i < from; i++)
            out_at += (size_t)out_bytes[i];
        ORR_TRY(orr_send_receive(c, to, (const uint8_t *)in + in_at, (size_t)in_bytes[to], from,
                                 (uint8_t *)out + out_at, (size_t)out_bytes[from], err));
    }
    return ORR_OK;
}

/* Pipelined binomial-tree broadcast. Members are numbered from the root; a member receives from the
 * one whose number lacks its highest bit, and sends to those with one more, higher bit. */
orr_status orr_broadcast(orr_communicator *c, void *data, size_t bytes, uint32_t root,
                         orr_error *err)
{
    if (root >= c->n)
        return orr_fail(err, ORR_INVALID, "root %u of %u members", root, c->n);
    const uint32_t me = (c->me + c->n - root) % c->n;
    uint32_t highest = 1;
    while (highest <= me)
        highest *= 2; /* above my highest bit */
    for (size_t at = 0; at < bytes; at += BROADCAST_BYTES) {
        uint8_t *piece = (uint8_t *)data + at;
        const size_t n = bytes - at < BROADCAST_BYTES ? bytes - at : BROADCAST_BYTES;
        if (me != 0)
            ORR_TRY(orr_send_receive(c, ORR_NONE, NULL, 0, (me - highest / 2 + root) % c->n, piece,
                                     n, err));
        for (uint32_t bit = highest; me + bit < c->n; bit *= 2)
            ORR_TRY(
                orr_send_receive(c, (me + bit + root) % c->n, piece, n, ORR_NONE, NULL, 0, err));
    }
    return ORR_OK;
}

/* Dissemination barrier (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization",
 * 1988): in round k every member notifies the one 2^k places after it; after ceil(log2 n) rounds
 * each has heard, directly or not, from all. */
orr_status orr_barrier(orr_communicator *c, orr_error *err)
{
    uint8_t here = 1, there = 0;
    for (uint64_t k = 1; k < c->n; k *= 2)
        ORR_TRY(orr_send_receive(c, after(c, (uint32_t)k), &here, 1, before(c, (uint32_t)k), &there,
                                 1, err));
    return ORR_OK;
}
