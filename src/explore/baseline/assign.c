/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* Parts that the baseline planners share: enumeration of degrees, assignment of replicas, stages
 * and layers to sites (largest first, or Webster's method), and the list of candidates. */

/* The closed form of memory is off by less than this; plans within it are decided by the
 * simulation. */
static const double NEARLY = 1.03;

enum { LONG_CONTEXT = 16384, TOKENS_OF_SLICE = 8192, MOST_MICRO_BATCH = 8, RUNS = ORR_PLAN_PARTS };

/* --- degrees ----------------------------------------------------------------------------- */

uint32_t orr_baseline_context_degree(const orr_baseline_planner *r)
{
    if (r->given.cp > 0)
        return r->given.cp;
    return r->seq >= LONG_CONTEXT && r->seq % TOKENS_OF_SLICE == 0 ? r->seq / TOKENS_OF_SLICE : 1;
}

static bool may_be(uint32_t given, uint32_t value)
{
    return given == 0 || given == value;
}

static orr_status visit_relief(orr_baseline_planner *r, orr_plan plan, orr_baseline_visit visit,
                               orr_error *err)
{
    static const uint8_t choices[] = {ORR_RECOMPUTE_NONE, ORR_RECOMPUTE_FULL};
    if (r->given.recompute != 0 || r->given.recompute_layers > 0)
        return visit(r, &plan, err);
    for (uint32_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        plan.recompute = choices[i];
        ORR_TRY(visit(r, &plan, err));
    }
    return ORR_OK;
}

/* Degrees of expert parallelism: none, within a host, 64 as in DeepSeek-V3, one expert to a rank.
 */
static orr_status visit_experts(orr_baseline_planner *r, orr_plan plan, orr_baseline_visit visit,
                                orr_error *err)
{
    const uint32_t experts = r->model->moe.experts, given = r->given.ep;
    const uint32_t choices[] = {1, r->host_devices, 64, experts};
    for (size_t i = 0; i < (experts > 0 && given == 0 ? 4 : 1); i++) {
        plan.ep = given > 0 ? given : choices[i];
        if ((i > 0 && choices[i] <= choices[i - 1]) || (experts > 0 && experts % plan.ep != 0))
            continue;
        plan.etp = plan.ep > 1 && r->given.etp == 0 ? 1 : r->given.etp;
        ORR_TRY(visit_relief(r, plan, visit, err));
    }
    return ORR_OK;
}

/* Powers of two, and halfway between them: 1 2 3 4 6 8 12 16 ... */
static uint32_t next_stages(uint32_t pp)
{
    const bool power = (pp & (pp - 1)) == 0;
    return pp == 1 ? 2 : power ? pp / 2 * 3 : pp / 3 * 4;
}

static orr_status visit_stages(orr_baseline_planner *r, orr_plan plan, orr_baseline_visit visit,
                               orr_error *err)
{
    const uint32_t most = r->layers < ORR_BASELINE_MAX_STAGES ? r->layers : ORR_BASELINE_MAX_STAGES;
    if (r->given.pp > 0) {
        plan.pp = r->given.pp;
        return plan.pp <= most ? visit_experts(r, plan, visit, err) : ORR_OK;
    }
    for (plan.pp = 1; plan.pp <= most; plan.pp = next_stages(plan.pp))
        ORR_TRY(visit_experts(r, plan, visit, err));
    return ORR_OK;
}

static orr_status visit_samples(orr_baseline_planner *r, orr_plan plan, orr_baseline_visit visit,
                                orr_error *err)
{
    const uint32_t given = r->given.micro_batch;
    for (uint32_t b = 1; b <= MOST_MICRO_BATCH; b *= 2) {
        plan.micro_batch = given > 0 ? given : b;
        if (r->batch % plan.micro_batch == 0)
            ORR_TRY(visit_stages(r, plan, visit, err));
        if (given > 0)
            break;
    }
    return ORR_OK;
}

orr_status orr_baseline_enumerate(orr_baseline_planner *r, orr_baseline_visit visit, orr_error *err)
{
    const uint32_t given = r->given.tp;
    orr_plan plan = r->given;
    plan.cp = orr_baseline_context_degree(r);
    plan.zero = orr_baseline_default_zero(r);
    for (uint32_t t = 1; t <= r->host_devices; t *= 2) {
        plan.tp = given > 0 ? given : t;
        if (r->model->heads % plan.tp == 0)
            ORR_TRY(visit_samples(r, plan, visit, err));
        if (given > 0)
            break;
    }
    return ORR_OK;
}

/* --- sites ------------------------------------------------------------------------------- */

/* Number of replicas over which one set of experts is spread. */
static uint64_t replicas_of_experts(const orr_plan *plan)
{
    const uint64_t slices = plan->ep > 1 ? orr_plan_degree(plan->etp) : 1;
    const uint64_t ranks = orr_plan_degree(plan->ep) * slices;
    const uint64_t of_one = (uint64_t)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp);
    return ranks > of_one ? ranks / of_one : 1;
}

