/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "estimate/estimate.h"
#include "explore/explore.h"

/* Simulation of one candidate: with its transports chosen, and with plans of less memory put in its
 * place when the simulated peak does not fit. */

/* --- candidates that do not fit -------------------------------------------------------------- */

static orr_status keep_unless_dominated(const orr_search_thread *search_thread, orr_work_item *item,
                                        const orr_explored *e, orr_error *err)
{
    const double bound = e->value[search_thread->incumbent->objective];
    if (orr_incumbent_dominates(search_thread->incumbent, e->value)) {
        item->result.bound = fmin(item->result.bound, isnan(bound) ? 0 : bound);
        return ORR_OK;
    }
    return orr_array_push(&item->left, *e) ? ORR_OK : orr_fail_memory(err);
}

static orr_status keep_plan(const orr_search_thread *search_thread, orr_evaluator *evaluator,
                            orr_work_item *item, const orr_plan *plan, uint32_t recompute,
                            uint8_t offload, orr_error *err)
{
    const orr_plan p = orr_plan_with_memory_option(plan, recompute, offload);
    orr_explored e;
    const orr_status status = orr_evaluator_estimate(evaluator, &p, &e, err);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    e.plan = p;
    return status == ORR_OK ? keep_unless_dominated(search_thread, item, &e, err) : ORR_OK;
}

static orr_status keep_all(const orr_search_thread *search_thread, orr_evaluator *evaluator,
                           orr_work_item *item, const orr_plan *plan, const orr_memory_options *r,
                           uint8_t offload, orr_error *err)
{
    const uint32_t most = orr_offloads_activations(offload) ? r->max_recompute : r->min_recompute;
    for (uint32_t recompute = r->min_recompute; recompute <= most; recompute++)
        ORR_TRY(keep_plan(search_thread, evaluator, item, plan, recompute, offload, err));
    return ORR_OK;
}

/* Puts into `left` the plans next to `plan` in memory: one more recomputed layer, or another
 * offload. The family search skipped them because the estimate said that `plan` fits. */
orr_status orr_candidate_reduce_memory(const orr_search_thread *search_thread,
                                       orr_evaluator *evaluator, orr_work_item *item,
                                       const orr_plan *plan, orr_error *err)
{
    const orr_plan whole = orr_plan_with_defaults(plan);
    const uint8_t offload = whole.offload;
    orr_memory_options r;
    if (!orr_space_memory_options(search_thread->space, &whole, &r))
        return ORR_OK;
    if (plan->recompute_layers < r.max_recompute && !orr_offloads_activations(offload))
        ORR_TRY(keep_plan(search_thread, evaluator, item, plan, plan->recompute_layers + 1, offload,
                          err));
    if (plan->recompute_layers > r.min_recompute)
        return ORR_OK;
    for (uint32_t i = 0; i < r.n_offloads; i++) {
        const bool both = r.offload[i] == ORR_OFFLOAD_BOTH;
        if (r.offload[i] != offload &&
            (both ? offload != ORR_OFFLOAD_NONE || r.n_offloads == 2 : offload == ORR_OFFLOAD_NONE))
            ORR_TRY(keep_all(search_thread, evaluator, item, plan, &r, r.offload[i], err));
    }
    return ORR_OK;
}

/* --- a candidate ---------------------------------------------------------------------------- */

orr_status orr_search_thread_simulate(const orr_search_thread *search_thread,
                                      const orr_explored *candidate, orr_work_item *item,
                                      orr_explored *ret, orr_error *err)
{
    const orr_plan plan = orr_plan_without_defaults(&candidate->plan);
    orr_arena *arena = orr_arena_new(1024, 0);
    const char *text = arena != NULL ? orr_plan_text(&plan, arena) : NULL;
    orr_status status = text != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK && !orr_space_runs(search_thread->space, &plan)) {
        status = ORR_INVALID;
    } else if (status == ORR_OK && search_thread->results != NULL &&
               orr_results_plan(search_thread->results, text, ret)) {
        item->resumed++;
    } else if (status == ORR_OK) {
        status = orr_evaluator_simulate(search_thread->evaluator, &plan, ret, err);
    }
    orr_arena_free(arena);
    if (status != ORR_OK && status != ORR_NO_MEMORY && status != ORR_IO) {
        *ret = *candidate; /* the estimator accepts it, the simulator does not: invalid */
        ret->step_ns = 0;
        status = ORR_OK;
    }
    ORR_TRY(status);
    ret->plan = plan;
    return orr_array_push(&item->simulated, *ret) ? ORR_OK : orr_fail_memory(err);
}

void orr_candidate_simulate(const orr_search_thread *search_thread, orr_work_item *item)
{
    orr_explored simulated;
    item->status =
        orr_search_thread_simulate(search_thread, &item->candidate, item, &simulated, &item->err);
    if (item->status == ORR_OK && simulated.step_ns > 0 && !orr_explored_fits(&simulated, 0))
        item->status = orr_candidate_reduce_memory(search_thread, search_thread->evaluator, item,
                                                   &item->candidate.plan, &item->err);
}

/* --- transports and reductions of a candidate ------------------------------------------------ */

