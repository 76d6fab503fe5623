/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "io/net/parts.h"

/* One poll of the event loop, in this order: deferred calls, timers, connections in shared memory,
 * epoll (at least every UNLOOKED_MOST polls); and if nothing was ready, a wait. A callback's
 * deferred work is for the next poll, so that no poll is endless, and dead connections are freed
 * only at its two ends, when no callback can be inside them.
 *
 * Before sleeping in epoll, this side sets `sleeps` in each shared ring and then looks at the rings
 * once more; a peer publishes bytes and then reads `sleeps`, and rings the doorbell (a byte on the
 * socket) if it is set. That is Dekker's pattern: all four accesses are sequentially consistent, so
 * that one of the two sees the other, and no wake-up is lost. */

enum {
    EVENTS = 64,
    ACCEPTS = 64,      /* of a listener, in one poll */
    UNLOOKED_MOST = 8, /* polls with other work, before epoll is asked anyhow */
    LOOKS = 32         /* at shared memory, between two looks at the rest */
};

static int64_t now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}

static void dispatch(orr_net_system *net, orr_net_connection *link, unsigned what)
{
    if ((what & ORR_NET_PENDING_CONNECTED) != 0)
        orr_net_connection_connected(net, link);
    if ((what & ORR_NET_PENDING_READ) != 0 && !link->dead)
        link->wire->ready(net, link, EPOLLIN);
    if ((what & ORR_NET_PENDING_DRAINED) != 0 && !link->dead && !link->broken &&
        link->queue.n == 0 && link->user != NULL && link->user->drained != NULL)
        link->user->drained(link->user->ctx, link->conn);
    if ((what & ORR_NET_PENDING_CLOSE) != 0)
        orr_net_connection_close(net, link, link->why);
}

/* Handles what is deferred so far. */
static bool dispatch_deferred(orr_net_system *net)
{
    orr_net_connection *last = net->todo_last, *link = NULL;
    if (last == NULL)
        return false;
    while (link != last) {
        link = net->todo_first;
        net->todo_first = link->next_todo;
        if (net->todo_first == NULL)
            net->todo_last = NULL;
        const unsigned what = link->todo;
        link->in_todo = false;
        link->todo = 0;
        if (!link->dead)
            dispatch(net, link, what);
    }
    return true;
}

static int64_t next_timer_ns(const orr_net_system *net)
{
    int64_t first_ns = net->flushing + net->proving > 0 ? net->flush_check_ns : INT64_MAX;
    for (size_t i = 0; i < net->alarms.n; i++)
        if (net->alarms.at[i].at_ns < first_ns)
            first_ns = net->alarms.at[i].at_ns;
    return first_ns;
}

/* Of who called nobody has heard yet. */
static void give_up(orr_net_system *net, orr_net_connection *link)
{
    if (link->user == NULL || link->accepted)
        orr_net_connection_kill(net, link);
    else
        orr_net_connection_close(net, link, ORR_NET_UNPROVEN);
}

/* Those that flush, and those whose proof is awaited. */
static void check_patience(orr_net_system *net, int64_t at_ns)
{
    if (net->flushing + net->proving == 0 || at_ns < net->flush_check_ns)
        return;
    net->flush_check_ns = INT64_MAX;
    for (size_t i = 0; i < net->slots.n; i++) {
        orr_net_connection *link = net->slots.at[i].link;
        if (link == NULL || (link->user != NULL && !link->proving))
            continue;
        const int64_t until_ns = link->proving ? link->prove_until_ns : link->flush_until_ns;
        if (until_ns <= at_ns)
            give_up(net, link);
        else if (until_ns < net->flush_check_ns)
            net->flush_check_ns = until_ns;
    }
}

static bool fire_timers(orr_net_system *net)
{
    const int64_t at_ns = now_ns();
    bool rang = false;
    check_patience(net, at_ns);
    const orr_net_callbacks *lost = net->alarm_lost;
    net->alarm_lost = NULL;
    if (lost != NULL && lost->woken != NULL)
        lost->woken(lost->ctx);
    for (size_t i = 0; i < net->alarms.n; i++) {
        const orr_net_callbacks *user = net->alarms.at[i].user;
        if (user == NULL || net->alarms.at[i].at_ns > at_ns)
            continue;
        net->alarms.at[i].at_ns = INT64_MAX;
        rang = true;
        if (user->woken != NULL)
            user->woken(user->ctx);
    }
    return rang;
}

static bool progress_shared_memory(orr_net_system *net)
{
    bool moved = false;
    for (size_t i = 0; i < net->shms.n; i++)
        if (net->shms.at[i] != NULL)
            moved |= orr_net_shm_progress(net, net->shms.at[i]);
    return moved;
}

/* Out of descriptors: frees the spare one, accepts a caller with it and hangs up. Otherwise the
 * listener would stay readable and wake this loop forever. */