uint32_t orr_baseline_site_capacity(const orr_baseline_site *site, const orr_plan *plan,
                                    uint32_t times)
{
    const double ranks = (double)orr_plan_degree(plan->tp) * orr_plan_degree(plan->cp) * times;
    return (uint32_t)(site->devices / ranks);
}

/* Index of the site with the most room left; n_sites: none has any. */
static uint32_t largest_site(const orr_baseline_planner *r, const uint32_t *left)
{
    uint32_t best = r->n_sites;
    for (uint32_t s = 0; s < r->n_sites; s++)
        if (left[s] > 0 && (best == r->n_sites || left[s] > left[best]))
            best = s;
    return best;
}

/* Each site has a part of one axis. With local steps, the outer part of dp follows from the sites.
 */
static void set_crossing(orr_plan *plan, orr_cross axis)
{
    plan->cross = (uint8_t)axis;
    if (plan->dp_outer == 0 && plan->local_steps <= 1)
        plan->dp_outer = 1;
}

/* Assigns `units` by filling whole sites, largest first. */
static bool fill_sites(const orr_baseline_planner *r, uint32_t *room, uint32_t units, uint16_t *ret)
{
    memset(ret, 0, ORR_PLAN_PARTS * sizeof *ret);
    while (units > 0) {
        const uint32_t s = largest_site(r, room);
        if (s == r->n_sites || room[s] > UINT16_MAX)
            return false;
        const uint32_t taken = room[s] < units ? room[s] : units;
        ret[s] = (uint16_t)taken;
        units -= taken;
        room[s] = 0;
    }
    return true;
}

/* Webster's method of apportionment: each unit goes to the site that is furthest below its share.
 */
static void apportion(const orr_baseline_planner *r, const uint32_t *room, uint32_t units,
                      uint16_t *ret)
{
    memset(ret, 0, ORR_PLAN_PARTS * sizeof *ret);
    while (units-- > 0) {
        uint32_t best = r->n_sites;
        for (uint32_t s = 0; s < r->n_sites; s++)
            if (room[s] > ret[s] &&
                (best == r->n_sites || (uint64_t)room[s] * (2u * ret[best] + 1) >
                                           (uint64_t)room[best] * (2u * ret[s] + 1)))
                best = s;
        ret[best]++;
    }
}

bool orr_baseline_assign_replicas(const orr_baseline_planner *r, orr_plan *plan)
{
    const uint64_t together = replicas_of_experts(plan);
    const uint32_t samples = r->batch / plan->micro_batch;
    uint32_t room[ORR_SITES_MAX] = {0}, all = 0;
    for (uint32_t s = 0; s < r->n_sites; s++) {
        room[s] = orr_baseline_site_capacity(&r->sites[s], plan, orr_plan_degree(plan->pp));
        room[s] -= (uint32_t)(room[s] % together);
        all += room[s];
    }
    for (uint32_t dp = all < samples ? all : samples; dp > 0; dp--)
        if (samples % dp == 0 && dp % together == 0 && may_be(r->given.dp, dp)) {
            plan->dp = dp;
            if (r->n_sites == 1)
                return true;
            set_crossing(plan, ORR_CROSS_DP);
            return fill_sites(r, room, dp, plan->sites);
        }
    return false;
}

