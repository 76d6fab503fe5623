/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/transport/parts.h"
#include "io/transport/tcp.h"

/* How ranks find one another by TCP. The first bytes on each connection say who calls. */
typedef struct greeting {
    char magic[8];
    uint32_t rank, ranks, to, channel; /* network byte order */
} greeting;
static const char magic[8] = "orrery1";

enum { AGAIN_NS = 20 * 1000 * 1000, HOST_ROOM = 256, GREETING_MS = 2000 };
/* Those who never wait for a deadline still do not look for others forever. */
static const int64_t RENDEZVOUS_NS = INT64_C(300) * 1000 * 1000 * 1000;

typedef struct rendezvous {
    uint32_t rank, ranks;
    int listener;
    const char *const *addresses;
    int64_t deadline_ns; /* of the clock */
    int *sockets;
} rendezvous;

static void pause_ns(int64_t ns)
{
    const struct timespec t = {.tv_nsec = ns};
    nanosleep(&t, NULL);
}

/* A peer whose machine is lost is noticed though nothing is sent. */
static void tune(int socket)
{
    const int on = 1, idle_s = 10, between_s = 5, probes = 3;
    setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

/* "host:port", the host perhaps in brackets: "[::1]:5000". */
static orr_status look_up(const char *address, bool passive, struct addrinfo **ret, orr_error *err)
{
    char host[HOST_ROOM];
    const char *colon = strrchr(address, ':');
    size_t n = colon == NULL ? 0 : (size_t)(colon - address);
    const char *begin = address;
    if (n >= 2 && begin[0] == '[' && begin[n - 1] == ']') {
        begin++;
        n -= 2;
    }
    if (colon == NULL || n >= sizeof host)
        return orr_fail(err, ORR_INVALID, "%s: an address is host:port", address);
    memcpy(host, begin, n);
    host[n] = '\0';
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                                   .ai_flags = passive ? AI_PASSIVE : 0};
    const int error = getaddrinfo(n == 0 ? NULL : host, colon + 1, &hints, ret);
    if (error != 0)
        return orr_fail(err, ORR_IO, "%s: %s", address, gai_strerror(error));
    return ORR_OK;
}

static bool wait_for(int socket, short events, int64_t until_ns)
{
    const int64_t left_ns = until_ns - orr_transport_now_ns();
    struct pollfd one = {.fd = socket, .events = events};
    return left_ns > 0 && poll(&one, 1, (int)(left_ns / 1000000 + 1)) > 0;
}

/* -1: not now. */
static int call_once(const struct addrinfo *to, int64_t deadline_ns)
{
    const int s =
        socket(to->ai_family, to->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, to->ai_protocol);
    if (s < 0)
        return -1;
    int error = connect(s, to->ai_addr, to->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && wait_for(s, POLLOUT, deadline_ns)) {
        socklen_t n = sizeof error;
        getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &n);
    }
    if (error == 0)
        return s;
    close(s);
    errno = error;
    return -1;
}

static orr_status call(const rendezvous *m, uint32_t rank, uint32_t channel,
                       const struct addrinfo *found, orr_error *err)
{
    greeting hello = {.rank = htonl(m->rank),
                      .ranks = htonl(m->ranks),
                      .to = htonl(rank),
                      .channel = htonl(channel)};
    memcpy(hello.magic, magic, sizeof magic);
    for (;;) {
        for (const struct addrinfo *at = found; at != NULL; at = at->ai_next) {
            const int s = call_once(at, m->deadline_ns);
            if (s < 0)
                continue;
            tune(s);
            m->sockets[rank * ORR_CHANNELS + channel] = s;
            if (send(s, &hello, sizeof hello, MSG_NOSIGNAL) == (ssize_t)sizeof hello)
                return ORR_OK;
            return orr_fail(err, ORR_IO, "rank %u at %s is gone", rank, m->addresses[rank]);
        }
        const int error = errno;
        if (error == EMFILE || error == ENFILE || orr_transport_now_ns() > m->deadline_ns)
            return orr_fail(err, ORR_IO, "rank %u at %s cannot be reached: %s", rank,
                            m->addresses[rank], strerror(error));
        pause_ns(AGAIN_NS);
    }
}

static orr_status connect_to_lower_ranks(const rendezvous *m, orr_error *err)
{
    for (uint32_t rank = 0; rank < m->rank; rank++) {
        struct addrinfo *found = NULL;
        ORR_TRY(look_up(m->addresses[rank], false, &found, err));
        orr_status status = ORR_OK;
        for (uint32_t c = 0; status == ORR_OK && c < ORR_CHANNELS; c++)
            status = call(m, rank, c, found, err);
        freeaddrinfo(found);
        ORR_TRY(status);
    }
    return ORR_OK;
}

