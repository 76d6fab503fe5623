/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/cost.h>
#include <orrery/model.h>

#include "model/plan/plan.h"
#include "model/schedule/schedule.h"

/* Default values of a plan's fields, from those that are given. */

static uint32_t or_else(uint32_t value, uint32_t otherwise)
{
    return value != 0 ? value : otherwise;
}

static uint8_t choose(uint8_t value, uint8_t otherwise)
{
    return value != 0 ? value : otherwise;
}

/* The quotient if it is whole and above 0, else 0: then no default follows, and orr_plan_check()
 * reports the contradiction. */
static uint32_t share(uint64_t what, uint64_t by)
{
    return by > 0 && what % by == 0 && what / by <= UINT32_MAX ? (uint32_t)(what / by) : 0;
}

/* Completes batch = dp x micro_batch x micro_batches from any that are given. Without
 * micro-batches a pipeline gets none by default: there is no number that is right for all. */
static void complete_batch(orr_plan *p)
{
    if (orr_plan_has_site_micro_batches(p)) {
        const uint64_t n = orr_plan_step_micro_batches(p);
        p->micro_batches = or_else(p->micro_batches, orr_plan_most_micro_batches(p));
        p->micro_batch = or_else(p->micro_batch, or_else(share(p->batch, n), 1));
        p->batch = or_else(p->batch, share(n * p->micro_batch, 1));
        return;
    }
    if (p->micro_batch == 0 && p->batch > 0 && p->micro_batches > 0)
        p->micro_batch = share(p->batch, (uint64_t)p->dp * p->micro_batches);
    p->micro_batch = or_else(p->micro_batch, 1);
    if (p->micro_batches == 0 && p->batch > 0)
        p->micro_batches = share(p->batch, (uint64_t)p->dp * p->micro_batch);
    if (p->micro_batches == 0 && p->batch == 0 && p->pp == 1)
        p->micro_batches = 1;
    if (p->batch == 0)
        p->batch = share((uint64_t)p->dp * p->micro_batch * p->micro_batches, 1);
}

static void complete_pipeline(orr_plan *p)
{
    p->schedule = choose(p->schedule, p->vp > 1 ? ORR_SCHEDULE_INTERLEAVED : ORR_SCHEDULE_1F1B);
    const bool folded = p->schedule == ORR_SCHEDULE_ZB_V || p->schedule == ORR_SCHEDULE_DUALPIPE;
    p->vp = or_else(p->vp, folded ? 2 : 1);
    if (p->schedule == ORR_SCHEDULE_INTERLEAVED && p->group == 0)
        p->group = orr_schedule_smallest_group(p->pp, p->micro_batches);
}

static void complete_sharding(orr_plan *p)
{
    if (p->zero == ORR_ZERO_NONE)
        p->zero = 0;
    if (p->zero == 0)
        return;
    p->shards = or_else(p->shards, share((uint64_t)orr_plan_synchronous_replicas(p) * p->cp, 1));
    if (p->zero == 3)
        p->prefetch = or_else(p->prefetch, 1);
}

static void complete_choices(orr_plan *p)
{
    p->recompute = choose(p->recompute, p->recompute_layers > 0    ? ORR_RECOMPUTE_BLOCK
                                        : p->recompute_modules > 0 ? ORR_RECOMPUTE_SOME
                                                                   : ORR_RECOMPUTE_NONE);
    p->precision = choose(p->precision, ORR_PRECISION_BF16);
    p->gradients = choose(p->gradients, p->zero == 3 ? ORR_PRECISION_BF16 : ORR_PRECISION_FP32);
    p->sp = choose(p->sp, ORR_SWITCH_ON);
    p->cp_kind = choose(p->cp_kind, ORR_CONTEXT_RING);
    p->overlap_dp = choose(p->overlap_dp, ORR_SWITCH_ON);
    p->overlap_tp = choose(p->overlap_tp, ORR_SWITCH_OFF);
    p->overlap_pp = choose(p->overlap_pp, ORR_SWITCH_ON);
    p->overlap_ep = choose(p->overlap_ep, ORR_SWITCH_OFF);
    p->reshard = choose(p->reshard, p->zero == 3 && p->pp > 1 ? ORR_SWITCH_OFF : ORR_SWITCH_ON);
    p->dispatcher = choose(p->dispatcher, ORR_DISPATCHER_FLEX);
    p->pad_experts = choose(p->pad_experts, ORR_SWITCH_OFF);
    p->flash = choose(p->flash, ORR_SWITCH_ON);
    p->fusion = choose(p->fusion, ORR_SWITCH_ON);
    p->graphs = choose(p->graphs, ORR_SWITCH_OFF);
    p->offload = choose(p->offload, ORR_OFFLOAD_NONE);
}

