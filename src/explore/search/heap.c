/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/search/search.h"

/* Binary heaps of candidates: each has a bound that is at most those of its two children. */

static bool has_lower_bound(const orr_incumbent *incumbent, const orr_explored *a,
                            const orr_explored *b)
{
    return orr_explored_is_better(incumbent, a, b); /* values of candidates are lower bounds */
}

bool orr_heap_push(const orr_incumbent *incumbent, orr_explored_list *heap, const orr_explored *e)
{
    if (!orr_array_push(heap, *e))
        return false;
    for (size_t i = heap->n - 1; i > 0 && has_lower_bound(incumbent, e, &heap->at[(i - 1) / 2]);
         i = (i - 1) / 2) {
        heap->at[i] = heap->at[(i - 1) / 2];
        heap->at[(i - 1) / 2] = *e;
    }
    return true;
}

orr_explored orr_heap_take(const orr_incumbent *incumbent, orr_explored_list *heap, size_t i)
{
    const orr_explored taken = heap->at[i], last = heap->at[--heap->n];
    if (i == heap->n)
        return taken;
    for (; i > 0 && has_lower_bound(incumbent, &last, &heap->at[(i - 1) / 2]); i = (i - 1) / 2)
        heap->at[i] = heap->at[(i - 1) / 2];
    for (size_t child; (child = 2 * i + 1) < heap->n; i = child) {
        if (child + 1 < heap->n &&
            has_lower_bound(incumbent, &heap->at[child + 1], &heap->at[child]))
            child++;
        if (!has_lower_bound(incumbent, &heap->at[child], &last))
            break;
        heap->at[i] = heap->at[child];
    }
    heap->at[i] = last;
    return taken;
}
