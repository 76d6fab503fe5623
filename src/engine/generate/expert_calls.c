/* SPDX-License-Identifier: Apache-2.0 */
/* Exchanges of a backbone: which calls they stand for, how they are written, and how a backbone
 * runs with them. */
#include "base/clock.h"
#include "engine/generate/experts.h"
#include "engine/generate/writer.h"
#include "op/shape.h"
#include "op/tape/tape.h"

static bool reads_hidden(const orr_tape_call *call, const bool *hidden)
{
    for (uint32_t i = 0; i < call->n_in; i++)
        if (call->in[i] != ORR_NONE && hidden[call->in[i]])
            return true;
    return false;
}

static void hide_results(const orr_tape_call *call, bool *hidden)
{
    for (uint32_t i = 0; i < call->n_out; i++)
        if (call->out[i] != ORR_NONE)
            hidden[call->out[i]] = true;
}

/* Parameters that only calls inside read. */
static void hide_weights(const orr_tape *tape, const bool *inside, bool *hidden)
{
    for (uint32_t c = 0; c < tape->n_calls; c++)
        for (uint32_t i = 0; i < tape->calls[c].n_in && inside[c]; i++) {
            const orr_value v = tape->calls[c].in[i];
            if (v != ORR_NONE && tape->values[v].role == ORR_VALUE_PARAMETER)
                hidden[v] = true;
        }
}

orr_status orr_expert_part_of(const orr_tape *tape, orr_arena *arena, orr_expert_part *ret,
                              orr_error *err)
{
    bool *inside = orr_arena_array(arena, bool, tape->n_calls);
    bool *hidden = orr_arena_array(arena, bool, tape->n_values);
    orr_expert_part part = {ORR_NONE, ORR_NONE, inside, hidden};
    if (inside == NULL || hidden == NULL)
        return orr_fail_memory(err);
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if (call->op == ORR_OP_DISPATCH && part.dispatch == ORR_NONE)
            part.dispatch = c;
        else if (part.combine != ORR_NONE || !reads_hidden(call, hidden))
            continue;
        else if (call->op == ORR_OP_COMBINE)
            part.combine = c;
        else
            inside[c] = true;
        if (c != part.combine)
            hide_results(call, hidden);
    }
    if ((part.dispatch == ORR_NONE) != (part.combine == ORR_NONE))
        return orr_fail(err, ORR_UNSUPPORTED, "experts whose results are not combined");
    hide_weights(tape, inside, hidden);
    *ret = part;
    return ORR_OK;
}

static void note_bytes(const struct orr_expert_call *e, uint32_t call, orr_expert_exchanged bytes)
{
    if (e->g->recorder != NULL)
        orr_recorder_bytes(e->g->recorder, call, bytes.sent, bytes.received);
}

static const void *data_of(const struct orr_expert_call *e, orr_value value)
{
    return value != ORR_NONE ? orr_program_data(e->backbone->served.program, value) : NULL;
}

static orr_status send_rows(void *ctx, uint32_t call, orr_error *err)
{
    const struct orr_expert_call *e = ctx;
    orr_expert_parallel *x = e->g->parallel;
    const orr_expert_tokens tokens = {.n = e->rows != ORR_NONE ? x->tokens : 0,
                                      .rows = data_of(e, e->rows),
                                      .choice = data_of(e, e->choice),
                                      .score = data_of(e, e->score),
                                      .request = x->request,
                                      .position = x->position};
    x->dispatched_ns = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(orr_expert_exchange_dispatch(x->exchange, e->layer, &tokens, &x->arrived, err));
    note_bytes(e, call, orr_expert_exchange_dispatched(x->exchange));
    return ORR_OK;
}

static orr_status send_results(void *ctx, uint32_t call, orr_error *err)
{
    const struct orr_expert_call *e = ctx;
    orr_expert_parallel *x = e->g->parallel;
    ORR_TRY(orr_expert_exchange_combine(
        x->exchange, orr_program_data(e->backbone->served.program, e->sorted), err));
    note_bytes(e, call, orr_expert_exchange_combined(x->exchange));
    x->experts_ns += orr_clock_now_ns(&orr_clock_monotonic) - x->dispatched_ns;
    return ORR_OK;
}

