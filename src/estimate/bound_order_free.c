/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "estimate/bound_family.h"
#include "estimate/bound_terms.h"

/* Order-free bound: a lower bound of the step from degrees, layout and kind of schedule, without
 * the order of slots.
 *
 * Claim: step >= warm-up of stage s + all slots of s + drain of s + constants, for each stage s.
 * Let k be the first virtual stage on s. Proof: before any slot of s, one micro-batch has gone
 * forward through virtual stages 0 to k - 1 (warm-up of the pipeline); a stage executes one slot at
 * a time, or one pair of slots; after its last backward slot, the micro-batch of that slot goes
 * backward through k - 1 to 0 (drain). All ranks meet at the end, before the constants of a step.
 *
 *    split backward passes  the weight-gradient slots may come last: no drain
 *    pairs                  n of the slots of s run at once with another. A pair takes what the
 *                           simulation gives it (dualpipe_pairs.c), which is at least as long as
 *                           either of the two
 *    DualPipe               micro-batches come from both ends: the warm-up is that from the nearer
 *                           one, d stages away. At most d + 1 weight-gradient slots follow the last
 *                           input-gradient slot, so that the drain is d of these less d + 1 of
 * those
 *
 * With `anywhere` hops take no time, so that the bound holds for every layout. */

typedef struct slot_bound {
    double forward_ns, backward_ns, input_ns, weight_ns;
    double pair_ns[2]; /* forward and backward of the modules alone, as a pair has them */
    double stalls_ns;  /* after the slots of a micro-batch, before the next ones of their stage */
    double group_ns;   /* ZeRO 2: after those of a group of micro-batches */
    double once_ns;    /* after the first slot and the last */
    double last_ns;    /* of these, after the last */
} slot_bound;

/* With the transfers of weights and gradients that every slot of the plan has. */
static slot_bound slot_bound_with_shards(const orr_estimate_draft *d, uint32_t class)
{
    orr_stage_lower_bound l;
    const bool split = orr_splits_backward(d->plan),
               groups = d->plan->zero == 2 && orr_plan_gradient_group(d->plan) > 1;
    orr_stage_lower_bound_of(d, class, &l);
    const double replicas =
        orr_step_exposed_frac(orr_draft_device(d, &d->partition->classes[class])->calibration) *
        l.replica_ns; /* they are summed at the end alone */
    const double backward_ns = split ? l.stall_ns[ORR_SLOT_INPUT] + l.stall_ns[ORR_SLOT_WEIGHT]
                                     : l.stall_ns[ORR_SLOT_BACKWARD];
    return (slot_bound){.forward_ns = l.phase_ns[ORR_SLOT_FORWARD],
                        .backward_ns = l.phase_ns[ORR_SLOT_BACKWARD],
                        .input_ns = l.phase_ns[ORR_SLOT_INPUT],
                        .weight_ns = l.phase_ns[ORR_SLOT_WEIGHT],
                        .pair_ns = {l.compute_ns[0], l.compute_ns[1]},
                        .group_ns = groups ? fmax(l.stall_last_ns - replicas, 0) : 0,
                        .once_ns = l.stall_first_ns + l.stall_last_ns,
                        .last_ns = l.stall_last_ns,
                        .stalls_ns = l.stall_ns[ORR_SLOT_FORWARD] + backward_ns};
}

static slot_bound slot_bound_of(const orr_estimate_draft *d, const orr_stage_class *class)
{
    const double micro_batch_ns = orr_draft_device(d, class)->calibration->micro_batch_ns;
    const double host = fmax(d->place->stretch * floor(micro_batch_ns / 2) - 1, 0);
    double phase[ORR_SLOT_PHASES] = {0};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++)
        for (int i = 0; i<ORR_SLOT_PHASES &&class->min_count[m]> 0; i++)
            phase[i] += class->min_count[m] * (double)orr_draft_row(d, class)->bound_ns[m][i];
    slot_bound t = {.pair_ns = {phase[ORR_SLOT_FORWARD], phase[ORR_SLOT_BACKWARD]}};
    for (int i = 0; i<ORR_SLOT_PHASES &&class->n_places> 0; i++)
        phase[i] += i != ORR_SLOT_WEIGHT ? host : 0;
    t.forward_ns = phase[ORR_SLOT_FORWARD];
    t.input_ns = phase[ORR_SLOT_INPUT];
    t.weight_ns = phase[ORR_SLOT_WEIGHT];
    t.backward_ns = phase[ORR_SLOT_BACKWARD];
    return t;
}

/* Lower bound of the hop from a stage to the next. */
static double hop_ns(const orr_estimate_draft *d, uint32_t stage)
{
    const double ns = orr_estimate_hop(d->e, d->place, d->place->hop_of[stage], ORR_COLL_SEND,
                                       d->row->row.boundary_bytes);
    return d->plan->pp > 1 ? fmax(d->place->stretch * ns - 1, 0) : 0;
}

