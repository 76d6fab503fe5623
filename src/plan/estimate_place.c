/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "plan/estimate.h"

/* Where groups lie, and what transfers among them take. */

static uint32_t packed_order(const orr_plan *plan)
{
    uint32_t packed;
    memcpy(&packed, plan->order, sizeof packed);
    return packed;
}

/* A number for each way to lie; 0 for groups of one. */
static orr_status number_of(orr_estimator *e, const orr_span *span, uint32_t *ret, orr_error *err)
{
    orr_memo_key key = {{span->n_ranks, span->n_levels, span->even}};
    *ret = 0;
    if (span->n_ranks <= 1)
        return ORR_OK;
    memcpy(key.word + 3, span->width, span->n_levels * sizeof *span->width);
    const uint32_t *known = orr_memo_find(&e->spans, &key);
    if (known == NULL) {
        uint32_t *made = orr_arena_one(e->arena, uint32_t);
        if (made == NULL || !orr_memo_add(&e->spans, &key, made))
            return orr_fail_memory(err);
        *made = e->spans.n;
        known = made;
    }
    *ret = *known;
    return ORR_OK;
}

static orr_status find_hops(orr_estimator *e, const orr_plan *plan, orr_place_on *place,
                            orr_error *err)
{
    place->hop_of = orr_arena_array(e->arena, uint8_t, plan->pp);
    if (place->hop_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < plan->pp && plan->pp > 1; s++) {
        orr_span span;
        uint32_t id, i = 0;
        ORR_TRY(orr_plan_stage_span(plan, s, e->cluster, &span, err));
        ORR_TRY(number_of(e, &span, &id, err));
        while (i < place->n_hops && place->hop_id[i] != id)
            i++;
        if (i == place->n_hops && i < ORR_LEVELS_MAX) {
            place->hop_id[i] = id;
            place->hop[i] = span;
            place->n_hops++;
        }
        place->hop_of[s] = (uint8_t)(i < ORR_LEVELS_MAX ? i : ORR_LEVELS_MAX - 1);
    }
    return ORR_OK;
}

/* All ranks fill the cluster from its first device on. */
static double world_ns(const orr_estimator *e, uint32_t n_ranks)
{
    const orr_cluster *c = e->cluster;
    orr_span span = {.n_ranks = n_ranks, .n_levels = c->n_levels, .even = true};
    for (uint32_t l = 0, below = 1; l < c->n_levels; below = c->levels[l++].devices) {
        const uint32_t units = (n_ranks + below - 1) / below;
        span.width[l] = units < c->levels[l].size ? units : c->levels[l].size;
        if (span.width[l] > 1)
            span.top = l;
        span.even &= units <= c->levels[l].size || units % c->levels[l].size == 0;
    }
    if (n_ranks <= 1)
        return 0;
    return (double)orr_rates_collective(&e->rates, &span, ORR_COLL_ALL_REDUCE, 4).ns;
}

static orr_status make_place(orr_estimator *e, const orr_plan *plan, orr_place_on *place,
                             orr_error *err)
{
    ORR_TRY(orr_step_prices_of(plan, &e->rates, &place->prices, err));
    place->stretch = place->prices.stretch;
    place->prices.stretch = 1;
    for (int axis = 0; axis < ORR_AXES; axis++)
        ORR_TRY(number_of(e, &place->prices.span[axis], &place->span_id[axis], err));
    ORR_TRY(find_hops(e, plan, place, err));
    place->world_ns = world_ns(e, (uint32_t)orr_plan_ranks(plan));
    return ORR_OK;
}

orr_status orr_estimate_place(orr_estimator *e, const orr_plan *plan, const orr_place_on **ret,
                              orr_error *err)
{
    const orr_memo_key key = {{plan->tp, plan->cp, plan->dp, plan->pp, plan->ep, plan->etp,
                               plan->zero > 0 ? plan->shards : 0, packed_order(plan),
                               plan->schedule == ORR_SCHEDULE_ZB_V,
                               plan->graphs | (uint32_t)plan->fusion << 8}};
    orr_place_on *place = orr_memo_find(&e->places, &key);
    if (place == NULL) {
        if (orr_plan_ranks(plan) > e->cluster->n_devices)
            return orr_fail(err, ORR_INVALID, "%llu ranks: cluster '%s' has %u devices",
                            (unsigned long long)orr_plan_ranks(plan), e->cluster->name,
                            e->cluster->n_devices);
        place = orr_arena_one(e->arena, orr_place_on);
        if (place == NULL)
            return orr_fail_memory(err);
        ORR_TRY(make_place(e, plan, place, err));
        if (!orr_memo_add(&e->places, &key, place))
            return orr_fail_memory(err);
    }
    *ret = place;
    return ORR_OK;
}

static double price(orr_estimator *e, uint32_t span_id, const orr_span *span,
                    orr_collective collective, int64_t bytes)
{
    const uint64_t key = ((uint64_t)bytes << 20 | (uint64_t)collective << 14 | span_id) + 1;
    const uint64_t mixed = key * UINT64_C(0x9e3779b97f4a7c15);
    orr_memo_price *seat = &e->prices[mixed >> (64 - 12)];
    if (seat->key != key)
        *seat = (orr_memo_price){
            key, (double)orr_rates_collective(&e->rates, span, collective, bytes).ns};
    return seat->ns;
}

double orr_estimate_transfer(orr_estimator *e, const orr_place_on *place, orr_axis axis,
                             orr_collective collective, int64_t bytes)
{
    if (place->prices.members[axis] <= 1 || bytes <= 0)
        return 0;
    return price(e, place->span_id[axis], &place->prices.span[axis], collective, bytes);
}

double orr_estimate_hop(orr_estimator *e, const orr_place_on *place, uint32_t hop, int64_t bytes)
{
    return price(e, place->hop_id[hop], &place->hop[hop], ORR_COLL_SEND, bytes);
}
