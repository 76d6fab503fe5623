/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "model/plan/plan.h"
#include "explore/search/search.h"

/* The first incumbent (a warm start): the plans that the caller gives and those of the baseline
 * planners are simulated before any family is bounded. The planners that enumerate most come last,
 * and only once the search has gone through a few rounds of its own. Where no plan fits, memory
 * options are applied to a simple one until it does (neighbours.c). */

/* Quickest first. Those of a round run beside one another. */
static const struct {
    uint8_t baseline, round;
} PLANNERS[] = {{ORR_BASELINE_FSDP, 0},   {ORR_BASELINE_PRODUCTION, 1}, {ORR_BASELINE_AMP, 1},
                {ORR_BASELINE_SAILOR, 1}, {ORR_BASELINE_ATLAS, 1},      {ORR_BASELINE_GALVATRON, 2},
                {ORR_BASELINE_METIS, 3},  {ORR_BASELINE_CROSSPIPE, 3}};
enum {
    N_PLANNERS = sizeof PLANNERS / sizeof *PLANNERS,
    FIRST_ROUNDS = 3,
    LAST_ROUND = 3,
    MOST_CHANGES = 24
};

/* --- whether a plan is in the space ---------------------------------------------------------- */

static bool is_listed(const orr_space_list *list, uint32_t value)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (list->at[i] == value)
            return true;
    return list->n == 0;
}

/* Choices that are searched only where they are allowed by name: what is not listed is not meant.
 */
static bool is_gated(uint32_t field)
{
    return field == ORR_AT_precision || field == ORR_AT_compress || field == ORR_AT_local_steps ||
           field == ORR_AT_gradients || field == ORR_AT_offload;
}

static bool allows_field(const orr_space *s, const orr_plan *whole, const orr_plan *tidy,
                         uint32_t field)
{
    const uint32_t value = orr_plan_get(tidy, field);
    return orr_space_allows(&s->constraints, field, orr_plan_get(whole, field)) &&
           (!is_gated(field) || value == 0 || is_listed(&s->list[field], value));
}

static uint32_t count_sites(const orr_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        n += p->sites[i] > 0;
    return n;
}

static bool is_placed_as_fixed(const orr_space *s, const orr_plan *whole)
{
    const orr_plan *fixed = &s->constraints.fixed;
    return (!orr_plan_has_order(fixed) ||
            memcmp(fixed->order, whole->order, sizeof fixed->order) == 0) &&
           (!orr_plan_has_sites(fixed) ||
            memcmp(fixed->sites, whole->sites, sizeof fixed->sites) == 0) &&
           (!orr_plan_has_sections(fixed) || memcmp(fixed->section_layers, whole->section_layers,
                                                    sizeof fixed->section_layers) == 0) &&
           (s->max_sites == 0 || count_sites(whole) <= s->max_sites);
}

const char *orr_search_objection(const orr_search *s, const orr_plan *plan, orr_arena *arena)
{
    const orr_space *space = &s->space;
    const orr_plan whole =
        orr_plan_with_job_defaults(plan, space->model, s->options->workload.task, s->cluster);
    const orr_plan tidy = orr_plan_without_defaults(&whole);
    const uint64_t ranks = orr_plan_ranks(&whole);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        orr_plan alone = {0};
        if (allows_field(space, &whole, &tidy, field))
            continue;
        orr_plan_put(&alone, field, orr_plan_get(&whole, field));
        const char *text = orr_plan_text(&alone, arena);
        return text == NULL || text[0] == '\0' ? orr_space_field_name(field) : text;
    }
    if (ranks < space->least_devices || ranks > space->most_devices)
        return orr_arena_printf(arena, "%llu devices", (unsigned long long)ranks);
    if (!is_placed_as_fixed(space, &whole))
        return "where it lies";
    return orr_space_runs(space, plan) ? NULL : "the framework cannot run it";
}

/* --- baseline planners ----------------------------------------------------------------------- */

