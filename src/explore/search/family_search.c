/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/explore.h"
#include "model/schedule/schedule.h"

#include <math.h>
#include <string.h>

/* The search of one family: enumerates its plans depth first and prunes subtrees by lower bounds
 * that get sharper with depth. Plans that survive become candidates.
 *    DEGREES    family bound, scaled to the devices that the degrees use
 *    ANYWHERE   order-free bound of a schedule on the flat cluster: holds for every layout
 *    LAYOUT     memory: even the leanest plan with these degrees exceeds its devices
 *    SCHEDULE   order-free bound of the schedule in this layout
 *    leaf       bound and memory of the estimate (estimate/bound.c, estimate/memory.c)
 *
 * A leaf that does not fit is given memory options. Time grows and memory shrinks with the number
 * of recomputed layers, so the fewest that fit are found by binary search; only where activations
 * are offloaded does more recomputation compete. A plan whose estimate is well below the incumbent
 * is simulated at once (a probe), so that the rest of the family is pruned against it. A scan
 * visits a sample of the family (most of the devices, common schedules, few layouts) for the best
 * estimate only. */

enum { SEEN = 64, POLL_EVERY = 256 };
static const double WORTH_PROBING = 0.95,
                    WORTH_KEEPING = 1.5; /* relative to the incumbent: assumed */

typedef struct family_search {
    const orr_search_thread *search_thread;
    orr_work_item *item;
    orr_incumbent incumbent;    /* of the search, lowered by what this item simulated; `front` stays
                                   the search's */
    bool scanning;              /* only the best estimate is wanted */
    orr_explored best_estimate; /* the best estimate; estimate_ns 0: none yet */
    orr_plan last_scanned;      /* the first plan of its kind that was scanned */
    uint32_t last_seen, leaves, layouts;
    bool testing_degrees, degrees_tested, too_big; /* memory test of the current degrees */
    double effective_frac; /* most that plans with the current degrees can have */
} family_search;

static double bound_of(const family_search *g, const orr_explored *e)
{
    const double bound = e->value[g->incumbent.objective];
    return isnan(bound) ? 0 : bound;
}

/* --- one plan ------------------------------------------------------------------------------- */

typedef struct verdict {
    bool valid, dominated, fits;
    orr_explored explored;
} verdict;

static void note_binding(family_search *g, const orr_explored *e)
{
    orr_binding_constraint *t = &g->item->binding;
    const bool nearer =
        !t->has_least || (double)e->peak_bytes / (double)e->usable_bytes <
                             (double)t->least.peak_bytes / (double)t->least.usable_bytes;
    if (e->usable_bytes < 0 || !nearer)
        return;
    t->has_least = true;
    t->least = *e;
}

static orr_status evaluate(family_search *g, const orr_plan *plan, verdict *ret, orr_error *err)
{
    *ret = (verdict){.valid = false};
    if (!g->testing_degrees && !orr_space_runs(g->search_thread->space, plan))
        return ORR_OK;
    orr_evaluator *evaluator =
        g->testing_degrees ? g->search_thread->flat : g->search_thread->ideal;
    const orr_status status = orr_evaluator_estimate(evaluator, plan, &ret->explored, err);
    g->item->result.estimated += !g->scanning;
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    if (status != ORR_OK)
        return ORR_OK;
    ret->explored.plan = *plan;
    ret->valid = true;
    ret->dominated = orr_incumbent_dominates(&g->incumbent, ret->explored.value);
    ret->fits = orr_explored_fits(&ret->explored, g->search_thread->slack);
    if (!ret->fits)
        note_binding(g, &ret->explored);
    return ORR_OK;
}

static void prune(family_search *g, orr_prune why, double n)
{
    if (!g->scanning)
        g->item->result.pruned[why] += n;
}

