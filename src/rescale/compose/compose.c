/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/compose/compose.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Composes one step of a stage of the new plan: for each schedule slot, the recorded pieces of its
 * phase, layers and micro-batch.
 *    layer of the new plan        the recorded layer of the same number, modulo those recorded
 *    micro-batch                  the recorded one of the same number; the last from the last,
 *                                 since it reduces the gradients
 *    activation transfer          the recorded one of the direction, from any rank; else inserted
 *    before and after the passes  what the recorded step does there */

/* The recorded rank that stands for a stage of the recording. */
static const orr_profiled_step *compose_source_step(const orr_composer *c, uint32_t recorded_stage)
{
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++)
        if (orr_recorded_position_of(&c->s->plan, c->s->job->rank_of_graph[d]).stage ==
            recorded_stage)
            return &c->s->steps[d];
    return NULL;
}

/* Pieces of a block: rows of the step, in order. */
typedef struct block {
    orr_phase phase;
    orr_model_part_kind part;
    int32_t layer, micro_batch;
} block;

static bool is_in(const block *b, const orr_step_piece *p)
{
    return p->phase == b->phase && p->part == b->part && p->micro_batch == b->micro_batch &&
           (b->part != ORR_MODEL_PART_LAYER || p->layer == b->layer) &&
           (p->role == ORR_ROLE_WORK || p->role == ORR_ROLE_TP || p->role == ORR_ROLE_DP);
}

/* Where tensor-parallel slices are reduced (Megatron-LM, "f" and "g" of section 3): forward, after
 * a row-parallel product, a sliced embedding and within the loss; backward, before the norm whose
 * output the column-parallel products read. */
static bool needs_reduction(const block *b, const orr_step_piece *p, const orr_step_piece *next,
                            bool *softmax_seen)
{
    if (b->phase == ORR_PHASE_BACKWARD)
        return p->kind == ORR_OP_COLUMN && next != NULL && next->kind == ORR_OP_NORM;
    if (p->kind == ORR_OP_SOFTMAX && !*softmax_seen) {
        *softmax_seen = true;
        return true;
    }
    return p->kind == ORR_OP_ROW || p->kind == ORR_OP_EMBEDDING;
}

static orr_status insert_reduction(orr_composer *c, const orr_profiled_step *step,
                                   const orr_step_piece *p, orr_phase phase)
{
    char dims[32];
    if (p->kind != ORR_OP_SOFTMAX || phase == ORR_PHASE_BACKWARD)
        return orr_compose_insert_hidden(c, ORR_ROLE_TP, step, p);
    const int64_t tokens = (int64_t)c->to.micro_batch * c->to.seq;
    snprintf(dims, sizeof dims, "[[%lld]]", (long long)tokens);
    return orr_compose_insert(c, ORR_ROLE_TP, step, p, tokens, dims);
}

static const orr_step_piece *next_in(const orr_profiled_step *step, const block *b, uint32_t i)
{
    for (i++; i < step->n_pieces; i++)
        if (is_in(b, &step->pieces[i]) && step->pieces[i].role == ORR_ROLE_WORK)
            return &step->pieces[i];
    return NULL;
}

static orr_status put_piece(orr_composer *c, const orr_profiled_step *step, const block *b,
                            uint32_t i, bool reduces, orr_ratio parameters, bool *softmax_seen)
{
    const orr_step_piece *p = &step->pieces[i];
    if ((p->role == ORR_ROLE_TP && c->to.tp == 1) ||
        (p->role == ORR_ROLE_DP && (c->to.dp == 1 || !reduces))) {
        c->dropped++;
        return ORR_OK;
    }
    const bool gradients = p->role == ORR_ROLE_DP;
    ORR_TRY(orr_compose_copy_piece(c, step, p, gradients ? parameters : (orr_ratio){0, 0}));
    if (c->from.tp == 1 && c->to.tp > 1 && p->role == ORR_ROLE_WORK &&
        needs_reduction(b, p, next_in(step, b, i), softmax_seen))
        return insert_reduction(c, step, p, b->phase);
    return ORR_OK;
}

