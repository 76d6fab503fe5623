/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/builder.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

orr_status orr_routes_builder_init(orr_routes_builder *b, const uint32_t *number, uint32_t layers,
                                   uint32_t top_k, bool scores, orr_error *err)
{
    *b = (orr_routes_builder){.layers = layers, .top_k = top_k};
    if (layers == 0 || top_k == 0 || top_k > ORR_ROUTE_CHOICES_MAX)
        return orr_fail(err, ORR_INVALID, "routes of %u layers, %u experts a token: up to %d",
                        layers, top_k, ORR_ROUTE_CHOICES_MAX);
    for (uint32_t l = 1; l < layers; l++)
        if (number[l] <= number[l - 1])
            return orr_fail(err, ORR_INVALID, "layer %u stands after layer %u", number[l],
                            number[l - 1]);
    b->number = orr_calloc(layers, sizeof *b->number);
    b->low = orr_calloc(layers, sizeof *b->low);
    b->high = orr_calloc(layers, sizeof *b->high);
    b->score = scores ? orr_calloc(layers, sizeof *b->score) : NULL;
    if (b->number == NULL || b->low == NULL || b->high == NULL || (scores && b->score == NULL)) {
        orr_routes_builder_done(b);
        return orr_fail_memory(err);
    }
    memcpy(b->number, number, layers * sizeof *number);
    return ORR_OK;
}

static size_t high_bytes(const orr_routes_builder *b)
{
    return (b->top_k + 1) / 2;
}

/* High bits are kept from the first expert on that has any; the `tokens` before have zeros. */
static bool begin_high(orr_routes_builder *b, uint32_t layer, size_t tokens)
{
    const size_t n = tokens * high_bytes(b);
    if (b->high[layer].n == n)
        return true;
    if (!orr_array_reserve(&b->high[layer], n - b->high[layer].n))
        return false;
    memset(b->high[layer].at + b->high[layer].n, 0, n - b->high[layer].n);
    b->high[layer].n = n;
    return true;
}

static bool push_high(orr_routes_builder *b, uint32_t layer, size_t before, size_t n,
                      const uint16_t *choice)
{
    const size_t bytes = high_bytes(b);
    if (!begin_high(b, layer, before) || !orr_array_reserve(&b->high[layer], n * bytes))
        return false;
    uint8_t *high = b->high[layer].at + b->high[layer].n;
    memset(high, 0, n * bytes);
    for (size_t t = 0; t < n; t++)
        for (uint32_t k = 0; k < b->top_k; k++)
            high[t * bytes + k / 2] =
                (uint8_t)(high[t * bytes + k / 2] | (choice[t * b->top_k + k] >> 8) << (k % 2 * 4));
    b->high[layer].n += n * bytes;
    return true;
}

orr_status orr_routes_builder_choices(orr_routes_builder *b, uint32_t layer, size_t n,
                                      const uint16_t *choice, orr_error *err)
{
    const size_t before = b->low[layer].n / b->top_k, choices = n * b->top_k;
    uint16_t above = 0, most = 0;
    if (!orr_array_reserve(&b->low[layer], choices))
        return orr_fail_memory(err);
    uint8_t *low = b->low[layer].at + b->low[layer].n;
    for (size_t i = 0; i < choices; i++) {
        low[i] = (uint8_t)choice[i];
        above |= choice[i] >> 8;
        most = choice[i] > most ? choice[i] : most;
    }
    b->low[layer].n += choices;
    b->most = most > b->most ? most : b->most;
    return (above == 0 && b->high[layer].n == 0) || push_high(b, layer, before, n, choice)
               ? ORR_OK
               : orr_fail_memory(err);
}

static bool push_scores(orr_routes_builder *b, uint32_t layer, const float *score)
{
    if (!orr_array_reserve(&b->score[layer], b->top_k))
        return false;
    memcpy(b->score[layer].at + b->score[layer].n, score, b->top_k * sizeof *score);
    b->score[layer].n += b->top_k;
    return true;
}