/* Keeps the best plan of each arrangement, for alternatives. */
static orr_status remember(family_search *g, const orr_explored *e, orr_error *err)
{
    orr_explored_list *seen = &g->item->seen;
    const uint8_t objective = g->incumbent.objective;
    const double value = orr_explored_estimated_value(e, objective);
    if (value > g->incumbent.best * WORTH_KEEPING || !orr_explored_fits(e, 0))
        return ORR_OK;
    if (g->last_seen >= seen->n ||
        !orr_plan_same_arrangement(&seen->at[g->last_seen].plan, &e->plan)) {
        g->last_seen = 0;
        while (g->last_seen < seen->n &&
               !orr_plan_same_arrangement(&seen->at[g->last_seen].plan, &e->plan))
            g->last_seen++;
    }
    if (g->last_seen < seen->n) {
        if (value < orr_explored_estimated_value(&seen->at[g->last_seen], objective))
            seen->at[g->last_seen] = *e;
        return ORR_OK;
    }
    if (seen->n < SEEN && !orr_array_push(seen, *e))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status probe_by_simulation(family_search *g, const orr_explored *e, orr_error *err)
{
    orr_explored simulated;
    const double value = orr_explored_estimated_value(e, g->incumbent.objective);
    if (!(value < g->incumbent.best * WORTH_PROBING) || !orr_explored_fits(e, 0))
        return ORR_OK;
    ORR_TRY(orr_search_thread_simulate(g->search_thread, e, g->item, &simulated, err));
    if (simulated.step_ns > 0 && orr_explored_fits(&simulated, 0))
        g->incumbent.best = fmin(g->incumbent.best, simulated.value[g->incumbent.objective]);
    else if (simulated.step_ns > 0)
        return orr_candidate_reduce_memory(g->search_thread, g->search_thread->ideal, g->item,
                                           &e->plan, err);
    return ORR_OK;
}

static orr_status record(family_search *g, const verdict *v, orr_error *err)
{
    ORR_TRY(remember(g, &v->explored, err));
    if (v->dominated) {
        prune(g, ORR_PRUNE_BOUND, 1);
        g->item->result.bound = fmin(g->item->result.bound, bound_of(g, &v->explored));
        return ORR_OK;
    }
    ORR_TRY(probe_by_simulation(g, &v->explored, err));
    if (!g->scanning && !orr_array_push(&g->item->left, v->explored))
        return orr_fail_memory(err);
    return ORR_OK;
}

/* --- memory options of a plan ---------------------------------------------------------------- */

/* Binary search for the fewest recomputed layers with which the plan fits: more take longer. */
static orr_status least_recompute(family_search *g, const orr_plan *plan,
                                  const orr_memory_options *r, uint8_t offload, verdict *ret,
                                  orr_error *err)
{
    uint32_t low = r->min_recompute, high = r->max_recompute;
    orr_plan p = orr_plan_with_memory_option(plan, high, offload);
    ORR_TRY(evaluate(g, &p, ret, err));
    while (ret->valid && ret->fits && low < high) {
        verdict v;
        const uint32_t middle = (low + high) / 2;
        p = orr_plan_with_memory_option(plan, middle, offload);
        ORR_TRY(evaluate(g, &p, &v, err));
        if (v.valid && v.fits) {
            high = middle;
            *ret = v;
        } else {
            low = middle + 1;
        }
    }
    return ORR_OK;
}

static orr_status record_with_more_recompute(family_search *g, const orr_plan *plan,
                                             const orr_memory_options *r, const orr_plan *fits,
                                             orr_error *err)
{
    for (uint32_t recompute = fits->recompute_layers + 1; recompute <= r->max_recompute;
         recompute++) {
        const orr_plan p = orr_plan_with_memory_option(plan, recompute, fits->offload);
        verdict v;
        ORR_TRY(evaluate(g, &p, &v, err));
        if (v.valid && v.fits)
            ORR_TRY(record(g, &v, err));
        else
            prune(g, v.valid ? ORR_PRUNE_MEMORY : ORR_PRUNE_INVALID, 1);
    }
    return ORR_OK;
}

static orr_status apply_memory_options(family_search *g, const orr_plan *plan,
                                       const orr_memory_options *r, orr_error *err)
{
    const double n = (double)(r->max_recompute - r->min_recompute + 1);
    bool done =
        false; /* a single offload fits without recomputation: both together are dominated */
    for (uint32_t i = 0; i < r->n_offloads; i++) {
        verdict v;
        if (done && r->offload[i] == ORR_OFFLOAD_BOTH) {
            prune(g, ORR_PRUNE_DOMINATED, n);
            continue;
        }
        ORR_TRY(least_recompute(g, plan, r, r->offload[i], &v, err));
        if (!v.valid || !v.fits) {
            prune(g, v.valid ? ORR_PRUNE_MEMORY : ORR_PRUNE_INVALID, n);
            continue;
        }
        const uint32_t recompute = v.explored.plan.recompute_layers;
        prune(g, ORR_PRUNE_MEMORY, recompute - r->min_recompute);
        done |= recompute == r->min_recompute;
        ORR_TRY(record(g, &v, err));
        if (orr_offloads_activations(r->offload[i]))
            ORR_TRY(record_with_more_recompute(g, plan, r, &v.explored.plan, err));
        else
            prune(g, ORR_PRUNE_DOMINATED, r->max_recompute - recompute);
    }
    return ORR_OK;
}

static orr_status on_leaf(void *ctx, const orr_plan *plan, const orr_memory_options *memory_options,
                          orr_error *err)
{
    family_search *g = ctx;
    const orr_plan first = orr_plan_with_memory_option(plan, memory_options->min_recompute,
                                                       memory_options->offload[0]);
    const double n = orr_memory_options_count(memory_options);
    verdict v;
    if (++g->leaves % POLL_EVERY == 0 && g->search_thread->should_stop != NULL &&
        g->search_thread->should_stop(g->search_thread->should_stop_ctx)) {
        g->item->stopped = true;
        return orr_fail(err, ORR_CANCELED, "stopped");
    }
    ORR_TRY(evaluate(g, &first, &v, err));
    if (!v.valid) {
        prune(g, ORR_PRUNE_INVALID, n);
        return ORR_OK;
    }
    if (v.dominated && v.fits)
        ORR_TRY(remember(g, &v.explored, err));
    if (v.dominated) {
        prune(g, ORR_PRUNE_BOUND, n);
        g->item->result.bound = fmin(g->item->result.bound, bound_of(g, &v.explored));
        return ORR_OK;
    }
    if (!v.fits)
        return apply_memory_options(g, plan, memory_options, err);
    prune(g, ORR_PRUNE_DOMINATED, n - 1);
    return record(g, &v, err);
}

/* --- pruning of subtrees --------------------------------------------------------------------- */

/* Family bound on `devices`: all but the constant part scales inversely with their number. */
static double family_bound_on(const orr_search_thread *s, const orr_plan_family *f,
                              uint32_t devices)
{
    const double constant = s->space->constant_ns;
    if (!s->space->uniform_devices || f->floor_ns <= constant)
        return f->floor_ns;
    return constant + (f->floor_ns - constant) * s->space->most_devices / devices;
}

/* Tests the leanest plans with these degrees: one micro-batch in flight, everything sharded and
 * offloaded. Schedules split layers a little differently, so the leanest plan has to exceed the
 * memory by a quarter before the degrees are pruned. */
static orr_status is_too_big(family_search *g, const orr_plan *degrees, bool *ret, orr_error *err)
{
    const double MISS = 0.25;
    verdict v;
    bool fits = false;
    orr_status status = ORR_OK;
    g->testing_degrees = true;
    for (uint32_t zero = 1; zero <= 3 && !fits && status == ORR_OK; zero++) {
        orr_plan p = *degrees;
        p.schedule = ORR_SCHEDULE_1F1B;
        p.zero = zero;
        p.offload = ORR_OFFLOAD_BOTH;
        p.micro_batches = 1;
        p.batch = p.dp * p.micro_batch;
        if (p.recompute == ORR_RECOMPUTE_BLOCK)
            p.recompute = ORR_RECOMPUTE_FULL;
        status = evaluate(g, &p, &v, err);
        g->item->result.estimated -= !g->scanning;
        fits = status == ORR_OK && (!v.valid || orr_explored_fits(&v.explored, MISS));
    }
    g->testing_degrees = false;
    *ret = !fits;
    return status;
}

/* The sample that a scan visits. */
static bool is_scanned(family_search *g, orr_walk_depth depth, const orr_plan *plan)
{
    enum { LAYOUTS = 6 };
    switch (depth) {
    case ORR_WALK_DEGREES:
        g->layouts = 0;
        return (double)orr_plan_ranks(plan) >= 0.75 * g->search_thread->space->most_devices;
    case ORR_WALK_LAYOUT:
        return g->layouts++ < LAYOUTS;
    case ORR_WALK_SCHEDULE:
        return true;
    default:
        return plan->schedule == ORR_SCHEDULE_1F1B ||
               (plan->schedule == ORR_SCHEDULE_INTERLEAVED && plan->group < plan->micro_batches);
    }
}

/* Prunes a subtree if the incumbent dominates a lower bound of all its plans. */
static bool prune_subtree(family_search *g, double least_ns, uint32_t devices, double n)
{
    double least[ORR_OBJECTIVES];
    orr_space_objective_bounds(g->search_thread->space, least_ns, devices, g->effective_frac,
                               least);
    if (!orr_incumbent_dominates(&g->incumbent, least))
        return false;
    prune(g, ORR_PRUNE_BOUND, n);
    g->item->result.bound = fmin(g->item->result.bound, fmax(least[g->incumbent.objective], 0));
    return true;
}

static bool fail(family_search *g, orr_status status)
{
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        g->item->status = status;
    return g->item->status != ORR_OK;
}

/* Failures count once it is known that the degrees would be worth it without any. */
static bool enter_degrees(family_search *g, const orr_plan *plan, uint32_t devices, double n)
{
    const double least_ns = family_bound_on(g->search_thread, g->item->family, devices);
    g->item->result.plans += g->scanning ? 0 : (uint64_t)n;
    g->degrees_tested = false;
    g->effective_frac = 1;
    if (prune_subtree(g, least_ns, devices, n))
        return false;
    if (fail(g,
             orr_evaluator_most_effective(g->search_thread->evaluator, devices, plan->dp * plan->cp,
                                          &g->effective_frac, &g->item->err)))
        return false;
    return g->effective_frac >= 1 || !prune_subtree(g, least_ns, devices, n);
}

/* The memory test runs once for each choice of degrees, at its first layout. */
static bool enter_layout(family_search *g, const orr_plan *plan, double n)
{
    orr_plan degrees = *plan;
    memset(degrees.sites, 0, sizeof degrees.sites);
    memset(degrees.order, 0, sizeof degrees.order);
    degrees.cross = 0;
    degrees.dp_outer = 0;
    memset(degrees.section_stages, 0, sizeof degrees.section_stages);
    memset(degrees.section_layers, 0, sizeof degrees.section_layers);
    if (!g->degrees_tested && g->search_thread->space->uniform_devices &&
        fail(g, is_too_big(g, &degrees, &g->too_big, &g->item->err)))
        return false;
    g->degrees_tested = true;
    if (g->too_big)
        prune(g, ORR_PRUNE_MEMORY, n);
    return !g->too_big;
}

/* What plans of the space may use to have room. */
static orr_memory_scope memory_scope(const family_search *g)
{
    const orr_space *s = g->search_thread->space;
    orr_memory_scope scope = {.offloads_activations = s->constraints.offload,
                              .gradients = s->constraints.gradients ? ORR_PRECISION_BF16 : 0,
                              .slack = g->search_thread->slack};
    for (uint32_t i = 0; i < s->list[ORR_AT_zero].n; i++)
        scope.zeros |= (uint8_t)(1U << s->list[ORR_AT_zero].at[i]);
    return scope;
}

/* Prunes schedules that have no room, or not without transfers that take too long. */
static bool enter_with_memory(family_search *g, const orr_plan *plan, uint32_t devices, double n)
{
    const orr_memory_scope scope = memory_scope(g);
    double bound_ns = 0;
    const orr_status status = orr_evaluator_degrees_bound(g->search_thread->flat, plan, &scope,
                                                          true, &bound_ns, &g->item->err);
    if (fail(g, status))
        return false;
    if (status != ORR_OK)
        return true;
    if (isinf(bound_ns))
        prune(g, ORR_PRUNE_MEMORY, n);
    return !isinf(bound_ns) && !prune_subtree(g, bound_ns, devices, n);
}

static bool enter_schedule(family_search *g, const orr_plan *plan, bool anywhere, uint32_t devices,
                           double n)
{
    double bound_ns = 0;
    orr_plan p = *plan;
    p.recompute_layers = p.recompute == ORR_RECOMPUTE_BLOCK; /* at least one layer */
    orr_evaluator *evaluator = anywhere ? g->search_thread->flat : g->search_thread->ideal;
    for (int quick = orr_plan_has_pairs(&p); quick >= 0; quick--) {
        const orr_status status = orr_evaluator_order_free_bound(evaluator, &p, anywhere, quick > 0,
                                                                 &bound_ns, &g->item->err);
        if (fail(g, status))
            return false;
        if (status != ORR_OK)
            return true;
        if (prune_subtree(g, bound_ns, devices, n))
            return false;
    }
    return !anywhere || g->scanning || enter_with_memory(g, &p, devices, n);
}

static bool on_enter(void *ctx, orr_walk_depth depth, const orr_plan *plan, double n)
{
    family_search *g = ctx;
    const uint32_t devices = (uint32_t)orr_plan_ranks(plan);
    if (g->item->status != ORR_OK || (g->scanning && !is_scanned(g, depth, plan)))
        return false;
    switch (depth) {
    case ORR_WALK_DEGREES:
        return enter_degrees(g, plan, devices, n);
    case ORR_WALK_ANYWHERE:
        return !g->search_thread->space->uniform_devices ||
               enter_schedule(g, plan, true, devices, n);
    case ORR_WALK_SCHEDULE:
        return enter_schedule(g, plan, false, devices, n);
    default:
        return enter_layout(g, plan, n);
    }
}

void orr_family_search(const orr_search_thread *search_thread, orr_work_item *item)
{
    family_search g = {
        .search_thread = search_thread, .item = item, .incumbent = *search_thread->incumbent};
    const orr_plan_walk walk = {.enter = on_enter,
                                .leaf = on_leaf,
                                .ctx = &g,
                                .default_transports = search_thread->space->chooses_transport,
                                .counts = search_thread->counts,
                                .arena = search_thread->arena};
    const orr_status status =
        orr_space_walk(search_thread->space, &item->family->plan, &walk, &item->err);
    if (item->status == ORR_OK && !item->stopped)
        item->status = status;
    item->result.bounded = (uint64_t)item->result.pruned[ORR_PRUNE_BOUND];
}

/* --- scan ------------------------------------------------------------------------------------ */

/* Looks at the first way of sharding only. */
static orr_status on_scanned_leaf(void *ctx, const orr_plan *plan,
                                  const orr_memory_options *memory_options, orr_error *err)
{
    family_search *g = ctx;
    const uint8_t objective = g->incumbent.objective;
    const orr_plan degrees = *plan;
    const bool same = plan->dp == g->last_scanned.dp && plan->pp == g->last_scanned.pp &&
                      plan->schedule == g->last_scanned.schedule &&
                      plan->vp == g->last_scanned.vp &&
                      memcmp(plan->order, g->last_scanned.order, sizeof plan->order) == 0 &&
                      memcmp(plan->sites, g->last_scanned.sites, sizeof plan->sites) == 0;
    if (same && (plan->zero != g->last_scanned.zero || plan->shards != g->last_scanned.shards ||
                 plan->reshard != g->last_scanned.reshard))
        return ORR_OK;
    g->last_scanned = degrees;
    for (uint32_t i = 0; i < memory_options->n_offloads && i < 3; i++) {
        const orr_plan p = orr_plan_with_memory_option(plan, memory_options->max_recompute,
                                                       memory_options->offload[i]);
        verdict v;
        ORR_TRY(evaluate(g, &p, &v, err));
        if (!v.valid || (v.dominated && g->best_estimate.estimate_ns > 0))
            return ORR_OK;
        if (!orr_explored_fits(&v.explored, 0))
            continue;
        if (g->best_estimate.estimate_ns == 0 ||
            orr_explored_estimated_value(&v.explored, objective) <
                orr_explored_estimated_value(&g->best_estimate, objective))
            g->best_estimate = v.explored;
        g->incumbent.best =
            fmin(g->incumbent.best, orr_explored_estimated_value(&g->best_estimate, objective));
        return ORR_OK;
    }
    return ORR_OK;
}

void orr_family_search_scan(const orr_search_thread *search_thread, orr_work_item *item)
{
    family_search g = {.search_thread = search_thread,
                       .item = item,
                       .incumbent = *search_thread->incumbent,
                       .scanning = true};
    const orr_plan_walk walk = {.enter = on_enter,
                                .leaf = on_scanned_leaf,
                                .ctx = &g,
                                .default_transports = search_thread->space->chooses_transport,
                                .uncounted = true};
    const orr_status status =
        orr_space_walk(search_thread->space, &item->family->plan, &walk, &item->err);
    if (item->status == ORR_OK)
        item->status = status;
    if (item->status == ORR_OK && g.best_estimate.estimate_ns > 0 &&
        !orr_array_push(&item->left, g.best_estimate))
        item->status = orr_fail_memory(&item->err);
}
