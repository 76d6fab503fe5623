/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "estimate/estimate.h"

/* Assembly of a step from the sums of its classes: slots along the schedule paths, gradient
 * transfers that outlast them, then the end of the step (norm, optimizer, gathers). */

/* Sums over the classes of a stage. */
typedef struct stage_sums {
    double dense, expert, sliced, tied, late_ns, gather_late_ns;
} stage_sums;

static const orr_estimate_sums *sums_at(const orr_estimate_draft *d, const orr_schedule_spec *spec,
                                        uint32_t stage, uint32_t chunk)
{
    return &d->sums[d->partition->class_of[orr_schedule_virtual_stage_at(spec, stage, chunk)]];
}

static double last_turn_ns(const orr_estimate_draft *d, const orr_estimate_sums *s)
{
    return s->last_ns +
           s->phase_ns[orr_splits_backward(d->plan) ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD];
}

/* Gradient transfers that outlast the last slot. Those of a chunk are issued within its last
 * gradient slot; all that are issued later follow them on the same stream. */
static double still_under_way(const orr_estimate_draft *d, uint32_t end)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const float *after = d->pipeline->after[end];
    const uint32_t m = d->plan->micro_batches;
    const double lasts =
        m < spec.stages ? 1 : 1.0 / m; /* share of slots that are the last of their chunk */
    double most = 0;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        double all = 0, replicas = 0;
        const orr_estimate_sums *s = sums_at(d, &spec, d->pipeline->end_stage[end], chunk);
        const double slot = last_turn_ns(d, s);
        const double since = after[chunk] * (s->phase_ns[ORR_SLOT_BACKWARD] + s->last_ns * lasts) +
                             slot - s->lane_first_ns + s->stall_last_ns;
        for (uint32_t c = 0; c < spec.chunks; c++)
            if (after[c] <= after[chunk]) {
                const orr_estimate_sums *later = sums_at(d, &spec, d->pipeline->end_stage[end], c);
                all += later->lane_ns;
                replicas += later->replica_ns;
            }
        const double alone = after[chunk] <= 0 ? s->lane_last_ns - s->stall_last_ns : 0;
        const double last = fmax(all - since, alone);
        most = fmax(most, fmax(last > 0 ? last + s->replica_last_ns : 0, replicas - since));
    }
    return most;
}

static stage_sums sum_stage(const orr_estimate_draft *d, uint32_t end)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    stage_sums sum = {0};
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        const orr_estimate_sums *s = sums_at(d, &spec, d->pipeline->end_stage[end], chunk);
        sum.dense += s->dense;
        sum.expert += s->expert;
        sum.sliced += s->sliced;
        sum.tied += s->tied;
        sum.late_ns += s->late_ns;
        sum.gather_late_ns += s->gather_late_ns;
    }
    return sum;
}

static double owned(const orr_estimate_draft *d, const stage_sums *s)
{
    const uint32_t *members = d->place->prices.members;
    if (d->plan->zero == 0)
        return s->dense + s->expert;
    return s->dense / fmax(members[ORR_AXIS_SHARD], 1) + s->expert / fmax(members[ORR_AXIS_EDP], 1);
}

/* Reductions after all others: of tensor slices, tied embeddings, and the second copies of
 * DualPipe. */
static double sum_late(const orr_estimate_draft *d, const stage_sums *s, uint32_t stage)
{
    const bool at_end = stage == 0 || stage + 1 == d->partition->stages;
    double ns = orr_estimate_transfer(d->e, d->place, ORR_AXIS_TP, ORR_COLL_ALL_REDUCE,
                                      (int64_t)(s->sliced * d->gradient_bytes));
    if (at_end)
        ns += orr_estimate_transfer(d->e, d->place, ORR_AXIS_TIED, ORR_COLL_ALL_REDUCE,
                                    (int64_t)(s->tied * d->gradient_bytes));
    if (d->plan->schedule == ORR_SCHEDULE_DUALPIPE && d->place->n_hops > 0)
        ns += orr_estimate_hop(d->e, d->place, 0, ORR_COLL_ALL_REDUCE,
                               (int64_t)(owned(d, s) * d->gradient_bytes));
    return d->place->stretch * ns;
}

