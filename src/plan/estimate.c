/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/estimate.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "plan/phases.h"

/* --- what all plans have in common ------------------------------------------------------------ */

static orr_status check(const orr_model *model, const orr_job_options *o, orr_error *err)
{
    if (model->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: its shape is not published, so that nothing can be said of a step",
                        model->name);
    if (o->workload.task >= ORR_TASKS || o->algorithm >= ORR_ALGORITHMS)
        return orr_fail(err, ORR_INVALID, "no such task or algorithm");
    if (orr_task_has_phases(o->workload.task) || !orr_task_trains(o->workload.task))
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s is simulated, not estimated: it is no training step of one pass",
                        orr_task_name((orr_task)o->workload.task));
    if (o->n_odd > 0 || o->n_slow > 0)
        return orr_fail(err, ORR_UNSUPPORTED, "ranks that are unlike the others are simulated, not "
                                              "estimated");
    return ORR_OK;
}

static orr_status open_estimator(orr_estimator *e, orr_error *err)
{
    e->arena = orr_arena_new(0, 0);
    e->scratch = orr_arena_new(0, 0);
    e->prices = orr_calloc(ORR_MEMO_PRICES, sizeof *e->prices);
    if (e->arena == NULL || e->scratch == NULL || e->prices == NULL)
        return orr_fail_memory(err);
    e->calibration = e->options.calibration;
    if (e->calibration == NULL)
        ORR_TRY(orr_calibration_of(e->cluster->device, e->arena, &e->calibration, err));
    orr_rates_open(e->cluster, e->calibration, e->options.algorithm, &e->rates);
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++)
        e->peak_flops[dtype] = orr_fact_or(&e->cluster->device->peak_flops[dtype], NAN);
    e->usable_bytes = orr_usable_bytes(e->cluster->device);
    return ORR_OK;
}

orr_status orr_estimator_new(const orr_model *model, const orr_cluster *cluster,
                             const orr_job_options *options, orr_estimator **ret, orr_error *err)
{
    orr_job_options o;
    orr_job_options_init(&o);
    if (options != NULL)
        memcpy(&o, options,
               options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
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
    orr_memo *const memos[] = {&e->rows,  &e->shapes, &e->places,
                               &e->spans, &e->cuts,   &e->pipelines};
    for (size_t i = 0; i < sizeof memos / sizeof *memos; i++)
        orr_memo_done(memos[i]);
    orr_free(e->prices);
    orr_arena_free(e->scratch);
    orr_arena_free(e->arena);
    orr_free(e);
}

/* --- one plan ---------------------------------------------------------------------------------- */

static void sum_class(orr_estimate_draft *d, uint32_t class_of)
{
    const orr_cut_class *class = &d->cut->classes[class_of];
    const double stretch = d->place->stretch;
    const double host = stretch * d->e->calibration->micro_batch_ns / 2;
    orr_estimate_sums *s = &d->sums[class_of];
    *s = (orr_estimate_sums){0};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_priced_module *module = &d->row->modules[m];
        const double n = class->count[m], ns = n * stretch;
        if (class->count[m] == 0)
            continue;
        for (int phase = 0; phase < ORR_TURN_PHASES; phase++)
            s->phase_ns[phase] += ns * module->span_ns[phase];
        for (int phase = 0; phase < ORR_TURN_PHASES; phase++) {
            const bool runs = phase == ORR_TURN_FORWARD ||
                              orr_splits_backward(d->plan) == (phase != ORR_TURN_BACKWARD);
            if (!runs)
                continue;
            s->compute_ns += ns * module->compute_ns[phase];
            s->again_ns += ns * module->again_ns[phase];
            for (int part = 0; part < ORR_WATERFALLS; part++)
                s->waited_ns[part] += ns * module->waited_ns[phase][part];
        }
        s->dense += n * (double)module->weights.dense;
        s->expert += n * (double)module->weights.expert;
        s->sliced += n * (double)module->weights.sliced;
        s->tied += n * (double)module->weights.tied;
    }
    for (int phase = 0; phase < ORR_TURN_PHASES && class->n_places > 0; phase++)
        if (phase != ORR_TURN_WEIGHT)
            s->phase_ns[phase] += host;
}

static uint32_t sequence_of(const orr_estimator *e, const orr_plan *plan)
{
    enum { USUAL = 8192 };
    if (e->options.workload.seq > 0 || plan->seq > 0)
        return e->options.workload.seq > 0 ? e->options.workload.seq : plan->seq;
    return e->model->context > 0 && e->model->context < USUAL ? e->model->context : USUAL;
}

static double bytes_of_precision(uint8_t precision)
{
    return precision == ORR_PRECISION_FP32 || precision == ORR_PRECISION_TF32 ? 4 : 2;
}

static orr_status find_parts(orr_estimate_draft *d, orr_error *err)
{
    ORR_TRY(orr_estimate_place(d->e, d->plan, &d->place, err));
    ORR_TRY(orr_estimate_row(d->e, d->plan, d->place, &d->row, err));
    ORR_TRY(orr_estimate_cut(d->e, d->plan, d->row, &d->cut, err));
    return orr_estimate_pipeline(d->e, d->plan, d->cut, d->place, &d->pipeline, err);
}

orr_status orr_estimate_of(orr_estimator *e, const orr_plan *given, orr_estimate *ret,
                           orr_error *err)
{
    orr_plan plan = orr_plan_completed(given);
    orr_estimate made = {0};
    ORR_TRY(orr_plan_check(&plan, err));
    plan.seq = sequence_of(e, given);
    orr_estimate_draft d = {.e = e,
                            .plan = &plan,
                            .trains = true,
                            .beside = plan.overlap_dp == ORR_SWITCH_ON,
                            .gradient_bytes = bytes_of_precision(plan.gradients),
                            .weight_bytes = bytes_of_precision(plan.precision)};
    ORR_TRY(find_parts(&d, err));
    for (uint32_t h = 0; h < d.place->n_hops; h++)
        d.hop_ns[h] =
            d.place->stretch * orr_estimate_hop(e, d.place, h, d.row->row.boundary_bytes);
    for (uint32_t c = 0; c < d.cut->n_classes; c++) {
        sum_class(&d, c);
        orr_estimate_shards(&d, c);
    }
    const orr_step_parts parts = orr_estimate_add_up(&d);
    orr_estimate_tell(&d, &parts, &made);
    ORR_TRY(orr_estimate_memory(&d, &made.peak_bytes, err));
    made.fits = e->usable_bytes < 0 || made.peak_bytes <= e->usable_bytes;
    *ret = made;
    return ORR_OK;
}
