/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_HETEROGENEOUS_H
#define ORR_OUTCOME_HETEROGENEOUS_H

#include "outcome/outcome.h"

/* Kinds of ranks: what tells apart the graphs that ranks run. Most jobs have one kind a stage;
 * another device, or a link at a share of its bandwidth, makes others, and only of those that it
 * concerns. */
typedef struct orr_rank_kind {
    uint32_t stage;
    uint32_t variant; /* of `variants` */
    uint32_t first_rank, n_ranks;
} orr_rank_kind;
typedef struct orr_rank_variant {
    const orr_device *device;       /* NULL: the cluster's */
    float bandwidth_frac[ORR_AXES]; /* of the links that an axis' transfers cross */
    uint32_t from_level[ORR_AXES];  /* of this level and those above it           */
} orr_rank_variant;
typedef struct orr_rank_kinds {
    const orr_rank_kind *kinds;       /* shape (n) */
    const orr_rank_variant *variants; /* shape (n_variants): the first is that of most ranks */
    uint32_t n, n_variants;
    const uint32_t *kind_of_rank;         /* shape (R); NULL: all ranks of a kind behave alike   */
    const uint32_t *slowdown_ppm;         /* shape (R); NULL: none */
    const struct orr_rank_classes *alike; /* where they do: who meets whom; else NULL             */
} orr_rank_kinds;
/* In the arena. INVALID: ranks, levels or units that do not exist, a slowdown below 1 or a share
 * that is not above 0 and at most 1. */
orr_status orr_rank_kinds_find(const orr_outcome_job *job, const orr_job_options *options,
                               orr_arena *arena, orr_rank_kinds *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* The kind of a rank. */
uint32_t orr_rank_kind_of(const orr_outcome_job *job, uint32_t rank);

/* --- kinds whose ranks behave alike (odd_alike.c) -------------------------------------------- */

/* Where nothing but its stage and the device of its site tells a rank from others, and the groups
 * of all ranks of a kind have members of the same kinds, one rank of each stands for all: each
 * time is the latest of others' times and a length, whatever the number of these. So for all axes
 * of a job on devices of one sort; with two sorts it depends on how groups lie. */
typedef struct orr_rank_classes {
    uint32_t n_variants;
    uint8_t variant_of_site[ORR_SITES_MAX];
    const uint16_t *meets; /* shape (ORR_AXES, stages, n_variants): variants, as bits, of the
                            * ranks of that stage in a group of one of that kind            */
    const uint32_t *pipeline, *world; /* shape (stages, n_variants): a number for kinds that are in
                                       * one pipeline, that all meet; ORR_NONE: no such kind   */
} orr_rank_classes;
/* Variants that devices of sites make; the first is the cluster's device. `ret_of_site`: shape
 * (ORR_SITES_MAX). */
enum { ORR_SITE_VARIANTS_MAX = ORR_SITES_MAX + 1 };
uint32_t orr_site_variants(const orr_cluster *cluster, orr_rank_variant *ret, uint8_t *ret_of_site);
/* *ret_alike false, and nothing else: they are not. */
orr_status orr_rank_classes_find(const orr_outcome_job *job, orr_arena *arena, orr_rank_kinds *ret,
                                 bool *ret_alike, orr_error *err) ORR_MUST_CHECK;

/* What ranks of a variant pay. */
orr_status orr_rank_variant_prices(const orr_outcome_job *job, const orr_rank_variant *variant,
                                   orr_arena *arena, orr_step_prices *ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_HETEROGENEOUS_H */