/* A choice of reductions that was looked at. */
typedef struct reductions {
    uint32_t prefetch, bucket_bytes, n;
    const double *ns; /* shape (n): times of the transfers that the estimate asked for */
} reductions;
typedef struct transport_visit {
    const orr_search_thread *search_thread;
    orr_work_item *item;
    orr_arena *arena;
    orr_array(reductions) known; /* with the same transports */
} transport_visit;

/* Whether no transfer is shorter than with the other choice, so that no step is: simulated steps
 * grow with the durations of their tasks (tests/property/test_monotone.c). In other buckets there
 * are other transfers, unless all have equal times. */
static bool is_dominated(const reductions *a, const reductions *by)
{
    const bool same = a->bucket_bytes == by->bucket_bytes;
    if (a->prefetch != by->prefetch || a->n != by->n || a->n >= ORR_ESTIMATE_REDUCTIONS)
        return false;
    for (uint32_t i = 0; i < a->n; i++)
        if (a->ns[i] < by->ns[i] || (!same && a->ns[i] > by->ns[i]))
            return false;
    return true;
}

/* Keeps the choice unless an earlier one dominates it. */
static orr_status add_reductions(transport_visit *w, const orr_plan *plan, bool *ret_dominated,
                                 orr_error *err)
{
    reductions r = {.prefetch = plan->prefetch, .bucket_bytes = plan->bucket_bytes};
    const double *ns = orr_evaluator_reductions(w->search_thread->evaluator, &r.n);
    r.ns = ns;
    *ret_dominated = false;
    for (size_t i = 0; i < w->known.n && !*ret_dominated; i++)
        *ret_dominated = is_dominated(&r, &w->known.at[i]);
    if (*ret_dominated)
        return ORR_OK;
    double *kept = orr_arena_array(w->arena, double, r.n + 1);
    if (kept == NULL)
        return orr_fail_memory(err);
    memcpy(kept, ns, r.n * sizeof *kept);
    r.ns = kept;
    return orr_array_push(&w->known, r) ? ORR_OK : orr_fail_memory(err);
}

static orr_status on_reduction(void *ctx, const orr_plan *plan, orr_error *err)
{
    transport_visit *w = ctx;
    orr_explored e;
    bool dominated;
    const orr_status status = orr_evaluator_estimate(w->search_thread->evaluator, plan, &e, err);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    if (status != ORR_OK)
        return ORR_OK;
    e.plan = *plan;
    ORR_TRY(add_reductions(w, plan, &dominated, err));
    return dominated ? ORR_OK : keep_unless_dominated(w->search_thread, w->item, &e, err);
}

/* Transports first, each bounded for all of its reductions. */
static orr_status on_transport(void *ctx, const orr_plan *plan, orr_error *err)
{
    transport_visit *w = ctx;
    const orr_search_thread *search_thread = w->search_thread;
    orr_explored e;
    w->known.n = 0;
    orr_arena_reset(w->arena);
    orr_evaluator_any_reductions(search_thread->evaluator, true);
    const orr_status status = orr_evaluator_estimate(search_thread->evaluator, plan, &e, err);
    orr_evaluator_any_reductions(search_thread->evaluator, false);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        return status;
    if (status != ORR_OK)
        return ORR_OK;
    if (!orr_incumbent_dominates(search_thread->incumbent, e.value))
        return orr_space_each_reduction(search_thread->space, plan, on_reduction, ctx, err);
    const double bound = e.value[search_thread->incumbent->objective];
    w->item->result.bound = fmin(w->item->result.bound, isnan(bound) ? 0 : bound);
    return ORR_OK;
}

void orr_candidate_choose_transport(const orr_search_thread *search_thread, orr_work_item *item)
{
    transport_visit w = {
        .search_thread = search_thread, .item = item, .arena = orr_arena_new(0, 0)};
    orr_explored simulated;
    size_t best = 0;
    item->status = w.arena == NULL
                       ? orr_fail_memory(&item->err)
                       : orr_space_each_transport(search_thread->space, &item->candidate.plan,
                                                  on_transport, &w, &item->err);
    orr_array_done(&w.known);
    orr_arena_free(w.arena);
    for (size_t i = 1; i < item->left.n; i++)
        if (item->left.at[i].estimate_ns < item->left.at[best].estimate_ns)
            best = i;
    if (item->status == ORR_OK && item->left.n > 0 &&
        orr_explored_estimated_value(&item->left.at[best], search_thread->incumbent->objective) <
            search_thread->incumbent->best)
        item->status = orr_search_thread_simulate(search_thread, &item->left.at[best], item,
                                                  &simulated, &item->err);
    else
        return;
    if (item->status == ORR_OK && simulated.step_ns > 0 && !orr_explored_fits(&simulated, 0)) {
        const orr_plan plan = item->left.at[best].plan;
        item->status = orr_candidate_reduce_memory(search_thread, search_thread->evaluator, item,
                                                   &plan, &item->err);
    }
}

void orr_work_item_done(orr_work_item *item)
{
    orr_array_done(&item->left);
    orr_array_done(&item->simulated);
    orr_array_done(&item->seen);
}
