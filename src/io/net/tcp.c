/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/net/parts.h"

/* What one connection may take of a poll, so that the others have their turn. */
enum { TURN_READS = 16, TURN_FRAMES = 256, TURN_BYTES = 4 << 20 };

/* A peer whose machine is lost is noticed though nothing is sent. */
void orr_net_tcp_tune(const orr_net_system *net, int fd)
{
    const int on = 1, idle_s = 10, between_s = 5, probes = 3;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof between_s);
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
    const int64_t bytes = net->options.socket_bytes;
    const int room = bytes > INT32_MAX ? INT32_MAX : (int)bytes;
    if (room > 0) {
        setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    }
}

/* Numbers first: they need no resolver, which may wait. */
static orr_status look_up(const orr_net_address *address, bool passive, struct addrinfo **ret,
                          orr_error *err)
{
    const char *host = address->host[0] == '\0' ? NULL : address->host;
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM,
                             .ai_flags = AI_NUMERICHOST | (passive ? AI_PASSIVE : 0)};
    int error = getaddrinfo(host, address->port, &hints, ret);
    if (error == EAI_NONAME) {
        hints.ai_flags &= ~AI_NUMERICHOST;
        error = getaddrinfo(host, address->port, &hints, ret);
    }
    if (error != 0)
        return orr_fail(err, ORR_IO, "%s:%s: %s", address->host, address->port,
                        gai_strerror(error));
    return ORR_OK;
}

/* The port that was given; and a name for those who ask for all addresses. */
static orr_status publish(int fd, orr_net_address *address, orr_error *err)
{
    struct sockaddr_storage at;
    socklen_t n = sizeof at;
    if (getsockname(fd, (struct sockaddr *)&at, &n) != 0 ||
        getnameinfo((struct sockaddr *)&at, n, NULL, 0, address->port, sizeof address->port,
                    NI_NUMERICSERV) != 0)
        return orr_fail(err, ORR_IO, "the address of %s: %s", address->host, strerror(errno));
    const char *host = address->host;
    if (host[0] != '\0' && strcmp(host, "0.0.0.0") != 0 && strcmp(host, "::") != 0)
        return ORR_OK;
    if (gethostname(address->host, sizeof address->host) != 0)
        return orr_fail(err, ORR_IO, "the name of this machine: %s", strerror(errno));
    address->host[sizeof address->host - 1] = '\0';
    return ORR_OK;
}

orr_status orr_net_tcp_listen(orr_net_system *net, orr_net_address *address, int *ret_fd,
                              orr_error *err)
{
    struct addrinfo *found = NULL;
    const int on = 1;
    ORR_TRY(look_up(address, true, &found, err));
    orr_status status = ORR_OK;
    const int fd = socket(found->ai_family, found->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                          found->ai_protocol);
    if (fd >= 0) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        orr_net_tcp_tune(net, fd); /* those accepted inherit it */
    }
    if (fd < 0 || bind(fd, found->ai_addr, found->ai_addrlen) != 0 || listen(fd, SOMAXCONN) != 0)
        status = orr_fail(err, ORR_IO, "listening on %s:%s: %s", address->host, address->port,
                          strerror(errno));
    freeaddrinfo(found);
    if (status == ORR_OK)
        status = publish(fd, address, err);
    if (status == ORR_OK)
        *ret_fd = fd;
    else if (fd >= 0)
        close(fd);
    return status;
}

/* The next address that can be called: -1, none is left. */
static int connect_next(const orr_net_system *net, orr_net_connection *link)
{
    while (link->calls.next < link->calls.n) {
        const int i = link->calls.next++;
        const struct sockaddr *to = (const struct sockaddr *)&link->calls.at[i];
        const int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
            return -1;
        orr_net_tcp_tune(net, fd);
        if (connect(fd, to, link->calls.bytes[i]) == 0 || errno == EINPROGRESS)
            return fd;
        close(fd);
    }
    return -1;
}

