/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/net/parts.h"

/* The life of a connection: connecting (frames queue), open, broken (sending failed; received bytes
 * are still read), flushing (its user has closed it; user is NULL), dead. A dead one is freed only
 * at the end of a poll, since a callback of it may be running.
 *
 * A connection's number is its slot and the generation of that slot, so that the number of a closed
 * connection finds nothing, though the slot is used again (no ABA problem). */

static const uint32_t generations_max = INT32_MAX; /* after which a slot is not used again */

static orr_conn number_of(uint32_t slot, uint32_t generation)
{
    return (uint64_t)generation << 32 | (slot + 1);
}

orr_net_connection *orr_net_connection_of(const orr_net_system *net, orr_conn conn)
{
    const uint32_t slot = (uint32_t)conn - 1;
    if (conn == 0 || slot >= net->slots.n || net->slots.at[slot].generation != conn >> 32)
        return NULL;
    return net->slots.at[slot].link;
}

/* Reserves its place in the free list too, so that giving it back cannot fail. */
static bool take_slot(orr_net_system *net, orr_net_connection *link)
{
    uint32_t slot;
    if (net->free_slots.n > 0) {
        slot = net->free_slots.at[--net->free_slots.n];
    } else {
        if (net->slots.n >= INT32_MAX || !orr_array_reserve(&net->free_slots, net->slots.n + 1) ||
            !orr_array_push(&net->slots, ((orr_net_slot){0})))
            return false;
        slot = (uint32_t)net->slots.n - 1;
    }
    net->slots.at[slot].link = link;
    link->conn = number_of(slot, ++net->slots.at[slot].generation);
    return true;
}

static void give_slot(orr_net_system *net, const orr_net_connection *link)
{
    const uint32_t slot = (uint32_t)link->conn - 1;
    net->slots.at[slot].link = NULL;
    if (net->slots.at[slot].generation < generations_max)
        net->free_slots.at[net->free_slots.n++] = slot;
}

orr_status orr_net_connection_new(orr_net_system *net, const orr_net_callbacks *user,
                                  const orr_net_connection_ops *wire, int fd,
                                  orr_net_connection **ret, orr_error *err)
{
    orr_net_connection *link = orr_malloc_aligned(sizeof *link);
    if (link == NULL)
        return orr_fail_memory(err);
    memset(link, 0, sizeof *link);
    link->user = user;
    link->wire = wire;
    link->fd = fd;
    if (!take_slot(net, link)) {
        orr_free(link);
        return orr_fail_memory(err);
    }
    *ret = link;
    return ORR_OK;
}

bool orr_net_connection_watch(orr_net_system *net, orr_net_connection *link, bool add, bool writing)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | (writing ? EPOLLOUT : 0u),
                                .data.u64 = link->conn};
    if (!add && writing == link->writing)
        return true;
    link->writing = writing;
    return epoll_ctl(net->epoll, add ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, link->fd, &event) == 0;
}

void orr_net_connection_defer(orr_net_system *net, orr_net_connection *link, unsigned what)
{
    link->todo |= what;
    if (link->in_todo || link->dead)
        return;
    link->in_todo = true;
    link->next_todo = NULL;
    if (net->todo_last != NULL)
        net->todo_last->next_todo = link;
    else
        net->todo_first = link;
    net->todo_last = link;
}

void orr_net_connection_fail(orr_net_system *net, orr_net_connection *link,
                             orr_net_close_reason why)
{
    if ((link->todo & ORR_NET_PENDING_CLOSE) == 0)
        link->why = why;
    link->broken = true;
    orr_net_send_queue_clear(&link->queue);
    orr_net_connection_defer(net, link, ORR_NET_PENDING_CLOSE);
}

void orr_net_connection_kill(orr_net_system *net, orr_net_connection *link)
{
    if (link->dead)
        return;
    link->dead = true;
    if (link->user == NULL)
        net->flushing--;
    net->proving -= link->proving;
    give_slot(net, link);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
    for (size_t i = 0; i < net->shms.n; i++)
        if (net->shms.at[i] == link)
            net->shms.at[i] = NULL; /* a loop over them may be running */
    link->next_dead = net->dead;
    net->dead = link;
}

