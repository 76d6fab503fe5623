/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "explore/search/search.h"

/* The archive of a search: the best simulated plan of each arrangement, and the Pareto front of two
 * objectives. */

typedef struct sorter {
    const orr_incumbent *incumbent;
    uint8_t by; /* an orr_objective */
    bool estimated;
} sorter;

static int by_value(const void *a, const void *b, void *ctx)
{
    const sorter *s = ctx;
    const orr_explored *x = a, *y = b;
    if (s->estimated) {
        const double u = orr_explored_estimated_value(x, s->by),
                     v = orr_explored_estimated_value(y, s->by);
        if (u != v)
            return u < v ? -1 : 1;
    }
    return orr_explored_is_better(s->incumbent, x, y) ? -1
                                                      : orr_explored_is_better(s->incumbent, y, x);
}

static void sort(const orr_search *s, orr_explored_list *list, bool estimated)
{
    sorter how = {&s->incumbent, s->incumbent.objective, estimated};
    if (list->n > 1)
        qsort_r(list->at, list->n, sizeof *list->at, by_value, &how);
}

/* Plans of an arrangement that is in the list already (fewer replicas of the best, say) are no
 * alternatives. */
static bool differs_from_all(const orr_explored_list *list, const orr_explored *e)
{
    for (size_t i = 0; i < list->n; i++)
        if (orr_plan_same_arrangement(&list->at[i].plan, &e->plan))
            return false;
    return true;
}

static orr_status choose(orr_search *s, uint32_t most, orr_explored_list *ret, orr_error *err)
{
    sort(s, &s->done, false);
    for (size_t i = 0; i < s->done.n && ret->n < most; i++)
        if (differs_from_all(ret, &s->done.at[i]) && !orr_array_push(ret, s->done.at[i]))
            return orr_fail_memory(err);
    return ORR_OK;
}

static uint32_t wanted(const orr_search *s)
{
    return s->options->keep > 0 ? s->options->keep : 1;
}

/* More arrangements than are reported may be no worse in truth. */
static uint32_t considered(const orr_search *s)
{
    return wanted(s) > 1 && wanted(s) < ORR_CANDIDATES ? ORR_CANDIDATES : wanted(s);
}

/* Whether the estimate is too far from the best for the order to be open: 1.2816 standard
 * deviations leave odds of ORR_ORDER_ODDS. */
static bool is_out_of_reach(const orr_search *s, const orr_explored *e)
{
    return orr_explored_estimated_value(e, s->incumbent.objective) >
           s->incumbent.best * exp(1.2816 * ORR_ORDER_ERROR);
}

static bool is_known(const orr_search *s, const orr_explored *e)
{
    return !differs_from_all(&s->done, e);
}

/* Estimates may be a little off, so a few more arrangements are simulated than will be reported. */
orr_status orr_search_alternatives(orr_search *s, orr_error *err)
{
    enum { MORE = 4 };
    size_t n = 0, taken = 0;
    if (wanted(s) <= 1)
        return ORR_OK;
    sort(s, &s->seen, true);
    for (; taken < s->seen.n && taken < considered(s) + MORE; taken++)
        if (taken >= wanted(s) + MORE && is_out_of_reach(s, &s->seen.at[taken]))
            break;
        else if (!is_known(s, &s->seen.at[taken]))
            s->seen.at[n++] = s->seen.at[taken];
    return orr_search_simulate(s, s->seen.at, n, err);
}

orr_status orr_search_local_search_best(orr_search *s, orr_error *err)
{
    orr_explored_list best = {0};
    orr_status status = choose(s, wanted(s), &best, err);
    for (size_t i = 0; i < best.n && status == ORR_OK; i++)
        status = orr_search_local_search(s, &best.at[i].plan, err);
    best.n = 0;
    if (status == ORR_OK)
        status = choose(s, wanted(s), &best, err);
    for (size_t i = 0; i < best.n && status == ORR_OK && !s->stopped; i++)
        status = orr_search_by_site(s, &best.at[i], err);
    orr_array_done(&best);
    return status;
}

static orr_status keep(orr_search *s, const orr_explored_list *list, const orr_explored **ret,
                       uint32_t *ret_n, orr_error *err)
{
    orr_explored *kept = orr_arena_array(s->arena, orr_explored, list->n);
    if (kept == NULL)
        return orr_fail_memory(err);
    const orr_framework_rules *rules = s->space.constraints.rules;
    for (size_t i = 0; i < list->n; i++) {
        kept[i] = list->at[i];
        if (rules != NULL)
            kept[i].plan = orr_framework_explicit(rules, s->space.model, &kept[i].plan);
    }
    *ret = kept;
    *ret_n = (uint32_t)list->n;
    return ORR_OK;
}

orr_status orr_search_report_best(orr_search *s, orr_exploration *ret, orr_error *err)
{
    orr_explored_list best = {0};
    orr_status status = choose(s, considered(s), &best, err);
    if (status == ORR_OK)
        status = keep(s, &best, &ret->candidates, &ret->n_candidates, err);
    ret->best = ret->candidates;
    ret->n = ret->n_candidates < wanted(s) ? ret->n_candidates : wanted(s);
    orr_array_done(&best);
    return status;
}

/* Scan in the order of the first objective: a plan is on the front if its second is below all
 * before. */
orr_status orr_search_report_front(orr_search *s, orr_exploration *ret, orr_error *err)
{
    orr_explored_list front = {0};
    orr_status status = ORR_OK;
    double least = INFINITY;
    if (s->incumbent.second >= ORR_OBJECTIVES)
        return ORR_OK;
    sort(s, &s->done, false);
    for (size_t i = 0; i < s->done.n && status == ORR_OK; i++) {
        const double second = s->done.at[i].value[s->incumbent.second];
        if (!(second < least))
            continue;
        least = second;
        if (!orr_array_push(&front, s->done.at[i]))
            status = orr_fail_memory(err);
    }
    if (status == ORR_OK)
        status = keep(s, &front, &ret->front, &ret->n_front, err);
    orr_array_done(&front);
    return status;
}
