/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/comm/shapes.h"

#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The number at text[*at], which moves behind it. False when it does not fit. */
static bool read_number(const char *text, size_t len, size_t *at, int64_t *ret)
{
    int64_t n = 0;
    for (; *at < len && is_digit(text[*at]); ++*at)
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, text[*at] - '0', &n))
            return false;
    *ret = n;
    return true;
}

int64_t orr_dims_element_count(const char *dims, size_t len, unsigned index)
{
    int64_t sum = 0, product = 1;
    bool any = false, open = false; /* open: the innermost list has numbers */
    unsigned depth = 0, argument = 0;
    for (size_t i = 0; i < len;) {
        const char c = dims[i];
        if (is_digit(c)) {
            int64_t n;
            if (!read_number(dims, len, &i, &n))
                return -1;
            if (argument != index || depth < 2)
                continue;
            if (__builtin_mul_overflow(product, n, &product))
                return -1;
            any = open = true;
            continue;
        }
        if (c == '[') {
            depth++;
        } else if (c == ']' && depth > 0) {
            depth--;
            if (open && __builtin_add_overflow(sum, product, &sum))
                return -1;
            product = 1;
            open = false;
        } else if (c == ',' && depth == 1) {
            argument++;
        }
        i++;
    }
    return any ? sum : -1;
}

const char *orr_types_first(const char *types, size_t len, size_t *ret_len)
{
    for (const char *at = types, *end = types + len; at < end;) {
        const char *open = memchr(at, '"', (size_t)(end - at));
        if (open == NULL)
            return NULL;
        const char *close = memchr(open + 1, '"', (size_t)(end - open - 1));
        if (close == NULL)
            return NULL;
        if (close > open + 1) {
            *ret_len = (size_t)(close - open - 1);
            return open + 1;
        }
        at = close + 1;
    }
    return NULL;
}

static void describe(const uint32_t *ranks, size_t n, orr_group *group)
{
    group->size = (uint32_t)n;
    group->ranks = NULL;
    group->start = (int32_t)ranks[0];
    group->stride = n > 1 ? (int32_t)ranks[1] - (int32_t)ranks[0] : 1;
    for (size_t i = 0; i < n; i++)
        if (group->stride <= 0 || ranks[i] != group->start + (int64_t)i * group->stride)
            group->ranks = ranks;
}

orr_status orr_ranks_parse(const char *text, size_t len, uint32_t **ret_list, orr_group *group,
                           orr_error *err)
{
    orr_array(uint32_t) ranks = {0};
    bool whole = memmem(text, len, "...", 3) == NULL;
    for (size_t i = 0; i < len && whole;) {
        int64_t rank;
        if (!is_digit(text[i])) {
            i++;
            continue;
        }
        if (!read_number(text, len, &i, &rank) || rank >= INT32_MAX) {
            whole = false;
        } else if (!orr_array_push(&ranks, (uint32_t)rank)) {
            orr_array_done(&ranks);
            return orr_fail_memory(err);
        }
    }
    if (!whole || ranks.n == 0) {
        orr_array_done(&ranks);
        return ORR_OK;
    }
    describe(ranks.at, ranks.n, group);
    *ret_list = ranks.at;
    return ORR_OK;
}

void orr_ranks_free(uint32_t *list)
{
    orr_free(list);
}
