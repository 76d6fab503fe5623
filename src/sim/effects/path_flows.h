/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_PATH_FLOWS_H
#define ORR_SIM_EFFECTS_PATH_FLOWS_H

#include <stdbool.h>

#include <orrery/machine.h>

#include "base/array.h"

/* Transfers of many connections over the equal-cost paths of one uplink, as fluids: what collisions
 * of the hash, windows, loss, priorities, failed paths, queues and other jobs' traffic make of
 * them. The closed forms of src/cost/network/rdma_transport.h look at one transfer at a time.
 *
 * - A connection between two ranks has q queue pairs, which carry equal parts of its bytes. Its
 *   flows (connections, queue pairs, or segments under way, by load balancing) are dealt onto paths
 *   once for a draw (multipath.h), for all transfers of the same traffic. ADAPTIVE, and a balance
 *   that is not known, share all paths as one.
 * - On a path flows of the same priority share what those of higher priority leave, max-min fairly
 *   (Bertsekas & Gallager, "Data networks", 6.5.2), each at most as fast as its share of the port,
 *   and of the window over the round trip (the same, 2.4).
 * - Of what is sent a part is lost, l of the packets. Go-back-N of n packets under way delivers
 *   (1 - l) / (1 - l + l n) of it, selective repeat 1 - l (the same, 2.4.1); n follows from the
 * rate. The slowest flow has lost more than the mean: the most of as many Poisson variables as
 * there are flows, each loss a window's time; with selective repeat a round trip if one of the last
 *   windows lost a packet.
 * - A transfer has ended when the last of its flows has, and has then waited behind what others of
 *   its priority or above have in flight beyond a round trip, at most what buffers hold. */
typedef struct orr_path_network {
    uint32_t paths, failed;
    double bytes_per_s; /* of all paths, those that failed included; a path has an equal part */
    double round_trip_ns;
    double loss_frac;
    bool selective;       /* selective repeat, not go-back-N */
    double room_ns;       /* the longest queue; 0: none is known */
    double others_frac;   /* other jobs offer so much of `bytes_per_s`, without end */
    double others_port;   /* in flows of so many bytes/s each, hashed as ECMP does */
    uint8_t others_class; /* their priority */
} orr_path_network;
/* Connections that are the same in every transfer. 0 queue pairs or segments: 1. */
typedef struct orr_path_traffic {
    uint32_t connections, queue_pairs, segments;
    double port_bytes_per_s, window_bytes; /* of a connection; window 0: unlimited */
    uint8_t balance;                       /* orr_balance */
    uint8_t priority;                      /* strict: lower ones go first */
} orr_path_traffic;
typedef struct orr_path_transfer {
    int64_t start_ns;
    double bytes; /* of each connection */
    uint32_t traffic;
} orr_path_transfer;
typedef struct orr_path_job {
    orr_path_network network;
    const orr_path_traffic *traffic;    /* shape (n_traffic) */
    const orr_path_transfer *transfers; /* shape (n), by start_ns */
    uint32_t n_traffic, n;
    uint64_t seed;
} orr_path_job;
/* The flows of a transfer on one path. Rates and bytes are those of one of them. */
typedef struct orr_path_group {
    uint32_t transfer; /* UINT32_MAX: other jobs' */
    uint8_t priority;
    double flows;
    double left_bytes, all_bytes, cap, rate; /* bytes/s sent, retransmissions included */
    double window_bytes;                     /* INFINITY: unlimited */
    double queue_pairs;                      /* that a flow stands for; below 1: part of one */
} orr_path_group;
/* Memory that simulations use one after another: zeroed at first, released by
 * orr_path_room_done(). */
typedef struct orr_path_room {
    orr_array(uint64_t) on;
    orr_array(uint64_t) dealt;
    orr_array(orr_path_group) active;
} orr_path_room;
void orr_path_room_done(orr_path_room *room);
/* How long each transfer takes, shape (n), in one draw of the hash. Deterministic. Errors: INVALID:
 * no path works, a path or a port without bandwidth, transfers out of order; NO_MEMORY. */
orr_status orr_path_flows_simulate(const orr_path_job *job, uint64_t draw, orr_path_room *room,
                                   int64_t *ret_ns, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_PATH_FLOWS_H */
