/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_BOUND_TERMS_H
#define ORR_ESTIMATE_BOUND_TERMS_H

#include <math.h>

#include "estimate/estimate.h"

/* At least, of one virtual stage of a class. */
typedef struct orr_stage_lower_bound {
    double phase_ns[ORR_SLOT_PHASES],
        after_ns[ORR_SLOT_PHASES]; /* after: what a slot takes longer when it
                                    * comes after another of its stage */
    double first_ns, owed_ns[ORR_SLOT_PHASES], owed_first_ns, owed_last_ns, last_ns;
    double lane_ns, replica_ns; /* gradients of a slot that gives some; ZeRO 3:
                                   all of a micro-batch      */
    double until_ns;            /* the computation of such a slot before the first of them */
    double host_ns;             /* of a slot  */
    double final_ns, over_ns;   /* the last of them; with replicas of it, and what
                                   these take longer      */
    double turn_ns[2];          /* forward and backward: of the modules, nothing else */
} orr_stage_lower_bound;
void orr_stage_lower_bound_of(const orr_estimate_draft *d, uint32_t class_of,
                              orr_stage_lower_bound *ret);

/* Along which axes gradients or weights travel, one after another on one lane.
 */
typedef struct orr_shard_transfer {
    orr_axis dense, expert;
    orr_collective collective;
    double bytes; /* of an element */
} orr_shard_transfer;
orr_shard_transfer orr_gradient_transfer_of(const orr_estimate_draft *d);
orr_shard_transfer orr_weight_transfer_of(const orr_estimate_draft *d);
double orr_shard_transfer_bound(const orr_estimate_draft *d, const orr_shard_transfer *m,
                                double dense, double expert);
/* Shards are summed over their replicas on a lane of their own. */
double orr_replica_transfer_bound(const orr_estimate_draft *d, double dense);
/* Elements of all modules of a class. */
void orr_stage_class_add_elements(const orr_estimate_draft *d, const orr_stage_class *class,
                                  double *dense, double *expert);
/* Does no other kind of virtual stage share the class? */
bool orr_stage_class_is_uniform(const orr_stage_class *class);
/* Of a transfer beside computation: what computation loses at least. */
static inline double orr_overlap_loss_frac(const orr_estimate_draft *d)
{
    const double slowdown = orr_draft_slowdown(d);
    return slowdown > 1 ? 1 - 1 / slowdown : 0;
}

#endif /* ORR_ESTIMATE_BOUND_TERMS_H */
