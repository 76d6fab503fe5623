/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_COLLECTIVE_H
#define ORR_COST_COLLECTIVE_COLLECTIVE_H

#include <orrery/cost.h>

/* Closed forms of collectives: messages in a row and bytes that an algorithm needs on each level,
 * before any constant enters (alpha-beta model).
 *
 * A phase needs, of level k, `steps[k]` messages in a row and `bytes[k]` bytes through the endpoint
 * of one member. With the constants of a protocol it takes
 *     max base + sum steps[k] * alpha[k] + (max | sum) of bytes[k] / bytes_per_s[k]
 * max where the levels carry their bytes at the same time, sum where one after another. Phases
 * follow one another, each a collective of its own: one base and one protocol each.
 *
 * Where a window bounds a connection (rdma_transport.h), a level takes no less than `sent[k]`, the
 * bytes of one connection, over the window's rate: latency and waiting for acknowledgements pass
 * together. Where the fabric has queues (rdma_transport.h), a level takes min(queue_ns[k], time of
 * its bytes) more. Compression across a level reads and writes the uncompressed and the compressed
 * bytes in memory at either end: 2 (1 + frac) times the bytes, not overlapped: assumed.
 *
 * On one switch, n members, S bytes, L = ceil(log2 n), f = (n - 1) / n; [T] is Thakur,
 * Rabenseifner, Gropp, "Optimization of collective communication operations in MPICH", IJHPCA
 * 19(1), 2005:
 *
 *   all_reduce      ring                2 (n - 1)  2 f S      [T]; Patarasuk & Yuan, JPDC 69, 2009
 *                   tree                2 L        2 S        double binary tree, pipelined [S];
 *                                                             n = 2: S, n = 3: 3/2 S
 *                   recursive_doubling  L          L S        [T]; n not 2^j: 2 steps and 2 S more
 *                   halving_doubling    2 L        2 f S      [T]; any n by circulant shifts [C]
 *                   direct              2          2 f S      all pairs, twice
 *                   in_network          2          S          up and down a tree of switches [G]
 *   all_gather,     ring                n - 1      f S        [T]
 *   reduce_scatter  recursive_doubling  L          f S        [T]; any n: [B]
 *                   halving_doubling    L          f S        the same
 *                   direct              1          f S
 *                   in_network          2          f S        multicast or reduction in the switch
 *   all_to_all      ring                n - 1      f S        pairwise exchange [T]
 *                   recursive_doubling  L          ~ L S / 2  [B]
 *                   direct              1          f S
 *   broadcast,      ring                n - 1      S          chain, in the limit of small chunks
 *   reduce          tree                L          L S        binomial [T]
 *                   halving_doubling    2 L        2 f S      scatter, all-gather: van de Geijn [T]
 *                   direct              1          (n - 1) S
 *                   in_network          2          S          [G]
 *   gather,         tree                L          f S        binomial [T]
 *   scatter         direct              1          f S
 *   barrier         as an all_reduce of 0 bytes
 *   send, recv      direct              1          S          Hockney (cost.h)
 *
 * [S] Sanders, Speck, Traff, "Two-tree algorithms", Parallel Computing 35, 2009; in the limit of
 * small chunks. [C] Traff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", 2024.
 * [G] Graham et al., "Scalable hierarchical aggregation protocol (SHArP)", COM-HPC 2016. [B] Bruck
 * et al., "Efficient algorithms for all-to-all communications", IEEE TPDS 8(11), 1997.
 *
 * On rings and between all pairs the same messages take more hops and share links
 * (patterns.h). Over several levels:
 *   ring          one ring through all members, as NCCL builds them: as many at once as a unit
 *                 has members, so that a level gives a unit the bandwidth of all of them
 *   tree          all_reduce: trees of units at each level, chained; as many at once likewise
 *   direct        each pair at the lowest level that joins it
 *   others        level by level within one collective
 *   hierarchical  level by level, a collective each: reduce-scatter inside, all-reduce across,
 *                 all-gather inside, recursively; each the cheapest on its level
 *
 * Doubling goes over the levels so that the outermost carries least: reduce-scatter by halving from
 * the nearest partner to the farthest, all-gather from the farthest to the nearest. That is what
 * won on oversubscribed links in Si et al., "Collective communication for 100k+ GPUs", arXiv
 * 2510.20171; the other order (orr_coll_gather_nearest_first()) sends as many times more across
 * a level as there are members below it, in as many steps, and so is no choice of its own.
 *
 * Pieces. HIERARCHICAL in c pieces (orr_network.chunks): a level works on one piece at a time,
 * levels on different ones at once, so that
 *     T(S) = sum of phases of S / c + (c - 1) * the most that a piece keeps one level busy
 * a phase keeping its level busy for all of its time, latency included, as collectives of one
 * communicator do. It is what the slowest stage of a pipeline gives (Hockney's r_inf, n_1/2); a
 * schedule that is carried out piece by piece never takes longer, and is shorter by less than the
 * phases of one piece on the other levels (tests/unit/cost/collective/test_pipelined_pieces.c).
 *
 * Units that hold unequal numbers of members (orr_span.even false) count as the fullest does:
 * assumed. Where units have unequal sizes (orr_network.uneven: sites), what crosses between them
 * goes through the ports of the smaller ones: of the group's ranks those that are left when the
 * largest is full, shared evenly, and no fewer than half of the mean. Exact for two sites, up to
 * 3:1, of which the larger is full on the levels inside of it. */
