/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_NETWORK_INTERNAL_H
#define ORR_SUPPORT_SIMULATED_NETWORK_INTERNAL_H

#include <assert.h>

#include "base/array.h"
#include "base/philox.h"
#include "support/simulated/network.h"
#include "support/simulated/buffer_pool.h"
#include "support/simulated/event_queue.h"

/* Internals of the simulated network.
 *
 * A connection is a pair of ends, 2p of the host that called and 2p + 1 of the other; an
 * orr_conn is an end's index and the pair's generation, so that events of a closed connection
 * are recognised as stale when they arrive. Hosts keep lists of their ends, users and listeners
 * by index. */
#define ORR_SIMNET_NONE UINT32_MAX

typedef enum orr_simnet_end_state {
    ORR_SIMNET_CLOSED, /* or not yet accepted */
    ORR_SIMNET_CONNECTING,
    ORR_SIMNET_OPEN
} orr_simnet_end_state;

/* One end of a connection, and the direction that leads away from it. */
typedef struct orr_simnet_end {
    const orr_net_callbacks *user;
    uint32_t generation, host;
    uint32_t next, previous; /* in the host's list */
    int64_t free_ns;         /* when everything sent has left */
    int64_t arrive_ns;       /* arrival of the last frame at the peer */
    int64_t handed_ns;       /* when this end was closed: frames that leave later are lost */
    uint64_t early_bytes;    /* sent before the connection was accepted */
    uint64_t late_bytes;     /* kept by the sender and not yet arrived: bytes of `late` frames */
    uint32_t late;
    uint8_t state;   /* orr_simnet_end_state                                        */
    bool lost;       /* the link was cut when something was sent */
    bool reads_late; /* kept memory is read on arrival, not when it is sent */
    bool own_memory; /* as with shared memory: place() is not used */
    bool drain_armed, drain_waits;
    bool vanished; /* the machine died: it answers with a reset once it is back */
} orr_simnet_end;

typedef struct orr_simnet_user {
    const orr_net_callbacks *user;
    int64_t wake_ns,
        armed_ns; /* wanted; of the event in the queue, never later unless none is due */
    uint32_t generation, next;
} orr_simnet_user;

typedef struct orr_simnet_listener {
    const orr_net_callbacks *user;
    uint32_t port, next;
} orr_simnet_listener;

typedef struct orr_simnet_host {
    orr_net net; /* first: an orr_net is its host */
    orr_simnet *world;
    uint32_t index;
    uint32_t users, listeners, ends;      /* first of each      */
    uint32_t waiting_first, waiting_last; /* events, while stopped */
    uint32_t ports;                       /* given out          */
    bool dead, silent, stopped;
    double slow;
} orr_simnet_host;

enum { ORR_SIMNET_BLOCK = 256 }; /* in a block: hosts do not move */
enum { ORR_SIMNET_LINK_CUT = 1, ORR_SIMNET_LINK_CORRUPT = 2 };
typedef struct orr_simnet_link {
    uint64_t key; /* from << 32 | to */
    uint32_t flags;
} orr_simnet_link;

struct orr_simnet {
    orr_simnet_options options;
    double ns_per_byte;
    int64_t now_ns;
    uint64_t events, digest, changed;
    bool short_of_memory;
    orr_random random;
    orr_simnet_queue queue;
    orr_buffer_pool pool;
    orr_array(orr_simnet_host *) blocks; /* shape (n_hosts / ORR_SIMNET_BLOCK) */
    uint32_t n_hosts;
    orr_array(orr_simnet_end) ends;
    orr_array(orr_simnet_user) users;
    orr_array(orr_simnet_listener) listeners;
    uint32_t free_pair, free_user, free_listener; /* first; linked by next */
    orr_array(orr_simnet_link) links;             /* those with a fault; few */
    orr_simnet_observer *watcher;
    void *watcher_ctx;
};

static inline orr_simnet_host *orr_simnet_host_at(const orr_simnet *world, uint32_t host)
{
    assert(host < world->n_hosts);
    return &world->blocks.at[host / ORR_SIMNET_BLOCK][host % ORR_SIMNET_BLOCK];
}

