/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_MULTIPATH_H
#define ORR_SIM_EFFECTS_MULTIPATH_H

#include <orrery/machine.h>

/* Flows laid on paths, drawn again and again: how much busier than the mean is the busiest path?
 * What the closed forms of src/cost/network/rdma_transport.h are tried against.
 *
 * Balls are flows (ECMP), queue pairs of flows (QP), segments of queue pairs (SPRAY), each on a
 * path at random; ADAPTIVE lays each on the emptiest path. CENTRAL deals queue pairs of flows
 * evenly over all paths, and those of paths that then fail at random over what is left. Others
 * know which paths have failed. */
typedef struct orr_multipath_job {
    uint8_t balance; /* orr_balance; not UNKNOWN */
    uint32_t flows, queue_pairs, segments, paths, failed;
    uint32_t draws;
    uint64_t seed;
} orr_multipath_job;
typedef struct orr_multipath_load {
    double mean, median,
        p99; /* over draws: balls on the busiest path over the mean of those left */
} orr_multipath_load;
/* Deterministic. Errors: INVALID: nothing to lay or nowhere to; NO_MEMORY. */
orr_status orr_multipath_simulate(const orr_multipath_job *job, orr_multipath_load *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_MULTIPATH_H */