enum { ORR_COLL_PHASES = 2 * ORR_LEVELS_MAX };
typedef struct orr_coll_phase {
    double steps[ORR_LEVELS_MAX];
    double bytes[ORR_LEVELS_MAX];
    double sent[ORR_LEVELS_MAX]; /* the part of `bytes` sent through one connection,
                                  * oversubscribed or not */
    double copied_bytes;         /* through memory, for compression and decompression */
    bool in_network;             /* uses the constants of `reduction` */
    bool together;               /* max over levels, not sum */
} orr_coll_phase;
typedef struct orr_coll_schedule {
    uint32_t n;
    uint32_t pieces; /* chunks of which `phases` are one; at least 1 */
    orr_coll_phase phases[ORR_COLL_PHASES];
} orr_coll_schedule;

/* Schedule of an algorithm. False: the algorithm (not AUTO) does not serve the collective, and
 * `ret` is undefined. HIERARCHICAL chooses by price on each level. Phases beyond `n` are not
 * written. */
bool orr_coll_schedule_of(const orr_network *network, const orr_span *span,
                          orr_collective collective, orr_algorithm algorithm, double bytes,
                          orr_coll_schedule *ret);
/* Recursive-doubling all-gather from the nearest partner to the farthest, in one phase: the
 * order that is not used. */
void orr_coll_gather_nearest_first(const orr_network *network, const orr_span *span, double bytes,
                                   orr_coll_phase *ret);
/* Time of a phase with its fastest protocol; `ret_protocol` may be NULL. INFINITY: no protocol
 * has a bandwidth. */
double orr_coll_phase_ns(const orr_network *network, const orr_coll_phase *phase,
                         int *ret_protocol);
/* Time of all chunks of all phases. */
double orr_coll_schedule_ns(const orr_network *network, const orr_coll_schedule *schedule);
/* The cheapest algorithm and its schedule; `algorithm` itself unless it is AUTO or does not
 * serve. Infinite where no algorithm serves. */
double orr_coll_choose(const orr_network *network, const orr_span *span, orr_collective collective,
                       orr_algorithm algorithm, double bytes, orr_algorithm *ret_algorithm,
                       orr_coll_schedule *ret);

/* Lowest level whose links a transfer across level k uses: devices' own links and network adapters
 * are networks of their own (NVLink beside NICs), and a transfer across one does not touch the
 * other. Technology decides, whatever the bandwidths. */
uint32_t orr_network_lowest_level(const orr_network *network, uint32_t k);

#endif /* ORR_COST_COLLECTIVE_COLLECTIVE_H */
