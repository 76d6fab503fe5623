/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/step/tape_writer.h"

/* A step of one replica of a team. When a range of a bucket's shard is final within the replica, it
 * is submitted to the team for reduction over replicas, while the backward pass goes on; the
 * optimizer reads the sums from a second buffer. Gradients stay untouched until the team has
 * committed the step, since an attempt may be repeated with other members.
 *
 * Some gradients are partial sums over tensor-parallel ranks until after the last micro-batch.
 * Their ranges are submitted separately and late, so that the rest need not wait. */

orr_step_range64 orr_step_in_shard(const orr_bucket *b, int64_t begin, int64_t end)
{
    const int64_t shard_end = b->shard_begin + b->shard_n;
    return (orr_step_range64){begin > b->shard_begin ? begin : b->shard_begin,
                              end < shard_end ? end : shard_end};
}

bool orr_step_bucket_is_tied(const orr_engine_step *step, const orr_bucket *b)
{
    return b->tied && (step->stage == 0 || step->stage == step->plan.pp - 1) &&
           orr_step_members(step, ORR_AXIS_TIED) > 1;
}

orr_status orr_step_allocate_reductions(orr_engine_step *step, orr_error *err)
{
    enum { RANGES = 3 }; /* of a bucket: before, within and after the partial sums */
    if (step->source.team == NULL)
        return ORR_OK;
    if (step->tables != NULL)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "tables of embeddings are not trained in a team: "
                        "gradients of their rows are not summed");
    step->sums =
        orr_arena_array(step->arena, orr_step_reduction, (size_t)step->n_buckets * RANGES + 1);
    if (step->sums == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < step->n_buckets; i++) {
        orr_bucket *b = &step->buckets[i];
        if (!b->frozen)
            ORR_TRY(orr_step_allocate(step, (size_t)b->shard_n * sizeof(float),
                                      &step->memory.gradients, &b->summed, err));
    }
    return ORR_OK;
}

/* Runs in the lane that made the numbers. */
static orr_status submit_hook(void *ctx, uint32_t call, orr_error *err)
{
    const orr_step_reduction *sum = ctx;
    const orr_engine_step *step = sum->step;
    (void)call;
    if (step->searches)
        return ORR_OK;
    return step->source.team->reduce(step->source.team->ctx, (uint32_t)(sum - step->sums),
                                     ORR_TEAM_FP32, sum->in, sum->out, sum->n, err);
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a == ORR_NONE ? b : b == ORR_NONE ? a : a > b ? a : b;
}

/* A call that runs only its hook, after all calls that write to the range. */
static void submit_range(orr_step_writer *w, orr_bucket *b, int64_t begin, int64_t end)
{
    orr_engine_step *step = w->step;
    const orr_step_range64 range = orr_step_in_shard(b, begin, end);
    const int64_t n = range.to - range.from, at = range.from - b->shard_begin;
    if (n <= 0 || !orr_step_writer_ok(w))
        return;
    orr_step_reduction *sum = &step->sums[step->n_sums++];
    *sum = (orr_step_reduction){step, orr_step_shard_gradient(step, b) + at, b->summed + at,
                                (size_t)n};
    const orr_type type = orr_step_flat(ORR_DTYPE_FP32, n);
    const orr_value in =
        orr_step_value(w, ORR_VALUE_PARAMETER_GRADIENT, &type, "gradients", (float *)sum->in);
    const uint32_t made = b->sum != ORR_NONE ? w->to->tape.values[b->sum].made_by : ORR_NONE;
    const uint32_t after = later(made, b->last_write);
    orr_step_apply(w, &(orr_step_op){.op = ORR_OP_COPY,
                                     .pass = ORR_PASS_WEIGHT,
                                     .lane = after != ORR_NONE ? w->to->calls.at[after].lane
                                                               : (uint8_t)ORR_LANE_COMPUTE,
                                     .n_in = 1,
                                     .in = {in},
                                     .out = &type,
                                     .data = sum->out,
                                     .name = "gradients"});
    if (!orr_step_writer_ok(w))
        return;
    orr_program_call *how = &w->to->calls.at[orr_step_last(w)];
    how->skip = true;
    how->before = submit_hook;
    how->hook_ctx = sum;
    orr_step_wait(w, orr_step_last(w), made);
    orr_step_wait(w, orr_step_last(w), b->last_write);
}

static bool is_sliced(const orr_engine_step *step, const orr_bucket *b)
{
    return orr_step_members(step, ORR_AXIS_TP) > 1 && b->sliced_end > b->sliced_begin;
}

void orr_step_submit_early(orr_step_writer *w, orr_bucket *b)
{
    if (w->step->source.team == NULL || orr_step_bucket_is_tied(w->step, b))
        return;
    if (!is_sliced(w->step, b)) {
        submit_range(w, b, 0, b->n);
        return;
    }
    submit_range(w, b, 0, b->sliced_begin);
    submit_range(w, b, b->sliced_end, b->n);
}

void orr_step_submit_late(orr_step_writer *w, orr_bucket *b)
{
    if (w->step->source.team == NULL)
        return;
    if (orr_step_bucket_is_tied(w->step, b))
        submit_range(w, b, 0, b->n);
    else if (is_sliced(w->step, b))
        submit_range(w, b, b->sliced_begin, b->sliced_end);
}

/* The last reduction: metrics of the replicas. */
orr_status orr_step_submit_metrics(orr_engine_step *step, const orr_step_metrics *mine,
                                   orr_error *err)
{
    const orr_step_replica_reducer *team = step->source.team;
    return team == NULL ? ORR_OK
                        : team->reduce(team->ctx, step->n_sums, ORR_TEAM_FP64, mine, &step->summed,
                                       sizeof *mine / sizeof(double), err);
}

uint32_t orr_engine_step_reductions(const orr_engine_step *step)
{
    return step->source.team != NULL ? step->n_sums + 1 : 0;
}

orr_status orr_engine_step_contribute_zeros(orr_engine_step *step, orr_error *err)
{
    const orr_step_replica_reducer *team = step->source.team;
    step->begin_ns = 0;
    step->start_ns = step->end_ns = NULL;
    for (uint32_t i = 0; i < step->n_sums; i++)
        ORR_TRY(team->reduce(team->ctx, i, ORR_TEAM_FP32, NULL, step->sums[i].out, step->sums[i].n,
                             err));
    return orr_step_submit_metrics(step, NULL, err);
}

/* Spans are all that an update changes; everything else follows from them. */
orr_status orr_step_list_spans(orr_engine_step *step, orr_error *err)
{
    enum { PARTS = 3 };
    orr_team_span *spans =
        orr_arena_array(step->arena, orr_team_span, (size_t)step->n_buckets * PARTS + 2);
    uint32_t n = 0;
    if (spans == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < step->n_buckets; i++) {
        const orr_bucket *b = &step->buckets[i];
        const size_t bytes = (size_t)b->shard_n * sizeof(float);
        if (b->frozen)
            continue;
        spans[n++] = (orr_team_span){b->master, bytes};
        if (step->source.sgd)
            continue;
        spans[n++] = (orr_team_span){b->m, bytes};
        spans[n++] = (orr_team_span){b->v, bytes};
    }
    step->spans = spans;
    step->n_spans = n;
    return ORR_OK;
}

const orr_team_span *orr_engine_step_state(const orr_engine_step *step, uint32_t *ret_n)
{
    *ret_n = step->n_spans;
    return step->spans;
}
