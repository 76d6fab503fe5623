/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "machine/cluster/price.h"
#include "model/plan/groups.h"
#include "explore/explore.h"

/* The incumbent of the branch and bound: which bounds it dominates (the pruning rule, for one
 * objective or a Pareto front of two), which of two plans is better, and the canonical form of a
 * plan. */

static double known(double bound)
{
    return isnan(bound) ? -INFINITY : bound;
}

bool orr_incumbent_dominates(const orr_incumbent *s, const double bounds[ORR_OBJECTIVES])
{
    const double share = 1 - s->gap, first = known(bounds[s->objective]);
    if (s->second >= ORR_OBJECTIVES)
        return first >= s->best * share;
    const double second = known(bounds[s->second]);
    for (size_t i = 0; i < s->front.n; i++)
        if (first >= s->front.at[i].first * share && second >= s->front.at[i].second * share)
            return true;
    return false;
}

bool orr_incumbent_add(orr_incumbent *s, const double values[ORR_OBJECTIVES])
{
    const double first = values[s->objective];
    if (isnan(first))
        return true;
    s->best = fmin(s->best, first);
    if (s->second >= ORR_OBJECTIVES || isnan(values[s->second]))
        return true;
    const orr_front_point point = {first, values[s->second]};
    size_t n = 0;
    for (size_t i = 0; i < s->front.n; i++)
        if (s->front.at[i].first <= point.first && s->front.at[i].second <= point.second)
            return true;
    for (size_t i = 0; i < s->front.n; i++)
        if (s->front.at[i].first < point.first || s->front.at[i].second < point.second)
            s->front.at[n++] = s->front.at[i];
    s->front.n = n;
    return orr_array_push(&s->front, point);
}

static int compare_fields(const orr_plan *a, const orr_plan *b)
{
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++)
        if (orr_plan_get(a, field) != orr_plan_get(b, field))
            return orr_plan_get(a, field) < orr_plan_get(b, field) ? -1 : 1;
    const int order = memcmp(a->order, b->order, sizeof a->order);
    const int sites = memcmp(a->sites, b->sites, sizeof a->sites);
    const int batches =
        memcmp(a->site_micro_batches, b->site_micro_batches, sizeof a->site_micro_batches);
    const int stages = memcmp(a->section_stages, b->section_stages, sizeof a->section_stages);
    return order != 0     ? order
           : sites != 0   ? sites
           : batches != 0 ? batches
           : stages != 0  ? stages
                          : memcmp(a->section_layers, b->section_layers, sizeof a->section_layers);
}

bool orr_explored_is_better(const orr_incumbent *s, const orr_explored *a, const orr_explored *b)
{
    const double x = a->value[s->objective], y = b->value[s->objective];
    if (x != y && !isnan(x) && !isnan(y))
        return x < y;
    if (isnan(x) != isnan(y))
        return isnan(y);
    const double u = s->second < ORR_OBJECTIVES ? a->value[s->second] : 0,
                 v = s->second < ORR_OBJECTIVES ? b->value[s->second] : 0;
    return u != v ? u < v : compare_fields(&a->plan, &b->plan) < 0;
}

double orr_explored_estimated_value(const orr_explored *e, uint8_t objective)
{
    const double value = e->value[objective];
    if (e->step_ns > 0 || objective == ORR_OBJECTIVE_DEVICES)
        return value;
    if (objective == ORR_OBJECTIVE_STEP)
        return (double)e->estimate_ns;
    return e->bound_ns > 0 ? value * ((double)e->estimate_ns / (double)e->bound_ns) : value;
}

/* --- bounds without a plan ------------------------------------------------------------------- */

/* USD for an hour of the cheapest device. */
static double lowest_price(const orr_space *s)
{
    double least = INFINITY;
    for (uint32_t i = 0; i == 0 || i < s->cluster->n_sites; i++)
        least = fmin(least, orr_price_per_hour(s->cluster, i, s->options->price_per_hour));
    return isfinite(least) ? least : 0;
}

void orr_space_objective_bounds(const orr_space *s, double step_ns, uint32_t n_devices,
                                double effective_frac, double ret[ORR_OBJECTIVES])
{
    const double tokens = s->options->tokens, of_step = (double)s->common.batch * s->seq;
    const double wall_ns = (tokens > 0 ? tokens / of_step * step_ns : step_ns) / effective_frac;
    ret[ORR_OBJECTIVE_STEP] = step_ns;
    ret[ORR_OBJECTIVE_BUDGET] = tokens > 0 ? wall_ns : NAN;
    ret[ORR_OBJECTIVE_COST] = n_devices * lowest_price(s) * wall_ns / 3600e9;
    ret[ORR_OBJECTIVE_ENERGY] = 0;
    ret[ORR_OBJECTIVE_DEVICES] = n_devices;
}

/* --- canonical form -------------------------------------------------------------------------- */

/* Fields that are printed even where they have their defaults: people identify a plan by them. */
static bool is_always_printed(uint32_t field)
{
    return field == ORR_AT_dp || field == ORR_AT_tp || field == ORR_AT_pp ||
           field == ORR_AT_batch || field == ORR_AT_micro_batch || field == ORR_AT_schedule ||
           field == ORR_AT_precision;
}

/* A count of one means the same as none. */
static void drop_ones(orr_plan *p)
{
    p->dp_outer = p->dp_outer > 1 ? p->dp_outer : 0;
    p->dp_chunks = p->dp_chunks > 1 ? p->dp_chunks : 0;
    p->local_steps = p->local_steps > 1 ? p->local_steps : 0;
    p->compress = p->compress > ORR_COMPRESS_NONE ? p->compress : 0;
}

orr_plan orr_plan_without_defaults(const orr_plan *plan)
{
    orr_plan p = *plan;
    drop_ones(&p);
    const orr_plan whole = orr_plan_with_defaults(&p);
    for (uint32_t field = 0; field < ORR_PLAN_FIELDS; field++) {
        const uint32_t value = orr_plan_get(&p, field);
        if (value == 0 || is_always_printed(field))
            continue;
        orr_plan_put(&p, field, 0);
        const orr_plan without = orr_plan_with_defaults(&p);
        if (!orr_plan_equal(&without, &whole))
            orr_plan_put(&p, field, value);
    }
    orr_plan without = p;
    memset(without.order, 0, sizeof without.order);
    const orr_plan completed = orr_plan_with_defaults(&without);
    return orr_plan_equal(&completed, &whole) ? without : p;
}

bool orr_plan_same_arrangement(const orr_plan *a, const orr_plan *b)
{
    return a->tp == b->tp && orr_plan_degree(a->cp) == orr_plan_degree(b->cp) && a->pp == b->pp &&
           a->dp == b->dp && orr_plan_degree(a->ep) == orr_plan_degree(b->ep) &&
           a->schedule == b->schedule && (a->cross == ORR_CROSS_PP) == (b->cross == ORR_CROSS_PP) &&
           orr_plan_degree(a->dp_outer) == orr_plan_degree(b->dp_outer);
}
