/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/simulated/network_internal.h"

#define NONE ORR_SIMNET_NONE

/* "h3:1": host 3, port 1; false: no such address. */
static bool read_address(const char *address, uint32_t *ret_host, uint32_t *ret_port)
{
    char *end;
    errno = 0;
    if (address[0] != 'h' || address[1] < '0' || address[1] > '9')
        return false;
    const unsigned long long host = strtoull(address + 1, &end, 10);
    if (*end != ':' || end[1] < '0' || end[1] > '9')
        return false;
    const unsigned long long port = strtoull(end + 1, &end, 10);
    if (*end != '\0' || errno != 0 || host >= NONE || port >= NONE)
        return false;
    *ret_host = (uint32_t)host;
    *ret_port = (uint32_t)port;
    return true;
}

/* The port of "where:port"; what stands before it is this host, whatever it is called. */
static bool read_port(const char *where, uint32_t *ret)
{
    const char *colon = strrchr(where, ':');
    uint32_t host;
    if (colon == NULL || strlen(colon) > 10)
        return false;
    char address[16];
    snprintf(address, sizeof address, "h0%s", colon);
    return read_address(address, &host, ret);
}

orr_status orr_simnet_listen(orr_net *net, const orr_net_callbacks *user, const char *where,
                             char ret_address[ORR_NET_ADDRESS_BYTES], orr_error *err)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    orr_simnet *world = host->world;
    uint32_t port;
    if (!read_port(where, &port))
        return orr_fail(err, ORR_INVALID, "'%s' is no address to listen at: host:port", where);
    if (host->dead)
        return orr_fail(err, ORR_IO, "host h%u is dead", host->index);
    if (port != 0 && orr_simnet_listener_of(world, host, port) != NULL)
        return orr_fail(err, ORR_IO, "port %u of host h%u is taken", port, host->index);
    while (port == 0 || (port == host->ports && orr_simnet_listener_of(world, host, port) != NULL))
        port = ++host->ports;
    if (orr_simnet_user_of(world, host, user) == NULL ||
        !orr_simnet_listener_add(world, host, user, port))
        return orr_fail_memory(err);
    snprintf(ret_address, ORR_NET_ADDRESS_BYTES, "h%u:%u", host->index, port);
    return ORR_OK;
}

static void link_to_host(orr_simnet *world, orr_simnet_host *host, uint32_t at)
{
    orr_simnet_end *end = &world->ends.at[at];
    end->previous = NONE;
    end->next = host->ends;
    if (host->ends != NONE)
        world->ends.at[host->ends].previous = at;
    host->ends = at;
}

static void unlink_from_host(orr_simnet *world, const orr_simnet_end *end)
{
    if (end->next != NONE)
        world->ends.at[end->next].previous = end->previous;
    if (end->previous != NONE)
        world->ends.at[end->previous].next = end->next;
    else
        orr_simnet_host_at(world, end->host)->ends = end->next;
}

static bool new_pair(orr_simnet *world, uint32_t *ret)
{
    if (world->free_pair != NONE) {
        *ret = world->free_pair;
        world->free_pair = world->ends.at[*ret].next;
        return true;
    }
    if (world->ends.n > UINT32_MAX - 2 || !orr_array_reserve(&world->ends, 2))
        return false;
    *ret = (uint32_t)world->ends.n;
    world->ends.at[world->ends.n++] = (orr_simnet_end){.generation = 1};
    world->ends.at[world->ends.n++] = (orr_simnet_end){.generation = 1};
    return true;
}

static void begin_end(orr_simnet *world, uint32_t at, uint32_t host)
{
    orr_simnet_end *end = &world->ends.at[at];
    const uint32_t drawn = orr_random_u32(&world->random);
    *end = (orr_simnet_end){.generation = end->generation,
                            .host = host,
                            .handed_ns = INT64_MAX,
                            .reads_late = drawn & 1,
                            .own_memory = drawn & 2};
}

/* Both sides are done with it: what is still under way to either will find another generation. */
static void release_if_done(orr_simnet *world, orr_simnet_end *end)
{
    orr_simnet_end *peer = orr_simnet_peer(world, end);
    if (end->state != ORR_SIMNET_CLOSED || peer->state != ORR_SIMNET_CLOSED)
        return;
    orr_simnet_end *first = end < peer ? end : peer;
    const uint32_t generation = end->generation + 1;
    end->generation = peer->generation = generation != 0 ? generation : 1;
    first->next = world->free_pair;
    world->free_pair = (uint32_t)(first - world->ends.at);
}

orr_status orr_simnet_connect(orr_net *net, const orr_net_callbacks *user, const char *address,
                              orr_conn *ret, orr_error *err)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    orr_simnet *world = host->world;
    uint32_t to, port, at;
    if (!read_address(address, &to, &port) || to >= world->n_hosts)
        return orr_fail(err, ORR_INVALID, "'%s' is no address: h<host>:<port>", address);
    if (host->dead)
        return orr_fail(err, ORR_IO, "host h%u is dead", host->index);
    if (orr_simnet_user_of(world, host, user) == NULL || !new_pair(world, &at))
        return orr_fail_memory(err);
    begin_end(world, at, host->index);
    begin_end(world, at ^ 1, to);
    orr_simnet_end *end = &world->ends.at[at];
    end->user = user;
    end->state = ORR_SIMNET_CONNECTING;
    end->lost = orr_simnet_link_faults(world, host->index, to) & ORR_SIMNET_LINK_CUT;
    end->arrive_ns = world->now_ns + orr_simnet_delay_ns(world, host->index, to);
    end->free_ns = end->arrive_ns + orr_simnet_delay_ns(world, to, host->index);
    link_to_host(world, host, at);
    const orr_simnet_event dial = {.kind = ORR_SIMNET_EVENT_CONNECT,
                                   .host = to,
                                   .port = port,
                                   .conn = orr_simnet_conn(world, at ^ 1)};
    if (!end->lost)
        orr_simnet_schedule(world, end->arrive_ns, &dial);
    *ret = orr_simnet_conn(world, at);
    return ORR_OK;
}