/* Writes one layer or other part. `reduces`: its gradients are reduced now. */
static orr_status put_block(orr_composer *c, const orr_profiled_step *step, const block *b,
                            bool reduces)
{
    const orr_ratio parameters = orr_compose_parameters(c, step, b->part, b->layer);
    const orr_step_piece *last = NULL;
    bool softmax_seen = false;
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        if (!is_in(b, &step->pieces[i]))
            continue;
        last = &step->pieces[i];
        ORR_TRY(put_piece(c, step, b, i, reduces, parameters, &softmax_seen));
    }
    if (last == NULL || !reduces || c->from.dp > 1 || c->to.dp == 1 || parameters.now == 0)
        return ORR_OK;
    char dims[32];
    snprintf(dims, sizeof dims, "[[%lld]]", (long long)parameters.now);
    return orr_compose_insert(c, ORR_ROLE_DP, step, last, parameters.now, dims);
}

/* A recorded send or receive of the direction, preferably of the micro-batch, from any rank. */
static const orr_step_piece *recorded_pass(const orr_composer *c, orr_comm_role role,
                                           int32_t micro_batch, const orr_profiled_step **ret_step)
{
    const orr_step_piece *any = NULL;
    for (uint32_t d = 0; d < c->s->job->n_graphs; d++)
        for (uint32_t i = 0; i < c->s->steps[d].n_pieces; i++) {
            const orr_step_piece *p = &c->s->steps[d].pieces[i];
            if (p->role != role || (any != NULL && p->micro_batch != micro_batch))
                continue;
            *ret_step = &c->s->steps[d];
            any = p;
            if (p->micro_batch == micro_batch)
                return p;
        }
    return any;
}

static orr_status pass(orr_composer *c, orr_comm_role role, int32_t micro_batch)
{
    const orr_profiled_step *step = compose_source_step(c, 0);
    if (orr_role_is_to_next_stage(role) ? c->stage + 1 == c->to.pp : c->stage == 0)
        return ORR_OK;
    const orr_step_piece *p = recorded_pass(c, role, micro_batch, &step);
    return p != NULL ? orr_compose_copy_piece(c, step, p, (orr_ratio){0, 0})
                     : orr_compose_insert_hidden(c, role, step, &step->pieces[0]);
}

/* The recorded rank that has the layer, and the layer's number there. */
static const orr_profiled_step *layer_source(const orr_composer *c, uint32_t layer,
                                             int32_t *ret_layer)
{
    const uint32_t a_stage = c->from.layers / c->from.pp;
    layer %= c->from.layers;
    *ret_layer = (int32_t)(layer % a_stage);
    return compose_source_step(c, layer / a_stage);
}

static orr_status put_module(orr_composer *c, const orr_profiled_step *step, const block *b,
                             const char *name, uint32_t number, bool reduces)
{
    char text[64];
    snprintf(text, sizeof text, "nn.Module: %s_%u", name, number);
    const bool forward = b->phase == ORR_PHASE_FORWARD;
    if (forward)
        orr_emit_begin(&c->e, ORR_NODE_PYTHON, text);
    ORR_TRY(put_block(c, step, b, reduces));
    if (forward)
        orr_emit_end(&c->e);
    return ORR_OK;
}

/* Which parts a stage has: index 0 is the front, then its layers, then the back. */
static orr_status put_part(orr_composer *c, orr_phase phase, uint32_t i, int32_t micro_batch,
                           bool reduces)
{
    const uint32_t a_stage = c->to.layers / c->to.pp;
    block b = {phase, ORR_MODEL_PART_EMBEDDING, -1, micro_batch};
    if (i == 0)
        return c->stage > 0 ? ORR_OK
                            : put_module(c, compose_source_step(c, 0), &b, "Front", 0, reduces);
    if (i == a_stage + 1) {
        b.part = ORR_MODEL_PART_HEAD;
        return c->stage + 1 < c->to.pp
                   ? ORR_OK
                   : put_module(c, compose_source_step(c, c->from.pp - 1), &b, "Back", 0, reduces);
    }
    b.part = ORR_MODEL_PART_LAYER;
    const orr_profiled_step *step = layer_source(c, c->stage * a_stage + i - 1, &b.layer);
    return put_module(c, step, &b, "TransformerLayer", i - 1, reduces);
}

