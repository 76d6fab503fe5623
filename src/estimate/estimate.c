/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/estimate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "model/plan/plan.h"
#include "outcome/multi_pass.h"
#include "outcome/outcome.h"

/* --- the estimator: what all plans share ----------------------------------------------------- */

static orr_status check(const orr_model *model, const orr_job_options *o, orr_error *err)
{
    if (model->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: its shape is not published, so that nothing can be said of a step",
                        model->name);
    if (o->workload.task >= ORR_TASKS || o->algorithm >= ORR_ALGORITHMS)
        return orr_fail(err, ORR_INVALID, "no such task or algorithm");
    if (orr_task_is_multi_pass(o->workload.task) || !orr_task_trains(o->workload.task))
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s is simulated, not estimated: it is no training step of one pass",
                        orr_task_name((orr_task)o->workload.task));
    if (o->n_heterogeneous > 0 || o->n_slow > 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "ranks that are unlike the others are simulated, not "
                        "estimated");
    return ORR_OK;
}

static orr_status open_estimator(orr_estimator *e, orr_error *err)
{
    enum { SCRATCH_BYTES = 1 << 20 }; /* the first block is kept when the arena is cleared */
    e->arena = orr_arena_new(0, 0);
    e->scratch = orr_arena_new(SCRATCH_BYTES, 0);
    e->prices = orr_calloc(ORR_MEMO_PRICES, sizeof *e->prices);
    e->reductions = orr_calloc(ORR_ESTIMATE_REDUCTIONS, sizeof *e->reductions);
    if (e->arena == NULL || e->scratch == NULL || e->prices == NULL || e->reductions == NULL)
        return orr_fail_memory(err);
    uint32_t first;
    ORR_TRY(orr_estimate_device_of(e, e->cluster->device, &first, err));
    orr_job_rates_init(e->cluster, e->devices[first].calibration, e->options.algorithm, &e->rates);
    return e->model->moe.experts > 0
               ? orr_outcome_set_hosts(&e->options, e->cluster, e->arena, &e->options.workload, err)
               : ORR_OK;
}

orr_status orr_estimator_new(const orr_model *model, const orr_cluster *cluster,
                             const orr_job_options *options, orr_estimator **ret, orr_error *err)
{
    orr_job_options o;
    orr_job_options_init(&o);
    if (options != NULL)
        memcpy(&o, options, options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
    ORR_TRY(check(model, &o, err));
    orr_estimator *e = orr_calloc(1, sizeof *e);
    if (e == NULL)
        return orr_fail_memory(err);
    e->model = model;
    e->cluster = cluster;
    e->options = o;
    const orr_status status = open_estimator(e, err);
    if (status == ORR_OK)
        *ret = e;
    else
        orr_estimator_free(e);
    return status;
}

void orr_estimator_free(orr_estimator *e)
{
    if (e == NULL)
        return;
    orr_memo *const memos[] = {&e->rows,   &e->shapes, &e->places,    &e->spans, &e->known_rates,
                               &e->splits, &e->cuts,   &e->pipelines, &e->pairs};
    for (size_t i = 0; i < sizeof memos / sizeof *memos; i++)
        orr_memo_done(memos[i]);
    for (uint32_t i = 0; i < ORR_CACHED_MODULES; i++)
        orr_arena_free(e->built[i].arena);
    orr_free(e->prices);
    orr_free(e->reductions);
    orr_arena_free(e->paired.arena);
    orr_arena_free(e->scratch);
    orr_arena_free(e->arena);
    orr_free(e);
}

/* --- one plan --------------------------------------------------------------------------------- */

static void sum_class(orr_estimate_draft *d, uint32_t class_of)
{
    const orr_stage_class *class = &d->partition->classes[class_of];
    const double stretch = d->place->stretch;
    const orr_calibration *c = orr_draft_device(d, class)->calibration;
    const double host = stretch * c->micro_batch_ns / 2;
    const orr_priced_row *row = orr_draft_row(d, class);
    orr_estimate_sums *s = &d->sums[class_of];
    *s = (orr_estimate_sums){0};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_priced_module *module = &row->modules[m];
        const double n = class->count[m], ns = n * stretch;
        if (class->count[m] == 0)
            continue;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
            const double span = orr_estimate_span(c, stretch, module, phase);
            s->phase_ns[phase] += n * span;
            const bool runs = phase == ORR_SLOT_FORWARD ||
                              orr_splits_backward(d->plan) == (phase != ORR_SLOT_BACKWARD);
            if (!runs)
                continue;
            s->compute_ns +=
                ns * module->compute_ns[phase] + n * span - ns * module->span_ns[phase];
            s->again_ns += ns * module->again_ns[phase];
            for (int part = 0; part < ORR_WATERFALLS; part++)
                s->waited_ns[part] += ns * module->waited_ns[phase][part];
        }
        s->dense += n * (double)module->weights.dense;
        s->expert += n * (double)module->weights.expert;
        s->sliced += n * (double)module->weights.sliced;
        s->tied += n * (double)module->weights.tied;
    }
    for (int phase = 0; phase<ORR_SLOT_PHASES &&class->n_places> 0; phase++)
        if (phase != ORR_SLOT_WEIGHT)
            s->phase_ns[phase] += host;
}

orr_plan orr_estimate_plan_of(const orr_plan *plan, const orr_device_pattern *pattern)
{
    return pattern->micro_batches > 0 ? orr_plan_with_micro_batches(plan, pattern->micro_batches)
                                      : *plan;
}

