/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "base/alloc.h"
#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* Baseline planners that enumerate with pruning, made for clusters of one site: Metis, AMP,
 * Galvatron. */

/* --- Metis ------------------------------------------------------------------------------- */

enum {
    METIS_BATCHES = 8,
    METIS_EXPERTS = 8,
    METIS_ENTRIES = (ORR_BASELINE_MAX_STAGES + 1) * METIS_BATCHES * METIS_EXPERTS * 2
};

static uint32_t power_of(uint32_t value)
{
    uint32_t power = 0;
    while (value > 1 && power < METIS_BATCHES - 1) {
        value /= 2;
        power++;
    }
    return power;
}

static uint32_t seat_of(const orr_plan *plan)
{
    const uint32_t recomputed = plan->recompute == ORR_RECOMPUTE_FULL;
    return ((plan->pp * METIS_BATCHES + power_of(plan->micro_batch)) * METIS_EXPERTS +
            power_of(plan->ep)) *
               2 +
           recomputed;
}

/* Small tp comes first; what fits with a smaller one is not tried with a larger one. */
static orr_status visit_metis(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    static const orr_baseline_network_view blind = {0};
    bool *settled = r->state;
    orr_plan plan = *visited;
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    bool fits;
    plan.dp = orr_baseline_next_lower_dp(r, visited, 0);
    if (settled[seat_of(&plan)] || plan.dp == 0 || !orr_baseline_assign_stages(r, true, &plan))
        return ORR_OK;
    orr_baseline_stages_of(r, &plan, stages);
    if (!orr_baseline_balance_layers(r, &plan, stages))
        return ORR_OK;
    ORR_TRY(orr_baseline_fits(r, &plan, &fits, err));
    if (!fits)
        return ORR_OK;
    settled[seat_of(&plan)] = true;
    return orr_baseline_add_candidate(r, &plan, orr_baseline_step_ns(r, &plan, stages, &blind),
                                      err);
}

/* Metis (ATC 2024): stages of device groups, in the order of device types, and micro-batches;
 * within a group data parallelism before tensor parallelism, which grows only where memory fails;
 * layers balanced by the speed of the stages' devices. It knows one bandwidth within hosts and one
 * between them, and no latency. Left out: groups of different sizes, and different samples for the
 * replicas of a mixed group: a plan has one dp and one tp. */
orr_status orr_baseline_metis(orr_baseline_planner *r, orr_error *err)
{
    bool *settled = orr_calloc(METIS_ENTRIES, sizeof *settled);
    if (settled == NULL)
        return orr_fail_memory(err);
    r->state = settled;
    const orr_status status = orr_baseline_enumerate(r, visit_metis, err);
    orr_free(settled);
    r->state = NULL;
    return status;
}

/* --- AMP --------------------------------------------------------------------------------- */

static orr_status visit_amp(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    static const orr_baseline_network_view links = {.cuts = true, .levels = true};
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    orr_plan plan = *visited;
    plan.dp = orr_baseline_next_lower_dp(r, visited, 0);
    if (plan.dp > 0 && orr_baseline_assign_stages(r, true, &plan)) {
        orr_baseline_stages_of(r, &plan, stages);
        if (orr_baseline_balance_layers(r, &plan, stages))
            ORR_TRY(orr_baseline_add_candidate(
                r, &plan, orr_baseline_step_ns(r, &plan, stages, &links), err));
    }
    plan = *visited;
    if (orr_baseline_count_sites(r) < 2 || !orr_baseline_assign_replicas(r, &plan))
        return ORR_OK;
    orr_baseline_stages_of(r, &plan, stages);
    return orr_baseline_add_candidate(r, &plan, orr_baseline_step_ns(r, &plan, stages, &links),
                                      err);
}

/* AMP (NeurIPS 2022, arXiv 2210.07297): all dp, pp, tp and micro-batch, replicas or stages over the
 * slower links, layers balanced by their times; a group is as slow as its slowest link. Left out:
 * memory is not in its model, so plans that do not fit are skipped here; it knows no latency. */
orr_status orr_baseline_amp(orr_baseline_planner *r, orr_error *err)
{
    return orr_baseline_enumerate(r, visit_amp, err);
}

/* --- Galvatron --------------------------------------------------------------------------- */

static const orr_baseline_network_view ISLANDS = {0};

/* Slowdown of computation and transfers that overlap: measured in the publication. */
static const double CONTENTION = 1.3;