static uint64_t rooms_of_stages(const orr_baseline_planner *r, const orr_plan *plan, uint32_t *ret)
{
    uint64_t all = 0;
    for (uint32_t s = 0; s < r->n_sites; s++)
        all += ret[s] = orr_baseline_site_capacity(&r->sites[s], plan, orr_plan_degree(plan->dp));
    return all;
}

bool orr_baseline_assign_stages(const orr_baseline_planner *r, bool even, orr_plan *plan)
{
    uint32_t room[ORR_SITES_MAX] = {0};
    if (rooms_of_stages(r, plan, room) < plan->pp)
        return false;
    if (r->n_sites == 1)
        return true;
    set_crossing(plan, ORR_CROSS_PP);
    if (!even)
        return fill_sites(r, room, plan->pp, plan->sites);
    apportion(r, room, plan->pp, plan->sites);
    return true;
}

uint32_t orr_baseline_next_lower_dp(const orr_baseline_planner *r, const orr_plan *plan,
                                    uint32_t below)
{
    const uint64_t together = replicas_of_experts(plan);
    const uint32_t samples = r->batch / plan->micro_batch;
    uint32_t room[ORR_SITES_MAX], most = 0;
    orr_plan tried = *plan;
    for (uint32_t s = 0; s < r->n_sites; s++)
        most += orr_baseline_site_capacity(&r->sites[s], plan, orr_plan_degree(plan->pp));
    if (below > 0 && below <= most)
        most = below - 1;
    for (tried.dp = most < samples ? most : samples; tried.dp > 0; tried.dp--)
        if (samples % tried.dp == 0 && tried.dp % together == 0 && may_be(r->given.dp, tried.dp) &&
            rooms_of_stages(r, &tried, room) >= plan->pp)
            return tried.dp;
    return 0;
}

/* --- layers ------------------------------------------------------------------------------ */

void orr_baseline_stages_of(const orr_baseline_planner *r, const orr_plan *plan,
                            orr_baseline_stage *ret)
{
    uint32_t site = 0, left = 0;
    while (site + 1 < r->n_sites && r->sites[site].devices == 0)
        site++;
    if (plan->cross == ORR_CROSS_PP) {
        for (site = 0; site + 1 < r->n_sites && plan->sites[site] == 0;)
            site++;
        left = plan->sites[site];
    }
    for (uint32_t s = 0; s < plan->pp; s++) {
        while (plan->cross == ORR_CROSS_PP && left == 0 && site + 1 < r->n_sites)
            left = plan->sites[++site];
        ret[s] = (orr_baseline_stage){.site = site, .layers = (double)r->layers / plan->pp};
        left -= left > 0;
    }
}

static bool all_alike(const orr_baseline_planner *r, const orr_plan *plan,
                      const orr_baseline_stage *stages)
{
    for (uint32_t s = 1; s < plan->pp; s++)
        if (r->sites[stages[s].site].flops_per_s != r->sites[stages[0].site].flops_per_s)
            return false;
    return true;
}

/* List scheduling: each layer goes to the stage that would finish it first, earlier stages first.
 */
static void balance_layers(const orr_baseline_planner *r, uint32_t pp, orr_baseline_stage *stages)
{
    for (uint32_t s = 0; s < pp; s++)
        stages[s].layers = 1;
    for (uint32_t left = r->layers - pp; left > 0; left--) {
        uint32_t best = 0;
        double soonest = 0;
        for (uint32_t s = 0; s < pp; s++) {
            const double done = (stages[s].layers + 1) / r->sites[stages[s].site].flops_per_s;
            if (s == 0 || done < soonest) {
                soonest = done;
                best = s;
            }
        }
        stages[best].layers++;
    }
}

