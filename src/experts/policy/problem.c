/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a placement, checked, and made the problem that policies solve. */
#include "experts/policy/policy.h"

#include <string.h>

#include "experts/placement/loads.h"

static orr_status check_options(const orr_expert_options *o, orr_error *err)
{
    if (o->routes == NULL && o->windows == NULL)
        return orr_fail(err, ORR_INVALID, "neither routes nor loads are given");
    if (o->ranks == 0 || o->ranks > ORR_PLACEMENT_RANKS_MAX)
        return orr_fail(err, ORR_INVALID, "%u ranks: 1 to %d can hold experts", o->ranks,
                        ORR_PLACEMENT_RANKS_MAX);
    const uint32_t layers = o->windows != NULL ? o->windows->layers : o->routes->layers;
    const uint32_t experts = o->windows != NULL ? o->windows->experts : o->routes->experts;
    if (layers == 0 || experts == 0 || experts > ORR_EXPERTS_MAX)
        return orr_fail(err, ORR_INVALID, "%u layers of %u experts: a placement has 1 to %d",
                        layers, experts, ORR_EXPERTS_MAX);
    if (o->routes != NULL && (o->routes->layers != layers || o->routes->experts > experts))
        return orr_fail(err, ORR_INVALID,
                        "routes of %u layers with %u experts do not belong to loads of %u with %u",
                        o->routes->layers, o->routes->experts, layers, experts);
    if (o->slots != 0 && o->slots < experts)
        return orr_fail(err, ORR_INVALID, "%u slots for %u experts: at least as many are needed",
                        o->slots, experts);
    if (o->running != NULL && (o->running->layers != layers || o->running->experts != experts ||
                               o->running->ranks != o->ranks))
        return orr_fail(err, ORR_INVALID,
                        "the placement that runs has %u layers of %u experts on %u ranks, not %u "
                        "of %u on %u",
                        o->running->layers, o->running->experts, o->running->ranks, layers, experts,
                        o->ranks);
    return ORR_OK;
}

/* Groups of experts lie on hosts, equally many on each. DeepSeek's balancer ignores groups where
 * they cannot. */
static orr_status check_groups(const orr_policy_problem *p, orr_error *err)
{
    const uint32_t groups = p->options->expert_groups;
    const bool divided = groups > 1 && groups % p->hosts == 0;
    if (groups <= 1 || (p->options->policy == ORR_EXPERT_POLICY_EPLB && !divided))
        return ORR_OK;
    if (p->experts % groups != 0)
        return orr_fail(err, ORR_INVALID, "%u groups do not divide %u experts", groups, p->experts);
    return divided ? ORR_OK
                   : orr_fail(err, ORR_INVALID, "%u hosts do not divide %u groups of experts",
                              p->hosts, groups);
}

static orr_status make_loads(const orr_expert_options *o, orr_policy_problem *p, orr_arena *arena,
                             orr_error *err)
{
    const size_t n = (size_t)p->layers * p->experts;
    if (o->windows != NULL && o->windows->windows == 1) {
        p->load = o->windows->load;
    } else {
        double *load = orr_arena_array(arena, double, n);
        if (load == NULL)
            return orr_fail_memory(err);
        for (uint32_t l = 0; l < p->layers; l++)
            orr_layer_load(o->windows, o->routes, l, p->experts, load + (size_t)l * p->experts);
        p->load = load;
    }
    for (size_t i = 0; i < n; i++)
        if (!(p->load[i] >= 0) || p->load[i] > 1e300)
            return orr_fail(err, ORR_INVALID, "layer %u: the load of expert %u is %g",
                            p->number[i / p->experts], (uint32_t)(i % p->experts), p->load[i]);
    return ORR_OK;
}

/* No rank needs more slots than there are experts that it may hold. */
static void limit_slots(orr_policy_problem *p, uint32_t most)
{
    p->slots = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        p->rank_slots[r] = p->rank_slots[r] < most ? p->rank_slots[r] : most;
        p->slots += p->rank_slots[r];
    }
}

