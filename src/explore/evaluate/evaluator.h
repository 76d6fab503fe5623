/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_EVALUATOR_H
#define ORR_EXPLORE_EVALUATE_EVALUATOR_H

#include <orrery/explore.h>

/* The evaluator of plans, shared by the search, the baselines and the sensitivity, so that their
 * figures compare. It gives a plan's closed-form estimate (orr_estimate_of()) or simulation
 * (orr_outcome_of()) and derives the values of all objectives. On a cluster with sites, a plan uses
 * as many devices of each site as its `sites` say. It caches estimates; one thread at a time. */
typedef struct orr_evaluator orr_evaluator;
/* Model, cluster and options must outlive it. Errors: as orr_estimator_new(). */
orr_status orr_evaluator_new(const orr_model *model, const orr_cluster *cluster,
                             const orr_explore_options *options, orr_evaluator **ret,
                             orr_error *err) ORR_MUST_CHECK;
void orr_evaluator_free(orr_evaluator *evaluator); /* NULL is allowed */
/* Lets the evaluators of one search share the cache of effective times, the most expensive part.
 * `from` must outlive it. */
void orr_evaluator_share_failures(orr_evaluator *evaluator, const orr_evaluator *from);

/* Lower bound, estimate and memory of a plan; the values of objectives follow from the bound and
 * are lower bounds too. INVALID: the plan cannot run on this cluster. A plan that does not fit
 * returns OK with a peak above usable. */
orr_status orr_evaluator_estimate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Upper bound of the effective training time ratio of all plans on so many devices whose weights
 * have so many ranks (dp x cp). 1: failures are not simulated. */
orr_status orr_evaluator_most_effective(orr_evaluator *evaluator, uint32_t n_devices,
                                        uint32_t ranks, double *ret, orr_error *err) ORR_MUST_CHECK;
/* With `any`, bounds hold for every way in which gradients and weights can travel: dp_algorithm,
 * dp_chunks, bucket_bytes, prefetch. */
void orr_evaluator_any_reductions(orr_evaluator *evaluator, bool any);
/* The time of each transfer of gradients or weights that the last estimate asked for, ns. Valid
 * until the next one. Two plans that differ in the algorithm alone ask for the same transfers.
 * *ret_n: ORR_ESTIMATE_REDUCTIONS: there are more. */
const double *orr_evaluator_reductions(const orr_evaluator *evaluator, uint32_t *ret_n);
/* Order-free lower bound of the step for all plans with the same degrees, layout and schedule,
 * whatever they shard and transfer. With `anywhere` it holds for every layout, provided that the
 * plan has its slices next to one another and devices are uniform. It takes a microsecond, for the
 * order of schedule slots is not needed; without `quick`, slots that run at once are simulated
 * first. 0: no bound is known. Errors as orr_evaluator_estimate().
 */
orr_status orr_evaluator_order_free_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                          bool anywhere, bool quick, double *ret_ns,
                                          orr_error *err) ORR_MUST_CHECK;
/* The same with what memory forces on plans of these degrees and schedule, however much they
 * recompute, shard within `zeros` (a bit for each ZeRO stage) and offload. INFINITY: none has room.
 */
typedef struct orr_memory_scope {
    uint8_t zeros, gradients;
    bool offloads_activations;
    double slack;
} orr_memory_scope;
orr_status orr_evaluator_degrees_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                       const orr_memory_scope *scope, bool anywhere, double *ret_ns,
                                       orr_error *err) ORR_MUST_CHECK;
/* Simulates the plan; values of objectives follow from the simulated step. */
orr_status orr_evaluator_simulate(orr_evaluator *evaluator, const orr_plan *plan, orr_explored *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Family bound: no plan with these modules has a shorter step, whatever its stages, replicas and
 * schedule. The computation is spread evenly over all devices. Only the fields that modules depend
 * on are read: tp, cp, ep, etp, micro_batch, seq, precision, recompute, sp, cp_kind, overlap_tp,
 * overlap_ep, flash, fusion, graphs, dispatcher, capacity, pad_experts. */
orr_status orr_evaluator_family_bound(orr_evaluator *evaluator, const orr_plan *plan,
                                      double *ret_ns, orr_error *err) ORR_MUST_CHECK;
/* Inputs of the objectives: a step time on so many devices of each site, with so many replicas (the
 * unit of failure). From a lower bound of the step come lower bounds of the objectives. */
typedef struct orr_objective_inputs {
    const uint32_t *site_devices; /* shape (n_sites); NULL: one site with n_devices */
    uint32_t n_devices, replicas;
    double step_ns, energy_j; /* of a step; NAN: unknown */
} orr_objective_inputs;
orr_status orr_evaluator_objectives(orr_evaluator *evaluator, const orr_plan *plan,
                                    const orr_objective_inputs *use, double ret[ORR_OBJECTIVES],
                                    double *ret_effective, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_EVALUATOR_H */
