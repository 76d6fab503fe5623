/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/balance.h"

#include <math.h>
#include <string.h>

#include "experts/policy/keys.h"

/* A layer is balanced when its fullest rank is within this of the bound. */
#define CLOSE 1e-6
enum { BISECTIONS = 8, EXCHANGES = 256, ROUNDS = 4 };

static orr_status make_packing(const orr_policy_problem *p, uint32_t slots, orr_arena *arena,
                               orr_packing *ret, orr_error *err)
{
    *ret = (orr_packing){
        .ranks = p->ranks,
        .used = orr_arena_array(arena, uint32_t, p->ranks),
        .load = orr_arena_array(arena, double, p->ranks),
        .expert = orr_arena_array(arena, uint16_t, slots),
        .part = orr_arena_array(arena, double, slots),
    };
    if (ret->used == NULL || ret->load == NULL || ret->expert == NULL || ret->part == NULL)
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status make_groups(orr_load_balancer *b, orr_arena *arena, orr_error *err)
{
    const orr_policy_problem *p = b->problem;
    const uint32_t groups = p->options->expert_groups;
    b->groups = (orr_group_packing){.groups = 0};
    if (!p->grouped)
        return ORR_OK;
    uint32_t *live = orr_arena_array(arena, uint32_t, p->hosts);
    double *load = orr_arena_array(arena, double, groups);
    b->groups = (orr_group_packing){
        .groups = groups,
        .hosts = p->hosts,
        .live = live,
        .load = load,
        .host = orr_arena_array(arena, uint32_t, groups),
        .order = orr_arena_array(arena, uint32_t, groups),
        .trial = orr_arena_array(arena, uint32_t, groups),
        .sum = orr_arena_array(arena, double, p->hosts),
        .count = orr_arena_array(arena, uint32_t, p->hosts),
    };
    if (live == NULL || load == NULL || b->groups.host == NULL || b->groups.order == NULL ||
        b->groups.trial == NULL || b->groups.sum == NULL || b->groups.count == NULL)
        return orr_fail_memory(err);
    for (uint32_t h = 0; h < p->hosts; h++)
        live[h] = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        live[r / p->host_ranks] += p->rank_slots[r] > 0;
    return ORR_OK;
}

/* Room to split the loads of all ranks, which have `slots` slots. */
static orr_status make_split_room(orr_load_balancer *b, uint32_t slots, orr_arena *arena,
                                  orr_error *err)
{
    const uint32_t ranks = b->problem->ranks;
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)ranks + 1);
    if (first == NULL)
        return orr_fail_memory(err);
    memset(first, 0, ranks * sizeof *first);
    first[ranks] = slots;
    const orr_expert_placement whole = {
        .layers = 1, .experts = b->problem->experts, .ranks = ranks, .first_slot = first};
    b->split_room = orr_arena_alloc(arena, orr_experts_split_room(&whole), 1, 64);
    return b->split_room != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_load_balancer_init(orr_load_balancer *b, const orr_policy_problem *p,
                                  uint32_t most_slots, orr_arena *arena, orr_error *err)
{
    *b = (orr_load_balancer){
        .problem = p,
        .base = orr_arena_array(arena, uint32_t, p->ranks),
        .key = orr_arena_array(arena, uint64_t, p->experts),
        .spare = orr_arena_array(arena, uint64_t, p->experts),
        .order = orr_arena_array(arena, uint64_t, p->experts),
        .heap = orr_arena_array(arena, uint64_t, p->ranks),
        .host = orr_arena_array(arena, uint16_t, p->experts),
        .copies = orr_arena_array(arena, uint32_t, p->experts),
        .piece = orr_arena_array(arena, uint64_t, most_slots),
        .piece_spare = orr_arena_array(arena, uint64_t, most_slots),
        .share = orr_arena_array(arena, float, most_slots),
    };
    if (b->base == NULL || b->key == NULL || b->spare == NULL || b->order == NULL ||
        b->heap == NULL || b->host == NULL || b->copies == NULL || b->piece == NULL ||
        b->piece_spare == NULL || b->share == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < p->ranks; r++)
        b->live += p->rank_slots[r] > 0;
    b->bound_spare = p->slots - p->kept;
    if (!p->options->even_layers) /* one layer may have the copies of all */
        b->bound_spare = b->bound_spare > p->experts * p->ranks / p->layers
                             ? p->experts * p->ranks
                             : b->bound_spare * p->layers;
    ORR_TRY(make_split_room(b, most_slots, arena, err));
    ORR_TRY(make_groups(b, arena, err));
    ORR_TRY(make_packing(p, most_slots, arena, &b->now, err));
    return make_packing(p, most_slots, arena, &b->best, err);
}

/* --- ranks that share experts ----------------------------------------------------------------- */

static uint32_t slots_of(const orr_packing *k, uint32_t rank)
{
    return k->first[rank + 1] - k->first[rank];
}

