/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/multi_pass.h"

#include <math.h>
#include <string.h>
#include <stdlib.h>

#include "model/memory/memory.h"
#include "model/plan/groups.h"
#include "model/plan/plan.h"

/* What a task of several passes does, as published.
 *
 * DPO (Rafailov et al., arXiv 2305.18290, section 4; Llama 3, arXiv 2407.21783, section 4.1.4):
 * pairs of a chosen and a rejected answer; the log probabilities of both under a frozen reference,
 * one pass forward, then a training step on both. The two answers of a sample go through in one
 * micro-batch.
 *
 * RL (Llama 2, arXiv 2307.09288, section 3.2.3: PPO with R = R_c - beta KL(pi | pi_0), one
 * gradient step a mini-batch): the policy generates, a reward model and the reference score
 * what it wrote, one pass forward each, then a training step. Weights that FSDP shards are
 * gathered once before generation, with the pass over the prompts: generation from shards is
 * about twenty times slower (same section). */
typedef struct pass {
    const char *name;
    orr_plan plan;
    orr_workload workload;
    uint32_t count; /* how many times in sequence */
} pass;
enum { PASSES_MAX = sizeof((orr_outcome *)0)->phases / sizeof *((orr_outcome *)0)->phases };
typedef struct passes {
    pass all[PASSES_MAX];
    uint32_t n;
} passes;

bool orr_task_is_multi_pass(uint8_t task)
{
    return task == ORR_TASK_DPO || task == ORR_TASK_RL;
}

static uint32_t tokens_of(const orr_model *model, const orr_plan *plan, uint32_t asked)
{
    if (asked > 0)
        return asked;
    if (plan->seq > 0)
        return plan->seq;
    return model->context < 8192 ? model->context : 8192;
}

static void add_pass(passes *p, const char *name, orr_task task, const orr_plan *plan,
                     const orr_workload *workload, uint32_t seq, uint32_t count)
{
    pass *next = &p->all[p->n++];
    *next = (pass){.name = name, .plan = *plan, .workload = *workload, .count = count};
    next->plan.seq = seq;
    next->workload.task = (uint8_t)task;
    next->workload.seq = seq;
    next->workload.prompt = seq;
    next->workload.generated = 0;
}

static void pass_dpo(passes *p, const orr_model *model, const orr_plan *plan,
                     const orr_workload *workload)
{
    const uint32_t seq = tokens_of(model, plan, workload->seq);
    const orr_plan pairs = orr_plan_with_dpo_pairs(plan);
    add_pass(p, "reference", ORR_TASK_PREFILL, &pairs, workload, seq, 1);
    add_pass(p, "update", ORR_TASK_PRETRAIN, &pairs, workload, seq, 1);
}

/* All samples of a replica are generated together, in as many micro-batches as there are stages.
 * One token has no context to slice, so context slices take samples of their own. */
static orr_plan for_generation(const orr_plan *plan)
{
    orr_plan p = *plan;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && plan->cross == ORR_CROSS_DP; i++)
        p.sites[i] = (uint16_t)(plan->sites[i] * plan->cp);
    const uint32_t samples = (plan->micro_batch * plan->micro_batches + plan->cp - 1) / plan->cp;
    p.dp *= plan->cp;
    p.cp = 1;
    p.micro_batches = samples % plan->pp == 0 ? plan->pp : 1;
    p.micro_batch = samples / p.micro_batches;
    p.batch = p.dp * samples;
    p.schedule = ORR_SCHEDULE_1F1B;
    p.vp = 1;
    p.group = 0;
    return p;
}

static void pass_rl(passes *p, const orr_model *model, const orr_plan *plan,
                    const orr_workload *workload)
{
    const uint32_t prompt = tokens_of(model, plan, workload->prompt),
                   seq = prompt + workload->generated;
    const orr_plan prompts = for_generation(plan);
    orr_plan whole = prompts;
    whole.graphs = ORR_SWITCH_ON; /* as for DECODE alone */
    if (whole.zero == 3) {
        whole.zero = 0;
        whole.shards = whole.prefetch = 0;
    }
    add_pass(p, "prompt", ORR_TASK_PREFILL, &prompts, workload, prompt, 1);
    /* The time of a token grows linearly with the tokens before it: the middle one is the mean. */
    if (workload->generated > 0)
        add_pass(p, "generation", ORR_TASK_DECODE, &whole, workload,
                 prompt + workload->generated / 2, workload->generated);
    add_pass(p, "reference", ORR_TASK_PREFILL, plan, workload, seq, 1);
    add_pass(p, "reward", ORR_TASK_PREFILL, plan, workload, seq, 1);
    add_pass(p, "update", ORR_TASK_PRETRAIN, plan, workload, seq, 1);
}

