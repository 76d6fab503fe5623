/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/plan/plan.h"
#include "explore/baseline/baseline.h"

/* Baseline planners that place the stages of a pipeline on regions: greedily (Atlas), and by
 * dynamic programming (Sailor).
 *
 * Sailor's recurrence: best(stage, region, room) is the better of the tail that skips this region,
 * best(stage, region + 1, room of that region), and the tail that puts the stage here, this stage +
 * best(stage + 1, region, room - 1). Tails are compared by the time of 1F1B bound by the slowest
 * stage: sum + (m - 1) x slowest + gradient all-reduce. Since a longer sum may come with a faster
 * slowest stage, keeping one tail for each state is a heuristic, as in the publication. */

enum { FEWER = 8 }; /* with dp below an eighth of the largest that fits, no plan is faster */

static const orr_baseline_network_view REGIONS = {.cuts = true, .latency = true};

/* --- Atlas ------------------------------------------------------------------------------- */

/* Pipelines that share a link between two sites use it one after another at its full rate: the last
 * of a cell waits, and none is slower on the way. */
static double atlas_step_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stages)
{
    const double together_ns = orr_baseline_step_ns(r, plan, stages, &REGIONS);
    const double bytes = orr_baseline_hop_bytes(r, plan);
    double saved_ns = 0;
    for (uint32_t s = 0; s + 1 < plan->pp; s++)
        if (stages[s].site != stages[s + 1].site) {
            const orr_baseline_link cut =
                orr_baseline_link_of(r, stages[s].site, stages[s + 1].site, &REGIONS);
            saved_ns += 2 * bytes / cut.bytes_per_s * 1e9 * (1 - 1.0 / plan->dp);
        }
    return together_ns - saved_ns;
}

static orr_status visit_atlas(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    orr_plan plan = *visited;
    if (orr_baseline_count_sites(r) > 1 && plan.pp == 1)
        return ORR_OK;
    const uint32_t most = orr_baseline_next_lower_dp(r, visited, 0);
    while ((plan.dp = orr_baseline_next_lower_dp(r, visited, plan.dp)) > most / FEWER) {
        orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
        if (!orr_baseline_assign_stages(r, false, &plan))
            continue;
        orr_baseline_stages_of(r, &plan, stages);
        ORR_TRY(orr_baseline_add_candidate(r, &plan, atlas_step_ns(r, &plan, stages), err));
    }
    return ORR_OK;
}

/* Atlas (arXiv 2411.14458): stages cross sites, replicas of a stage never do; dp, pp, tp and
 * micro-batches are enumerated, the sites filled with stages one after another, the largest first,
 * and the fastest is taken by the paper's kind of arithmetic. Left out: sharing of a wide-area link
 * in time is in its estimate, but no plan can schedule it; several TCP connections for a pair;
 * BubbleTea. On one site it enumerates plain 1F1B. */
orr_status orr_baseline_atlas(orr_baseline_planner *r, orr_error *err)
{
    return orr_baseline_enumerate(r, visit_atlas, err);
}

/* --- Sailor ------------------------------------------------------------------------------ */

/* A tail of the pipeline: the stages from `first` on, and what they add to the step. */
typedef struct tail {
    double sum_ns, most_ns,
        sync_ns;   /* sum_ns < 0: not computed yet; most_ns INFINITY: does not fit */
    uint32_t site; /* of the tail's first stage */
} tail;

typedef struct sailor {
    const orr_baseline_planner *r;
    const orr_plan *plan;
    double m, hop_bytes;
    double stage_ns[ORR_SITES_MAX], head_ns[ORR_SITES_MAX], sync_ns[ORR_SITES_MAX]; /* by place */
    uint32_t sites, places[ORR_SITES_MAX]; /* sites in use, and the index of each in the cluster */
    uint32_t room[ORR_SITES_MAX];          /* capacity in stages, by place */
    tail *memo; /* memo, shape (pp + 1, sites + 1, widest + 1): stage, place, capacity left in the
                   place */
    uint32_t widest;
} sailor;

static double tail_ns(const sailor *s, const tail *t)
{
    return t->sum_ns + (s->m - 1) * t->most_ns + t->sync_ns;
}

static tail with_stage(const sailor *s, uint32_t stage, uint32_t place, const tail *rest)
{
    tail added = {.site = place, .sum_ns = s->stage_ns[place]};
    double slowest_ns;
    if (stage + 1 == s->plan->pp)
        added.sum_ns += s->head_ns[place];
    slowest_ns = added.sum_ns;
    if (stage + 1 < s->plan->pp) {
        const orr_baseline_link link =
            orr_baseline_link_of(s->r, s->places[place], s->places[rest->site], &REGIONS);
        const double moved_ns = s->hop_bytes / link.bytes_per_s * 1e9;
        added.sum_ns += rest->sum_ns + 2 * (moved_ns + link.latency_ns);
        slowest_ns = fmax(slowest_ns, 2 * moved_ns);
    }
    added.most_ns = fmax(slowest_ns, rest->most_ns);
    added.sync_ns = fmax(s->sync_ns[place], rest->sync_ns);
    return added;
}

/* The best tail that begins in this place or a later one. Regions are passed in their order, each
 * once. */
