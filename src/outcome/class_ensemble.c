/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include <stdlib.h>

#include "outcome/heterogeneous.h"

/* The folded ensemble: one representative rank for each kind, where all ranks of a kind are
 * equivalent (symmetry reduction). It has the groups between representatives, and how many ranks
 * each stands for. */

typedef struct folded_kinds {
    const orr_outcome_job *job;
    const orr_rank_kinds *kinds;
    const uint32_t *kind_of; /* shape (n): of the ensemble's ranks */
    uint32_t n;
} folded_kinds;

/* The group that a kind is in along a grouping, as a key: two kinds with equal keys meet. ORR_NONE:
 * the kind is alone. */
static uint32_t key_of(const folded_kinds *a, uint32_t grouping, const orr_rank_kind *kind)
{
    const orr_rank_classes *from = a->kinds->classes;
    const uint32_t p = a->job->plan.pp, s = kind->stage, n = from->n_variants;
    const uint32_t pipeline = from->pipeline[s * n + kind->variant];
    switch (grouping) {
    case ORR_AXIS_PP:
        return pipeline;
    case ORR_AXIS_TIED:
        return s == 0 || s == p - 1 ? pipeline : ORR_NONE;
    case ORR_STEP_MIRROR:
        return pipeline * p + (s < p - 1 - s ? s : p - 1 - s);
    case ORR_STEP_WORLD:
        return from->world[s * n + kind->variant];
    default:
        return s * 512 + from->group_variants[(grouping * p + s) * n + kind->variant];
    }
}

static orr_status group(const folded_kinds *a, uint32_t grouping, orr_arena *arena,
                        orr_grouping *ret, orr_error *err)
{
    uint32_t *group_of = orr_arena_array(arena, uint32_t, a->n);
    uint32_t *key = orr_arena_array(arena, uint32_t, a->n), n = 0;
    if (group_of == NULL || key == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < a->n; r++) {
        const uint32_t wanted = key_of(a, grouping, &a->kinds->kinds[a->kind_of[r]]);
        uint32_t g = 0;
        while (g < n && key[g] != wanted)
            g++;
        if (wanted != ORR_NONE && g == n)
            key[n++] = wanted;
        group_of[r] = wanted != ORR_NONE ? g : ORR_NONE;
    }
    const char *name = grouping < ORR_AXES           ? orr_axis_name((orr_axis)grouping)
                       : grouping == ORR_STEP_MIRROR ? "mirror"
                                                     : "world";
    return orr_grouping_of(name, group_of, a->n, n, arena, ret, err);
}

static int by_first_rank(const void *a_, const void *b_)
{
    const orr_rank_kind *const *a = a_, *const *b = b_;
    return ((*a)->first_rank > (*b)->first_rank) - ((*a)->first_rank < (*b)->first_rank);
}

static orr_status sort_kinds(const orr_rank_kinds *kinds, orr_arena *arena, orr_ensemble *ret,
                             orr_error *err)
{
    const orr_rank_kind **sorted = orr_arena_array(arena, const orr_rank_kind *, kinds->n);
    uint32_t *kind_of = orr_arena_array(arena, uint32_t, kinds->n);
    uint32_t *multiplicity = orr_arena_array(arena, uint32_t, kinds->n);
    if (sorted == NULL || kind_of == NULL || multiplicity == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < kinds->n; k++)
        sorted[k] = &kinds->kinds[k];
    qsort(sorted, kinds->n, sizeof *sorted, by_first_rank);
    for (uint32_t k = 0; k < kinds->n; k++) {
        kind_of[k] = (uint32_t)(sorted[k] - kinds->kinds);
        multiplicity[k] = sorted[k]->n_ranks;
    }
    ret->n_ranks = kinds->n;
    ret->graph_of_rank = kind_of;
    ret->multiplicity = multiplicity;
    return ORR_OK;
}

orr_status orr_outcome_class_ensemble(const orr_outcome_job *job, const bool *used,
                                      orr_arena *arena, orr_ensemble *ret,
                                      uint32_t *ret_grouping_at, orr_error *err)
{
    orr_ensemble e = *ret;
    orr_grouping *groupings = orr_arena_array(arena, orr_grouping, ORR_STEP_GROUPINGS);
    if (groupings == NULL)
        return orr_fail_memory(err);
    ORR_TRY(sort_kinds(job->kinds, arena, &e, err));
    const folded_kinds a = {job, job->kinds, e.graph_of_rank, e.n_ranks};
    for (uint32_t k = 0; k < ORR_STEP_GROUPINGS; k++) {
        ret_grouping_at[k] = ORR_NONE;
        if (!used[k])
            continue;
        ORR_TRY(group(&a, k, arena, &groupings[e.n_groupings], err));
        ret_grouping_at[k] = e.n_groupings++;
    }
    e.groupings = groupings;
    *ret = e;
    return ORR_OK;
}
