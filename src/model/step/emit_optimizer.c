/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include "model/memory/memory.h"

/* The end of a step, after the last micro-batch: remaining gradient reductions, the gradient
 * norm, the optimizer, and gathers of weights. */

typedef struct stage_weights {
    int64_t dense, expert, sliced, tied;
} stage_weights;

static void add_chunk(const orr_stage_emitter *l, uint32_t chunk, stage_weights *sum)
{
    const orr_step_job *job = l->job;
    const uint32_t k = orr_schedule_virtual_stage_at(&job->schedule->spec, l->stage, chunk);
    for (uint32_t place = job->map->first[k]; place < job->map->first[k + 1]; place++) {
        const orr_module_weights *w = &job->weights[job->row->module_of[place]];
        sum->dense += w->dense;
        sum->expert += w->expert;
        sum->sliced += w->sliced;
        sum->tied += w->tied;
    }
}

static stage_weights sum_weights(const orr_stage_emitter *l)
{
    stage_weights sum = {0};
    for (uint32_t chunk = 0; chunk < l->job->schedule->spec.chunks; chunk++)
        add_chunk(l, chunk, &sum);
    return sum;
}

/* Parameters whose optimizer states the rank holds. */
static int64_t owned(const orr_stage_emitter *l, const stage_weights *w)
{
    const uint32_t *members = l->job->prices->members;
    if (l->job->plan->zero == 0)
        return w->dense + w->expert;
    const int64_t shards = members[ORR_AXIS_SHARD] > 0 ? members[ORR_AXIS_SHARD] : 1;
    const int64_t same = members[ORR_AXIS_EDP] > 0 ? members[ORR_AXIS_EDP] : 1;
    return w->dense / shards + w->expert / same;
}

/* An all-reduce that computation waits for. */
static void sum_over(orr_stage_emitter *l, uint32_t grouping, int64_t bytes, const orr_price *price)
{
    const orr_emitted_transfer transfer = {.grouping = grouping,
                                           .collective = ORR_COLL_ALL_REDUCE,
                                           .lane = ORR_STEP_DP,
                                           .bytes = bytes,
                                           .price = *price,
                                           .peer = -1,
                                           .ordinal = ORR_NONE};
    orr_stage_emit_wait(l, orr_stage_emit_transfer_in_order(l, &transfer));
}

/* DualPipe: sums the gradients of the mirror stage, which holds the same two parts of the model. */
static void sum_mirrors(orr_stage_emitter *l, const stage_weights *w)
{
    const orr_step_job *job = l->job;
    const orr_plan *plan = job->plan;
    if (job->schedule->spec.schedule != ORR_SCHEDULE_DUALPIPE)
        return;
    const int64_t elements = plan->zero == 0 ? w->dense + w->expert : owned(l, w);
    const int64_t bytes =
        (int64_t)((double)elements * orr_precision_element_bytes(plan->gradients));
    orr_price price = orr_job_rates_collective(job->prices->transfers[ORR_AXIS_PP], &job->mirror,
                                               ORR_COLL_ALL_REDUCE, bytes);
    price.ns = orr_step_jittered_ns(job->prices, price.ns);
    sum_over(l, ORR_STEP_MIRROR, bytes, &price);
}

/* Tied weights: sums the gradients of the embedding (first stage) and the head (last stage). */
static void sum_tied(orr_stage_emitter *l, const stage_weights *w)
{
    const orr_step_job *job = l->job;
    const uint32_t last = job->schedule->spec.stages - 1;
    const bool at_end = l->stage == 0 || l->stage == last;
    if (job->prices->members[ORR_AXIS_TIED] <= 1 || w->tied == 0 || !at_end)
        return;
    const int64_t bytes =
        (int64_t)((double)w->tied * orr_precision_element_bytes(job->plan->gradients));
    const orr_price price =
        orr_step_transfer(job->prices, ORR_AXIS_TIED, ORR_COLL_ALL_REDUCE, bytes);
    sum_over(l, ORR_AXIS_TIED, bytes, &price);
}

