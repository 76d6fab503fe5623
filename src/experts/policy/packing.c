/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/packing.h"

#include <string.h>

#include "experts/policy/keys.h"

/* Relative load that counts as equal. */
#define TOLERANCE 1e-9

static uint32_t free_slots(const orr_packing *k, uint32_t rank)
{
    return k->first[rank + 1] - k->first[rank] - k->used[rank];
}

bool orr_packing_holds(const orr_packing *k, uint32_t rank, uint16_t expert)
{
    for (uint32_t s = k->first[rank]; s < k->first[rank] + k->used[rank]; s++)
        if (k->expert[s] == expert)
            return true;
    return false;
}

static uint32_t fullest_rank(const orr_packing *k, orr_rank_range range)
{
    uint32_t most = range.first;
    for (uint32_t r = range.first + 1; r < range.end; r++)
        if (k->load[r] > k->load[most])
            most = r;
    return most;
}

void orr_packing_add(orr_packing *k, uint32_t rank, uint16_t expert, double part)
{
    const uint32_t slot = k->first[rank] + k->used[rank]++;
    k->expert[slot] = expert;
    k->part[slot] = part;
    k->load[rank] += part;
}

void orr_packing_fill(orr_packing *k, orr_rank_range range, const uint32_t *base,
                      const double *load, const uint64_t *order, uint32_t n, uint64_t *heap)
{
    uint32_t size = 0, most = 0;
    for (uint32_t r = range.first; r < range.end; r++) {
        const uint32_t beyond = k->first[r + 1] - k->first[r] - base[r];
        most = beyond > most ? beyond : most;
        k->used[r] = 0;
        k->load[r] = 0;
    }
    /* Ranks in order of slots beyond their base, then of number: a heap, since all loads are 0. An
     * entry's lower half is that order's index, and its rank in the lowest bits. */
    for (uint32_t beyond = 0; beyond <= most; beyond++)
        for (uint32_t r = range.first; r < range.end; r++)
            if (base[r] > 0 && k->first[r + 1] - k->first[r] - base[r] == beyond) {
                heap[size] = (uint64_t)size << 16 | r;
                size++;
            }
    for (uint32_t i = 0; i < n; i++) {
        const uint16_t e = (uint16_t)order[i];
        const uint32_t low = (uint32_t)heap[0], r = low & 0xFFFF;
        orr_packing_add(k, r, e, load[e]);
        heap[0] = k->used[r] == base[r] ? heap[--size] : orr_key_ascending((float)k->load[r], low);
        orr_key_sift_down(heap, size, 0);
    }
}

/* Gives each of `slots` slots an expert, as keys of copies by descending load. Returns their
 * number: no expert has more copies than there are ranks. */
static uint32_t choose_copies(const double *load, const uint64_t *order, uint32_t n, uint32_t slots,
                              uint32_t ranks, uint64_t *key, uint32_t *copies)
{
    uint32_t size = n, chosen = n;
    memcpy(key, order, n * sizeof *key); /* sorted, so a heap */
    for (uint32_t i = 0; i < n; i++)
        copies[(uint32_t)order[i]] = 1;
    while (chosen < slots && size > 0) {
        const uint32_t e = (uint32_t)key[0];
        if (copies[e] < ranks) {
            chosen++;
            key[0] = orr_key_descending((float)(load[e] / ++copies[e]), e);
        } else {
            key[0] = key[--size];
        }
        orr_key_sift_down(key, size, 0);
    }
    chosen = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t e = (uint32_t)order[i];
        for (uint32_t c = 0; c < copies[e]; c++)
            key[chosen++] = orr_key_descending((float)(load[e] / copies[e]), e);
    }
    return chosen;
}

static void push(uint64_t *heap, uint32_t n, uint64_t key)
{
    uint32_t at = n;
    for (; at > 0 && heap[(at - 1) / 2] > key; at = (at - 1) / 2)
        heap[at] = heap[(at - 1) / 2];
    heap[at] = key;
}

