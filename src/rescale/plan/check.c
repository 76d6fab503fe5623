/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/plan/check.h"

#include "model/plan/plan.h"

/* What a recorded job tells, and can be changed. */
static bool is_known(const orr_plan_number *number)
{
    static const size_t known[] = {offsetof(orr_plan, dp),     offsetof(orr_plan, tp),
                                   offsetof(orr_plan, pp),     offsetof(orr_plan, micro_batches),
                                   offsetof(orr_plan, layers), offsetof(orr_plan, micro_batch),
                                   offsetof(orr_plan, hidden), offsetof(orr_plan, ffn),
                                   offsetof(orr_plan, heads),  offsetof(orr_plan, seq),
                                   offsetof(orr_plan, vocab)};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i] == number->offset)
            return true;
    return false;
}

static orr_status refuse(const char *name, const char *about, orr_error *err)
{
    return orr_fail(err, ORR_INVALID,
                    "%s (%s) of a recorded job cannot be changed: only dp, tp, pp, schedule, the "
                    "micro-batches and the sizes of the model can",
                    name, about);
}

static orr_status check_asked(const orr_plan *plan, orr_error *err)
{
    orr_plan p = *plan;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (*orr_plan_field(&p, i) != 0 && !is_known(orr_plan_number_at(i)))
            return refuse(orr_plan_field_name(i), orr_plan_field_about(i), err);
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++) {
        const orr_plan_choice *choice = orr_plan_choice_at(i);
        if (choice->offset != offsetof(orr_plan, schedule) && *orr_plan_choice_field(&p, i) != 0)
            return refuse(choice->name, choice->about, err);
    }
    if (orr_plan_has_order(plan))
        return refuse("order", "of the ranks", err);
    if (plan->schedule != ORR_SCHEDULE_UNKNOWN && plan->schedule != ORR_SCHEDULE_1F1B &&
        plan->schedule != ORR_SCHEDULE_GPIPE)
        return orr_fail(err, ORR_INVALID, "schedule=%s: a recorded job is run as 1f1b or gpipe",
                        orr_schedule_name((orr_schedule)plan->schedule));
    return ORR_OK;
}

orr_status orr_rescale_check(const orr_plan *plan, orr_error *err)
{
    ORR_TRY(check_asked(plan, err));
    if (plan->layers > 0 && plan->pp > 0 && plan->layers % plan->pp != 0)
        return orr_fail(err, ORR_INVALID, "%u layers do not divide into %u pipeline stages",
                        plan->layers, plan->pp);
    if (plan->vocab > 0 && plan->tp > 0 && plan->vocab % plan->tp != 0)
        return orr_fail(err, ORR_INVALID,
                        "%u tokens of the vocabulary do not divide into %u tensor-parallel slices",
                        plan->vocab, plan->tp);
    return orr_plan_check(plan, err);
}
