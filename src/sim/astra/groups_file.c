/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/astra.h>

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sim/astra/json.h"

enum { MOST_RANKS = 1 << 24 };

typedef struct reader {
    orr_arena *arena;
    orr_array(orr_astra_group) groups;
    orr_array(uint32_t) ranks;
} reader;

static orr_status read_id(orr_json *json, orr_text key, int64_t *ret, orr_error *err)
{
    char digits[20] = "", *end;
    if (key.n > 0 && key.n < sizeof digits)
        memcpy(digits, key.at, key.n);
    *ret = strtoll(digits, &end, 10);
    if (end == digits || *end != '\0' || *ret <= 0)
        return orr_astra_json_fail(json, err, "communication groups",
                                   "a group is named by a number of 1 or more");
    return ORR_OK;
}

static orr_status read_ranks(orr_json *json, reader *r, orr_astra_group *group, orr_error *err)
{
    orr_status status = ORR_OK;
    r->ranks.n = 0;
    ORR_TRY(orr_json_enter_array(json, err));
    while (orr_json_next_element(json, &status, err)) {
        int64_t rank;
        bool is_number;
        ORR_TRY(orr_json_int64(json, &rank, &is_number, err));
        if (!is_number || rank < 0 || rank >= MOST_RANKS)
            return orr_astra_json_fail(json, err, "communication groups", "not a rank");
        if (!orr_array_push(&r->ranks, (uint32_t)rank))
            return orr_fail_memory(err);
    }
    ORR_TRY(status);
    if (r->ranks.n == 0)
        return orr_astra_json_fail(json, err, "communication groups", "a group without ranks");
    uint32_t *ranks = orr_arena_array(r->arena, uint32_t, r->ranks.n);
    if (ranks == NULL)
        return orr_fail_memory(err);
    memcpy(ranks, r->ranks.at, r->ranks.n * sizeof *ranks);
    group->n = (uint32_t)r->ranks.n;
    group->ranks = ranks;
    return ORR_OK;
}

static int compare_ranks(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static orr_status check_distinct(orr_json *json, reader *r, orr_error *err)
{
    qsort(r->ranks.at, r->ranks.n, sizeof *r->ranks.at, compare_ranks);
    for (size_t i = 1; i < r->ranks.n; i++)
        if (r->ranks.at[i] == r->ranks.at[i - 1])
            return orr_astra_json_fail(json, err, "communication groups",
                                       "a rank stands twice in a group");
    return ORR_OK;
}

static orr_status read_groups(orr_json *json, void *ctx, orr_error *err)
{
    reader *r = ctx;
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        orr_astra_group group = {0};
        ORR_TRY(read_id(json, key, &group.id, err));
        ORR_TRY(read_ranks(json, r, &group, err));
        ORR_TRY(check_distinct(json, r, err));
        if (!orr_array_push(&r->groups, group))
            return orr_fail_memory(err);
    }
    return status;
}

static int compare_groups(const void *a, const void *b)
{
    const orr_astra_group *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

static orr_status finish(reader *r, const char *file, orr_astra_groups *ret, orr_error *err)
{
    orr_astra_group *groups = orr_arena_array(r->arena, orr_astra_group, r->groups.n);
    if (groups == NULL)
        return orr_fail_memory(err);
    if (r->groups.n > 0)
        memcpy(groups, r->groups.at, r->groups.n * sizeof *groups);
    qsort(groups, r->groups.n, sizeof *groups, compare_groups);
    for (size_t i = 1; i < r->groups.n; i++)
        if (groups[i].id == groups[i - 1].id)
            return orr_fail(err, ORR_INVALID, "%s: group %lld stands there twice", file,
                            (long long)groups[i].id);
    *ret = (orr_astra_groups){(uint32_t)r->groups.n, groups};
    return ORR_OK;
}

static orr_status read_all(const char *path, const void *bytes, size_t len, const char *file,
                           orr_arena *arena, orr_astra_groups *ret, orr_error *err)
{
    reader r = {.arena = arena};
    orr_status status = path != NULL ? orr_astra_json_load(path, read_groups, &r, err)
                                     : orr_astra_json_parse(bytes, len, file, read_groups, &r, err);
    if (status == ORR_OK)
        status = finish(&r, file, ret, err);
    orr_array_done(&r.groups);
    orr_array_done(&r.ranks);
    return status;
}

orr_status orr_astra_groups_load(const char *path, orr_arena *arena, orr_astra_groups *ret,
                                 orr_error *err)
{
    return read_all(path, NULL, 0, path, arena, ret, err);
}

orr_status orr_astra_groups_parse(const void *bytes, size_t len, const char *file, orr_arena *arena,
                                  orr_astra_groups *ret, orr_error *err)
{
    return read_all(NULL, bytes, len, file, arena, ret, err);
}