orr_status orr_routes_builder_token(orr_routes_builder *b, const orr_routes_row *row,
                                    orr_error *err)
{
    const bool ranked = row->rank != UINT16_MAX;
    if (b->request.n > 0 && ranked != (b->rank.n > 0))
        return orr_fail(err, ORR_INVALID, "some tokens have a rank, and others have none");
    return orr_array_push(&b->request, row->request) &&
                   orr_array_push(&b->position, row->position) &&
                   orr_array_push(&b->phase, row->phase) &&
                   (!ranked || orr_array_push(&b->rank, row->rank))
               ? ORR_OK
               : orr_fail_memory(err);
}

orr_status orr_routes_builder_push(orr_routes_builder *b, const orr_routes_row *row, orr_error *err)
{
    for (uint32_t l = 0; l < b->layers; l++) {
        const size_t at = (size_t)l * b->top_k;
        ORR_TRY(orr_routes_builder_choices(b, l, 1, row->choice + at, err));
        if (b->score != NULL && !push_scores(b, l, row->score + at))
            return orr_fail_memory(err);
    }
    return orr_routes_builder_token(b, row, err);
}

/* A column copied into the arena; NULL: no memory. */
static void *copied(orr_arena *arena, const void *at, size_t n, size_t bytes)
{
    void *ret = orr_arena_alloc(arena, n, bytes, 64);
    if (ret != NULL && n > 0)
        memcpy(ret, at, n * bytes);
    return ret;
}

static orr_status view_columns(orr_routes_builder *b, orr_arena *arena, orr_routes *ret,
                               orr_error *err)
{
    const bool wide = b->most > UINT8_MAX;
    const uint8_t **low = orr_arena_array(arena, const uint8_t *, b->layers);
    const uint8_t **high = wide ? orr_arena_array(arena, const uint8_t *, b->layers) : NULL;
    const float **score =
        b->score != NULL ? orr_arena_array(arena, const float *, b->layers) : NULL;
    if (low == NULL || (wide && high == NULL) || (b->score != NULL && score == NULL))
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < b->layers; l++) {
        if (wide && !begin_high(b, l, b->request.n))
            return orr_fail_memory(err);
        low[l] = b->low[l].at;
        if (wide)
            high[l] = b->high[l].at;
        if (score != NULL)
            score[l] = b->score[l].at;
    }
    ret->low = low;
    ret->high = high;
    ret->score = score;
    ret->number = b->number;
    ret->request = b->request.at;
    ret->position = b->position.at;
    ret->phase = b->phase.at;
    ret->rank = b->rank.n > 0 ? b->rank.at : NULL;
    return ORR_OK;
}

