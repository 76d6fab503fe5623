/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Time breakdown (waterfall) of an estimated step. */

static double ideal_ns(const orr_estimate_draft *d)
{
    const orr_plan *p = d->plan;
    const double passes = d->e->options.workload.task == ORR_TASK_LORA ? 2 : 3;
    const double samples = (double)orr_plan_step_micro_batches(p) * p->micro_batch;
    const double peak =
        d->e->devices[d->pattern->device[0]].peak_flops[orr_precision_dtype(p->precision)];
    const double ns =
        1e9 * passes * samples * d->row->sample_flops / ((double)orr_plan_ranks(p) * peak);
    return isnan(ns) ? 0 : ns;
}

/* Pairs hide transfers of slices and experts: about m - 2p slots of a stage in DualPipe; overlapped
 * slots begin after a warm-up of p - 1 stages on average, twice, and v - 1 groups. */
static double saved_by_pairs(const orr_estimate_draft *d)
{
    const double p = d->plan->pp, m = d->plan->micro_batches, v = d->plan->vp;
    const bool dual = d->plan->schedule == ORR_SCHEDULE_DUALPIPE;
    const double pairs = dual ? m - 1.25 * p + 0.5 : m * v - p - (v - 1) * d->plan->group;
    const orr_estimate_sums *s = &d->sums[d->partition->class_of[d->partition->virtual_stages / 2]];
    if (!orr_plan_has_pairs(d->plan))
        return 0;
    return fmax(pairs, 0) * d->rows[0]->pair_saved_frac *
           (s->phase_ns[ORR_SLOT_FORWARD] + s->phase_ns[ORR_SLOT_BACKWARD]);
}

static void sum_parts(const orr_estimate_draft *d, const orr_step_parts *parts, double *part,
                      double *compute)
{
    const orr_plan *p = d->plan;
    const double slots = (double)p->micro_batches / p->pp;
    for (uint32_t c = 0; c < d->partition->n_classes; c++) {
        const orr_estimate_sums *s = &d->sums[c];
        const double classes = d->partition->classes[c].n, n = slots * classes;
        *compute += n * (s->compute_ns - s->again_ns);
        part[ORR_WATERFALL_RECOMPUTE] += n * s->again_ns;
        part[ORR_WATERFALL_DP] +=
            n * s->exposed_ns +
            classes * (s->first_ns + s->last_ns + s->stall_first_ns + s->stall_last_ns) / p->pp;
        for (int i = 0; i < ORR_WATERFALLS; i++)
            part[i] += n * s->waited_ns[i];
        part[ORR_WATERFALL_OVERHEAD] +=
            n * d->place->stretch *
            orr_draft_device(d, &d->partition->classes[c])->calibration->micro_batch_ns;
    }
    const double saved = saved_by_pairs(d), ep = fmin(saved, part[ORR_WATERFALL_EP]);
    part[ORR_WATERFALL_EP] -= ep;
    part[ORR_WATERFALL_TP] -= fmin(saved - ep, part[ORR_WATERFALL_TP]);
    part[ORR_WATERFALL_OVERHEAD] +=
        d->place->stretch * d->e->devices[d->pattern->device[0]].calibration->step_ns;
    part[ORR_WATERFALL_DP] += parts->transfers;
    part[ORR_WATERFALL_OPTIMIZER] += parts->update;
}

/* Means over stages. Jitter counts as overhead; the remainder, which no slot, transfer or update
 * takes, is bubble. */
void orr_estimate_report(const orr_estimate_draft *d, const orr_step_parts *parts,
                         orr_estimate *ret)
{
    double part[ORR_WATERFALLS] = {0}, compute = 0, idle = parts->step;
    sum_parts(d, parts, part, &compute);
    for (int i = 0; i < ORR_WATERFALLS; i++)
        idle -= part[i];
    idle = fmax(idle - compute, 0);
    const double jitter = (parts->step - idle) * (1 - 1 / d->place->stretch);
    for (int i = 0; i < ORR_WATERFALLS; i++)
        if (i != ORR_WATERFALL_OVERHEAD)
            part[i] /= d->place->stretch;
    compute /= d->place->stretch;
    part[ORR_WATERFALL_OVERHEAD] = part[ORR_WATERFALL_OVERHEAD] / d->place->stretch + jitter;
    part[ORR_WATERFALL_BUBBLE] = idle;
    part[ORR_WATERFALL_IDEAL] = fmin(ideal_ns(d), compute);
    part[ORR_WATERFALL_KERNELS] = compute - part[ORR_WATERFALL_IDEAL];
    ret->step_ns = (int64_t)(parts->step + 0.5);
    int64_t left = ret->step_ns;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        left -= ret->waterfall_ns[i] = (int64_t)part[i];
    ret->waterfall_ns[ORR_WATERFALL_KERNELS] += left;
}