bool orr_search_fill(const orr_search *s, orr_plan *plan)
{
    const orr_framework_rules *rules = s->space.constraints.rules;
    if (rules == NULL)
        return true;
    orr_plan p = *plan;
    p.zero = plan->zero == 0 ? ORR_ZERO_NONE : plan->zero; /* open otherwise */
    p = orr_framework_fill(rules, s->space.model, &p);
    p.zero = plan->zero;
    const orr_plan said = orr_framework_explicit(rules, s->space.model, &p),
                   filled = orr_framework_fill(rules, s->space.model, &said),
                   a = orr_plan_with_defaults(&said), b = orr_plan_with_defaults(&filled);
    *plan = p;
    return orr_plan_equal(&a, &b);
}

/* Where a framework runs it, the plan has other fields filled in and is simulated anew. */
static orr_status take_baseline(const orr_search *s, int thread, orr_work_item *item,
                                orr_explored *e)
{
    orr_arena *scratch = s->arenas[thread];
    const orr_arena_mark mark = orr_arena_get_mark(scratch);
    const bool same = orr_search_fill(s, &e->plan);
    const orr_plan plan = orr_plan_without_defaults(&e->plan);
    const bool in_space = same && orr_search_objection(s, &plan, scratch) == NULL;
    const bool resumes = in_space && s->results != NULL && orr_results_continues(s->results);
    const char *text = resumes ? orr_plan_text(&plan, scratch) : NULL;
    const bool known = text != NULL && orr_results_plan(s->results, text, e);
    orr_arena_rewind(scratch, mark);
    if (!in_space)
        return ORR_OK;
    item->resumed += known; /* by an earlier run */
    if (!known && s->space.constraints.rules != NULL)
        ORR_TRY(orr_evaluator_simulate(s->evaluators[thread], &plan, e, &item->err));
    e->plan = plan;
    return orr_array_push(&item->simulated, *e) ? ORR_OK : orr_fail_memory(&item->err);
}

void orr_search_ask_baseline(const orr_search *s, int thread, orr_work_item *item)
{
    orr_explored e;
    orr_status status = orr_baseline_of((orr_baseline)(item->baseline - 1), s->model, s->cluster,
                                        s->options, &e, &item->err);
    if (status == ORR_OK)
        status = take_baseline(s, thread, item, &e);
    if (status == ORR_NO_MEMORY || status == ORR_IO)
        item->status = status;
}

static orr_status ask_baselines(orr_search *s, uint32_t round, orr_error *err)
{
    orr_work_item items[N_PLANNERS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < N_PLANNERS; i++)
        if (PLANNERS[i].round == round)
            items[n++] = (orr_work_item){.baseline = (uint8_t)(PLANNERS[i].baseline + 1),
                                         .alternative = true};
    return orr_search_run_round(s, items, n, err);
}

orr_status orr_search_ask_last_baselines(orr_search *s, orr_error *err)
{
    return ask_baselines(s, LAST_ROUND, err);
}

/* --- plans of the caller --------------------------------------------------------------------- */

static orr_status remark(orr_search *s, const char *text, orr_error *err)
{
    return text != NULL && orr_array_push(&s->remarks, text) ? ORR_OK : orr_fail_memory(err);
}

/* As many replicas as there are devices and samples for. */
static uint32_t most_replicas(const orr_space *s, const orr_plan *p)
{
    const uint64_t slices = (uint64_t)orr_plan_degree(p->tp) * orr_plan_degree(p->cp) *
                            orr_plan_degree(p->pp) * orr_plan_degree(p->micro_batch);
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (slices / orr_plan_degree(p->micro_batch) * s->parts[i] <= s->most_devices &&
            s->common.batch % ((uint64_t)s->parts[i] * orr_plan_degree(p->micro_batch)) == 0)
            return s->parts[i];
    return 1;
}

