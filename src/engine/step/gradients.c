/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* Writes the gradient part of the tape. Gradients of micro-batches are accumulated in fp32 buffers,
 * one per bucket, where the products that make them can accumulate in place; others go to a
 * temporary that is added. Once a step a complete bucket is reduced over the ranks that hold the
 * same parameters (reduce-scatter to shards with ZeRO 1, all-reduce without). With ZeRO 2 and 3
 * (arXiv 1910.02054) a bucket is reduced after each micro-batch instead, and added to this rank's
 * shard; there is no full buffer then. Recommendation has buffers of its own for each micro-batch,
 * which are summed as a tree (gradient_tree.c). */

static bool reduces_each_micro_batch(const orr_engine_step *step, const orr_bucket *b)
{
    return b->shard_axis != ORR_AXIS_NONE && step->plan.zero >= 2;
}

/* Gradients that wait for the end of the slot. A backward pass split in two (zero-bubble pipelines)
 * makes some of a micro-batch's gradients in its first part. */
static orr_value *pending_of(const orr_step_writer *w, uint32_t parameter)
{
    return &w->pending[(size_t)w->slot.micro_batch * w->step->n_parameters + parameter];
}

/* The parameter that owns the buffer: for tied parameters, the first. */
static uint32_t owner_of(const orr_engine_step *step, uint32_t parameter)
{
    const orr_step_parameter *p = &step->parameters[parameter];
    for (uint32_t i = 0; p->tied; i++)
        if (!step->parameters[i].tied && step->parameters[i].exported == p->exported)
            return i;
    return parameter;
}

static orr_value in_fp32(orr_step_writer *w, orr_value value, void *data)
{
    const orr_tape_value *v = &w->to->tape.values[value];
    orr_type type = v->type;
    const bool same = type.dtype == ORR_DTYPE_FP32;
    type.dtype = ORR_DTYPE_FP32;
    if (same && data == NULL)
        return value;
    return orr_step_apply(w,
                          &(orr_step_op){.op = same ? ORR_OP_COPY : ORR_OP_CAST,
                                         .pass = ORR_PASS_WEIGHT,
                                         .args = &(orr_op_args){.dtype = same ? 0 : ORR_DTYPE_FP32},
                                         .n_in = 1,
                                         .in = {value},
                                         .out = &type,
                                         .data = data,
                                         .name = "gradient"});
}

/* Matrix products of 16-bit numbers are summed in fp32 anyway, so they can output fp32. */
static void widen(orr_step_writer *w, uint32_t call, orr_value value)
{
    const uint8_t op = w->to->tape.calls[call].op;
    orr_tape_value *v = &w->to->tape.values[value];
    if ((op == ORR_OP_MATMUL || op == ORR_OP_GROUPED_MATMUL) && v->view_of == ORR_NONE)
        v->type.dtype = ORR_DTYPE_FP32;
}

/* Whether the call can write, or accumulate, to the buffer itself. */
static bool writes_in_place(const orr_step_writer *w, uint32_t call, uint32_t o, orr_value value,
                            bool adds)
{
    const orr_tape_value *v = &w->to->tape.values[value];
    const uint8_t op = w->to->tape.calls[call].op;
    if (v->view_of != ORR_NONE || v->type.dtype != ORR_DTYPE_FP32 || v->made_by != call)
        return false;
    return !adds || (o == 0 && w->step->source.backend->entries[op].accumulates);
}

static void add_to_buffer(orr_step_writer *w, uint32_t owner, uint32_t call, uint32_t o,
                          orr_value value)
{
    orr_engine_step *step = w->step;
    orr_step_parameter *p = &step->parameters[owner];
    orr_bucket *b = &step->buckets[p->bucket];
    if (!orr_step_writer_ok(w))
        return;
    float *buffer = (b->tree != NULL ? orr_step_block_gradient(w, b) : b->gradient) + p->at;
    p->written &= b->tree == NULL;
    if (writes_in_place(w, call, o, value, p->written)) {
        w->to->bindings.at[value].data = buffer;
        w->to->calls.at[call].accumulate = p->written;
        b->last_write = call;
        w->sums[owner] = value;
    } else if (!p->written) {
        w->sums[owner] = in_fp32(w, value, buffer);
        b->last_write = orr_step_last(w);
    } else {
        const orr_value wide = in_fp32(w, value, NULL);
        w->sums[owner] = orr_step_apply(w, &(orr_step_op){.op = ORR_OP_ADD,
                                                          .pass = ORR_PASS_WEIGHT,
                                                          .n_in = 2,
                                                          .in = {w->sums[owner], wide},
                                                          .out = &p->type,
                                                          .data = buffer,
                                                          .name = "gradient"});
        if (orr_step_writer_ok(w))
            w->to->tape.values[w->sums[owner]].type.dtype = ORR_DTYPE_FP32;
        b->last_write = orr_step_last(w);
    }
    p->written = true;
}

