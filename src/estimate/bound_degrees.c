/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/plan/plan.h"
#include "estimate/bound_terms.h"

/* Bound of degrees: the order-free bound, with what memory forces. The leanest plan of each ZeRO
 * stage is weighed: optimizer states on the host, all that is sharded as far as it can be. Of those
 * that have room the least bound is taken; INFINITY: none has.
 *
 *    in each stage       gathers and reductions, as far as they certainly stall its slots, among
 *                        every number of ranks
 *    ZeRO 2, 3           those of every micro-batch; only among ranks whose shards have room
 *    recompute=block     as many layers of each chunk as have to be computed again
 *
 * Memory is that of the estimate (memory.c), at one moment of each stage: the begin of its first
 * backward slot, or, of ZB-V and DualPipe, of the one with most micro-batches in flight, all of
 * them in the lighter chunk. It is the peak of all moments that a plan has to fit. */

/* --- micro-batches in flight ------------------------------------------------------------------ */

/* Forward slots of a chunk among the first n of a stage (model/schedule/gpipe_1f1b.c). */
static uint32_t forwards_of(const orr_schedule_spec *spec, uint64_t n, uint32_t chunk)
{
    const uint32_t group = spec->group > 0 ? spec->group : 1, m = spec->micro_batches;
    uint64_t done = 0, sum = 0;
    for (uint32_t first = 0; first < m && done < n; first += group) {
        const uint32_t size = m - first < group ? m - first : group;
        const uint64_t before = done + (uint64_t)chunk * size;
        const uint64_t left = n > before ? n - before : 0;
        sum += left < size ? left : size;
        done += (uint64_t)size * spec->chunks;
    }
    return (uint32_t)sum;
}

static void fill_in_flight(const orr_schedule_spec *spec, uint32_t stage, orr_peak_in_flight *ret)
{
    const uint32_t p = spec->stages, m = spec->micro_batches, v = spec->chunks;
    const uint64_t all = (uint64_t)m * v;
    uint64_t n = p - 1 - stage + 1U + spec->overlapped;
    if (spec->schedule == ORR_SCHEDULE_GPIPE || orr_schedule_fills_at_once(spec))
        n = all;
    else if (v > 1)
        n += p - 1 - stage + (uint64_t)(v - 1) * spec->group;
    for (uint32_t c = 0; c < v; c++)
        ret[c].kept =
            v > 1 ? forwards_of(spec, n < all ? n : all, c) : (uint32_t)(n < all ? n : all);
}

/* Those of ZB-V and DualPipe, whose chunks share a stage's: of all chunks together. */
static uint32_t shared_in_flight(const orr_schedule_spec *spec)
{
    const uint32_t p = spec->stages, m = spec->micro_batches;
    if (spec->schedule == ORR_SCHEDULE_DUALPIPE)
        return p + 1;
    return spec->schedule != ORR_SCHEDULE_ZB_V ? 0 : 2 * p < m ? 2 * p : m;
}

static int64_t kept_bytes(const orr_estimate_draft *d, const orr_schedule_spec *spec,
                          uint32_t stage, uint32_t chunk)
{
    const orr_stage_class *class =
        &d->partition
             ->classes[d->partition->class_of[orr_schedule_virtual_stage_at(spec, stage, chunk)]];
    int64_t sum = 0;
    for (uint32_t m = 0; m < d->row->row.n_modules; m++)
        sum += class->min_count[m] * d->row->modules[m].memory.kept_bytes;
    return sum;
}

/* --- memory ----------------------------------------------------------------------------------- */

