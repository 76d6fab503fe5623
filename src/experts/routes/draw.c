/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "experts/routes/builder.h"

/* Routes drawn from planted structure. Experts of a layer have places, 0 for the most loaded one:
 * tokens draw places by Zipf's law, and a permutation of each layer says which expert has a place.
 *
 *   kinds   place p is of the group p % kinds, so that groups are equally skewed.
 *   chain   a choice keeps its place of the layer before: experts of neighbouring layers go
 * together. drift   another permutation takes over, for a share of choices that grows from request
 * to request. dead    the last places are never drawn. */
enum { TRIES = 16 };

typedef struct drawing {
    const orr_routes_drawn *how;
    uint32_t live;       /* experts that are chosen */
    double *up_to;       /* shape (live): weight of the places up to and with this one */
    double *group_up_to; /* the same within groups, group by group */
    uint32_t *group;     /* shape (kinds + 1): where each group begins there */
    uint16_t *expert;    /* shape (2, L, E): of a place, at the beginning and at the end */
    uint16_t *place;     /* shape (K): of the layer before */
    uint16_t *choice;    /* shape (L, K) */
    float *score;        /* shape (L, K); NULL: none */
    bool *taken;         /* shape (E) */
    orr_random random;
} drawing;

static void shuffle(orr_random *random, uint16_t *at, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        at[i] = (uint16_t)i;
    for (uint32_t i = n; i > 1; i--) {
        const uint32_t other = (uint32_t)orr_random_below(random, i);
        const uint16_t held = at[i - 1];
        at[i - 1] = at[other];
        at[other] = held;
    }
}

/* Dead experts are the same ones at the beginning and at the end. */
static void make_permutations(drawing *d)
{
    const uint32_t experts = d->how->experts, layers = d->how->layers;
    for (uint32_t l = 0; l < layers; l++) {
        uint16_t *begin = d->expert + (size_t)l * experts, *end = begin + (size_t)layers * experts;
        shuffle(&d->random, begin, experts);
        shuffle(&d->random, end, d->live);
        for (uint32_t p = 0; p < d->live; p++)
            end[p] = begin[end[p]];
    }
}

static void make_weights(drawing *d)
{
    const uint32_t kinds = d->how->kinds;
    double sum = 0;
    for (uint32_t p = 0; p < d->live; p++)
        d->up_to[p] = sum += pow(p + 1.0, -d->how->skew);
    uint32_t n = 0;
    for (uint32_t kind = 0; kind < kinds; kind++) {
        d->group[kind] = n;
        sum = 0;
        for (uint32_t p = kind; p < d->live; p += kinds)
            d->group_up_to[n++] = sum += pow(p + 1.0, -d->how->skew);
    }
    d->group[kinds] = n;
}

