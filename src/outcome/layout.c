/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include "outcome/heterogeneous.h"

/* Layout of a step: emits the graph of each kind of rank and joins them in an ensemble with the
 * groups of all ranks. */

static orr_status mirror_grouping(const orr_outcome_job *job, orr_arena *arena, orr_grouping *ret,
                                  orr_error *err)
{
    const uint32_t p = job->plan.pp, n = job->n_ranks;
    uint32_t *group_of = orr_arena_array(arena, uint32_t, n), groups = 0;
    if (group_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < n; rank++) {
        orr_coordinates at = orr_plan_coordinates(&job->plan, rank);
        const uint32_t other = p - 1 - at.at[ORR_AXIS_PP];
        at.at[ORR_AXIS_PP] = other;
        const uint32_t mirror = orr_plan_rank_at(&job->plan, &at);
        group_of[rank] = mirror < rank ? group_of[mirror] : groups++;
    }
    return orr_grouping_of("mirror", group_of, n, groups, arena, ret, err);
}

/* The group of all ranks that meet in every step; with local steps, one for each outer part of dp.
 */
static orr_status all_ranks_grouping(const orr_outcome_job *job, orr_arena *arena,
                                     orr_grouping *ret, orr_error *err)
{
    const uint32_t n = job->n_ranks, parts = job->plan.local_steps > 1 ? job->plan.dp_outer : 1;
    uint32_t *group_of = orr_arena_array(arena, uint32_t, n);
    if (group_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < n; rank++)
        group_of[rank] = rank / (n / parts);
    return orr_grouping_of("world", group_of, n, parts, arena, ret, err);
}

orr_status orr_outcome_grouping(const orr_outcome_job *job, uint32_t grouping, orr_arena *arena,
                                orr_grouping *ret, orr_error *err)
{
    if (grouping < ORR_AXES)
        return orr_plan_grouping(&job->plan, (orr_axis)grouping, arena, ret, err);
    return grouping == ORR_STEP_MIRROR ? mirror_grouping(job, arena, ret, err)
                                       : all_ranks_grouping(job, arena, ret, err);
}

/* The ensemble of all ranks and their groups. */
static orr_status describe_all_ranks(const orr_outcome_job *job, const bool *used, orr_arena *arena,
                                     orr_ensemble *ret, uint32_t *ret_grouping_at, orr_error *err)
{
    orr_grouping *groupings = orr_arena_array(arena, orr_grouping, ORR_STEP_GROUPINGS);
    if (groupings == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < ORR_STEP_GROUPINGS; k++) {
        ret_grouping_at[k] = ORR_NONE;
        if (!used[k])
            continue;
        ORR_TRY(orr_outcome_grouping(job, k, arena, &groupings[ret->n_groupings], err));
        ret_grouping_at[k] = ret->n_groupings++;
    }
    ret->n_ranks = job->n_ranks;
    ret->groupings = groupings;
    ret->graph_of_rank = job->kinds->kind_of_rank;
    ret->slowdown_ppm = job->kinds->slowdown_ppm;
    return ORR_OK;
}

/* Builds only the groupings in which some rank communicates. */
static orr_status find_groupings(orr_outcome_job *job, orr_outcome_layout *layout, orr_arena *arena,
                                 orr_error *err)
{
    bool *used = job->used;
    for (uint32_t d = 0; d < layout->ensemble.n_graphs; d++)
        for (uint32_t c = 0; c < layout->graphs[d].graph->n_comms; c++)
            used[layout->graphs[d].rendezvous[c].grouping] = true;
    if (job->kinds->classes != NULL)
        ORR_TRY(
            orr_outcome_class_ensemble(job, used, arena, &layout->ensemble, job->grouping_at, err));
    else
        ORR_TRY(describe_all_ranks(job, used, arena, &layout->ensemble, job->grouping_at, err));
    for (uint32_t d = 0; d < layout->ensemble.n_graphs; d++)
        for (uint32_t c = 0; c < layout->graphs[d].graph->n_comms; c++) {
            orr_rendezvous_id *meeting = &layout->graphs[d].rendezvous[c];
            meeting->grouping = job->grouping_at[meeting->grouping];
        }
    return ORR_OK;
}