/* Whoever called; strangers and those of another job are hung up on. True: one of ours. */
static bool read_greeting(const rendezvous *m, int s)
{
    greeting hello;
    size_t n = 0;
    const int64_t limit_ns = orr_transport_now_ns() + GREETING_MS * INT64_C(1000000);
    while (n < sizeof hello && wait_for(s, POLLIN, limit_ns)) {
        const ssize_t got = recv(s, (char *)&hello + n, sizeof hello - n, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        n += got > 0 ? (size_t)got : 0;
    }
    const uint32_t rank = ntohl(hello.rank), channel = ntohl(hello.channel);
    if (n < sizeof hello || memcmp(hello.magic, magic, sizeof magic) != 0 ||
        ntohl(hello.ranks) != m->ranks || ntohl(hello.to) != m->rank || rank <= m->rank ||
        rank >= m->ranks || channel >= ORR_CHANNELS ||
        m->sockets[rank * ORR_CHANNELS + channel] >= 0)
        return false;
    tune(s);
    m->sockets[rank * ORR_CHANNELS + channel] = s;
    return true;
}

static orr_status accept_higher_ranks(const rendezvous *m, orr_error *err)
{
    size_t left = (size_t)(m->ranks - 1 - m->rank) * ORR_CHANNELS;
    while (left > 0) {
        if (!wait_for(m->listener, POLLIN, m->deadline_ns)) {
            if (orr_transport_now_ns() > m->deadline_ns)
                return orr_fail(err, ORR_IO,
                                "%zu connections of ranks above %u did not come in time", left,
                                m->rank);
            continue;
        }
        const int s = accept4(m->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (s < 0 && (errno == EMFILE || errno == ENFILE || errno == EBADF || errno == EINVAL))
            return orr_fail(err, ORR_IO, "accepting a connection: %s", strerror(errno));
        if (s < 0)
            continue;
        if (read_greeting(m, s))
            left--;
        else
            close(s);
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
                                        int *sockets, orr_error *err)
{
    const int64_t within_ns = deadline_ns > 0 ? deadline_ns : RENDEZVOUS_NS;
    const rendezvous m = {.rank = rank,
                          .ranks = ranks,
                          .listener = listener,
                          .addresses = addresses,
                          .deadline_ns = orr_transport_now_ns() + within_ns,
                          .sockets = sockets};
    raise_file_limit();
    if (rank + 1 < ranks && listen(listener, SOMAXCONN) != 0)
        return orr_fail(err, ORR_IO, "listening: %s", strerror(errno));
    ORR_TRY(connect_to_lower_ranks(&m, err));
    return accept_higher_ranks(&m, err);
}

static orr_status address_of(int s, const char *host, char *ret, size_t room, orr_error *err)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    char port[16];
    if (getsockname(s, (struct sockaddr *)&at, &n) != 0 ||
        getnameinfo((struct sockaddr *)&at, n, NULL, 0, port, sizeof port, NI_NUMERICSERV) != 0)
        return orr_fail(err, ORR_IO, "the address of %s: %s", host, strerror(errno));
    if ((size_t)snprintf(ret, room, strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host, port) >=
        room)
        return orr_fail(err, ORR_INVALID, "%s: the address is too long", host);
    return ORR_OK;
}

orr_status orr_transport_tcp_listen(const char *host, int *ret_socket, char *ret_address,
                                    size_t room, orr_error *err)
{
    char address[HOST_ROOM];
    if ((size_t)snprintf(address, sizeof address, strchr(host, ':') != NULL ? "[%s]:0" : "%s:0",
                         host) >= sizeof address)
        return orr_fail(err, ORR_INVALID, "%s: the address is too long", host);
    struct addrinfo *found = NULL;
    ORR_TRY(look_up(address, true, &found, err));
    orr_status status = ORR_OK;
    const int s = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                         found->ai_protocol);
    if (s < 0 || bind(s, found->ai_addr, found->ai_addrlen) != 0 || listen(s, SOMAXCONN) != 0)
        status = orr_fail(err, ORR_IO, "listening on %s: %s", host, strerror(errno));
    freeaddrinfo(found);
    if (status == ORR_OK)
        status = address_of(s, host, ret_address, room, err);
    if (status == ORR_OK)
        *ret_socket = s;
    else if (s >= 0)
        close(s);
    return status;
}
