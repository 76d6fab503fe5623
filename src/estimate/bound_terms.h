/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_BOUND_TERMS_H
#define ORR_ESTIMATE_BOUND_TERMS_H

#include <math.h>

#include "estimate/estimate.h"

/* Lower bounds for one virtual stage of a class. */
typedef struct orr_stage_lower_bound {
    double phase_ns[ORR_SLOT_PHASES],
        after_ns[ORR_SLOT_PHASES]; /* after_ns: extra time of a slot that follows another on its
                                      stage */
    double first_ns, stall_ns[ORR_SLOT_PHASES], stall_first_ns, stall_last_ns, last_ns;
    double lane_ns,
        replica_ns;  /* gradients of one slot that gives some; ZeRO 3: of a whole micro-batch */
    double once_ns;  /* ZeRO 3 of a pipeline: gradients of the last slot, the only one with any */
    double until_ns; /* computation in that slot before the first transfer is issued */
    double host_ns;  /* host time of a slot */
    double final_ns,
        over_ns;          /* the last transfer, with its replicas; what the replicas add to it */
    double compute_ns[2]; /* forward and backward computation of the modules alone */
} orr_stage_lower_bound;
void orr_stage_lower_bound_of(const orr_estimate_draft *d, uint32_t class_of,
                              orr_stage_lower_bound *ret);

/* A kind of transfer of gradients or weights: its axes (one after another on one stream),
 * collective and element size. */
typedef struct orr_shard_transfer {
    orr_axis dense, expert;
    orr_collective collective;
    double bytes; /* of an element */
} orr_shard_transfer;
orr_shard_transfer orr_gradient_transfer_of(const orr_estimate_draft *d);
orr_shard_transfer orr_weight_transfer_of(const orr_estimate_draft *d);
double orr_shard_transfer_bound(const orr_estimate_draft *d, const orr_shard_transfer *m,
                                double dense, double expert);
/* Shards are summed over their replicas on a separate stream. */
double orr_replica_transfer_bound(const orr_estimate_draft *d, double dense);
/* Adds the parameters of all modules of a class. */
void orr_stage_class_add_elements(const orr_estimate_draft *d, const orr_stage_class *class,
                                  double *dense, double *expert);
/* Whether the class has one kind of virtual stage only. */
bool orr_stage_class_is_uniform(const orr_stage_class *class);

/* Order-free bound in parts (bound_order_free.c): finds rows, partition and pairs of a draft, with
 * `even` those of ZeRO 2 and 3, with `quick` no pairs; the bound of its slots, with `shards` and
 * the transfers of weights and gradients in each; the bound of the simulation, which has whole ns.
 */
orr_status orr_order_free_parts(orr_estimate_draft *d, bool even, bool quick,
                                orr_error *err) ORR_MUST_CHECK;
double orr_order_free_ns(const orr_estimate_draft *d, bool anywhere, bool shards);
double orr_order_free_rounded(double ns);

#endif /* ORR_ESTIMATE_BOUND_TERMS_H */
