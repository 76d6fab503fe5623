/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/record/routes.h"

#include <string.h>

#include "base/alloc.h"

struct orr_route_recorder {
    orr_routes_builder builder;
    uint32_t experts;
    uint32_t requests; /* 1 + the last number */
};

orr_status orr_route_recorder_new(const orr_route_source *source, orr_route_recorder **ret,
                                  orr_error *err)
{
    orr_route_recorder *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    r->experts = source->experts;
    const orr_status status =
        source->layers == 0 ? ORR_OK
                            : orr_routes_builder_init(&r->builder, source->number, source->layers,
                                                      source->top_k, false, err);
    if (status != ORR_OK)
        orr_free(r);
    else
        *ret = r;
    return status;
}

void orr_route_recorder_free(orr_route_recorder *r)
{
    if (r != NULL)
        orr_routes_builder_done(&r->builder);
    orr_free(r);
}

orr_status orr_route_recorder_token(orr_route_recorder *r, const orr_routes_row *token,
                                    orr_error *err)
{
    if (token->request >= r->requests)
        r->requests = token->request + 1;
    return orr_routes_builder_token(&r->builder, token, err);
}

static int64_t index_at(const void *choice, orr_dtype dtype, size_t i)
{
    return dtype == ORR_DTYPE_INT64 ? ((const int64_t *)choice)[i] : ((const int32_t *)choice)[i];
}

orr_status orr_route_recorder_layer(orr_route_recorder *r, uint32_t layer, size_t n,
                                    const void *choice, orr_dtype dtype, orr_error *err)
{
    enum { CHUNK = 2048 };
    uint16_t chunk[CHUNK];
    const size_t k = r->builder.top_k, rows = CHUNK / k;
    for (size_t first = 0; first < n; first += rows) {
        const size_t some = n - first < rows ? n - first : rows;
        bool known = true;
        for (size_t i = 0; i < some * k; i++) {
            const int64_t expert = index_at(choice, dtype, first * k + i);
            known &= expert >= 0 && expert < r->experts;
            chunk[i] = (uint16_t)expert;
        }
        if (!known)
            return orr_fail(err, ORR_INVALID, "the router of layer %u chose an expert beyond %u",
                            r->builder.number[layer], r->experts);
        ORR_TRY(orr_routes_builder_choices(&r->builder, layer, some, chunk, err));
    }
    return ORR_OK;
}

orr_status orr_route_recorder_write(orr_route_recorder *r, const char *path, orr_error *err)
{
    const orr_routes_names names = {.requests = r->requests, .experts = r->experts};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_routes routes;
    orr_status status = arena != NULL
                            ? orr_routes_builder_view(&r->builder, &names, arena, &routes, err)
                            : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_routes_write(&routes, path, err);
    orr_arena_free(arena);
    return status;
}

/* --- over ranks ------------------------------------------------------------------------------- */

/* What rank 0 is told of each rank before its columns. */
typedef struct heading {
    uint64_t tokens;
    uint32_t group, layers, ranked;
} heading;

static orr_status pass(orr_transport *t, uint32_t from, const void *out, void *in, size_t bytes,
                       orr_error *err)
{
    const bool sends = t->rank == from;
    const orr_exchange exchange = {.to = 0,
                                   .from = from,
                                   .out = sends ? out : NULL,
                                   .in = sends ? NULL : in,
                                   .out_bytes = sends ? bytes : 0,
                                   .in_bytes = sends ? 0 : bytes};
    return bytes > 0 ? t->exchange(t, &exchange, err) : ORR_OK;
}

static orr_status send_columns(orr_route_recorder *r, orr_transport *t, orr_error *err)
{
    const orr_routes_builder *b = &r->builder;
    const size_t n = b->request.n;
    ORR_TRY(pass(t, t->rank, b->request.at, NULL, n * sizeof(uint32_t), err));
    ORR_TRY(pass(t, t->rank, b->position.at, NULL, n * sizeof(uint32_t), err));
    ORR_TRY(pass(t, t->rank, b->phase.at, NULL, n, err));
    ORR_TRY(pass(t, t->rank, b->rank.at, NULL, b->rank.n * sizeof(uint16_t), err));
    ORR_TRY(pass(t, t->rank, b->number, NULL, b->layers * sizeof(uint32_t), err));
    for (uint32_t l = 0; l < b->layers; l++) {
        const uint64_t high = b->high[l].n;
        ORR_TRY(pass(t, t->rank, &high, NULL, sizeof high, err));
        ORR_TRY(pass(t, t->rank, b->low[l].at, NULL, b->low[l].n, err));
        ORR_TRY(pass(t, t->rank, b->high[l].at, NULL, high, err));
    }
    return ORR_OK;
}

/* Room for n elements that are received into an array. */
#define receive(t, from, array, count, err)                                                        \
    (orr_array_reserve((array), (count))                                                           \
         ? pass((t), (from), NULL, (array)->at, (count) * sizeof *(array)->at, (err))              \
         : orr_fail_memory(err))

static orr_status receive_columns(orr_routes_builder *b, orr_transport *t, uint32_t from,
                                  const heading *h, orr_error *err)
{
    const size_t n = h->tokens;
    ORR_TRY(receive(t, from, &b->request, n, err));
    ORR_TRY(receive(t, from, &b->position, n, err));
    ORR_TRY(receive(t, from, &b->phase, n, err));
    ORR_TRY(receive(t, from, &b->rank, h->ranked ? n : 0, err));
    ORR_TRY(pass(t, from, NULL, b->number, b->layers * sizeof(uint32_t), err));
    b->request.n = b->position.n = b->phase.n = n;
    b->rank.n = h->ranked ? n : 0;
    for (uint32_t l = 0; l < b->layers; l++) {
        uint64_t high;
        ORR_TRY(pass(t, from, NULL, &high, sizeof high, err));
        ORR_TRY(receive(t, from, &b->low[l], n * b->top_k, err));
        ORR_TRY(receive(t, from, &b->high[l], high, err));
        b->low[l].n = n * b->top_k;
        b->high[l].n = high;
    }
    return ORR_OK;
}

