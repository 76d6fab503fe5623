/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rescale/recognise/survey.h"

/* What the pieces of all ranks say together. */

/* A reason why this step is no material for other plans, in *ret; NULL stays: there is none. */
static orr_status why_not_step(const orr_profiled_step *step, orr_arena *arena, const char **ret,
                               orr_error *err)
{
    uint64_t kernels = 0;
    for (uint32_t i = 0; i < step->n_pieces && *ret == NULL; i++) {
        const orr_step_piece *p = &step->pieces[i];
        const char *name = orr_graph_str(step->g, step->g->name[p->root]);
        kernels += p->n_works;
        if (!p->mixed && p->role != ORR_ROLE_OTHER)
            continue;
        *ret = orr_arena_printf(arena,
                                p->mixed ? "'%.80s' launches both computation and communication, "
                                           "which cannot be taken apart"
                                         : "the communication of '%.80s' is of no known dimension",
                                name);
        if (*ret == NULL)
            return orr_fail_memory(err);
    }
    if (step->parallel)
        *ret = "two threads issue device work at the same time: their order is not told";
    else if (*ret == NULL && kernels == 0)
        *ret = "no device work was recorded, so operators of other shapes cannot be priced";
    else if (*ret == NULL && step->layers == 0)
        *ret = "layers were not told: no numbered modules or annotations, no repetition";
    return ORR_OK;
}