/* The recorded micro-batch that stands for one of the new plan. */
static int32_t micro_batch_source(const orr_composer *c, uint32_t m)
{
    const uint32_t recorded = c->from.micro_batches;
    if (m + 1 == c->to.micro_batches)
        return (int32_t)recorded - 1;
    return recorded > 1 ? (int32_t)(m % (recorded - 1)) : 0;
}

static orr_status put_slot(orr_composer *c, orr_schedule_slot turn)
{
    const uint32_t n = c->to.layers / c->to.pp + 2;
    const int32_t source = micro_batch_source(c, turn.micro_batch);
    /* One recorded micro-batch reduces gradients; of several new ones only the last does. */
    const bool last = turn.micro_batch + 1 == c->to.micro_batches;
    const bool reduces = last || source + 1 < (int32_t)c->from.micro_batches;
    char name[64];
    const bool back = turn.phase == ORR_SLOT_BACKWARD;
    if (back && !c->s->steps[0].trains)
        return ORR_OK;
    snprintf(name, sizeof name, "%s micro_batch %u", back ? "backward" : "forward",
             turn.micro_batch);
    c->micro_batch = turn.micro_batch;
    orr_emit_begin(&c->e, ORR_NODE_ANNOTATION, name);
    ORR_TRY(pass(c, back ? ORR_ROLE_RECV_BACKWARD : ORR_ROLE_RECV_FORWARD, source));
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(put_part(c, back ? ORR_PHASE_BACKWARD : ORR_PHASE_FORWARD, back ? n - 1 - i : i,
                         source, back && reduces && (last || c->from.dp > 1)));
    ORR_TRY(pass(c, back ? ORR_ROLE_SEND_BACKWARD : ORR_ROLE_SEND_FORWARD, source));
    orr_emit_end(&c->e);
    return c->e.status;
}

/* Whether the piece belongs to a forward or backward pass. */
static bool in_pass(const orr_step_piece *p)
{
    return p->phase == ORR_PHASE_FORWARD || p->phase == ORR_PHASE_BACKWARD;
}

/* Parameters of the recorded stage, and of the composed one. */
static orr_ratio stage_parameters(const orr_composer *c, const orr_profiled_step *step,
                                  uint32_t old_stage)
{
    orr_ratio sum = {0, 0};
    for (uint32_t l = 0; l < c->from.layers / c->from.pp; l++)
        sum.before += orr_compose_parameters(c, step, ORR_MODEL_PART_LAYER, (int32_t)l).before;
    const orr_profiled_step *first = compose_source_step(c, 0),
                            *end = compose_source_step(c, c->from.pp - 1);
    const orr_ratio front = orr_compose_parameters(c, first, ORR_MODEL_PART_EMBEDDING, -1);
    const orr_ratio back = orr_compose_parameters(c, end, ORR_MODEL_PART_HEAD, -1);
    sum.before +=
        (old_stage == 0 ? front.before : 0) + (old_stage + 1 == c->from.pp ? back.before : 0);
    const uint32_t a_stage = c->to.layers / c->to.pp;
    for (uint32_t l = 0; l < a_stage; l++) {
        int32_t local;
        const orr_profiled_step *from = layer_source(c, c->stage * a_stage + l, &local);
        sum.now += orr_compose_parameters(c, from, ORR_MODEL_PART_LAYER, local).now;
    }
    sum.now += (c->stage == 0 ? front.now : 0) + (c->stage + 1 == c->to.pp ? back.now : 0);
    return sum;
}

/* Writes what a step does before its first and after its last pass. Device work after the last pass
 * waits for the gradients. */