/* The choices of a token in a layer of a builder. */
static void choices_of(const orr_routes_builder *b, uint32_t layer, size_t token, uint16_t *ret)
{
    const uint8_t *low = b->low[layer].at, *high = b->high[layer].n > 0 ? b->high[layer].at : NULL;
    const orr_routes one = {.top_k = b->top_k, .low = &low, .high = high != NULL ? &high : NULL};
    orr_routes_choices(&one, 0, token, 1, ret);
}

static uint32_t index_of(const orr_routes_builder *b, uint32_t number)
{
    for (uint32_t l = 0; l < b->layers; l++)
        if (b->number[l] == number)
            return l;
    return ORR_NONE;
}

/* Appends the layers of one rank, and its tokens if it is the first of its group. */
static orr_status append(orr_route_recorder *to, const orr_routes_builder *from, bool tokens,
                         orr_error *err)
{
    uint16_t choice[ORR_ROUTE_CHOICES_MAX];
    for (size_t t = 0; tokens && t < from->request.n; t++) {
        const orr_routes_row row = {.request = from->request.at[t],
                                    .position = from->position.at[t],
                                    .phase = from->phase.at[t],
                                    .rank = from->rank.n > 0 ? from->rank.at[t] : UINT16_MAX};
        ORR_TRY(orr_route_recorder_token(to, &row, err));
    }
    for (uint32_t l = 0; l < from->layers; l++) {
        const uint32_t layer = index_of(&to->builder, from->number[l]);
        if (layer == ORR_NONE)
            return orr_fail(err, ORR_INVALID, "routes of layer %u, which has no experts",
                            from->number[l]);
        for (size_t t = 0; t < from->request.n; t++) {
            choices_of(from, l, t, choice);
            ORR_TRY(orr_routes_builder_choices(&to->builder, layer, 1, choice, err));
        }
    }
    return ORR_OK;
}

/* Columns of all ranks of a group, which must add up to all layers. */
static orr_status gather_group(orr_route_recorder *to, const orr_route_recorder *own,
                               orr_transport *t, const heading *all, uint32_t group, orr_error *err)
{
    bool tokens = true;
    for (uint32_t rank = 0; rank < t->ranks; rank++) {
        orr_routes_builder b = {0};
        if (all[rank].group != group || all[rank].tokens == 0)
            continue;
        orr_status status = ORR_OK;
        if (rank != 0) {
            uint32_t *any = orr_calloc(all[rank].layers, sizeof *any);
            for (uint32_t l = 0; any != NULL && l < all[rank].layers; l++)
                any[l] = l;
            status = any != NULL ? orr_routes_builder_init(&b, any, all[rank].layers,
                                                           to->builder.top_k, false, err)
                                 : orr_fail_memory(err);
            orr_free(any);
            if (status == ORR_OK)
                status = receive_columns(&b, t, rank, &all[rank], err);
        }
        if (status == ORR_OK)
            status = append(to, rank == 0 ? &own->builder : &b, tokens, err);
        orr_routes_builder_done(&b);
        ORR_TRY(status);
        tokens = false;
    }
    for (uint32_t l = 0; l < to->builder.layers; l++)
        if (to->builder.low[l].n != to->builder.request.n * to->builder.top_k)
            return orr_fail(err, ORR_INVALID, "no routes of layer %u were recorded by ranks %u",
                            to->builder.number[l], group);
    return ORR_OK;
}

static orr_status gather_and_write(const orr_route_recorder *own, orr_transport *t,
                                   const orr_route_source *source, const heading *all,
                                   const char *path, orr_error *err)
{
    orr_route_recorder *to;
    uint32_t groups = 0;
    ORR_TRY(orr_route_recorder_new(source, &to, err));
    for (uint32_t rank = 0; rank < t->ranks; rank++)
        groups = all[rank].group >= groups ? all[rank].group + 1 : groups;
    orr_status status = ORR_OK;
    for (uint32_t group = 0; group < groups && status == ORR_OK; group++)
        status = gather_group(to, own, t, all, group, err);
    if (status == ORR_OK)
        status = orr_routes_builder_order(&to->builder, err);
    if (status == ORR_OK)
        status = orr_route_recorder_write(to, path, err);
    orr_route_recorder_free(to);
    return status;
}

orr_status orr_route_recorder_write_all(orr_route_recorder *r, orr_transport *transport,
                                        const orr_route_source *all, uint32_t group,
                                        const char *path, orr_error *err)
{
    heading mine;
    memset(&mine, 0, sizeof mine); /* its padding is sent, too */
    mine.tokens = r->builder.request.n;
    mine.group = group;
    mine.layers = r->builder.layers;
    mine.ranked = r->builder.rank.n > 0;
    if (transport->rank != 0) {
        ORR_TRY(pass(transport, transport->rank, &mine, NULL, sizeof mine, err));
        return mine.tokens > 0 ? send_columns(r, transport, err) : ORR_OK;
    }
    heading *told = orr_calloc(transport->ranks, sizeof *told);
    if (told == NULL)
        return orr_fail_memory(err);
    told[0] = mine;
    orr_status status = ORR_OK;
    for (uint32_t rank = 1; rank < transport->ranks && status == ORR_OK; rank++)
        status = pass(transport, rank, NULL, &told[rank], sizeof *told, err);
    if (status == ORR_OK)
        status = gather_and_write(r, transport, all, told, path, err);
    orr_free(told);
    return status;
}
