/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "experts/routes/ranges.h"

/* Runs of tokens of a request that chose alike. */
typedef struct run_finder {
    orr_array(uint32_t) last;   /* by request: 1 + its last token; 0: none yet */
    orr_array(uint32_t) run;    /* by token */
    orr_array(uint32_t) length; /* by run */
} run_finder;

static bool same_bytes(const uint8_t *column, size_t row_bytes, size_t a, size_t b)
{
    return memcmp(column + a * row_bytes, column + b * row_bytes, row_bytes) == 0;
}

static bool same_choices(const orr_routes_builder *b, size_t one, size_t other)
{
    for (uint32_t l = 0; l < b->layers; l++)
        if (!same_bytes(b->low[l].at, b->top_k, one, other) ||
            (b->high[l].n > 0 && !same_bytes(b->high[l].at, (b->top_k + 1) / 2, one, other)))
            return false;
    return true;
}

/* Gives each token the run of the token before it in its request, if both chose alike. */
static bool find_runs(const orr_routes_builder *b, run_finder *f)
{
    const size_t tokens = b->request.n;
    if (!orr_array_reserve(&f->run, tokens))
        return false;
    for (size_t t = 0; t < tokens; t++) {
        const uint32_t request = b->request.at[t];
        while (f->last.n <= request)
            if (!orr_array_push(&f->last, 0))
                return false;
        const uint32_t before = f->last.at[request];
        if (before > 0 && same_choices(b, before - 1, t)) {
            f->run.at[t] = f->run.at[before - 1];
            f->length.at[f->run.at[t]]++;
        } else {
            f->run.at[t] = (uint32_t)f->length.n;
            if (!orr_array_push(&f->length, 1))
                return false;
        }
        f->last.at[request] = (uint32_t)t + 1;
    }
    return true;
}

static void take_rows(orr_routes_builder *b, const orr_token_ranges *kept)
{
    const size_t k = b->top_k, high = (k + 1) / 2, n = kept->tokens;
    for (uint32_t l = 0; l < b->layers; l++) {
        orr_token_ranges_take(kept, b->low[l].at, k, b->low[l].at);
        b->low[l].n = n * k;
        if (b->high[l].n > 0) {
            orr_token_ranges_take(kept, b->high[l].at, high, b->high[l].at);
            b->high[l].n = n * high;
        }
        if (b->score != NULL) {
            orr_token_ranges_take(kept, b->score[l].at, k * sizeof(float), b->score[l].at);
            b->score[l].n = n * k;
        }
    }
    orr_token_ranges_take(kept, b->request.at, sizeof *b->request.at, b->request.at);
    orr_token_ranges_take(kept, b->position.at, sizeof *b->position.at, b->position.at);
    orr_token_ranges_take(kept, b->phase.at, sizeof *b->phase.at, b->phase.at);
    if (b->rank.n > 0) {
        orr_token_ranges_take(kept, b->rank.at, sizeof *b->rank.at, b->rank.at);
        b->rank.n = n;
    }
    b->request.n = b->position.n = b->phase.n = n;
}

orr_status orr_routes_builder_drop_warm_up(orr_routes_builder *b, uint64_t *ret_dropped,
                                           orr_error *err)
{
    run_finder f = {0};
    orr_token_ranges kept = {0};
    const size_t tokens = b->request.n;
    orr_status status = ORR_OK;
    if (tokens >= UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%zu tokens: at most %u", tokens, UINT32_MAX - 1);
    bool held = find_runs(b, &f);
    for (size_t t = 0; held && t < tokens; t++)
        if (f.length.at[f.run.at[t]] < ORR_ROUTES_WARM_UP)
            held = orr_token_ranges_add(&kept, t);
    if (!held)
        status = orr_fail_memory(err);
    else if (kept.tokens < tokens)
        take_rows(b, &kept);
    if (status == ORR_OK)
        *ret_dropped = tokens - kept.tokens;
    orr_array_done(&f.last);
    orr_array_done(&f.run);
    orr_array_done(&f.length);
    orr_token_ranges_done(&kept);
    return status;
}
