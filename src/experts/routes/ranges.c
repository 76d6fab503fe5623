/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/ranges.h"

#include <string.h>

bool orr_token_ranges_add(orr_token_ranges *ranges, uint64_t token)
{
    orr_token_range *last = ranges->range.n > 0 ? &ranges->range.at[ranges->range.n - 1] : NULL;
    ranges->tokens++;
    if (last != NULL && token == last->first + last->n) {
        last->n++;
        return true;
    }
    return orr_array_push(&ranges->range, ((orr_token_range){token, 1}));
}

void orr_token_ranges_done(orr_token_ranges *ranges)
{
    orr_array_done(&ranges->range);
    ranges->tokens = 0;
}

void orr_token_ranges_take(const orr_token_ranges *ranges, const void *from, size_t row_bytes,
                           void *to)
{
    const char *source = from;
    char *at = to;
    for (size_t i = 0; i < ranges->range.n; i++) {
        const orr_token_range *r = &ranges->range.at[i];
        memmove(at, source + r->first * row_bytes, r->n * row_bytes);
        at += r->n * row_bytes;
    }
}