uint32_t orr_estimate_sequence(const orr_estimator *e, const orr_plan *plan)
{
    enum { USUAL = 8192 };
    if (e->options.workload.seq > 0 || plan->seq > 0)
        return e->options.workload.seq > 0 ? e->options.workload.seq : plan->seq;
    return e->model->context > 0 && e->model->context < USUAL ? e->model->context : USUAL;
}

static orr_status find_parts(orr_estimate_draft *d, orr_error *err)
{
    for (uint32_t i = 0; i < d->pattern->n; i++)
        ORR_TRY(orr_estimate_row(d->e, d->plan, d->place, d->pattern->device[i], &d->rows[i], err));
    d->row = d->rows[0];
    ORR_TRY(
        orr_estimate_partition(d->e, d->plan, d->row, d->place, d->pattern, &d->partition, err));
    return orr_estimate_pipeline(d->e, d->plan, d->partition, d->place, &d->pipeline, err);
}

/* Estimates one device pattern of the pipelines, as if all pipelines were like it. */
static orr_status estimate_pattern(orr_estimate_draft *d, orr_error *err)
{
    ORR_TRY(find_parts(d, err));
    for (uint32_t h = 0; h < d->place->n_hops; h++)
        d->hop_ns[h] = d->place->stretch * orr_estimate_hop(d->e, d->place, h, ORR_COLL_SEND,
                                                            d->row->row.boundary_bytes);
    for (uint32_t c = 0; c < d->partition->n_classes; c++) {
        sum_class(d, c);
        orr_estimate_shards(d, c);
    }
    for (uint32_t i = 0; i < d->pipeline->n_ends; i++)
        d->tails[i] = orr_estimate_tail(d, i);
    d->parts = orr_estimate_add_up(d);
    return orr_plan_has_pairs(d->plan) ? orr_estimate_overlapped_pairs(d, &d->pairs, err) : ORR_OK;
}

/* Combines pipelines with different patterns: all meet after the slowest and do the rest of the
 * step at once. With local steps they meet at the end only. */
static orr_step_parts join_stages(const orr_estimate_draft *all, uint32_t n, bool apart,
                                  uint32_t *ret_latest)
{
    orr_step_parts most = {0};
    for (uint32_t i = 0; i < n; i++) {
        const orr_step_parts *p = &all[i].parts;
        if (apart ? p->step > most.step : p->before > most.before) {
            most.before = p->before;
            most.step = p->step;
            most.update = p->update;
            most.transfers = p->transfers;
            *ret_latest = i;
        }
        most.after = fmax(most.after, p->after);
        most.rest = fmax(most.rest, p->rest);
    }
    if (!apart)
        most.step = most.before + most.after + most.rest;
    return most;
}

static orr_status fill_memory(const orr_estimate_draft *d, orr_estimate *ret, orr_error *err)
{
    orr_stage_peak peak;
    ORR_TRY(orr_estimate_memory(d, &peak, err));
    const bool first = ret->peak_bytes == 0;
    const int64_t over = peak.bytes - (peak.usable_bytes >= 0 ? peak.usable_bytes : INT64_MAX / 2);
    const int64_t worst =
        ret->peak_bytes - (ret->usable_bytes >= 0 ? ret->usable_bytes : INT64_MAX / 2);
    if (first || over > worst) {
        ret->peak_bytes = peak.bytes;
        ret->usable_bytes = peak.usable_bytes;
    }
    ret->fits = ret->usable_bytes < 0 || ret->peak_bytes <= ret->usable_bytes;
    return ORR_OK;
}

static orr_status estimate_all(orr_estimate_draft *all, uint32_t n, orr_estimate *ret,
                               orr_error *err)
{
    const bool apart = all[0].plan->local_steps > 1;
    orr_bound_parts bound = {0};
    double least = 0;
    uint32_t latest = 0;
    for (uint32_t i = 0; i < n; i++) {
        ORR_TRY(estimate_pattern(&all[i], err));
        ORR_TRY(fill_memory(&all[i], ret, err));
        if (apart)
            bound = (orr_bound_parts){0};
        orr_estimate_bound(&all[i], &bound);
        least = fmax(least, orr_bound_sum(&all[i], &bound));
    }
    const orr_step_parts parts = join_stages(all, n, apart, &latest);
    orr_estimate_report(&all[latest], &parts, ret);
    ret->bound_ns = (int64_t)least;
    return ORR_OK;
}

orr_status orr_estimate_of(orr_estimator *e, const orr_plan *given, orr_estimate *ret,
                           orr_error *err)
{
    orr_plan plan =
        orr_plan_with_job_defaults(given, e->model, e->options.workload.task, e->cluster);
    orr_estimate made = {0};
    orr_estimate_draft drafts[ORR_SITES_MAX];
    orr_plan plans[ORR_SITES_MAX];
    const orr_placement *place;
    e->n_reductions = 0;
    ORR_TRY(orr_plan_check(&plan, err));
    plan.seq = orr_estimate_sequence(e, given);
    ORR_TRY(orr_estimate_placement(e, &plan, &place, err));
    for (uint32_t i = 0; i < place->n_patterns; i++) {
        plans[i] = orr_estimate_plan_of(&plan, &place->patterns[i]);
        drafts[i] =
            (orr_estimate_draft){.e = e,
                                 .plan = &plans[i],
                                 .place = place,
                                 .pattern = &place->patterns[i],
                                 .trains = true,
                                 .overlaps = plan.overlap_dp == ORR_SWITCH_ON,
                                 .gradient_bytes = orr_precision_element_bytes(plan.gradients),
                                 .weight_bytes = orr_precision_element_bytes(plan.precision)};
    }
    ORR_TRY(estimate_all(drafts, place->n_patterns, &made, err));
    *ret = made;
    return ORR_OK;
}
