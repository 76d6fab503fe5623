/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/placement/traffic.h"

/* Which rank each request is dealt to. */

static uint32_t emptiest_rank(const uint64_t *tokens, const bool *dead, uint32_t begin,
                              uint32_t end)
{
    uint32_t ret = UINT32_MAX;
    for (uint32_t r = begin; r < end; r++)
        if ((dead == NULL || !dead[r]) && (ret == UINT32_MAX || tokens[r] < tokens[ret]))
            ret = r;
    return ret;
}

orr_status orr_expert_requests_deal(const orr_routes *routes, const orr_expert_options *options,
                                    orr_arena *arena, const uint32_t **ret, orr_error *err)
{
    const uint32_t *group_of = options->group_of_request;
    const uint32_t ranks = options->ranks;
    const uint32_t groups = orr_expert_request_groups(options);
    if (ranks == 0 || ranks % groups != 0)
        return orr_fail(err, ORR_INVALID, "%u groups of requests do not divide %u ranks", groups,
                        ranks);
    uint32_t *rank = orr_arena_array(arena, uint32_t, routes->requests);
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    uint64_t *length = orr_arena_array(arena, uint64_t, routes->requests);
    uint64_t *tokens = orr_arena_array(arena, uint64_t, ranks);
    if (rank == NULL || length == NULL || tokens == NULL)
        return orr_fail_memory(err);
    for (uint64_t t = 0; t < routes->tokens; t++)
        length[routes->request[t]]++;
    for (uint32_t i = 0; i < routes->requests; i++) {
        const uint32_t group = group_of != NULL ? group_of[i] : 0, size = ranks / groups;
        if (length[i] == 0 && group >= groups)
            continue;
        if (group >= groups)
            return orr_fail(err, ORR_INVALID, "request %u is of group %u, and there are %u", i,
                            group, groups);
        rank[i] = emptiest_rank(tokens, options->dead, group * size, (group + 1) * size);
        if (rank[i] == UINT32_MAX)
            return orr_fail(err, ORR_INVALID, "all %u ranks of group %u are dead", size, group);
        tokens[rank[i]] += length[i];
    }
    orr_arena_rewind(arena, mark);
    *ret = rank;
    return ORR_OK;
}