static orr_status make_slots(const orr_expert_options *o, orr_policy_problem *p, orr_arena *arena,
                             orr_error *err)
{
    const uint32_t slots = o->slots != 0 ? o->slots : p->experts;
    uint32_t *rank_slots = orr_arena_array(arena, uint32_t, p->ranks);
    if (rank_slots == NULL)
        return orr_fail_memory(err);
    orr_placement_rank_slots(slots, p->ranks, o->dead, rank_slots);
    p->rank_slots = rank_slots;
    limit_slots(p, p->experts);
    p->kept = p->slots < p->experts ? p->slots : p->experts;
    return p->slots > 0 ? ORR_OK : orr_fail(err, ORR_INVALID, "all %u ranks are dead", p->ranks);
}

/* Marks the experts of a layer that get no slot: those with the least loads, of equal ones the
 * last. */
static void mark_missing(const double *load, uint32_t experts, uint32_t n, bool *missing)
{
    memset(missing, 0, experts);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t least = UINT32_MAX;
        for (uint32_t e = 0; e < experts; e++)
            if (!missing[e] && (least == UINT32_MAX || load[e] <= load[least]))
                least = e;
        missing[least] = true;
    }
}

static orr_status make_missing(orr_policy_problem *p, orr_arena *arena, orr_error *err)
{
    if (p->kept == p->experts)
        return ORR_OK;
    bool *missing = orr_arena_array(arena, bool, (size_t)p->layers * p->experts);
    if (missing == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->layers; l++) {
        const size_t at = (size_t)l * p->experts;
        mark_missing(p->load + at, p->experts, p->experts - p->kept, missing + at);
    }
    p->missing = missing;
    return ORR_OK;
}

/* Whether groups of experts can be kept on hosts: each host has slots for its part of them. */
static bool is_grouped(const orr_policy_problem *p)
{
    const uint32_t groups = p->options->expert_groups;
    if (groups <= 1 || p->hosts <= 1 || groups % p->hosts != 0)
        return false;
    for (uint32_t h = 0, r = 0; h < p->hosts; h++) {
        uint32_t slots = 0;
        for (; r < p->ranks && r / p->host_ranks == h; r++)
            slots += p->rank_slots[r];
        if (slots < p->experts / p->hosts)
            return false;
    }
    return true;
}

orr_status orr_policy_problem_make(const orr_expert_options *options, orr_arena *arena,
                                   orr_policy_problem *ret, orr_error *err)
{
    ORR_TRY(check_options(options, err));
    const orr_expert_windows *windows = options->windows;
    orr_policy_problem p = {
        .options = options,
        .layers = windows != NULL ? windows->layers : options->routes->layers,
        .experts = windows != NULL ? windows->experts : options->routes->experts,
        .counted = windows == NULL,
        .number = windows != NULL ? windows->number : options->routes->number,
        .ranks = options->ranks,
        .host_ranks = options->host_ranks != 0 ? options->host_ranks : options->ranks,
    };
    p.hosts = (p.ranks - 1) / p.host_ranks + 1;
    ORR_TRY(check_groups(&p, err));
    ORR_TRY(make_loads(options, &p, arena, err));
    ORR_TRY(make_slots(options, &p, arena, err));
    p.grouped = is_grouped(&p);
    if (p.grouped && options->policy == ORR_EXPERT_POLICY_BEST)
        limit_slots(&p, p.experts / p.hosts);
    ORR_TRY(make_missing(&p, arena, err));
    *ret = p;
    return ORR_OK;
}

void orr_policy_deal(const orr_policy_problem *p, uint32_t *ret)
{
    memset(ret, 0, p->ranks * sizeof *ret);
    for (uint32_t left = p->kept; left > 0;)
        for (uint32_t r = 0; r < p->ranks && left > 0; r++)
            if (ret[r] < p->rank_slots[r]) {
                ret[r]++;
                left--;
            }
}

orr_status orr_policy_draft(const orr_policy_problem *p, const uint32_t *slots, orr_arena *arena,
                            orr_placement_draft *ret, orr_error *err)
{
    const orr_expert_placement like = {
        .layers = p->layers,
        .experts = p->experts,
        .ranks = p->ranks,
        .host_ranks = p->host_ranks,
        .number = p->number,
        .policy = orr_expert_policy_name((orr_expert_policy)p->options->policy),
        .source =
            p->options->windows != NULL ? p->options->windows->source : p->options->routes->source,
    };
    return orr_placement_draft_new(&like, slots != NULL ? slots : p->rank_slots, slots != NULL,
                                   arena, ret, err);
}
