/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/network_internal.h"

#define NONE ORR_SIMNET_NONE

static void drop_waiting(orr_simnet *world, orr_simnet_host *host)
{
    for (uint32_t i = host->waiting_first, next; i != NONE; i = next) {
        next = world->queue.events.at[i].next;
        orr_simnet_event_drop(world, &world->queue.events.at[i]);
        orr_simnet_queue_free(&world->queue, i);
    }
    host->waiting_first = host->waiting_last = NONE;
}

void orr_simnet_kill(orr_simnet *world, uint32_t index, bool silently)
{
    orr_simnet_host *host = orr_simnet_host_at(world, index);
    if (host->dead)
        return;
    host->dead = true;
    host->silent = silently;
    while (host->ends != NONE)
        orr_simnet_disconnect(world, &world->ends.at[host->ends],
                              silently ? ORR_DISCONNECT_VANISH : ORR_DISCONNECT_DIE);
    orr_simnet_users_forget(world, host);
    drop_waiting(world, host);
    host->stopped = false;
}

void orr_simnet_restart(orr_simnet *world, uint32_t index)
{
    orr_simnet_host *host = orr_simnet_host_at(world, index);
    host->dead = host->silent = false;
}

void orr_simnet_stop(orr_simnet *world, uint32_t index)
{
    orr_simnet_host *host = orr_simnet_host_at(world, index);
    host->stopped = !host->dead;
}

void orr_simnet_continue(orr_simnet *world, uint32_t index)
{
    orr_simnet_host *host = orr_simnet_host_at(world, index);
    const uint32_t first = host->waiting_first;
    host->stopped = false;
    host->waiting_first = host->waiting_last = NONE;
    for (uint32_t i = first, next; i != NONE; i = next) {
        next = world->queue.events.at[i].next;
        if (!orr_simnet_queue_put(&world->queue, world->now_ns, i)) {
            world->short_of_memory = true;
            orr_simnet_event_drop(world, &world->queue.events.at[i]);
            orr_simnet_queue_free(&world->queue, i);
        }
    }
}

void orr_simnet_cut(orr_simnet *world, uint32_t from, uint32_t to, bool cut)
{
    orr_simnet_link_set(world, from, to, ORR_SIMNET_LINK_CUT, cut);
}

void orr_simnet_slow(orr_simnet *world, uint32_t host, double factor)
{
    orr_simnet_host_at(world, host)->slow = factor < 1 ? 1 : factor;
}

void orr_simnet_corrupt(orr_simnet *world, uint32_t from, uint32_t to)
{
    orr_simnet_link_set(world, from, to, ORR_SIMNET_LINK_CORRUPT, true);
}

void orr_simnet_reset(orr_simnet *world, uint32_t a, uint32_t b)
{
    for (uint32_t i = orr_simnet_host_at(world, a)->ends; i != NONE; i = world->ends.at[i].next) {
        orr_simnet_end *end = &world->ends.at[i], *peer = orr_simnet_peer(world, end);
        if (peer->host != b)
            continue;
        end->lost = peer->lost = true;
        end->handed_ns = peer->handed_ns = world->now_ns;
        orr_simnet_report_closed(world, end, world->now_ns, ORR_NET_PEER_CLOSED);
        orr_simnet_report_closed(world, peer, world->now_ns, ORR_NET_PEER_CLOSED);
    }
}
