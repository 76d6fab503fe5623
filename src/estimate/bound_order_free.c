/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Order-free bound: a lower bound of the step from degrees, layout and kind of schedule, without
 * the order of slots.
 *
 * Claim: step >= warm-up of stage s + all slots of s + drain of s, for each stage s. Let k be the
 * first virtual stage on s. Proof: before any slot of s, one micro-batch has gone forward through
 * virtual stages 0 to k - 1 (warm-up of the pipeline); a stage executes one slot at a time; after
 * its last backward slot, the micro-batch of that slot goes backward through k - 1 to 0 (drain).
 * With split backward passes the weight-gradient slots may come last, and there is no drain.
 *
 * With `anywhere` hops take no time, so that the bound holds for every layout. DualPipe, whose
 * pairs of slots save time, has no such bound. */

typedef struct slot_bound {
    double forward_ns, backward_ns;
} slot_bound;

static slot_bound slot_bound_of(const orr_estimate_draft *d, const orr_stage_class *class)
{
    const bool split = orr_splits_backward(d->plan);
    slot_bound t = {0};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const float *ns = orr_draft_row(d, class)->bound_ns[m];
        const double n = class->min_count[m];
        t.forward_ns += n * (double)ns[ORR_SLOT_FORWARD];
        t.backward_ns += n * (split ? (double)ns[ORR_SLOT_INPUT] + (double)ns[ORR_SLOT_WEIGHT]
                                    : (double)ns[ORR_SLOT_BACKWARD]);
    }
    return t;
}

/* Lower bound of the hop from a stage to the next. */
static double hop_ns(const orr_estimate_draft *d, uint32_t stage)
{
    const double ns = orr_estimate_hop(d->e, d->place, d->place->hop_of[stage], ORR_COLL_SEND,
                                       d->row->row.boundary_bytes);
    return d->plan->pp > 1 ? fmax(d->place->stretch * ns - 1, 0) : 0;
}

static double longest_stage(const orr_estimate_draft *d, bool anywhere)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const bool split = orr_splits_backward(d->plan);
    slot_bound of[ORR_STAGE_CLASSES];
    double most = 0, warmup_and_drain = 0;
    for (uint32_t c = 0; c < d->partition->n_classes; c++)
        of[c] = slot_bound_of(d, &d->partition->classes[c]);
    for (uint32_t stage = 0; stage < spec.stages;
         stage++) { /* the first virtual stage of a stage has the same index */
        double slots = 0;
        for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
            const slot_bound *t =
                &of[d->partition->class_of[orr_schedule_virtual_stage_at(&spec, stage, chunk)]];
            slots += t->forward_ns + t->backward_ns;
        }
        most = fmax(most, spec.micro_batches * slots + warmup_and_drain);
        const slot_bound *first = &of[d->partition->class_of[stage]];
        warmup_and_drain += first->forward_ns + (split ? 0 : first->backward_ns);
        if (!anywhere)
            warmup_and_drain += (split ? 1 : 2) * hop_ns(d, stage);
    }
    return most;
}

/* `even`: with the split of layers of ZeRO 2 and 3, which do not balance them. */
static orr_status find_parts(orr_estimate_draft *d, bool even, orr_error *err)
{
    for (uint32_t i = 0; i < d->pattern->n; i++)
        ORR_TRY(orr_estimate_row(d->e, d->plan, d->place, d->pattern->device[i], &d->rows[i], err));
    d->row = d->rows[0];
    orr_plan split = *d->plan;
    split.zero = even ? 2 : split.zero;
    return orr_estimate_partition(d->e, &split, d->row, d->place, d->pattern, &d->partition, err);
}

orr_status orr_estimate_order_free_bound(orr_estimator *e, const orr_plan *given, bool anywhere,
                                         double *ret_ns, orr_error *err)
{
    const double ROUNDING = 1 - 5e-6; /* float sums and times of whole ns: as in bound.c */
    orr_plan plan =
        orr_plan_with_job_defaults(given, e->model, e->options.workload.task, e->cluster);
    const orr_placement *place;
    double most[2] = {0}; /* by whether layers are split evenly: the plan may leave ZeRO open */
    ORR_TRY(orr_plan_check(&plan, err));
    plan.seq = orr_estimate_sequence(e, given);
    if (orr_plan_has_pairs(&plan)) {
        *ret_ns = 0;
        return ORR_OK;
    }
    ORR_TRY(orr_estimate_placement(e, &plan, &place, err));
    for (uint32_t i = 0; i < 2 * place->n_patterns; i++) {
        const bool even = i % 2 != 0;
        orr_estimate_draft d = {
            .e = e, .plan = &plan, .place = place, .pattern = &place->patterns[i / 2]};
        ORR_TRY(find_parts(&d, even, err));
        most[even] = fmax(most[even], longest_stage(&d, anywhere));
    }
    *ret_ns = ROUNDING * fmin(most[0], most[1]);
    return ORR_OK;
}