static uint64_t pop(uint64_t *heap, uint32_t *n)
{
    const uint64_t ret = heap[0];
    heap[0] = heap[--*n];
    orr_key_sift_down(heap, *n, 0);
    return ret;
}

/* Puts a copy on the least loaded rank that lacks its expert. heap: ranks with a free slot, by
 * load; the end of its room, of `room` keys, keeps those that have the expert. */
static void add_to_least(orr_packing *k, uint16_t e, double part, uint64_t *heap, uint32_t *n,
                         uint32_t room)
{
    uint32_t put_off = 0;
    while (*n > 0) {
        const uint64_t key = pop(heap, n);
        const uint32_t r = (uint32_t)key;
        if (orr_packing_holds(k, r, e)) {
            heap[room - ++put_off] = key;
            continue;
        }
        orr_packing_add(k, r, e, part);
        if (free_slots(k, r) > 0)
            push(heap, (*n)++, orr_key_ascending((float)k->load[r], r));
        break;
    }
    for (; put_off > 0; put_off--)
        push(heap, (*n)++, heap[room - put_off]);
}

void orr_packing_fill_copies(orr_packing *k, orr_rank_range range, const double *load,
                             const uint64_t *order, uint32_t n, uint64_t *key, uint64_t *spare,
                             uint32_t *copies, uint64_t *heap)
{
    uint32_t ranks = 0;
    for (uint32_t r = range.first; r < range.end; r++) {
        k->used[r] = 0;
        k->load[r] = 0;
        if (k->first[r + 1] > k->first[r])
            heap[ranks++] = r; /* sorted, so a heap */
    }
    const uint32_t slots = k->first[range.end] - k->first[range.first], room = ranks;
    const uint32_t chosen = choose_copies(load, order, n, slots, ranks, key, copies);
    const uint64_t *sorted = orr_key_sort(key, spare, chosen);
    for (uint32_t i = 0; i < chosen; i++) {
        const uint16_t e = (uint16_t)sorted[i];
        add_to_least(k, e, load[e] / copies[e], heap, &ranks, room);
    }
}

/* The largest copy on a rank that another rank does not have (`other` the rank itself: any). Its
 * slot, or UINT32_MAX. */
static uint32_t largest_copy(const orr_packing *k, uint32_t rank, uint32_t other)
{
    uint32_t best = UINT32_MAX;
    for (uint32_t s = k->first[rank]; s < k->first[rank] + k->used[rank]; s++)
        if ((best == UINT32_MAX || k->part[s] > k->part[best]) &&
            (other == rank || !orr_packing_holds(k, other, k->expert[s])))
            best = s;
    return best;
}

/* Moves at most `load` of the largest copy of `from` that `to` lacks into a free slot of `to`. */
static bool shed(orr_packing *k, uint32_t from, uint32_t to, double load)
{
    const uint32_t slot = largest_copy(k, from, to);
    if (slot == UINT32_MAX || k->part[slot] <= 0)
        return false;
    const uint16_t e = k->expert[slot];
    if (load >= k->part[slot] * (1 - TOLERANCE)) { /* all of it: no copy, but a move */
        const uint32_t last = k->first[from] + --k->used[from];
        load = k->part[slot];
        k->expert[slot] = k->expert[last];
        k->part[slot] = k->part[last];
    } else {
        k->part[slot] -= load;
    }
    k->load[from] -= load;
    orr_packing_add(k, to, e, load);
    return true;
}

/* The rank that takes load from one that has `excess` over the limit: of those with a free slot,
 *
 *   1. the emptiest that the excess can fill up to the limit by one copy;
 *   2. else the emptiest that has a second free slot for another copy;
 *   3. else one that is over the limit itself, so that both excesses go on together;
 *   4. else the fullest that takes the excess, whose room is then partly lost.
 *
 * Where each rank but one has a free slot, 1 and 3 lead to exactly the limit with a copy for each
 * rank but one, as McNaughton's wrap-around rule does for jobs that may be interrupted. UINT32_MAX:
 * none. Source: R. McNaughton, Scheduling with deadlines and loss functions, 1959. */
