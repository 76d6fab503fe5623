/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* The production rule: how large training runs were configured, by rule instead of search. */

enum { HOST_SLICES = 8, USUAL_STAGES = 16, USUAL_EXPERT_RANKS = 64, PARTS = 8, TRIED = 8 };

static uint32_t slices_of_host(const orr_baseline_planner *r)
{
    uint32_t tp = 1;
    if (r->given.tp > 0)
        return r->given.tp;
    while (2 * tp <= r->host_devices && 2 * tp <= HOST_SLICES && r->model->heads % (2 * tp) == 0)
        tp *= 2;
    return tp;
}

static void set_experts(const orr_baseline_planner *r, orr_plan *plan)
{
    const uint32_t experts = r->model->moe.experts;
    if (r->given.ep == 0 && experts > 0) {
        plan->ep = experts < USUAL_EXPERT_RANKS ? experts : USUAL_EXPERT_RANKS;
        while (experts % plan->ep != 0)
            plan->ep--;
    }
    if (plan->ep > 1 && r->given.etp == 0)
        plan->etp = 1;
}

static void set_order(const orr_baseline_planner *r, orr_plan *plan)
{
    static const uint8_t outward[] = {ORR_AXIS_TP + 1, ORR_AXIS_CP + 1, ORR_AXIS_PP + 1,
                                      ORR_AXIS_DP + 1};
    const bool near_experts =
        plan->ep > 1 && r->n_sites == 1; /* the ranks of an expert group are neighbours */
    for (uint32_t i = 0; i < ORR_BASE_AXES && r->given.order[0] == 0 && !near_experts; i++)
        plan->order[i] = outward[i];
}

/* --- Llama 3 ----------------------------------------------------------------------------- */

static uint32_t most_chunks(const orr_baseline_planner *r, uint32_t pp)
{
    return pp > 1 ? (r->layers + 2) / pp : 1; /* embedding and head may be a chunk each */
}

/* Sets the recomputed layers to so many eighths of a chunk's layers. False: not a whole number. */
static bool set_recompute(const orr_baseline_planner *r, orr_plan *plan, uint32_t chunks,
                          uint32_t eighths)
{
    const uint64_t parts = (uint64_t)plan->pp * chunks;
    const uint32_t layers = (uint32_t)((r->layers + parts - 1) / parts);
    const bool given = r->given.recompute != 0 || r->given.recompute_layers > 0;
    if (given)
        return eighths == 0;
    plan->recompute = eighths == 0       ? ORR_RECOMPUTE_NONE
                      : eighths == PARTS ? ORR_RECOMPUTE_FULL
                                         : ORR_RECOMPUTE_BLOCK;
    plan->recompute_layers = eighths < PARTS ? layers * eighths / PARTS : 0;
    return layers * eighths % PARTS == 0;
}

/* 1F1B by layers, hops and gradients, as the other baselines see it. Chunks are no part of it: of
 * plans that differ in them the first, with the most, is taken. */
static double project_unaided(const orr_baseline_planner *r, const orr_plan *plan)
{
    static const orr_baseline_network_view ALL = {.cuts = true, .latency = true, .levels = true};
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    if (plan->pp > ORR_BASELINE_MAX_STAGES)
        return INFINITY;
    orr_baseline_stages_of(r, plan, stages);
    return orr_baseline_step_ns(r, plan, stages, &ALL);
}

/* Llama 3's planners had a memory estimator and a performance projection, which are not published:
 * Orrery's estimator stands for both, or (unaided) the baselines' cost model for the second. */
static orr_status add_projected(orr_baseline_planner *r, const orr_plan *plan, orr_error *err)
{
    orr_explored projected;
    bool fits;
    ORR_TRY(orr_baseline_fits(r, plan, &fits, err));
    if (!fits || !orr_baseline_allows(r, plan))
        return ORR_OK;
    if (r->options->unaided)
        return orr_baseline_add_candidate(r, plan, project_unaided(r, plan), err);
    ORR_TRY(orr_evaluator_estimate(r->evaluator, plan, &projected, err));
    return orr_baseline_add_candidate(r, plan, (double)projected.estimate_ns, err);
}

static orr_status offer_again(orr_baseline_planner *r, orr_plan plan, uint32_t chunks,
                              uint32_t most_eighths, orr_error *err)
{
    for (uint32_t eighths = 0; eighths <= most_eighths; eighths++)
        if (set_recompute(r, &plan, chunks, eighths))
            ORR_TRY(add_projected(r, &plan, err));
    return ORR_OK;
}

/* What is tuned by hand once the degrees are set: gradients whole or sharded, chunks,
 * recomputation; with experts also DualPipe, which hides their transfers. */
static orr_status add_settings(orr_baseline_planner *r, orr_plan plan, uint32_t most_eighths,
                               orr_error *err)
{
    const uint32_t chunks = most_chunks(r, plan.pp), given = r->given.zero;
    if (!orr_baseline_assign_replicas(r, &plan))
        return ORR_OK;
    set_order(r, &plan);
    for (plan.zero = orr_baseline_default_zero(r); plan.zero <= 2 || plan.zero == given;
         plan.zero++) {
        orr_plan pair = plan;
        for (uint32_t vp = chunks; vp > 0; vp /= 2) {
            plan.vp = r->given.vp > 0 ? r->given.vp : vp;
            ORR_TRY(offer_again(r, plan, plan.vp, most_eighths, err));
        }
        if (plan.ep <= 1 || plan.pp == 1 || r->given.schedule != 0 || r->given.vp > 0)
            continue;
        pair.schedule = ORR_SCHEDULE_DUALPIPE;
        ORR_TRY(offer_again(r, pair, 1, most_eighths, err));
    }
    return ORR_OK;
}

