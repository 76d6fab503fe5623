/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "model/experts/maker.h"

/* The skew of one layer: its choices sent to slots, and what comes to each rank. */

enum { WINDOWS_LOOKED_AT = 64 };

/* Sends the choices of all ranks to slots. */
static void route(orr_skew_maker *m)
{
    orr_skew_scratch *at = &m->at;
    const uint32_t experts = m->model->moe.experts, parts = orr_skew_parts(m);
    at->senders = at->slots.copied || parts > 1 ? m->ranks : 1;
    for (uint32_t i = 0; i < at->slots.n; i++)
        at->rows[i] = 0;
    for (uint32_t r = 0; r < at->senders; r++) {
        const double *share = at->share + (size_t)r * parts / m->ranks * experts;
        orr_layer_slots_send(&at->slots, r, share, 1.0 / at->senders, at->rows,
                             at->sent + (size_t)r * m->ranks);
    }
}

/* What each rank sends to those whose experts drop tokens. `whole`: rows of all ranks before. */
static void limit_sent(orr_skew_maker *m, const double *whole)
{
    orr_skew_scratch *at = &m->at;
    for (uint32_t to = 0; to < m->ranks; to++) {
        double rows = 0, all = 0;
        for (uint32_t i = at->slots.first[to]; i < at->slots.first[to + 1]; i++) {
            rows += at->rows[i];
            all += whole[i];
        }
        for (uint32_t from = 0; from < at->senders && all > 0; from++)
            at->sent[(size_t)from * m->ranks + to] *= rows / all;
    }
}

/* Experts with a capacity take no more tokens: others are dropped (Megatron-Core,
 * --moe-expert-capacity-factor). Padded ones are all given as many rows: those of the capacity, and
 * then they are sent too (--moe-pad-expert-input-to-capacity), else those of the fullest expert.
 * Rows are over those of even routing, which have the capacity in them. */
static void limit_rows(orr_skew_maker *m)
{
    orr_skew_scratch *at = &m->at;
    const double even = orr_expert_even_rows(m->plan), capacity = m->plan->capacity / 100.0 / even;
    const bool pads = m->plan->pad_experts == ORR_SWITCH_ON;
    double most = 0;
    if (!pads && !(capacity > 0))
        return;
    for (uint32_t i = 0; i < at->slots.n; i++)
        most = fmax(most, at->rows[i]);
    if (capacity > 0)
        most = capacity / m->model->moe.experts;
    for (uint32_t i = 0; i < at->slots.n; i++) {
        at->order[i] = at->rows[i] / even;
        at->rows[i] = pads ? most : fmin(at->order[i], most);
    }
    if (!pads)
        limit_sent(m, at->order);
    for (size_t i = 0; pads && capacity > 0 && i < (size_t)at->senders * m->ranks; i++)
        at->sent[i] = 1.0 / m->ranks;
}

double orr_expert_even_rows(const orr_plan *plan)
{
    const double capacity = plan->capacity / 100.0;
    return !(capacity > 0) ? 1 : plan->pad_experts == ORR_SWITCH_ON ? capacity : fmin(1, capacity);
}

static double rows_of(const orr_skew_maker *m, uint32_t rank)
{
    double sum = 0;
    for (uint32_t i = m->at.slots.first[rank]; i < m->at.slots.first[rank + 1]; i++)
        sum += m->at.rows[i];
    return sum * m->ranks;
}

