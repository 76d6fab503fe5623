/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "rescale/plan/check.h"
#include "rescale/compose/compose.h"
#include "rescale/plan/stages.h"

/* Whether only the number of replicas changes: then the job is replicated (data_parallel/), else
 * composed (compose/). */
static bool only_replicas(const orr_plan *from, const orr_plan *to)
{
    orr_plan same = *to;
    same.dp = from->dp;
    return orr_plan_equal(&same, from);
}

/* The recording must have told what the new plan divides. */
static orr_status check_known(const orr_plan *from, const orr_plan *to, orr_error *err)
{
    orr_plan old = *from, new = *to;
    const uint32_t *field;
    for (uint32_t i = 0; (field = orr_plan_field(&new, i)) != NULL; i++)
        if (*field != *orr_plan_field(&old, i) && *orr_plan_field(&old, i) == 0)
            return orr_fail(err, ORR_INVALID,
                            "%s (%s) of the recording is not told: state it beside the plan",
                            orr_plan_field_name(i), orr_plan_field_about(i));
    return ORR_OK;
}

/* Finds the stream that kernels run on, and those of communications. */
static void find_streams(orr_composer *c)
{
    uint64_t most = 0;
    for (uint32_t role = 0; role < ORR_COMM_ROLES; role++)
        c->role_stream[role] = orr_comm_stream((orr_comm_role)role);
    c->compute_stream = ORR_EMIT_COMPUTE;
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++) {
        const orr_profiled_step *step = &c->s->steps[d];
        for (uint32_t lane = 0; lane < step->g->n_lanes; lane++) {
            uint64_t kernels = 0;
            for (uint32_t i = step->g->lane_first[lane]; i < step->g->lane_first[lane + 1]; i++)
                kernels += step->g->kind[step->g->lane_node[i]] == ORR_NODE_COMPUTE;
            if (kernels > most && step->g->lanes[lane].kind == ORR_LANE_STREAM) {
                most = kernels;
                c->compute_stream = step->g->lanes[lane].tid;
            }
        }
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            const orr_step_piece *p = &step->pieces[i];
            for (uint32_t k = 0; k < p->n_works && p->role < ORR_COMM_ROLES; k++) {
                const orr_node_id v = step->works[p->first_work + k];
                if (orr_is_communication(step->g, v))
                    c->role_stream[p->role] = step->g->lanes[step->g->lane[v]].tid;
            }
        }
    }
}

static orr_status open_composer(orr_composer *c, orr_error *err)
{
    uint32_t most = 0;
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++)
        if (c->s->job->graphs[d]->n_nodes > most)
            most = c->s->job->graphs[d]->n_nodes;
    c->made = orr_malloc((most + (size_t)1) * sizeof *c->made);
    if (c->made == NULL)
        return orr_fail_memory(err);
    memset(c->made, 0xff, (most + (size_t)1) * sizeof *c->made);
    c->pricers = orr_arena_array(c->arena, orr_transfer_pricer, 2);
    if (c->pricers == NULL)
        return orr_fail_memory(err);
    orr_transfer_pricer_init(&c->pricers[0], c->pricing->recorded, c->pricing->algorithm);
    orr_transfer_pricer_init(&c->pricers[1], c->pricing->cluster, c->pricing->algorithm);
    find_streams(c);
    return orr_ensemble_of_job(c->s->job, c->arena, &c->base, err);
}

static orr_status add_stage(orr_composer *c, uint32_t stage, orr_stages *s, orr_rescaled *count)
{
    int64_t *duration_ns;
    uint8_t *basis;
    ORR_TRY(orr_compose_stage(c, stage, &s->graphs[stage]));
    ORR_TRY(orr_stages_add(s, stage, &c->rendezvous, c->arena, &duration_ns, &basis, c->err));
    return orr_compose_price(c, s->graphs[stage], duration_ns, basis, count);
}

static orr_status report(const orr_composer *c, const orr_rescaled *r, orr_error *err)
{
    orr_findings *f = c->findings;
    const orr_confidence inferred = ORR_CONFIDENCE_INFERRED;
    ORR_TRY(orr_findings_number(f, "device work as recorded", r->recorded, inferred, err,
                                "over %u stages, each composed of the recorded blocks", c->to.pp));
    if (r->repriced > 0)
        ORR_TRY(orr_findings_number(f, "device work repriced", r->repriced, inferred, err,
                                    "recorded x price of the new shapes / price of the old"));
    if (c->inserted > 0)
        ORR_TRY(orr_findings_number(f, "communications inserted", c->inserted, inferred, err,
                                    "none of their kind was recorded there: host times assumed"));
    if (c->dropped > 0)
        ORR_TRY(orr_findings_number(f, "communications left out", c->dropped, inferred, err,
                                    "of a dimension that has one rank now, or of a "
                                    "micro-batch that reduces no gradients"));
    if (c->to.layers > c->from.layers)
        ORR_TRY(orr_findings_number(f, "layers copied", c->to.layers - c->from.layers, inferred,
                                    err, "layer n is recorded layer n mod %u", c->from.layers));
    if (c->unknown_shapes > 0)
        ORR_TRY(orr_findings_number(f, "shapes kept", c->unknown_shapes, ORR_CONFIDENCE_UNKNOWN,
                                    err, "what they count is not told, first of '%s': as recorded",
                                    c->first_unknown_op));
    return ORR_OK;
}