static orr_status assemble(orr_outcome_job *job, orr_arena *arena, orr_outcome_layout *layout,
                           orr_error *err)
{
    const uint32_t n = layout->ensemble.n_graphs;
    const orr_graph **graphs = orr_arena_array(arena, const orr_graph *, n);
    const orr_rendezvous_id **rendezvous = orr_arena_array(arena, const orr_rendezvous_id *, n);
    const int64_t **duration_ns = orr_arena_array(arena, const int64_t *, n);
    const uint8_t **basis = orr_arena_array(arena, const uint8_t *, n);
    if (graphs == NULL || rendezvous == NULL || duration_ns == NULL || basis == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < n; d++) {
        graphs[d] = layout->graphs[d].graph;
        rendezvous[d] = layout->graphs[d].rendezvous;
        basis[d] = layout->graphs[d].basis;
        duration_ns[d] = layout->graphs[d].duration_ns;
    }
    layout->ensemble.graphs = graphs;
    layout->ensemble.rendezvous = rendezvous;
    layout->ensemble.duration_ns = duration_ns;
    layout->ensemble.basis = basis;
    return find_groupings(job, layout, arena, err);
}

/* Steps of each variant but the first, which the job has already. */
static orr_status price_variants(const orr_outcome_job *job, orr_arena *arena,
                                 const orr_step_job **ret, orr_error *err)
{
    const uint32_t n = job->kinds->n_variants;
    orr_step_job *steps = orr_arena_array(arena, orr_step_job, n);
    if (steps == NULL)
        return orr_fail_memory(err);
    steps[0] = job->step;
    for (uint32_t i = 1; i < n; i++)
        ORR_TRY(orr_rank_variant_step(job, &job->kinds->variants[i], arena, &steps[i], err));
    *ret = steps;
    return ORR_OK;
}

static orr_status layout_kinds(const orr_outcome_job *job, orr_arena *arena,
                               orr_outcome_layout *layout, orr_error *err)
{
    const orr_rank_kinds *kinds = job->kinds;
    const orr_step_job *steps;
    uint32_t *stage_of = orr_arena_array(arena, uint32_t, kinds->n);
    layout->graphs = orr_arena_array(arena, orr_step_graph, kinds->n);
    if (layout->graphs == NULL || stage_of == NULL)
        return orr_fail_memory(err);
    layout->stage_of = stage_of;
    ORR_TRY(price_variants(job, arena, &steps, err));
    for (uint32_t d = 0; d < kinds->n; d++) {
        const orr_rank_kind *kind = &kinds->kinds[d];
        const orr_step_target who = {.stage = kind->stage, .rank = kind->first_rank};
        stage_of[d] = kind->stage;
        ORR_TRY(orr_step_layout_stage(&steps[kind->variant], &who, arena, &layout->graphs[d], err));
        layout->ensemble.n_graphs++;
    }
    return ORR_OK;
}

orr_status orr_outcome_layout_build(orr_outcome_job *job, const orr_job_options *options,
                                    orr_arena *arena, orr_outcome_layout *ret, orr_error *err)
{
    orr_outcome_layout layout = {.stages = job->plan.pp};
    orr_rank_kinds *kinds = orr_arena_one(arena, orr_rank_kinds);
    if (kinds == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_rank_kinds_find(job, options, arena, kinds, err));
    job->kinds = kinds;
    orr_status status = layout_kinds(job, arena, &layout, err);
    if (status == ORR_OK)
        status = assemble(job, arena, &layout, err);
    if (status == ORR_OK)
        *ret = layout;
    else
        orr_outcome_layout_free(&layout);
    return status;
}

void orr_outcome_layout_free(orr_outcome_layout *layout)
{
    for (uint32_t d = 0; d < layout->ensemble.n_graphs; d++)
        orr_graph_free(layout->graphs[d].graph);
    layout->ensemble.n_graphs = 0;
}
