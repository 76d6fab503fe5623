/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/net/parts.h"

/* Connections over TCP. These limits bound what one connection may do in a poll, so that no other
 * one starves. */
enum { TURN_READS = 16, TURN_FRAMES = 256, TURN_BYTES = 4 << 20 };

static ssize_t send_parts(const orr_net_connection *link, struct iovec *parts, int n)
{
    return link->tls != NULL ? orr_net_tls_send(link->tls, parts, n)
                             : orr_socket_send(link->fd, parts, n);
}

static ssize_t receive_parts(const orr_net_connection *link, struct iovec *parts, int n)
{
    return link->tls != NULL ? orr_net_tls_receive(link->tls, parts, n)
                             : orr_socket_receive(link->fd, parts, n);
}

/* Begins with the next address that can be called; -1: none is left. */
static int connect_next(const orr_net_system *net, orr_net_connection *link)
{
    int fd = -1;
    for (; fd < 0 && link->next_address != NULL; link->next_address = link->next_address->ai_next)
        fd = orr_tcp_connect_begin(link->next_address->ai_addr, link->next_address->ai_addrlen,
                                   net->options.socket_bytes);
    return fd;
}

orr_status orr_net_tcp_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret, orr_error *err)
{
    struct addrinfo *found = NULL;
    orr_net_connection *link;
    ORR_TRY(orr_address_resolve(&address->tcp, false, &found, err));
    const orr_status status = orr_net_connection_new(net, user, &orr_net_tcp_ops, -1, &link, err);
    if (status != ORR_OK) {
        freeaddrinfo(found);
        return status;
    }
    link->addresses = link->next_address = found;
    link->calling = true;
    link->clear = address->clear;
    link->fd = connect_next(net, link);
    if (link->fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS)) {
        orr_net_connection_kill(net, link);
        return orr_fail(err, ORR_IO, "calling %s:%s: %s", address->tcp.host, address->tcp.port,
                        strerror(errno));
    }
    if (link->fd < 0 || !orr_net_connection_watch(net, link, true, true))
        orr_net_connection_fail(net, link, ORR_NET_REFUSED);
    *ret = link->conn;
    return ORR_OK;
}

/* --- proof of the key ------------------------------------------------------------------------ */

/* The oldest caller that has proved nothing makes room: who has the key needs a moment only. */
static void make_room(orr_net_system *net)
{
    orr_net_connection *oldest = NULL;
    uint32_t callers = 0;
    for (size_t i = 0; i < net->slots.n; i++) {
        orr_net_connection *link = net->slots.at[i].link;
        if (link == NULL || !link->proving || !link->accepted)
            continue;
        callers++;
        if (oldest == NULL || link->prove_until_ns < oldest->prove_until_ns)
            oldest = link;
    }
    if (callers >= ORR_NET_PROOFS_MOST)
        orr_net_connection_kill(net, oldest);
}

bool orr_net_tcp_begin_proof(orr_net_system *net, orr_net_connection *link, bool accepted,
                             bool clear)
{
    if (accepted)
        make_room(net);
    link->tls = orr_net_tls_begin(net->tls, link->fd, accepted);
    if (link->tls == NULL)
        return false;
    link->calling = link->proving = true;
    link->accepted = accepted;
    link->clear = clear;
    link->prove_until_ns =
        orr_clock_now_ns(&orr_clock_monotonic) + ORR_NET_PROOF_S * INT64_C(1000000000);
    if (net->flushing + net->proving == 0 || link->prove_until_ns < net->flush_check_ns)
        net->flush_check_ns = link->prove_until_ns;
    net->proving++;
    return true;
}

static void open_link(orr_net_system *net, orr_net_connection *link)
{
    const orr_net_callbacks *user = link->user;
    if (link->accepted) {
        link->calling = false;
        if (user != NULL && user->accepted != NULL)
            user->accepted(user->ctx, link->conn);
    } else {
        orr_net_connection_connected(net, link);
    }
    if (!link->dead && link->queue.n == 0)
        orr_net_connection_watch(net, link, false, false);
}

static void on_proven(orr_net_system *net, orr_net_connection *link)
{
    link->proving = false;
    net->proving--;
    if (link->clear) {
        orr_net_tls_end(link->tls);
        link->tls = NULL;
    }
    open_link(net, link);
    if (!link->dead && link->tls != NULL && orr_net_tls_has_pending(link->tls))
        orr_net_connection_defer(net, link, ORR_NET_PENDING_READ);
}

