/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_MULTIPATH_H
#define ORR_SIM_EFFECTS_MULTIPATH_H

#include <orrery/machine.h>

/* Multipath load by Monte Carlo: how much busier than the mean is the busiest of equal-cost paths?
 * The closed forms of src/cost/network/rdma_transport.h are compared with it.
 *
 * A balls-into-bins process. Balls are flows (ECMP), queue pairs (QP) or segments (SPRAY), each
 * on a random path; ADAPTIVE puts each on the least loaded path; CENTRAL distributes queue pairs
 * evenly over all paths, and those of paths that then fail at random over the others. The other
 * policies know which paths have failed. */
typedef struct orr_multipath_job {
    uint8_t balance; /* orr_balance; not UNKNOWN */
    uint32_t flows, queue_pairs, segments, paths, failed;
    uint32_t draws;
    uint64_t seed;
} orr_multipath_job;
typedef struct orr_multipath_load {
    double mean, median,
        p99; /* over draws: load of the busiest path over the mean of those that work */
} orr_multipath_load;
/* One draw: balls on each path, shape (paths); those that failed have none. The same for the same
 * seed and draw. From 2^14 balls on the numbers are drawn path by path as binomial ones, by their
 * normal approximation (means of 200 and more up to 76 paths). Returns the number of balls. There
 * has to be a path that works. */
uint64_t orr_multipath_deal(const orr_multipath_job *job, uint64_t draw, uint64_t *ret);
/* Deterministic. Errors: INVALID: no balls or no paths; NO_MEMORY. */
orr_status orr_multipath_simulate(const orr_multipath_job *job, orr_multipath_load *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_MULTIPATH_H */
