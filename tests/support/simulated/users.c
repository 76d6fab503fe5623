/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/network_internal.h"

/* Who listens, calls and sleeps on a host. A host has a handful of users: lists. */
#define NONE ORR_SIMNET_NONE

static orr_simnet_user *find(orr_simnet *world, const orr_simnet_host *host,
                             const orr_net_callbacks *user)
{
    for (uint32_t i = host->users; i != NONE; i = world->users.at[i].next)
        if (world->users.at[i].user == user)
            return &world->users.at[i];
    return NULL;
}

orr_simnet_user *orr_simnet_user_of(orr_simnet *world, orr_simnet_host *host,
                                    const orr_net_callbacks *user)
{
    orr_simnet_user *found = find(world, host, user);
    if (found != NULL)
        return found;
    uint32_t at = world->free_user, generation = 0;
    if (at != NONE) {
        world->free_user = world->users.at[at].next;
        generation = world->users.at[at].generation;
    } else if (orr_array_reserve(&world->users, 1)) {
        at = (uint32_t)world->users.n++;
    } else {
        world->short_of_memory = true;
        return NULL;
    }
    world->users.at[at] = (orr_simnet_user){.user = user,
                                            .wake_ns = INT64_MAX,
                                            .armed_ns = INT64_MAX,
                                            .generation = generation,
                                            .next = host->users};
    host->users = at;
    return &world->users.at[at];
}

/* Takes user record *link out of its list; its timers find another generation. */
static void release_user(orr_simnet *world, uint32_t *link)
{
    const uint32_t at = *link;
    orr_simnet_user *record = &world->users.at[at];
    *link = record->next;
    record->generation++;
    record->next = world->free_user;
    world->free_user = at;
}

static void release_listener(orr_simnet *world, uint32_t *link)
{
    const uint32_t at = *link;
    orr_simnet_listener *listener = &world->listeners.at[at];
    *link = listener->next;
    listener->next = world->free_listener;
    world->free_listener = at;
}

void orr_simnet_user_forget(orr_simnet *world, orr_simnet_host *host, const orr_net_callbacks *user)
{
    for (uint32_t i = host->ends, next; i != NONE; i = next) {
        next = world->ends.at[i].next;
        if (world->ends.at[i].user == user)
            orr_simnet_disconnect(world, &world->ends.at[i], ORR_DISCONNECT_CLOSE);
    }
    for (uint32_t *link = &host->listeners; *link != NONE;) {
        orr_simnet_listener *listener = &world->listeners.at[*link];
        if (listener->user == user)
            release_listener(world, link);
        else
            link = &listener->next;
    }
    for (uint32_t *link = &host->users; *link != NONE; link = &world->users.at[*link].next) {
        if (world->users.at[*link].user == user) {
            release_user(world, link);
            break;
        }
    }
}

void orr_simnet_users_forget(orr_simnet *world, orr_simnet_host *host)
{
    while (host->listeners != NONE)
        release_listener(world, &host->listeners);
    while (host->users != NONE)
        release_user(world, &host->users);
}

/* One event a user is in the queue as a rule: a later time waits until that comes. */
static void arm(orr_simnet *world, uint32_t host, orr_simnet_user *record)
{
    if (record->wake_ns >= record->armed_ns)
        return;
    const orr_simnet_event event = {.kind = ORR_SIMNET_EVENT_TIMER,
                                    .host = host,
                                    .user = (uint32_t)(record - world->users.at),
                                    .generation = record->generation,
                                    .at_ns = record->wake_ns};
    if (orr_simnet_schedule(world, record->wake_ns, &event))
        record->armed_ns = record->wake_ns;
}

void orr_simnet_timer_at(orr_net *net, const orr_net_callbacks *user, int64_t at_ns)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    orr_simnet *world = host->world;
    if (host->dead)
        return;
    orr_simnet_user *record = orr_simnet_user_of(world, host, user);
    if (record == NULL)
        return;
    record->wake_ns = at_ns < world->now_ns ? world->now_ns : at_ns;
    arm(world, host->index, record);
}

void orr_simnet_timer_fires(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_user *record = &world->users.at[event->user];
    if (record->generation != event->generation || record->armed_ns != event->at_ns)
        return;
    record->armed_ns = INT64_MAX;
    if (record->wake_ns > world->now_ns) {
        arm(world, event->host, record);
        return;
    }
    const orr_net_callbacks *user = record->user;
    record->wake_ns = INT64_MAX;
    if (user->woken != NULL)
        user->woken(user->ctx);
}

bool orr_simnet_listener_add(orr_simnet *world, orr_simnet_host *host,
                             const orr_net_callbacks *user, uint32_t port)
{
    uint32_t at = world->free_listener;
    if (at != NONE)
        world->free_listener = world->listeners.at[at].next;
    else if (orr_array_reserve(&world->listeners, 1))
        at = (uint32_t)world->listeners.n++;
    else
        return false;
    world->listeners.at[at] =
        (orr_simnet_listener){.user = user, .port = port, .next = host->listeners};
    host->listeners = at;
    return true;
}

const orr_simnet_listener *orr_simnet_listener_of(const orr_simnet *world,
                                                  const orr_simnet_host *host, uint32_t port)
{
    for (uint32_t i = host->listeners; i != NONE; i = world->listeners.at[i].next)
        if (world->listeners.at[i].port == port)
            return &world->listeners.at[i];
    return NULL;
}
