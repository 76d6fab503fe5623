/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "estimate/bound_terms.h"

/* Lower bound of a plan's step: the longest of some paths through the task graph that the
 * simulation is sure to have. Each path is a chain of dependencies, so its length is at most the
 * simulated step.
 *    slots    a stage's slots one after another, or along hops from stage to stage: the proven
 *             paths of pipeline_paths.c, with lower bounds of slots, stalls and hops
 *    lane     gradient transfers use one stream, in order: all of them from the slot on that
 *             gives the first gradients, and the last of them after the last slot
 *    weights  the first slot waits for the first gathers of ZeRO 1 and 2; in ZeRO 3 every slot
 *    end      norm, optimizer, gathers without overlap, constants of a step
 *
 * Example: 1F1B with pp = 2, m = 4, forward f, backward b, hop h, last gradient transfer r. Two
 * paths lead to the end of stage 0: its own slots, 4 (f + b); and its first forward slot, a hop,
 * all slots of stage 1, a hop, its last backward slot, f + h + 4 (f + b) + h + b. Its last gradient
 * transfer begins after its last slot: lane >= slots + r. The step is at least the largest of these
 * over all stages, plus optimizer and constants.
 *
 * A transfer that overlap may hide counts as hidden: whether it is depends on all other tasks, and
 * a bound may not assume the worse case. Its certain cost is the stall that it is charged with
 * (orr_step_exposed_frac()).
 *
 * Rounding: the simulation has whole ns. Each task may have lost one, and sums of floats a few
 * millionths. */
enum { ROUNDED_PPM = 3 };

typedef struct bound_state {
    const orr_estimate_draft *d;
    orr_stage_lower_bound of[ORR_STAGE_CLASSES];
    float features[ORR_FEATURES], after[ORR_AFTERS];
} bound_state;

/* --- paths ------------------------------------------------------------------------------------ */

static bool all_classes_uniform(const orr_stage_partition *partition)
{
    bool uniform = true;
    for (uint32_t c = 0; c < partition->n_classes; c++)
        uniform &= orr_stage_class_is_uniform(&partition->classes[c]);
    return uniform;
}

/* The most that the two slots of a pair can save by running at once. */
static double most_saved(const bound_state *b)
{
    const orr_stage_partition *partition = b->d->partition;
    double most = 0;
    for (uint32_t f = 0; f < partition->n_classes; f++)
        for (uint32_t k = 0; k < partition->n_classes; k++) {
            const double together = b->d->pairs->ns[f][k];
            const double uniform =
                b->of[f].compute_ns[ORR_SLOT_FORWARD] + b->of[k].compute_ns[ORR_SLOT_BACKWARD];
            if (together > 0)
                most = fmax(most, uniform - together);
        }
    /* Pairs are simulated on the first device alone. */
    const bool known = all_classes_uniform(partition) && b->d->pattern->n == 1;
    return known ? most : INFINITY;
}

static void measure(bound_state *b)
{
    const orr_estimate_draft *d = b->d;
    memset(b->features, 0, sizeof b->features);
    memset(b->after, 0, sizeof b->after);
    for (uint32_t c = 0; c < d->partition->n_classes; c++) {
        const orr_stage_lower_bound *l = &b->of[c];
        float *of_class = b->features + c * ORR_CLASS_FEATURES;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
            of_class[phase] = (float)l->phase_ns[phase];
            of_class[ORR_FEATURE_STALL + phase] = (float)l->stall_ns[phase];
            b->after[c * ORR_SLOT_PHASES + phase] = (float)l->after_ns[phase];
        }
        of_class[ORR_FEATURE_FIRST] = (float)l->first_ns;
        of_class[ORR_FEATURE_LAST] = (float)l->last_ns;
        of_class[ORR_FEATURE_STALL_FIRST] = (float)l->stall_first_ns;
        of_class[ORR_FEATURE_STALL_LAST] = (float)l->stall_last_ns;
    }
    for (uint32_t h = 0; h < d->place->n_hops; h++)
        b->features[ORR_FEATURE_HOP + h] = (float)fmax(d->hop_ns[h] - 1, 0);
    if (orr_plan_has_pairs(d->plan))
        b->features[ORR_FEATURE_PAIR] = (float)-most_saved(b);
}

static double path_ns(const bound_state *b, const orr_schedule_path *path)
{
    double ns = orr_schedule_path_ns(path, b->features, b->d->partition->n_classes);
    for (uint32_t i = 0; i < b->d->partition->n_classes * ORR_SLOT_PHASES && b->d->plan->zero >= 3;
         i++)
        ns += path->after[i] * b->after[i];
    return ns;
}

static double slots_ns(const bound_state *b, uint32_t end)
{
    const orr_pipeline *p = b->d->pipeline;
    double most = path_ns(b, &p->busy[end]);
    for (uint32_t i = 0; i < p->n_paths[end]; i++)
        if (p->paths[end][i].proven)
            most = fmax(most, path_ns(b, &p->paths[end][i]));
    return most;
}

static double until_ns(const bound_state *b, uint32_t end, orr_slot_event event)
{
    const orr_pipeline *p = b->d->pipeline;
    double most = 0;
    for (uint32_t i = 0; i < p->n_to[end][event]; i++)
        most = fmax(most, path_ns(b, &p->to[end][event][i]));
    return most;
}

/* --- ends of stages -------------------------------------------------------------------------- */

static const orr_stage_lower_bound *terms_at(const bound_state *b, const orr_schedule_spec *spec,
                                             uint32_t stage, uint32_t chunk)
{
    return &b->of[b->d->partition->class_of[orr_schedule_virtual_stage_at(spec, stage, chunk)]];
}

