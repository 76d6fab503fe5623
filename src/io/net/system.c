/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "io/net/parts.h"

/* The interface of the system's net: listeners, connections and timers behind one epoll. The event
 * loop is in event_loop.c, the life of a connection in connection.c. */

enum { ALARMS = 64 }; /* before more memory is asked for */

static orr_net_system *system_of(orr_net *self)
{
    return (orr_net_system *)self;
}

static int64_t now_ns(orr_net *self)
{
    (void)self;
    return orr_clock_now_ns(&orr_clock_monotonic);
}

/* Not one that its user has closed. */
static orr_net_connection *link_of(const orr_net_system *net, orr_conn conn)
{
    orr_net_connection *link = orr_net_connection_of(net, conn);
    return link != NULL && link->user != NULL ? link : NULL;
}

static bool watch(const orr_net_system *net, int fd, uint64_t id)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = id};
    return epoll_ctl(net->epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

static orr_status add_listener(orr_net_system *net, const orr_net_callbacks *user, int fd, bool shm,
                               bool clear, orr_error *err)
{
    const orr_net_listener listener = {.id = ORR_NET_EPOLL_LISTENER | net->next_listener,
                                       .fd = fd,
                                       .shm = shm,
                                       .clear = clear,
                                       .user = user};
    if (!orr_array_push(&net->listeners, listener)) {
        close(fd);
        return orr_fail_memory(err);
    }
    net->next_listener++;
    if (watch(net, fd, listener.id))
        return ORR_OK;
    net->listeners.n--;
    const int error = errno;
    close(fd);
    return orr_fail(err, ORR_IO, "watching a listener: %s", strerror(error));
}

static orr_status listen_at(orr_net *self, const orr_net_callbacks *user, const char *where,
                            char ret_address[ORR_NET_ADDRESS_BYTES], orr_error *err)
{
    orr_net_system *net = system_of(self);
    const size_t before = net->listeners.n;
    orr_net_address address;
    int fd;
    ORR_TRY(orr_net_address_parse(where, &address, err));
    ORR_TRY(orr_tcp_listen(&address.tcp, net->options.socket_bytes, &fd, err));
    ORR_TRY(add_listener(net, user, fd, false, address.clear, err));
    address.machine = address.shm ? orr_local_machine_id() : 0;
    orr_status status = ORR_OK;
    if (address.machine != 0) {
        status = orr_local_listen(address.name, &fd, err);
        if (status == ORR_OK)
            status = add_listener(net, user, fd, true, false, err);
    }
    if (status == ORR_OK)
        status = orr_net_address_print(&address, ret_address, err);
    while (status != ORR_OK && net->listeners.n > before)
        close(net->listeners.at[--net->listeners.n].fd);
    return status;
}

static orr_status connect_to(orr_net *self, const orr_net_callbacks *user, const char *to,
                             orr_conn *ret, orr_error *err)
{
    orr_net_system *net = system_of(self);
    orr_net_address address;
    ORR_TRY(orr_net_address_parse(to, &address, err));
    if (address.machine != 0 && address.machine == orr_local_machine_id())
        return orr_net_shm_connect(net, user, &address, ret, err);
    return orr_net_tcp_connect(net, user, &address, ret, err);
}

static void send_frame(orr_net *self, orr_conn conn, const orr_net_frame *frame,
                       const void *payload, bool keep)
{
    orr_net_system *net = system_of(self);
    orr_net_connection *link = link_of(net, conn);
    if (link == NULL || link->broken)
        return;
    orr_net_frame sealed = *frame;
    orr_net_frame_seal(&sealed, payload, net->options.unchecked || link->wire->unhashed);
    size_t moved = 0;
    if (!link->calling && link->queue.n == 0)
        moved = link->wire->write(net, link, &sealed, payload);
    if (link->broken)
        return;
    if (moved == ORR_NET_FRAME_BYTES + (size_t)frame->bytes)
        orr_net_connection_after_send(net, link, true);
    else if (!orr_net_send_queue_add(&link->queue, &sealed, payload, keep, moved))
        orr_net_connection_fail(net, link, ORR_NET_MEMORY);
    else if (!link->calling && link->wire->waits != NULL)
        link->wire->waits(net, link);
}

static size_t queued(orr_net *self, orr_conn conn)
{
    const orr_net_connection *link = link_of(system_of(self), conn);
    return link == NULL ? 0 : link->queue.bytes;
}

/* What was handed over is not lost: the socket is shut, and closed when the peer has closed too. A
 * close with bytes unread would take back what the peer has not yet received, RFC 1122 4.2.2.13. */
static void close_conn(orr_net *self, orr_conn conn, bool flush)
{
    orr_net_system *net = system_of(self);
    orr_net_connection *link = link_of(net, conn);
    if (link == NULL)
        return;
    if (!flush || link->broken || (link->calling && link->queue.n == 0) ||
        !orr_net_send_queue_copy_payloads(&link->queue)) {
        orr_net_connection_kill(net, link);
        return;
    }
    link->user = NULL;
    net->flushing++;
    link->flush_until_ns = now_ns(self) + ORR_NET_FLUSH_S * INT64_C(1000000000);
    if (link->flush_until_ns < net->flush_check_ns)
        net->flush_check_ns = link->flush_until_ns;
    orr_net_connection_after_send(net, link, true);
}

static void wake_at(orr_net *self, const orr_net_callbacks *user, int64_t at_ns)
{
    orr_net_system *net = system_of(self);
    for (size_t i = 0; i < net->alarms.n; i++)
        if (net->alarms.at[i].user == user) {
            net->alarms.at[i].at_ns = at_ns;
            return;
        }
    if (at_ns == INT64_MAX)
        return;
    const orr_net_timer alarm = {.user = user, .at_ns = at_ns};
    for (size_t i = 0; i < net->alarms.n; i++)
        if (net->alarms.at[i].user == NULL) {
            net->alarms.at[i] = alarm;
            return;
        }
    if (!orr_array_push(&net->alarms, alarm))
        net->alarm_lost = user;
}

static void forget(orr_net *self, const orr_net_callbacks *user)
{
    orr_net_system *net = system_of(self);
    size_t n = 0;
    for (size_t i = 0; i < net->listeners.n; i++) {
        if (net->listeners.at[i].user == user)
            close(net->listeners.at[i].fd);
        else
            net->listeners.at[n++] = net->listeners.at[i];
    }
    net->listeners.n = n;
    if (net->alarm_lost == user)
        net->alarm_lost = NULL;
    for (size_t i = 0; i < net->alarms.n; i++)
        if (net->alarms.at[i].user == user)
            net->alarms.at[i] = (orr_net_timer){.at_ns = INT64_MAX};
    for (size_t i = 0; i < net->slots.n; i++)
        if (net->slots.at[i].link != NULL && net->slots.at[i].link->user == user)
            orr_net_connection_kill(net, net->slots.at[i].link);
}

static void interrupt(orr_net *self)
{
    const uint64_t one = 1;
    /* Full is as good: poll() will return. */
    if (write(system_of(self)->wake, &one, sizeof one) < 0)
        return;
}

static void free_system(orr_net *self)
{
    orr_net_system *net = system_of(self);
    for (size_t i = 0; i < net->slots.n; i++) {
        orr_net_connection *link = net->slots.at[i].link;
        if (link == NULL)
            continue;
        if (link->user == NULL && !link->calling && !link->broken)
            link->wire->push(net, link);
        orr_net_connection_kill(net, link);
    }
    orr_net_connection_reap(net);
    for (size_t i = 0; i < net->listeners.n; i++)
        close(net->listeners.at[i].fd);
    orr_array_done(&net->slots);
    orr_array_done(&net->free_slots);
    orr_array_done(&net->listeners);
    orr_array_done(&net->alarms);
    orr_array_done(&net->shms);
    orr_net_tls_free(net->tls);
    for (int i = 0; i < 3; i++) {
        const int fd = (const int[]){net->epoll, net->wake, net->spare}[i];
        if (fd >= 0)
            close(fd);
    }
    orr_free(net);
}

orr_status orr_net_system_new(const orr_net_system_options *options, orr_net **ret, orr_error *err)
{
    orr_net_system *net = orr_calloc(1, sizeof *net);
    if (net == NULL)
        return orr_fail_memory(err);
    if (options != NULL)
        net->options = *options;
    net->options.key = (orr_net_key){0};
    net->net = (orr_net){.name = "system",
                         .now_ns = now_ns,
                         .listen = listen_at,
                         .connect = connect_to,
                         .send = send_frame,
                         .queued = queued,
                         .close = close_conn,
                         .wake_at = wake_at,
                         .forget = forget,
                         .poll = orr_net_system_poll,
                         .interrupt = interrupt,
                         .free = free_system};
    net->epoll = epoll_create1(EPOLL_CLOEXEC);
    net->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    net->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    const bool has_key = options != NULL && options->key.bytes > 0;
    const orr_status status = has_key ? orr_net_tls_new(&options->key, &net->tls, err) : ORR_OK;
    if (status != ORR_OK) {
        free_system(&net->net);
        return status;
    }
    if (!orr_array_reserve(&net->alarms, ALARMS)) {
        free_system(&net->net);
        return orr_fail_memory(err);
    }
    if (net->epoll < 0 || net->wake < 0 || !watch(net, net->wake, ORR_NET_EPOLL_WAKE)) {
        const int error = errno;
        free_system(&net->net);
        return orr_fail(err, ORR_IO, "watching connections: %s", strerror(error));
    }
    *ret = &net->net;
    return ORR_OK;
}

const char *orr_net_close_reason_text(orr_net_close_reason end)
{
    switch (end) {
    case ORR_NET_PEER_CLOSED:
        return "the peer closed the connection";
    case ORR_NET_REFUSED:
        return "nobody listens there, or it cannot be reached";
    case ORR_NET_CORRUPT:
        return "a frame came that its hash denies";
    case ORR_NET_UNPROVEN:
        return "the peer has another key, or none";
    case ORR_NET_MEMORY:
        return "out of memory";
    }
    return "the connection is no more";
}