/* The fewest stages that keep all activations; if none do, 16, or as many as memory needs. */
static orr_status add_pipelines(orr_baseline_planner *r, orr_plan plan, orr_error *err)
{
    const uint32_t given = r->given.pp, most = r->layers < USUAL_STAGES ? r->layers : USUAL_STAGES;
    const size_t before = r->candidates.n;
    uint32_t stages = given > 0 ? given : 1;
    for (; given == 0 && stages < most; stages *= 2) {
        plan.pp = stages;
        ORR_TRY(add_settings(r, plan, 0, err));
        if (r->candidates.n > before)
            break;
    }
    r->candidates.n = before; /* once more with all settings */
    for (plan.pp = stages; plan.pp <= r->layers; plan.pp *= 2) {
        ORR_TRY(add_settings(r, plan, PARTS, err));
        if (r->candidates.n > before || given > 0)
            break;
    }
    return ORR_OK;
}

/* The best candidates are tried on the machine; the simulator stands for it. */
static orr_status simulate_best(orr_baseline_planner *r, orr_error *err)
{
    uint32_t tried = 0;
    orr_baseline_sort_candidates(r);
    for (size_t i = 0; i < r->candidates.n; i++) {
        orr_baseline_candidate *candidate = &r->candidates.at[i];
        orr_explored judged;
        bool fits = false;
        if (tried < TRIED)
            ORR_TRY(orr_baseline_evaluate(r, &candidate->plan, &fits, &judged, err));
        candidate->step_ns = fits ? (double)judged.step_ns : INFINITY;
        tried += fits;
    }
    return ORR_OK;
}

/* Llama 3 (arXiv 2407.21783, section 3.3.2): axes in the order TP, CP, PP, DP, the one that needs
 * the network most innermost: TP within the host, CP where the sequence needs it, PP as memory
 * needs, DP outermost and so across buildings; interleaved 1F1B; optimizer states sharded, and
 * gradients where that pays; one sample a micro-batch. Experts, which Llama 3 has not, are as in
 * DeepSeek-V3 (arXiv 2412.19437): 64 ranks, no TP, and DualPipe where that is faster. Left out:
 * uneven first and last stages, tuning of collectives for each group. */
orr_status orr_baseline_production(orr_baseline_planner *r, orr_error *err)
{
    orr_plan plan = r->given;
    plan.cp = orr_baseline_context_degree(r);
    plan.micro_batch = r->given.micro_batch > 0 ? r->given.micro_batch : 1;
    set_experts(r, &plan);
    plan.tp = slices_of_host(r);
    ORR_TRY(add_pipelines(r, plan, err));
    if (plan.ep > 1 && plan.tp > 1 && r->given.tp == 0) {
        plan.tp = 1;
        ORR_TRY(add_pipelines(r, plan, err));
    }
    return r->options->unaided ? ORR_OK : simulate_best(r, err);
}

/* --- FSDP -------------------------------------------------------------------------------- */

static uint32_t idle_devices(const orr_baseline_planner *r, const orr_plan *plan)
{
    uint32_t all = 0;
    for (uint32_t s = 0; s < r->n_sites; s++)
        all += r->sites[s].devices;
    return all - (uint32_t)orr_plan_ranks(plan);
}

/* In this order: few idle devices, few slices, few experts to a rank, no recomputation, few
 * micro-batches (weights are gathered for each). */
static orr_status visit_fsdp(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    static const uint32_t contexts[] = {1, 2, 4, 8, 16};
    for (uint32_t i = 0; i < sizeof contexts / sizeof *contexts; i++) {
        orr_plan plan = *visited;
        plan.zero = 3;
        plan.cp = contexts[i] > plan.cp ? contexts[i] : plan.cp;
        if (plan.pp != 1 || r->seq % plan.cp != 0 || !orr_baseline_assign_replicas(r, &plan))
            continue;
        const double slices = (double)plan.tp * plan.cp + 0.5 * (plan.cp > 1);
        const double m = (double)r->batch / plan.dp / plan.micro_batch;
        ORR_TRY(orr_baseline_add_candidate(r, &plan,
                                           1e12 * idle_devices(r, &plan) + 1e9 * slices +
                                               1e7 * plan.ep +
                                               1e6 * (plan.recompute == ORR_RECOMPUTE_FULL) + m,
                                           err));
    }
    return ORR_OK;
}

/* FSDP (Zhao et al., VLDB 2023; ZeRO 3: Rajbhandari et al., SC 2020) over all devices of all sites:
 * weights, gradients and states in as many shards as there are devices, gathered layer by layer
 * across all links. Slices only where the batch has fewer samples than there are devices. Left out:
 * hybrid sharding, which would keep gathers within a building. */
orr_status orr_baseline_fsdp(orr_baseline_planner *r, orr_error *err)
{
    if (r->given.pp > 1)
        return orr_fail(err, ORR_INVALID, "fsdp: has no pipeline, and pp=%u is given", r->given.pp);
    return orr_baseline_enumerate(r, visit_fsdp, err);
}