/* Lower bound of the end of a stage's gradient transfers, if they overlap with computation. */
static double transfers_end(const bound_state *b, uint32_t end, double slots)
{
    const orr_estimate_draft *d = b->d;
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const uint32_t stage = d->pipeline->end_stage[end];
    const uint8_t *at = d->pipeline->class_at[end];
    const orr_stage_lower_bound *last = &b->of[d->pipeline->class_ending[end]];
    const int gives = orr_splits_backward(d->plan) ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    const bool paired = orr_plan_has_pairs(d->plan);
    const double host = gives == ORR_SLOT_BACKWARD && !paired ? fmax(last->host_ns, 0) : 0;
    const double times = (double)d->plan->micro_batches / (paired ? 2 : 1);
    double lane = 0, replicas = 0, most = slots;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        lane += terms_at(b, &spec, stage, chunk)->lane_ns;
        replicas += terms_at(b, &spec, stage, chunk)->replica_ns;
    }
    const double begins = slots - path_ns(b, &d->pipeline->ending[end]);
    const double ends = !paired ? begins + last->phase_ns[gives] : 0;
    most = fmax(most, ends + last->final_ns);
    if (d->plan->zero >= 3)
        return fmax(fmax(most, times * lane),
                    begins + host + last->until_ns + last->once_ns + last->over_ns);
    most = fmax(most, begins + host + last->until_ns + last->lane_ns + last->over_ns);
    if (spec.chunks > 1) {
        const double first = until_ns(b, end, ORR_SLOT_EVENT_LAST_GRADIENT);
        most = fmax(most, first + host + b->of[at[ORR_SLOT_EVENT_LAST_GRADIENT]].until_ns +
                              fmax(lane, replicas));
    } else {
        most = fmax(most, begins + host + last->until_ns + replicas);
    }
    if (d->plan->zero == 2) {
        const double gave = until_ns(b, end, ORR_SLOT_EVENT_FIRST_GRADIENT);
        const double groups = ceil(times / orr_plan_gradient_group(d->plan));
        most = fmax(most, gave + host + b->of[at[ORR_SLOT_EVENT_FIRST_GRADIENT]].until_ns +
                              groups * lane);
    }
    return most;
}

/* Transfers after the last slot, without overlap. */
static double late_ns(const bound_state *b, uint32_t stage)
{
    const orr_estimate_draft *d = b->d;
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const orr_shard_transfer g = orr_gradient_transfer_of(d);
    double ns = 0;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        const orr_stage_class *class =
            &d->partition->classes[d->partition->class_of[orr_schedule_virtual_stage_at(
                &spec, stage, chunk)]];
        double dense = 0, expert = 0;
        orr_stage_class_add_elements(d, class, &dense, &expert);
        if (d->plan->zero < 2)
            ns += fmax(orr_shard_transfer_bound(d, &g, dense, expert),
                       orr_shard_transfer_bound(d, &g, dense, 0) +
                           orr_replica_transfer_bound(d, dense));
    }
    return ns;
}

/* Without overlap, ZeRO 1 and 2 gather all weights of a stage after the optimizer. */
static double late_gather_ns(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const orr_shard_transfer w = orr_weight_transfer_of(d);
    double dense = 0, expert = 0;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        const orr_stage_class *class =
            &d->partition->classes[d->partition->class_of[orr_schedule_virtual_stage_at(
                &spec, stage, chunk)]];
        orr_stage_class_add_elements(d, class, &dense, &expert);
    }
    const bool late = !d->overlaps && (d->plan->zero == 1 || d->plan->zero == 2);
    return late ? orr_shard_transfer_bound(d, &w, dense, expert) : 0;
}

static bool stage_is_uniform(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    bool uniform = true;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++)
        uniform &= orr_stage_class_is_uniform(
            &d->partition->classes[d->partition->class_of[orr_schedule_virtual_stage_at(
                &spec, stage, chunk)]]);
    return uniform;
}

void orr_estimate_bound(const orr_estimate_draft *d, orr_bound_parts *parts)
{
    bound_state b = {.d = d};
    const double stretch = d->place->stretch;
    const double step_ns = d->e->devices[d->pattern->device[0]].calibration->step_ns;
    double before = 0, after = 0;
    for (uint32_t c = 0; c < d->partition->n_classes; c++)
        orr_stage_lower_bound_of(d, c, &b.of[c]);
    measure(&b);
    for (uint32_t end = 0; end < d->pipeline->n_ends; end++) {
        const double slots = slots_ns(&b, end);
        const uint32_t stage = d->pipeline->end_stage[end];
        const orr_stage_tail tail = d->tails[end];
        const double ends =
            d->overlaps ? transfers_end(&b, end, slots) : slots + late_ns(&b, stage);
        const bool known = stage_is_uniform(d, stage);
        before = fmax(before, ends + (known ? fmax(tail.sums_ns - 3, 0) : 0));
        if (known)
            after = fmax(after, tail.update_ns + tail.meets_ns + tail.more_ns +
                                    late_gather_ns(d, stage) - 10);
    }
    after += stretch * (d->place->min_world_ns + floor(step_ns));
    parts->before = fmax(parts->before, before);
    parts->after = fmax(parts->after, after);
}

/* The paths count all pairs as those that save most, and no stalls after groups of micro-batches;
 * the order-free bound has both. */
double orr_bound_sum(const orr_estimate_draft *d, const orr_bound_parts *parts)
{
    const bool groups = d->plan->zero == 2 && orr_plan_gradient_group(d->plan) > 1;
    const double free = orr_plan_has_pairs(d->plan) || groups
                            ? orr_order_free_rounded(orr_order_free_ns(d, false, true))
                            : 0;
    return fmax(free, (parts->before + parts->after - 4) * (1 - 1e-6 * ROUNDED_PPM));
}
