/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/balance.h"

#include <math.h>
#include <string.h>

#include "experts/policy/keys.h"

#define BOUND_TOLERANCE 1e-6 /* relative */

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
        .size = orr_arena_array(arena, double, p->experts),
        .share = orr_arena_array(arena, float, most_slots),
    };
    if (b->base == NULL || b->key == NULL || b->spare == NULL || b->order == NULL ||
        b->heap == NULL || b->host == NULL || b->copies == NULL || b->piece == NULL ||
        b->piece_spare == NULL || b->size == NULL || b->share == NULL)
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

/* --- a layer ---------------------------------------------------------------------------------- */

/* Slots that experts need whose copies have at most `most` each, `slots` or fewer; else more. */
static uint64_t slots_needed(const double *load, const uint64_t *order, uint32_t n, uint32_t slots,
                             double most)
{
    uint64_t needed = n;
    for (uint32_t i = 0; i < n && load[(uint32_t)order[i]] > most && needed <= slots; i++)
        needed += (uint64_t)(load[(uint32_t)order[i]] / most * (1 - BOUND_TOLERANCE));
    return needed;
}

/* The least load that the most loaded copy can have, if that is more than `bound`. */
static double least_copy(const double *load, const uint64_t *order, uint32_t n, uint32_t slots,
                         double bound)
{
    if (!(bound > 0) || slots_needed(load, order, n, slots, bound) <= slots)
        return bound;
    double high = load[(uint32_t)order[0]];
    while (high > bound * (1 + BOUND_TOLERANCE)) {
        const double middle = (bound + high) / 2;
        if (slots_needed(load, order, n, slots, middle) <= slots)
            high = middle;
        else
            bound = middle;
    }
    return bound;
}

/* Lower bounds on the fullest of ranks that share experts: the mean; the most loaded expert over as
 * many ranks as it can stand on; the most loaded copy of as many as there are slots; without free
 * slots the two lightest of one more experts than ranks, of which two share a rank. */
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
    bound = least_copy(load, order, n, slots, bound);
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
            orr_load_balance_range(b, range, load, order, here, bound > limit ? bound : limit);
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
