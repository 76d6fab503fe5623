/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/id_ranges.h"

#include <string.h>

/* The first range that ends at or after the id. */
static size_t place_of(const orr_id_ranges *ranges, uint64_t id)
{
    size_t low = 0, high = ranges->list.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (ranges->list.at[middle].last < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool orr_id_ranges_has(const orr_id_ranges *ranges, uint64_t id)
{
    const size_t at = place_of(ranges, id);
    return at < ranges->list.n && ranges->list.at[at].first <= id;
}

bool orr_id_ranges_add(orr_id_ranges *ranges, uint64_t id)
{
    const size_t at = place_of(ranges, id);
    orr_id_range *list = ranges->list.at;
    const bool before = at > 0 && list[at - 1].last + 1 == id;
    const bool after = at < ranges->list.n && id + 1 == list[at].first;
    if (before && after) {
        list[at - 1].last = list[at].last;
        memmove(&list[at], &list[at + 1], (--ranges->list.n - at) * sizeof *list);
    } else if (before) {
        list[at - 1].last = id;
    } else if (after) {
        list[at].first = id;
    } else {
        if (!orr_array_reserve(&ranges->list, 1))
            return false;
        list = ranges->list.at;
        memmove(&list[at + 1], &list[at], (ranges->list.n++ - at) * sizeof *list);
        list[at] = (orr_id_range){id, id};
    }
    return true;
}

void orr_id_ranges_done(orr_id_ranges *ranges)
{
    orr_array_done(&ranges->list);
}