bool orr_baseline_balance_layers(const orr_baseline_planner *r, orr_plan *plan,
                                 orr_baseline_stage *stages)
{
    uint32_t runs = 0;
    if (all_alike(r, plan, stages))
        return true;
    balance_layers(r, plan->pp, stages);
    for (uint32_t s = 0; s < plan->pp; s++) {
        if (s == 0 || stages[s].layers != stages[s - 1].layers)
            runs++;
        if (runs > RUNS)
            return false;
        plan->section_stages[runs - 1]++;
        plan->section_layers[runs - 1] = (uint16_t)stages[s].layers;
    }
    return true;
}

/* --- candidates ------------------------------------------------------------------------------ */

orr_status orr_baseline_add_candidate(orr_baseline_planner *r, const orr_plan *plan, double step_ns,
                                      orr_error *err)
{
    const orr_baseline_candidate candidate = {
        .plan = *plan, .step_ns = step_ns, .number = (uint32_t)r->candidates.n};
    if (!orr_baseline_allows(r, plan))
        return ORR_OK;
    return orr_array_push(&r->candidates, candidate) ? ORR_OK : orr_fail_memory(err);
}

static int by_step(const void *a_, const void *b_)
{
    const orr_baseline_candidate *a = a_, *b = b_;
    if (a->step_ns != b->step_ns)
        return a->step_ns < b->step_ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

void orr_baseline_sort_candidates(orr_baseline_planner *r)
{
    if (r->candidates.n > 0)
        qsort(r->candidates.at, r->candidates.n, sizeof *r->candidates.at, by_step);
}

orr_status orr_baseline_refine_candidates(orr_baseline_planner *r, orr_baseline_refine refine,
                                          orr_error *err)
{
    orr_baseline_candidate best = {.step_ns = INFINITY};
    orr_baseline_sort_candidates(r);
    for (size_t i = 0; i < r->candidates.n && r->candidates.at[i].step_ns < best.step_ns; i++) {
        orr_baseline_candidate candidate = r->candidates.at[i];
        ORR_TRY(refine(r, &candidate.plan, &candidate.step_ns, err));
        if (candidate.step_ns < best.step_ns)
            best = candidate;
    }
    if (isinf(best.step_ns))
        return ORR_OK;
    r->candidates.at[0] = best;
    r->candidates.n = 1;
    return ORR_OK;
}

/* An invalid plan does not end the enumeration. */
static orr_status ignore_invalid(orr_status status)
{
    return status == ORR_NO_MEMORY || status == ORR_IO || status == ORR_CANCELED ? status : ORR_OK;
}

static bool has_room(const orr_explored *e, double times)
{
    return e->usable_bytes <= 0 || /* unknown */
           (double)e->peak_bytes <= times * (double)e->usable_bytes;
}

/* The planner's plan with the defaults of the framework that the options name. */
static orr_status with_framework(const orr_baseline_planner *r, const orr_plan *plan, orr_plan *ret,
                                 orr_error *err)
{
    const orr_framework framework = (orr_framework)r->options->framework;
    *ret = orr_framework_defaults(framework, r->model, plan);
    return orr_framework_check(framework, r->model, ret, err);
}

orr_status orr_baseline_fits(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                             orr_error *err)
{
    orr_explored judged;
    orr_plan p;
    orr_status status = with_framework(r, plan, &p, err);
    if (status == ORR_OK)
        status = orr_evaluator_estimate(r->evaluator, &p, &judged, err);
    if (status == ORR_OK && !has_room(&judged, 1) && has_room(&judged, NEARLY))
        status = orr_evaluator_simulate(r->evaluator, &p, &judged, err);
    *ret_fits = status == ORR_OK && has_room(&judged, 1);
    return ignore_invalid(status);
}

orr_status orr_baseline_evaluate(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                                 orr_explored *ret, orr_error *err)
{
    orr_plan p;
    ORR_TRY(orr_baseline_fits(r, plan, ret_fits, err));
    if (!*ret_fits)
        return ORR_OK;
    orr_status status = with_framework(r, plan, &p, err);
    if (status == ORR_OK)
        status = orr_evaluator_simulate(r->evaluator, &p, ret, err);
    *ret_fits = status == ORR_OK && has_room(ret, 1);
    return ignore_invalid(status);
}