orr_status orr_net_tcp_connect(orr_net_system *net, const orr_net_callbacks *user,
                               const orr_net_address *address, orr_conn *ret, orr_error *err)
{
    struct addrinfo *found = NULL;
    orr_net_connection *link = NULL;
    ORR_TRY(look_up(address, false, &found, err));
    const orr_status status = orr_net_connection_new(net, user, &orr_net_tcp_ops, -1, &link, err);
    for (const struct addrinfo *at = found; status == ORR_OK && at != NULL; at = at->ai_next) {
        if (link->calls.n == ORR_NET_CONNECT_ADDRESSES || at->ai_addrlen > sizeof link->calls.at[0])
            continue;
        memcpy(&link->calls.at[link->calls.n], at->ai_addr, at->ai_addrlen);
        link->calls.bytes[link->calls.n++] = at->ai_addrlen;
    }
    freeaddrinfo(found);
    ORR_TRY(status);
    link->calling = true;
    link->fd = connect_next(net, link);
    if (link->fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS)) {
        orr_net_connection_kill(net, link);
        return orr_fail(err, ORR_IO, "calling %s:%s: %s", address->host, address->port,
                        strerror(errno));
    }
    if (link->fd < 0 || !orr_net_connection_watch(net, link, true, true))
        orr_net_connection_fail(net, link, ORR_NET_REFUSED);
    *ret = link->conn;
    return ORR_OK;
}

/* A call of a free port of this machine from that very port reaches itself. */
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

static void on_connected(orr_net_system *net, orr_net_connection *link)
{
    int error = 0;
    socklen_t n = sizeof error;
    getsockopt(link->fd, SOL_SOCKET, SO_ERROR, &error, &n);
    if (error == 0 && !is_self_connection(link->fd)) {
        orr_net_connection_connected(net, link);
        if (!link->dead && link->queue.n == 0)
            orr_net_connection_watch(net, link, false, false);
        return;
    }
    close(link->fd);
    link->fd = connect_next(net, link);
    if (link->fd < 0 || !orr_net_connection_watch(net, link, true, true))
        orr_net_connection_close(net, link, ORR_NET_REFUSED);
}

static bool is_later(int error)
{
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
}

/* -1: the connection is broken; 0: not now. */
static ssize_t send_rest(int fd, struct iovec *rest, int n)
{
    const struct msghdr message = {.msg_iov = rest, .msg_iovlen = (size_t)n};
    const ssize_t sent = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent >= 0 ? sent : is_later(errno) ? 0 : -1;
}

static size_t write_frame(orr_net_system *net, orr_net_connection *link, const orr_net_frame *frame,
                          const void *payload)
{
    struct iovec rest[2] = {{(void *)frame, sizeof *frame}, {(void *)payload, frame->bytes}};
    const ssize_t sent = send_rest(link->fd, rest, frame->bytes > 0 ? 2 : 1);
    if (sent < 0)
        orr_net_connection_broken(net, link);
    return sent < 0 ? 0 : (size_t)sent;
}

static void push(orr_net_system *net, orr_net_connection *link)
{
    struct iovec rest[2 * ORR_NET_FRAMES_PER_SEND];
    size_t turn = 0;
    while (link->queue.n > 0 && turn < TURN_BYTES) {
        const ssize_t sent =
            send_rest(link->fd, rest, orr_net_send_queue_buffers(&link->queue, rest));
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
        struct msghdr message = {.msg_iov = rest};
        message.msg_iovlen = (size_t)orr_net_frame_reader_buffers(&link->reader, rest);
        size_t wanted = 0;
        for (size_t k = 0; k < message.msg_iovlen; k++)
            wanted += rest[k].iov_len;
        const ssize_t n = recvmsg(link->fd, &message, MSG_DONTWAIT);
        if (n < 0 && is_later(errno))
            return;
        if (n <= 0) {
            orr_net_connection_close(net, link, ORR_NET_PEER_CLOSED);
            return;
        }
        orr_net_frame_reader_advance(&link->reader, (size_t)n);
        if (!orr_net_connection_read_frames(net, link, &frames) || (size_t)n < wanted)
            return;
    }
}

static void waits(orr_net_system *net, orr_net_connection *link)
{
    orr_net_connection_watch(net, link, false, true);
}

static void ready(orr_net_system *net, orr_net_connection *link, uint32_t events)
{
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

const orr_net_connection_ops orr_net_tcp_ops = {
    .ready = ready, .push = push, .write = write_frame, .waits = waits};
