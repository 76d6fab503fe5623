/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/search/search.h"

/* What differs by site and is not enumerated: after the search, replicas on unlike devices get
 * micro-batches by their speed, and stages layers by what these cost there. The closed form finds
 * the numbers, the simulation decides. Both can only make the answer better; the proven bound is
 * that of the space without them. */

enum { EXCHANGED_MOST = 64 };

typedef struct by_site {
    orr_search *search;
    const orr_explored *from;
    orr_explored_list worth; /* a simulation */
} by_site;

/* Estimates the plan. False: it cannot run, or does not fit. */
static bool estimated(const by_site *b, const orr_plan *plan, orr_explored *ret)
{
    const orr_plan whole = orr_plan_with_defaults(plan);
    return orr_plan_check(&whole, NULL) == ORR_OK && orr_space_runs(&b->search->space, &whole) &&
           orr_evaluator_estimate(b->search->evaluators[0], plan, ret, NULL) == ORR_OK &&
           orr_explored_fits(ret, 0.02);
}

static double value_of(const by_site *b, const orr_explored *e)
{
    return orr_explored_estimated_value(e, b->search->incumbent.objective);
}

static orr_status keep(by_site *b, const orr_plan *plan, orr_explored *e, orr_error *err)
{
    e->plan = orr_plan_without_defaults(plan);
    return orr_array_push(&b->worth, *e) ? ORR_OK : orr_fail_memory(err);
}

/* --- micro-batches ---------------------------------------------------------------------------- */

static bool is_free(const by_site *b, const orr_plan *p)
{
    const orr_space *s = &b->search->space;
    return p->cross == ORR_CROSS_DP && orr_plan_has_sites(p) && !s->uniform_devices &&
           s->constraints.fixed.micro_batches == 0 &&
           (s->constraints.searched & ORR_SEARCH_SCHEDULING);
}

/* Moves micro-batches from the replicas of a site to those of another, `times` the fewest that
 * leave the batch as it is. False: there are not as many. */
static bool exchange(orr_plan *p, uint32_t from, uint32_t to, uint32_t times)
{
    const int64_t common = orr_gcd(p->sites[from], p->sites[to]);
    const int64_t less = p->site_micro_batches[from] - times * (p->sites[to] / common);
    const int64_t more = p->site_micro_batches[to] + times * (p->sites[from] / common);
    if (less < 1 || more > UINT16_MAX)
        return false;
    p->site_micro_batches[from] = (uint16_t)less;
    p->site_micro_batches[to] = (uint16_t)more;
    p->micro_batches = 0;
    return true;
}

/* The best exchange of so many between any two sites. False: none is better. */
static bool improve(const by_site *b, uint32_t times, orr_plan *plan, orr_explored *best)
{
    const orr_plan start = *plan;
    bool better = false;
    for (uint32_t from = 0; from < ORR_PLAN_PARTS; from++)
        for (uint32_t to = 0; to < ORR_PLAN_PARTS; to++) {
            orr_plan p = start;
            orr_explored e;
            if (from == to || start.sites[from] == 0 || start.sites[to] == 0 ||
                !exchange(&p, from, to, times) || !estimated(b, &p, &e) ||
                value_of(b, &e) >= value_of(b, best))
                continue;
            *plan = p;
            *best = e;
            better = true;
        }
    return better;
}

/* Exchanges many at first, then fewer; the result, and its neighbours, are simulated. */
static orr_status balance_micro_batches(by_site *b, orr_error *err)
{
    orr_plan plan = b->from->plan;
    const orr_plan whole = orr_plan_with_defaults(&plan);
    orr_explored best;
    const bool said = orr_plan_has_site_micro_batches(&plan);
    bool better = false;
    if (!is_free(b, &whole) || whole.micro_batches > UINT16_MAX)
        return ORR_OK;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && !said; i++)
        plan.site_micro_batches[i] = whole.sites[i] > 0 ? (uint16_t)whole.micro_batches : 0;
    plan.batch = whole.batch;
    plan.micro_batch = whole.micro_batch;
    if (!estimated(b, &plan, &best))
        return ORR_OK;
    for (uint32_t times = EXCHANGED_MOST; times > 0; times /= 2)
        while (improve(b, times, &plan, &best))
            better = true;
    if (!better)
        return ORR_OK;
    ORR_TRY(keep(b, &plan, &best, err));
    for (uint32_t from = 0; from < ORR_PLAN_PARTS; from++)
        for (uint32_t to = 0; to < ORR_PLAN_PARTS; to++) {
            orr_plan p = plan;
            orr_explored e;
            if (from != to && p.sites[from] > 0 && p.sites[to] > 0 && exchange(&p, from, to, 1) &&
                estimated(b, &p, &e))
                ORR_TRY(keep(b, &p, &e, err));
        }
    return ORR_OK;
}

/* --- layers ----------------------------------------------------------------------------------- */

static orr_status balance_layers(by_site *b, orr_error *err)
{
    const orr_space_constraints *w = &b->search->space.constraints;
    orr_plan plan = b->from->plan;
    orr_explored before, e;
    if (orr_plan_degree(plan.pp) == 1 || b->search->space.uniform_devices ||
        !(w->searched & ORR_SEARCH_SCHEDULING) || orr_plan_has_sections(&w->fixed) ||
        w->fixed.first_layers > 0 || w->fixed.last_layers > 0 || !estimated(b, &plan, &before))
        return ORR_OK;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        plan.section_stages[i] = plan.section_layers[i] = 0;
    plan.first_layers = plan.last_layers = 0;
    plan.section_layers[0] = ORR_SECTIONS_BALANCED;
    if (!estimated(b, &plan, &e) || value_of(b, &e) >= value_of(b, &before))
        return ORR_OK;
    return keep(b, &plan, &e, err);
}

orr_status orr_search_by_site(orr_search *s, const orr_explored *from, orr_error *err)
{
    by_site b = {.search = s, .from = from};
    orr_status status = balance_micro_batches(&b, err);
    if (status == ORR_OK)
        status = balance_layers(&b, err);
    if (status == ORR_OK)
        status = orr_search_simulate(s, b.worth.at, b.worth.n, err);
    orr_array_done(&b.worth);
    return status;
}
