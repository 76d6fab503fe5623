/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* A bound that needs no order of slots: a stage does all of its slots one after another, and before
 * the first of them the stages before it have gone forward, and after the last backward one they
 * have to go backward. Which of them is late does not matter: the first virtual stage that a stage
 * has is k, and 0 to k - 1 come before it and after it, whatever runs when in between. Where
 * weights have slots of their own, those may come last of all, and nothing has to follow.
 *
 * What DualPipe's pairs save is not looked at: of it nothing is said. */

typedef struct turn_least {
    double forward_ns, backward_ns;
} turn_least;

static turn_least least_of(const orr_estimate_draft *d, const orr_stage_class *class)
{
    const bool split = orr_splits_backward(d->plan);
    turn_least t = {0};
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const float *ns = orr_draft_row(d, class)->least_ns[m];
        const double n = class->least[m];
        t.forward_ns += n * (double)ns[ORR_SLOT_FORWARD];
        t.backward_ns += n * (split ? (double)ns[ORR_SLOT_INPUT] + (double)ns[ORR_SLOT_WEIGHT]
                                    : (double)ns[ORR_SLOT_BACKWARD]);
    }
    return t;
}

/* From a stage to the next. */
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
    turn_least of[ORR_STAGE_CLASSES];
    double most = 0, around = 0;
    for (uint32_t c = 0; c < d->cut->n_classes; c++)
        of[c] = least_of(d, &d->cut->classes[c]);
    for (uint32_t stage = 0; stage < spec.stages;
         stage++) { /* its first virtual stage is as many */
        double slots = 0;
        for (uint32_t chunk = 0; chunk < spec.chunks; chunk++) {
            const turn_least *t =
                &of[d->cut->class_of[orr_schedule_virtual_stage_at(&spec, stage, chunk)]];
            slots += t->forward_ns + t->backward_ns;
        }
        most = fmax(most, spec.micro_batches * slots + around);
        const turn_least *first = &of[d->cut->class_of[stage]];
        around += first->forward_ns + (split ? 0 : first->backward_ns);
        if (!anywhere)
            around += (split ? 1 : 2) * hop_ns(d, stage);
    }
    return most;
}

static orr_status find_parts(orr_estimate_draft *d, orr_error *err)
{
    for (uint32_t i = 0; i < d->pattern->n; i++)
        ORR_TRY(orr_estimate_row(d->e, d->plan, d->place, d->pattern->device[i], &d->rows[i], err));
    d->row = d->rows[0];
    return orr_estimate_partition(d->e, d->plan, d->row, d->pattern, &d->cut, err);
}

orr_status orr_estimate_order_free_bound(orr_estimator *e, const orr_plan *given, bool anywhere,
                                         double *ret_ns, orr_error *err)
{
    const double ROUNDED =
        1 - 5e-6; /* of sums of floats, and of times to whole ns: as in estimate_bound.c */
    orr_plan plan = orr_plan_with_defaults(given);
    const orr_placement *place;
    double most = 0;
    ORR_TRY(orr_plan_check(&plan, err));
    plan.seq = orr_estimate_sequence(e, given);
    if (plan.schedule == ORR_SCHEDULE_DUALPIPE) {
        *ret_ns = 0;
        return ORR_OK;
    }
    ORR_TRY(orr_estimate_placement(e, &plan, &place, err));
    for (uint32_t i = 0; i < place->n_patterns; i++) {
        orr_estimate_draft d = {
            .e = e, .plan = &plan, .place = place, .pattern = &place->patterns[i]};
        ORR_TRY(find_parts(&d, err));
        most = fmax(most, longest_stage(&d, anywhere));
    }
    *ret_ns = ROUNDED * most;
    return ORR_OK;
}
