/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

/* Merge what is sorted by start: overlapping and touching intervals become one. */
static size_t merge_sorted(orr_interval *at, size_t n)
{
    size_t out = 0;
    for (size_t i = 0; i < n; i++) {
        if (at[i].to_ns <= at[i].from_ns)
            continue;
        if (out > 0 && at[i].from_ns <= at[out - 1].to_ns) {
            if (at[i].to_ns > at[out - 1].to_ns)
                at[out - 1].to_ns = at[i].to_ns;
        } else {
            at[out++] = at[i];
        }
    }
    return out;
}

static bool sorted_by_start(const orr_interval *at, size_t n)
{
    for (size_t i = 1; i < n; i++)
        if (at[i].from_ns < at[i - 1].from_ns)
            return false;
    return true;
}

orr_status orr_interval_set_from(orr_interval *any, size_t n, orr_arena *arena,
                                 orr_interval_set *ret, orr_error *err)
{
    if (!sorted_by_start(any, n)) {
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        orr_keyed *order = orr_arena_array(arena, orr_keyed, n);
        orr_interval *copy = orr_arena_array(arena, orr_interval, n);
        if (order == NULL || copy == NULL)
            return orr_fail_memory(err);
        for (size_t i = 0; i < n; i++) {
            order[i] = (orr_keyed){.key = any[i].from_ns, .id = (uint32_t)i};
            copy[i] = any[i];
        }
        ORR_TRY(orr_sort_keyed(order, n, arena, err));
        for (size_t i = 0; i < n; i++)
            any[i] = copy[order[i].id];
        orr_arena_rewind(arena, mark);
    }
    *ret = (orr_interval_set){.at = any, .n = merge_sorted(any, n)};
    return ORR_OK;
}

orr_status orr_interval_set_union(const orr_interval_set *a, const orr_interval_set *b,
                                  orr_arena *arena, orr_interval_set *ret, orr_error *err)
{
    orr_interval *both = orr_arena_array(arena, orr_interval, a->n + b->n);
    if (both == NULL)
        return orr_fail_memory(err);
    size_t i = 0, j = 0, n = 0;
    while (i < a->n || j < b->n) {
        const bool take_a = j == b->n || (i < a->n && a->at[i].from_ns <= b->at[j].from_ns);
        both[n++] = take_a ? a->at[i++] : b->at[j++];
    }
    *ret = (orr_interval_set){.at = both, .n = merge_sorted(both, n)};
    return ORR_OK;
}

orr_status orr_interval_set_difference(const orr_interval_set *a, const orr_interval_set *b,
                                       orr_arena *arena, orr_interval_set *ret, orr_error *err)
{
    /* Each interval of b cuts at most one of a in two. */
    orr_interval *rest = orr_arena_array(arena, orr_interval, a->n + b->n);
    if (rest == NULL)
        return orr_fail_memory(err);
    size_t n = 0, j = 0;
    for (size_t i = 0; i < a->n; i++) {
        int64_t from = a->at[i].from_ns;
        const int64_t to = a->at[i].to_ns;
        while (j < b->n && b->at[j].to_ns <= from)
            j++;
        for (size_t k = j; k < b->n && b->at[k].from_ns < to; k++) {
            if (b->at[k].from_ns > from)
                rest[n++] = (orr_interval){from, b->at[k].from_ns};
            from = b->at[k].to_ns;
            if (from < to)
                j = k + 1;
        }
        if (from < to)
            rest[n++] = (orr_interval){from, to};
    }
    *ret = (orr_interval_set){.at = rest, .n = n};
    return ORR_OK;
}

int64_t orr_interval_set_length(const orr_interval_set *a)
{
    int64_t length = 0;
    for (size_t i = 0; i < a->n; i++)
        length += a->at[i].to_ns - a->at[i].from_ns;
    return length;
}

int64_t orr_interval_set_overlap(const orr_interval_set *a, const orr_interval_set *b)
{
    int64_t length = 0;
    for (size_t i = 0, j = 0; i < a->n && j < b->n;) {
        const orr_interval *x = &a->at[i], *y = &b->at[j];
        const int64_t from = x->from_ns > y->from_ns ? x->from_ns : y->from_ns;
        const int64_t to = x->to_ns < y->to_ns ? x->to_ns : y->to_ns;
        if (from < to)
            length += to - from;
        if (x->to_ns < y->to_ns)
            i++;
        else
            j++;
    }
    return length;
}