/* The plan with what the question says: its batch and sequence, and what is fixed. */
static orr_plan complete(const orr_search *s, const orr_plan *start)
{
    orr_plan p = orr_plan_override(start, &s->space.constraints.fixed);
    p = orr_plan_override(&p, &s->space.common);
    if (p.dp == 0)
        p.dp = most_replicas(&s->space, &p);
    if (p.precision == 0)
        p.precision = (uint8_t)s->space.list[ORR_AT_precision].at[0];
    p.micro_batches = 0;
    return p;
}

static orr_status set_aside(orr_search *s, const char *text, const char *why, orr_error *err)
{
    return remark(s, orr_arena_printf(s->arena, "the start %s is left aside: %s", text, why), err);
}

/* The start where it lies, or in the best layout of its degrees; changed where it does not fit. */
static orr_status fit_start(orr_search *s, const orr_plan *plan, const char *text,
                            orr_explored_list *list, orr_error *err)
{
    orr_explored e = {0};
    orr_error why = {0};
    bool found;
    orr_status status = orr_search_repair(s, plan, 0, &found, &e, &why);
    if (status == ORR_OK && !found) {
        status = orr_search_repair(s, plan, MOST_CHANGES, &found, &e, &why);
        if (status == ORR_OK && !found)
            return set_aside(s, text,
                             e.n_devices > 0 ? "it does not fit, and no change makes it" : why.text,
                             err);
    }
    if (status != ORR_OK)
        return orr_fail(err, status, "%s", why.text);
    if (!orr_plan_equal(&e.plan, plan)) {
        const orr_plan tidy = orr_plan_without_defaults(&e.plan);
        const char *changed = orr_plan_text(&tidy, s->arena);
        if (changed == NULL)
            return orr_fail_memory(err);
        ORR_TRY(remark(s, orr_arena_printf(s->arena, "the start %s is taken as %s", text, changed),
                       err));
    }
    return orr_array_push(list, e) ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_start(orr_search *s, const orr_plan *start, orr_explored_list *list,
                            orr_error *err)
{
    const orr_plan plan = complete(s, start);
    const char *text = orr_plan_text(start, s->arena);
    if (text == NULL)
        return orr_fail_memory(err);
    const char *objection = orr_search_objection(s, &plan, s->arena);
    if (objection == NULL)
        return fit_start(s, &plan, text, list, err);
    objection = orr_arena_printf(s->arena, "%s is not in the space that is searched", objection);
    return objection != NULL ? set_aside(s, text, objection, err) : orr_fail_memory(err);
}

static orr_status simulate_starts(orr_search *s, orr_error *err)
{
    orr_explored_list list = {0};
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < s->options->n_starts && status == ORR_OK; i++)
        status = add_start(s, &s->options->starts[i], &list, err);
    if (status == ORR_OK)
        status = orr_search_simulate(s, list.at, list.n, err);
    orr_array_done(&list);
    return status;
}

/* --- the first phase ------------------------------------------------------------------------- */

static orr_status repair_simplest(orr_search *s, orr_error *err)
{
    const orr_plan none = {0};
    const orr_plan plan = complete(s, &none);
    orr_explored e;
    bool found;
    ORR_TRY(orr_search_repair(s, &plan, MOST_CHANGES, &found, &e, err));
    return found ? orr_search_simulate(s, &e, 1, err) : ORR_OK;
}

/* A time limit ends this phase only once there is a plan: it takes about a second at most. */
orr_status orr_search_begin(orr_search *s, orr_error *err)
{
    s->beginning = true;
    s->phase = "published rules";
    ORR_TRY(simulate_starts(s, err));
    for (uint32_t round = 0; round < FIRST_ROUNDS && !s->stopped; round++)
        ORR_TRY(ask_baselines(s, round, err));
    if (isinf(s->incumbent.best) && !s->stopped)
        ORR_TRY(repair_simplest(s, err));
    s->beginning = false;
    return orr_search_climb_from_best(s, err);
}