static const orr_estimate_device *device_of_stage(const orr_estimate_draft *d, uint32_t stage)
{
    const uint32_t i = d->pattern->of_stage != NULL ? d->pattern->of_stage[stage] : 0;
    return &d->e->devices[d->pattern->device[i]];
}

/* Outer data parallelism with local steps averages the changes, a share of it in each step. */
static double outer_sync_ns(const orr_estimate_draft *d, const stage_sums *s)
{
    const double steps = d->plan->local_steps;
    if (d->plan->local_steps <= 1)
        return 0;
    return d->place->stretch / steps *
           orr_estimate_transfer(d->e, d->place, ORR_AXIS_OUTER, ORR_COLL_ALL_REDUCE,
                                 (int64_t)(4 * owned(d, s)));
}

/* As in model/step/emit_optimizer.c. */
static double update_ns(const orr_estimate_draft *d, const stage_sums *s, uint32_t stage)
{
    const orr_estimate_device *on = device_of_stage(d, stage);
    const orr_plan *plan = d->plan;
    const double n = floor(owned(d, s)), states = 4 + (double)orr_moments_bytes(plan);
    if (plan->offload == ORR_OFFLOAD_OPTIMIZER || plan->offload == ORR_OFFLOAD_BOTH) {
        const orr_device *device = on->device;
        const double rate = orr_fact_or(&device->achievable_pcie_bytes_per_s,
                                        orr_fact_or(&device->pcie_bytes_per_s, 32e9));
        return 1e9 * n * (d->gradient_bytes + d->weight_bytes) / rate;
    }
    const orr_work work = {.family = ORR_FAMILY_OPTIMIZER,
                           .dtype = ORR_DTYPE_FP32,
                           .n_dims = 1,
                           .dims = {(int64_t)n},
                           .flops = 14 * n,
                           .read_bytes = (d->gradient_bytes + states) * n,
                           .write_bytes =
                               (states + (d->weight_bytes < 4 ? d->weight_bytes : 0)) * n,
                           .op = "adamw",
                           .kernel = ""};
    return d->place->stretch *
           (double)orr_job_rates_kernel(&on->rates, &work, plan->fusion == ORR_SWITCH_OFF).ns;
}

static double more_of_step(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_estimate_device *first = &d->e->devices[d->pattern->device[0]];
    return d->place->stretch *
           (device_of_stage(d, stage)->calibration->step_ns - first->calibration->step_ns);
}

orr_stage_tail orr_estimate_tail(const orr_estimate_draft *d, uint32_t end)
{
    const stage_sums s = sum_stage(d, end);
    const uint32_t stage = d->pipeline->end_stage[end];
    return (orr_stage_tail){sum_late(d, &s, stage), update_ns(d, &s, stage), outer_sync_ns(d, &s),
                            more_of_step(d, stage)};
}

static void measure_features(const orr_estimate_draft *d, float *ret)
{
    memset(ret, 0, ORR_FEATURES * sizeof *ret);
    for (uint32_t c = 0; c < d->partition->n_classes; c++) {
        const orr_estimate_sums *s = &d->sums[c];
        float *of_class = ret + c * ORR_CLASS_FEATURES;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
            of_class[phase] = (float)s->phase_ns[phase];
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++)
            of_class[ORR_FEATURE_STALL + phase] = (float)s->stall_ns[phase];
        of_class[ORR_FEATURE_FIRST] = (float)s->first_ns;
        of_class[ORR_FEATURE_LAST] = (float)s->last_ns;
        of_class[ORR_FEATURE_STALL_FIRST] = (float)s->stall_first_ns;
        of_class[ORR_FEATURE_STALL_LAST] = (float)s->stall_last_ns;
    }
    for (uint32_t h = 0; h < d->place->n_hops; h++)
        ret[ORR_FEATURE_HOP + h] = (float)d->hop_ns[h];
    if (orr_plan_has_pairs(d->plan)) {
        const orr_estimate_sums *s =
            &d->sums[d->partition->class_of[d->partition->virtual_stages / 2]];
        ret[ORR_FEATURE_PAIR] =
            (float)(-d->rows[0]->pair_saved_frac *
                    (s->phase_ns[ORR_SLOT_FORWARD] + s->phase_ns[ORR_SLOT_BACKWARD]));
    }
}

