/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_COLLECTIVE_H
#define ORR_COST_COLLECTIVE_H

#include <orrery/cost.h>

/* Collectives as closed forms: what an algorithm needs of each level, before any constant enters.
 *
 * A phase needs, of level k, `steps[k]` messages in a row and `bytes[k]` bytes through the endpoint
 * of one member. With the constants of a protocol it takes
 *     max base + sum steps[k] * alpha[k] + (max | sum) of bytes[k] / bytes_per_s[k]
 * max where the levels carry their bytes at the same time, sum where one after another. Phases
 * follow one another, each a collective of its own: one base and one protocol each.
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
 * (collective_shape.h). Over several levels:
 *   ring          one ring through all members, as NCCL builds them: as many at once as a unit
 *                 has members, so that a level gives a unit the bandwidth of all of them
 *   tree          all_reduce: trees of units at each level, chained; as many at once likewise
 *   direct        each pair at the lowest level that joins it
 *   others        level by level within one collective
 *   hierarchical  level by level, a collective each: reduce-scatter inside, all-reduce across,
 *                 all-gather inside, recursively; each the cheapest on its level */
enum { ORR_COLL_PHASES = 2 * ORR_LEVELS_MAX };
typedef struct orr_coll_phase {
    double steps[ORR_LEVELS_MAX];
    double bytes[ORR_LEVELS_MAX];
    bool   in_network; /* with the constants of `reduction` */
    bool   together;   /* max over levels, not sum          */
} orr_coll_phase;
typedef struct orr_coll_schedule {
    uint32_t       n;
    orr_coll_phase phases[ORR_COLL_PHASES];
} orr_coll_schedule;

/* False: the algorithm (not AUTO) does not serve it. HIERARCHICAL chooses by price on its
 * levels. */
bool orr_coll_schedule_of(const orr_network *network, const orr_span *span,
                          orr_collective collective, orr_algorithm algorithm, double bytes,
                          orr_coll_schedule *ret);
/* The phase's time with its fastest protocol; `ret_protocol` may be NULL. INFINITY: no protocol has
 * a bandwidth. */
double orr_coll_phase_ns(const orr_network *network, const orr_coll_phase *phase,
                         int *ret_protocol);
/* Cheapest algorithm and its schedule; `algorithm` itself unless it is AUTO or does not serve.
 * Infinite for what nothing serves. */
double orr_coll_choose(const orr_network *network, const orr_span *span,
                       orr_collective collective, orr_algorithm algorithm, double bytes,
                       orr_algorithm *ret_algorithm, orr_coll_schedule *ret);

/* Lowest level whose links a transfer across level k takes. Where a level below is at least four
 * times as fast it is a network of its own (NVLink beside NICs) that the transfer does not
 * touch. Source: assumed; NVLink over NIC is 9 to 18, levels of one network differ by their
 * oversubscription only. */
uint32_t orr_network_base(const orr_network *network, uint32_t k);

#endif /* ORR_COST_COLLECTIVE_H */
