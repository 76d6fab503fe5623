/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

#include <string.h>

#include "op/tape/tape.h"

/* Helpers that write calls and values to a step's tape, and the order of its parts. */

orr_value orr_step_value(orr_step_writer *w, orr_value_role role, const orr_type *type,
                         const char *name, void *data)
{
    orr_value value = ORR_NONE;
    if (orr_step_writer_ok(w))
        orr_step_writer_fail(w, orr_tape_value_new(&w->to->tape, role, type, name, &value, w->err));
    if (orr_step_writer_ok(w) && !orr_array_push(&w->to->bindings, ((orr_binding){.data = data})))
        orr_step_writer_fail(w, orr_fail_memory(w->err));
    return orr_step_writer_ok(w) ? value : ORR_NONE;
}

uint32_t orr_step_call(orr_step_writer *w, const orr_tape_call *call, uint8_t lane,
                       const char *label)
{
    const orr_program_call how = {.lane = lane, .tag = w->slot.micro_batch, .label = label};
    orr_tape *tape = &w->to->tape;
    if (orr_step_writer_ok(w))
        orr_step_writer_fail(w, orr_tape_reserve(tape, 0, 1, w->err));
    if (orr_step_writer_ok(w) && !orr_array_push(&w->to->calls, how))
        orr_step_writer_fail(w, orr_fail_memory(w->err));
    if (!orr_step_writer_ok(w))
        return ORR_NONE;
    tape->calls[tape->n_calls] = *call;
    orr_tape_commit_call(tape);
    return tape->n_calls - 1;
}

orr_value orr_step_apply(orr_step_writer *w, const orr_step_op *op)
{
    orr_tape_call call = {.op = (uint8_t)op->op,
                          .pass = op->pass,
                          .n_in = (uint8_t)op->n_in,
                          .n_out = op->out != NULL,
                          .name = op->name != NULL ? op->name : ""};
    if (op->args != NULL)
        call.args = *op->args;
    memcpy(call.in, op->in, sizeof call.in);
    orr_value out = ORR_NONE;
    if (op->out != NULL)
        out = call.out[0] = orr_step_value(w, ORR_VALUE_ACTIVATION, op->out, call.name, op->data);
    orr_step_call(w, &call, op->lane, NULL);
    return out;
}

void orr_step_wait(orr_step_writer *w, uint32_t call, uint32_t on)
{
    if (orr_step_writer_ok(w) && on != ORR_NONE && on != call &&
        !orr_array_push(&w->to->deps, ((orr_program_dep){call, on})))
        orr_step_writer_fail(w, orr_fail_memory(w->err));
}

orr_value orr_step_view(orr_step_writer *w, orr_value value, const orr_type *type)
{
    orr_type *shape = orr_arena_one(w->step->arena, orr_type);
    if (shape == NULL) {
        orr_step_writer_fail(w, orr_fail_memory(w->err));
        return ORR_NONE;
    }
    *shape = *type;
    return orr_step_apply(w, &(orr_step_op){.op = ORR_OP_VIEW,
                                            .pass = w->to->tape.pass,
                                            .args = &(orr_op_args){.shape = shape},
                                            .n_in = 1,
                                            .in = {value},
                                            .out = type});
}

orr_value orr_step_slice(orr_step_writer *w, orr_value flat, int64_t begin, int64_t count)
{
    if (!orr_step_writer_ok(w))
        return ORR_NONE;
    const orr_type type = orr_step_flat(w->to->tape.values[flat].type.dtype, count);
    return orr_step_apply(w, &(orr_step_op){.op = ORR_OP_SLICE,
                                            .pass = w->to->tape.pass,
                                            .args = &(orr_op_args){.begin = begin, .count = count},
                                            .n_in = 1,
                                            .in = {flat},
                                            .out = &type});
}

static bool begin_writer(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    const size_t places = (size_t)step->plan.micro_batches * step->row.n;
    const uint32_t n = step->n_parameters + 1;
    w->maps = orr_arena_array(w->scratch, orr_value *, places);
    w->ends[0] = orr_arena_array(w->scratch, orr_value, places);
    w->ends[1] = orr_arena_array(w->scratch, orr_value, places);
    w->labels = orr_arena_array(w->scratch, const char **, step->row.n);
    w->last_slot = orr_arena_array(w->scratch, uint32_t, step->schedule.spec.chunks);
    const size_t pending = (size_t)n * step->plan.micro_batches;
    w->pending = orr_arena_array(w->scratch, orr_value, pending);
    w->sums = orr_arena_array(w->scratch, orr_value, n);
    if (w->maps == NULL || w->ends[0] == NULL || w->ends[1] == NULL || w->labels == NULL ||
        w->last_slot == NULL || w->pending == NULL || w->sums == NULL)
        return false;
    step->n_sums = w->trains ? 0 : step->n_sums;
    memset(w->pending, 0xff, pending * sizeof *w->pending);
    memset(w->sums, 0xff, n * sizeof *w->sums);
    memset(w->ends[0], 0xff, places * sizeof *w->ends[0]);
    memset(w->ends[1], 0xff, places * sizeof *w->ends[1]);
    for (uint32_t i = 0; i < step->n_parameters; i++) {
        step->parameters[i].written = false;
        step->parameters[i].compute_value = ORR_NONE;
    }
    for (uint32_t b = 0; b < step->n_buckets; b++) {
        orr_bucket *bucket = &step->buckets[b];
        bucket->waiting = 0;
        bucket->last_write = bucket->sum = bucket->gathered = ORR_NONE;
    }
    return true;
}

static orr_step_range range_from(const orr_step_program *p, uint32_t from)
{
    return (orr_step_range){from, p->tape.n_calls};
}

static void write_parts(orr_step_writer *w)
{
    orr_step_program *p = w->to;
    orr_step_gather_at_start(w);
    orr_step_write_bags(w);
    orr_step_write_schedule(w);
    orr_step_write_bag_gradients(w);
    if (w->trains)
        orr_step_write_last_reductions(w);
    p->train = range_from(p, 0);
    p->tape.pass = ORR_PASS_OPTIMIZER;
    if (w->trains)
        orr_step_write_optimizer(w);
    p->gather.from = p->tape.n_calls;
    orr_step_gather_at_end(w);
    p->gather = range_from(p, p->gather.from);
}

orr_status orr_step_write(orr_engine_step *step, bool trains, orr_step_program *ret, orr_error *err)
{
    orr_step_writer w = {
        .step = step, .to = ret, .trains = trains, .err = err, .scratch = orr_arena_new(0, 0)};
    orr_tape_init(&ret->tape, step->arena);
    if (w.scratch == NULL || !begin_writer(&w))
        w.status = orr_fail_memory(err);
    else
        write_parts(&w);
    orr_arena_free(w.scratch);
    return w.status;
}