static orr_status put_rest(orr_composer *c, bool after)
{
    const uint32_t old_stage = c->stage == 0              ? 0
                               : c->stage + 1 == c->to.pp ? c->from.pp - 1
                               : c->stage < c->from.pp    ? c->stage
                                                          : c->from.pp - 1;
    const orr_profiled_step *step = compose_source_step(c, old_stage);
    const orr_ratio parameters = stage_parameters(c, step, old_stage);
    uint32_t first = 0, last = step->n_pieces;
    while (first < step->n_pieces && !in_pass(&step->pieces[first]))
        first++;
    while (last > first && !in_pass(&step->pieces[last - 1]))
        last--;
    if (after)
        orr_emit_wait(&c->e, orr_emit_stream_of(&c->e, c->e.compute_stream),
                      orr_emit_stream_of(&c->e, c->role_stream[ORR_ROLE_DP]));
    for (uint32_t i = after ? last : 0; i < (after ? step->n_pieces : first); i++) {
        const orr_step_piece *p = &step->pieces[i];
        const bool optimizer = p->phase == ORR_PHASE_OPTIMIZER;
        if (optimizer)
            orr_emit_begin(&c->e, ORR_NODE_ANNOTATION, "Optimizer.step");
        ORR_TRY(orr_compose_copy_piece(c, step, p, optimizer ? parameters : (orr_ratio){0, 0}));
        if (optimizer)
            orr_emit_end(&c->e);
    }
    return ORR_OK;
}

static orr_status open_stage(orr_composer *c, uint32_t stage)
{
    static const char *const names[] = {"tp", "dp", "pp"};
    c->stage = stage;
    c->rendezvous.n = 0;
    c->origins.n = 0;
    memset(c->seq, 0, sizeof c->seq);
    if (!orr_emit_open(&c->e, true, c->err))
        return orr_fail_memory(c->err);
    c->e.compute_stream = c->compute_stream;
    const orr_graph *g = c->s->job->graphs[0];
    const orr_recording recording = {.rank = ORR_NONE,
                                     .source = orr_emit_str(&c->e, "rescaled 1"),
                                     .device_name =
                                         orr_emit_str(&c->e, orr_graph_str(g, g->device_name))};
    orr_builder_recording(c->e.b, &recording);
    for (uint32_t i = 0; i < ORR_PLAN_GROUPINGS; i++) {
        const uint32_t size = orr_plan_group(&c->to, i, 0).size;
        const orr_group group = {
            .name = orr_emit_str(&c->e, names[i]), .size = size, .start = -1, .stride = 1};
        c->groups[i] = ORR_NONE;
        ORR_TRY(c->e.status);
        if (size > 1)
            ORR_TRY(orr_builder_group(c->e.b, &group, &c->groups[i], c->err));
    }
    orr_emit_thread(&c->e, "python", 1);
    return c->e.status;
}

orr_status orr_compose_stage(orr_composer *c, uint32_t stage, const orr_graph **ret)
{
    const uint32_t n = 2 * c->to.micro_batches;
    orr_status status;
    orr_schedule_slot *turns = orr_malloc(n * sizeof *turns);
    if (turns == NULL)
        return orr_fail_memory(c->err);
    ORR_TRY_OUT(status, open_stage(c, stage));
    orr_schedule_stage_slots((orr_schedule)c->to.schedule, stage, c->to.pp, c->to.micro_batches,
                             turns);
    orr_emit_begin(&c->e, ORR_NODE_ANNOTATION, "ProfilerStep#0");
    ORR_TRY_OUT(status, put_rest(c, false));
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY_OUT(status, put_slot(c, turns[i]));
    ORR_TRY_OUT(status, put_rest(c, true));
    orr_emit_end(&c->e);
    status = orr_emit_build(&c->e, ret, c->err);
out:
    orr_emit_done(&c->e);
    orr_free(turns);
    return status;
}

void orr_compose_done(orr_composer *c)
{
    orr_emit_done(&c->e);
    orr_array_done(&c->rendezvous);
    orr_array_done(&c->origins);
    orr_free(c->made);
    c->made = NULL;
}
