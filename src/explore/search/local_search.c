/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/schedule/schedule.h"
#include "explore/search/search.h"

/* Hill climbing after the branch and bound: numbers of which the space has some values only (powers
 * of two, an even or a balanced split of the layers) are changed by one, to twice and to half, one
 * at a time and two at once, from the best plans on, as long as that helps. The proven bound is
 * that of the space without these values; where they undercut it, it is what they reach. */

enum { STEPS = 16, CHANGES = 64 };
static const uint8_t FIELDS[] = {ORR_AT_dp_chunks,       ORR_AT_bucket_bytes, ORR_AT_prefetch,
                                 ORR_AT_group,           ORR_AT_first_layers, ORR_AT_last_layers,
                                 ORR_AT_recompute_layers};

typedef struct change {
    uint8_t field;
    uint32_t value;
} change;
typedef struct tries {
    orr_search *search;
    const orr_explored *from;
    change at[CHANGES];
    uint32_t n;
    orr_explored_list worth; /* a simulation */
} tries;

static bool is_searched(const orr_space *s, uint8_t field)
{
    const bool of_network = field == ORR_AT_dp_chunks || field == ORR_AT_bucket_bytes;
    return s->constraints.searched & (of_network ? ORR_SEARCH_NETWORK : ORR_SEARCH_SCHEDULING);
}

/* Whether the plan has what the field is about. */
static bool applies(const orr_plan *p, uint8_t field)
{
    switch (field) {
    case ORR_AT_dp_chunks:
        return p->dp_chunks > 1;
    case ORR_AT_bucket_bytes:
        return (uint64_t)p->dp * p->cp > 1 && p->zero < 3;
    case ORR_AT_prefetch:
        return p->zero == 3;
    case ORR_AT_group:
        return p->schedule == ORR_SCHEDULE_INTERLEAVED;
    case ORR_AT_recompute_layers:
        return p->recompute == ORR_RECOMPUTE_BLOCK;
    default:
        return p->pp > 1 && !orr_plan_has_sections(p);
    }
}

static void add(tries *t, uint8_t field, uint64_t value)
{
    const orr_space_constraints *constraints = &t->search->space.constraints;
    if (t->n < CHANGES && value > 0 && value < UINT32_MAX &&
        orr_space_allows(constraints, field, (uint32_t)value))
        t->at[t->n++] = (change){field, (uint32_t)value};
}

static void list_changes(tries *t)
{
    const orr_plan p = orr_plan_with_defaults(&t->from->plan);
    const uint32_t layers = t->search->space.model->layers;
    for (uint32_t i = 0; i < sizeof FIELDS; i++) {
        const uint8_t field = FIELDS[i];
        const bool of_ends = field == ORR_AT_first_layers || field == ORR_AT_last_layers;
        if (!is_searched(&t->search->space, field) || !applies(&p, field))
            continue;
        uint64_t value = orr_plan_get(&p, field);
        if (value == 0)
            value = of_ends ? layers / p.pp : 160000000; /* 40M gradients: estimate/shards.c */
        if (field != ORR_AT_bucket_bytes) {              /* a byte is no step */
            add(t, field, value + 1);
            add(t, field, value - 1);
        }
        add(t, field, 2 * value);
        add(t, field, value / 2);
        if (orr_plan_get(&p, field) == 0)
            add(t, field, value);
        if (of_ends && value > 2)
            add(t, field, value - 2);
        if (field == ORR_AT_group) {
            add(t, field, value + p.pp);
            add(t, field, value > p.pp ? value - p.pp : 0);
        }
    }
}

/* What the estimate of a plan says of its value, as far off as it is for the plan that it differs
 * from in one or two numbers. */
static double expected_value(const tries *t, const orr_explored *e)
{
    const double off = (double)t->from->step_ns / (double)t->from->estimate_ns;
    return off * orr_explored_estimated_value(e, t->search->incumbent.objective);
}

/* Keeps the plan if it may be better: by its bound in an exact search, else by its estimate. */
static orr_status consider(tries *t, const orr_plan *plan, orr_error *err)
{
    const orr_search *s = t->search;
    const uint8_t objective = s->incumbent.objective;
    const double best = t->from->value[objective];
    const orr_plan whole = orr_plan_with_defaults(plan);
    orr_explored e;
    if (!orr_space_runs(&s->space, &whole))
        return ORR_OK;
    const orr_status status = orr_evaluator_estimate(s->evaluators[0], plan, &e, err);
    if (status != ORR_OK)
        return status == ORR_NO_MEMORY || status == ORR_IO ? status : ORR_OK;
    const double value = s->options->exact ? e.value[objective] : expected_value(t, &e);
    if (value >= best || !orr_explored_fits(&e, s->options->exact ? 0.10 : 0.02))
        return ORR_OK;
    e.plan = orr_plan_without_defaults(plan);
    return orr_array_push(&t->worth, e) ? ORR_OK : orr_fail_memory(err);
}

static orr_status try_all(tries *t, orr_error *err)
{
    list_changes(t);
    for (uint32_t i = 0; i < t->n; i++) {
        orr_plan one = t->from->plan;
        orr_plan_put(&one, t->at[i].field, t->at[i].value);
        ORR_TRY(consider(t, &one, err));
        for (uint32_t j = i + 1; j < t->n; j++) {
            orr_plan two = one;
            orr_plan_put(&two, t->at[j].field, t->at[j].value);
            if (t->at[j].field != t->at[i].field)
                ORR_TRY(consider(t, &two, err));
        }
    }
    return orr_search_simulate(t->search, t->worth.at, t->worth.n, err);
}

/* The best simulated plan of the arrangement. */
static const orr_explored *best_like(const orr_search *s, const orr_plan *plan)
{
    const orr_explored *best = NULL;
    for (size_t i = 0; i < s->done.n; i++)
        if (orr_plan_same_arrangement(&s->done.at[i].plan, plan) &&
            (best == NULL || orr_explored_is_better(&s->incumbent, &s->done.at[i], best)))
            best = &s->done.at[i];
    return best;
}

orr_status orr_search_local_search(orr_search *s, const orr_plan *arrangement, orr_error *err)
{
    for (uint32_t step = 0; step < STEPS && !s->stopped; step++) {
        const orr_explored *best = best_like(s, arrangement);
        if (best == NULL)
            return ORR_OK;
        const orr_explored from = *best;
        tries t = {.search = s, .from = &from};
        const orr_status status = try_all(&t, err);
        orr_array_done(&t.worth);
        ORR_TRY(status);
        const orr_explored *now = best_like(s, arrangement);
        if (now->value[s->incumbent.objective] >= from.value[s->incumbent.objective])
            return ORR_OK;
    }
    return ORR_OK;
}
