/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_FLOW_FLOWS_H
#define ORR_SIM_FLOW_FLOWS_H

#include <stdbool.h>
#include <stddef.h>

#include <orrery/sim.h>

/* Network of flows: bytes in transfer between devices, modelled as fluids that share the links of a
 * cluster max-min fairly. The engine drives it:
 *
 *   orr_flows_begin(flows, now_ns, demands, n, latency_ns, tag, err);   a collective starts
 *   while (orr_flows_next(flows, &at_ns) && at_ns <= my own next event)
 *       orr_flows_advance(flows, at_ns, &done, &n_done);                tags that ended at at_ns
 *
 * Time never goes back, and never past orr_flows_next() without orr_flows_advance(): a begin at a
 * time that breaks this is INVALID. Several begins at one time cost one computation of rates.
 *
 * Results are exact: rates are whole units of 1 byte per 2^20 ns (954 bytes/s), and equal those of
 * progressive filling in whole units: all flows rise together by one unit at a time, and a flow
 * stops at the level from which some link of its route could not lift all of its flows that still
 * rise. The order of flows plays no part, so the result is unique (the proof is in
 * max_min_rates.h), the same on every machine, and incremental computation gives what a full one
 * would. A flow has at least one unit, even where more flows than units share a link. A flow ends
 * at the first whole ns at which all its bytes have passed.
 *
 * Memory is allocated only while arrays grow to the largest number of concurrent flows. One
 * thread. */
typedef struct orr_flows orr_flows;

enum { ORR_FLOW_UNIT_SHIFT = 20 };            /* unit of rates: 1 byte per 2^20 ns */
#define ORR_FLOW_BYTES_MAX (INT64_C(1) << 42) /* of one flow; more is LIMIT */

/* A demand: bytes from one device of the cluster to another. src == dst uses no link. */
typedef struct orr_flow_demand {
    uint32_t src, dst;
    int64_t bytes;
} orr_flow_demand;

/* Makes a network from the links of the cluster (fabric.h), at the bandwidth that `network`
 * reaches with its BANDWIDTH protocol (orr_network_of_cluster()). Free with orr_flows_free().
 * The arguments need not outlive the call. Errors: NO_MEMORY, LIMIT: over 2^31 links. */
orr_status orr_flows_new(const orr_cluster *cluster, const orr_network *network, orr_flows **ret,
                         orr_error *err) ORR_MUST_CHECK;
void orr_flows_free(orr_flows *flows); /* may be NULL */

/* Starts the flows of one transfer, shape (n), together at now_ns. The tag is reported once,
 * latency_ns after the last of them has ended. n may be 0. The demands are copied. Errors:
 * INVALID: a device beyond the cluster, negative bytes, a time out of order; LIMIT; NO_MEMORY:
 * nothing of the transfer was started. */
orr_status orr_flows_begin(orr_flows *flows, int64_t now_ns, const orr_flow_demand *demands,
                           size_t n, int64_t latency_ns, uint64_t tag,
                           orr_error *err) ORR_MUST_CHECK;
/* Folded flows. Where a cluster's links and flows are symmetric (the engine finds their classes by
 * partition refinement), one link is simulated for each class of links and one flow for each class
 * of flows, with the number of its flows on a link of each class. Fair rates are unique, so those
 * of the classes are those of their members: nothing is approximated.
 *
 * Classes are those of a component: transfers of different components never share a link while
 * both are under way, so that a link has a class in each component, and carries the sum. */
typedef struct orr_link_classes {
    uint32_t n_classes, n_components;
    const int64_t *capacity;  /* shape (n_classes) */
    const uint32_t *class_of; /* shape (links of the fabric, n_components); ORR_NONE: unused */
} orr_link_classes;
/* A class of flows, and the classes of links that it crosses. */
typedef struct orr_flow_class {
    int64_t bytes;                   /* of each */
    const uint32_t *links, *weights; /* shape (n_links); weights: of its flows, those on one link */
    uint32_t n_links;
} orr_flow_class;
/* From now on flows are begun by class. To be called before any other. The arrays must outlive the
 * flows. Errors: NO_MEMORY. */
orr_status orr_flows_fold(orr_flows *flows, const orr_link_classes *classes,
                          orr_error *err) ORR_MUST_CHECK;
/* As orr_flows_begin(), for all transfers of a class at once; those begin and end together. */
orr_status orr_flows_begin_classes(orr_flows *flows, int64_t now_ns, const orr_flow_class *classes,
                                   size_t n, int64_t latency_ns, uint64_t tag,
                                   orr_error *err) ORR_MUST_CHECK;
/* The links of the fabric, which number the rows of orr_link_classes, and a route over them. */
struct orr_fabric;
const struct orr_fabric *orr_flows_fabric(const orr_flows *flows);

/* Starts one flow, with the latency of its route. */
orr_status orr_flows_add(orr_flows *flows, int64_t now_ns, uint32_t src, uint32_t dst,
                         int64_t bytes, uint64_t tag, orr_error *err) ORR_MUST_CHECK;

/* Time of the next event in the network; false: nothing is in transfer. Not every event ends a
 * transfer: its flows may end one by one. */
bool orr_flows_next(orr_flows *flows, int64_t *ret_at_ns);
/* Advances time to at_ns, at most what orr_flows_next() says. Gives the tags of the transfers
 * that ended then, in the order in which they began; valid until the next call. Allocates
 * nothing. */
void orr_flows_advance(orr_flows *flows, int64_t at_ns, const uint64_t **ret_done, size_t *ret_n);

/* Bytes and utilisation of the links until the time of the last advance or begin, by (level,
 * unit, up); links that carried nothing are left out. utilisation_frac is over `begin_ns` ..
 * that time. At most ORR_FLOW_SAMPLES samples a link: as they grow more, neighbours are merged
 * into their mean over time. In the arena. Errors: NO_MEMORY. */
enum { ORR_FLOW_SAMPLES = 512 };
orr_status orr_flows_links(orr_flows *flows, int64_t begin_ns, orr_arena *arena,
                           const orr_link_use **ret, uint32_t *ret_n,
                           orr_error *err) ORR_MUST_CHECK;

/* A collective as flows: the bytes that its algorithm sends between each pair, and the latency on
 * top: what orr_collective_price() has beyond the time that the busiest level needs for its bytes,
 * so that a group that fills its units takes that price when it is alone. (Where levels of
 * different speed share one port, and where a group leaves an oversubscribed uplink to others, it
 * differs.) AUTO is resolved as there.
 *
 * `members`: devices, shape (n), in the order of the group; `bytes` as in
 * orr_collective_price(); `root`: index of a member, for broadcast, reduce, gather, scatter
 * (else ignored); of a SEND or RECV members are { source, destination }. `ret` is kept and grown
 * between calls: start with {0}, end with orr_demands_done(). Errors: INVALID: a member beyond
 * the cluster, or twice; LIMIT: an all-to-all of over 2^22 pairs (other collectives of all pairs
 * are then sent along rings: as many bytes each); NO_MEMORY. */
typedef struct orr_demands {
    orr_flow_demand *at;
    size_t n, room;
    int64_t latency_ns;
    orr_price price; /* when alone on the network */
} orr_demands;
orr_status orr_flows_of_collective(orr_flows *flows, const uint32_t *members, uint32_t n,
                                   orr_collective collective, orr_algorithm algorithm,
                                   int64_t bytes, uint32_t root, orr_demands *ret,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_demands_done(orr_demands *demands);

#endif /* ORR_SIM_FLOW_FLOWS_H */
