/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/socket/tcp.h"
#include "io/transport/parts.h"
#include "io/transport/tcp.h"

/* The transport over TCP: a connection for each pair of ranks and each channel, so that threads
 * share nothing. A message is its length, 8 bytes little endian, and its payload. */
enum { HEADER_BYTES = 8, SLICE_MS = 200 };

typedef struct tcp_end {
    orr_transport transport;
    int64_t deadline_ns, spin_ns;
    atomic_bool given_up;
    int *sockets; /* shape (ranks, ORR_CHANNELS), -1: none */
} tcp_end;

/* One direction of an exchange. */
typedef struct tcp_way {
    int socket;
    uint32_t peer;
    uint8_t header[HEADER_BYTES];
    uint8_t *at;
    size_t moved, whole; /* with the header */
} tcp_way;

static tcp_way way_of(const tcp_end *end, uint32_t peer, uint32_t channel, void *at, size_t bytes)
{
    if (bytes == 0)
        return (tcp_way){.socket = -1, .peer = UINT32_MAX};
    tcp_way way = {.socket = end->sockets[peer * ORR_CHANNELS + channel],
                   .peer = peer,
                   .at = at,
                   .whole = bytes + HEADER_BYTES};
    for (int i = 0; i < HEADER_BYTES; i++)
        way.header[i] = (uint8_t)((uint64_t)bytes >> (8 * i));
    return way;
}

/* The buffers of what is left of header and payload. */
static int left_of(tcp_way *way, struct iovec rest[2])
{
    int n = 0;
    if (way->moved < HEADER_BYTES)
        rest[n++] = (struct iovec){way->header + way->moved, HEADER_BYTES - way->moved};
    const size_t at = way->moved < HEADER_BYTES ? 0 : way->moved - HEADER_BYTES;
    rest[n++] = (struct iovec){way->at + at, way->whole - HEADER_BYTES - at};
    return n;
}

/* The error of a lost connection. A rank that aborts resets its connections; one that ends, or is
 * killed, closes them. */
static orr_status gone(uint32_t rank, int error, orr_error *err)
{
    if (error == ECONNRESET)
        return orr_transport_fail_aborted(rank, err);
    if (error == 0 || error == EPIPE)
        return orr_fail(err, ORR_IO, "rank %u is gone", rank);
    return orr_fail(err, ORR_IO, "rank %u is gone: %s", rank, strerror(error));
}

static orr_status send_some(tcp_way *way, bool *ret_moved, orr_error *err)
{
    if (way->moved == way->whole)
        return ORR_OK;
    struct iovec rest[2];
    const ssize_t n = orr_socket_send(way->socket, rest, left_of(way, rest));
    if (n < 0)
        return gone(way->peer, errno, err);
    way->moved += (size_t)n;
    *ret_moved |= n > 0;
    return ORR_OK;
}

static uint64_t length_in(const uint8_t header[HEADER_BYTES])
{
    uint64_t length = 0;
    for (int i = 0; i < HEADER_BYTES; i++)
        length |= (uint64_t)header[i] << (8 * i);
    return length;
}

/* The received header overwrites the expected one, and is compared with the expected length. */
static orr_status receive_some(const tcp_end *end, tcp_way *way, bool *ret_moved, orr_error *err)
{
    if (way->moved == way->whole)
        return ORR_OK;
    struct iovec rest[2];
    const size_t before = way->moved;
    const ssize_t n = orr_socket_receive(way->socket, rest, left_of(way, rest));
    if (n < 0)
        return gone(way->peer, errno, err);
    way->moved += (size_t)n;
    *ret_moved |= n > 0;
    if (before < HEADER_BYTES && way->moved >= HEADER_BYTES) {
        const uint64_t length = length_in(way->header), wanted = way->whole - HEADER_BYTES;
        if (length != wanted)
            return orr_transport_fail_length(way->peer, length, end->transport.rank, wanted, err);
    }
    return ORR_OK;
}

/* Waits until something can move, for SLICE_MS at most. */
static orr_status await(tcp_end *end, const tcp_way *out, const tcp_way *in, int64_t since_ns,
                        orr_error *err)
{
    struct pollfd both[2];
    nfds_t n = 0;
    if (in->moved < in->whole)
        both[n++] = (struct pollfd){.fd = in->socket, .events = POLLIN};
    if (out->moved < out->whole)
        both[n++] = (struct pollfd){.fd = out->socket, .events = POLLOUT};
    if (poll(both, n, SLICE_MS) > 0)
        return ORR_OK;
    if (end->deadline_ns > 0 &&
        orr_clock_now_ns(&orr_clock_monotonic) - since_ns > end->deadline_ns)
        return orr_transport_fail_timeout(in->moved < in->whole ? in->peer : out->peer,
                                          end->deadline_ns, err);
    return ORR_OK;
}

