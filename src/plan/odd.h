/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_PLAN_ODD_H
#define ORR_PLAN_ODD_H

#include "plan/outcome.h"

/* Kinds of ranks: what tells apart the graphs that ranks run. Most jobs have one kind a stage;
 * another device, or a link at a share of its bandwidth, makes others, and only of those that it
 * concerns. */
typedef struct orr_kind {
    uint32_t stage;
    uint32_t variant;     /* of `variants` */
    uint32_t first_rank;
} orr_kind;
typedef struct orr_variant {
    const orr_device *device;           /* NULL: the cluster's */
    float    bandwidth_frac[ORR_AXES];  /* of the links that an axis' transfers cross */
    uint32_t from_level[ORR_AXES];      /* of this level and those above it           */
} orr_variant;
typedef struct orr_kinds {
    const orr_kind    *kinds;         /* shape (n) */
    const orr_variant *variants;      /* shape (n_variants): the first is that of most ranks */
    uint32_t           n, n_variants;
    const uint32_t    *kind_of_rank;  /* shape (R) */
    const uint32_t    *slowdown_ppm;  /* shape (R); NULL: none */
} orr_kinds;
/* In the arena. INVALID: ranks, levels or units that do not exist, a slowdown below 1 or a share
 * that is not above 0 and at most 1. */
orr_status orr_kinds_find(const orr_outcome_job *job, const orr_job_options *options,
                          orr_arena *arena, orr_kinds *ret, orr_error *err) ORR_MUST_CHECK;
/* What ranks of a variant pay. */
orr_status orr_variant_prices(const orr_outcome_job *job, const orr_variant *variant,
                              orr_arena *arena, orr_step_prices *ret,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_PLAN_ODD_H */
