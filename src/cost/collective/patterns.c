/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/patterns.h"

orr_coll_topology orr_coll_topology_of(const orr_network *network, uint32_t level, uint32_t n)
{
    /* Hops and link loads of message patterns by topology: the table of patterns.h. */
    orr_coll_topology shape = {
        .n = n, .size = network->size[level], .topology = network->topology[level]};
    if (shape.size < n)
        shape.size = n;
    if (shape.size <= 2)
        shape.topology = ORR_TOPOLOGY_SWITCH;
    return shape;
}

static bool is_line(const orr_coll_topology *shape)
{
    return shape->n < shape->size;
}

orr_coll_load orr_coll_shift(const orr_coll_topology *shape, uint32_t d)
{
    const uint32_t n = shape->n, near = d < n - d ? d : n - d;
    switch (shape->topology) {
    case ORR_TOPOLOGY_RING:
        if (is_line(shape)) /* on a line, messages past the end go back all the way */
            return (orr_coll_load){n - near, 2.0 * near};
        if (2 * d == n)
            return (orr_coll_load){near, 2.0 * ((n + 3) / 4)};
        return (orr_coll_load){near, 2.0 * near};
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return (orr_coll_load){1, shape->size - 1};
    default:
        return (orr_coll_load){1, 1};
    }
}

orr_coll_load orr_coll_exchange(const orr_coll_topology *shape, uint32_t d)
{
    if (shape->topology == ORR_TOPOLOGY_RING && is_line(shape)) /* in a full ring no message
                                                                 * passes an end */
        return (orr_coll_load){d, 2.0 * d};
    return orr_coll_shift(shape, d);
}

orr_coll_load orr_coll_all_pairs(const orr_coll_topology *shape)
{
    const double n = shape->n;
    const uint32_t half = shape->n / 2;
    switch (shape->topology) {
    case ORR_TOPOLOGY_RING:
        if (is_line(shape)) /* on a line, half of the members send to the other half through the
                             * middle */
            return (orr_coll_load){n - 1, 2.0 * half * (n - half)};
        if (shape->n % 2 == 1)
            return (orr_coll_load){half, (n * n - 1) / 4};
        return (orr_coll_load){half, n * (n - 2) / 4 + 2.0 * ((shape->n + 3) / 4)};
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return (orr_coll_load){1, shape->size - 1};
    default:
        return (orr_coll_load){1, n - 1};
    }
}

orr_coll_load orr_coll_one_to_all(const orr_coll_topology *shape)
{
    const double n = shape->n;
    const uint32_t half = shape->n / 2;
    switch (shape->topology) {
    case ORR_TOPOLOGY_RING:
        return is_line(shape) ? (orr_coll_load){n - 1, 2 * (n - 1)}
                              : (orr_coll_load){half, 2.0 * half};
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return (orr_coll_load){1, shape->size - 1};
    default:
        return (orr_coll_load){1, n - 1};
    }
}

orr_coll_load orr_coll_point_to_point(const orr_coll_topology *shape)
{
    switch (shape->topology) {
    case ORR_TOPOLOGY_RING:
        return (orr_coll_load){1, 2};
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return (orr_coll_load){1, shape->size - 1};
    default:
        return (orr_coll_load){1, 1};
    }
}

orr_coll_load orr_coll_disjoint_rings(const orr_coll_topology *shape, uint32_t steps)
{
    const double n = shape->n;
    switch (shape->topology) {
    case ORR_TOPOLOGY_RING:
        if (!is_line(shape)) /* in a ring, half of it each way round */
            return (orr_coll_load){steps, 1};
        /* On a line: one way along it, and the last message back over the whole of it; at worst
         * a chain of messages begins with that one. */
        return (orr_coll_load){steps + (n - 2) * ((steps + shape->n - 1) / shape->n), 2};
    case ORR_TOPOLOGY_FULLY_CONNECTED: /* n - 1 disjoint rings, of the size - 1 links of each
                                        * unit */
        return (orr_coll_load){steps, (shape->size - 1) / (n - 1)};
    default:
        return (orr_coll_load){steps, 1};
    }
}