/* A call arrives at the machine, whose system answers it even where the process stands still. */
void orr_simnet_connect_arrives(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    orr_simnet_host *host = orr_simnet_host_at(world, event->host);
    if (end == NULL)
        return;
    orr_simnet_end *caller = orr_simnet_peer(world, end);
    if (host->silent ||
        orr_simnet_link_faults(world, end->host, caller->host) & ORR_SIMNET_LINK_CUT)
        return;
    const int64_t at_ns = world->now_ns + orr_simnet_delay_ns(world, end->host, caller->host);
    const orr_simnet_listener *listener =
        host->dead ? NULL : orr_simnet_listener_of(world, host, event->port);
    if (listener == NULL) {
        orr_simnet_report_closed(world, caller, at_ns, ORR_NET_REFUSED);
        return;
    }
    end->user = listener->user;
    end->state = ORR_SIMNET_OPEN;
    end->free_ns = world->now_ns;
    end->arrive_ns = at_ns;
    link_to_host(world, host, (uint32_t)event->conn);
    const orr_simnet_event answer = {.kind = ORR_SIMNET_EVENT_CONNECTED,
                                     .host = caller->host,
                                     .conn = orr_simnet_conn_of(world, caller)};
    const orr_simnet_event accept = {
        .kind = ORR_SIMNET_EVENT_ACCEPT, .host = event->host, .conn = event->conn};
    orr_simnet_schedule(world, at_ns, &answer);
    orr_simnet_schedule(world, world->now_ns, &accept);
}

void orr_simnet_accepted(orr_simnet *world, const orr_simnet_event *event)
{
    const orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    if (end != NULL && end->state == ORR_SIMNET_OPEN && end->user->accepted != NULL)
        end->user->accepted(end->user->ctx, event->conn);
}

void orr_simnet_connected(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    if (end == NULL || end->state != ORR_SIMNET_CONNECTING)
        return;
    end->state = ORR_SIMNET_OPEN;
    end->early_bytes = 0;
    if (end->drain_waits && end->late == 0) {
        const orr_simnet_event drain = {
            .kind = ORR_SIMNET_EVENT_DRAINED, .host = end->host, .conn = event->conn};
        end->drain_waits = false;
        end->drain_armed = orr_simnet_schedule(world, end->free_ns, &drain);
    }
    if (end->user->connected != NULL)
        end->user->connected(end->user->ctx, event->conn);
}

void orr_simnet_report_closed(orr_simnet *world, orr_simnet_end *end, int64_t at_ns,
                              orr_net_close_reason why)
{
    const orr_simnet_event event = {.kind = ORR_SIMNET_EVENT_CLOSE,
                                    .why = (uint8_t)why,
                                    .host = end->host,
                                    .conn = orr_simnet_conn_of(world, end)};
    orr_simnet_schedule(world, at_ns, &event);
}

void orr_simnet_closed(orr_simnet *world, const orr_simnet_event *event)
{
    orr_simnet_end *end = orr_simnet_end_of(world, event->conn);
    if (end == NULL || end->state == ORR_SIMNET_CLOSED)
        return;
    const orr_net_callbacks *user = end->user;
    end->state = ORR_SIMNET_CLOSED;
    end->handed_ns = world->now_ns;
    unlink_from_host(world, end);
    release_if_done(world, end);
    user->closed(user->ctx, event->conn, (orr_net_close_reason)event->why);
}

/* When the peer hears of it. A process that dies takes along what it had not read, and its system
 * then resets the connection: what was handed over just before may be lost too. */
static int64_t parting_ns(orr_simnet *world, const orr_simnet_end *end, uint32_t to,
                          orr_simnet_disconnection how)
{
    const double slowness = orr_simnet_slowdown(world, end->host, to);
    const int64_t longest_ns = world->options.latency_ns + world->options.jitter_ns;
    if (how == ORR_DISCONNECT_DIE)
        return world->now_ns + orr_simnet_delay_ns(world, end->host, to);
    const int64_t at_ns =
        world->now_ns + (int64_t)((double)longest_ns * (slowness > 1 ? slowness : 1));
    return how == ORR_DISCONNECT_FLUSH && end->arrive_ns > at_ns ? end->arrive_ns : at_ns;
}

void orr_simnet_disconnect(orr_simnet *world, orr_simnet_end *end, orr_simnet_disconnection how)
{
    if (end->state == ORR_SIMNET_CLOSED)
        return;
    if (how == ORR_DISCONNECT_FLUSH && end->late > 0)
        orr_simnet_keep_copies(world, end);
    if (how != ORR_DISCONNECT_FLUSH)
        end->handed_ns = world->now_ns;
    end->vanished = how == ORR_DISCONNECT_VANISH;
    end->state = ORR_SIMNET_CLOSED;
    unlink_from_host(world, end);
    orr_simnet_end *peer = orr_simnet_peer(world, end);
    end->lost |= (orr_simnet_link_faults(world, end->host, peer->host) & ORR_SIMNET_LINK_CUT) != 0;
    if (peer->state != ORR_SIMNET_CLOSED && !end->lost && how != ORR_DISCONNECT_VANISH)
        orr_simnet_report_closed(world, peer, parting_ns(world, end, peer->host, how),
                                 ORR_NET_PEER_CLOSED);
    release_if_done(world, end);
}