static int fuller(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

/* The first three slots have a bucket each, the others three buckets that grow as 1, 2, 4. */
static orr_rank_skew rank_skew(orr_skew_maker *m, uint32_t rank)
{
    const orr_layer_slots *s = &m->at.slots;
    const uint32_t n = s->first[rank + 1] - s->first[rank];
    orr_rank_skew ret = {.rows = rows_of(m, rank), .slots = n};
    double *order = m->at.order;
    for (uint32_t i = 0; i < n; i++)
        order[i] = m->at.rows[s->first[rank] + i];
    qsort(order, n, sizeof *order, fuller);
    for (uint32_t at = 0, b = 0; at < n; b++) {
        const uint32_t left = n - at, parts = b < 3 ? 0 : (1u << (ORR_EXPERT_BUCKETS - b)) - 1;
        const uint32_t size = n <= ORR_EXPERT_BUCKETS || b < 3 ? 1 : (left + parts - 1) / parts;
        double sum = 0;
        for (uint32_t i = at; i < at + size; i++)
            sum += order[i];
        ret.bucket[b].slots_frac = (double)size / n;
        ret.bucket[b].rows = ret.rows > 0 ? sum * m->ranks / size / (ret.rows / n) : 1;
        ret.n = b + 1;
        at += size;
    }
    return ret;
}

/* Ranks that may take longest. */
static void find_ranks(orr_skew_maker *m, orr_layer_skew *ret)
{
    const orr_layer_slots *s = &m->at.slots;
    uint32_t best[ORR_EXPERT_RANKS_PRICED] = {0};
    double fullest[ORR_EXPERT_RANKS_PRICED] = {0};
    for (uint32_t r = 0; r < m->ranks; r++) {
        const double rows = rows_of(m, r), slots = s->first[r + 1] - s->first[r];
        double hottest = 0;
        for (uint32_t i = s->first[r]; i < s->first[r + 1]; i++)
            hottest = fmax(hottest, m->at.rows[i]);
        const double keys[] = {rows, slots * 1e6 + rows, hottest * 1e6 + rows};
        for (uint32_t k = 0; k < ORR_EXPERT_RANKS_PRICED; k++)
            if (keys[k] > fullest[k] * (1 + ORR_SKEW_ROUNDING)) {
                fullest[k] = keys[k];
                best[k] = r;
            }
        ret->slots = slots > ret->slots ? (uint32_t)slots : ret->slots;
    }
    ret->rows = rows_of(m, best[0]);
    for (uint32_t k = 0; k < ORR_EXPERT_RANKS_PRICED; k++) {
        bool known = false;
        for (uint32_t i = 0; i < k; i++)
            known |= best[i] == best[k];
        if (!known)
            ret->priced[ret->n_priced++] = rank_skew(m, best[k]);
    }
}

static bool is_near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static bool is_even(const orr_skew_maker *m, const orr_layer_skew *skew)
{
    const uint32_t experts = m->model->moe.experts;
    bool even = skew->slots * m->ranks == experts && m->at.slots.n == experts;
    for (uint32_t i = 0; even && i < experts; i++)
        even = is_near(m->at.rows[i] * experts, 1);
    for (size_t i = 0; even && i < (size_t)m->at.senders * m->ranks; i++)
        even = is_near(m->at.sent[i] * m->ranks, 1);
    return even;
}

orr_status orr_skew_make_layer(orr_skew_maker *m, uint32_t i, orr_layer_skew *ret)
{
    const orr_skew_loads *l = &m->loads;
    const uint32_t recorded =
        l->layers > 0 ? orr_skew_recorded_layer(m, i, l->layers, l->number) : 0;
    const uint32_t n = l->windows < WINDOWS_LOOKED_AT ? l->windows : WINDOWS_LOOKED_AT;
    double rows[WINDOWS_LOOKED_AT] = {0}, mean = 0;
    uint32_t nearest = 0;
    const uint32_t placed =
        m->placement != NULL
            ? orr_skew_recorded_layer(m, i, m->placement->layers, m->placement->number)
            : 0;
    ORR_TRY(orr_layer_slots_set(&m->at.slots, m->placement, placed, m->err));
    for (uint32_t w = 0; w < n && n > 1; w++) {
        orr_skew_set_shares(m, recorded, (uint32_t)((uint64_t)w * l->windows / n));
        route(m);
        for (uint32_t r = 0; r < m->ranks; r++)
            rows[w] = fmax(rows[w], rows_of(m, r));
        mean += rows[w] / n;
    }
    for (uint32_t w = 0; w < n; w++)
        if (fabs(rows[w] - mean) < fabs(rows[nearest] - mean))
            nearest = w;
    orr_skew_set_shares(m, recorded, n > 1 ? (uint32_t)((uint64_t)nearest * l->windows / n) : 0);
    route(m);
    limit_rows(m);
    *ret =
        (orr_layer_skew){.ranks = m->ranks, .top_k = m->model->moe.top_k, .senders = m->at.senders};
    find_ranks(m, ret);
    if (is_even(m, ret))
        ret->ranks = 0;
    return ORR_OK;
}
