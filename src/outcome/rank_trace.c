/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/heterogeneous.h"

/* The graph of a single rank for traces: the graph of its kind is emitted again with the rank's own
 * groups and the simulated times of the kind, node for node. */

orr_status orr_outcome_groups(const orr_outcome *outcome, orr_arena *arena,
                              const orr_grouping **ret, uint32_t *ret_n, orr_error *err)
{
    const orr_outcome_job *job = outcome->job;
    orr_grouping *groupings = orr_arena_array(arena, orr_grouping, ORR_STEP_GROUPINGS);
    uint32_t n = 0;
    if (groupings == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < ORR_STEP_GROUPINGS; k++)
        if (job->used[k])
            ORR_TRY(orr_outcome_grouping(job, k, arena, &groupings[n++], err));
    *ret = groupings;
    *ret_n = n;
    return ORR_OK;
}

/* Groups are numbered from 1 over all groupings, as in files that list them. */
static orr_status number_groups(const orr_outcome *o, uint32_t rank, orr_arena *arena,
                                uint32_t names[ORR_STEP_GROUPINGS], orr_error *err)
{
    const orr_grouping *groupings;
    uint32_t first = 1, n = 0;
    ORR_TRY(orr_outcome_groups(o, arena, &groupings, &n, err));
    n = 0;
    for (uint32_t k = 0; k < ORR_STEP_GROUPINGS; k++) {
        if (!o->job->used[k])
            continue;
        const orr_grouping *grouping = &groupings[n++];
        if (grouping->group_of[rank] != ORR_NONE)
            names[k] = first + grouping->group_of[rank];
        first += grouping->n_groups;
    }
    return ORR_OK;
}

/* The rank itself if it was simulated, else the representative of its kind. */
const orr_timeline *orr_outcome_timeline(const orr_outcome *o, uint32_t rank)
{
    const orr_ensemble *e = o->ensemble;
    uint32_t at = rank;
    if (e->multiplicity != NULL)
        for (at = 0; e->graph_of_rank[at] != orr_rank_kind_of(o->job, rank);)
            at++;
    return &o->simulation->timelines[o->simulation->class_of_rank[at]];
}

static orr_status lay(const orr_outcome *o, uint32_t rank, orr_arena *arena, const orr_graph **ret,
                      orr_error *err)
{
    const orr_timeline *t = orr_outcome_timeline(o, rank);
    const orr_rank_kind *kind = &o->job->kinds->kinds[t->graph];
    uint32_t names[ORR_STEP_GROUPINGS] = {0};
    orr_step_graph made;
    orr_step_job step;
    ORR_TRY(number_groups(o, rank, arena, names, err));
    const orr_step_target who = {.stage = kind->stage,
                                 .rank = rank,
                                 .start_ns = t->start_ns,
                                 .duration_ns = t->duration_ns,
                                 .group_names = names};
    step = o->job->step;
    if (kind->variant > 0)
        ORR_TRY(orr_rank_variant_step(o->job, &o->job->kinds->variants[kind->variant], arena, &step,
                                      err));
    ORR_TRY(orr_step_layout_stage(&step, &who, arena, &made, err));
    *ret = made.graph;
    return ORR_OK;
}

orr_status orr_outcome_rank(const orr_outcome *outcome, uint32_t rank, const orr_graph **ret,
                            orr_error *err)
{
    if (outcome->job == NULL || rank >= outcome->n_ranks)
        return orr_fail(err, ORR_INVALID, "rank %u: this job has %u", rank, outcome->n_ranks);
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = lay(outcome, rank, arena, ret, err);
    orr_arena_free(arena);
    return status;
}