/* Whether the plan of the draft has room, at the moments that are known. */
static orr_status has_room(orr_estimate_draft *d, double slack, bool *ret, orr_error *err)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const bool input = orr_splits_backward(d->plan);
    const uint32_t shared = shared_in_flight(&spec);
    orr_peak_in_flight *held = orr_calloc((size_t)spec.stages * spec.chunks, sizeof *held);
    orr_pipeline pipeline = {0};
    orr_stage_peak peak;
    if (held == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < spec.stages; s++) {
        orr_peak_in_flight *at = &held[s * spec.chunks];
        if (shared == 0)
            fill_in_flight(&spec, s, at);
        else
            at[kept_bytes(d, &spec, s, 1) < kept_bytes(d, &spec, s, 0)].kept = shared;
    }
    pipeline.held[2 * (input ? ORR_SLOT_INPUT : ORR_SLOT_BACKWARD)] = held;
    d->pipeline = &pipeline;
    const orr_status status = orr_estimate_memory(d, &peak, err);
    d->pipeline = NULL;
    orr_free(held);
    if (status == ORR_OK)
        *ret =
            peak.usable_bytes < 0 || (double)peak.bytes <= (double)peak.usable_bytes * (1 + slack);
    return status;
}

/* --- the leanest plan of a ZeRO stage --------------------------------------------------------- */

typedef struct degrees {
    orr_estimator *e;
    const orr_degrees_scope *scope;
    bool anywhere;
    uint32_t pattern;
} degrees;

static orr_status open_draft(const degrees *g, const orr_plan *plan, orr_estimate_draft *d,
                             orr_error *err)
{
    *d = (orr_estimate_draft){.e = g->e,
                              .plan = plan,
                              .trains = true,
                              .overlaps = plan->overlap_dp == ORR_SWITCH_ON,
                              .gradient_bytes = orr_precision_element_bytes(plan->gradients),
                              .weight_bytes = orr_precision_element_bytes(plan->precision)};
    ORR_TRY(orr_estimate_placement(g->e, plan, &d->place, err));
    d->pattern = &d->place->patterns[g->pattern];
    return orr_order_free_parts(d, false, false, err);
}

static orr_status fits(const degrees *g, const orr_plan *plan, bool *ret, orr_error *err)
{
    orr_estimate_draft d;
    ORR_TRY(open_draft(g, plan, &d, err));
    return has_room(&d, g->scope->slack, ret, err);
}

/* The fewest recomputed layers with which the plan has room. */
static orr_status recompute_least(const degrees *g, orr_plan *plan, bool *ret, orr_error *err)
{
    const orr_schedule_spec spec = orr_plan_schedule(plan);
    const uint32_t parts = orr_schedule_virtual_stages(&spec);
    uint32_t low = plan->recompute_layers, high = (g->e->model->layers + parts - 1) / parts + 1;
    ORR_TRY(fits(g, plan, ret, err));
    if (*ret || plan->recompute != ORR_RECOMPUTE_BLOCK || high <= low)
        return ORR_OK;
    plan->recompute_layers = high;
    ORR_TRY(fits(g, plan, ret, err));
    while (*ret && high - low > 1) {
        bool enough;
        plan->recompute_layers = (low + high) / 2;
        ORR_TRY(fits(g, plan, &enough, err));
        *(enough ? &high : &low) = plan->recompute_layers;
    }
    plan->recompute_layers = high;
    return ORR_OK;
}

/* Ranks among which shards have no room, and so at least as many as half of those that have. */
static orr_status find_fewest(const degrees *g, orr_plan *plan, uint32_t *ret, orr_error *err)
{
    uint32_t ranks = plan->dp * plan->cp;
    *ret = 1;
    for (bool enough = true; enough && ranks % 2 == 0;) {
        plan->shards = ranks / 2;
        ORR_TRY(fits(g, plan, &enough, err));
        ranks = plan->shards;
        *ret = enough ? *ret : ranks;
    }
    return ORR_OK;
}

static orr_status bound_shards(const degrees *g, orr_plan *plan, uint32_t shards, double *least_ns,
                               orr_error *err)
{
    orr_estimate_draft d;
    plan->shards = shards;
    ORR_TRY(open_draft(g, plan, &d, err));
    *least_ns = fmin(*least_ns, orr_order_free_ns(&d, g->anywhere, true));
    return ORR_OK;
}

