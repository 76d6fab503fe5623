/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_BOUND_FAMILY_H
#define ORR_ESTIMATE_BOUND_FAMILY_H

#include "estimate/estimate.h"

/* What a module, or several, costs a rank for one micro-batch at least, forward and backward. */
typedef enum orr_cost_way {
    ORR_COST_PLAIN,   /* slots one after another */
    ORR_COST_SPLIT,   /* the same with a split backward pass */
    ORR_COST_COMPUTE, /* slots in pairs: computation, and what it loses beside transfers */
    ORR_COST_CHAIN,   /* slots in pairs: a backward slot alone */
    ORR_COST_WAYS
} orr_cost_way;
typedef struct orr_work_cost {
    double ns[ORR_COST_WAYS];
    double forward_ns, backward_ns;
} orr_work_cost;

/* A phase of a module in a slot that runs at once with another: it alone, and what the device
 * computes with what that certainly loses beside transfers. */
typedef struct orr_paired_phase {
    double chain_ns, compute_ns;
} orr_paired_phase;
orr_paired_phase orr_module_paired_phase(const orr_plan *plan, double stretch,
                                         const orr_priced_module *module, int phase);

/* The modules of a rank, as far as bounds of a family depend on them. */
typedef struct orr_family_work {
    const orr_priced_row *row;
    orr_work_cost total;  /* of all places, without the host */
    double slot_host_ns;  /* of a forward or backward slot */
    double dense, expert; /* number of weights with a gradient */
} orr_family_work;
orr_work_cost orr_module_work_cost(const orr_calibration *calibration, const orr_plan *plan,
                                   double stretch, const orr_priced_module *module);

/* A family and its bound. */
typedef struct orr_family_parts {
    orr_plan plan;            /* on as few ranks as can have its modules */
    double bound_ns, rest_ns; /* rest_ns: optimizer and constants of a step */
    uint32_t n_device_kinds;
    const orr_estimate_device *on; /* the first kind */
    double jitter;                 /* of all devices */
    orr_family_work work;          /* on the last kind */
} orr_family_parts;
orr_status orr_family_parts_of(orr_estimator *e, const orr_plan *plan, uint32_t n_devices,
                               orr_family_parts *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ESTIMATE_BOUND_FAMILY_H */
