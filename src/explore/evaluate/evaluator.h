/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_EVALUATOR_H
#define ORR_EXPLORE_EVALUATE_EVALUATOR_H

#include <orrery/explore.h>

/* The one evaluator of plans: the search, the baselines and the sensitivity all ask it, so that
 * figures compare.
 *
 * A plan on a cluster with sites lies on as many devices of each as its `sites` say. What a closed
 * form says of it (orr_estimate_of()), what a simulation says (orr_outcome_of()), and what that
 * means for the objectives. Asks estimators that remember; one thread at a time. */
typedef struct orr_evaluator orr_evaluator;
/* Model, cluster and options must outlive it. Errors: as orr_estimator_new(). */
orr_status orr_evaluator_new(const orr_model *model, const orr_cluster *cluster,
                             const orr_explore_options *options, orr_evaluator **ret,
                             orr_error *err) ORR_MUST_CHECK;
void orr_evaluator_free(orr_evaluator *evaluator); /* NULL is allowed */
/* Shares what `from` knows of failures, which costs most: for evaluators of one search. `from` must
 * outlive it. */
void orr_evaluator_share_failures(orr_evaluator *evaluator, const orr_evaluator *from);

/* Bound, estimate, memory. Values of objectives are lower bounds, from bound_ns. INVALID: a plan
 * that cannot be on this cluster; it does not fit: OK, with peak above usable. */
orr_status orr_evaluator_estimate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* A bound for all plans with the same degrees, layout and schedule, whatever they shard and send:
 * no step is shorter. `anywhere`: whatever layout, if that of the plan has its slices next to one
 * another and all devices are alike. In a microsecond, where the estimate would have to find the
 * order of turns first. 0: nothing is known. Errors as orr_evaluator_estimate(). */
orr_status orr_evaluator_order_free_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                          bool anywhere, double *ret_ns,
                                          orr_error *err) ORR_MUST_CHECK;
/* All of it, simulated; values of objectives from step_ns. */
orr_status orr_evaluator_simulate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* The least that any plan with these modules can take (tp, cp, ep, etp, micro_batch, seq,
 * precision, recompute, sp, cp_kind, overlap_tp, overlap_ep, flash, fusion, graphs of `plan`; the
 * rest of it is not looked at), whatever its stages, replicas and schedule, on all devices that it
 * may have: computation spread evenly. */
orr_status orr_evaluator_family_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                      double *ret_ns, orr_error *err) ORR_MUST_CHECK;
/* Values of objectives for a step of so long on so many devices of each site (NULL: n_devices of
 * the one there is) with so many replicas, the unit of failure: `step_ns` may be a bound, and then
 * the values are. */
typedef struct orr_objective_inputs {
    const uint32_t *site_devices; /* shape (n_sites), or NULL */
    uint32_t n_devices, replicas;
    double step_ns, energy_j; /* of a step; NAN: not known */
} orr_objective_inputs;
orr_status orr_evaluator_objectives(orr_evaluator *evaluator, const orr_plan *plan,
                                    const orr_objective_inputs *use, double ret[ORR_OBJECTIVES],
                                    double *ret_effective, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_EVALUATOR_H */