static void add_axes(orr_axis_use *axes, uint32_t *n, const orr_outcome *part, uint32_t count)
{
    for (uint32_t i = 0; i < part->n_axes; i++) {
        const orr_axis_use *use = &part->axes[i];
        uint32_t k = 0;
        while (k < *n && axes[k].axis != use->axis)
            k++;
        if (k == *n) {
            axes[k] =
                (orr_axis_use){.axis = use->axis, .members = use->members, .level = use->level};
            (*n)++;
        }
        axes[k].bytes += use->bytes * count;
        axes[k].busy_ns += use->busy_ns * count;
        axes[k].exposed_ns += use->exposed_ns * count;
        axes[k].utilisation_frac += use->utilisation_frac * (double)part->step_ns * count;
    }
}

static void add_cuts(orr_site_link_use *cuts, uint32_t *n, const orr_outcome *part, uint32_t count)
{
    for (uint32_t i = 0; i < part->n_cuts; i++) {
        const orr_site_link_use *use = &part->cuts[i];
        uint32_t k = 0;
        while (k < *n && (cuts[k].a != use->a || cuts[k].b != use->b || cuts[k].axis != use->axis))
            k++;
        if (k == *n)
            cuts[(*n)++] = (orr_site_link_use){.a = use->a, .b = use->b, .axis = use->axis};
        cuts[k].bytes += use->bytes * count;
        cuts[k].busy_ns += use->busy_ns * count;
        cuts[k].exposed_ns += use->exposed_ns * count;
        cuts[k].utilisation_frac += use->utilisation_frac * (double)part->step_ns * count;
    }
}

static int by_cut(const void *a_, const void *b_)
{
    const orr_site_link_use *a = a_, *b = b_;
    const uint32_t x = a->a * ORR_SITES_MAX + a->b, y = b->a * ORR_SITES_MAX + b->b;
    return x != y ? (x > y) - (x < y) : (a->axis > b->axis) - (a->axis < b->axis);
}

/* Shares and rates are weighted by the time of the pass, and divided by the total at the end. */
static void add_part(orr_outcome *sum, const orr_outcome *part, const pass *p)
{
    const double n = p->count, ns = (double)part->step_ns * n;
    sum->phases[sum->n_phases].name = p->name;
    sum->phases[sum->n_phases++].ns = part->step_ns * p->count;
    sum->step_ns += part->step_ns * p->count;
    sum->low_ns = sum->low_ns < 0 || part->low_ns < 0 ? -1 : sum->low_ns + part->low_ns * p->count;
    sum->high_ns =
        sum->high_ns < 0 || part->high_ns < 0 ? -1 : sum->high_ns + part->high_ns * p->count;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        sum->waterfall_ns[i] += part->waterfall_ns[i] * p->count;
    for (int i = 0; i < ORR_BASES; i++)
        sum->basis_ns[i] += part->basis_ns[i] * p->count;
    if (part->expert_slots > 0) { /* the same in each pass, or of the last */
        sum->expert_slots = part->expert_slots;
        memcpy(sum->expert_imbalance, part->expert_imbalance, sizeof sum->expert_imbalance);
    }
    sum->model_flops += part->model_flops * n;
    sum->hardware_flops += part->hardware_flops * n;
    sum->energy_j += part->energy_j * n;
    sum->error_frac += part->error_frac * ns;
    sum->bubble_frac += part->bubble_frac * ns;
    sum->mfu_frac += part->mfu_frac * ns;
    sum->hfu_frac += part->hfu_frac * ns;
    sum->flops_per_s_per_device += part->flops_per_s_per_device * ns;
}

static void weigh(orr_outcome *sum, double samples, double tokens)
{
    orr_axis_use *axes = (orr_axis_use *)(uintptr_t)sum->axes;
    orr_site_link_use *cuts = (orr_site_link_use *)(uintptr_t)sum->cuts;
    const double ns = sum->step_ns > 0 ? (double)sum->step_ns : 1;
    sum->error_frac /= ns;
    sum->bubble_frac /= ns;
    sum->mfu_frac /= ns;
    sum->hfu_frac /= ns;
    sum->flops_per_s_per_device /= ns;
    sum->samples_per_s = samples * 1e9 / ns;
    sum->tokens_per_s = tokens * 1e9 / ns;
    sum->tokens_per_s_per_device = sum->tokens_per_s / (sum->n_ranks > 0 ? sum->n_ranks : 1);
    for (uint32_t i = 0; i < sum->n_axes; i++)
        axes[i].utilisation_frac /= ns;
    for (uint32_t i = 0; i < sum->n_cuts; i++)
        cuts[i].utilisation_frac /= ns;
    qsort(cuts, sum->n_cuts, sizeof *cuts, by_cut);
}

