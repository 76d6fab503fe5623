/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_MESSAGE_NETWORK_H
#define ORR_SIM_MESSAGE_NETWORK_H

#include <orrery/astra.h>

#include "base/array.h"
#include "sim/message/bucket_queue.h"

/* How long a message is under way.
 *
 * Unaware: floor(hops x latency + bytes / bandwidth) in the first dimension in which the two ranks
 * differ; no message waits for another.
 * Aware: store and forward, dimension by dimension, over directed links. A link sends one message
 * at a time, for floor(bytes / bandwidth), in the order in which they came; a message is at the far
 * end floor(latency + bytes / bandwidth) after it began.
 * Source: the public sources of astra-network-analytical. */

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

/* A message that is under way over links. */
typedef struct orr_message_in_flight {
    orr_message_event arrival; /* what happens when it is there */
    int64_t bytes;
    uint32_t at, to; /* ranks; at a switch: the rank that it came from */
    uint32_t next;   /* waiting for the same link, or idle             */
    bool at_switch;
} orr_message_in_flight;

typedef struct orr_link_state {
    uint32_t head, tail; /* parcels that wait; ORR_NONE: none */
    bool busy;
    int64_t came_ns, sent_ns; /* when the last one came from elsewhere, and from the rank here */
} orr_link_state;

typedef struct orr_links {
    const orr_astra_network *network;
    orr_bucket_queue *queue;
    uint64_t first[ORR_ASTRA_DIMS + 1]; /* number of the first link of a dimension */
    orr_link_state *links;              /* shape (first[D]) */
    orr_array(orr_message_in_flight) parcels;
    uint32_t idle; /* list of parcels, or ORR_NONE */
    bool folded;   /* one rank stands for all: every link is its own */
    bool tied;     /* two messages came to a link at once, and who is first was left to
                    * the order of ranks: a folded run cannot tell */
} orr_links;

/* `ranks`: that are simulated. Errors: NO_MEMORY; LIMIT: too many links. */
orr_status orr_links_init(orr_links *links, const orr_astra_network *network, bool folded,
                          orr_bucket_queue *queue, orr_error *err) ORR_MUST_CHECK;
void orr_links_done(orr_links *links);

/* The events of the links, told by what the caller puts in `what`. */
void orr_links_send(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t from, uint32_t to, int64_t bytes, orr_message_event arrival);
/* A parcel is at the far end of its link: true when that is where it goes; *ret_arrival is then
 * what happens. */
bool orr_links_hop(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                   uint32_t parcel, orr_message_event *ret_arrival);
void orr_links_free(orr_links *links, int64_t now_ns, uint64_t hop_what, uint64_t free_what,
                    uint32_t link, uint32_t dim);

#endif /* ORR_SIM_MESSAGE_NETWORK_H */
