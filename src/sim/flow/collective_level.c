/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"
#include "cost/collective/algorithms.h"
#include "sim/flow/collective.h"

/* Demands of the algorithms on one line: ring, direct, recursive doubling and halving, double
 * binary tree, binomial tree. Each function names the algorithm; its bytes are those of the
 * closed form in cost/collective/algorithms.c. */

__extension__ typedef __int128 wide;

int64_t orr_flow_bytes_of_part(int64_t bytes, uint64_t part, uint64_t whole)
{
    const wide share = ((wide)bytes * part + whole - 1) / whole;
    return share < INT64_MAX ? (int64_t)share : INT64_MAX;
}

static bool send(const orr_flow_level *line, uint32_t from, uint32_t to, int64_t bytes,
                 orr_demands *ret)
{
    const orr_flow_demand demand = {line->members[from * line->stride],
                                    line->members[to * line->stride], bytes};
    return from == to || bytes == 0 || orr_array_push(ret, demand);
}

/* Every member sends to the member d places further. */
static bool shift(const orr_flow_level *line, uint32_t d, int64_t bytes, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    for (uint32_t i = 0; i < n; i++)
        if (!send(line, i, (uint32_t)(((uint64_t)i + d) % n), bytes, ret))
            return false;
    return true;
}

static bool pairs(const orr_flow_level *line, int64_t bytes, orr_demands *ret)
{
    for (uint32_t d = 1; d < line->shape.n; d++)
        if (!shift(line, d, bytes, ret))
            return false;
    return true;
}

bool orr_flow_level_ring(const orr_flow_level *line, int64_t bytes, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    if (line->shape.topology == ORR_TOPOLOGY_FULLY_CONNECTED)
        return pairs(line, orr_flow_bytes_of_part(bytes, 1, n - 1), ret);
    if (line->shape.topology == ORR_TOPOLOGY_RING && n == line->shape.size) {
        const int64_t half = orr_flow_bytes_of_part(bytes, 1, 2);
        return shift(line, 1, half, ret) && shift(line, n - 1, half, ret);
    }
    return shift(line, 1, bytes, ret);
}

/* Recursive doubling: an all-gather of `bytes` in all; reversed, recursive halving: the
 * reduce-scatter. */
static bool doubling(const orr_flow_level *line, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    for (uint64_t d = 1; d < n; d *= 2) {
        const uint64_t blocks = d < n - d ? d : n - d;
        if (!shift(line, (uint32_t)d, orr_flow_bytes_of_part(line->bytes, blocks, n), ret))
            return false;
    }
    return true;
}

/* Recursive doubling of an all-reduce with whole vectors. With p the largest power of two up to
 * n, 2 (n - p) members meet in pairs before and after. */
static bool exchange(const orr_flow_level *line, orr_demands *ret)
{
    const uint32_t n = line->shape.n, p = 1u << (31 - __builtin_clz(n)), rest = n - p;
    for (uint32_t i = 0; i < rest; i++)
        if (!send(line, 2 * i, 2 * i + 1, line->bytes, ret) ||
            !send(line, 2 * i + 1, 2 * i, line->bytes, ret))
            return false;
    for (uint32_t i = 0; i < p; i++)
        for (uint32_t d = 1; d < p; d *= 2) {
            const uint32_t j = i ^ d;
            if (!send(line, i < rest ? 2 * i + 1 : i + rest, j < rest ? 2 * j + 1 : j + rest,
                      line->bytes, ret))
                return false;
        }
    return true;
}

/* In-order binary tree on 0 .. n - 1: parent of node i; 0 is the root. */
static uint32_t above(uint32_t i, uint32_t n)
{
    const uint32_t low = i & -i, up = (i ^ low) | low << 1;
    return up < n ? up : i ^ low;
}

/* Double binary tree: two trees, each with half of the bytes; inner nodes of one are mostly
 * leaves of the other. */
static bool double_tree(const orr_flow_level *line, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    const int64_t half = orr_flow_bytes_of_part(line->bytes, 1, 2);
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t up = above(i, n);
        const uint32_t mirror = n % 2 == 0 ? n - 1 - i : (i + 1) % n;
        const uint32_t mirror_up = n % 2 == 0 ? n - 1 - up : (up + 1) % n;
        if (!send(line, i, up, half, ret) || !send(line, up, i, half, ret) ||
            !send(line, mirror, mirror_up, half, ret) || !send(line, mirror_up, mirror, half, ret))
            return false;
    }
    return true;
}

static bool bruck(const orr_flow_level *line, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    for (uint64_t d = 1; d < n; d *= 2) {
        uint64_t blocks = 0;
        for (uint32_t i = 0; i < n; i++)
            blocks += (i & d) != 0;
        if (!shift(line, (uint32_t)d, orr_flow_bytes_of_part(line->bytes, blocks, n), ret))
            return false;
    }
    return true;
}

