/* SPDX-License-Identifier: Apache-2.0 */
/* Words for what the answer of a search means. */
#include <math.h>
#include <string.h>

#include "model/plan/plan.h"
#include "report/explore/describe.h"

bool orr_explore_same_plan(const orr_plan *a, const orr_plan *b)
{
    const orr_plan x = orr_plan_with_defaults(a), y = orr_plan_with_defaults(b);
    return orr_plan_equal(&x, &y);
}

static uint8_t precision_of(const orr_plan *plan)
{
    return plan->precision != 0 ? plan->precision : ORR_PRECISION_BF16;
}

double orr_explore_best_value(const orr_explore_report *r)
{
    const uint8_t objective = r->options->objective;
    const orr_explore_answer *a = r->answer;
    return r->exploration->n > 0            ? r->exploration->best[0].value[objective]
           : a != NULL && a->decision.n > 0 ? a->plans[a->decision.best].value[objective]
                                            : NAN;
}

/* --- the set --------------------------------------------------------------------------------- */

uint32_t orr_explore_answer_place(const orr_explore_report *r, uint32_t plan)
{
    const uint8_t objective = r->options->objective;
    const orr_explored *plans = r->answer->plans;
    uint32_t place = 1;
    for (uint32_t i = 0; i < r->answer->decision.n; i++)
        place += plans[i].value[objective] < plans[plan].value[objective] ||
                 (plans[i].value[objective] == plans[plan].value[objective] && i < plan);
    return place;
}

const char *orr_explore_set_text(const orr_explore_report *r, orr_arena *arena)
{
    const orr_decision *d = &r->answer->decision;
    if (d->n == 0)
        return "";
    const orr_decision_plan *take = &d->plans[d->recommended];
    const char *many =
        d->n_set == 1
            ? "no other plan that was simulated is within the model's error of it"
            : orr_arena_printf(arena, "%s%u plans are within the model's error of the best",
                               d->n_set == d->n ? "at least " : "", d->n_set);
    char mean[ORR_HUMAN_MAX], high[ORR_HUMAN_MAX];
    if (many == NULL || d->draws == 0)
        return many;
    return orr_arena_printf(
        arena,
        "%s; least regret over %u draws of the calibration: %s, %s on average, "
        "%s or more in 5 of 100",
        many, d->draws,
        d->recommended == d->best ? "the best itself"
                                  : orr_arena_printf(arena, "plan %u of the set",
                                                     orr_explore_answer_place(r, d->recommended)),
        orr_human_frac(mean, take->mean_regret_frac), orr_human_frac(high, take->p95_regret_frac));
}

/* --- published ------------------------------------------------------------------------------- */

uint32_t orr_explore_published_place(const orr_explore_report *r, const orr_published_result *p)
{
    const uint8_t objective = r->options->objective;
    uint32_t place = 1;
    for (uint32_t i = 0; i < r->answer->decision.n; i++)
        place += r->answer->plans[i].value[objective] < p->explored.value[objective];
    return place;
}

bool orr_explore_published_in_set(const orr_explore_report *r, const orr_published_result *p)
{
    const orr_explore_answer *a = r->answer;
    for (uint32_t i = 0; i < a->decision.n; i++)
        if (a->decision.plans[i].in_set &&
            orr_explore_same_plan(&a->plans[i].plan, &p->explored.plan))
            return true;
    return false;
}

const char *orr_explore_published_text(const orr_explore_report *r, const orr_published_result *p,
                                       orr_arena *arena)
{
    const orr_explored *e = &p->explored;
    const orr_objective objective = (orr_objective)r->options->objective;
    char step[ORR_HUMAN_MAX], measured[ORR_HUMAN_MAX], over[ORR_HUMAN_MAX];
    if (p->why_not != NULL)
        return orr_arena_printf(arena, "%s cannot be simulated: %s", p->published->name,
                                p->why_not);
    const double best = orr_explore_best_value(r);
    const char *place =
        !p->fits
            ? orr_arena_printf(
                  arena, "does not fit by our account (%s of the memory)",
                  orr_human_frac(over, (double)e->peak_bytes / (double)e->usable_bytes))
            : orr_arena_printf(arena, "place %u, %s", orr_explore_published_place(r, p),
                               orr_explore_published_in_set(r, p) ? "within the model's error"
                                                                  : "beyond the model's error");
    if (place == NULL)
        return NULL;
    return orr_arena_printf(
        arena, "%s %s (%+.1f %%), %s%s%s%s", p->published->name,
        orr_human_ns(step, (double)e->step_ns), 100 * (e->value[objective] / best - 1), place,
        e->other_numerics ? ", other numerics" : "",
        isfinite(p->measured_step_ns) ? "; measured " : "",
        isfinite(p->measured_step_ns) ? orr_human_ns(measured, p->measured_step_ns) : "");
}

/* --- numerics and records -------------------------------------------------------------------- */

const char *orr_explore_fp8_text(const orr_explore_report *r, orr_arena *arena)
{
    const orr_explore_answer *a = r->answer;
    const orr_objective objective = (orr_objective)r->options->objective;
    char value[ORR_HUMAN_MAX];
    if (!a->has_fp8)
        return "";
    if (!a->fp8_fits)
        return "this plan would not fit with products in fp8";
    return orr_arena_printf(
        arena,
        "this plan would take %s with products in fp8 (%+.1f %%): other numerics, only with "
        "--allow fp8",
        orr_objective_human(objective, a->fp8.value[objective], value),
        100 * (a->fp8.value[objective] / orr_explore_best_value(r) - 1));
}

/* Of one search device and kind of model are the same for all plans. */
double orr_explore_record_of(const orr_explore_report *r, const orr_plan *plan)
{
    const orr_explore_answer *a = r->answer;
    const orr_dtype dtype = orr_precision_dtype(precision_of(plan));
    for (uint32_t i = 0; a != NULL && i < a->decision.n; i++)
        if (orr_precision_dtype(precision_of(&a->plans[i].plan)) == dtype)
            return a->record_mfu_frac[i];
    return NAN;
}

const char *orr_explore_record_warning(const orr_explore_report *r, orr_arena *arena)
{
    const orr_explore_answer *a = r->answer;
    const orr_explored *best = a->decision.n > 0 ? &a->plans[0] : NULL;
    const bool mixture = r->model->moe.experts > 0;
    char mfu[ORR_HUMAN_MAX], record[ORR_HUMAN_MAX];
    if (best == NULL || a->record == NULL || !(best->mfu_frac > a->record_mfu_frac[0]))
        return "";
    return orr_arena_printf(
        arena, "MFU %s is above all that was published of %s on %s in %s: %s, %s (%s)",
        orr_human_frac(mfu, best->mfu_frac),
        orr_job_kind_name(mixture ? ORR_JOB_KIND_MIXTURE : ORR_JOB_KIND_DENSE), a->record->device,
        a->record->precision, orr_human_frac(record, a->record_mfu_frac[0]),
        *a->record->model != '\0' ? a->record->model : a->record->notes, a->record->source);
}
