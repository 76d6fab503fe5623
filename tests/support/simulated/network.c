/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "support/simulated/network_internal.h"

#define NONE ORR_SIMNET_NONE

orr_status orr_simnet_new(const orr_simnet_options *options, orr_simnet **ret, orr_error *err)
{
    const double bytes_per_s = options->bytes_per_s != 0 ? options->bytes_per_s : 10e9;
    if (options->latency_ns < 0 || options->jitter_ns < 0 || !(bytes_per_s > 0))
        return orr_fail(err, ORR_INVALID,
                        "a world's latency, jitter and bandwidth are not negative");
    orr_simnet *world = orr_calloc(1, sizeof *world);
    if (world == NULL)
        return orr_fail_memory(err);
    world->options = *options;
    if (options->latency_ns == 0 && options->jitter_ns == 0) {
        world->options.latency_ns = 20000;
        world->options.jitter_ns = 10000;
    }
    world->ns_per_byte = 1e9 / bytes_per_s;
    world->random = orr_random_of(options->seed, 0x776f726c64); /* a stream of its own */
    world->free_pair = world->free_user = world->free_listener = NONE;
    orr_simnet_queue_init(&world->queue);
    *ret = world;
    return ORR_OK;
}

void orr_simnet_free(orr_simnet *world)
{
    if (world == NULL)
        return;
    for (size_t i = 0; i < world->blocks.n; i++)
        orr_free(world->blocks.at[i]);
    orr_array_done(&world->blocks);
    orr_array_done(&world->ends);
    orr_array_done(&world->users);
    orr_array_done(&world->listeners);
    orr_array_done(&world->links);
    orr_simnet_queue_done(&world->queue);
    orr_buffer_pool_done(&world->pool);
    orr_free(world);
}

int64_t orr_simnet_now_ns(const orr_simnet *world)
{
    return world->now_ns;
}

uint64_t orr_simnet_events(const orr_simnet *world)
{
    return world->events;
}

uint64_t orr_simnet_digest(const orr_simnet *world)
{
    return world->digest;
}

uint64_t orr_simnet_changed_payloads(const orr_simnet *world)
{
    return world->changed;
}

bool orr_simnet_out_of_memory(const orr_simnet *world)
{
    return world->short_of_memory;
}

void orr_simnet_observe(orr_simnet *world, orr_simnet_observer *watcher, void *ctx)
{
    world->watcher = watcher;
    world->watcher_ctx = ctx;
}

static int64_t net_now_ns(orr_net *net)
{
    return ((orr_simnet_host *)net)->world->now_ns;
}

static void net_close(orr_net *net, orr_conn conn, bool flush)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    orr_simnet_end *end = orr_simnet_end_of(host->world, conn);
    if (host->dead || end == NULL || end->state == ORR_SIMNET_CLOSED)
        return;
    assert(end->host == host->index);
    orr_simnet_disconnect(host->world, end, flush ? ORR_DISCONNECT_FLUSH : ORR_DISCONNECT_CLOSE);
}

static void net_forget(orr_net *net, const orr_net_callbacks *user)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    if (!host->dead)
        orr_simnet_user_forget(host->world, host, user);
}

/* The world frees its nets; a host whose owner is done with its net has nothing open. */
static void net_free(orr_net *net)
{
    orr_simnet_host *host = (orr_simnet_host *)net;
    while (host->ends != NONE)
        orr_simnet_disconnect(host->world, &host->world->ends.at[host->ends], ORR_DISCONNECT_CLOSE);
    orr_simnet_users_forget(host->world, host);
}

static const orr_net world_net = {
    .name = "sim",
    .now_ns = net_now_ns,
    .listen = orr_simnet_listen,
    .connect = orr_simnet_connect,
    .send = orr_simnet_send,
    .queued = orr_simnet_queued,
    .close = net_close,
    .wake_at = orr_simnet_timer_at,
    .forget = net_forget,
    .free = net_free,
};

orr_status orr_simnet_add_host(orr_simnet *world, uint32_t *ret, orr_error *err)
{
    if (world->n_hosts % ORR_SIMNET_BLOCK == 0) {
        if (!orr_array_reserve(&world->blocks, 1))
            return orr_fail_memory(err);
        orr_simnet_host *block = orr_calloc(ORR_SIMNET_BLOCK, sizeof *block);
        if (block == NULL)
            return orr_fail_memory(err);
        world->blocks.at[world->blocks.n++] = block;
    }
    const uint32_t index = world->n_hosts++;
    *orr_simnet_host_at(world, index) = (orr_simnet_host){.net = world_net,
                                                          .world = world,
                                                          .index = index,
                                                          .users = NONE,
                                                          .listeners = NONE,
                                                          .ends = NONE,
                                                          .waiting_first = NONE,
                                                          .waiting_last = NONE,
                                                          .slow = 1};
    *ret = index;
    return ORR_OK;
}

orr_net *orr_simnet_host_net(orr_simnet *world, uint32_t host)
{
    return &orr_simnet_host_at(world, host)->net;
}