static double sharded_gathers_ns(const orr_baseline_planner *r, const orr_plan *plan,
                                 const orr_baseline_stage *stage)
{
    const double m = (double)r->batch / plan->dp / plan->micro_batch;
    return plan->zero == 3 ? m * 0.5 * orr_baseline_sync_ns(r, plan, stage, &ISLANDS)
                           : 0; /* two gathers of the weights in bf16 */
}

static double galvatron_step_ns(const orr_baseline_planner *r, const orr_plan *plan,
                                uint32_t recomputed)
{
    orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
    orr_baseline_stages_of(r, plan, stages);
    const orr_baseline_layer_time layer = orr_baseline_layer_time_of(r, stages[0].site, plan);
    const double m = (double)r->batch / plan->dp / plan->micro_batch;
    const double backward_ns = stages[0].layers * layer.backward_ns;
    const double sync_ns = orr_baseline_sync_ns(r, plan, &stages[0], &ISLANDS);
    const double overlapped_ns = fmin(sync_ns, backward_ns);
    const double exposed_ns = sync_ns - overlapped_ns + (CONTENTION - 1) * overlapped_ns;
    return orr_baseline_step_ns(r, plan, stages, &ISLANDS) - sync_ns + exposed_ns +
           sharded_gathers_ns(r, plan, &stages[0]) +
           recomputed * layer.forward_ns * (plan->pp - 1 + m);
}

/* The published dynamic programming over layers, for equal layers: recompute as few as memory
 * needs, found by binary search. */
static orr_status choose_recompute(orr_baseline_planner *r, orr_plan *plan, double *ret_ns,
                                   orr_error *err)
{
    const uint32_t layers = (r->layers + plan->pp - 1) / plan->pp;
    uint32_t least = 0, most = layers + 1; /* search interval; `most` beyond `layers`: none fits */
    while (least < most) {
        orr_plan tried = *plan;
        bool fits;
        tried.recompute_layers = (least + most) / 2;
        tried.recompute = tried.recompute_layers > 0 ? ORR_RECOMPUTE_BLOCK : ORR_RECOMPUTE_NONE;
        if (tried.recompute_layers > layers)
            break;
        ORR_TRY(orr_baseline_fits(r, &tried, &fits, err));
        if (fits)
            most = tried.recompute_layers;
        else
            least = tried.recompute_layers + 1;
    }
    *ret_ns = most <= layers ? galvatron_step_ns(r, plan, most) : INFINITY;
    plan->recompute = most > 0 ? ORR_RECOMPUTE_BLOCK : ORR_RECOMPUTE_NONE;
    plan->recompute_layers = most;
    return ORR_OK;
}

static orr_status refine(orr_baseline_planner *r, orr_plan *plan, double *ret_ns, orr_error *err)
{
    bool fits;
    if (r->given.recompute == 0 && r->given.recompute_layers == 0)
        return choose_recompute(r, plan, ret_ns, err);
    ORR_TRY(orr_baseline_fits(r, plan, &fits, err));
    *ret_ns = fits ? galvatron_step_ns(r, plan, 0) : INFINITY;
    return ORR_OK;
}

static orr_status visit_galvatron(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    const uint32_t sharding[] = {orr_baseline_default_zero(r), 3};
    orr_plan plan = *visited;
    if (r->given.recompute == 0 && plan.recompute != ORR_RECOMPUTE_NONE)
        return ORR_OK; /* recomputation is chosen layer by layer */
    plan.dp = orr_baseline_next_lower_dp(r, visited, 0);
    if (plan.dp == 0 || !orr_baseline_assign_stages(r, true, &plan))
        return ORR_OK;
    for (uint32_t i = 0; i < sizeof sharding / sizeof *sharding; i++) {
        plan.zero = r->given.zero > 0 ? r->given.zero : sharding[i];
        ORR_TRY(orr_baseline_add_candidate(r, &plan, galvatron_step_ns(r, &plan, 0), err));
        if (r->given.zero > 0)
            break;
    }
    return ORR_OK;
}

/* Galvatron (VLDB 2023) and Galvatron-BMW (arXiv 2307.02031): stages over the slower links between
 * islands of devices; in a stage data, sharded data (ZeRO 3) or tensor parallelism and recomputed
 * layers, chosen by dynamic programming over layers within the memory; overlap slows transfers and
 * computation down. Left out: another parallelism for each layer, since the layers of these models
 * are equal and a plan has one; data parallelism shards its optimizer states here. It knows no
 * latency. */
orr_status orr_baseline_galvatron(orr_baseline_planner *r, orr_error *err)
{
    ORR_TRY(orr_baseline_enumerate(r, visit_galvatron, err));
    return orr_baseline_refine_candidates(r, refine, err);
}