static void prove(orr_net_system *net, orr_net_connection *link)
{
    switch (orr_net_tls_handshake(link->tls)) {
    case ORR_NET_TLS_PROVEN:
        on_proven(net, link);
        return;
    case ORR_NET_TLS_READING:
        orr_net_connection_watch(net, link, false, false);
        return;
    case ORR_NET_TLS_WRITING:
        orr_net_connection_watch(net, link, false, true);
        return;
    case ORR_NET_TLS_FAILED:
        if (link->accepted || link->user == NULL)
            orr_net_connection_kill(net, link);
        else
            orr_net_connection_close(net, link, ORR_NET_UNPROVEN);
    }
}

static void on_connected(orr_net_system *net, orr_net_connection *link)
{
    if (orr_tcp_connect_error(link->fd) == 0) {
        if (net->tls == NULL)
            open_link(net, link);
        else if (orr_net_tcp_begin_proof(net, link, false, link->clear))
            prove(net, link);
        else
            orr_net_connection_close(net, link, ORR_NET_MEMORY);
        return;
    }
    close(link->fd);
    link->fd = connect_next(net, link);
    if (link->fd < 0 || !orr_net_connection_watch(net, link, true, true))
        orr_net_connection_close(net, link, ORR_NET_REFUSED);
}

static size_t write_frame(orr_net_system *net, orr_net_connection *link, const orr_net_frame *frame,
                          const void *payload)
{
    struct iovec rest[2] = {{(void *)frame, sizeof *frame}, {(void *)payload, frame->bytes}};
    const ssize_t sent = send_parts(link, rest, frame->bytes > 0 ? 2 : 1);
    if (sent < 0)
        orr_net_connection_broken(net, link);
    return sent < 0 ? 0 : (size_t)sent;
}

static void push(orr_net_system *net, orr_net_connection *link)
{
    struct iovec rest[2 * ORR_NET_FRAMES_PER_SEND];
    size_t turn = 0;
    while (link->queue.n > 0 && turn < TURN_BYTES) {
        const ssize_t sent = send_parts(link, rest, orr_net_send_queue_buffers(&link->queue, rest));
        if (sent < 0) {
            orr_net_connection_broken(net, link);
            break;
        }
        if (sent == 0)
            break;
        orr_net_send_queue_advance(&link->queue, (size_t)sent);
        turn += (size_t)sent;
    }
    orr_net_connection_watch(net, link, false, link->queue.n > 0);
    orr_net_connection_after_send(net, link, turn > 0);
}

static void pull(orr_net_system *net, orr_net_connection *link)
{
    uint32_t frames = 0;
    for (int i = 0; i < TURN_READS && frames < TURN_FRAMES; i++) {
        struct iovec rest[2];
        const int parts = orr_net_frame_reader_buffers(&link->reader, rest);
        const size_t wanted = rest[0].iov_len + (parts > 1 ? rest[1].iov_len : 0);
        const ssize_t n = receive_parts(link, rest, parts);
        if (n == 0)
            return;
        if (n < 0) {
            orr_net_connection_close(net, link, ORR_NET_PEER_CLOSED);
            return;
        }
        orr_net_frame_reader_advance(&link->reader, (size_t)n);
        if (!orr_net_connection_read_frames(net, link, &frames) || (size_t)n < wanted)
            return;
    }
    if (link->tls != NULL && orr_net_tls_has_pending(link->tls))
        orr_net_connection_defer(net, link, ORR_NET_PENDING_READ);
}

static void waits(orr_net_system *net, orr_net_connection *link)
{
    orr_net_connection_watch(net, link, false, true);
}

static void ready(orr_net_system *net, orr_net_connection *link, uint32_t events)
{
    if (link->proving) {
        prove(net, link);
        return;
    }
    if (link->calling) {
        if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) != 0)
            on_connected(net, link);
        return;
    }
    if ((events & EPOLLOUT) != 0 && !link->broken)
        push(net, link);
    if (!link->dead && (events & ~(uint32_t)EPOLLOUT) != 0)
        pull(net, link);
}

static void done(orr_net_connection *link)
{
    if (link->addresses != NULL)
        freeaddrinfo(link->addresses);
}

const orr_net_connection_ops orr_net_tcp_ops = {
    .ready = ready, .push = push, .write = write_frame, .waits = waits, .done = done};