void orr_step_gradient(orr_step_writer *w, uint32_t parameter, uint32_t call, uint32_t o)
{
    if (!orr_step_writer_ok(w))
        return;
    const orr_step_parameter *p = &w->step->parameters[parameter];
    const orr_value value = w->to->tape.calls[call].out[o];
    widen(w, call, value);
    if (reduces_each_micro_batch(w->step, &w->step->buckets[p->bucket]))
        *pending_of(w, parameter) = value;
    else
        add_to_buffer(w, owner_of(w->step, parameter), call, o, value);
}

static orr_value reduce(orr_step_writer *w, uint32_t axis, orr_op op, orr_value in, int64_t n,
                        void *data, uint32_t after)
{
    orr_engine_step *step = w->step;
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, n);
    const orr_op_args args = {.axis = (uint8_t)axis, .members = orr_step_members(step, axis)};
    const orr_value out =
        orr_step_apply(w, &(orr_step_op){.op = op,
                                         .pass = ORR_PASS_WEIGHT,
                                         .lane = orr_step_lane_of(&step->plan, axis),
                                         .args = &args,
                                         .n_in = 1,
                                         .in = {in},
                                         .out = &type,
                                         .data = data,
                                         .name = "gradients"});
    if (orr_step_writer_ok(w))
        orr_step_wait(w, orr_step_last(w), after);
    return out;
}

static orr_value buffer_of(orr_step_writer *w, float *data, int64_t n)
{
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, n);
    return orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &type, "gradients", data);
}

/* HSDP: sums the shard over its replicas, once a step. Experts have none. */
static void reduce_replicas(orr_step_writer *w, orr_bucket *b, float *shard, uint32_t after)
{
    if (b->axis == ORR_AXIS_GRADIENT && orr_step_members(w->step, ORR_AXIS_REPLICA) > 1)
        b->sum = reduce(w, ORR_AXIS_REPLICA, ORR_OP_ALL_REDUCE, b->sum, b->shard_n, shard, after);
}

/* Reduces a whole bucket, once a step. */
static void reduce_bucket(orr_step_writer *w, orr_bucket *b)
{
    orr_engine_step *step = w->step;
    b->sum = buffer_of(w, b->gradient, b->n);
    if (step->plan.zero == 0) {
        if (orr_step_members(step, b->axis) > 1)
            b->sum =
                reduce(w, b->axis, ORR_OP_ALL_REDUCE, b->sum, b->n, b->gradient, b->last_write);
        return;
    }
    float *shard = b->gradient + b->shard_begin;
    uint32_t after = b->last_write;
    if (b->shard_axis != ORR_AXIS_NONE) {
        b->sum = reduce(w, b->shard_axis, ORR_OP_REDUCE_SCATTER, b->sum, b->shard_n, shard, after);
        after = ORR_NONE;
    }
    reduce_replicas(w, b, shard, after);
}

/* Concatenates pieces, as many at a time as a call takes. */
static orr_value concatenate(orr_step_writer *w, orr_value *pieces, uint32_t n)
{
    while (n > 1 && orr_step_writer_ok(w)) {
        uint32_t made = 0;
        for (uint32_t first = 0; first < n; first += ORR_CALL_IN) {
            const uint32_t count = n - first < ORR_CALL_IN ? n - first : ORR_CALL_IN;
            orr_step_op op = {
                .op = ORR_OP_CONCAT, .pass = ORR_PASS_WEIGHT, .n_in = count, .name = "gradients"};
            int64_t numbers = 0;
            for (uint32_t i = 0; i < count; i++) {
                op.in[i] = pieces[first + i];
                numbers += w->to->tape.values[op.in[i]].type.dim[0];
            }
            const orr_type type = orr_step_flat(ORR_DTYPE_FP32, numbers);
            op.out = &type;
            pieces[made++] = count > 1 ? orr_step_apply(w, &op) : pieces[first];
            if (!orr_step_writer_ok(w))
                return ORR_NONE;
        }
        n = made;
    }
    return pieces[0];
}

typedef struct pieces {
    orr_array(orr_value) all;
    int64_t at;
} pieces;

static void add_piece(orr_step_writer *w, pieces *p, orr_value value, int64_t n)
{
    p->at += n;
    if (orr_step_writer_ok(w) && !orr_array_push(&p->all, value))
        orr_step_writer_fail(w, orr_fail_memory(w->err));
}

