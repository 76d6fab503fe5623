/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "estimate/bound_terms.h"

/* What the simulation of a plan never says less than: the longest of some paths through its nodes,
 * each of which is there for sure.
 *
 *   slots      one after another on a stage, or handed on from stage to stage: the paths of the
 * estimate, with what each slot takes at least, and what is owed after it lane       transfers of
 * gradients go one after another from the first slot on that gives some; the last sets out after
 * the last slot weights    the first slot of all waits for the gathers of ZeRO 1 and 2; in ZeRO 3
 * each slot for some end        norm, optimizer, gathers, and what every step pays
 *
 * What may be hidden counts as hidden. Of what goes beside computation for sure, computation pays
 * its slowdown: while something travels for r ns, at most r / slowdown of it is done.
 *
 * Rounding: times of the simulation are whole ns; each of so many tasks may have lost one, and sums
 * of floats a few millionths. */
enum { ROUNDED_PPM = 3 };

typedef struct bounding {
    const orr_estimate_draft *d;
    orr_stage_lower_bound of[ORR_STAGE_CLASSES];
    double slowed; /* of a transfer beside computation: what computation loses at least */
    float features[ORR_FEATURES], after[ORR_AFTERS];
} bounding;

/* --- paths ------------------------------------------------------------------------------------ */

static bool is_alone_everywhere(const orr_stage_partition *cut)
{
    bool alone = true;
    for (uint32_t c = 0; c < cut->n_classes; c++)
        alone &= orr_stage_class_is_uniform(&cut->classes[c]);
    return alone;
}

/* What two slots at once save, the most of any. */
static double most_saved(const bounding *b)
{
    const orr_stage_partition *cut = b->d->cut;
    double most = 0;
    for (uint32_t f = 0; f < cut->n_classes; f++)
        for (uint32_t k = 0; k < cut->n_classes; k++) {
            const double together = b->d->pairs->ns[f][k];
            const double alone =
                b->of[f].turn_ns[ORR_SLOT_FORWARD] + b->of[k].turn_ns[ORR_SLOT_BACKWARD];
            if (together > 0)
                most = fmax(most, alone - together);
        }
    const bool known = is_alone_everywhere(cut);
    return known ? most : INFINITY;
}

static void measure(bounding *b)
{
    const orr_estimate_draft *d = b->d;
    memset(b->features, 0, sizeof b->features);
    memset(b->after, 0, sizeof b->after);
    for (uint32_t c = 0; c < d->cut->n_classes; c++) {
        const orr_stage_lower_bound *l = &b->of[c];
        float *of_class = b->features + c * ORR_CLASS_FEATURES;
        for (int phase = 0; phase < ORR_SLOT_PHASES; phase++) {
            of_class[phase] = (float)l->phase_ns[phase];
            of_class[ORR_FEATURE_OWED + phase] = (float)l->owed_ns[phase];
            b->after[c * ORR_SLOT_PHASES + phase] = (float)l->after_ns[phase];
        }
        of_class[ORR_FEATURE_FIRST] = (float)l->first_ns;
        of_class[ORR_FEATURE_LAST] = (float)l->last_ns;
        of_class[ORR_FEATURE_OWED_FIRST] = (float)l->owed_first_ns;
        of_class[ORR_FEATURE_OWED_LAST] = (float)l->owed_last_ns;
    }
    for (uint32_t h = 0; h < d->place->n_hops; h++)
        b->features[ORR_FEATURE_HOP + h] = (float)fmax(d->hop_ns[h] - 1, 0);
    if (d->plan->schedule == ORR_SCHEDULE_DUALPIPE)
        b->features[ORR_FEATURE_PAIR] = (float)-most_saved(b);
}

static double path_ns(const bounding *b, const orr_schedule_path *path)
{
    double ns = orr_schedule_path_ns(path, b->features, b->d->cut->n_classes);
    for (uint32_t i = 0; i < b->d->cut->n_classes * ORR_SLOT_PHASES && b->d->plan->zero >= 3; i++)
        ns += path->after[i] * b->after[i];
    return ns;
}

static double turns_ns(const bounding *b, uint32_t end)
{
    const orr_pipeline *p = b->d->pipeline;
    double most = path_ns(b, &p->busy[end]);
    for (uint32_t i = 0; i < p->n_paths[end]; i++)
        if (p->paths[end][i].sure)
            most = fmax(most, path_ns(b, &p->paths[end][i]));
    return most;
}

static double until_ns(const bounding *b, uint32_t end, orr_slot_event event)
{
    const orr_pipeline *p = b->d->pipeline;
    double most = 0;
    for (uint32_t i = 0; i < p->n_to[end][event]; i++)
        most = fmax(most, path_ns(b, &p->to[end][event][i]));
    return most;
}

/* --- ends of stages --------------------------------------------------------------------------- */

static const orr_stage_lower_bound *least_at(const bounding *b, const orr_schedule_spec *spec,
                                             uint32_t stage, uint32_t chunk)
{
    return &b->of[b->d->cut->class_of[orr_schedule_virtual_stage_at(spec, stage, chunk)]];
}

/* When the gradients of a stage are where they belong, if they travel beside
 * computation. */
