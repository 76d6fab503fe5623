/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_OUTCOME_H
#define ORR_OUTCOME_OUTCOME_H

#include <orrery/outcome.h>

#include "model/step/step_graph.h"

/* What lies between a plan and its outcome. */

/* Everything that the stages of a job are laid out from. */
typedef struct orr_outcome_job {
    const orr_model *model;     /* as changed by the plan */
    orr_plan plan;              /* complete */
    orr_plan on_sites;          /* the same, with the sites that it lies on; see parallel.h    */
    orr_workload workload;      /* complete: with `seq` */
    const orr_cluster *cluster; /* as much of it as the plan needs */
    const orr_calibration *calibration;
    orr_job_rates rates;
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_step_prices prices;
    orr_step_job step; /* of ranks like most */
    uint32_t n_ranks;
    const struct orr_rank_kinds *kinds;
    bool used[ORR_STEP_GROUPINGS];            /* somebody communicates in it         */
    uint32_t grouping_at[ORR_STEP_GROUPINGS]; /* of the ensemble; ORR_NONE: unused */
} orr_outcome_job;
/* Completes, checks and prices. In the arena. Errors: as orr_outcome_of(). */
orr_status orr_outcome_prepare(const orr_model *model, const orr_plan *plan,
                               const orr_cluster *cluster, const orr_job_options *options,
                               orr_arena *arena, orr_outcome_job *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* A stage's work at other prices: those of another device, or of a slower link. */
orr_status orr_outcome_price(const orr_outcome_job *job, const orr_step_prices *prices,
                             orr_arena *arena, orr_step_job *ret, orr_error *err) ORR_MUST_CHECK;

/* The kinds of ranks that there are, laid out, as an ensemble. Graphs are freed with it. */
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
/* Where all ranks of a kind behave alike (odd.h): the groups, and who stands for how many, of one
 * rank a kind, in order of their first ranks. `used`: shape (ORR_STEP_GROUPINGS). */
orr_status orr_outcome_class_ensemble(const orr_outcome_job *job, const bool *used,
                                      orr_arena *arena, orr_ensemble *ret,
                                      uint32_t *ret_grouping_at, orr_error *err) ORR_MUST_CHECK;
/* All groups of one kind: of an axis, or ORR_STEP_MIRROR, ORR_STEP_WORLD. */
orr_status orr_outcome_grouping(const orr_outcome_job *job, uint32_t grouping, orr_arena *arena,
                                orr_grouping *ret, orr_error *err) ORR_MUST_CHECK;

/* Where the time of one rank of a class of the simulation went, beside what its graph's totals
 * say. */
typedef struct orr_rank_time_breakdown {
    int64_t part_ns[ORR_WATERFALLS]; /* KERNELS with IDEAL in it */
    int64_t exposed_ns[ORR_AXES];
    int64_t exposed_next_ns, exposed_prev_ns; /* of PP: for what comes from the next stage, all
                                               * round, and from the one before               */
} orr_rank_time_breakdown;
orr_rank_time_breakdown orr_outcome_rank_time_breakdown(const orr_outcome_layout *laid,
                                                        const orr_simulation *simulation,
                                                        uint32_t class_index);
/* What crosses between sites, in `ret`, whose figures are told. */
orr_status orr_outcome_site_links(const orr_outcome_job *job, const orr_outcome_layout *laid,
                                  orr_arena *arena, orr_outcome *ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Where time went: sums over all ranks. */
typedef struct orr_time_breakdown {
    __int128 part_ns[ORR_WATERFALLS]; /* KERNELS with IDEAL in it */
    __int128 exposed_ns[ORR_AXES], busy_ns[ORR_AXES];
    double sent_bytes[ORR_AXES];
    double flops, again_flops;
} orr_time_breakdown;
void orr_outcome_time_breakdown(const orr_outcome_layout *laid, const orr_simulation *simulation,
                                orr_time_breakdown *ret);
/* What the timeline says, in `ret`, whose fields of the job are filled in. */
orr_status orr_outcome_metrics(const orr_outcome_job *job, const orr_outcome_layout *laid,
                               orr_arena *arena, orr_outcome *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_OUTCOME_H */