static inline orr_conn orr_simnet_conn(const orr_simnet *world, uint32_t end)
{
    return (uint64_t)world->ends.at[end].generation << 32 | end;
}
/* NULL: the connection is gone. */
static inline orr_simnet_end *orr_simnet_end_of(const orr_simnet *world, orr_conn conn)
{
    const uint32_t at = (uint32_t)conn;
    return at < world->ends.n && world->ends.at[at].generation == conn >> 32 ? &world->ends.at[at]
                                                                             : NULL;
}
static inline orr_simnet_end *orr_simnet_peer(const orr_simnet *world, const orr_simnet_end *end)
{
    return &world->ends.at[(size_t)(end - world->ends.at) ^ 1];
}
static inline orr_conn orr_simnet_conn_of(const orr_simnet *world, const orr_simnet_end *end)
{
    return orr_simnet_conn(world, (uint32_t)(end - world->ends.at));
}

/* link_faults.c: faults of a link, and the time of a frame over it. */
uint32_t orr_simnet_link_faults(const orr_simnet *world, uint32_t from, uint32_t to);
void orr_simnet_link_set(orr_simnet *world, uint32_t from, uint32_t to, uint32_t fault, bool set);
double orr_simnet_slowdown(const orr_simnet *world, uint32_t from, uint32_t to);
int64_t orr_simnet_delay_ns(orr_simnet *world, uint32_t from, uint32_t to);

/* users.c */
orr_simnet_user *orr_simnet_user_of(orr_simnet *world, orr_simnet_host *host,
                                    const orr_net_callbacks *user);
void orr_simnet_user_forget(orr_simnet *world, orr_simnet_host *host,
                            const orr_net_callbacks *user);
void orr_simnet_users_forget(orr_simnet *world, orr_simnet_host *host); /* all of them */
void orr_simnet_timer_at(orr_net *net, const orr_net_callbacks *user, int64_t at_ns);
void orr_simnet_timer_fires(orr_simnet *world, const orr_simnet_event *event);
bool orr_simnet_listener_add(orr_simnet *world, orr_simnet_host *host,
                             const orr_net_callbacks *user, uint32_t port);
const orr_simnet_listener *orr_simnet_listener_of(const orr_simnet *world,
                                                  const orr_simnet_host *host, uint32_t port);

/* connections.c: opening and closing. */
orr_status orr_simnet_connect(orr_net *net, const orr_net_callbacks *user, const char *address,
                              orr_conn *ret, orr_error *err);
orr_status orr_simnet_listen(orr_net *net, const orr_net_callbacks *user, const char *where,
                             char ret_address[ORR_NET_ADDRESS_BYTES], orr_error *err);
typedef enum orr_simnet_disconnection {
    ORR_DISCONNECT_CLOSE, /* queued frames are lost */
    ORR_DISCONNECT_FLUSH, /* queued frames are delivered first */
    ORR_DISCONNECT_DIE,   /* the process died: frames in delivery may be lost as well */
    ORR_DISCONNECT_VANISH /* the machine died: nobody is told */
} orr_simnet_disconnection;
void orr_simnet_disconnect(orr_simnet *world, orr_simnet_end *end, orr_simnet_disconnection how);
void orr_simnet_report_closed(orr_simnet *world, orr_simnet_end *end, int64_t at_ns,
                              orr_net_close_reason why);
void orr_simnet_connect_arrives(orr_simnet *world, const orr_simnet_event *event);
void orr_simnet_accepted(orr_simnet *world, const orr_simnet_event *event);
void orr_simnet_connected(orr_simnet *world, const orr_simnet_event *event);
void orr_simnet_closed(orr_simnet *world, const orr_simnet_event *event);

/* frames.c: what connections carry. */
void orr_simnet_send(orr_net *net, orr_conn conn, const orr_net_frame *frame, const void *payload,
                     bool keep);
size_t orr_simnet_queued(orr_net *net, orr_conn conn);
void orr_simnet_keep_copies(orr_simnet *world, const orr_simnet_end *from);
void orr_simnet_frame_arrives(orr_simnet *world, orr_simnet_event *event);
void orr_simnet_drained(orr_simnet *world, const orr_simnet_event *event);

/* Schedules an event. Out of memory: false, and the network records the loss. */
bool orr_simnet_schedule(orr_simnet *world, int64_t at_ns, const orr_simnet_event *event);
/* Frees what an event holds. */
void orr_simnet_event_drop(orr_simnet *world, orr_simnet_event *event);

#endif /* ORR_SUPPORT_SIMULATED_NETWORK_INTERNAL_H */