/* Deals n experts evenly to ranks with slots; where that leaves a rest, the first have one more. */
static void deal(const orr_packing *k, orr_rank_range range, uint32_t n, uint32_t *base)
{
    for (uint32_t r = range.first; r < range.end; r++)
        base[r] = 0;
    while (n > 0)
        for (uint32_t r = range.first; r < range.end && n > 0; r++)
            if (base[r] < slots_of(k, r)) {
                base[r]++;
                n--;
            }
}

static void copy_range(const orr_packing *from, orr_packing *to, orr_rank_range range)
{
    const uint32_t slot = from->first[range.first], slots = from->first[range.end] - slot;
    const uint32_t r = range.first, ranks = range.end - r;
    to->first = from->first;
    memcpy(to->used + r, from->used + r, ranks * sizeof *to->used);
    memcpy(to->load + r, from->load + r, ranks * sizeof *to->load);
    memcpy(to->expert + slot, from->expert + slot, slots * sizeof *to->expert);
    memcpy(to->part + slot, from->part + slot, slots * sizeof *to->part);
}

/* Fills and levels, first with `limit`, then with limits between it and the best so far, whose load
 * of the fullest rank is `most`. Returns that of the best, which stands in b->best, or in b->now if
 * it is at the limit. */
static double search(orr_load_balancer *b, orr_rank_range range, const double *load,
                     const uint64_t *order, uint32_t n, double limit, double most)
{
    double low = limit, middle = limit;
    for (int i = 0; i < BISECTIONS && most > low * (1 + CLOSE); i++) {
        orr_packing_fill(&b->now, range, b->base, load, order, n, b->heap);
        const double got = orr_packing_level(&b->now, range, middle);
        if (got <= limit * (1 + CLOSE))
            return got;
        if (got < most * (1 - CLOSE)) {
            copy_range(&b->now, &b->best, range);
            most = got;
        }
        if (got > middle * (1 + CLOSE))
            low = middle;
        middle = (low + most) / 2;
    }
    return most;
}

/* A copy in each free slot, which takes load once it is split: the expert whose copies are most
 * loaded of those that the rank lacks. */
static void fill_free_slots(orr_load_balancer *b, orr_rank_range range, const double *load,
                            const uint64_t *order, uint32_t n)
{
    orr_packing *k = &b->now;
    for (uint32_t i = 0; i < n; i++)
        b->copies[(uint32_t)order[i]] = 0;
    for (uint32_t r = range.first; r < range.end; r++)
        for (uint32_t s = k->first[r]; s < k->first[r] + k->used[r]; s++)
            b->copies[k->expert[s]]++;
    for (uint32_t r = range.first; r < range.end; r++)
        while (k->used[r] < slots_of(k, r)) {
            uint32_t best = UINT32_MAX;
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t e = (uint32_t)order[i];
                if ((best == UINT32_MAX || load[e] * b->copies[best] > load[best] * b->copies[e]) &&
                    !orr_packing_holds(k, r, (uint16_t)e))
                    best = e;
            }
            if (best == UINT32_MAX)
                break; /* the rank has all */
            orr_packing_add(k, r, (uint16_t)best, 0);
            b->copies[best]++;
        }
}

/* Fills the free slots and splits all loads anew over the copies; returns the load of the fullest
 * rank. */
static double split_range(orr_load_balancer *b, orr_rank_range range, const double *load,
                          const uint64_t *order, uint32_t n)
{
    orr_packing *k = &b->now;
    double most = 0;
    fill_free_slots(b, range, load, order, n);
    const orr_expert_placement part = {
        .layers = 1,
        .experts = b->problem->experts,
        .ranks = range.end - range.first,
        .first_slot = k->first + range.first,
        .expert = k->expert,
    };
    (void)orr_experts_split(&part, 0, load, b->split_room, b->share);
    for (uint32_t r = range.first, i = 0; r < range.end; r++) {
        k->load[r] = 0;
        for (uint32_t s = k->first[r]; s < k->first[r + 1]; s++) {
            k->part[s] = load[k->expert[s]] * (double)b->share[i++];
            k->load[r] += k->part[s];
        }
        most = k->load[r] > most ? k->load[r] : most;
    }
    return most;
}

/* Exchanges copies and splits loads in turn until neither helps. */
static double improve(orr_load_balancer *b, orr_rank_range range, const double *load,
                      const uint64_t *order, uint32_t n, double limit)
{
    double most = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        (void)orr_packing_exchange(&b->now, range, EXCHANGES);
        const double got = split_range(b, range, load, order, n);
        if (got >= most * (1 - CLOSE))
            break;
        most = got;
        if (most <= limit * (1 + CLOSE))
            break;
    }
    return most;
}

/* Balances the experts in `order` over ranks; no rank needs to have less than `limit`. Returns the
 * load of the fullest. */
