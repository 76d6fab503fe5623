/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "explore/tables/planner.h"

/* Lower bound of the time of any plan. For a target time T a table may have a candidate if its
 * largest shard, with the least shared costs of all tables, takes no longer than T. Then the mean
 * rank takes at least
 *
 *     max over u >= 0 of   sum over tables of min over their candidates of
 *                            shared + sum of shards / R + u * bytes / R      - u * capacity
 *
 * (Lagrangian relaxation of memory, all ranks pooled; u: ns a byte). It falls with T, so that no
 * plan takes less than the T at which both meet. */

static bool is_allowed(const orr_table_problem *p, uint32_t table, const orr_table_candidate *c,
                       double most_ns)
{
    return p->least_shared_ns - p->table_shared_ns[table] + c->shared_ns + c->largest_ns <= most_ns;
}

uint32_t orr_table_cheapest(const orr_table_problem *p, uint32_t table, double most_ns,
                            double ns_per_byte)
{
    uint32_t best = UINT32_MAX;
    double least = INFINITY;
    for (uint32_t k = p->first[table]; k < p->first[table + 1]; k++) {
        const orr_table_candidate *c = &p->candidates[k];
        const double price = orr_table_mean_ns(p, c) + ns_per_byte * orr_table_mean_bytes(p, c);
        if (price < least && is_allowed(p, table, c, most_ns)) {
            least = price;
            best = k;
        }
    }
    return best;
}

typedef struct relaxed {
    double ns, bytes; /* of the mean rank; INFINITY: a table has no candidate */
} relaxed;

static relaxed relax(const orr_table_problem *p, double most_ns, double ns_per_byte)
{
    relaxed sum = {0};
    for (uint32_t t = 0; t < p->n; t++) {
        const uint32_t k = orr_table_cheapest(p, t, most_ns, ns_per_byte);
        if (k == UINT32_MAX)
            return (relaxed){INFINITY, 0};
        sum.ns += orr_table_mean_ns(p, &p->candidates[k]);
        sum.bytes += orr_table_mean_bytes(p, &p->candidates[k]);
    }
    return sum;
}

static double value(const orr_table_problem *p, const relaxed *at, double ns_per_byte)
{
    return at->ns + (ns_per_byte > 0 ? ns_per_byte * (at->bytes - p->capacity) : 0);
}

/* The largest value over u, at *ret_ns_per_byte: bisection by the sign of its slope, bytes over
 * capacity. INFINITY: even the candidates of fewest bytes do not fit. */
double orr_table_relaxation(const orr_table_problem *p, double most_ns, double *ret_ns_per_byte)
{
    relaxed at = relax(p, most_ns, 0);
    double best = at.ns, low = 0, high = 1e-6;
    *ret_ns_per_byte = 0;
    if (!(at.bytes > p->capacity) || !(at.ns < INFINITY))
        return best;
    for (; at.bytes > p->capacity; high *= 8) {
        at = relax(p, most_ns, high);
        if (high > 1e12)
            return INFINITY;
    }
    for (int i = 0; i < 40 && high - low > 1e-9 * high; i++) {
        const double middle = (low + high) / 2;
        at = relax(p, most_ns, middle);
        const double here = value(p, &at, middle);
        if (here > best) {
            best = here;
            *ret_ns_per_byte = middle;
        }
        if (at.bytes > p->capacity)
            low = middle;
        else
            high = middle;
    }
    return best;
}

/* The table that has no candidate with a target just below the bound, if one has none. */
static uint32_t largest_table(const orr_table_problem *p, double ns)
{
    for (uint32_t t = 0; t < p->n; t++)
        if (orr_table_cheapest(p, t, ns, 0) == UINT32_MAX)
            return t;
    return UINT32_MAX;
}

/* The target at which every table has a candidate. */
static double least_target(const orr_table_problem *p)
{
    double needed = 0;
    for (uint32_t t = 0; t < p->n; t++) {
        double least = INFINITY;
        for (uint32_t k = p->first[t]; k < p->first[t + 1]; k++)
            least = fmin(least, p->candidates[k].shared_ns + p->candidates[k].largest_ns -
                                    p->table_shared_ns[t]);
        needed = fmax(needed, least + p->least_shared_ns);
    }
    return needed * (1 + 1e-12);
}

orr_table_bound orr_table_bound_of(const orr_table_problem *p)
{
    orr_table_bound bound = {.largest_table = UINT32_MAX};
    double ns_per_byte, low = orr_table_relaxation(p, INFINITY, &ns_per_byte);
    if (!(low < INFINITY)) {
        bound.infeasible = true;
        return bound;
    }
    low = fmax(low, least_target(p));
    double high = low, at = orr_table_relaxation(p, high, &ns_per_byte);
    const bool mean_binds = at >= low * (1 - 1e-9);
    for (; at > high; at = orr_table_relaxation(p, high, &ns_per_byte))
        high = at < INFINITY ? at : 2 * high;
    for (int i = 0; i < 40 && high - low > 1e-7 * high; i++) {
        const double middle = (low + high) / 2;
        if (orr_table_relaxation(p, middle, &ns_per_byte) > middle)
            low = middle;
        else
            high = middle;
    }
    bound.ns = low * (1 - 1e-12);
    (void)orr_table_relaxation(p, high, &ns_per_byte);
    bound.ns_per_byte = mean_binds ? ns_per_byte : 0;
    bound.largest_table = largest_table(p, low * (1 - 1e-5));
    return bound;
}
