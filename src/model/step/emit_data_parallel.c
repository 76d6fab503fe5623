/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <stdio.h>
#include <string.h>

#include "model/memory/memory.h"

/* Data-parallel transfers of a stage: reductions of gradients and gathers of weights.
 *
 *   ZeRO 0   all-reduce of gradients, once a step, in buckets overlapped with the last backward
 *   ZeRO 1   reduce-scatter instead, and weights are gathered after the optimizer: overlapped
 *            with the next step's first forward pass; as steps repeat, this step pays for its own
 *   ZeRO 2   the same, but gradients are reduced after each micro-batch, or interleaved after
 *            each group of micro-batches of a chunk
 *   ZeRO 3   weights of a module are gathered before it runs, `prefetch` modules ahead, and
 *            freed after it; gradients are reduced after it. With a pipeline they are reduced after
 *            the last micro-batch alone
 *
 * A bucket is one communication node, which starts once the last module of the bucket has run
 * backward. A gather is one node for each axis, and the first node of its module waits for it.
 * Sources: Rajbhandari et al., "ZeRO: Memory Optimizations Toward Training Trillion Parameter
 * Models", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 2023. Replicas of shards (HSDP) reduce
 * theirs once a step. */

static int64_t scaled(int64_t elements, double each)
{
    return (int64_t)((double)elements * each + 0.5);
}

static bool overlaps(const orr_stage_emitter *l)
{
    return l->job->plan->overlap_dp == ORR_SWITCH_ON;
}

bool orr_stage_reduces_in_slots(const orr_stage_emitter *l)
{
    return l->job->plan->zero >= 2;
}

bool orr_stage_gathers_in_slots(const orr_stage_emitter *l)
{
    return l->job->plan->zero >= 3;
}

/* Does the bucket hold enough gradients? Where the plan does not say: Megatron Core's 40
 * million, or a million for each replica if that is more (distributed_data_parallel_config.py). */
bool orr_stage_fills_bucket(const orr_stage_emitter *l, const orr_parameter_elements *gradients)
{
    const orr_plan *plan = l->job->plan;
    const double each = orr_precision_element_bytes(plan->gradients);
    const double usual = plan->dp > 40 ? 1e6 * plan->dp : 40e6;
    const double most = plan->bucket_bytes > 0 ? plan->bucket_bytes : usual * each;
    return (double)(gradients->dense + gradients->expert) * each >= most;
}

/* What computation loses to an overlapped transfer. */
static int64_t exposed_ns(const orr_stage_emitter *l, int64_t transfer_ns)
{
    const double frac = orr_step_exposed_frac(l->job->prices->kernels->calibration);
    return overlaps(l) && frac > 0 ? (int64_t)((double)transfer_ns * frac) : 0;
}

static void add_exposed(orr_stage_emitter *l, uint32_t axis, const orr_price *price)
{
    const int64_t ns = exposed_ns(l, price->ns);
    l->exposed_pending_ns += ns;
    l->exposed_pending_basis = price->basis;
    l->totals.exposed_ns[axis] += ns;
}

void orr_stage_emit_exposed_transfers(orr_stage_emitter *l)
{
    if (l->exposed_pending_ns <= 0)
        return;
    orr_stage_emit_flush(l);
    orr_stage_emit_waterfall_part(l, "beside a transfer", ORR_WATERFALL_DP, l->exposed_pending_ns,
                                  l->exposed_pending_basis);
    l->exposed_pending_ns = 0;
    snprintf(l->title, sizeof l->title, "beside a transfer");
    orr_stage_emit_flush(l);
}

static orr_emitted_transfer transfer_of(const orr_stage_emitter *l, uint32_t axis,
                                        orr_collective collective, int64_t bytes)
{
    return (orr_emitted_transfer){
        .grouping = axis,
        .collective = collective,
        .lane = orr_axis_lane(axis),
        .bytes = bytes,
        .price = orr_step_transfer(l->job->prices, (orr_axis)axis, collective, bytes),
        .peer = -1,
        .ordinal = ORR_NONE};
}

static orr_node_id reduce(orr_stage_emitter *l, uint32_t axis, orr_collective collective,
                          int64_t bytes)
{
    if (l->job->prices->members[axis] <= 1 || bytes <= 0)
        return ORR_NONE;
    const orr_emitted_transfer transfer = transfer_of(l, axis, collective, bytes);
    add_exposed(l, axis, &transfer.price);
    return orr_stage_emit_transfer_in_order(l, &transfer);
}

