/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_OUTCOME_H
#define ORR_OUTCOME_OUTCOME_H

#include <orrery/outcome.h>

#include "model/step/step_graph.h"

/* Parts of an outcome: the prepared job, its layout as an ensemble of graphs, and where the time of
 * the simulated step went. */

/* Everything from which the graph of any stage can be emitted again. */
typedef struct orr_outcome_job {
    const orr_model *model;     /* with the fields of the plan applied */
    orr_plan plan;              /* all defaults filled in, and the split of layers by cost */
    orr_plan unsplit;           /* `plan` without the split by cost, for changes of it */
    orr_plan on_sites;          /* `plan` with the sites that it lies on; see model/plan/groups.h */
    orr_workload workload;      /* with `seq` filled in */
    const orr_cluster *cluster; /* the part that the plan uses */
    const orr_calibration *calibration;
    orr_job_rates rates;
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_step_prices prices;
    orr_step_job step; /* prices of the first variant, which most ranks have */
    uint32_t n_ranks;
    const struct orr_rank_kinds *kinds;
    bool used[ORR_STEP_GROUPINGS]; /* whether any rank communicates in the grouping */
    uint32_t
        grouping_at[ORR_STEP_GROUPINGS]; /* index into the ensemble's groupings; ORR_NONE: unused */
} orr_outcome_job;
/* What jobs on a device reach: `given`, or the catalogue's if NULL, as jobs of the kind have it. */
orr_status orr_outcome_calibration(orr_job_kind kind, const orr_calibration *given,
                                   const orr_device *device, double software_year, orr_arena *arena,
                                   const orr_calibration **ret, orr_error *err) ORR_MUST_CHECK;
orr_job_kind orr_outcome_kind(const orr_model *model, uint8_t task);
/* Lets a workload know the cluster that placements of its experts are made for. */
orr_status orr_outcome_set_hosts(const orr_job_options *options, const orr_cluster *cluster,
                                 orr_arena *arena, orr_workload *workload,
                                 orr_error *err) ORR_MUST_CHECK;

/* Completes and checks the plan, builds and prices its modules; in the arena. Errors: as
 * orr_outcome_of(). */
orr_status orr_outcome_prepare(const orr_model *model, const orr_plan *plan,
                               const orr_cluster *cluster, const orr_job_options *options,
                               orr_arena *arena, orr_outcome_job *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* The work of a stage at other prices: of another device, or over a slow link. */
orr_status orr_outcome_price(const orr_outcome_job *job, const orr_step_prices *prices,
                             orr_arena *arena, orr_step_job *ret, orr_error *err) ORR_MUST_CHECK;

/* Layout of a step: the graphs of all kinds of ranks, as an ensemble that owns them. */
typedef struct orr_outcome_layout {
    orr_ensemble ensemble;
    orr_step_graph *graphs;   /* shape (ensemble.n_graphs) */
    const uint32_t *stage_of; /* shape (ensemble.n_graphs) */
    uint32_t stages;
} orr_outcome_layout;
orr_status orr_outcome_layout_build(orr_outcome_job *job, const orr_job_options *options,
                                    orr_arena *arena, orr_outcome_layout *ret,
                                    orr_error *err) ORR_MUST_CHECK;
void orr_outcome_layout_free(orr_outcome_layout *laid);
/* Where all ranks of a kind are equivalent (heterogeneous.h): the groups between one representative
 * of each kind, and how many ranks each stands for, ordered by first rank. `used`: shape
 * (ORR_STEP_GROUPINGS). */
orr_status orr_outcome_class_ensemble(const orr_outcome_job *job, const bool *used,
                                      orr_arena *arena, orr_ensemble *ret,
                                      uint32_t *ret_grouping_at, orr_error *err) ORR_MUST_CHECK;
/* All groups of one kind: of an axis, or ORR_STEP_MIRROR, ORR_STEP_WORLD. */
orr_status orr_outcome_grouping(const orr_outcome_job *job, uint32_t grouping, orr_arena *arena,
                                orr_grouping *ret, orr_error *err) ORR_MUST_CHECK;

/* Simulates an ensemble of the job's graphs: that of its layout, or one with other durations. */
orr_status orr_outcome_simulate(const orr_outcome_job *job, const orr_job_options *options,
                                const orr_ensemble *ensemble, orr_arena *arena,
                                const orr_simulation **ret, orr_error *err) ORR_MUST_CHECK;

/* Where the time of a rank of a simulated class went, beyond the totals of its graph. */
typedef struct orr_rank_time_breakdown {
    int64_t part_ns[ORR_WATERFALLS]; /* KERNELS includes IDEAL */
    int64_t exposed_ns[ORR_AXES];
    int64_t exposed_next_ns, exposed_prev_ns; /* of PP: waits for the next stage (in ring order),
                                                 and for the previous one */
} orr_rank_time_breakdown;
orr_rank_time_breakdown orr_outcome_rank_time_breakdown(const orr_outcome_layout *laid,
                                                        const orr_simulation *simulation,
                                                        uint32_t class_index);
/* Fills in the traffic between sites; the metrics of `ret` are filled in already. */
orr_status orr_outcome_site_links(const orr_outcome_job *job, const orr_outcome_layout *laid,
                                  orr_arena *arena, orr_outcome *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Where time went: sums over all ranks. */
typedef struct orr_time_breakdown {
    __int128 part_ns[ORR_WATERFALLS]; /* KERNELS includes IDEAL */
    __int128 exposed_ns[ORR_AXES], busy_ns[ORR_AXES];
    double sent_bytes[ORR_AXES];
    double flops, again_flops;
} orr_time_breakdown;
void orr_outcome_time_breakdown(const orr_outcome_layout *laid, const orr_simulation *simulation,
                                orr_time_breakdown *ret);
/* Fills in the metrics that follow from the timeline; the job's fields of `ret` are filled in
 * already. */
orr_status orr_outcome_metrics(const orr_outcome_job *job, const orr_outcome_layout *laid,
                               orr_arena *arena, orr_outcome *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_OUTCOME_H */
