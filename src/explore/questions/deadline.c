/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/questions/questions.h"

/* The cheapest plan that meets a deadline, and how many devices would do where none does. */

/* --- the cheapest ---------------------------------------------------------------------------- */

enum { COST_SEARCHES = 8 };

/* Of the probes: the cheapest plan in time. */
static uint32_t cheapest_in_time(const orr_asking *a)
{
    uint32_t best = ORR_NONE;
    for (uint32_t i = 0; i < a->probes.n; i++) {
        const orr_probe *p = &a->probes.at[i];
        if (p->verdict == ORR_VERDICT_MEETS &&
            (best == ORR_NONE || p->value < a->probes.at[best].value))
            best = i;
    }
    return best;
}

/* The condition is the time to the budget; what is compared is the cost. */
static void judge_time(double limit_ns, orr_probe *p)
{
    p->verdict = p->found && p->best.value[ORR_OBJECTIVE_BUDGET] <= limit_ns ? ORR_VERDICT_MEETS
                 : p->complete                                               ? ORR_VERDICT_FAILS
                                                                             : ORR_VERDICT_OPEN;
}

/* Plans that earlier searches found in time. */
static orr_status add_known(orr_asking *a, const orr_answer *devices)
{
    for (uint32_t i = 0; i < devices->n; i++) {
        orr_probe probe = devices->probes[i];
        const orr_trial trial = {.what = probe.what, .at = probe.at};
        if (probe.verdict != ORR_VERDICT_MEETS)
            continue;
        probe.at = probe.best.n_devices;
        probe.value = probe.best.value[ORR_OBJECTIVE_COST];
        probe.kept_value = probe.bound = probe.gap_frac = NAN;
        ORR_TRY(orr_asking_add(a, &trial, &probe));
    }
    return ORR_OK;
}

/* The cheapest plans of at least so many devices, one search after another: where the cheapest is
 * too slow, no plan with as many devices and the same prices is both quicker and dearer by less
 * than the gap, so that the next search asks for more devices. */
static orr_status search_costs(orr_asking *a, double limit_ns, uint32_t least)
{
    for (int i = 0; i < COST_SEARCHES && !orr_asking_stopped(a); i++) {
        orr_trial trial = {.what =
                               orr_arena_printf(a->arena, "cheapest on %u devices or more", least),
                           .at = least,
                           .cluster = a->inquiry->cluster,
                           .options = orr_asking_options(a)};
        if (trial.what == NULL)
            return orr_fail_memory(a->err);
        trial.options.objective = ORR_OBJECTIVE_COST;
        trial.options.min_devices = least;
        ORR_TRY(orr_asking_search(a, &trial));
        orr_probe *p = &a->probes.at[a->probes.n - 1];
        judge_time(limit_ns, p);
        if (!p->found || p->verdict == ORR_VERDICT_MEETS)
            break;
        p->at = p->best.n_devices;
        least = p->best.n_devices + 1;
    }
    return ORR_OK;
}

/* The first search leaves out no plan that is in time: its bound is one of the answer. */
static void bound_answer(const orr_asking *a, uint32_t answer, size_t first)
{
    if (answer == ORR_NONE || first >= a->probes.n || isnan(a->probes.at[first].bound))
        return;
    orr_probe *p = &a->probes.at[answer];
    p->bound = fmin(a->probes.at[first].bound, p->value);
    p->gap_frac = (p->value - p->bound) / p->value;
}

orr_status orr_explore_cheapest(const orr_inquiry *inquiry, const orr_answer *devices,
                                orr_arena *arena, orr_answer *ret, orr_error *err)
{
    orr_asking a = {.inquiry = inquiry, .limit = NAN, .arena = arena, .err = err};
    orr_answer made = {.question = ORR_QUESTION_COST,
                       .title = "lowest cost",
                       .unit = "devices",
                       .reference = ORR_NONE,
                       .beyond = ORR_NONE};
    orr_status status = ORR_OK;
    uint32_t least = inquiry->options->min_devices;
    const orr_probe *beyond =
        devices->beyond != ORR_NONE ? &devices->probes[devices->beyond] : NULL;
    if (beyond != NULL && beyond->verdict == ORR_VERDICT_FAILS && beyond->at >= least)
        least = (uint32_t)beyond->at + 1;
    ORR_TRY_OUT(status, add_known(&a, devices));
    const size_t first = a.probes.n;
    if (first > 0)
        ORR_TRY_OUT(status, search_costs(&a, devices->limit, least > 0 ? least : 1));
    made.answer = cheapest_in_time(&a);
    bound_answer(&a, made.answer, first);
    ORR_TRY_OUT(status, orr_asking_answer(&a, &made, ret));
    ret->objective = ORR_OBJECTIVE_COST;
    ret->limit = devices->limit;
out:
    orr_asking_done(&a);
    return status;
}

