/* SPDX-License-Identifier: Apache-2.0 */
#include "io/socket/tcp.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

void orr_tcp_tune(int fd, int64_t buffer_bytes)
{
    const int on = 1, idle_s = 10, between_s = 5, probes = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    const int room = buffer_bytes > INT_MAX ? INT_MAX : (int)buffer_bytes;
    if (room > 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    }
}

static bool is_any(const char *host)
{
    return host[0] == '\0' || strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0;
}

/* Accepted sockets inherit what is set before listen(). */
static bool bind_and_listen(int fd, const struct addrinfo *at, int64_t buffer_bytes,
                            orr_address *address)
{
    const int on = 1;
    struct sockaddr_storage bound;
    socklen_t n = sizeof bound;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    orr_tcp_tune(fd, buffer_bytes);
    return bind(fd, at->ai_addr, at->ai_addrlen) == 0 && listen(fd, SOMAXCONN) == 0 &&
           getsockname(fd, (struct sockaddr *)&bound, &n) == 0 &&
           getnameinfo((struct sockaddr *)&bound, n, NULL, 0, address->port, sizeof address->port,
                       NI_NUMERICSERV) == 0 &&
           (!is_any(address->host) || gethostname(address->host, sizeof address->host - 1) == 0);
}

orr_status orr_tcp_listen(orr_address *address, int64_t buffer_bytes, int *ret_fd, orr_error *err)
{
    struct addrinfo *found = NULL;
    ORR_TRY(orr_address_resolve(address, true, &found, err));
    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool good = fd >= 0 && bind_and_listen(fd, found, buffer_bytes, address);
    const int error = errno;
    freeaddrinfo(found);
    if (good) {
        *ret_fd = fd;
        return ORR_OK;
    }
    if (fd >= 0)
        close(fd);
    return orr_fail(err, ORR_IO, "listening on %s:%s: %s", address->host, address->port,
                    strerror(error));
}

int orr_tcp_connect_begin(const struct sockaddr *to, socklen_t bytes, int64_t buffer_bytes)
{
    const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    orr_tcp_tune(fd, buffer_bytes);
    if (connect(fd, to, bytes) == 0 || errno == EINPROGRESS)
        return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

static bool is_self_connection(int fd)
{
    struct sockaddr_storage here, there;
    socklen_t here_n = sizeof here, there_n = sizeof there;
    memset(&here, 0, sizeof here);
    memset(&there, 0, sizeof there);
    return getsockname(fd, (struct sockaddr *)&here, &here_n) == 0 &&
           getpeername(fd, (struct sockaddr *)&there, &there_n) == 0 && here_n == there_n &&
           memcmp(&here, &there, here_n) == 0;
}

int orr_tcp_connect_error(int fd)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        return errno;
    return error == 0 && is_self_connection(fd) ? ECONNREFUSED : error;
}

int orr_tcp_connect(const struct addrinfo *addresses, int64_t until_ns)
{
    for (const struct addrinfo *at = addresses; at != NULL; at = at->ai_next) {
        const int fd = orr_tcp_connect_begin(at->ai_addr, at->ai_addrlen, 0);
        if (fd < 0)
            continue;
        const int error =
            orr_socket_wait(fd, POLLOUT, until_ns) ? orr_tcp_connect_error(fd) : errno;
        if (error == 0)
            return fd;
        close(fd);
        errno = error;
    }
    return -1;
}

static ssize_t moved(ssize_t n)
{
    return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : n;
}

ssize_t orr_socket_send(int fd, struct iovec *parts, int n)
{
    const struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    return moved(sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL));
}

ssize_t orr_socket_receive(int fd, struct iovec *parts, int n)
{
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = (size_t)n};
    const ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT);
    if (got != 0)
        return moved(got);
    errno = 0;
    return -1;
}

bool orr_socket_wait(int fd, short events, int64_t until_ns)
{
    for (;;) {
        const int64_t left_ns = until_ns - orr_clock_now_ns(&orr_clock_monotonic);
        const int64_t ms = left_ns / 1000000 + 1;
        struct pollfd one = {.fd = fd, .events = events};
        const int n = left_ns <= 0 ? 0 : poll(&one, 1, ms < INT_MAX ? (int)ms : INT_MAX);
        if (n > 0)
            return true;
        if (left_ns <= 0)
            errno = ETIMEDOUT;
        if (left_ns <= 0 || (n < 0 && errno != EINTR))
            return false;
    }
}
