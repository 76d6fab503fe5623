/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/algorithms.h"

uint32_t orr_coll_log2(uint32_t n)
{
    return n < 2 ? 0 : 32 - (uint32_t)__builtin_clz(n - 1);
}

static bool power_of_two(uint32_t n)
{
    return (n & (n - 1)) == 0;
}

static uint32_t lesser(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static void add(orr_coll_traffic *need, orr_coll_load load, double message_bytes)
{
    need->steps += load.hops;
    need->bytes += load.load * message_bytes;
}

/* Recursive-doubling all-gather of S bytes in all: step j shifts by 2^j the 2^j blocks that each
 * member has, the last step what is missing (Bruck et al.). Reversed, it is the reduce-scatter. */
static orr_coll_traffic gather_by_doubling(const orr_coll_topology *shape, double bytes)
{
    orr_coll_traffic need = {0};
    for (uint64_t d = 1; d < shape->n; d *= 2)
        add(&need, orr_coll_shift(shape, (uint32_t)d),
            bytes / shape->n * lesser((uint32_t)d, shape->n - (uint32_t)d));
    return need;
}

/* Recursive doubling of an all-reduce: whole vectors between partners 2^j apart. If n is no
 * power of two, 2 (n - 2^j) members first fold into half as many, and get the result at the end. */
static bool reduce_by_doubling(const orr_coll_topology *shape, double bytes, orr_coll_traffic *ret)
{
    if (!power_of_two(shape->n) && shape->topology == ORR_TOPOLOGY_RING)
        return false; /* the remaining members are not at equal distances */
    orr_coll_traffic need = {0};
    for (uint64_t d = 1; 2 * d <= shape->n; d *= 2)
        add(&need, orr_coll_exchange(shape, (uint32_t)d), bytes);
    if (!power_of_two(shape->n)) {
        add(&need, orr_coll_exchange(shape, 1), bytes);
        add(&need, orr_coll_exchange(shape, 1), bytes);
    }
    *ret = need;
    return true;
}

static bool all_reduce(const orr_coll_topology *shape, orr_algorithm algorithm, double bytes,
                       orr_coll_traffic *ret)
{
    const double n = shape->n;
    orr_coll_traffic need = {0};
    switch (algorithm) {
    case ORR_ALGORITHM_RING: {
        const orr_coll_load around = orr_coll_disjoint_rings(shape, 2 * (shape->n - 1));
        need = (orr_coll_traffic){around.hops, around.load * 2 * (n - 1) / n * bytes};
        break;
    }
    case ORR_ALGORITHM_TREE:
        if (shape->topology != ORR_TOPOLOGY_SWITCH)
            return false;
        need = (orr_coll_traffic){2 * orr_coll_log2(shape->n), (n < 4 ? n / 2 : 2) * bytes};
        break;
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
        return reduce_by_doubling(shape, bytes, ret);
    case ORR_ALGORITHM_HALVING_DOUBLING:
        need = gather_by_doubling(shape, bytes);
        need = (orr_coll_traffic){2 * need.steps, 2 * need.bytes};
        break;
    case ORR_ALGORITHM_DIRECT:
        add(&need, orr_coll_all_pairs(shape), bytes / n);
        add(&need, orr_coll_all_pairs(shape), bytes / n);
        break;
    default:
        return false;
    }
    *ret = need;
    return true;
}

static bool all_gather(const orr_coll_topology *shape, orr_algorithm algorithm, double bytes,
                       orr_coll_traffic *ret)
{
    const double n = shape->n;
    orr_coll_traffic need = {0};
    switch (algorithm) {
    case ORR_ALGORITHM_RING: {
        const orr_coll_load around = orr_coll_disjoint_rings(shape, shape->n - 1);
        need = (orr_coll_traffic){around.hops, around.load * (n - 1) / n * bytes};
        break;
    }
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
    case ORR_ALGORITHM_HALVING_DOUBLING:
        need = gather_by_doubling(shape, bytes);
        break;
    case ORR_ALGORITHM_DIRECT:
        add(&need, orr_coll_all_pairs(shape), bytes / n);
        break;
    default:
        return false;
    }
    *ret = need;
    return true;
}

/* Number of blocks i, 0 <= i < n, whose bit `bit` is set. */
static uint32_t with_bit(uint32_t n, uint64_t bit)
{
    const uint64_t whole = n / (2 * bit), rest = n % (2 * bit);
    return (uint32_t)(whole * bit + (rest > bit ? rest - bit : 0));
}

static bool all_to_all(const orr_coll_topology *shape, orr_algorithm algorithm, double bytes,
                       orr_coll_traffic *ret)
{
    const double block = bytes / shape->n;
    orr_coll_traffic need = {0};
    switch (algorithm) {
    case ORR_ALGORITHM_RING:
        if (shape->topology == ORR_TOPOLOGY_SWITCH) {
            need = (orr_coll_traffic){shape->n - 1.0, (shape->n - 1.0) * block};
            break;
        }
        for (uint32_t d = 1; d < shape->n; d++)
            add(&need, orr_coll_shift(shape, d), block);
        break;
    case ORR_ALGORITHM_RECURSIVE_DOUBLING:
        for (uint64_t d = 1; d < shape->n; d *= 2)
            add(&need, orr_coll_shift(shape, (uint32_t)d), block * with_bit(shape->n, d));
        break;
    case ORR_ALGORITHM_DIRECT:
        add(&need, orr_coll_all_pairs(shape), block);
        break;
    default:
        return false;
    }
    *ret = need;
    return true;
}

static bool broadcast(const orr_coll_topology *shape, orr_algorithm algorithm, double bytes,
                      orr_coll_traffic *ret)
{
    const uint32_t n = shape->n, log2n = orr_coll_log2(n);
    const bool is_switch = shape->topology == ORR_TOPOLOGY_SWITCH;
    orr_coll_traffic need = {0};
    switch (algorithm) {
    case ORR_ALGORITHM_RING: {
        const orr_coll_load around = orr_coll_disjoint_rings(shape, n - 1);
        need = (orr_coll_traffic){around.hops, around.load * bytes};
        break;
    }
    case ORR_ALGORITHM_TREE:
        if (!is_switch)
            return false;
        need = (orr_coll_traffic){log2n, log2n * bytes};
        break;
    case ORR_ALGORITHM_HALVING_DOUBLING:
        if (!is_switch)
            return false;
        need = (orr_coll_traffic){2 * log2n, 2 * (n - 1.0) / n * bytes};
        break;
    case ORR_ALGORITHM_DIRECT:
        add(&need, orr_coll_one_to_all(shape), bytes);
        break;
    default:
        return false;
    }
    *ret = need;
    return true;
}

static bool scatter(const orr_coll_topology *shape, orr_algorithm algorithm, double bytes,
                    orr_coll_traffic *ret)
{
    const double n = shape->n;
    orr_coll_traffic need = {0};
    if (algorithm == ORR_ALGORITHM_DIRECT)
        add(&need, orr_coll_one_to_all(shape), bytes / n);
    else if (algorithm == ORR_ALGORITHM_TREE && shape->topology == ORR_TOPOLOGY_SWITCH)
        need = (orr_coll_traffic){orr_coll_log2(shape->n), (n - 1) / n * bytes};
    else
        return false;
    *ret = need;
    return true;
}

static bool in_switch(const orr_coll_topology *shape, orr_collective collective, double bytes,
                      orr_coll_traffic *ret)
{
    const double n = shape->n;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
    case ORR_COLL_REDUCE:
    case ORR_COLL_BROADCAST:
        *ret = (orr_coll_traffic){2, bytes};
        return true;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
        *ret = (orr_coll_traffic){2, (n - 1) / n * bytes};
        return true;
    default:
        return false;
    }
}

bool orr_coll_level_traffic(const orr_coll_topology *shape, bool in_network,
                            orr_collective collective, orr_algorithm algorithm, double bytes,
                            orr_coll_traffic *ret)
{
    if (algorithm == ORR_ALGORITHM_IN_NETWORK)
        return in_network && in_switch(shape, collective, bytes, ret);
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return all_reduce(shape, algorithm, bytes, ret);
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_REDUCE_SCATTER:
        return all_gather(shape, algorithm, bytes, ret);
    case ORR_COLL_ALL_TO_ALL:
        return all_to_all(shape, algorithm, bytes, ret);
    case ORR_COLL_BROADCAST:
    case ORR_COLL_REDUCE:
        return broadcast(shape, algorithm, bytes, ret);
    case ORR_COLL_SCATTER:
    case ORR_COLL_GATHER:
        return scatter(shape, algorithm, bytes, ret);
    default:
        return false;
    }
}