typedef struct order_free {
    const orr_estimate_draft *d;
    orr_schedule_spec spec;
    slot_bound of[ORR_STAGE_CLASSES];
    orr_paired_phase paired[ORR_STAGE_CLASSES][2]; /* where pairs are not simulated */
} order_free;

static uint8_t class_at(const order_free *b, uint32_t stage, uint32_t chunk)
{
    return b->d->partition->class_of[orr_schedule_virtual_stage_at(&b->spec, stage, chunk)];
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* Pairs of slots of a stage: model/schedule/dualpipe.c and gpipe_1f1b.c. */
static double pairs_of(const orr_schedule_spec *spec, uint32_t stage)
{
    const uint32_t p = spec->stages, depth = stage < p / 2 ? stage : p - 1 - stage;
    if (spec->schedule == ORR_SCHEDULE_DUALPIPE)
        return (double)spec->micro_batches - p + depth + 1 + (p / 2 == depth + 1 ? -1 : 0);
    const double all = (double)spec->micro_batches * spec->chunks,
                 ahead = 2.0 * (p - 1 - stage) + (spec->chunks - 1.0) * spec->group + 1;
    return spec->chunks > 1 ? fmax(all - ahead, 0) : fmax(all - (p - stage), 0);
}

/* What the slots of a class, forward and backward, take at least in pairs that are not simulated.
 */
static void sum_paired(const orr_estimate_draft *d, const orr_stage_class *class,
                       orr_paired_phase ret[2])
{
    for (uint32_t m = 0; m < d->row->row.n_modules; m++)
        for (int phase = 0; phase <= ORR_SLOT_BACKWARD && class->count[m] > 0; phase++) {
            const orr_paired_phase of =
                orr_module_paired_phase(d->plan, d->place->stretch, &d->row->modules[m], phase);
            ret[phase].chain_ns += class->count[m] * of.chain_ns;
            ret[phase].compute_ns += class->count[m] * of.compute_ns;
        }
}

/* Lower bound of a pair: of the sum of what both compute, and of each. */
static double pair_ns(const order_free *b, uint8_t forward, uint8_t back)
{
    const orr_paired_phase *f = &b->paired[forward][ORR_SLOT_FORWARD],
                           *k = &b->paired[back][ORR_SLOT_BACKWARD];
    return b->d->pairs != NULL
               ? b->d->pairs->ns[forward][back]
               : fmax(f->compute_ns + k->compute_ns, fmax(f->chain_ns, k->chain_ns));
}

/* The most that two slots of a stage save by running at once; INFINITY: unknown. */
static double most_saved(const order_free *b, uint32_t stage)
{
    const orr_stage_partition *partition = b->d->partition;
    const bool dual = b->spec.schedule == ORR_SCHEDULE_DUALPIPE; /* pairs of the two chunks */
    double most = 0;
    for (uint32_t i = 0; i < b->spec.chunks * b->spec.chunks; i++) {
        const uint8_t f = class_at(b, stage, i / b->spec.chunks),
                      k = class_at(b, stage, i % b->spec.chunks);
        const double together = pair_ns(b, f, k);
        if (b->d->pattern->n > 1 || /* pairs are simulated on the first device alone */
            !orr_stage_class_is_uniform(&partition->classes[f]) ||
            !orr_stage_class_is_uniform(&partition->classes[k]))
            return INFINITY;
        if (together > 0 && !(dual && i / b->spec.chunks == i % b->spec.chunks))
            most = fmax(most, b->of[f].pair_ns[0] + b->of[k].pair_ns[1] - together);
    }
    return most;
}

/* --- stages ----------------------------------------------------------------------------------- */

static double backward_of(const order_free *b, const slot_bound *t)
{
    const double split = t->input_ns + t->weight_ns;
    return orr_splits_backward(b->d->plan)             ? split
           : b->spec.schedule == ORR_SCHEDULE_DUALPIPE ? fmin(t->backward_ns, split)
                                                       : t->backward_ns;
}

/* All slots of a stage. */
static double slots_of(const order_free *b, uint32_t stage)
{
    const bool dual = b->spec.schedule == ORR_SCHEDULE_DUALPIPE;
    const double times = (double)b->spec.micro_batches / (dual ? 2 : 1);
    double slots = 0, last = 0; /* last: of stalls, which the last slot has after its send */
    for (uint32_t chunk = 0; chunk < b->spec.chunks; chunk++) {
        const slot_bound *t = &b->of[class_at(b, stage, chunk)];
        slots += times * (t->forward_ns + backward_of(b, t) + t->stalls_ns);
        slots += fmax(ceil(times / orr_plan_gradient_group(b->d->plan)) - 1, 0) * t->group_ns;
        slots += t->once_ns;
        last = fmax(last, t->stalls_ns + t->last_ns);
    }
    slots -= last;
    return orr_plan_has_pairs(b->d->plan) && slots > 0
               ? fmax(slots - pairs_of(&b->spec, stage) * most_saved(b, stage), 0)
               : slots;
}

/* Warm-up and drain of a stage of DualPipe, d stages away from the nearer end. */
static double dual_ends(const order_free *b, uint32_t stage)
{
    const uint32_t p = b->spec.stages, depth = stage < p / 2 ? stage : p - 1 - stage;
    const double last =
        fmax(b->of[class_at(b, stage, 0)].weight_ns, b->of[class_at(b, stage, 1)].weight_ns);
    double warmup = 0, drain = -(depth + 1.0) * last;
    for (uint32_t k = 0; k < depth; k++) {
        const slot_bound *t = &b->of[b->d->partition->class_of[k]];
        warmup += t->forward_ns;
        drain += t->input_ns;
    }
    return warmup + fmax(drain, 0);
}

/* What follows the rendezvous of all ranks. */
static double constants_ns(const orr_estimate_draft *d, bool anywhere)
{
    double step_ns = INFINITY; /* each pipeline has its own */
    for (uint32_t i = 0; i < d->pattern->n; i++)
        step_ns = fmin(step_ns, d->e->devices[d->pattern->device[i]].calibration->step_ns);
    return d->place->stretch * (floor(step_ns) + (anywhere ? 0 : d->place->min_world_ns));
}

double orr_order_free_ns(const orr_estimate_draft *d, bool anywhere, bool shards)
{
    const bool split = orr_splits_backward(d->plan);
    order_free b = {.d = d, .spec = orr_plan_schedule(d->plan)};
    double most = 0, ends = 0; /* warm-up and drain */
    for (uint32_t c = 0; c < d->partition->n_classes && d->pairs == NULL; c++)
        if (orr_plan_has_pairs(d->plan))
            sum_paired(d, &d->partition->classes[c], b.paired[c]);
    for (uint32_t c = 0; c < d->partition->n_classes; c++)
        b.of[c] =
            shards ? slot_bound_with_shards(d, c) : slot_bound_of(d, &d->partition->classes[c]);
    for (uint32_t stage = 0; stage < b.spec.stages;
         stage++) { /* the first virtual stage of a stage has the same index */
        const slot_bound *first = &b.of[d->partition->class_of[stage]];
        const bool dual = b.spec.schedule == ORR_SCHEDULE_DUALPIPE;
        most = fmax(most, slots_of(&b, stage) + (dual ? dual_ends(&b, stage) : ends));
        ends += first->forward_ns + (split ? 0 : first->backward_ns);
        if (!anywhere)
            ends += (split ? 1 : 2) * hop_ns(d, stage);
    }
    return most + constants_ns(d, anywhere);
}

/* `even`: with the split of layers of ZeRO 2 and 3, which do not balance them. */
orr_status orr_order_free_parts(orr_estimate_draft *d, bool even, bool quick, orr_error *err)
{
    for (uint32_t i = 0; i < d->pattern->n; i++)
        ORR_TRY(orr_estimate_row(d->e, d->plan, d->place, d->pattern->device[i], &d->rows[i], err));
    d->row = d->rows[0];
    orr_plan split = *d->plan;
    split.zero = even ? 2 : split.zero;
    ORR_TRY(orr_estimate_partition(d->e, &split, d->row, d->place, d->pattern, &d->partition, err));
    return orr_plan_has_pairs(d->plan) && !quick ? orr_estimate_overlapped_pairs(d, &d->pairs, err)
                                                 : ORR_OK;
}

double orr_order_free_rounded(double ns)
{
    const double ROUNDING = 1 - 5e-6; /* float sums and times of whole ns: as in bound.c */
    return ROUNDING * fmax(ns - 8, 0);
}

orr_status orr_estimate_order_free_bound(orr_estimator *e, const orr_plan *given, bool anywhere,
                                         bool quick, double *ret_ns, orr_error *err)
{
    orr_plan plan =
        orr_plan_with_job_defaults(given, e->model, e->options.workload.task, e->cluster);
    const orr_placement *place;
    double most[2] = {0}; /* by whether layers are split evenly: the plan may leave ZeRO open */
    ORR_TRY(orr_plan_check(&plan, err));
    plan.seq = orr_estimate_sequence(e, given);
    ORR_TRY(orr_estimate_placement(e, &plan, &place, err));
    for (uint32_t i = 0; i < 2 * place->n_patterns; i++) {
        const bool even = i % 2 != 0;
        const orr_plan on = orr_estimate_plan_of(&plan, &place->patterns[i / 2]);
        orr_estimate_draft d = {
            .e = e, .plan = &on, .place = place, .pattern = &place->patterns[i / 2]};
        ORR_TRY(orr_order_free_parts(&d, even, quick, err));
        most[even] = fmax(most[even], orr_order_free_ns(&d, anywhere, false));
    }
    *ret_ns = orr_order_free_rounded(fmin(most[0], most[1]));
    return ORR_OK;
}