static const tail *best_tail(sailor *s, uint32_t stage, uint32_t place, uint32_t left)
{
    static const tail end = {0}, none = {.most_ns = INFINITY, .sum_ns = INFINITY};
    if (stage == s->plan->pp)
        return &end;
    if (place == s->sites)
        return &none;
    tail *best = &s->memo[((size_t)stage * (s->sites + 1) + place) * (s->widest + 1) + left];
    if (best->sum_ns >= 0)
        return best;
    *best = none;
    const tail *later =
        best_tail(s, stage, place + 1, place + 1 < s->sites ? s->room[place + 1] : 0);
    if (!isinf(later->most_ns))
        *best = *later;
    if (left > 0) {
        const tail *rest = best_tail(s, stage + 1, place, left - 1);
        const tail added = isinf(rest->most_ns) ? none : with_stage(s, stage, place, rest);
        if (!isinf(added.most_ns) &&
            (isinf(best->most_ns) || tail_ns(s, &added) < tail_ns(s, best)))
            *best = added;
    }
    return best;
}

static void read_tail(sailor *s, uint16_t *ret_sites)
{
    uint32_t place = 0, left = s->room[0];
    memset(ret_sites, 0, ORR_PLAN_PARTS * sizeof *ret_sites);
    for (uint32_t stage = 0; stage < s->plan->pp; stage++) {
        const uint32_t next = best_tail(s, stage, place, left)->site;
        left = (next == place ? left : s->room[next]) - 1;
        place = next;
        ret_sites[s->places[place]]++;
    }
}

static void add_place(sailor *s, uint32_t site, uint32_t room)
{
    const uint32_t place = s->sites++;
    const orr_baseline_stage on = {.site = site, .layers = (double)s->r->layers / s->plan->pp};
    const orr_baseline_layer_time layer = orr_baseline_layer_time_of(s->r, site, s->plan);
    s->places[place] = site;
    s->room[place] = room < s->plan->pp ? room : s->plan->pp;
    s->widest = s->room[place] > s->widest ? s->room[place] : s->widest;
    s->stage_ns[place] = on.layers * (layer.forward_ns + layer.backward_ns);
    s->head_ns[place] = 3 * orr_baseline_head_ns(s->r, site, s->plan);
    s->sync_ns[place] = orr_baseline_sync_ns(s->r, s->plan, &on, &REGIONS);
}

/* *ret_ns INFINITY: the stages do not fit. */
static orr_status place_stages(orr_baseline_planner *r, orr_plan *plan, double *ret_ns,
                               orr_error *err)
{
    sailor s = {.r = r,
                .plan = plan,
                .m = (double)r->batch / plan->dp / plan->micro_batch,
                .hop_bytes = orr_baseline_hop_bytes(r, plan)};
    for (uint32_t site = 0; site < r->n_sites; site++)
        if (r->sites[site].devices > 0)
            add_place(&s, site, orr_baseline_site_capacity(&r->sites[site], plan, plan->dp));
    const size_t n = (size_t)(plan->pp + 1) * (s.sites + 1) * (s.widest + 1);
    s.memo = orr_calloc(n, sizeof *s.memo);
    if (s.memo == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        s.memo[i].sum_ns = -1;
    const tail *best = best_tail(&s, 0, 0, s.room[0]);
    *ret_ns = isinf(best->most_ns) ? INFINITY : tail_ns(&s, best);
    if (!isinf(*ret_ns) && r->n_sites > 1) {
        read_tail(&s, plan->sites);
        plan->cross = ORR_CROSS_PP;
    }
    orr_free(s.memo);
    return ORR_OK;
}

/* Sites of one region count as one: replicas may be on both. */
static bool one_region(const orr_baseline_planner *r)
{
    const char *region = NULL;
    for (uint32_t s = 0; s < r->n_sites; s++) {
        if (r->sites[s].devices == 0)
            continue;
        if (region != NULL && (*region == '\0' || strcmp(region, r->sites[s].region) != 0))
            return false;
        region = r->sites[s].region;
    }
    return true;
}

static orr_status visit_sailor(orr_baseline_planner *r, const orr_plan *visited, orr_error *err)
{
    orr_plan plan = *visited;
    const uint32_t most = orr_baseline_next_lower_dp(r, visited, 0);
    while ((plan.dp = orr_baseline_next_lower_dp(r, visited, plan.dp)) > most / FEWER) {
        orr_plan placed = plan;
        double step_ns;
        ORR_TRY(place_stages(r, &placed, &step_ns, err));
        if (!isinf(step_ns))
            ORR_TRY(orr_baseline_add_candidate(r, &placed, step_ns, err));
    }
    plan = *visited;
    if (orr_baseline_count_sites(r) > 1 && one_region(r) &&
        orr_baseline_assign_replicas(r, &plan)) {
        orr_baseline_stage stages[ORR_BASELINE_MAX_STAGES];
        orr_baseline_stages_of(r, &plan, stages);
        return orr_baseline_add_candidate(r, &plan,
                                          orr_baseline_step_ns(r, &plan, stages, &REGIONS), err);
    }
    return ORR_OK;
}

/* Sailor (SOSP 2025, arXiv 2504.17096): pp, micro-batch and dp are enumerated; stages are placed
 * region by region by dynamic programming with memoization of the remaining resources; a step is
 * bound by its stragglers; sites of a region count as one, replicas of a stage never cross regions,
 * and regions may stay unused. Left out: tensor-parallel degrees that differ between devices (a
 * plan has one tp), replicas of a stage on different devices, budgets in USD. A pipeline passes
 * regions in their order. */
orr_status orr_baseline_sailor(orr_baseline_planner *r, orr_error *err)
{
    return orr_baseline_enumerate(r, visit_sailor, err);
}
