/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_HETEROGENEOUS_H
#define ORR_OUTCOME_HETEROGENEOUS_H

#include "outcome/outcome.h"

/* Kinds of ranks: which ranks run which graph. Most jobs have one kind for each pipeline stage;
 * other devices, or links at a share of their bandwidth, add kinds for the ranks concerned. */
typedef struct orr_rank_kind {
    uint32_t stage;
    uint32_t variant; /* index into `variants` */
    uint32_t first_rank, n_ranks;
} orr_rank_kind;
typedef struct orr_rank_variant {
    const orr_device *device;       /* NULL: the cluster's */
    uint32_t micro_batches;         /* of its replicas; 0: as the plan says */
    float bandwidth_frac[ORR_AXES]; /* of the links that an axis crosses */
    uint32_t from_level[ORR_AXES];  /* the share holds from this level upwards */
} orr_rank_variant;
typedef struct orr_rank_kinds {
    const orr_rank_kind *kinds;       /* shape (n) */
    const orr_rank_variant *variants; /* shape (n_variants): most ranks have the first */
    uint32_t n, n_variants;
    const uint32_t *kind_of_rank; /* shape (R); NULL: all ranks of a kind are equivalent */
    const uint32_t *slowdown_ppm; /* shape (R); NULL: none */
    const struct orr_rank_classes *classes; /* where they are: equivalence classes; else NULL */
} orr_rank_kinds;
/* In the arena. INVALID: ranks, levels or units that do not exist, a slowdown below 1, or a
 * bandwidth share outside of (0, 1]. */
orr_status orr_rank_kinds_find(const orr_outcome_job *job, const orr_job_options *options,
                               orr_arena *arena, orr_rank_kinds *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* The kind of a rank. */
uint32_t orr_rank_kind_of(const orr_outcome_job *job, uint32_t rank);

/* --- equivalence classes of ranks (heterogeneous_classes.c) ---------------------------------- */

/* Kinds whose ranks are all equivalent. Two ranks of a kind have the same times if every group of
 * the one has members of the same kinds as the group of the other, since a time in the simulation
 * is the maximum of others' times plus a length, and does not depend on how many they are. This is
 * an equitable partition of the ranks: one representative of each kind then has the exact times of
 * all. With one sort of devices it always holds; with several it depends on where groups lie. */
typedef struct orr_rank_classes {
    uint32_t n_variants;
    uint8_t variant_of_site[ORR_SITES_MAX];
    const uint16_t *group_variants; /* shape (ORR_AXES, stages, n_variants): variants in the group
                                       of a rank of that kind, as bits */
    const uint32_t *pipeline,
        *world; /* shape (stages, n_variants): number of the pipeline, and of the rendezvous of all
                   ranks, that the kind takes part in; ORR_NONE: no such kind */
} orr_rank_classes;
/* The variants that devices and micro-batches of sites make; the first has the cluster's device and
 * the plan's micro-batches. `ret_of_site`: shape (ORR_SITES_MAX). */
enum { ORR_SITE_VARIANTS_MAX = ORR_SITES_MAX + 1 };
uint32_t orr_site_variants(const orr_plan *plan, const orr_cluster *cluster, orr_rank_variant *ret,
                           uint8_t *ret_of_site);
/* *ret_equivalent false, and nothing else written: ranks of a kind are not equivalent. */
orr_status orr_rank_classes_find(const orr_outcome_job *job, orr_arena *arena, orr_rank_kinds *ret,
                                 bool *ret_equivalent, orr_error *err) ORR_MUST_CHECK;

/* Rates of a device in the job's network; in the arena. */
orr_status orr_outcome_device_rates(const orr_outcome_job *job, const orr_device *device,
                                    orr_arena *arena, const orr_job_rates **ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* The step of ranks of a variant: its prices, and the schedule of its micro-batches. In the arena.
 */
orr_status orr_rank_variant_step(const orr_outcome_job *job, const orr_rank_variant *variant,
                                 orr_arena *arena, orr_step_job *ret,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_HETEROGENEOUS_H */