static orr_status move(tcp_end *end, const orr_exchange *x, orr_error *err)
{
    tcp_way out = way_of(end, x->to, x->channel, (void *)x->out, x->out_bytes);
    tcp_way in = way_of(end, x->from, x->channel, x->in, x->in_bytes);
    int64_t since_ns = 0; /* of the silence */
    for (;;) {
        bool moved = false;
        ORR_TRY(send_some(&out, &moved, err));
        ORR_TRY(receive_some(end, &in, &moved, err));
        if (out.moved == out.whole && in.moved == in.whole)
            return ORR_OK;
        if (moved) {
            since_ns = 0;
            continue;
        }
        const int64_t now_ns = orr_clock_now_ns(&orr_clock_monotonic);
        if (since_ns == 0)
            since_ns = now_ns;
        else if (now_ns - since_ns > end->spin_ns)
            ORR_TRY(await(end, &out, &in, since_ns, err));
    }
}

/* Aborts by resetting all connections, which other threads of this rank and all other ranks see at
 * once: connecting a TCP socket to AF_UNSPEC disconnects it, connect(2). */
static void give_up(orr_transport *self)
{
    tcp_end *end = self->ctx;
    const struct sockaddr nowhere = {.sa_family = AF_UNSPEC};
    if (atomic_exchange(&end->given_up, true))
        return;
    for (uint32_t i = 0; i < self->ranks * ORR_CHANNELS; i++)
        if (end->sockets[i] >= 0)
            connect(end->sockets[i], &nowhere, sizeof nowhere);
}

static orr_status exchange(orr_transport *self, const orr_exchange *x, orr_error *err)
{
    tcp_end *end = self->ctx;
    bool done = false;
    orr_status status = orr_transport_begin(self, x, &done, err);
    if (status == ORR_OK && atomic_load(&end->given_up))
        return orr_transport_fail_aborted(self->rank, err);
    if (status == ORR_OK && !done)
        status = move(end, x, err);
    if (status == ORR_IO && atomic_load(&end->given_up))
        status = orr_transport_fail_aborted(self->rank, err); /* by another thread of this rank */
    if (status != ORR_OK)
        give_up(self);
    return status;
}

static void leave(orr_transport *self)
{
    if (self == NULL)
        return;
    tcp_end *end = self->ctx;
    for (uint32_t i = 0; i < self->ranks * ORR_CHANNELS; i++)
        if (end->sockets[i] >= 0)
            close(end->sockets[i]);
    orr_free(end->sockets);
    orr_free(end);
}

orr_status orr_transport_tcp_connect(uint32_t rank, uint32_t ranks, int listener,
                                     const char *const *addresses, int64_t deadline_ns,
                                     const _Atomic uint32_t *failed, orr_transport **ret,
                                     orr_error *err)
{
    size_t n;
    if (ranks == 0 || rank >= ranks || !orr_mul_size(ranks, ORR_CHANNELS, &n))
        return orr_fail(err, ORR_INVALID, "rank %u, of %u", rank, ranks);
    tcp_end *end = orr_calloc(1, sizeof *end);
    int *sockets = orr_calloc(n, sizeof *sockets);
    if (end == NULL || sockets == NULL) {
        orr_free(end);
        orr_free(sockets);
        return orr_fail_memory(err);
    }
    for (size_t i = 0; i < n; i++)
        sockets[i] = -1;
    end->deadline_ns = deadline_ns;
    end->spin_ns = orr_transport_spin_ns(ranks);
    end->sockets = sockets;
    end->transport = (orr_transport){.rank = rank,
                                     .ranks = ranks,
                                     .name = "tcp",
                                     .ctx = end,
                                     .exchange = exchange,
                                     .abort = give_up,
                                     .close = leave};
    const orr_status status = orr_transport_tcp_rendezvous(rank, ranks, listener, addresses,
                                                           deadline_ns, failed, sockets, err);
    if (status != ORR_OK)
        leave(&end->transport);
    else
        *ret = &end->transport;
    return status;
}