/* The least of all numbers of ranks that share, from `fewest` on. */
static orr_status bound_all_shards(const degrees *g, orr_plan *plan, uint32_t fewest,
                                   double *least_ns, orr_error *err)
{
    const uint32_t ranks = plan->dp * plan->cp;
    for (uint32_t i = 1; (uint64_t)i * i <= ranks; i++) {
        if (ranks % i != 0)
            continue;
        if (i >= fewest)
            ORR_TRY(bound_shards(g, plan, i, least_ns, err));
        if (ranks / i >= fewest && ranks / i != i)
            ORR_TRY(bound_shards(g, plan, ranks / i, least_ns, err));
    }
    return ORR_OK;
}

/* ZeRO stages, 3 with weights that are gathered for each slot, and that stay. */
typedef struct sharding {
    uint8_t zero, reshard;
} sharding;
static const sharding SHARDINGS[] = {{1, 0}, {2, 0}, {3, ORR_SWITCH_ON}, {3, ORR_SWITCH_OFF}};

/* `most_ns`: a bound of more is of no use. */
static orr_status bound_sharding(const degrees *g, const orr_plan *given, const sharding *way,
                                 double most_ns, double *ret_ns, orr_error *err)
{
    const uint8_t zero = way->zero;
    orr_plan plan = *given;
    bool room;
    plan.zero = zero;
    plan.shards = 0;
    plan.offload = g->scope->offloads_activations ? ORR_OFFLOAD_BOTH : ORR_OFFLOAD_OPTIMIZER;
    plan.bucket_bytes = UINT32_MAX;
    plan.reshard = way->reshard;
    if (plan.gradients == 0)
        plan.gradients = g->scope->gradients;
    plan = orr_plan_with_defaults(&plan);
    ORR_TRY(recompute_least(g, &plan, &room, err));
    *ret_ns = INFINITY;
    if (!room)
        return ORR_OK;
    orr_estimate_draft d;
    ORR_TRY(open_draft(g, &plan, &d, err));
    const double alone = orr_order_free_ns(&d, g->anywhere, false);
    if (g->scope->other_sums || alone >= most_ns) { /* at least that */
        *ret_ns = alone;
        return ORR_OK;
    }
    uint32_t fewest = 1;
    if (zero > 1)
        ORR_TRY(find_fewest(g, &plan, &fewest, err));
    ORR_TRY(bound_all_shards(g, &plan, fewest, ret_ns, err));
    if (zero > 1)
        return ORR_OK;
    plan.zero = 0;
    return bound_shards(g, &plan, 0, ret_ns, err);
}

/* The least of all ways. Where gradients have room as a whole, sharding them only adds transfers;
 * but layers are split otherwise. */
static orr_status bound_pattern(const degrees *g, const orr_plan *plan, double *ret_ns,
                                orr_error *err)
{
    *ret_ns = INFINITY;
    for (size_t i = 0; i < sizeof SHARDINGS / sizeof *SHARDINGS; i++) {
        const uint8_t zero = SHARDINGS[i].zero;
        double ns;
        if (!(g->scope->zeros >> zero & 1) && !(zero == 1 && g->scope->zeros & 1))
            continue;
        ORR_TRY(bound_sharding(g, plan, &SHARDINGS[i], *ret_ns, &ns, err));
        *ret_ns = fmin(*ret_ns, ns);
    }
    return ORR_OK;
}

orr_status orr_estimate_degrees_bound(orr_estimator *e, const orr_plan *given,
                                      const orr_degrees_scope *scope, bool anywhere, double *ret_ns,
                                      orr_error *err)
{
    orr_plan plan =
        orr_plan_with_job_defaults(given, e->model, e->options.workload.task, e->cluster);
    const orr_placement *place;
    double most = 0;
    ORR_TRY(orr_plan_check(&plan, err));
    plan.gradients = given->gradients;
    plan.seq = orr_estimate_sequence(e, given);
    ORR_TRY(orr_estimate_placement(e, &plan, &place, err));
    for (uint32_t i = 0; i < place->n_patterns; i++) {
        double ns;
        const degrees g = {e, scope, anywhere, i};
        ORR_TRY(bound_pattern(&g, &plan, &ns, err));
        most = fmax(most, ns);
    }
    *ret_ns = orr_order_free_rounded(most);
    return ORR_OK;
}
