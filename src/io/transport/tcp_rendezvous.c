/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/socket/greeting.h"
#include "io/socket/tcp.h"
#include "io/transport/parts.h"
#include "io/transport/tcp.h"

/* The rendezvous of ranks over TCP: each calls all below it, once for every channel, and is called
 * by all above it. The body of the greeting on each connection says who calls whom, in network byte
 * order. */
typedef struct tcp_greeting {
    uint32_t rank, ranks, to, channel;
} tcp_greeting;
static const char magic[ORR_GREETING_MAGIC_BYTES] = "orrery1";

enum { RETRY_NS = 20 * 1000 * 1000, LOOK_NS = 100 * 1000 * 1000 };
static const int64_t GREETING_NS = INT64_C(2) * 1000 * 1000 * 1000;
/* Those who never wait for a deadline still do not look for others forever. */
static const int64_t RENDEZVOUS_NS = INT64_C(300) * 1000 * 1000 * 1000;

typedef struct rendezvous {
    uint32_t rank, ranks;
    int listener;
    const char *const *addresses;
    int64_t deadline_ns; /* of the clock */
    const _Atomic uint32_t *failed;
    int *sockets;
} rendezvous;

static int64_t now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

static bool has_failed(const rendezvous *m)
{
    return m->failed != NULL && atomic_load(m->failed) > 0;
}

/* Calls until the other listens, which it may begin to do later than this rank calls. */
static orr_status call(const rendezvous *m, uint32_t rank, uint32_t channel,
                       const struct addrinfo *found, orr_error *err)
{
    const tcp_greeting hello = {.rank = htonl(m->rank),
                                .ranks = htonl(m->ranks),
                                .to = htonl(rank),
                                .channel = htonl(channel)};
    int fd;
    while ((fd = orr_tcp_connect(found, m->deadline_ns)) < 0) {
        const int error = errno;
        if (error == EMFILE || error == ENFILE || now_ns() > m->deadline_ns || has_failed(m)) {
            errno = has_failed(m) ? ECANCELED : error;
            return orr_fail(err, ORR_IO, "rank %u at %s cannot be reached: %s", rank,
                            m->addresses[rank], strerror(error));
        }
        orr_clock_sleep_until_ns(&orr_clock_monotonic, now_ns() + RETRY_NS);
    }
    m->sockets[rank * ORR_CHANNELS + channel] = fd;
    if (!orr_greeting_send(fd, magic, &hello, sizeof hello, -1))
        return orr_fail(err, ORR_IO, "rank %u at %s is gone", rank, m->addresses[rank]);
    return ORR_OK;
}

static orr_status connect_to_lower_ranks(const rendezvous *m, orr_error *err)
{
    for (uint32_t rank = 0; rank < m->rank; rank++) {
        struct addrinfo *found = NULL;
        ORR_TRY(orr_address_resolve_text(m->addresses[rank], false, &found, err));
        orr_status status = ORR_OK;
        for (uint32_t c = 0; status == ORR_OK && c < ORR_CHANNELS; c++)
            status = call(m, rank, c, found, err);
        freeaddrinfo(found);
        ORR_TRY(status);
    }
    return ORR_OK;
}

/* Reads who called. False: a stranger, or one of another job, to be hung up on. */
static bool read_greeting(const rendezvous *m, int fd)
{
    tcp_greeting hello;
    int descriptor;
    if (orr_greeting_receive(fd, magic, &hello, sizeof hello, now_ns() + GREETING_NS,
                             &descriptor) != ORR_GREETING_HERE)
        return false;
    const uint32_t rank = ntohl(hello.rank), channel = ntohl(hello.channel);
    if (ntohl(hello.ranks) != m->ranks || ntohl(hello.to) != m->rank || rank <= m->rank ||
        rank >= m->ranks || channel >= ORR_CHANNELS ||
        m->sockets[rank * ORR_CHANNELS + channel] >= 0)
        return false;
    orr_tcp_tune(fd, 0);
    m->sockets[rank * ORR_CHANNELS + channel] = fd;
    return true;
}

/* Waits for a call. False: none came by the deadline, or a rank has failed. */
static bool await_call(const rendezvous *m)
{
    for (int64_t now = now_ns(); now < m->deadline_ns && !has_failed(m); now = now_ns())
        if (orr_socket_wait(m->listener, POLLIN,
                            now + LOOK_NS < m->deadline_ns ? now + LOOK_NS : m->deadline_ns))
            return true;
    return false;
}

static orr_status accept_higher_ranks(const rendezvous *m, orr_error *err)
{
    size_t left = (size_t)(m->ranks - 1 - m->rank) * ORR_CHANNELS;
    while (left > 0) {
        if (!await_call(m)) {
            errno = has_failed(m) ? ECANCELED : 0; /* then that is the cause */
            return orr_fail(err, ORR_IO, "%zu connections of ranks above %u did not come in time",
                            left, m->rank);
        }
        const int fd = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == EBADF || errno == EINVAL))
            return orr_fail(err, ORR_IO, "accepting a connection: %s", strerror(errno));
        if (fd < 0)
            continue;
        if (read_greeting(m, fd))
            left--;
        else
            close(fd);
    }
    return ORR_OK;
}

/* As many files as this process may have. */
static void raise_file_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < limit.rlim_max) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

orr_status orr_transport_tcp_rendezvous(uint32_t rank, uint32_t ranks, int listener,
                                        const char *const *addresses, int64_t deadline_ns,
                                        const _Atomic uint32_t *failed, int *sockets,
                                        orr_error *err)
{
    const int64_t within_ns = deadline_ns > 0 ? deadline_ns : RENDEZVOUS_NS;
    const rendezvous m = {.rank = rank,
                          .ranks = ranks,
                          .listener = listener,
                          .addresses = addresses,
                          .deadline_ns = now_ns() + within_ns,
                          .failed = failed,
                          .sockets = sockets};
    raise_file_limit();
    if (rank + 1 < ranks && listen(listener, SOMAXCONN) != 0)
        return orr_fail(err, ORR_IO, "listening: %s", strerror(errno));
    ORR_TRY(connect_to_lower_ranks(&m, err));
    return accept_higher_ranks(&m, err);
}

orr_status orr_transport_tcp_listen(const char *host, int *ret_socket, char *ret_address,
                                    size_t room, orr_error *err)
{
    orr_address address = {.port = "0"};
    const bool fits =
        (size_t)snprintf(address.host, sizeof address.host, "%s", host) < sizeof address.host;
    int fd = -1;
    if (fits)
        ORR_TRY(orr_tcp_listen(&address, 0, &fd, err));
    if (fits && orr_address_print(&address, ret_address, room) > 0) {
        *ret_socket = fd;
        return ORR_OK;
    }
    if (fd >= 0)
        close(fd);
    return orr_fail(err, ORR_INVALID, "%s: the address is too long", host);
}