/* Appends zeros up to `to`: padding between parameters, or a parameter without a gradient. */
static void add_zeros(orr_step_writer *w, pieces *p, int64_t to)
{
    const int64_t n = to - p->at;
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, n);
    const int64_t most =
        (int64_t)ORR_BUCKET_ALIGN *
        (orr_step_members(w->step, ORR_AXIS_GRADIENT) * orr_step_members(w->step, ORR_AXIS_TP) + 1);
    if (n <= 0)
        return;
    if (n <= most) {
        add_piece(w, p, orr_step_value(w, ORR_VALUE_CONSTANT, &type, "zeros", w->step->zeros), n);
        return;
    }
    orr_type *shape = orr_arena_one(w->step->arena, orr_type);
    if (shape == NULL) {
        orr_step_writer_fail(w, orr_fail_memory(w->err));
        return;
    }
    *shape = type;
    add_piece(w, p,
              orr_step_apply(w, &(orr_step_op){.op = ORR_OP_FILL,
                                               .pass = ORR_PASS_WEIGHT,
                                               .args = &(orr_op_args){.shape = shape},
                                               .out = &type,
                                               .name = "zeros"}),
              n);
}

/* The next parameter of the place in the bucket, by offset. */
static uint32_t next_in(const orr_engine_step *step, uint32_t place, uint32_t bucket, int64_t from)
{
    uint32_t next = ORR_NONE;
    for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++) {
        const orr_step_parameter *p = &step->parameters[i];
        if (p->bucket == bucket && p->at >= from &&
            (next == ORR_NONE || p->at < step->parameters[next].at))
            next = i;
    }
    return next;
}

/* This slot's gradients of a place, laid out as in the bucket. */
static orr_value flatten(orr_step_writer *w, uint32_t place, uint32_t bucket)
{
    orr_engine_step *step = w->step;
    pieces p = {.at = 0};
    for (uint32_t i = next_in(step, place, bucket, 0); i != ORR_NONE && orr_step_writer_ok(w);
         i = next_in(step, place, bucket, step->parameters[i].at + 1)) {
        const int64_t n = orr_type_elements(&step->parameters[i].type);
        const orr_type flat = orr_step_flat(ORR_DTYPE_FP32, n);
        orr_value *pending = pending_of(w, i);
        if (*pending == ORR_NONE)
            continue;
        add_zeros(w, &p, step->parameters[i].at);
        const orr_value wide = in_fp32(w, *pending, NULL);
        add_piece(w, &p, orr_step_view(w, wide, &flat), n);
        *pending = ORR_NONE;
    }
    add_zeros(w, &p, step->buckets[bucket].n);
    const orr_value all =
        orr_step_writer_ok(w) ? concatenate(w, p.all.at, (uint32_t)p.all.n) : ORR_NONE;
    orr_array_done(&p.all);
    return all;
}

static void reduce_turn(orr_step_writer *w, uint32_t place, uint32_t bucket)
{
    orr_bucket *b = &w->step->buckets[bucket];
    const orr_value flat = flatten(w, place, bucket);
    const bool first = b->sum == ORR_NONE;
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, b->shard_n);
    const orr_value part = reduce(w, b->shard_axis, ORR_OP_REDUCE_SCATTER, flat, b->shard_n,
                                  first ? b->gradient : NULL, ORR_NONE);
    b->sum = first ? part
                   : orr_step_apply(
                         w, &(orr_step_op){.op = ORR_OP_ADD,
                                           .pass = ORR_PASS_WEIGHT,
                                           .n_in = 2,
                                           .lane = orr_step_lane_of(&w->step->plan, b->shard_axis),
                                           .in = {b->sum, part},
                                           .out = &type,
                                           .data = b->gradient,
                                           .name = "gradients"});
}

static bool has(const orr_engine_step *step, uint32_t place, uint32_t bucket)
{
    return next_in(step, place, bucket, 0) != ORR_NONE;
}

void orr_step_gradients_end(orr_step_writer *w, uint32_t place, bool last)
{
    orr_engine_step *step = w->step;
    for (uint32_t i = 0; i < step->n_buckets && orr_step_writer_ok(w); i++) {
        orr_bucket *b = &step->buckets[i];
        if (b->frozen || !has(step, place, i))
            continue;
        if (reduces_each_micro_batch(step, b))
            reduce_turn(w, place, i);
        if (b->tree != NULL)
            orr_step_end_block(w, b);
        b->waiting -= last;
        if (!last || b->waiting > 0)
            continue;
        if (reduces_each_micro_batch(step, b))
            reduce_replicas(w, b, b->gradient, ORR_NONE);
        else if (b->tree != NULL)
            orr_step_join_tree(w, b);
        else
            reduce_bucket(w, b);
        orr_step_submit_early(w, b);
    }
}
