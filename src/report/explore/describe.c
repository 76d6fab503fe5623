/* SPDX-License-Identifier: Apache-2.0 */
#include "report/explore/describe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/plan/plan.h"

/* --- plans ----------------------------------------------------------------------------------- */

/* Is a plan the same without what `without` lacks of it? */
static bool says_the_same(const orr_plan *without, const orr_plan *completed)
{
    const orr_plan again = orr_plan_with_defaults(without);
    return orr_plan_equal(&again, completed);
}

/* A choice that a search says though it is a default: that of its framework is another. */
static bool is_kept(const orr_plan *plan, uint32_t field)
{
    return field >= ORR_PLAN_NUMBERS && field < ORR_PLAN_FIELDS && field != ORR_AT_schedule &&
           field != ORR_AT_precision && orr_plan_get(plan, field) != 0;
}

/* The batch stays: it is what is asked, and not how. */
static orr_plan brief_of(const orr_plan *plan)
{
    const orr_plan completed = orr_plan_with_defaults(plan);
    const bool whole = orr_plan_equal(plan, &completed);
    orr_plan brief = completed;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS + ORR_PLAN_CHOICES + 1; i++) {
        orr_plan without = brief;
        if (!whole && is_kept(plan, i))
            continue;
        if (i < ORR_PLAN_NUMBERS)
            *orr_plan_field(&without, i) = 0;
        else if (i < ORR_PLAN_NUMBERS + ORR_PLAN_CHOICES)
            *orr_plan_choice_field(&without, i - ORR_PLAN_NUMBERS) = 0;
        else
            memset(without.order, 0, sizeof without.order);
        if (says_the_same(&without, &completed) && without.batch == completed.batch)
            brief = without;
    }
    return brief;
}

const char *orr_plan_short_text(const orr_plan *plan, orr_arena *arena)
{
    const orr_plan brief = brief_of(plan);
    return orr_plan_text(&brief, arena);
}

/* Texts one behind another. */
typedef struct list {
    orr_arena *arena;
    const char *text; /* NULL: out of memory */
} list;

static void add(list *l, const char *between, const char *item)
{
    if (l->text != NULL && item != NULL)
        l->text =
            orr_arena_printf(l->arena, "%s%s%s", l->text, *l->text != '\0' ? between : "", item);
    else
        l->text = NULL;
}

/* Fields that are no numbers and no choices: text of both plans with nothing else in them. */
static void add_rest(list *l, const orr_plan *from, const orr_plan *to)
{
    if (orr_plan_equal(from, to))
        return;
    const char *a = orr_plan_text(from, l->arena), *b = orr_plan_text(to, l->arena);
    if (a == NULL || b == NULL)
        l->text = NULL;
    else
        add(l, ", ",
            orr_arena_printf(l->arena, "%s -> %s", *a ? a : "as usual", *b ? b : "as usual"));
}

static void add_parts(list *l, const orr_plan *from, const orr_plan *to)
{
    orr_plan a = {0}, b = {0};
    memcpy(a.order, from->order, sizeof a.order);
    memcpy(b.order, to->order, sizeof b.order);
    add_rest(l, &a, &b);
    a = b = (orr_plan){0};
    memcpy(a.sites, from->sites, sizeof a.sites);
    memcpy(b.sites, to->sites, sizeof b.sites);
    add_rest(l, &a, &b);
    a = b = (orr_plan){0};
    memcpy(a.section_stages, from->section_stages, sizeof a.section_stages);
    memcpy(a.section_layers, from->section_layers, sizeof a.section_layers);
    memcpy(b.section_stages, to->section_stages, sizeof b.section_stages);
    memcpy(b.section_layers, to->section_layers, sizeof b.section_layers);
    add_rest(l, &a, &b);
}