static void refuse_one(orr_net_system *net, int listener)
{
    if (net->spare < 0)
        return;
    close(net->spare);
    const int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    net->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void add_accepted(orr_net_system *net, const orr_net_listener *from, int fd)
{
    orr_net_connection *link;
    const orr_net_callbacks *user = from->user;
    const orr_net_connection_ops *wire = from->shm ? &orr_net_shm_ops : &orr_net_tcp_ops;
    if (orr_net_connection_new(net, user, wire, fd, &link, NULL) != ORR_OK) {
        close(fd);
        return;
    }
    const bool proves = !from->shm && net->tls != NULL;
    if ((from->shm && !orr_net_shm_accept(net, link)) ||
        (proves && !orr_net_tcp_begin_proof(net, link, true, from->clear)) ||
        !orr_net_connection_watch(net, link, true, false)) {
        orr_net_connection_kill(net, link);
        return;
    }
    if (!proves && user->accepted != NULL)
        user->accepted(user->ctx, link->conn);
}

static void accept_some(orr_net_system *net, uint64_t id)
{
    for (int i = 0; i < ACCEPTS; i++) {
        const orr_net_listener *from = NULL;
        for (size_t k = 0; k < net->listeners.n; k++)
            if (net->listeners.at[k].id == id)
                from = &net->listeners.at[k];
        if (from == NULL)
            return;
        const int fd = accept4(from->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE))
            refuse_one(net, from->fd);
        if (fd < 0)
            return;
        const orr_net_listener copy = *from;
        add_accepted(net, &copy, fd);
    }
}

static void handle(orr_net_system *net, const struct epoll_event *event)
{
    uint64_t rings;
    if (event->data.u64 == ORR_NET_EPOLL_WAKE) {
        while (read(net->wake, &rings, sizeof rings) < 0 && errno == EINTR)
            ;
    } else if ((event->data.u64 & ORR_NET_EPOLL_LISTENER) != 0) {
        accept_some(net, event->data.u64);
    } else {
        orr_net_connection *link = orr_net_connection_of(net, event->data.u64);
        if (link != NULL)
            link->wire->ready(net, link, event->events);
    }
}

/* Waits up to `for_ns`, with the precision of nanoseconds where the kernel has epoll_pwait2(). */
static int wait_events(const orr_net_system *net, struct epoll_event *events, int64_t for_ns)
{
    if (for_ns <= 0)
        return epoll_wait(net->epoll, events, EVENTS, 0);
    const struct timespec t = {.tv_sec = for_ns / 1000000000, .tv_nsec = for_ns % 1000000000};
    const int n = epoll_pwait2(net->epoll, events, EVENTS, for_ns == INT64_MAX ? NULL : &t, NULL);
    if (n >= 0 || errno != ENOSYS)
        return n;
    const int64_t ms = for_ns / 1000000 + 1;
    return epoll_wait(net->epoll, events, EVENTS, ms > INT32_MAX ? -1 : (int)ms);
}

static bool handle_events(orr_net_system *net, int64_t for_ns)
{
    struct epoll_event events[EVENTS];
    const int n = wait_events(net, events, for_ns);
    net->unlooked = 0;
    for (int i = 0; i < n; i++)
        handle(net, &events[i]);
    return n > 0;
}

static bool turn(orr_net_system *net)
{
    bool did = dispatch_deferred(net);
    did |= fire_timers(net);
    did |= progress_shared_memory(net);
    if (!did || ++net->unlooked >= UNLOOKED_MOST)
        did |= handle_events(net, 0);
    return did;
}

static bool spin(orr_net_system *net, int64_t until_ns)
{
    const int64_t begin_ns = now_ns();
    int64_t end_ns;
    if (__builtin_add_overflow(begin_ns, net->options.spin_ns, &end_ns) || end_ns > until_ns)
        end_ns = until_ns;
    while (now_ns() < end_ns) {
        for (int i = 0; i < LOOKS && net->shms.n > 0; i++, orr_cpu_relax())
            if (progress_shared_memory(net))
                return true;
        if (turn(net))
            return true;
    }
    return false;
}

/* The sleep protocol, see the head of this file. */
static void sleep_until(orr_net_system *net, int64_t until_ns)
{
    for (size_t i = 0; i < net->shms.n; i++)
        if (net->shms.at[i] != NULL)
            orr_net_shm_set_sleeping(net->shms.at[i], true);
    if (!progress_shared_memory(net) && net->todo_first == NULL) {
        const int64_t first_ns = next_timer_ns(net);
        if (first_ns < until_ns)
            until_ns = first_ns;
        const int64_t at_ns = now_ns();
        handle_events(net, until_ns == INT64_MAX ? INT64_MAX : until_ns - at_ns);
    }
    for (size_t i = 0; i < net->shms.n; i++)
        if (net->shms.at[i] != NULL)
            orr_net_shm_set_sleeping(net->shms.at[i], false);
    progress_shared_memory(net);
    fire_timers(net);
}

void orr_net_system_poll(orr_net *self, int64_t until_ns)
{
    orr_net_system *net = (orr_net_system *)self;
    orr_net_connection_reap(net);
    if (!turn(net) && now_ns() < until_ns && (net->options.spin_ns <= 0 || !spin(net, until_ns)))
        sleep_until(net, until_ns);
    orr_net_connection_reap(net);
}