/* Gradient reductions where nothing overlaps computation: all at the end. */
static void reduce_late(orr_stage_emitter *l)
{
    const orr_step_job *job = l->job;
    if (job->plan->overlap_dp == ORR_SWITCH_ON || orr_stage_reduces_in_slots(l))
        return;
    for (uint32_t chunk = 0; chunk < job->schedule->spec.chunks; chunk++) {
        stage_weights w = {0};
        add_chunk(l, chunk, &w);
        orr_stage_emit_gradient_reduction(l, &(orr_parameter_elements){w.dense, w.expert}, true);
    }
}

static void wait_for_gradients(orr_stage_emitter *l)
{
    orr_stage_emit_flush(l);
    orr_stage_emit_wait(l, l->last[ORR_STEP_DP]);
    orr_stage_emit_wait(l, l->last[ORR_STEP_REPLICA]);
}

/* The norm of all gradients for clipping: an all-reduce of one number over all ranks. */
static void sum_norm(orr_stage_emitter *l)
{
    if (orr_step_world_size(l->job->plan) > 1)
        sum_over(l, ORR_STEP_WORLD, 4, &l->job->world);
}

/* Work of AdamW: it reads gradient, master weight in fp32 and two moments, and writes the last
 * three and the weight that products use; 14 operations each (Loshchilov and Hutter, ICLR 2019,
 * algorithm 2). */
static orr_work adamw(const orr_plan *plan, int64_t parameters)
{
    const double n = (double)parameters, weight = orr_precision_element_bytes(plan->precision);
    const double states = 4 + (double)orr_moments_bytes(plan);
    return (orr_work){.family = ORR_FAMILY_OPTIMIZER,
                      .dtype = ORR_DTYPE_FP32,
                      .n_dims = 1,
                      .dims = {parameters},
                      .flops = 14 * n,
                      .read_bytes = (orr_precision_element_bytes(plan->gradients) + states) * n,
                      .write_bytes = (states + (weight < 4 ? weight : 0)) * n,
                      .op = "adamw",
                      .kernel = ""};
}

static bool offloads_optimizer(const orr_plan *plan)
{
    return plan->offload == ORR_OFFLOAD_OPTIMIZER || plan->offload == ORR_OFFLOAD_BOTH;
}

orr_node_id orr_stage_emit_host_copy(orr_stage_emitter *l, orr_step_lane lane, int64_t bytes,
                                     orr_waterfall part, orr_node_id after)
{
    const double ns = 1e9 * (double)bytes / l->job->copy_bytes_per_s;
    if (bytes <= 0)
        return ORR_NONE;
    const orr_node_id node = orr_stage_emit_node(l, &(orr_emitted_node){.name = "copy",
                                                                        .kind = ORR_NODE_COPY,
                                                                        .lane = lane,
                                                                        .part = part,
                                                                        .basis = ORR_BASIS_ROOFLINE,
                                                                        .ns = (int64_t)(ns + 0.5)});
    orr_stage_emit_dependency(l, node, after);
    const orr_copy copy = {.bytes = (uint64_t)bytes};
    if (orr_stage_emit_ok(l))
        l->status = orr_builder_copy(l->b, node, &copy, l->err);
    return node;
}

/* Optimizer on the host: gradients are copied there and weights come back (Ren et al.,
 * "ZeRO-Offload", ATC 2021). Assumed: the host keeps up with the link. */
static void update_on_host(orr_stage_emitter *l, int64_t parameters)
{
    const orr_plan *plan = l->job->plan;
    const double n = (double)parameters;
    orr_node_id out = orr_stage_emit_host_copy(
        l, ORR_STEP_OUT, (int64_t)(n * orr_precision_element_bytes(plan->gradients)),
        ORR_WATERFALL_OPTIMIZER, l->last[ORR_STEP_COMPUTE]);
    for (size_t i = 0; i < l->waits.n && out != ORR_NONE; i++)
        orr_stage_emit_dependency(l, out, l->waits.at[i]);
    orr_stage_emit_wait(
        l, orr_stage_emit_host_copy(l, ORR_STEP_IN,
                                    (int64_t)(n * orr_precision_element_bytes(plan->precision)),
                                    ORR_WATERFALL_OPTIMIZER, out));
}