/* An index of [0, n) by its weight. */
static uint32_t by_weight(orr_random *random, const double *up_to, uint32_t n)
{
    const double at = orr_random_unit(random) * up_to[n - 1];
    uint32_t low = 0, high = n - 1;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (up_to[middle] > at)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static uint32_t draw_place(drawing *d, uint32_t kind)
{
    const uint32_t first = d->group[kind];
    return orr_random_unit(&d->random) < d->how->affinity
               ? kind + d->how->kinds * by_weight(&d->random, d->group_up_to + first,
                                                  d->group[kind + 1] - first)
               : by_weight(&d->random, d->up_to, d->live);
}

/* The experts of a token in a layer. After TRIES places whose experts are taken, the next place
 * that is free. */
static void draw_layer(drawing *d, uint32_t layer, uint32_t kind, double drifted)
{
    const orr_routes_drawn *how = d->how;
    const uint16_t *begin = d->expert + (size_t)layer * how->experts;
    const uint16_t *end = begin + (size_t)how->layers * how->experts;
    uint16_t *choice = d->choice + (size_t)layer * how->top_k;
    for (uint32_t k = 0; k < how->top_k; k++) {
        const uint16_t *expert = orr_random_unit(&d->random) < drifted ? end : begin;
        uint32_t place = d->place[k];
        if (layer == 0 || orr_random_unit(&d->random) >= how->chain)
            place = draw_place(d, kind);
        for (uint32_t i = 0; d->taken[expert[place]]; i++)
            place = i < TRIES ? draw_place(d, kind) : (place + 1) % d->live;
        d->place[k] = (uint16_t)place;
        choice[k] = expert[place];
        d->taken[choice[k]] = true;
    }
    for (uint32_t k = 0; k < how->top_k; k++)
        d->taken[choice[k]] = false;
}

/* Descending shares that sum to 1. */
static void draw_scores(drawing *d, uint32_t layer)
{
    const uint32_t top_k = d->how->top_k;
    float *score = d->score + (size_t)layer * top_k;
    double sum = 0, last = 1, shares[ORR_ROUTE_CHOICES_MAX];
    for (uint32_t k = 0; k < top_k; k++)
        sum += shares[k] = last *= 0.5 + 0.5 * orr_random_unit(&d->random);
    for (uint32_t k = 0; k < top_k; k++)
        score[k] = (float)(shares[k] / sum);
}

static orr_status draw_request(drawing *d, uint32_t request, orr_routes_builder *b, orr_error *err)
{
    const orr_routes_drawn *how = d->how;
    const double drifted = how->requests > 1 ? how->drift * request / (how->requests - 1) : 0;
    for (uint32_t t = 0; t < how->prompt + how->decoded; t++) {
        const orr_routes_row row = {.request = request,
                                    .position = t,
                                    .phase = t < how->prompt ? ORR_ROUTE_PREFILL : ORR_ROUTE_DECODE,
                                    .rank = UINT16_MAX,
                                    .choice = d->choice,
                                    .score = d->score};
        for (uint32_t l = 0; l < how->layers; l++) {
            draw_layer(d, l, request % how->kinds, drifted);
            if (d->score != NULL)
                draw_scores(d, l);
        }
        ORR_TRY(orr_routes_builder_push(b, &row, err));
    }
    return ORR_OK;
}

static bool is_share(double x)
{
    return x >= 0 && x <= 1;
}

static orr_status check(const orr_routes_drawn *how, orr_error *err)
{
    const uint32_t live = how->experts > how->dead ? how->experts - how->dead : 0;
    if (how->experts > ORR_EXPERTS_MAX || how->top_k > ORR_ROUTE_CHOICES_MAX)
        return orr_fail(err, ORR_INVALID, "%u experts of which a token has %u: up to %d and %d",
                        how->experts, how->top_k, ORR_EXPERTS_MAX, ORR_ROUTE_CHOICES_MAX);
    if (how->kinds == 0 || how->kinds > live || how->top_k == 0 || how->top_k > live ||
        how->layers == 0 || how->requests == 0 || how->prompt + how->decoded == 0)
        return orr_fail(err, ORR_INVALID,
                        "%u layers, %u live experts, %u of a token, %u kinds, %u requests",
                        how->layers, live, how->top_k, how->kinds, how->requests);
    return is_share(how->affinity) && is_share(how->drift) && is_share(how->chain) &&
                   how->skew >= 0 && how->skew <= 100
               ? ORR_OK
               : orr_fail(err, ORR_INVALID,
                          "affinity, drift and chain are shares, skew is 0 .. 100");
}

static orr_status begin(drawing *d, orr_routes_builder *b, orr_error *err)
{
    const orr_routes_drawn *how = d->how;
    const size_t choices = (size_t)how->layers * how->top_k;
    d->up_to = orr_calloc(d->live, sizeof *d->up_to);
    d->group_up_to = orr_calloc(d->live, sizeof *d->group_up_to);
    d->group = orr_calloc((size_t)how->kinds + 1, sizeof *d->group);
    d->expert = orr_calloc((size_t)how->layers * how->experts, 2 * sizeof *d->expert);
    d->place = orr_calloc(how->top_k, sizeof *d->place);
    d->choice = orr_calloc(choices, sizeof *d->choice);
    d->score = how->scores ? orr_calloc(choices, sizeof *d->score) : NULL;
    d->taken = orr_calloc(how->experts, sizeof *d->taken);
    uint32_t *number = orr_calloc(how->layers, sizeof *number);
    if (d->up_to == NULL || d->group_up_to == NULL || d->group == NULL || d->expert == NULL ||
        d->place == NULL || d->choice == NULL || d->taken == NULL || number == NULL ||
        (how->scores && d->score == NULL)) {
        orr_free(number);
        return orr_fail_memory(err);
    }
    for (uint32_t l = 0; l < how->layers; l++)
        number[l] = l;
    make_permutations(d);
    make_weights(d);
    const orr_status status =
        orr_routes_builder_init(b, number, how->layers, how->top_k, how->scores, err);
    orr_free(number);
    return status;
}

static void done(drawing *d)
{
    orr_free(d->up_to);
    orr_free(d->group_up_to);
    orr_free(d->group);
    orr_free(d->expert);
    orr_free(d->place);
    orr_free(d->choice);
    orr_free(d->score);
    orr_free(d->taken);
}

/* Kinds are "kind 0", "kind 1", ..; requests take turns. */
static orr_status name_kinds(const orr_routes_drawn *how, orr_arena *arena, orr_routes_names *ret,
                             orr_error *err)
{
    uint32_t *kind = orr_arena_array(arena, uint32_t, how->requests);
    const char **name = orr_arena_array(arena, const char *, how->kinds);
    if (kind == NULL || name == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < how->requests; i++)
        kind[i] = i % how->kinds;
    for (uint32_t i = 0; i < how->kinds; i++) {
        name[i] = orr_arena_printf(arena, "kind %u", i);
        if (name[i] == NULL)
            return orr_fail_memory(err);
    }
    *ret = (orr_routes_names){.requests = how->requests,
                              .kinds = how->kinds,
                              .experts = how->experts,
                              .kind = kind,
                              .kind_name = name,
                              .source = "drawn"};
    return ORR_OK;
}

orr_status orr_routes_draw(const orr_routes_drawn *how, orr_arena *arena, const orr_routes **ret,
                           orr_error *err)
{
    ORR_TRY(check(how, err));
    drawing d = {
        .how = how, .live = how->experts - how->dead, .random = orr_random_of(how->seed, 0)};
    orr_routes_builder b = {0};
    orr_routes_names names;
    orr_status status = begin(&d, &b, err);
    for (uint32_t i = 0; status == ORR_OK && i < how->requests; i++)
        status = draw_request(&d, i, &b, err);
    if (status == ORR_OK)
        status = name_kinds(how, arena, &names, err);
    if (status == ORR_OK)
        status = orr_routes_builder_finish(&b, &names, arena, ret, err);
    orr_routes_builder_done(&b);
    done(&d);
    return status;
}