static uint32_t find_receiver(const orr_packing *k, orr_rank_range range, uint32_t from,
                              double limit, double largest, int *ret_way)
{
    const double excess = k->load[from] - limit, slack = limit * TOLERANCE;
    uint32_t best = UINT32_MAX;
    int best_way = 5;
    for (uint32_t r = range.first; r < range.end; r++) {
        const double room = limit - k->load[r];
        if (r == from || free_slots(k, r) == 0 || (room <= slack && room >= -slack))
            continue;
        if (room < 0 && largest <= excess)
            continue; /* it would go back and forth */
        const int way = room < 0                                            ? 3
                        : room <= excess + slack && room <= largest + slack ? 1
                        : free_slots(k, r) > 1                              ? 2
                                                                            : 4;
        if (way < best_way || (way == best_way && (way == 4 ? k->load[r] > k->load[best]
                                                            : k->load[r] < k->load[best]))) {
            best = r;
            best_way = way;
        }
    }
    *ret_way = best_way;
    return best;
}

double orr_packing_level(orr_packing *k, orr_rank_range range, double limit)
{
    for (;;) {
        const uint32_t from = fullest_rank(k, range);
        const uint32_t largest = largest_copy(k, from, from);
        const double excess = k->load[from] - limit;
        int way;
        if (excess <= limit * TOLERANCE || largest == UINT32_MAX)
            return k->load[from];
        const uint32_t to = find_receiver(k, range, from, limit, k->part[largest], &way);
        if (to == UINT32_MAX)
            return k->load[from];
        const double room = limit - k->load[to];
        if (!shed(k, from, to, way != 3 && room < excess ? room : excess))
            return k->load[from];
    }
}

/* What an exchange between the fullest rank and another would come to. */
typedef struct exchange {
    uint32_t slot, other, other_slot; /* other_slot UINT32_MAX: a free one */
    double most;                      /* load of the fuller rank of both */
} exchange;

static void try_rank(const orr_packing *k, uint32_t from, uint32_t other, exchange *best)
{
    const uint32_t begin = k->first[other], end = begin + k->used[other];
    for (uint32_t a = k->first[from]; a < k->first[from] + k->used[from]; a++) {
        if (orr_packing_holds(k, other, k->expert[a]))
            continue;
        for (uint32_t b = begin; b < end + (free_slots(k, other) > 0); b++) {
            const double moved = k->part[a] - (b < end ? k->part[b] : 0);
            const double here = k->load[from] - moved, there = k->load[other] + moved;
            const double most = here > there ? here : there;
            if (moved > 0 && most < best->most &&
                (b == end || !orr_packing_holds(k, from, k->expert[b])))
                *best = (exchange){a, other, b < end ? b : UINT32_MAX, most};
        }
    }
}

double orr_packing_exchange(orr_packing *k, orr_rank_range range, uint32_t most)
{
    for (;; most--) {
        const uint32_t from = fullest_rank(k, range);
        exchange best = {.slot = UINT32_MAX, .most = k->load[from] * (1 - TOLERANCE)};
        for (uint32_t r = range.first; r < range.end && most > 0; r++)
            if (r != from && k->load[r] < k->load[from])
                try_rank(k, from, r, &best);
        if (best.slot == UINT32_MAX)
            return k->load[from];
        if (best.other_slot == UINT32_MAX) {
            const double part = k->part[best.slot];
            const uint16_t e = k->expert[best.slot];
            const uint32_t last = k->first[from] + --k->used[from];
            k->expert[best.slot] = k->expert[last];
            k->part[best.slot] = k->part[last];
            k->load[from] -= part;
            orr_packing_add(k, best.other, e, part);
            continue;
        }
        const double moved = k->part[best.slot] - k->part[best.other_slot];
        const uint16_t e = k->expert[best.slot];
        k->expert[best.slot] = k->expert[best.other_slot];
        k->expert[best.other_slot] = e;
        k->part[best.other_slot] += moved;
        k->part[best.slot] -= moved;
        k->load[from] -= moved;
        k->load[best.other] += moved;
    }
}
