/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/ranges.h"

/* The rows of a column that are kept, in the arena; NULL: no memory. */
static void *taken(const orr_token_ranges *kept, const void *column, size_t row_bytes,
                   orr_arena *arena)
{
    void *ret = orr_arena_alloc(arena, kept->tokens, row_bytes, 64);
    if (ret != NULL)
        orr_token_ranges_take(kept, column, row_bytes, ret);
    return ret;
}

static bool take_layers(const orr_routes *from, const orr_token_ranges *kept, orr_arena *arena,
                        orr_routes *to)
{
    const size_t k = from->top_k;
    const uint8_t **low = orr_arena_array(arena, const uint8_t *, from->layers);
    const uint8_t **high =
        from->high != NULL ? orr_arena_array(arena, const uint8_t *, from->layers) : NULL;
    const float **score =
        from->score != NULL ? orr_arena_array(arena, const float *, from->layers) : NULL;
    if (low == NULL || (from->high != NULL && high == NULL) ||
        (from->score != NULL && score == NULL))
        return false;
    for (uint32_t l = 0; l < from->layers; l++) {
        low[l] = taken(kept, from->low[l], k, arena);
        if (high != NULL)
            high[l] = taken(kept, from->high[l], (k + 1) / 2, arena);
        if (score != NULL)
            score[l] = taken(kept, from->score[l], k * sizeof(float), arena);
        if (low[l] == NULL || (high != NULL && high[l] == NULL) ||
            (score != NULL && score[l] == NULL))
            return false;
    }
    to->low = low;
    to->high = high;
    to->score = score;
    return true;
}

static orr_status take(const orr_routes *from, const orr_token_ranges *kept, orr_arena *arena,
                       const orr_routes **ret, orr_error *err)
{
    orr_routes *to = orr_arena_one(arena, orr_routes);
    if (kept->tokens == 0)
        return orr_fail(err, ORR_INVALID, "no tokens of %s are left", from->source);
    if (to == NULL || !take_layers(from, kept, arena, to))
        return orr_fail_memory(err);
    orr_routes copy = *from;
    copy.low = to->low;
    copy.high = to->high;
    copy.score = to->score;
    copy.tokens = kept->tokens;
    copy.request = taken(kept, from->request, sizeof *from->request, arena);
    copy.position = taken(kept, from->position, sizeof *from->position, arena);
    copy.phase = taken(kept, from->phase, sizeof *from->phase, arena);
    if (from->rank != NULL)
        copy.rank = taken(kept, from->rank, sizeof *from->rank, arena);
    if (copy.request == NULL || copy.position == NULL || copy.phase == NULL ||
        (from->rank != NULL && copy.rank == NULL))
        return orr_fail_memory(err);
    *to = copy;
    *ret = to;
    return ORR_OK;
}

orr_status orr_routes_select(const orr_routes *routes, const bool *keep, int phase,
                             orr_arena *arena, const orr_routes **ret, orr_error *err)
{
    orr_token_ranges kept = {0};
    bool held = true;
    for (uint64_t t = 0; held && t < routes->tokens; t++)
        if ((keep == NULL || keep[routes->request[t]]) && (phase < 0 || routes->phase[t] == phase))
            held = orr_token_ranges_add(&kept, t);
    const orr_status status = held ? take(routes, &kept, arena, ret, err) : orr_fail_memory(err);
    orr_token_ranges_done(&kept);
    return status;
}
