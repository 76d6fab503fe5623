/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/collective/dispatch.h"

#include <math.h>

#include "cost/collective/collective.h"

/* Traffic of tokens on their way to experts: expected numbers of distinct hosts and ranks. */

static double log_choose(double n, double k)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* Probability that k of n different things are none of `some`. */
static double none_of(double some, double n, double k)
{
    return n - some < k ? 0 : exp(log_choose(n - some, k) - log_choose(n, k));
}

/* The same where experts are chosen in `most` of `groups` groups alone: a unit of `held` whole
 * groups has a of those that are chosen, with the hypergeometric probability of a; a unit that is
 * a part of a group has its share of one, or of none. */
static double none_of_limited(const orr_routing *r, double units)
{
    const double group = (double)r->experts / r->groups, n = r->top_groups * group;
    const double held = floor(r->groups / units);
    double sum = 0;
    if (held < 1) {
        const double chosen = (double)r->top_groups / r->groups;
        return 1 - chosen + chosen * none_of(r->experts / units, n, r->top_k);
    }
    for (double a = 0; a <= held && a <= r->top_groups; a++)
        if (r->top_groups - a <= r->groups - held)
            sum += exp(log_choose(held, a) + log_choose(r->groups - held, r->top_groups - a) -
                       log_choose(r->groups, r->top_groups)) *
                   none_of(a * group, n, r->top_k);
    return sum;
}

double orr_routing_units(const orr_routing *r, uint32_t units)
{
    const bool limited = r->groups > 1 && r->top_groups > 0 && r->top_groups < r->groups;
    const double n = units > 0 ? units : 1;
    if (r->experts == 0 || r->top_k == 0)
        return 0;
    const double none =
        limited ? none_of_limited(r, n) : none_of(r->experts / n, r->experts, r->top_k);
    return n * (1 - none);
}

double orr_dispatch_once_per_host(const orr_routing *routing, const orr_span *span,
                                  orr_network *network)
{
    double members = 1; /* of the span, within one host */
    for (uint32_t k = 0; k < span->n_levels && k < ORR_LEVELS_MAX; k++)
        if (orr_network_lowest_level(network, k) == 0)
            members *= span->width[k] > 1 ? span->width[k] : 1;
    const double n = span->n_ranks > 0 ? span->n_ranks : 1, hosts = ceil(n / members);
    const double to_ranks = orr_routing_units(routing, span->n_ranks);
    if (hosts <= 1)
        return to_ranks / routing->top_k;
    /* Of what a rank passes on, a share (members - 1) / members leaves it, where an all-to-all
     * of pairs sends (members - 1) / n to the ranks of its host. */
    const double to_hosts = orr_routing_units(routing, (uint32_t)hosts);
    for (uint32_t k = 0; k < span->n_levels && k < ORR_LEVELS_MAX; k++)
        if (orr_network_lowest_level(network, k) == 0)
            network->fan_out[k] = to_ranks / to_hosts * hosts;
    return to_hosts / routing->top_k;
}