bool orr_simnet_schedule(orr_simnet *world, int64_t at_ns, const orr_simnet_event *event)
{
    uint32_t number;
    if (!orr_simnet_queue_new(&world->queue, &number)) {
        world->short_of_memory = true;
        return false;
    }
    world->queue.events.at[number] = *event;
    if (orr_simnet_queue_put(&world->queue, at_ns, number))
        return true;
    orr_simnet_queue_free(&world->queue, number);
    world->short_of_memory = true;
    return false;
}

void orr_simnet_event_drop(orr_simnet *world, orr_simnet_event *event)
{
    if (event->kind == ORR_SIMNET_EVENT_FRAME && event->payload != NULL &&
        !(event->flags & ORR_FRAME_LATE))
        orr_buffer_pool_give(&world->pool, (void *)event->payload, event->size);
    event->payload = NULL;
}

orr_status orr_simnet_at(orr_simnet *world, int64_t at_ns, orr_simnet_call *what, void *ctx,
                         orr_error *err)
{
    const orr_simnet_event event = {
        .kind = ORR_SIMNET_EVENT_CALL, .host = NONE, .call = what, .ctx = ctx};
    const bool put =
        orr_simnet_schedule(world, at_ns > world->now_ns ? at_ns : world->now_ns, &event);
    return put ? ORR_OK : orr_fail_memory(err);
}

static const char *const event_names[] = {"call",   "wake",  "dial",    "accept",
                                          "answer", "frame", "drained", "close"};

/* The run's signature, and its log. */
static void note(orr_simnet *world, const orr_simnet_event *event)
{
    uint64_t mixed = world->digest ^ (uint64_t)world->now_ns ^ (uint64_t)event->kind << 56 ^
                     (uint64_t)event->host << 24;
    if (event->kind == ORR_SIMNET_EVENT_FRAME)
        mixed ^= event->frame.payload_hash + event->frame.header_hash;
    mixed *= 0x9e3779b97f4a7c15; /* 2^64 / golden ratio */
    world->digest = mixed ^ mixed >> 29;
    world->events++;
    if (world->watcher == NULL)
        return;
    const orr_simnet_end *end =
        event->kind >= ORR_SIMNET_EVENT_CONNECT ? orr_simnet_end_of(world, event->conn) : NULL;
    world->watcher(world->watcher_ctx, world->now_ns, event_names[event->kind],
                   end != NULL ? orr_simnet_peer(world, end)->host : NONE, event->host,
                   event->kind == ORR_SIMNET_EVENT_FRAME ? &event->frame : NULL);
}

static void handle(orr_simnet *world, orr_simnet_event *event)
{
    switch ((orr_simnet_event_kind)event->kind) {
    case ORR_SIMNET_EVENT_CALL:
        event->call(event->ctx);
        return;
    case ORR_SIMNET_EVENT_TIMER:
        orr_simnet_timer_fires(world, event);
        return;
    case ORR_SIMNET_EVENT_CONNECT:
        orr_simnet_connect_arrives(world, event);
        return;
    case ORR_SIMNET_EVENT_ACCEPT:
        orr_simnet_accepted(world, event);
        return;
    case ORR_SIMNET_EVENT_CONNECTED:
        orr_simnet_connected(world, event);
        return;
    case ORR_SIMNET_EVENT_FRAME:
        orr_simnet_frame_arrives(world, event);
        return;
    case ORR_SIMNET_EVENT_DRAINED:
        orr_simnet_drained(world, event);
        return;
    case ORR_SIMNET_EVENT_CLOSE:
        orr_simnet_closed(world, event);
        return;
    }
}

/* A stopped host's events wait, in order. Calls are answered by its system. */
static bool waits(orr_simnet *world, const orr_simnet_event *event, uint32_t number)
{
    if (event->host == NONE || event->kind == ORR_SIMNET_EVENT_CONNECT)
        return false;
    orr_simnet_host *host = orr_simnet_host_at(world, event->host);
    if (!host->stopped)
        return false;
    world->queue.events.at[number].next = NONE;
    if (host->waiting_last != NONE)
        world->queue.events.at[host->waiting_last].next = number;
    else
        host->waiting_first = number;
    host->waiting_last = number;
    return true;
}

bool orr_simnet_step(orr_simnet *world, int64_t until_ns)
{
    int64_t at_ns;
    uint32_t number;
    if (!orr_simnet_queue_take(&world->queue, until_ns, &at_ns, &number)) {
        if (until_ns != INT64_MAX && until_ns > world->now_ns)
            world->now_ns = until_ns;
        return false;
    }
    world->now_ns = at_ns;
    if (!waits(world, &world->queue.events.at[number], number)) {
        orr_simnet_event event = world->queue.events.at[number];
        orr_simnet_queue_free(&world->queue, number);
        note(world, &event);
        handle(world, &event);
    }
    return true;
}

void orr_simnet_run(orr_simnet *world, int64_t until_ns)
{
    while (orr_simnet_step(world, until_ns))
        ;
}