/* Takes over the graphs and timeline of the pass that is shown. */
static void move_graphs(orr_outcome *sum, orr_outcome *part)
{
    sum->ensemble = part->ensemble;
    sum->simulation = part->simulation;
    sum->nodes = part->nodes;
    sum->stage_of_graph = part->stage_of_graph;
    sum->n_nodes = part->n_nodes;
    sum->job = part->job;
}

static orr_status run_passes(const passes *p, const orr_model *model, const orr_cluster *cluster,
                             const orr_job_options *options, orr_arena *arena, orr_outcome *sum,
                             orr_error *err)
{
    orr_axis_use *axes = orr_arena_array(arena, orr_axis_use, ORR_AXES);
    orr_site_link_use *cuts =
        orr_arena_array(arena, orr_site_link_use, (size_t)ORR_SITE_LINKS_MAX * ORR_AXES);
    if (axes == NULL || cuts == NULL)
        return orr_fail_memory(err);
    sum->axes = axes;
    sum->cuts = cuts;
    for (uint32_t i = 0; i < p->n; i++) {
        orr_job_options one = *options;
        orr_outcome part;
        one.workload = p->all[i].workload;
        ORR_TRY(orr_outcome_of(model, &p->all[i].plan, cluster, &one, arena, &part, err));
        add_part(sum, &part, &p->all[i]);
        add_axes(axes, &sum->n_axes, &part, p->all[i].count);
        add_cuts(cuts, &sum->n_cuts, &part, p->all[i].count);
        sum->model = part.model;
        sum->cluster = part.cluster;
        sum->n_ranks = part.n_ranks;
        if (i + 1 < p->n)
            orr_outcome_free(&part);
        else
            move_graphs(sum, &part);
    }
    return ORR_OK;
}

/* The device with the least memory among the sites of the plan. */
static orr_status smallest_device(const orr_plan *plan, const orr_cluster *cluster,
                                  orr_arena *arena, const orr_device **ret, orr_error *err)
{
    const orr_device *const *devices;
    uint32_t least = 0;
    ORR_TRY(orr_plan_cluster(plan, cluster, arena, &cluster, err));
    ORR_TRY(orr_stage_devices(plan, cluster, arena, &devices, err));
    for (uint32_t s = 1; s < plan->pp; s++)
        if (orr_usable_bytes(devices[s]) < orr_usable_bytes(devices[least]))
            least = s;
    *ret = devices[least];
    return ORR_OK;
}

orr_status orr_multi_pass_outcome_of(const orr_model *model, const orr_plan *plan,
                                     const orr_cluster *cluster, const orr_job_options *options,
                                     orr_arena *arena, orr_outcome *ret, orr_error *err)
{
    const orr_workload *workload = &options->workload;
    orr_outcome sum = {.plan = orr_plan_with_job_defaults(plan, model, workload->task, cluster),
                       .workload = *workload};
    const orr_device *device;
    passes p = {.n = 0};
    if (!orr_task_is_multi_pass(workload->task))
        return orr_fail(err, ORR_INVALID, "%s is one pass, not several",
                        orr_task_name((orr_task)workload->task));
    ORR_TRY(orr_plan_check(&sum.plan, err));
    if (workload->task == ORR_TASK_DPO)
        pass_dpo(&p, model, &sum.plan, workload);
    else
        pass_rl(&p, model, &sum.plan, workload);
    ORR_TRY(smallest_device(&sum.plan, cluster, arena, &device, err));
    ORR_TRY(orr_memory_plan_make(model, &sum.plan, workload, device, arena, &sum.memory, err));
    ORR_TRY(run_passes(&p, model, cluster, options, arena, &sum, err));
    const pass *update = &p.all[p.n - 1];
    const double samples = (double)sum.plan.dp * sum.plan.micro_batch * sum.plan.micro_batches;
    const double sequences =
        (double)update->plan.dp * update->plan.micro_batch * update->plan.micro_batches;
    weigh(&sum, samples, sequences * update->plan.seq);
    *ret = sum;
    return ORR_OK;
}
