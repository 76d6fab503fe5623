/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/factor.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <orrery/plan.h>

#include "base/alloc.h"

orr_status orr_parse_factor(const char *option, const char *text, size_t len, double *ret,
                            orr_error *err)
{
    char number[64], *end;
    if (len > 0 && len < sizeof number) {
        memcpy(number, text, len);
        number[len] = '\0';
        *ret = strtod(number, &end);
        if (*end == '\0' && *ret >= 0 && *ret < 1e12)
            return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID, "--%s: '%.*s' is not a factor such as 0.5", option,
                    (int)(len < 60 ? len : 60), text);
}

orr_status orr_parse_power_count(const char *option, const char *text, uint32_t *ret,
                                 orr_error *err)
{
    char field[80];
    orr_plan plan;
    const int n = snprintf(field, sizeof field, "batch=%s", text);
    if (n >= (int)sizeof field || strpbrk(text, ",=") != NULL ||
        orr_plan_parse(field, &plan, NULL) != ORR_OK)
        return orr_fail(err, ORR_INVALID, "--%s: '%.60s' is not a number from 1 on, as 2048 or 16k",
                        option, text);
    *ret = plan.batch;
    return ORR_OK;
}

orr_status orr_parse_seed(const char *text, uint64_t *ret, orr_error *err)
{
    char *end;
    errno = 0;
    *ret = strtoull(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || strchr(text, '-') != NULL)
        return orr_fail(err, ORR_INVALID, "--seed: '%s' is not a whole number of 0 or more", text);
    return ORR_OK;
}

orr_status orr_parse_share(const char *option, const char *text, double *ret, orr_error *err)
{
    char *end;
    double share = strtod(text, &end);
    const bool number = end != text;
    end += strspn(end, " ");
    if (*end == '%') {
        share /= 100;
        end++;
    }
    if (!number || *end != '\0' || !(share >= 0) || share >= 1)
        return orr_fail(err, ORR_INVALID, "--%s: '%.60s' is not a share from 0 to 100 %%, as 2%%",
                        option, text);
    *ret = share;
    return ORR_OK;
}

uint32_t orr_count_items(const char *list)
{
    uint32_t n = list && *list ? 1 : 0;
    for (; list && *list; list++)
        n += *list == ',';
    return n;
}

orr_status orr_parse_stragglers(const char *list, orr_arena *arena, const orr_rank_factor **ret,
                                uint32_t *ret_n, orr_error *err)
{
    orr_rank_factor *all = orr_arena_array(arena, orr_rank_factor, orr_count_items(list));
    uint32_t n = 0;
    if (all == NULL)
        return orr_fail_memory(err);
    for (const char *at = list; at && *at;) {
        size_t len = strcspn(at, ",");
        const char *next = at + len + (at[len] == ',');
        char *colon;
        const unsigned long rank = strtoul(at, &colon, 10);
        if (colon == at || *colon != ':' || rank >= ORR_NONE)
            return orr_fail(err, ORR_INVALID, "--straggler: '%.*s' is not RANK:FACTOR, as 3:1.2x",
                            (int)(len < 60 ? len : 60), at);
        const char *factor = colon + 1;
        len -= (size_t)(factor - at);
        if (len > 0 && factor[len - 1] == 'x')
            len--;
        ORR_TRY(orr_parse_factor("straggler", factor, len, &all[n].factor, err));
        all[n++].rank = (uint32_t)rank;
        at = next;
    }
    *ret = all;
    *ret_n = n;
    return ORR_OK;
}