/* The usual order of axes, but the axis that crosses site links becomes the outermost. */
static void complete_order(orr_plan *p)
{
    const uint8_t last = p->cross == ORR_CROSS_DP   ? ORR_AXIS_DP
                         : p->cross == ORR_CROSS_PP ? ORR_AXIS_PP
                                                    : ORR_AXIS_NONE;
    uint32_t n = 0;
    if (orr_plan_has_order(p))
        return;
    for (uint8_t axis = 0; axis < ORR_BASE_AXES; axis++)
        if (axis != last)
            p->order[n++] = (uint8_t)(axis + 1);
    if (n < ORR_BASE_AXES)
        p->order[n] = (uint8_t)(last + 1);
}

/* With local steps, outer parts of dp (which train independently between averages) are as large
 * as they can be without a site link inside. */
static void complete_outer(orr_plan *p)
{
    uint32_t replicas = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && p->cross == ORR_CROSS_DP; i++)
        replicas = (uint32_t)orr_gcd(p->sites[i], replicas);
    if (p->dp_outer == 0 && p->local_steps > 1)
        p->dp_outer = share(p->dp, replicas);
}

static void complete_crossing(orr_plan *p)
{
    if (orr_plan_has_sites(p))
        p->cross = choose(p->cross, ORR_CROSS_DP);
    complete_outer(p);
    complete_order(p);
    if (p->dp_chunks > 1)
        p->dp_algorithm = choose(p->dp_algorithm, ORR_ALGORITHM_HIERARCHICAL);
}

/* Where nothing accumulates gradients, all samples of a replica are one micro-batch: serving
 * engines and the training of recommendation and vision models do so. A pipeline gets as many
 * micro-batches as fill it when tokens are decoded, since each reads all weights; else four times
 * as many, from where on its bubble is small (GPipe, Huang et al. 2019, section 2.3). */
static void fill_micro_batches(orr_plan *p, bool decodes)
{
    const uint32_t samples = share(p->batch, orr_plan_degree(p->dp));
    const uint32_t stages = orr_plan_degree(p->pp);
    uint32_t n = stages == 1 || decodes ? stages : 4 * stages;
    if (p->micro_batch > 0 || p->micro_batches > 0 || samples == 0)
        return;
    while (samples % n != 0)
        n--;
    p->micro_batches = n;
}

/* Serving engines spread the experts over all ranks of a stage and slice them only where more ranks
 * than experts' groups are left (vLLM, SGLang). */
static void fit_expert_slices(orr_plan *p)
{
    const uint64_t tp = orr_plan_degree(p->tp);
    const uint64_t ranks = tp * orr_plan_degree(p->cp) * orr_plan_degree(p->dp);
    if (p->etp > 0 || p->ep <= 1 || ranks % p->ep != 0 || ranks % (p->ep * tp) == 0)
        return;
    p->etp = (uint32_t)orr_gcd((int64_t)tp, (int64_t)(ranks / p->ep));
}

orr_plan orr_plan_with_job_defaults(const orr_plan *plan, const orr_model *model, uint8_t task,
                                    const orr_cluster *cluster)
{
    const bool serves = task == ORR_TASK_PREFILL || task == ORR_TASK_DECODE;
    if (!serves && model->kind == ORR_MODEL_TRANSFORMER && cluster->n_sites < 2)
        return orr_plan_with_defaults(plan);
    orr_plan p = *plan;
    if (serves || model->kind != ORR_MODEL_TRANSFORMER)
        fill_micro_batches(&p, task == ORR_TASK_DECODE);
    if (serves)
        fit_expert_slices(&p);
    /* Decoding is launched as CUDA graphs: the kernels of one token are too short to be launched
     * one by one. */
    if (task == ORR_TASK_DECODE)
        p.graphs = choose(p.graphs, ORR_SWITCH_ON);
    if (cluster->n_sites > 1 && orr_plan_ranks(&p) > cluster->sites[0].devices)
        p.cross = choose(p.cross, orr_plan_has_order(&p) ? ORR_CROSS_UNKNOWN : ORR_CROSS_DP);
    return orr_plan_with_defaults(&p);
}

orr_plan orr_plan_with_defaults(const orr_plan *plan)
{
    orr_plan p = *plan;
    p.dp = or_else(p.dp, 1);
    p.tp = or_else(p.tp, 1);
    p.pp = or_else(p.pp, 1);
    p.cp = or_else(p.cp, 1);
    p.ep = or_else(p.ep, 1);
    p.etp = or_else(p.etp, p.tp);
    complete_crossing(&p);
    complete_batch(&p);
    complete_pipeline(&p);
    complete_sharding(&p);
    complete_choices(&p);
    return p;
}