/* A transfer from the root, or to it. */
static bool rooted(const orr_flow_level *line, uint32_t from, uint32_t to, bool to_root,
                   int64_t bytes, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    const uint32_t a = (uint32_t)(((uint64_t)line->root + from) % n);
    const uint32_t b = (uint32_t)(((uint64_t)line->root + to) % n);
    return to_root ? send(line, b, a, bytes, ret) : send(line, a, b, bytes, ret);
}

static bool chain(const orr_flow_level *line, bool to_root, orr_demands *ret)
{
    for (uint32_t i = 1; i < line->shape.n; i++)
        if (!rooted(line, i - 1, i, to_root, line->bytes, ret))
            return false;
    return true;
}

static bool star(const orr_flow_level *line, bool to_root, int64_t bytes, orr_demands *ret)
{
    for (uint32_t i = 1; i < line->shape.n; i++)
        if (!rooted(line, 0, i, to_root, bytes, ret))
            return false;
    return true;
}

/* Binomial tree: member i receives from i without its lowest set bit, and sends to the members
 * below it: whole vectors, or (`parts`) one n-th for each of them. */
static bool binomial(const orr_flow_level *line, bool to_root, bool parts, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    for (uint32_t i = 1; i < n; i++) {
        const uint32_t low = i & -i, below = low < n - i ? low : n - i;
        const int64_t bytes = parts ? orr_flow_bytes_of_part(line->bytes, below, n) : line->bytes;
        if (!rooted(line, i ^ low, i, to_root, bytes, ret))
            return false;
    }
    return true;
}

static bool all_reduce(const orr_flow_level *line, orr_algorithm algorithm, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    switch (algorithm) {
    case ORR_ALGORITHM_TREE:
        return double_tree(line, ret);
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
        return exchange(line, ret);
    case ORR_ALGORITHM_HALVING_DOUBLING:
        return doubling(line, ret) && doubling(line, ret);
    case ORR_ALGORITHM_DIRECT:
        return pairs(line, orr_flow_bytes_of_part(line->bytes, 2, n), ret);
    case ORR_ALGORITHM_IN_NETWORK:
        return shift(line, 1, line->bytes, ret);
    default:
        return orr_flow_level_ring(line, orr_flow_bytes_of_part(line->bytes, 2 * (n - 1ull), n),
                                   ret);
    }
}

static bool all_gather(const orr_flow_level *line, orr_algorithm algorithm, orr_demands *ret)
{
    const uint32_t n = line->shape.n;
    switch (algorithm) {
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
    case ORR_ALGORITHM_HALVING_DOUBLING:
        return doubling(line, ret);
    case ORR_ALGORITHM_DIRECT:
        return pairs(line, orr_flow_bytes_of_part(line->bytes, 1, n), ret);
    case ORR_ALGORITHM_IN_NETWORK:
        return shift(line, 1, orr_flow_bytes_of_part(line->bytes, n - 1, n), ret);
    default:
        return orr_flow_level_ring(line, orr_flow_bytes_of_part(line->bytes, n - 1, n), ret);
    }
}

static bool broadcast(const orr_flow_level *line, orr_algorithm algorithm, bool to_root,
                      orr_demands *ret)
{
    switch (algorithm) {
    case ORR_ALGORITHM_TREE:
        return binomial(line, to_root, false, ret);
    case ORR_ALGORITHM_HALVING_DOUBLING:
        return binomial(line, to_root, true, ret) && doubling(line, ret);
    case ORR_ALGORITHM_DIRECT:
        return star(line, to_root, line->bytes, ret);
    case ORR_ALGORITHM_IN_NETWORK:
        return shift(line, 1, line->bytes, ret);
    default:
        return chain(line, to_root, ret);
    }
}

bool orr_flow_level_demands(const orr_flow_level *line, orr_collective collective,
                            orr_algorithm algorithm, orr_demands *ret)
{
    const bool to_root = collective == ORR_COLL_REDUCE || collective == ORR_COLL_GATHER;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return all_reduce(line, algorithm, ret);
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
        return all_gather(line, algorithm, ret);
    case ORR_COLL_ALL_TO_ALL:
        return algorithm == ORR_ALGORITHM_RECURSIVE_DOUBLING
                   ? bruck(line, ret)
                   : pairs(line, orr_flow_bytes_of_part(line->bytes, 1, line->shape.n), ret);
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
        return broadcast(line, algorithm, to_root, ret);
    case ORR_COLL_SCATTER:
    case ORR_COLL_GATHER:
        return algorithm == ORR_ALGORITHM_TREE
                   ? binomial(line, to_root, true, ret)
                   : star(line, to_root, orr_flow_bytes_of_part(line->bytes, 1, line->shape.n),
                          ret);
    default:
        return true; /* a barrier carries no bytes */
    }
}
