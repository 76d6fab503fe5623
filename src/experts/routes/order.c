/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "experts/routes/builder.h"

/* Tokens of a builder in the order of their requests. */

/* Where each token goes: a stable counting sort. */
static orr_status places_of(const orr_routes_builder *b, size_t *ret, orr_error *err)
{
    uint32_t requests = 0;
    for (size_t t = 0; t < b->request.n; t++)
        requests = b->request.at[t] >= requests ? b->request.at[t] + 1 : requests;
    size_t *next = orr_calloc((size_t)requests + 1, sizeof *next);
    if (next == NULL)
        return orr_fail_memory(err);
    for (size_t t = 0; t < b->request.n; t++)
        next[b->request.at[t] + 1]++;
    for (uint32_t r = 0; r < requests; r++)
        next[r + 1] += next[r];
    for (size_t t = 0; t < b->request.n; t++)
        ret[t] = next[b->request.at[t]]++;
    orr_free(next);
    return ORR_OK;
}

/* `each` bytes of a token. */
static void scatter(void *column, size_t n, size_t each, const size_t *place, uint8_t *room)
{
    uint8_t *bytes = column;
    memcpy(room, bytes, n * each);
    for (size_t t = 0; t < n; t++)
        memcpy(bytes + place[t] * each, room + t * each, each);
}

static void order_columns(orr_routes_builder *b, const size_t *place, uint8_t *room)
{
    const size_t n = b->request.n, k = b->top_k;
    scatter(b->request.at, n, sizeof *b->request.at, place, room);
    scatter(b->position.at, n, sizeof *b->position.at, place, room);
    scatter(b->phase.at, n, sizeof *b->phase.at, place, room);
    if (b->rank.n > 0)
        scatter(b->rank.at, n, sizeof *b->rank.at, place, room);
    for (uint32_t l = 0; l < b->layers; l++) {
        scatter(b->low[l].at, n, k, place, room);
        if (b->high[l].n > 0)
            scatter(b->high[l].at, n, (k + 1) / 2, place, room);
        if (b->score != NULL)
            scatter(b->score[l].at, n, k * sizeof(float), place, room);
    }
}

orr_status orr_routes_builder_order(orr_routes_builder *b, orr_error *err)
{
    const size_t n = b->request.n, each = b->top_k * sizeof(float);
    size_t *place = orr_malloc(n * sizeof *place + 1);
    uint8_t *room = orr_malloc(n * each + 1);
    orr_status status =
        place != NULL && room != NULL ? places_of(b, place, err) : orr_fail_memory(err);
    if (status == ORR_OK && n > 0)
        order_columns(b, place, room);
    orr_free(room);
    orr_free(place);
    return status;
}