static double balance_range(orr_load_balancer *b, orr_rank_range range, const double *load,
                            const uint64_t *order, uint32_t n, double limit)
{
    orr_packing *now = &b->now;
    double most = INFINITY;
    /* With free slots on all ranks; then without, so that the most loaded experts stand alone. */
    for (int way = 0; way < 2; way++) {
        deal(now, range, n, b->base);
        for (uint32_t r = range.first; r < range.end && way == 1; r++)
            b->base[r] = slots_of(now, r);
        most = search(b, range, load, order, n, limit, most);
        if (most <= limit * (1 + CLOSE)) {
            fill_free_slots(b, range, load, order, n);
            return most;
        }
    }
    copy_range(&b->best, now, range);
    most = improve(b, range, load, order, n, limit);
    if (most <= limit * (1 + CLOSE))
        return most;
    copy_range(now, &b->best, range);
    orr_packing_fill_copies(now, range, load, order, n, b->piece, b->piece_spare, b->copies);
    const double equal = improve(b, range, load, order, n, limit);
    if (equal < most)
        return equal;
    copy_range(&b->best, now, range);
    return most;
}

/* --- a layer ---------------------------------------------------------------------------------- */

/* Lower bounds on the fullest of ranks that share experts: the mean; the most loaded expert over as
 * many ranks as it can stand on; without free slots the two lightest of one more experts than
 * ranks, of which two share a rank. */
static double bound_of(const double *load, const uint64_t *order, uint32_t n, uint32_t slots,
                       uint32_t ranks)
{
    const uint32_t spread = slots - n + 1 < ranks ? slots - n + 1 : ranks;
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += load[(uint32_t)order[i]];
    double bound = sum / ranks;
    if (n > 0 && load[(uint32_t)order[0]] / spread > bound)
        bound = load[(uint32_t)order[0]] / spread;
    if (slots == n && n > ranks) {
        const double pair = load[(uint32_t)order[ranks - 1]] + load[(uint32_t)order[ranks]];
        bound = pair > bound ? pair : bound;
    }
    return bound;
}

/* Packs groups; true: the packing is the best. */
static bool pack_groups(orr_load_balancer *b, const double *load, double *ret_most)
{
    const uint32_t size = b->problem->experts / b->groups.groups;
    double *sum = (double *)b->groups.load;
    for (uint32_t g = 0; g < b->groups.groups; g++) {
        sum[g] = 0;
        for (uint32_t i = 0; i < size; i++)
            sum[g] += load[g * size + i];
    }
    return orr_groups_pack(&b->groups, ret_most);
}

/* Sorts the experts of a layer that get slots by descending load into b->order, those of each host
 * together: with groups, E / hosts of each. Returns their number. */
static uint32_t sort_experts(orr_load_balancer *b, uint32_t layer, const double *load)
{
    const orr_policy_problem *p = b->problem;
    const bool *missing = p->missing != NULL ? p->missing + (size_t)layer * p->experts : NULL;
    const uint32_t groups = b->groups.groups;
    uint32_t n = 0;
    for (uint32_t e = 0; e < p->experts; e++)
        if (missing == NULL || !missing[e])
            b->key[n++] = orr_key_descending((float)load[e] + 0.0F, e);
    const uint64_t *sorted = orr_key_sort(b->key, b->spare, n);
    if (groups == 0) {
        memcpy(b->order, sorted, n * sizeof *sorted);
        return n;
    }
    uint32_t *const end = b->groups.count; /* of each host's part of the order */
    for (uint32_t h = 0; h < p->hosts; h++)
        end[h] = h * (p->experts / p->hosts);
    for (uint32_t g = 0, e = 0; g < groups; g++)
        for (const uint32_t last = e + p->experts / groups; e < last; e++)
            b->host[e] = (uint16_t)b->groups.host[g];
    for (uint32_t i = 0; i < n; i++)
        b->order[end[b->host[(uint32_t)sorted[i]]]++] = sorted[i];
    return n;
}

orr_layer_balance orr_load_balance_layer(orr_load_balancer *b, uint32_t layer,
                                         const uint32_t *first)
{
    const orr_policy_problem *p = b->problem;
    const double *load = p->load + (size_t)layer * p->experts;
    const bool grouped = b->groups.groups > 0;
    orr_layer_balance ret = {0, 0, 0};
    double limit = 0;
    b->now.first = first;
    const bool proven = !grouped || pack_groups(b, load, &limit);
    const uint32_t n = sort_experts(b, layer, load), here = grouped ? n / p->hosts : n;
    for (uint32_t h = 0; h < (grouped ? p->hosts : 1); h++) {
        const uint32_t begin = grouped ? h * p->host_ranks : 0;
        const uint32_t rest = p->ranks - begin;
        const orr_rank_range range = {
            begin, begin + (grouped && rest > p->host_ranks ? p->host_ranks : rest)};
        const uint32_t live = grouped ? b->groups.live[h] : b->live;
        const uint64_t *const order = b->order + (size_t)h * here;
        const double bound = bound_of(load, order, here, first[range.end] - first[begin], live);
        const double most =
            balance_range(b, range, load, order, here, bound > limit ? bound : limit);
        ret.most = fmax(ret.most, most);
        if (!grouped)
            ret.bound = bound_of(load, order, here, here + b->bound_spare, live);
        else if (here > 0) /* on its host it stands wherever the groups lie */
            ret.bound = fmax(ret.bound, load[(uint32_t)order[0]] / p->host_ranks);
    }
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += load[(uint32_t)b->order[i]];
    ret.mean = sum / b->live;
    ret.bound = fmax(ret.bound, proven ? limit : ret.mean);
    return ret;
}
