/* SPDX-License-Identifier: Apache-2.0 */
#include "base/sum.h"
#include "team/ring/parts.h"

/* Numbers of a whole partition. */
static size_t whole(const orr_ring *ring, const orr_ring_op *op)
{
    return (size_t)ring->n * (ring->options.chunk_bytes / orr_ring_sum_bytes(op->dtype));
}

orr_status orr_ring_partition_op(orr_ring *ring, orr_ring_op *op, orr_error *err)
{
    const size_t each = whole(ring, op);
    const size_t partitions = op->n / each + (op->n % each != 0);
    if (partitions > UINT32_MAX - ring->end)
        return orr_fail(err, ORR_LIMIT, "a step of more than 2^32 partitions; use larger chunks");
    op->first = ring->end;
    op->partitions = (uint32_t)partitions;
    op->both_ways = op->n * orr_ring_dtype_bytes(op->dtype) <= ring->options.small_bytes;
    ring->end += op->partitions;
    return ORR_OK;
}

orr_status orr_ring_partition_all(orr_ring *ring, orr_error *err)
{
    ring->end = 0;
    for (size_t i = 0; i < ring->ops.n; i++)
        ORR_TRY(orr_ring_partition_op(ring, &ring->ops.at[i], err));
    return ORR_OK;
}

orr_ring_shard orr_ring_shard_of(const orr_ring *ring, const orr_ring_op *op, uint32_t partition,
                                 uint32_t shard)
{
    const size_t size = orr_ring_dtype_bytes(op->dtype), each = whole(ring, op);
    const size_t begin = partition * each;
    const size_t here = op->n - begin < each ? op->n - begin : each;
    const size_t at = orr_part_begin(here, ring->n, shard);
    const size_t n = orr_part_begin(here, ring->n, shard + 1) - at;
    return (orr_ring_shard){.at = (begin + at) * size, .bytes = n * size, .n = n};
}
