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

/* High bits are kept from the first expert on that has any; the tokens before have zeros. */
static bool begin_high(orr_routes_builder *b, uint32_t layer)
{
    const size_t n = b->request.n * high_bytes(b);
    if (b->high[layer].n == n)
        return true;
    if (!orr_array_reserve(&b->high[layer], n - b->high[layer].n))
        return false;
    memset(b->high[layer].at + b->high[layer].n, 0, n - b->high[layer].n);
    b->high[layer].n = n;
    return true;
}

static bool push_layer(orr_routes_builder *b, uint32_t layer, const orr_routes_row *row)
{
    const uint16_t *choice = row->choice + (size_t)layer * b->top_k;
    uint8_t high[ORR_ROUTE_CHOICES_MAX / 2] = {0};
    uint16_t above = 0;
    if (!orr_array_reserve(&b->low[layer], b->top_k))
        return false;
    for (uint32_t k = 0; k < b->top_k; k++) {
        b->low[layer].at[b->low[layer].n++] = (uint8_t)choice[k];
        high[k / 2] = (uint8_t)(high[k / 2] | (choice[k] >> 8) << (k % 2 * 4));
        above |= choice[k] >> 8;
        b->most = choice[k] > b->most ? choice[k] : b->most;
    }
    if (above != 0 || b->high[layer].n > 0) {
        if (!begin_high(b, layer) || !orr_array_reserve(&b->high[layer], high_bytes(b)))
            return false;
        memcpy(b->high[layer].at + b->high[layer].n, high, high_bytes(b));
        b->high[layer].n += high_bytes(b);
    }
    if (b->score == NULL)
        return true;
    if (!orr_array_reserve(&b->score[layer], b->top_k))
        return false;
    memcpy(b->score[layer].at + b->score[layer].n, row->score + (size_t)layer * b->top_k,
           b->top_k * sizeof *row->score);
    b->score[layer].n += b->top_k;
    return true;
}

orr_status orr_routes_builder_push(orr_routes_builder *b, const orr_routes_row *row, orr_error *err)
{
    const bool ranked = row->rank != UINT16_MAX;
    if (b->request.n > 0 && ranked != (b->rank.n > 0))
        return orr_fail(err, ORR_INVALID, "some tokens have a rank, and others have none");
    for (uint32_t l = 0; l < b->layers; l++)
        if (!push_layer(b, l, row))
            return orr_fail_memory(err);
    if (!orr_array_push(&b->request, row->request) ||
        !orr_array_push(&b->position, row->position) || !orr_array_push(&b->phase, row->phase) ||
        (ranked && !orr_array_push(&b->rank, row->rank)))
        return orr_fail_memory(err);
    return ORR_OK;
}

/* A column moved into the arena; NULL: no memory. */
static void *moved(orr_arena *arena, void *at, size_t n, size_t bytes)
{
    void *ret = orr_arena_alloc(arena, n, bytes, 64);
    if (ret != NULL && n > 0)
        memcpy(ret, at, n * bytes);
    return ret;
}

static orr_status move_columns(orr_routes_builder *b, orr_arena *arena, orr_routes *ret,
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
        low[l] = moved(arena, b->low[l].at, b->low[l].n, 1);
        orr_array_done(&b->low[l]);
        if (wide && !begin_high(b, l))
            return orr_fail_memory(err);
        if (wide)
            high[l] = moved(arena, b->high[l].at, b->high[l].n, 1);
        orr_array_done(&b->high[l]);
        if (score != NULL) {
            score[l] = moved(arena, b->score[l].at, b->score[l].n, sizeof(float));
            orr_array_done(&b->score[l]);
        }
        if (low[l] == NULL || (wide && high[l] == NULL) || (score != NULL && score[l] == NULL))
            return orr_fail_memory(err);
    }
    ret->low = low;
    ret->high = high;
    ret->score = score;
    ret->request = moved(arena, b->request.at, b->request.n, sizeof(uint32_t));
    ret->position = moved(arena, b->position.at, b->position.n, sizeof(uint32_t));
    ret->phase = moved(arena, b->phase.at, b->phase.n, 1);
    ret->rank = b->rank.n > 0 ? moved(arena, b->rank.at, b->rank.n, sizeof(uint16_t)) : NULL;
    ret->number = moved(arena, b->number, b->layers, sizeof(uint32_t));
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

orr_status orr_routes_builder_finish(orr_routes_builder *b, const orr_routes_names *names,
                                     orr_arena *arena, const orr_routes **ret, orr_error *err)
{
    orr_routes *routes = orr_arena_one(arena, orr_routes);
    if (routes == NULL)
        return orr_fail_memory(err);
    if (b->request.n == 0)
        return orr_fail(err, ORR_INVALID, "routes without tokens");
    if (names->experts > 0 && b->most >= names->experts)
        return orr_fail(err, ORR_INVALID, "expert %u was chosen, and the model has %u", b->most,
                        names->experts);
    *routes = (orr_routes){.tokens = b->request.n,
                           .layers = b->layers,
                           .top_k = b->top_k,
                           .experts = names->experts > 0 ? names->experts : b->most + 1,
                           .requests = names->requests,
                           .kinds = names->kind != NULL ? names->kinds : 1,
                           .warm_up = names->warm_up,
                           .source = names->source != NULL ? names->source : ""};
    ORR_TRY(move_columns(b, arena, routes, err));
    ORR_TRY(add_names(names, arena, routes, err));
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
