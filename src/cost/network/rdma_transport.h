/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_NETWORK_RDMA_TRANSPORT_H
#define ORR_COST_NETWORK_RDMA_TRANSPORT_H

#include <orrery/cost.h>

/* What is left of a level's bandwidth, and who waits for what, by how bytes travel.
 *
 * Letters: B bytes/s of a device across the level, o its oversubscription, R the round trip, D
 * devices of a unit below that send through its p paths, f of them down, q queue pairs of a
 * connection, W = q x outstanding x segment bytes under way of a connection. A field that is 0
 * loses nothing. [M] is Gangidi et al., "RDMA over Ethernet for distributed AI training at Meta
 * scale", SIGCOMM 2024; [N] Si et al., "Collective communication for 100k+ GPUs", arXiv 2510.20171;
 * [B] Bertsekas & Gallager, "Data networks", 2nd ed., 1992.
 *
 * - Window: a connection sends at most W / R ([B], 2.4). A message much below W does not see it: of
 *   steps and bytes of a collective it is the longer of the two (collective.h).
 * - Balance: what the busiest path leaves, as all wait for the slowest. A path has the bandwidth
 *   max(D / (o p), 1) B (none is slower than a port: assumed), so that what is left is
 *       o max(D / (o p), 1) / (connections on the busiest path), at most 1
 *   ecmp: D flows hashed; the queue pairs of a connection go one way. qp: D q flows hashed ([M],
 *   E-ECMP with queue-pair scaling). spray: a flow for each segment under way, each its own way
 *   (assumed). adaptive: 1, a path that is slow gets less (assumed). central: flows laid evenly,
 *   those of failed paths hashed over what is left until the next cycle (30 s [M]); of that 0.95,
 *   for demands that have changed since (assumed; [M]: 5 to 10 % over E-ECMP, worse than it under
 *   several failures).
 * - The busiest path: expected maximum of n balls in m bins, bins as independent Poisson variables
 *   (Mitzenmacher & Upfal, "Probability and computing", 5.4); within 4 % of what
 * src/sim/effects/multipath.c draws.
 * - Failed paths leave (p - f) / p, exactly. At least one is left.
 * - Congestion control: dcqcn 0.95, as a strict ECN was 5 % slower [M]; none and credits 1. Credits
 *   cost nothing of their own: receivers post them ahead of need (assumed).
 * - Loss l, go-back-N of n packets of 4096 bytes in a round trip: (1 - l) / (1 - l + l n) ([B],
 *   2.4.1; [M] names go-back-N).
 * - Queues: where the fabric is slower than a port, what of W exceeds a round trip stands in front
 *   of the bottleneck: W / (what passes there) - R, at most what its buffer holds: 40 us if shallow
 *   (64 MB of a switch of 12.8 Tbit/s), 4 ms if deep (GBs of memory beside 14.4 Tbit/s): assumed.
 *   No more than 10 us with DCQCN (its mark: assumed), nothing with credits, nothing where buffers
 *   are not known. A collective waits once for as much, but no longer than its own bytes take: what
 *   stands there came of the same job's others like it (assumed). Where nothing controls congestion
 *   shallow buffers that overflow pause others, too: 0.9 of the bandwidth, assumed. */
typedef struct orr_rdma_path {
    double bytes_per_s, oversubscription, round_trip_ns;
    double devices; /* D of the formulas above */
} orr_rdma_path;
typedef struct orr_rdma_effect {
    double balance_frac, failed_frac, congestion_frac, loss_frac;
    double frac;               /* product of the four shares of bandwidth; > 0 */
    double queue_ns;           /* upper limit of a collective's wait */
    double window_bytes;       /* W; 0: unlimited */
    double window_bytes_per_s; /* of one connection; 0: unlimited */
} orr_rdma_effect;

/* Levels whose load balancing is not given are taken to be measured with 16 queue pairs
 * (assumed, as in production for language models [M]): a setting costs what it loses against
 * those; with at least 128 devices where paths are not given either (assumed; SINGLE then loses
 * 31 %: [M] saw up to 40 % between the two). */

/* The level's transport (NULL: not given) with a preset on top. What a preset needs and is not
 * given is assumed: 16 paths, as in the simulation of [M]; segments of 1 MiB, 128 of them for
 * each queue pair, as [N] ships them. BOUNDED: 16 queue pairs that hold a round trip between
 * them at the bandwidth that each device has of the level, in segments of at most 1 MiB and at
 * least 64 KiB; a full one waits, so that faster paths carry more. */
orr_rdma_transport orr_rdma_transport_with(const orr_rdma_transport *level, uint8_t setting,
                                           const orr_rdma_path *place);
orr_rdma_effect orr_rdma_effect_of(const orr_rdma_transport *transport, const orr_rdma_path *place);
/* Place of a cluster's level: what a device has of it, at the network's own rates. */
orr_rdma_path orr_rdma_path_of(const orr_cluster *cluster, const orr_network *network,
                               uint32_t level);
/* The longest that a queue gets before somebody is told to stop; 0: not known, or none stands. */
double orr_rdma_queue_room_ns(const orr_rdma_transport *transport);
/* Computes `frac` from its four parts. */
void orr_rdma_effect_update(orr_rdma_effect *effect);

/* Balls into bins: expected number of balls in the fullest bin; at least the mean, and 1. */
double orr_max_bin_load(double balls, double bins);
/* Go-back-N: share of a link's packets that are not retransmissions. */
double orr_go_back_n_goodput(double loss_frac, double packets_in_flight);
/* Share of a level's bandwidth that a single message of so many bytes reaches: one way of
 * latency, then as fast as the transport allows. In [0, 1]. */
double orr_rdma_message_frac(const orr_rdma_effect *effect, const orr_rdma_path *place,
                             double message_bytes);

#endif /* ORR_COST_NETWORK_RDMA_TRANSPORT_H */