void orr_net_connection_close(orr_net_system *net, orr_net_connection *link,
                              orr_net_close_reason why)
{
    const orr_net_callbacks *user = link->user;
    const orr_conn conn = link->conn;
    if (link->dead)
        return;
    orr_net_connection_kill(net, link);
    if (user != NULL && user->closed != NULL)
        user->closed(user->ctx, conn, why);
}

void orr_net_connection_connected(orr_net_system *net, orr_net_connection *link)
{
    link->calling = false;
    if (link->user != NULL && link->user->connected != NULL)
        link->user->connected(link->user->ctx, link->conn);
    if (!link->dead && link->queue.n > 0)
        link->wire->push(net, link);
}

void orr_net_connection_broken(orr_net_system *net, orr_net_connection *link)
{
    link->broken = true;
    orr_net_send_queue_clear(&link->queue);
    orr_net_connection_defer(net, link, ORR_NET_PENDING_READ);
}

void orr_net_connection_after_send(orr_net_system *net, orr_net_connection *link, bool moved)
{
    if (link->user == NULL && moved)
        link->flush_until_ns =
            orr_clock_now_ns(&orr_clock_monotonic) + ORR_NET_FLUSH_S * INT64_C(1000000000);
    if (link->queue.n > 0 || link->broken || link->dead)
        return;
    if (link->user == NULL && !link->shut && !link->calling) {
        link->shut = true;
        shutdown(link->fd, SHUT_WR);
    } else if (link->user != NULL && link->user->drained != NULL) {
        orr_net_connection_defer(net, link, ORR_NET_PENDING_DRAINED);
    }
}

bool orr_net_connection_deliver(orr_net_system *net, orr_net_connection *link,
                                const orr_net_frame *frame, const void *payload)
{
    (void)net;
    if (link->user != NULL && link->user->frame != NULL)
        link->user->frame(link->user->ctx, link->conn, frame, payload);
    return !link->dead;
}

bool orr_net_connection_place(orr_net_system *net, orr_net_connection *link,
                              const orr_net_frame *frame, bool reads)
{
    const orr_net_callbacks *user = link->user;
    void *to = NULL;
    if (user != NULL && user->place != NULL && frame->bytes > 0)
        to = user->place(user->ctx, link->conn, frame);
    if (link->dead)
        return false;
    if (!reads || orr_net_frame_reader_place(&link->reader, to))
        return true;
    orr_net_connection_close(net, link, ORR_NET_MEMORY);
    return false;
}

bool orr_net_connection_read_frames(orr_net_system *net, orr_net_connection *link, uint32_t *count)
{
    const bool unchecked = net->options.unchecked || link->wire->unhashed;
    for (;;) {
        switch (orr_net_frame_reader_next(&link->reader, unchecked)) {
        case ORR_NET_FRAME_INCOMPLETE:
            return true;
        case ORR_NET_FRAME_HEADER:
            if (!orr_net_connection_place(net, link, &link->reader.frame, true))
                return false;
            break;
        case ORR_NET_FRAME_WHOLE:
            ++*count;
            if (!orr_net_connection_deliver(net, link, &link->reader.frame, link->reader.to))
                return false;
            break;
        case ORR_NET_FRAME_CORRUPT:
            orr_net_connection_close(net, link, ORR_NET_CORRUPT);
            return false;
        }
    }
}

static void free_link(orr_net_connection *link)
{
    orr_net_tls_end(link->tls);
    if (link->wire->done != NULL)
        link->wire->done(link);
    orr_net_send_queue_done(&link->queue);
    orr_net_frame_reader_done(&link->reader);
    orr_free(link);
}

void orr_net_connection_reap(orr_net_system *net)
{
    if (net->dead == NULL)
        return;
    orr_net_connection *todo = net->todo_first;
    net->todo_first = net->todo_last = NULL;
    for (orr_net_connection *next; todo != NULL; todo = next) {
        next = todo->next_todo;
        todo->in_todo = false;
        if (!todo->dead)
            orr_net_connection_defer(net, todo, 0);
    }
    size_t n = 0;
    for (size_t i = 0; i < net->shms.n; i++)
        if (net->shms.at[i] != NULL)
            net->shms.at[n++] = net->shms.at[i];
    net->shms.n = n;
    while (net->dead != NULL) {
        orr_net_connection *link = net->dead;
        net->dead = link->next_dead;
        free_link(link);
    }
}
