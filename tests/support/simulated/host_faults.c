/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/network_internal.h"

#define NONE ORR_WORLD_NONE

static void drop_waiting(orr_world *world, orr_world_machine *host)
{
    for (uint32_t i = host->waiting_first, next; i != NONE; i = next) {
        next = world->queue.events.at[i].next;
        orr_world_drop(world, &world->queue.events.at[i]);
        orr_world_queue_free(&world->queue, i);
    }
    host->waiting_first = host->waiting_last = NONE;
}

void orr_world_kill(orr_world *world, uint32_t index, bool silently)
{
    orr_world_machine *host = orr_world_machine_at(world, index);
    if (host->dead)
        return;
    host->dead = true;
    host->silent = silently;
    while (host->ends != NONE)
        orr_world_part(world, &world->ends.at[host->ends],
                       silently ? ORR_PART_VANISH : ORR_PART_DIE);
    orr_world_users_forget(world, host);
    drop_waiting(world, host);
    host->stopped = false;
}

void orr_world_restart(orr_world *world, uint32_t index)
{
    orr_world_machine *host = orr_world_machine_at(world, index);
    host->dead = host->silent = false;
}

void orr_world_stop(orr_world *world, uint32_t index)
{
    orr_world_machine *host = orr_world_machine_at(world, index);
    host->stopped = !host->dead;
}

void orr_world_continue(orr_world *world, uint32_t index)
{
    orr_world_machine *host = orr_world_machine_at(world, index);
    const uint32_t first = host->waiting_first;
    host->stopped = false;
    host->waiting_first = host->waiting_last = NONE;
    for (uint32_t i = first, next; i != NONE; i = next) {
        next = world->queue.events.at[i].next;
        if (!orr_world_queue_put(&world->queue, world->now_ns, i)) {
            world->short_of_memory = true;
            orr_world_drop(world, &world->queue.events.at[i]);
            orr_world_queue_free(&world->queue, i);
        }
    }
}

void orr_world_cut(orr_world *world, uint32_t from, uint32_t to, bool cut)
{
    orr_world_link_set(world, from, to, ORR_LINK_CUT, cut);
}

void orr_world_slow(orr_world *world, uint32_t host, double factor)
{
    orr_world_machine_at(world, host)->slow = factor < 1 ? 1 : factor;
}

void orr_world_corrupt(orr_world *world, uint32_t from, uint32_t to)
{
    orr_world_link_set(world, from, to, ORR_LINK_CORRUPT, true);
}

void orr_world_reset(orr_world *world, uint32_t a, uint32_t b)
{
    for (uint32_t i = orr_world_machine_at(world, a)->ends; i != NONE; i = world->ends.at[i].next) {
        orr_world_end *end = &world->ends.at[i], *peer = orr_world_peer(world, end);
        if (peer->host != b)
            continue;
        end->lost = peer->lost = true;
        end->handed_ns = peer->handed_ns = world->now_ns;
        orr_world_tell_closed(world, end, world->now_ns, ORR_NET_PEER_CLOSED);
        orr_world_tell_closed(world, peer, world->now_ns, ORR_NET_PEER_CLOSED);
    }
}