/* Features of absent classes are 0. */
double orr_schedule_path_ns(const orr_schedule_path *path, const float *features,
                            uint32_t n_classes)
{
    const int used = (int)(n_classes * ORR_CLASS_FEATURES);
    float part[8] = {0};
    double ns = 0;
    for (int i = 0; i < used; i += 8)
        for (int k = 0; k < 8; k++)
            part[k] += path->count[i + k] * features[i + k];
    for (int i = used > ORR_FEATURE_PAIR ? used : ORR_FEATURE_PAIR; i < ORR_FEATURES; i += 8)
        for (int k = 0; k < 8; k++)
            part[k] += path->count[i + k] * features[i + k];
    for (int k = 0; k < 8; k++)
        ns += part[k];
    return ns;
}
_Static_assert(ORR_FEATURE_PAIR % 8 == 0, "classes are over where a vector begins");

/* While a pipeline warms up and drains, a waiting stage gathers its weights. */
static double end_ns(const orr_estimate_draft *d, uint32_t end, const float *features)
{
    const orr_pipeline *p = d->pipeline;
    double most = 0;
    for (uint32_t i = 0; i < p->n_paths[end]; i++)
        most =
            fmax(most, orr_schedule_path_ns(&p->paths[end][i], features, d->partition->n_classes));
    const uint8_t middle = d->partition->class_of[d->partition->virtual_stages / 2];
    return most - (d->partition->stages - 1) * d->sums[middle].ahead_ns;
}

/* End of the gradient transfers after every micro-batch if only they delay one another, from the
 * end of the stage's first backward slot on. */
static double always_under_way(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    double ns = 0, slots = 0, hops = d->plan->pp > 1 ? d->hop_ns[0] : 0;
    const bool halves =
        spec.schedule == ORR_SCHEDULE_DUALPIPE; /* micro-batches of each direction */
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++)
        ns += (double)d->plan->micro_batches / (halves ? 2 : 1) *
              sums_at(d, &spec, stage, chunk)->always_ns;
    if (ns <= 0)
        return 0;
    if (spec.schedule == ORR_SCHEDULE_GPIPE)
        slots = (d->plan->micro_batches - 1) * d->sums[0].phase_ns[ORR_SLOT_FORWARD];
    for (uint32_t k = 0; k < d->partition->virtual_stages; k++) {
        const orr_estimate_sums *s = &d->sums[d->partition->class_of[k]];
        slots += s->phase_ns[ORR_SLOT_FORWARD] + hops;
        if (k >= orr_schedule_virtual_stage_at(&spec, stage, spec.chunks - 1))
            slots += s->phase_ns[ORR_SLOT_BACKWARD] + hops;
    }
    return slots + ns;
}

/* All stages meet at the norm of the gradients; what follows, they do at once. */
orr_step_parts orr_estimate_add_up(const orr_estimate_draft *d)
{
    const double step_ns = d->e->devices[d->pattern->device[0]].calibration->step_ns;
    float features[ORR_FEATURES];
    orr_step_parts parts = {0};
    double before = 0, after = 0;
    measure_features(d, features);
    for (uint32_t i = 0; i < d->pipeline->n_ends; i++) {
        const uint32_t stage = d->pipeline->end_stage[i];
        const stage_sums s = sum_stage(d, i);
        const orr_stage_tail *tail = &d->tails[i];
        const double under_way = d->overlaps ? still_under_way(d, i) : 0;
        const double slots = end_ns(d, i, features);
        const double waits =
            fmax(under_way + s.late_ns + tail->sums_ns, always_under_way(d, stage) - slots);
        const double end = slots + waits;
        const double update = tail->update_ns, meets = tail->meets_ns;
        if (end > before) {
            before = end;
            parts.transfers = waits + s.gather_late_ns + meets;
        }
        parts.update = fmax(parts.update, update);
        after = fmax(after, update + s.gather_late_ns + meets + tail->more_ns);
    }
    parts.update += d->place->stretch * d->place->world_ns;
    parts.before = before;
    parts.after = after;
    parts.rest = d->place->stretch * (d->place->world_ns + step_ns);
    parts.step = before + after + parts.rest;
    return parts;
}