/* An all-to-all that a hook does. It reads all of `in`, which must live until then. */
static orr_status write_call(orr_program_writer *w, const orr_value in[3], orr_value out,
                             const char *name, orr_program_hook *hook, struct orr_expert_call *e,
                             uint32_t *ret)
{
    orr_tape *tape = &w->to->tape;
    ORR_TRY(orr_tape_reserve(tape, 0, 1, w->err));
    orr_tape_call *call = &tape->calls[tape->n_calls];
    *call = (orr_tape_call){
        .op = ORR_OP_ALL_TO_ALL,
        .n_out = 1,
        .out = {out},
        .name = name,
        .args = {.axis = ORR_AXIS_EP, .members = (uint16_t)w->g->parallel->placement->ranks}};
    for (int i = 0; i < 3; i++)
        if (in[i] != ORR_NONE)
            call->in[call->n_in++] = in[i];
    *ret = tape->n_calls;
    orr_tape_commit_call(tape);
    while (w->to->calls.n < *ret)
        if (!orr_array_push(&w->to->calls, (orr_program_call){0}))
            return orr_fail_memory(w->err);
    const orr_program_call how = {.instead = hook, .hook_ctx = e};
    return orr_array_push(&w->to->calls, how) ? ORR_OK : orr_fail_memory(w->err);
}

/* Rows on their way, in a buffer that all layers share. */
static orr_status rows_value(orr_program_writer *w, orr_value *ret)
{
    const orr_tape_value like = {
        .role = ORR_VALUE_ACTIVATION,
        .name = "rows",
        .type = orr_type_of(w->g->parallel->dtype, 2, (int64_t[]){1, (int64_t)w->g->model.hidden})};
    ORR_TRY(orr_writer_value(w, &like, ret));
    w->to->bindings.at[*ret].data = w->g->parallel->rows;
    return ORR_OK;
}

/* What the exchange reads of the module: it must lie as the kernels wrote it. */
static orr_status find_operands(const orr_program_writer *w, const orr_tape *module,
                                const orr_expert_part *part, struct orr_expert_call *e)
{
    const orr_tape_call *call = &module->calls[part->dispatch];
    const orr_value in[] = {call->in[0], call->in[1], call->n_in > 2 ? call->in[2] : ORR_NONE};
    for (int i = 0; i < 3; i++)
        if (in[i] != ORR_NONE && module->values[in[i]].view_of != ORR_NONE)
            return orr_fail(w->err, ORR_UNSUPPORTED, "experts whose '%s' is a view",
                            module->values[in[i]].name);
    e->rows = w->map[in[0]];
    e->choice = w->map[in[1]];
    e->score = in[2] != ORR_NONE ? w->map[in[2]] : ORR_NONE;
    return ORR_OK;
}

orr_status orr_expert_call_write(orr_program_writer *w, const orr_tape *module,
                                 const orr_expert_part *part)
{
    struct orr_expert_call *e = orr_arena_one(w->to->arena, struct orr_expert_call);
    orr_value arrived, nothing;
    if (e == NULL || !orr_array_push(&w->backbone->exchanges, e))
        return orr_fail_memory(w->err);
    *e = (struct orr_expert_call){.g = w->g,
                                  .backbone = w->backbone,
                                  .layer = orr_generator_expert_layer(w->g, w->place),
                                  .rows = ORR_NONE,
                                  .choice = ORR_NONE,
                                  .score = ORR_NONE};
    ORR_TRY(rows_value(w, &arrived));
    if (module != NULL) {
        ORR_TRY(find_operands(w, module, part, e));
        const orr_value results = module->calls[part->combine].in[0];
        ORR_TRY(orr_writer_value(w, &module->values[results], &w->map[results]));
        e->sorted = w->map[results];
    } else {
        ORR_TRY(rows_value(w, &nothing));
        ORR_TRY(rows_value(w, &e->sorted));
    }
    const orr_value there[] = {module != NULL ? e->rows : nothing, e->choice, e->score},
                    back[] = {arrived, ORR_NONE, ORR_NONE};
    ORR_TRY(write_call(w, there, arrived, "expert_dispatch", send_rows, e, &e->dispatch));
    return write_call(w, back, e->sorted, "expert_combine", send_results, e, &e->combine);
}

orr_status orr_generator_run_backbone(orr_generator *g, orr_backbone *backbone, orr_error *err)
{
    orr_program *program = backbone->served.program;
    orr_program_run run = {0};
    if (g->recorder != NULL)
        orr_recorder_run(g->recorder, program, &run.start_ns, &run.end_ns);
    for (size_t i = 0; i < backbone->exchanges.n; i++) {
        const struct orr_expert_call *e = backbone->exchanges.at[i];
        run.to = e->dispatch + 1;
        ORR_TRY(orr_program_execute(program, &run, err));
        ORR_TRY(orr_generator_run_experts(g, e->layer, err));
        run.from = run.to;
        if (run.start_ns != NULL)
            orr_recorder_resume(g->recorder, program, run.from);
    }
    run.to = 0;
    return orr_program_execute(program, &run, err);
}
