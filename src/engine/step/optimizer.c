/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* Writes what follows the last micro-batch: the remaining reductions of gradients, and the
 * optimizer. */

static void sum_over(orr_step_writer *w, orr_bucket *b, uint32_t axis, int64_t begin, int64_t end)
{
    orr_engine_step *step = w->step;
    const orr_step_range64 range = orr_step_in_shard(b, begin, end);
    if (orr_step_members(step, axis) < 2 || range.to <= range.from || b->sum == ORR_NONE)
        return;
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, range.to - range.from);
    float *data = orr_step_shard_gradient(step, b) + (range.from - b->shard_begin);
    const orr_value in = orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &type, "gradients", data);
    const orr_op_args args = {.axis = (uint8_t)axis, .members = orr_step_members(step, axis)};
    orr_step_apply(w, &(orr_step_op){.op = ORR_OP_ALL_REDUCE,
                                     .pass = ORR_PASS_WEIGHT,
                                     .lane = orr_step_lane_of(&step->plan, axis),
                                     .args = &args,
                                     .n_in = 1,
                                     .in = {in},
                                     .out = &type,
                                     .data = data,
                                     .name = "gradients"});
    if (!orr_step_writer_ok(w))
        return;
    const uint32_t made = w->to->tape.values[b->sum].made_by;
    orr_step_wait(w, orr_step_last(w), made);
    orr_step_wait(w, orr_step_last(w), b->last_write);
    b->last_write = orr_step_last(w);
}

void orr_step_write_last_reductions(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    for (uint32_t i = 0; i < step->n_buckets; i++) {
        orr_bucket *b = &step->buckets[i];
        if (b->frozen)
            continue;
        sum_over(w, b, ORR_AXIS_TP, b->sliced_begin, b->sliced_end);
        if (orr_step_bucket_is_tied(step, b))
            sum_over(w, b, ORR_AXIS_TIED, 0, b->n);
        orr_step_submit_late(w, b);
    }
}

static orr_value part(orr_step_writer *w, orr_value_role role, float *data, int64_t n,
                      const char *name)
{
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, n);
    return data == NULL ? ORR_NONE : orr_step_value(w, role, &type, name, data);
}

static void optimize(orr_step_writer *w, const orr_bucket *b, int64_t begin, int64_t end)
{
    const int64_t from = begin > b->shard_begin ? begin - b->shard_begin : 0;
    const int64_t to = end < b->shard_begin + b->shard_n ? end - b->shard_begin : b->shard_n;
    const int64_t n = to - from;
    if (n <= 0 || b->frozen)
        return;
    orr_step_op op = {.op = ORR_OP_ADAMW, .pass = ORR_PASS_OPTIMIZER, .n_in = 4, .name = "adamw"};
    op.in[0] = part(w, ORR_VALUE_PARAMETER, b->master + from, n, "master");
    op.in[1] = part(w, ORR_VALUE_PARAMETER_GRADIENT, orr_step_reduced_gradient(w->step, b) + from,
                    n, "gradients");
    if (w->step->source.sgd) {
        op.op = ORR_OP_SGD;
        op.n_in = 2;
        op.name = "sgd";
        orr_step_apply(w, &op);
        return;
    }
    op.in[2] = part(w, ORR_VALUE_STATE, b->m + from, n, "mean");
    op.in[3] = part(w, ORR_VALUE_STATE, b->v + from, n, "square");
    if (b->copy != NULL) {
        const orr_type type = orr_step_flat(w->step->stream, n);
        op.in[op.n_in++] =
            orr_step_value(w, ORR_VALUE_PARAMETER, &type, "copy", (char *)b->copy + from * 2);
    }
    orr_step_apply(w, &op);
}

void orr_step_write_optimizer(orr_step_writer *w)
{
    orr_engine_step *step = w->step;
    orr_step_program *p = w->to;
    p->decays.from = p->tape.n_calls;
    for (uint32_t i = 0; i < step->n_buckets; i++)
        optimize(w, &step->buckets[i], 0, step->buckets[i].decays_end);
    p->decays.to = p->plain.from = p->tape.n_calls;
    for (uint32_t i = 0; i < step->n_buckets; i++)
        optimize(w, &step->buckets[i], step->buckets[i].decays_end, step->buckets[i].used);
    orr_step_write_table_update(w);
    p->plain.to = p->tape.n_calls;
}
