/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analysis/common.h"

/* Merge sort that notices order: what the lanes give is runs that are sorted
 * already, and merging two runs that follow one another costs one comparison. */
enum { BLOCK = 16 };

static bool before(const orr_keyed *a, const orr_keyed *b)
{
    return a->key != b->key ? a->key < b->key : a->id < b->id;
}

static void sort_block(orr_keyed *items, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        const orr_keyed item = items[i];
        size_t at = i;
        for (; at > 0 && before(&item, &items[at - 1]); at--)
            items[at] = items[at - 1];
        items[at] = item;
    }
}

/* Merge items[0..middle) and items[middle..n), both sorted. */
static void merge(orr_keyed *items, size_t middle, size_t n, orr_keyed *spare)
{
    if (!before(&items[middle], &items[middle - 1]))
        return;
    memcpy(spare, items, middle * sizeof *items);
    size_t a = 0, b = middle, out = 0;
    while (a < middle && b < n)
        items[out++] = before(&items[b], &spare[a]) ? items[b++] : spare[a++];
    memcpy(items + out, spare + a, (middle - a) * sizeof *items);
}

orr_status orr_sort_keyed(orr_keyed *items, size_t n, orr_arena *arena, orr_error *err)
{
    bool sorted = true;
    for (size_t i = 1; i < n && sorted; i++)
        sorted = !before(&items[i], &items[i - 1]);
    if (sorted)
        return ORR_OK;

    const orr_arena_mark mark = orr_arena_get_mark(arena);
    orr_keyed *spare = orr_arena_array(arena, orr_keyed, n);
    if (spare == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i += BLOCK)
        sort_block(items + i, n - i < BLOCK ? n - i : BLOCK);
    for (size_t width = BLOCK; width < n; width *= 2)
        for (size_t i = 0; n - i > width; i += 2 * width) {
            const size_t rest = n - i;
            merge(items + i, width, rest < 2 * width ? rest : 2 * width, spare);
            if (rest <= 2 * width)
                break;
        }
    orr_arena_rewind(arena, mark);
    return ORR_OK;
}
