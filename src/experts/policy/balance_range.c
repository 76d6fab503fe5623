/* SPDX-License-Identifier: Apache-2.0 */
/* Experts of a layer over ranks that share them: all of the ranks, or those of a host. */
#include <math.h>
#include <string.h>

#include "experts/policy/balance.h"
#include "experts/policy/wrap_around.h"

/* Ranks are balanced when the fullest is within this of the bound. */
#define CLOSE 1e-6
enum { BISECTIONS = 8, EXCHANGES = 256, ROUNDS = 4 };
/* Many ranks with few experts each are filled by orr_packing_wrap(). */
enum { MANY_RANKS = 32, FEW_EXPERTS = 4 };

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

static uint32_t ranks_with_slots(const orr_packing *k, orr_rank_range range)
{
    uint32_t ret = 0;
    for (uint32_t r = range.first; r < range.end; r++)
        ret += slots_of(k, r) > 0;
    return ret;
}

static bool has_free_slots(const orr_packing *k, orr_rank_range range)
{
    bool ret = false;
    for (uint32_t r = range.first; r < range.end; r++)
        ret |= k->used[r] < slots_of(k, r);
    return ret;
}

static double most_loaded(const orr_packing *k, orr_rank_range range)
{
    double most = 0;
    for (uint32_t r = range.first; r < range.end; r++)
        most = k->load[r] > most ? k->load[r] : most;
    return most;
}

/* Fills by cuts up to a limit; true: no rank has more. The best so far and its load of the fullest
 * rank stand in b->best and *most. */
static bool wrap_once(orr_load_balancer *b, orr_rank_range range, const orr_wrap_experts *experts,
                      double limit, double *most)
{
    const double got = orr_packing_wrap(&b->now, range, experts, limit);
    if (got < *most) {
        copy_range(&b->now, &b->best, range);
        *most = got;
    }
    return *most <= limit * (1 + CLOSE);
}

/* By cuts, with higher limits until the experts fit; else by equal copies, if that is better. The
 * first limit is the one below that which the last call came to: layers are alike. */
static double wrap_range(orr_load_balancer *b, orr_rank_range range, const double *load,
                         const uint64_t *order, uint32_t n, double limit)
{
    static const double above[] = {1.01, 1.02, 1.035, 1.055, 1.08, 1.12};
    enum { LIMITS = sizeof above / sizeof *above };
    orr_packing *now = &b->now;
    orr_wrap_experts experts = {.size = b->size, .turn = b->piece};
    double most = INFINITY;
    bool fits = false;
    uint32_t i = b->wraps > 2 ? b->wraps - 2 : 0;
    orr_wrap_experts_set(&experts, load, order, n);
    while (i < LIMITS && !fits)
        fits = wrap_once(b, range, &experts, above[i++] * limit, &most);
    b->wraps = i;
    if (fits && i > 1) {
        (void)wrap_once(b, range, &experts, (above[i - 2] + above[i - 1]) / 2 * limit, &most);
    } else if (!fits) {
        orr_packing_fill_copies(now, range, load, order, n, b->piece, b->piece_spare, b->copies,
                                b->heap);
        /* A copy is left over where all ranks with a free slot have its expert. */
        const double equal = has_free_slots(now, range) ? split_range(b, range, load, order, n)
                                                        : most_loaded(now, range);
        if (equal < most)
            copy_range(now, &b->best, range);
        most = fmin(most, equal);
    }
    copy_range(&b->best, now, range);
    fill_free_slots(b, range, load, order, n);
    return most;
}

double orr_load_balance_range(orr_load_balancer *b, orr_rank_range range, const double *load,
                              const uint64_t *order, uint32_t n, double limit)
{
    orr_packing *now = &b->now;
    double most = INFINITY;
    const uint32_t ranks = ranks_with_slots(now, range);
    if (ranks >= MANY_RANKS && n < FEW_EXPERTS * ranks && limit > 0 &&
        now->first[range.end] - now->first[range.first] < n + ranks - 1)
        return wrap_range(b, range, load, order, n, limit);
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
    orr_packing_fill_copies(now, range, load, order, n, b->piece, b->piece_spare, b->copies,
                            b->heap);
    const double equal = improve(b, range, load, order, n, limit);
    if (equal < most)
        return equal;
    copy_range(&b->best, now, range);
    return most;
}