/* Device work that no piece launched has no place in the new step. */
static orr_status report_unlaunched(const orr_composer *c, orr_error *err)
{
    uint64_t n = 0;
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++) {
        const orr_profiled_step *step = &c->s->steps[d];
        const orr_graph *g = step->g;
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            n += (orr_is_kernel(g, v) || orr_is_communication(g, v)) &&
                 step->piece_of[v] == ORR_NONE && g->start_ns[v] >= step->begin_ns &&
                 g->start_ns[v] < step->end_ns;
    }
    if (n == 0)
        return ORR_OK;
    return orr_findings_number(c->findings, "device work left out", n, ORR_CONFIDENCE_UNKNOWN, err,
                               "of which the recorded step has no launch");
}

/* Neither has work between passes that belongs to no layer. */
static orr_status report_left_out(const orr_composer *c, orr_error *err)
{
    uint64_t left_out = 0, kernels = 0;
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++) {
        const orr_profiled_step *step = &c->s->steps[d];
        bool within = false;
        uint64_t waiting = 0, with = 0;
        for (uint32_t i = 0; i < step->n_pieces; i++) {
            const orr_step_piece *p = &step->pieces[i];
            const bool pass = p->phase == ORR_PHASE_FORWARD || p->phase == ORR_PHASE_BACKWARD;
            const bool placed =
                pass && (p->part != ORR_MODEL_PART_NONE || p->role < ORR_COMM_ROLES);
            if (pass) {
                left_out += within ? waiting : 0;
                kernels += within ? with : 0;
                waiting = with = 0;
                within = true;
            }
            waiting += within && !placed;
            with += within && !placed ? p->n_works : 0;
        }
    }
    if (left_out == 0)
        return ORR_OK;
    return orr_findings_number(c->findings, "operators left out", left_out, ORR_CONFIDENCE_UNKNOWN,
                               err, "between the passes and of no layer, with %llu kernels",
                               (unsigned long long)kernels);
}

static orr_status compose(orr_composer *c, orr_rescaled *ret)
{
    orr_stages s;
    orr_status status;
    orr_rescaled made = {.from = c->from, .to = c->to};
    ORR_TRY(orr_stages_new(&c->to, c->arena, &s, c->err));
    for (uint32_t stage = 0; stage < c->to.pp; stage++)
        ORR_TRY_OUT(status, add_stage(c, stage, &s, &made));
    ORR_TRY_OUT(status, report(c, &made, c->err));
    ORR_TRY_OUT(status, report_left_out(c, c->err));
    ORR_TRY_OUT(status, report_unlaunched(c, c->err));
    ORR_TRY_OUT(status, orr_findings_keep(c->findings, &made.findings, &made.n_findings, c->err));
    made.ensemble = s.ensemble;
    made.made = s.graphs;
    made.n_made = c->to.pp;
    *ret = made;
    return ORR_OK;
out:
    orr_stages_free_graphs(&s);
    return status;
}

static orr_status spread(const orr_job *job, const orr_recognition *known, const orr_plan *to,
                         orr_arena *arena, orr_rescaled *ret, orr_error *err)
{
    if (orr_plan_ranks(to) > (UINT32_C(1) << 24))
        return orr_fail(err, ORR_INVALID, "more than 2^24 ranks");
    if (known->plan.dp == 0 && to->dp != 0)
        return orr_fail(err, ORR_INVALID,
                        "dp=%u has no meaning while the plan of the recording is not told: state "
                        "it, or give a number of ranks",
                        to->dp);
    if (known->plan.dp == 0)
        return orr_rescale_replicas(job, known, job->n_ranks, arena, ret, err);
    return orr_rescale_replicas(job, known, (uint32_t)orr_plan_ranks(to), arena, ret, err);
}

orr_status orr_rescale(const orr_job *job, const orr_recognition *recognition,
                       const orr_plan *change, const orr_pricing *pricing, orr_arena *arena,
                       orr_rescaled *ret, orr_error *err)
{
    const orr_plan from = recognition->plan, to = orr_plan_override(&from, change);
    /* Gradients have to be reduced that were not, or the other way round. */
    const bool other = (from.dp == 1) != (to.dp == 1);
    orr_survey survey;
    orr_status status;
    if (only_replicas(&from, &to) && !(other && recognition->whole))
        return spread(job, recognition, &to, arena, ret, err);
    if (!recognition->whole)
        return orr_fail(err, ORR_INVALID, "only data parallelism can change: %s",
                        recognition->why_not);
    ORR_TRY(orr_rescale_check(&to, err));
    ORR_TRY(check_known(&from, &to, err));
    ORR_TRY(orr_survey_job(job, &from, arena, &survey, err));
    orr_findings findings = {.arena = arena};
    orr_composer c = {.s = &survey,
                      .pricing = pricing,
                      .from = from,
                      .to = to,
                      .arena = arena,
                      .findings = &findings,
                      .err = err};
    ORR_TRY_OUT(status, open_composer(&c, err));
    status = compose(&c, ret);
out:
    orr_compose_done(&c);
    orr_findings_done(&findings);
    orr_survey_done(&survey);
    return status;
}