void orr_stage_emit_gradient_reduction(orr_stage_emitter *l,
                                       const orr_parameter_elements *gradients, bool last)
{
    const orr_plan *plan = l->job->plan;
    const uint32_t shards = l->job->prices->members[ORR_AXIS_SHARD];
    const double each = orr_precision_element_bytes(plan->gradients);
    const int64_t dense = scaled(gradients->dense, each), expert = scaled(gradients->expert, each);
    orr_node_id done[3] = {ORR_NONE, ORR_NONE, ORR_NONE};
    if (plan->zero == 0) {
        done[0] = reduce(l, ORR_AXIS_GRADIENT, ORR_COLL_ALL_REDUCE, dense);
        done[1] = reduce(l, ORR_AXIS_EDP, ORR_COLL_ALL_REDUCE, expert);
    } else {
        done[0] = reduce(l, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER, dense);
        done[1] = reduce(l, ORR_AXIS_EDP, ORR_COLL_REDUCE_SCATTER, expert);
        if (last)
            done[2] =
                reduce(l, ORR_AXIS_REPLICA, ORR_COLL_ALL_REDUCE, dense / (shards > 0 ? shards : 1));
        if (done[2] != ORR_NONE)
            orr_stage_emit_dependency(l, done[2], done[0]);
    }
    for (int i = 0; i < 3 && !overlaps(l); i++)
        orr_stage_emit_wait(l, done[i]);
}

/* The transfers that gather weights, one for each axis; returns how many. */
static uint32_t gathers_of(const orr_stage_emitter *l, const orr_parameter_elements *weights,
                           orr_emitted_transfer ret[2])
{
    const struct {
        uint32_t axis;
        int64_t elements;
    } parts[] = {{ORR_AXIS_SHARD, weights->dense}, {ORR_AXIS_EDP, weights->expert}};
    const double each = orr_plan_gathered_element_bytes(l->job->plan);
    uint32_t n = 0;
    for (int i = 0; i < 2; i++)
        if (l->job->prices->members[parts[i].axis] > 1 && parts[i].elements > 0)
            ret[n++] =
                transfer_of(l, parts[i].axis, ORR_COLL_ALL_GATHER, scaled(parts[i].elements, each));
    return n;
}

orr_node_id orr_stage_emit_weight_gather(orr_stage_emitter *l,
                                         const orr_parameter_elements *weights, bool at_once)
{
    orr_emitted_transfer transfers[2];
    orr_node_id last = ORR_NONE;
    const uint32_t n = gathers_of(l, weights, transfers);
    for (uint32_t i = 0; i < n; i++)
        last = at_once ? orr_stage_emit_transfer(l, &transfers[i], ORR_NONE)
                       : orr_stage_emit_transfer_in_order(l, &transfers[i]);
    return last;
}

void orr_stage_emit_wait_for_gather(orr_stage_emitter *l, const orr_parameter_elements *weights,
                                    orr_node_id gather)
{
    orr_emitted_transfer transfers[2];
    if (gather == ORR_NONE)
        return;
    orr_stage_emit_flush(l);
    orr_stage_emit_wait(l, gather);
    const uint32_t n = gathers_of(l, weights, transfers);
    for (uint32_t i = 0; i < n; i++)
        add_exposed(l, transfers[i].grouping, &transfers[i].price);
}

/* Groups places of a virtual stage, from last to first, into gathers: weights are gathered
 * together whose gradients are reduced together. */
static void gather_chunk(orr_stage_emitter *l, uint32_t first, uint32_t end)
{
    const orr_module_weights *weights = l->job->weights;
    orr_parameter_elements bucket = {0};
    uint32_t n = 0;
    for (uint32_t place = end; place-- > first;) { /* `heads` holds at each bucket's first place
                                                    * what it gathers */
        const orr_module_weights *w = &weights[l->job->row->module_of[place]];
        bucket.dense += w->dense;
        bucket.expert += w->expert;
        if (place > first && !orr_stage_fills_bucket(l, &bucket))
            continue;
        l->heads[place] = bucket;
        bucket = (orr_parameter_elements){0};
        n++;
    }
    for (uint32_t place = first; place < end && n > 0; place++)
        if (l->heads[place].dense > 0 || l->heads[place].expert > 0)
            l->gather_of[place] = orr_stage_emit_weight_gather(l, &l->heads[place], true);
}

void orr_stage_emit_initial_gathers(orr_stage_emitter *l)
{
    const orr_step_job *job = l->job;
    const uint32_t n = job->row->n;
    l->gather_of = orr_arena_array(l->scratch, orr_node_id, n);
    l->heads = orr_arena_array(l->scratch, orr_parameter_elements, n);
    if (l->gather_of == NULL || l->heads == NULL) {
        l->status = orr_fail_memory(l->err);
        return;
    }
    memset(l->gather_of, 0xff, n * sizeof *l->gather_of);
    if (!orr_task_trains(job->task) || job->plan->zero == 0 || job->plan->zero >= 3 || !overlaps(l))
        return;
    l->now = (orr_step_node){.micro_batch = ORR_NONE};
    const orr_schedule_plan *schedule = job->schedule;
    for (uint32_t i = schedule->first[l->stage]; i < schedule->first[l->stage + 1]; i++) {
        const uint32_t chunk = schedule->slots[i].chunk;
        const uint32_t k = orr_schedule_virtual_stage_at(&schedule->spec, l->stage, chunk);
        if (l->chunks[chunk].first_forward == i)
            gather_chunk(l, job->map->first[k], job->map->first[k + 1]);
    }
}