static double lanes_end(const bounding *b, uint32_t end, double slots)
{
    const orr_estimate_draft *d = b->d;
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const uint32_t stage = d->pipeline->end_stage[end];
    const uint8_t *at = d->pipeline->class_at[end];
    const orr_stage_lower_bound *last = &b->of[d->pipeline->class_ending[end]];
    const int gives = orr_splits_backward(d->plan) ? ORR_SLOT_WEIGHT : ORR_SLOT_BACKWARD;
    const bool paired = d->plan->schedule == ORR_SCHEDULE_DUALPIPE;
    const double host = gives == ORR_SLOT_BACKWARD && !paired ? fmax(last->host_ns, 0) : 0;
    const double times = (double)d->plan->micro_batches / (paired ? 2 : 1);
    double lane = 0, replicas = 0, most = slots;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        lane += least_at(b, &spec, stage, chunk)->lane_ns;
        replicas += least_at(b, &spec, stage, chunk)->replica_ns;
    }
    const double begins = slots - path_ns(b, &d->pipeline->ending[end]);
    const double ends = !paired ? begins + last->phase_ns[gives] : 0;
    most = fmax(most, ends + last->final_ns);
    if (d->plan->zero >= 3)
        return fmax(most, times * lane);
    most = fmax(most, begins + host + last->until_ns + last->lane_ns + last->over_ns);
    if (d->plan->overlap_pp == ORR_SWITCH_ON)
        most = fmax(most, slots + b->slowed * last->lane_ns);
    if (spec.chunks > 1) {
        const double first = until_ns(b, end, ORR_SLOT_EVENT_LAST_GRADIENT);
        most = fmax(most, first + host + b->of[at[ORR_SLOT_EVENT_LAST_GRADIENT]].until_ns +
                              fmax(lane, replicas));
    } else {
        most = fmax(most, begins + host + last->until_ns + replicas);
    }
    if (d->plan->zero == 2) {
        const double gave = until_ns(b, end, ORR_SLOT_EVENT_FIRST_GRADIENT);
        most = fmax(most,
                    gave + host + b->of[at[ORR_SLOT_EVENT_FIRST_GRADIENT]].until_ns + times * lane);
    }
    return most;
}

/* Transfers that nothing hides, when all slots have ended. */
static double late_ns(const bounding *b, uint32_t stage)
{
    const orr_estimate_draft *d = b->d;
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const orr_shard_transfer g = orr_gradient_transfer_of(d);
    double ns = 0;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        const orr_stage_class *class =
            &d->cut->classes[d->cut->class_of[orr_schedule_virtual_stage_at(&spec, stage, chunk)]];
        double dense = 0, expert = 0;
        orr_stage_class_add_elements(d, class, &dense, &expert);
        if (d->plan->zero < 2)
            ns += fmax(orr_shard_transfer_bound(d, &g, dense, expert),
                       orr_shard_transfer_bound(d, &g, dense, 0) +
                           orr_replica_transfer_bound(d, dense));
    }
    return ns;
}

/* Without overlap ZeRO 1 and 2 gather the weights of a stage at once. */
static double late_gather_ns(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const orr_shard_transfer w = orr_weight_transfer_of(d);
    double dense = 0, expert = 0;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
        const orr_stage_class *class =
            &d->cut->classes[d->cut->class_of[orr_schedule_virtual_stage_at(&spec, stage, chunk)]];
        orr_stage_class_add_elements(d, class, &dense, &expert);
    }
    const bool late = !d->beside && (d->plan->zero == 1 || d->plan->zero == 2);
    return late ? orr_shard_transfer_bound(d, &w, dense, expert) : 0;
}

static bool stage_is_alone(const orr_estimate_draft *d, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    bool alone = true;
    for (uint32_t chunk = 0; chunk < spec.chunks; chunk++)
        alone &= orr_stage_class_is_uniform(
            &d->cut->classes[d->cut->class_of[orr_schedule_virtual_stage_at(&spec, stage, chunk)]]);
    return alone;
}

void orr_estimate_bound(const orr_estimate_draft *d, orr_bound_parts *parts)
{
    bounding b = {.d = d, .slowed = orr_overlap_loss_frac(d)};
    const double stretch = d->place->stretch;
    const double step_ns = d->e->devices[d->pattern->device[0]].calibration->step_ns;
    double before = 0, after = 0;
    for (uint32_t c = 0; c < d->cut->n_classes; c++)
        orr_stage_lower_bound_of(d, c, &b.of[c]);
    measure(&b);
    for (uint32_t end = 0; end < d->pipeline->n_ends; end++) {
        const double slots = turns_ns(&b, end);
        const uint32_t stage = d->pipeline->end_stage[end];
        const orr_stage_tail tail = d->tails[end];
        const double ends = d->beside ? lanes_end(&b, end, slots) : slots + late_ns(&b, stage);
        const bool known = stage_is_alone(d, stage);
        before = fmax(before, ends + (known ? fmax(tail.sums_ns - 3, 0) : 0));
        if (known)
            after = fmax(after, tail.update_ns + tail.meets_ns + tail.more_ns +
                                    late_gather_ns(d, stage) - 10);
    }
    after += stretch * (d->place->least_world_ns + floor(step_ns));
    parts->before = fmax(parts->before, before);
    parts->after = fmax(parts->after, after);
}

double orr_bound_sum(const orr_bound_parts *parts)
{
    return fmax((parts->before + parts->after - 4) * (1 - 1e-6 * ROUNDED_PPM), 0);
}