/* Moves the columns of a view into the arena, each freed before the next. */
static orr_status move_layers(orr_routes_builder *b, orr_arena *arena, orr_routes *ret,
                              orr_error *err)
{
    const uint8_t **low = (const uint8_t **)ret->low, **high = (const uint8_t **)ret->high;
    const float **score = (const float **)ret->score;
    for (uint32_t l = 0; l < b->layers; l++) {
        low[l] = copied(arena, b->low[l].at, b->low[l].n, 1);
        orr_array_done(&b->low[l]);
        if (high != NULL)
            high[l] = copied(arena, b->high[l].at, b->high[l].n, 1);
        orr_array_done(&b->high[l]);
        if (score != NULL) {
            score[l] = copied(arena, b->score[l].at, b->score[l].n, sizeof(float));
            orr_array_done(&b->score[l]);
        }
        if (low[l] == NULL || (high != NULL && high[l] == NULL) ||
            (score != NULL && score[l] == NULL))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status move_columns(orr_routes_builder *b, orr_arena *arena, orr_routes *ret,
                               orr_error *err)
{
    ORR_TRY(move_layers(b, arena, ret, err));
    ret->request = copied(arena, b->request.at, b->request.n, sizeof(uint32_t));
    ret->position = copied(arena, b->position.at, b->position.n, sizeof(uint32_t));
    ret->phase = copied(arena, b->phase.at, b->phase.n, 1);
    ret->rank = b->rank.n > 0 ? copied(arena, b->rank.at, b->rank.n, sizeof(uint16_t)) : NULL;
    ret->number = copied(arena, b->number, b->layers, sizeof(uint32_t));
    return ret->request != NULL && ret->position != NULL && ret->phase != NULL &&
                   ret->number != NULL && (ret->rank != NULL || b->rank.n == 0)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* Names that the caller does not give: the requests' numbers, one kind without a name. */
static orr_status add_names(const orr_routes_names *names, orr_arena *arena, orr_routes *ret,
                            orr_error *err)
{
    static const char *const no_kind[] = {""};
    enum { NUMBER = 12 };
    ret->request_name = names->request_name;
    ret->kind = names->kind;
    ret->kind_name = names->kind != NULL ? names->kind_name : no_kind;
    if (ret->request_name == NULL) {
        const char **name = orr_arena_array(arena, const char *, names->requests);
        for (uint32_t i = 0; name != NULL && i < names->requests; i++) {
            char *text = orr_arena_alloc(arena, NUMBER, 1, 1);
            if (text == NULL)
                return orr_fail_memory(err);
            snprintf(text, NUMBER, "%u", i);
            name[i] = text;
        }
        ret->request_name = name;
    }
    if (ret->kind == NULL) {
        uint32_t *kind = orr_arena_array(arena, uint32_t, names->requests);
        if (kind != NULL)
            memset(kind, 0, names->requests * sizeof *kind);
        ret->kind = kind;
    }
    return ret->request_name != NULL && ret->kind != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_routes_builder_view(orr_routes_builder *b, const orr_routes_names *names,
                                   orr_arena *arena, orr_routes *ret, orr_error *err)
{
    if (b->request.n == 0)
        return orr_fail(err, ORR_INVALID, "routes without tokens");
    if (names->experts > 0 && b->most >= names->experts)
        return orr_fail(err, ORR_INVALID, "expert %u was chosen, and the model has %u", b->most,
                        names->experts);
    *ret = (orr_routes){.tokens = b->request.n,
                        .layers = b->layers,
                        .top_k = b->top_k,
                        .experts = names->experts > 0 ? names->experts : b->most + 1,
                        .requests = names->requests,
                        .kinds = names->kind != NULL ? names->kinds : 1,
                        .warm_up = names->warm_up,
                        .source = names->source != NULL ? names->source : ""};
    ORR_TRY(view_columns(b, arena, ret, err));
    return add_names(names, arena, ret, err);
}

orr_status orr_routes_builder_finish(orr_routes_builder *b, const orr_routes_names *names,
                                     orr_arena *arena, const orr_routes **ret, orr_error *err)
{
    orr_routes *routes = orr_arena_one(arena, orr_routes);
    if (routes == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_routes_builder_view(b, names, arena, routes, err));
    ORR_TRY(move_columns(b, arena, routes, err));
    orr_routes_builder_done(b);
    *ret = routes;
    return ORR_OK;
}

void orr_routes_builder_done(orr_routes_builder *b)
{
    for (uint32_t l = 0; l < b->layers; l++) {
        if (b->low != NULL)
            orr_array_done(&b->low[l]);
        if (b->high != NULL)
            orr_array_done(&b->high[l]);
        if (b->score != NULL)
            orr_array_done(&b->score[l]);
    }
    orr_free(b->number);
    orr_free(b->low);
    orr_free(b->high);
    orr_free(b->score);
    orr_array_done(&b->request);
    orr_array_done(&b->position);
    orr_array_done(&b->phase);
    orr_array_done(&b->rank);
    *b = (orr_routes_builder){0};
}

void orr_routes_choices(const orr_routes *routes, uint32_t layer, uint64_t first, uint64_t n,
                        uint16_t *ret)
{
    const uint32_t k = routes->top_k, bytes = (k + 1) / 2;
    const uint8_t *low = routes->low[layer] + first * k;
    for (uint64_t i = 0; i < n * k; i++)
        ret[i] = low[i];
    if (routes->high == NULL)
        return;
    const uint8_t *high = routes->high[layer] + first * bytes;
    for (uint64_t t = 0; t < n; t++)
        for (uint32_t c = 0; c < k; c++) {
            const uint32_t above = high[t * bytes + c / 2] >> (c % 2 * 4) & 15;
            ret[t * k + c] = (uint16_t)(ret[t * k + c] | above << 8);
        }
}