/* Fields that follow from others are left out; of the others what they come to is told. */
const char *orr_plan_differences(const orr_plan *from, const orr_plan *to, orr_arena *arena)
{
    orr_plan a = orr_plan_with_defaults(from), b = orr_plan_with_defaults(to);
    orr_plan brief_a = brief_of(from), brief_b = brief_of(to);
    list l = {arena, ""};
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        if (*orr_plan_field(&brief_a, i) != *orr_plan_field(&brief_b, i))
            add(&l, ", ",
                orr_arena_printf(arena, "%s %u -> %u", orr_plan_number_at(i)->name,
                                 *orr_plan_field(&a, i), *orr_plan_field(&b, i)));
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++) {
        const orr_plan_choice *c = orr_plan_choice_at(i);
        const uint8_t x = *orr_plan_choice_field(&a, i), y = *orr_plan_choice_field(&b, i);
        if (*orr_plan_choice_field(&brief_a, i) != *orr_plan_choice_field(&brief_b, i))
            add(&l, ", ",
                orr_arena_printf(arena, "%s %s -> %s", c->name, x ? c->words[x] : "usual",
                                 y ? c->words[y] : "usual"));
    }
    add_parts(&l, &brief_a, &brief_b);
    return l.text != NULL && *l.text == '\0' ? "nothing" : l.text;
}

/* --- values ---------------------------------------------------------------------------------- */

/* What lowers a thing is good: "54.2 days" of so many ns. */
static char *human_duration(char buf[ORR_HUMAN_MAX], double ns)
{
    const double hours = ns / 3600e9;
    if (hours < 2)
        return orr_human_ns(buf, ns);
    if (hours < 72)
        snprintf(buf, ORR_HUMAN_MAX, "%.2f hours", hours);
    else
        snprintf(buf, ORR_HUMAN_MAX, "%.2f days", hours / 24);
    return buf;
}

static char *human_energy(char buf[ORR_HUMAN_MAX], double joule)
{
    const double kwh = joule / 3.6e6;
    if (kwh < 0.1)
        snprintf(buf, ORR_HUMAN_MAX, "%.4g kJ", joule / 1e3);
    else if (kwh < 1e3)
        snprintf(buf, ORR_HUMAN_MAX, "%.4g kWh", kwh);
    else if (kwh < 1e6)
        snprintf(buf, ORR_HUMAN_MAX, "%.4g MWh", kwh / 1e3);
    else
        snprintf(buf, ORR_HUMAN_MAX, "%.4g GWh", kwh / 1e6);
    return buf;
}

char *orr_objective_human(orr_objective objective, double value, char buf[ORR_HUMAN_MAX])
{
    char many[ORR_HUMAN_MAX];
    if (!isfinite(value))
        return (void)snprintf(buf, ORR_HUMAN_MAX, "not known"), buf;
    switch (objective) {
    case ORR_OBJECTIVE_COST:
        if (value < 1000)
            snprintf(buf, ORR_HUMAN_MAX, "%.2f USD", value);
        else
            snprintf(buf, ORR_HUMAN_MAX, "%.16s USD", orr_human_si(many, value));
        return buf;
    case ORR_OBJECTIVE_ENERGY:
        return human_energy(buf, value);
    case ORR_OBJECTIVE_DEVICES:
        return orr_human_count(buf, (uint64_t)llround(value));
    default:
        return human_duration(buf, value);
    }
}

const char *orr_explore_status(const orr_explore_report *r)
{
    const orr_exploration *x = r->exploration;
    if (r->interrupted)
        return "interrupted";
    if (x->n == 0)
        return x->complete ? "no feasible plan" : "stopped before a plan was found";
    if (!x->complete)
        return "stopped before the gap was reached";
    return x->gap_frac <= 0 ? "optimal" : "within the gap";
}

const char *orr_explore_break_even_text(const orr_sensitivity *s, uint32_t plan, orr_arena *arena)
{
    list l = {arena, ""};
    for (uint32_t i = 0; i < s->n_needs; i++) {
        const orr_explore_need *need = &s->needs[i];
        if (need->plan == plan && isfinite(need->at))
            add(&l, ", or ",
                orr_arena_printf(arena, "%s %s %.3g x", orr_factor_name((orr_factor)need->factor),
                                 need->at < 1 ? "at most" : "at least", need->at));
    }
    return l.text;
}
