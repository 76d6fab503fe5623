/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/results/row.h"

#include <stdio.h>

#include "model/plan/plan.h"

/* Rows of the results tables: parameters are bound and columns read in the order of the tables. */

static void set_parts(orr_query *q, int at, const uint16_t *first, const uint16_t *second)
{
    char text[ORR_PLAN_PARTS * 12 + 1] = "";
    size_t n = 0;
    uint32_t parts = ORR_PLAN_PARTS;
    while (parts > 0 && first[parts - 1] == 0)
        parts--;
    for (uint32_t i = 0; i < parts; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%u", i > 0 ? "-" : "", first[i]);
        if (second != NULL)
            n += (size_t)snprintf(text + n, sizeof text - n, "x%u", second[i]);
    }
    orr_query_bind_text(q, at, parts > 0 ? text : NULL);
}

static void set_order(orr_query *q, int at, const orr_plan *plan)
{
    char text[32] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < ORR_BASE_AXES && orr_plan_has_order(plan); i++)
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", i > 0 ? "-" : "",
                              orr_axis_name((orr_axis)(plan->order[i] - 1)));
    orr_query_bind_text(q, at, n > 0 ? text : NULL);
}

/* Binds the plan with all defaults filled in, so that SQL can ask for tp = 1. */
static void set_fields(orr_query *q, int at, const orr_plan *asked)
{
    orr_plan plan = orr_plan_with_defaults(asked);
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++, at++) {
        const uint32_t value = *orr_plan_field(&plan, i);
        if (value > 0)
            orr_query_bind_int(q, at, value);
        else
            orr_query_bind_null(q, at);
    }
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++, at++) {
        const orr_plan_choice *choice = orr_plan_choice_at(i);
        const uint8_t value = *orr_plan_choice_field(&plan, i);
        orr_query_bind_text(q, at, value > 0 && value < choice->n ? choice->words[value] : NULL);
    }
    set_order(q, at++, &plan);
    set_parts(q, at++, plan.sites, NULL);
    set_parts(q, at, plan.section_stages, plan.section_layers);
}

void orr_results_set_plan(orr_query *q, int64_t search, const char *family, const char *text,
                          const orr_explored *explored)
{
    int at = 1;
    orr_query_bind_int(q, at++, search);
    orr_query_bind_text(q, at++, text);
    orr_query_bind_text(q, at++, family);
    orr_query_bind_int(q, at++, explored->n_devices);
    orr_query_bind_int(q, at++, explored->bound_ns);
    orr_query_bind_int(q, at++, explored->estimate_ns);
    if (explored->step_ns > 0)
        orr_query_bind_int(q, at++, explored->step_ns);
    else
        orr_query_bind_null(q, at++);
    orr_query_bind_int(q, at++, explored->peak_bytes);
    orr_query_bind_int(q, at++, explored->usable_bytes);
    orr_query_bind_number(q, at++, explored->tokens_per_s);
    orr_query_bind_number(q, at++, explored->mfu_frac);
    orr_query_bind_number(q, at++, explored->effective_frac);
    orr_query_bind_int(q, at++, explored->other_numerics);
    for (int i = 0; i < ORR_OBJECTIVES; i++)
        orr_query_bind_number(q, at++, explored->value[i]);
    set_fields(q, at, &explored->plan);
}

void orr_results_get_figures(const orr_query *q, orr_explored *ret)
{
    int at = 3;
    ret->n_devices = (uint32_t)orr_query_int(q, at++);
    ret->bound_ns = orr_query_int(q, at++);
    ret->estimate_ns = orr_query_int(q, at++);
    ret->step_ns = orr_query_int(q, at++); /* NULL reads as 0 */
    ret->peak_bytes = orr_query_int(q, at++);
    ret->usable_bytes = orr_query_int(q, at++);
    ret->tokens_per_s = orr_query_number(q, at++);
    ret->mfu_frac = orr_query_number(q, at++);
    ret->effective_frac = orr_query_number(q, at++);
    ret->other_numerics = orr_query_int(q, at++) != 0;
    for (int i = 0; i < ORR_OBJECTIVES; i++)
        ret->value[i] = orr_query_number(q, at++);
}

void orr_results_set_family(orr_query *q, int64_t search, const char *key,
                            const orr_family_result *family)
{
    int at = 1;
    orr_query_bind_int(q, at++, search);
    orr_query_bind_text(q, at++, key);
    orr_query_bind_int(q, at++, (int64_t)family->plans);
    orr_query_bind_int(q, at++, (int64_t)family->bounded);
    orr_query_bind_int(q, at++, (int64_t)family->estimated);
    orr_query_bind_number(q, at++, family->bound);
    for (int i = 0; i < ORR_PRUNES; i++)
        orr_query_bind_number(q, at++, family->pruned[i]);
}

void orr_results_get_family(const orr_query *q, orr_family_result *ret)
{
    int at = 2;
    ret->plans = (uint64_t)orr_query_int(q, at++);
    ret->bounded = (uint64_t)orr_query_int(q, at++);
    ret->estimated = (uint64_t)orr_query_int(q, at++);
    ret->bound = orr_query_number(q, at++);
    for (int i = 0; i < ORR_PRUNES; i++)
        ret->pruned[i] = orr_query_number(q, at++);
}
