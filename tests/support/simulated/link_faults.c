/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/network_internal.h"

/* Links with a fault are few at a time: a list that is searched, and usually empty. */

static uint64_t key_of(uint32_t from, uint32_t to)
{
    return (uint64_t)from << 32 | to;
}

uint32_t orr_simnet_link_faults(const orr_simnet *world, uint32_t from, uint32_t to)
{
    for (size_t i = 0; i < world->links.n; i++)
        if (world->links.at[i].key == key_of(from, to))
            return world->links.at[i].flags;
    return 0;
}

void orr_simnet_link_set(orr_simnet *world, uint32_t from, uint32_t to, uint32_t fault, bool set)
{
    size_t i = 0;
    while (i < world->links.n && world->links.at[i].key != key_of(from, to))
        i++;
    if (i == world->links.n) {
        const orr_simnet_link link = {.key = key_of(from, to)};
        if (!set)
            return;
        if (!orr_array_push(&world->links, link)) {
            world->short_of_memory = true;
            return;
        }
    }
    orr_simnet_link *link = &world->links.at[i];
    link->flags = set ? link->flags | fault : link->flags & ~fault;
    if (link->flags == 0)
        *link = world->links.at[--world->links.n];
}

double orr_simnet_slowdown(const orr_simnet *world, uint32_t from, uint32_t to)
{
    const double a = orr_simnet_host_at(world, from)->slow, b = orr_simnet_host_at(world, to)->slow;
    return a > b ? a : b;
}

int64_t orr_simnet_delay_ns(orr_simnet *world, uint32_t from, uint32_t to)
{
    const uint64_t drawn =
        (uint64_t)world->options.jitter_ns * (orr_random_u32(&world->random) >> 8) >> 24;
    const int64_t delay_ns = world->options.latency_ns + (int64_t)drawn;
    const double slowness = orr_simnet_slowdown(world, from, to);
    return slowness > 1 ? (int64_t)((double)delay_ns * slowness) : delay_ns;
}