/* --- enough devices -------------------------------------------------------------------------- */

enum { GROWN_MOST = 64 };

typedef struct growing {
    orr_asking asking;
    const orr_cluster *machine; /* large enough */
} growing;

/* Any plan does where there is no limit: the search ends with the first. */
static orr_status search_grown(growing *g, double at, const orr_cluster *machine)
{
    orr_asking *a = &g->asking;
    orr_trial trial = {.what = orr_arena_printf(a->arena, "at most %.0f devices", at),
                       .at = at,
                       .cluster = machine,
                       .options = orr_asking_options(a)};
    if (trial.what == NULL)
        return orr_fail_memory(a->err);
    trial.options.max_devices = (uint32_t)at;
    trial.options.min_devices = 0;
    if (isinf(a->limit)) {
        trial.options.gap_frac = 1;
        trial.options.exact = false;
    }
    ORR_TRY(orr_asking_search(a, &trial));
    orr_probe *last = &a->probes.at[a->probes.n - 1];
    if (last->verdict == ORR_VERDICT_MEETS)
        last->at = last->best.n_devices;
    return ORR_OK;
}

static orr_status search_fewer(void *ctx, double at)
{
    growing *g = ctx;
    return search_grown(g, at, g->machine);
}

/* Doubles the machine until a plan does. Such a probe becomes the first, from which bisection goes
 * down. */
static orr_status grow(growing *g, double *ret_most_failed)
{
    orr_asking *a = &g->asking;
    const orr_cluster *cluster = a->inquiry->cluster;
    const uint32_t given = a->inquiry->options->max_devices;
    double n = given > 0 ? given : cluster->n_devices;
    *ret_most_failed = n;
    for (uint32_t times = 1; times <= GROWN_MOST && !orr_asking_stopped(a); times *= 2) {
        const double most = n * 2;
        if (most > cluster->n_devices * (double)times)
            continue;
        ORR_TRY(orr_machine_grown(cluster, times, a->arena, &g->machine, a->err));
        ORR_TRY(search_grown(g, most, g->machine));
        if (a->probes.at[a->probes.n - 1].verdict == ORR_VERDICT_MEETS)
            return ORR_OK;
        *ret_most_failed = n = most;
    }
    return ORR_OK;
}

static void first_to_last(orr_asking *a)
{
    const size_t last = a->probes.n - 1;
    const orr_probe probe = a->probes.at[0];
    const orr_trial trial = a->trials.at[0];
    a->probes.at[0] = a->probes.at[last];
    a->trials.at[0] = a->trials.at[last];
    a->probes.at[last] = probe;
    a->trials.at[last] = trial;
}

orr_status orr_explore_enough(const orr_inquiry *inquiry, double limit, orr_arena *arena,
                              orr_answer *ret, orr_error *err)
{
    growing g = {
        .asking = {
            .inquiry = inquiry, .limit = limit > 0 ? limit : INFINITY, .arena = arena, .err = err}};
    orr_answer made = {.question = ORR_QUESTION_ENOUGH,
                       .title = "devices that would do",
                       .unit = "devices",
                       .reference = ORR_NONE};
    orr_bisection b = {.direction = -1,
                       .stride = 2,
                       .whole = inquiry->cluster->levels[0].devices,
                       .probe = search_fewer,
                       .ctx = &g};
    orr_status status;
    ORR_TRY_OUT(status, grow(&g, &b.end));
    if (g.asking.probes.n > 0)
        first_to_last(&g.asking);
    ORR_TRY_OUT(status, orr_bisect(&g.asking, &b, &made));
    *ret = made;
out:
    orr_asking_done(&g.asking);
    return status;
}