/* Forward and, in training, backward work of every layer and micro-batch? */
static orr_status why_not_complete(const orr_profiled_step *step, orr_arena *arena,
                                   const char **ret, orr_error *err)
{
    const uint32_t m = step->micro_batches, n = step->layers * m;
    if ((uint64_t)step->layers * m > step->n_pieces) {
        *ret = "more layers and micro-batches are numbered than there are operators";
        return ORR_OK;
    }
    uint8_t *seen = orr_arena_array(arena, uint8_t, n);
    if (seen == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        const orr_step_piece *p = &step->pieces[i];
        if (p->part != ORR_MODEL_PART_LAYER || p->micro_batch < 0 || p->micro_batch >= (int32_t)m ||
            p->layer < 0 || p->layer >= (int32_t)step->layers)
            continue;
        seen[(uint32_t)p->micro_batch * step->layers + (uint32_t)p->layer] |=
            p->phase == ORR_PHASE_BACKWARD ? 2 : 1;
    }
    for (uint32_t i = 0; i < n && *ret == NULL; i++) {
        if (seen[i] == (step->trains ? 3 : 1))
            continue;
        *ret = orr_arena_printf(arena, "no %s work of layer %u in micro-batch %u was told",
                                seen[i] & 1 ? "backward" : "forward", i % step->layers,
                                i / step->layers);
        if (*ret == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status sum_layers(orr_survey *s, const orr_plan *said, orr_error *err)
{
    const orr_profiled_step *first = &s->steps[0];
    uint32_t layers = first->layers, micro_batches = first->micro_batches;
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        if (s->steps[d].layers != first->layers)
            layers = 0;
        if (s->steps[d].micro_batches != first->micro_batches)
            micro_batches = 0;
    }
    layers *= orr_plan_degree(s->plan.pp);
    if (said->layers > 0 && layers > 0 && said->layers != layers)
        return orr_fail(err, ORR_INVALID, "layers=%u is stated, but %u were found by %s",
                        said->layers, layers, first->layers_by);
    if (said->micro_batches > 0 && layers > 0 && micro_batches > 0 &&
        said->micro_batches != micro_batches)
        return orr_fail(err, ORR_INVALID, "micro_batches=%u is stated, but %u were found by %s",
                        said->micro_batches, micro_batches, first->micro_batches_by);
    s->plan.layers = layers > 0 ? layers : said->layers;
    s->plan.micro_batches = layers > 0 ? micro_batches : said->micro_batches;
    if (layers == 0)
        return orr_findings_add(&s->findings, "layers", "", ORR_CONFIDENCE_UNKNOWN, err,
                                first->layers == 0
                                    ? "no numbered modules or annotations, and no forward work "
                                      "repeats"
                                    : "stages seem to have different numbers of layers");
    ORR_TRY(
        orr_findings_number(&s->findings, "layers", layers,
                            first->layers_named ? ORR_CONFIDENCE_NAMED : ORR_CONFIDENCE_INFERRED,
                            err, "%s; %u in each of %u stages", first->layers_by, first->layers,
                            orr_plan_degree(s->plan.pp)));
    return orr_findings_number(&s->findings, "micro_batches", micro_batches,
                               ORR_CONFIDENCE_INFERRED, err, "%s", first->micro_batches_by);
}

/* The last stage alternates in 1F1B, and does all forwards first in GPipe. */
static orr_status report_schedule(orr_survey *s, const orr_plan *said, orr_error *err)
{
    const orr_profiled_step *last = &s->steps[s->job->n_graphs - 1];
    int32_t ahead = -1;
    for (uint32_t i = 0; i < last->n_pieces; i++) {
        const orr_step_piece *p = &last->pieces[i];
        if (p->phase == ORR_PHASE_BACKWARD && p->part == ORR_MODEL_PART_LAYER)
            break;
        if (p->phase == ORR_PHASE_FORWARD && p->micro_batch > ahead)
            ahead = p->micro_batch;
    }
    const bool one_by_one = s->plan.micro_batches < 2 || ahead == 0;
    s->plan.schedule = said->schedule != ORR_SCHEDULE_UNKNOWN        ? said->schedule
                       : one_by_one                                  ? ORR_SCHEDULE_1F1B
                       : ahead + 1 == (int32_t)s->plan.micro_batches ? ORR_SCHEDULE_GPIPE
                                                                     : ORR_SCHEDULE_UNKNOWN;
    if (s->plan.layers == 0)
        return ORR_OK;
    return orr_findings_add(
        &s->findings, "schedule", orr_schedule_name((orr_schedule)s->plan.schedule),
        said->schedule != ORR_SCHEDULE_UNKNOWN ? ORR_CONFIDENCE_STATED : ORR_CONFIDENCE_INFERRED,
        err, "the last stage has %d forward passes before its first backward pass", ahead + 1);
}

/* A recorded rank for each stage, or else that stage cannot be composed. */
static const char *why_not_stages(const orr_survey *s)
{
    for (uint32_t stage = 0; stage < orr_plan_degree(s->plan.pp); stage++) {
        bool found = false;
        for (uint32_t d = 0; d < s->job->n_graphs; d++)
            found |= orr_recorded_position_of(&s->plan, s->job->rank_of_graph[d]).stage == stage;
        if (!found)
            return "a pipeline stage of which no rank was recorded";
    }
    return NULL;
}

static orr_status find_why_not(orr_survey *s, orr_error *err)
{
    if (!s->laid_out)
        s->why_not = "where ranks stand in data, tensor and pipeline parallelism is not told";
    for (uint32_t d = 0; d < s->job->n_graphs && s->why_not == NULL; d++) {
        ORR_TRY(why_not_step(&s->steps[d], s->arena, &s->why_not, err));
        if (s->why_not == NULL)
            ORR_TRY(why_not_complete(&s->steps[d], s->arena, &s->why_not, err));
    }
    if (s->why_not != NULL)
        return ORR_OK;
    if (s->plan.layers == 0 || s->plan.micro_batches == 0)
        s->why_not = "stages differ in layers or micro-batches";
    else if (s->plan.schedule == ORR_SCHEDULE_UNKNOWN)
        s->why_not = "the schedule is neither 1F1B nor GPipe";
    else
        s->why_not = why_not_stages(s);
    return ORR_OK;
}

orr_status orr_survey_job(const orr_job *job, const orr_plan *stated, orr_arena *arena,
                          orr_survey *ret, orr_error *err)
{
    static const orr_plan nothing = {0};
    const orr_plan *said = stated != NULL ? stated : &nothing;
    orr_survey s = {.job = job, .arena = arena, .findings = {.arena = arena}};
    orr_status status;
    ORR_TRY_OUT(status, orr_survey_steps(&s, err));
    ORR_TRY_OUT(status, orr_survey_groups(&s, stated, err));
    orr_survey_roles(&s);
    ORR_TRY_OUT(status, orr_survey_labels(&s, err));
    orr_survey_kinds(&s);
    ORR_TRY_OUT(status, sum_layers(&s, said, err));
    ORR_TRY_OUT(status, report_schedule(&s, said, err));
    ORR_TRY_OUT(status, orr_survey_shapes(&s, stated, err));
    ORR_TRY_OUT(status, find_why_not(&s, err));
    *ret = s;
    return ORR_OK;
out:
    orr_findings_done(&s.findings);
    return status;
}

void orr_survey_done(orr_survey *survey)
{
    orr_findings_done(&survey->findings);
}

static bool same_block(const orr_block *b, uint32_t graph, const orr_step_piece *p)
{
    return b->graph == graph && b->phase == p->phase && b->layer == p->layer &&
           b->micro_batch == p->micro_batch;
}

/* Layers of the whole model: those of the stages before come first. */
static int32_t global_layer(const orr_survey *s, const orr_profiled_step *step, int32_t layer)
{
    const uint32_t rank = s->job->rank_of_graph[step->graph];
    return layer < 0 || !s->laid_out
               ? layer
               : layer + (int32_t)(orr_recorded_position_of(&s->plan, rank).stage * step->layers);
}

static orr_status keep_blocks(const orr_survey *s, orr_recognition *r, orr_error *err)
{
    size_t most = 0;
    for (uint32_t d = 0; d < s->job->n_graphs; d++)
        most += s->steps[d].n_pieces;
    orr_block *blocks = orr_arena_array(s->arena, orr_block, most);
    if (blocks == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        const orr_profiled_step *step = &s->steps[d];
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            orr_step_piece p = step->pieces[i];
            p.layer = global_layer(s, step, p.layer);
            orr_block *last = r->n_blocks > 0 ? &blocks[r->n_blocks - 1] : NULL;
            if (last == NULL || !same_block(last, d, &p)) {
                last = &blocks[r->n_blocks++];
                *last = (orr_block){.graph = d,
                                    .phase = p.phase,
                                    .layer = p.layer,
                                    .micro_batch = p.micro_batch,
                                    .first = p.root};
            }
            last->last = p.root;
            last->n_kernels += p.n_works;
        }
    }
    r->blocks = blocks;
    return ORR_OK;
}

orr_status orr_recognise(const orr_job *job, const orr_plan *stated, orr_arena *arena,
                         orr_recognition *ret, orr_error *err)
{
    orr_survey s;
    orr_status status;
    ORR_TRY(orr_survey_job(job, stated, arena, &s, err));
    orr_recognition r = {.plan = s.plan,
                         .recorded_ranks = job->n_graphs,
                         .whole = s.why_not == NULL,
                         .why_not = s.why_not,
                         .dimension_of_group = s.dimension};
    if (!s.laid_out)
        r.plan.dp = r.plan.tp = r.plan.pp = 0;
    ORR_TRY_OUT(status, keep_blocks(&s, &r, err));
    status = orr_findings_keep(&s.findings, &r.findings, &r.n_findings, err);
    if (status == ORR_OK)
        *ret = r;
out:
    orr_survey_done(&s);
    return status;
}