static void update(orr_stage_emitter *l, const stage_weights *w)
{
    const orr_step_prices *prices = l->job->prices;
    const int64_t parameters = owned(l, w);
    if (offloads_optimizer(l->job->plan)) {
        update_on_host(l, parameters);
        return;
    }
    const orr_work work = adamw(l->job->plan, parameters);
    const orr_price price = orr_step_kernel(prices, &work);
    if (price.ns <= 0)
        return;
    l->totals.part_ns[ORR_WATERFALL_OPTIMIZER] += price.ns;
    orr_stage_emit_compute_node(l, "adamw", ORR_WATERFALL_OPTIMIZER, price.ns, price.basis);
}

/* Outer optimizer of local steps: outer parts of dp average their changes, in fp32 or
 * compressed, once in so many steps; each step pays its share. Not overlapped with computation
 * (assumed), though Streaming DiLoCo would (arXiv 2501.18512). The outer optimizer's own pass
 * over memory is left out. Source: Douillard et al., "DiLoCo", arXiv 2311.08105, algorithm 1. */
static void sync_outer(orr_stage_emitter *l, const stage_weights *w)
{
    const orr_step_prices *prices = l->job->prices;
    const uint32_t steps = l->job->plan->local_steps;
    const int64_t bytes = 4 * owned(l, w);
    if (prices->members[ORR_AXIS_OUTER] <= 1 || bytes <= 0)
        return;
    orr_price price = orr_step_transfer(prices, ORR_AXIS_OUTER, ORR_COLL_ALL_REDUCE, bytes);
    price.ns = (price.ns + steps - 1) / steps;
    sum_over(l, ORR_AXIS_OUTER, (bytes + steps - 1) / steps, &price);
}

/* Gathers of weights after the optimizer: at once without overlap; else when the next step needs
 * them. */
static void gather_late(orr_stage_emitter *l, const stage_weights *w)
{
    const orr_plan *plan = l->job->plan;
    if (plan->overlap_dp == ORR_SWITCH_ON || plan->zero == 0 || plan->zero >= 3)
        return;
    const orr_parameter_elements all = {w->dense, w->expert};
    orr_stage_emit_wait(l, orr_stage_emit_weight_gather(l, &all, false));
}

void orr_stage_emit_optimizer(orr_stage_emitter *l)
{
    const orr_step_prices *prices = l->job->prices;
    const orr_calibration *c = prices->kernels->calibration;
    const bool trains = orr_task_trains(l->job->task);
    const int64_t step_ns = orr_step_jittered_ns(prices, (int64_t)c->step_ns);
    l->now = (orr_step_node){.micro_batch = ORR_NONE};
    if (trains) {
        const stage_weights w = sum_weights(l);
        orr_stage_emit_exposed_transfers(l);
        reduce_late(l);
        wait_for_gradients(l);
        orr_stage_emit_blocking_collective(
            l, ORR_AXIS_TP, ORR_COLL_ALL_REDUCE,
            (int64_t)((double)w.sliced * orr_precision_element_bytes(l->job->plan->gradients)));
        orr_stage_emit_flush(l);
        sum_tied(l, &w);
        sum_mirrors(l, &w);
        sum_norm(l);
        update(l, &w);
        sync_outer(l, &w);
        gather_late(l, &w);
    }
    if (step_ns > 0 || l->waits.n > 0) {
        l->totals.part_ns[ORR_WATERFALL_OVERHEAD] += step_ns;
        orr_stage_emit_compute_node(l, "step", ORR_WATERFALL_OVERHEAD, step_ns, c->basis);
    }
    orr_stage_emit_wait_for_fetch(l);
}
