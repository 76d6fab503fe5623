/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_NETWORK_H
#define ORR_SIM_MESSAGE_NETWORK_H

#include <orrery/astra.h>

#include "base/array.h"
#include "sim/message/bucket_queue.h"

/* Time of a message on the network, in ASTRA-sim's two modes.
 *
 * Unaware of congestion: floor(hops x latency + bytes / bandwidth) in the first dimension in which
 * the two ranks differ; no message delays another. Aware: store and forward, dimension by
 * dimension, over directed links. A link sends one message at a time, for floor(bytes / bandwidth),
 * first come, first served; a message is at the far end floor(latency + bytes / bandwidth) after it
 * began. Source: the public sources of astra-network-analytical.
 *
 * When one rank stands for all (folded), every link is its own, and `tied` says that two
 * messages came to a link at once, so that the rank order of a full run would decide. */

/* Hops between two places of a line. */
static inline uint32_t orr_hops(uint8_t topology, uint32_t n, uint32_t from, uint32_t to)
{
    const uint32_t d = from < to ? to - from : from - to;
    switch ((orr_topology)topology) {
    case ORR_TOPOLOGY_RING:
        return d < n - d ? d : n - d;
    case ORR_TOPOLOGY_SWITCH:
        return 2;
    case ORR_TOPOLOGY_FULLY_CONNECTED:
        return 1;
    }
    return 1;
}

static inline int64_t orr_message_ns(const orr_astra_network *network, uint32_t dim, uint32_t hops,
                                     int64_t bytes)
{
    return (int64_t)(hops * network->latency_ns[dim] + (double)bytes / network->bytes_per_ns[dim]);
}

/* Between any two ranks. */
int64_t orr_message_ns_between(const orr_astra_network *network, uint32_t from, uint32_t to,
                               int64_t bytes);

/* A message on its way over links. */
typedef struct orr_message_in_flight {
    orr_message_event arrival; /* event at its destination */
    int64_t bytes;
    uint32_t at, to; /* ranks; at a switch: the rank that it came from */
    uint32_t next;   /* next that waits for the same link, or of the free list */
    bool at_switch;
} orr_message_in_flight;

typedef struct orr_link_state {
    uint32_t head, tail; /* messages that wait; ORR_NONE: none */
    bool busy;
    int64_t came_ns, sent_ns; /* when the last message came from elsewhere, and from the rank
                               * itself */
} orr_link_state;

typedef struct orr_links {
    const orr_astra_network *network;
    orr_bucket_queue *queue;
    uint64_t first[ORR_ASTRA_DIMS + 1]; /* number of the first link of a dimension */
    orr_link_state *links;              /* shape (first[D]) */
    orr_array(orr_message_in_flight) parcels;
    uint32_t idle; /* free list of messages, or ORR_NONE */
    bool folded;   /* one rank stands for all: every link is its own */
    bool tied;     /* two messages came to a link at once: a full run would order them by rank, a
                    * folded run cannot */
} orr_links;

/* `ranks`: that are simulated. Errors: NO_MEMORY; LIMIT: too many links. */
orr_status orr_links_init(orr_links *links, const orr_astra_network *network, bool folded,
                          orr_bucket_queue *queue, orr_error *err) ORR_MUST_CHECK;
void orr_links_done(orr_links *links);

/* Sends a message; link events carry what the caller gives as `what`. */
void orr_links_send(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t from, uint32_t to, int64_t bytes, orr_message_event arrival);
/* A message is at the far end of its link. True: it is at its destination, and *ret_arrival is
 * the event there. */
bool orr_links_hop(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                   uint32_t parcel, orr_message_event *ret_arrival);
void orr_links_free(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t link, uint32_t dim);

#endif /* ORR_SIM_MESSAGE_NETWORK_H */
