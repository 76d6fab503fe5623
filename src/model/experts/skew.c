/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts/skew.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "model/experts/layer_slots.h"

/* Skews of the layers of a model, from loads and where experts stand. */

enum { WINDOWS_LOOKED_AT = 64 };

/* What is known of the routing of a model. W windows of G groups each. */
typedef struct loads {
    uint32_t layers, experts, windows, groups;
    const double *load; /* shape (W, G, layers, experts); sums of any size */
    const uint32_t *number;
    const char *source;
} loads;

/* One layer while its skew is found. */
typedef struct scratch {
    orr_layer_slots slots;
    double *share; /* shape (G, E): of one window, sums to 1 each */
    double *rows;  /* shape (slots): of all choices of all ranks */
    double *sent;  /* shape (senders, R): of the choices of a rank */
    double *order; /* shape (slots of a rank) */
    uint32_t senders;
} scratch;

typedef struct maker {
    const orr_model *model;
    const orr_plan *plan;
    const orr_expert_placement *placement; /* NULL: neighbouring experts */
    loads loads;
    uint32_t ranks, n_layers;
    uint32_t *layer_of; /* shape (n_layers): of the model, with experts */
    scratch at;
    orr_error *err;
} maker;

static loads loads_of(const orr_workload *w)
{
    if (w->windows != NULL) {
        const orr_expert_windows *x = w->windows;
        const uint32_t groups = w->request_groups > 1 ? w->request_groups : 1;
        return (loads){x->layers, x->experts, x->windows / groups, groups, x->load,
                       x->number, x->source};
    }
    if (w->load != NULL)
        return (loads){w->load->layers, w->load->experts, 1, 1, w->load->share,
                       w->load->number, w->load->source};
    return (loads){0};
}

static orr_status check(const maker *m, orr_error *err)
{
    const loads *l = &m->loads;
    const orr_expert_placement *p = m->placement;
    const uint32_t experts = m->model->moe.experts;
    if (l->layers > 0 && l->experts > experts)
        return orr_fail(err, ORR_INVALID, "%s has %u experts, and %s names %u", m->model->name,
                        experts, l->source, l->experts);
    if (l->layers > 0 &&
        (l->windows == 0 || (m->ranks % l->groups != 0 && l->groups % m->ranks != 0)))
        return orr_fail(err, ORR_INVALID, "%s: %u groups of requests do not divide %u ranks (ep)",
                        l->source, l->groups, m->ranks);
    if (p != NULL && p->experts != experts)
        return orr_fail(err, ORR_INVALID, "%s has %u experts, and %s places %u", m->model->name,
                        experts, p->source, p->experts);
    if (p != NULL && p->ranks % m->ranks != 0)
        return orr_fail(err, ORR_INVALID,
                        "%s places experts on %u ranks, which ep=%u does not divide", p->source,
                        p->ranks, m->ranks);
    return ORR_OK;
}

/* The recorded layer for the i-th of n layers with experts: that of its number where all layers of
 * the model are recorded by number, else the one at the same part of the depth. */
static uint32_t recorded_layer(const maker *m, uint32_t i, uint32_t layers, const uint32_t *number)
{
    uint32_t found = 0, at = 0;
    for (uint32_t l = 0; l < layers && number != NULL; l++)
        for (uint32_t k = 0; k < m->n_layers; k++)
            if (number[l] == m->layer_of[k]) {
                found++;
                at = k == i ? l : at;
            }
    return found == m->n_layers ? at : (uint32_t)((uint64_t)i * layers / m->n_layers);
}

/* Parts of the ranks whose tokens are of different groups: of several groups on one rank one. */
static uint32_t parts_of(const maker *m)
{
    const uint32_t groups = m->loads.groups > 1 ? m->loads.groups : 1;
    return groups < m->ranks ? groups : m->ranks;
}

/* Adds a group's shares of a layer in a window, `weight` times. Nothing known, or nothing chosen:
 * even. */
static void add_shares(const maker *m, size_t row, double weight, double *share)
{
    const loads *l = &m->loads;
    const double *load = l->load + row * l->experts;
    const uint32_t experts = m->model->moe.experts;
    double sum = 0;
    for (uint32_t e = 0; e < l->experts; e++)
        sum += load[e];
    for (uint32_t e = 0; e < experts; e++)
        share[e] += weight * (!(sum > 0) ? 1.0 / experts : e < l->experts ? load[e] / sum : 0);
}

static void set_shares(maker *m, uint32_t layer, uint32_t window)
{
    const loads *l = &m->loads;
    const uint32_t experts = m->model->moe.experts, parts = parts_of(m);
    const uint32_t groups = l->groups > parts ? l->groups / parts : 1; /* of a part */
    memset(m->at.share, 0, (size_t)parts * experts * sizeof *m->at.share);
    for (uint32_t g = 0; g < parts * groups; g++) {
        const size_t row = ((size_t)window * l->groups + g) * l->layers + layer;
        add_shares(m, row, 1.0 / groups, m->at.share + (size_t)(g / groups) * experts);
    }
}

/* Sends the choices of all ranks to slots. */
static void route(maker *m)
{
    scratch *at = &m->at;
    const uint32_t experts = m->model->moe.experts, parts = parts_of(m);
    at->senders = at->slots.copied || parts > 1 ? m->ranks : 1;
    for (uint32_t i = 0; i < at->slots.n; i++)
        at->rows[i] = 0;
    for (uint32_t r = 0; r < at->senders; r++) {
        const double *share = at->share + (size_t)r * parts / m->ranks * experts;
        orr_layer_slots_send(&at->slots, r, share, 1.0 / at->senders, at->rows,
                             at->sent + (size_t)r * m->ranks);
    }
}

/* Experts with a capacity take no more tokens: others are dropped (Megatron-Core,
 * --moe-expert-capacity-factor). Padded ones are all given as many rows: those of the capacity, and
 * then they are sent too (--moe-pad-expert-input-to-capacity), else those of the fullest expert.
 * Rows are over those of even routing, which have the capacity in them. */
static void limit_rows(maker *m)
{
    scratch *at = &m->at;
    const double even = orr_expert_even_rows(m->plan), capacity = m->plan->capacity / 100.0 / even;
    const bool pads = m->plan->pad_experts == ORR_SWITCH_ON;
    double most = 0;
    for (uint32_t i = 0; i < at->slots.n; i++)
        most = fmax(most, at->rows[i]);
    if (capacity > 0)
        most = capacity / m->model->moe.experts;
    for (uint32_t i = 0; i < at->slots.n; i++)
        at->rows[i] = pads ? most : capacity > 0 ? fmin(at->rows[i] / even, most) : at->rows[i];
    for (size_t i = 0; pads && capacity > 0 && i < (size_t)at->senders * m->ranks; i++)
        at->sent[i] = 1.0 / m->ranks;
}

double orr_expert_even_rows(const orr_plan *plan)
{
    const double capacity = plan->capacity / 100.0;
    return !(capacity > 0) ? 1 : plan->pad_experts == ORR_SWITCH_ON ? capacity : fmin(1, capacity);
}

static double rows_of(const maker *m, uint32_t rank)
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
static orr_rank_skew rank_skew(maker *m, uint32_t rank)
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
static void find_ranks(maker *m, orr_layer_skew *ret)
{
    const orr_layer_slots *s = &m->at.slots;
    uint32_t best[ORR_EXPERT_RANKS_PRICED] = {0};
    double fullest[ORR_EXPERT_RANKS_PRICED] = {-1, -1, -1};
    for (uint32_t r = 0; r < m->ranks; r++) {
        const double rows = rows_of(m, r), slots = s->first[r + 1] - s->first[r];
        double hottest = 0;
        for (uint32_t i = s->first[r]; i < s->first[r + 1]; i++)
            hottest = fmax(hottest, m->at.rows[i]);
        const double keys[] = {rows, slots * 1e6 + rows, hottest * 1e6 + rows};
        for (uint32_t k = 0; k < ORR_EXPERT_RANKS_PRICED; k++)
            if (keys[k] > fullest[k]) {
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

static bool is_even(const maker *m, const orr_layer_skew *skew)
{
    const uint32_t experts = m->model->moe.experts;
    bool even = skew->slots * m->ranks == experts && m->at.slots.n == experts;
    for (uint32_t i = 0; even && i < experts; i++)
        even = is_near(m->at.rows[i] * experts, 1);
    for (size_t i = 0; even && i < (size_t)m->at.senders * m->ranks; i++)
        even = is_near(m->at.sent[i] * m->ranks, 1);
    return even;
}

/* The skew of the i-th layer with experts, but for `to`, in the maker's scratch. */
static orr_status make_layer(maker *m, uint32_t i, orr_layer_skew *ret)
{
    const loads *l = &m->loads;
    const uint32_t recorded = l->layers > 0 ? recorded_layer(m, i, l->layers, l->number) : 0;
    const uint32_t n = l->windows < WINDOWS_LOOKED_AT ? l->windows : WINDOWS_LOOKED_AT;
    double rows[WINDOWS_LOOKED_AT] = {0}, mean = 0;
    uint32_t nearest = 0;
    const uint32_t placed =
        m->placement != NULL ? recorded_layer(m, i, m->placement->layers, m->placement->number) : 0;
    ORR_TRY(orr_layer_slots_set(&m->at.slots, m->placement, placed, m->err));
    for (uint32_t w = 0; w < n && n > 1; w++) {
        set_shares(m, recorded, (uint32_t)((uint64_t)w * l->windows / n));
        route(m);
        for (uint32_t r = 0; r < m->ranks; r++)
            rows[w] = fmax(rows[w], rows_of(m, r));
        mean += rows[w] / n;
    }
    for (uint32_t w = 0; w < n; w++)
        if (fabs(rows[w] - mean) < fabs(rows[nearest] - mean))
            nearest = w;
    set_shares(m, recorded, n > 1 ? (uint32_t)((uint64_t)nearest * l->windows / n) : 0);
    route(m);
    limit_rows(m);
    *ret =
        (orr_layer_skew){.ranks = m->ranks, .top_k = m->model->moe.top_k, .senders = m->at.senders};
    find_ranks(m, ret);
    if (is_even(m, ret))
        ret->ranks = 0;
    return ORR_OK;
}

static orr_status keep_senders(const maker *m, orr_arena *arena, orr_layer_skew *skew)
{
    const size_t n = (size_t)m->at.senders * m->ranks;
    float *to = orr_arena_array(arena, float, n);
    if (to == NULL)
        return orr_fail_memory(m->err);
    for (size_t i = 0; i < n; i++)
        to[i] = (float)m->at.sent[i];
    skew->to = to;
    return ORR_OK;
}

/* Layers in the order of their fullest ranks, in runs that become one skew. */
typedef struct run {
    double rows; /* mean */
    uint32_t first, n;
} run;

/* Joins the neighbouring runs whose sum of squares grows least, until there are few enough. */
static uint32_t join_runs(run *runs, uint32_t n)
{
    while (n > ORR_LAYER_SKEWS_MAX) {
        uint32_t best = 0;
        double least = INFINITY;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const double a = runs[i].n, b = runs[i + 1].n, d = runs[i].rows - runs[i + 1].rows;
            if (a * b / (a + b) * d * d < least) {
                least = a * b / (a + b) * d * d;
                best = i;
            }
        }
        run *a = &runs[best], *b = a + 1;
        a->rows = (a->rows * a->n + b->rows * b->n) / (a->n + b->n);
        a->n += b->n;
        for (uint32_t i = best + 1; i + 1 < n; i++)
            runs[i] = runs[i + 1];
        n--;
    }
    return n;
}

typedef struct ranked_layer {
    double rows;
    uint32_t layer;
} ranked_layer;

static int by_rows(const void *a, const void *b)
{
    const ranked_layer *x = a, *y = b;
    return x->rows != y->rows ? (x->rows > y->rows) - (x->rows < y->rows)
                              : (x->layer > y->layer) - (x->layer < y->layer);
}

/* Which layers share a skew: those of the same recorded layer at once, others as they must. The
 * skew of a run is that of its layer nearest to the mean. */
static orr_status share_skews(maker *m, const orr_layer_skew *layers, orr_arena *arena,
                              orr_layer_skews *ret)
{
    const uint32_t n = m->n_layers;
    ranked_layer *order = orr_arena_array(arena, ranked_layer, n);
    run *runs = orr_arena_array(arena, run, n);
    orr_layer_skew *skew = orr_arena_array(arena, orr_layer_skew, ORR_LAYER_SKEWS_MAX);
    uint8_t *of_layer = orr_arena_array(arena, uint8_t, n);
    uint32_t uneven = 0, n_runs = 0;
    if (order == NULL || runs == NULL || skew == NULL || of_layer == NULL)
        return orr_fail_memory(m->err);
    for (uint32_t i = 0; i < n; i++) {
        of_layer[i] = 0;
        if (layers[i].ranks > 0)
            order[uneven++] = (ranked_layer){layers[i].rows, i};
    }
    qsort(order, uneven, sizeof *order, by_rows);
    for (uint32_t i = 0; i < uneven; i++)
        runs[n_runs++] = (run){order[i].rows, i, 1};
    n_runs = join_runs(runs, n_runs);
    for (uint32_t k = 0; k < n_runs; k++) {
        uint32_t near = runs[k].first;
        for (uint32_t i = runs[k].first; i < runs[k].first + runs[k].n; i++) {
            of_layer[order[i].layer] = (uint8_t)(k + 1);
            if (fabs(order[i].rows - runs[k].rows) < fabs(order[near].rows - runs[k].rows))
                near = i;
        }
        ORR_TRY(make_layer(m, order[near].layer, &skew[k]));
        ORR_TRY(keep_senders(m, arena, &skew[k]));
    }
    double rows = 0;
    for (uint32_t i = 0; i < n; i++)
        rows += (layers[i].ranks > 0 ? layers[i].rows : 1) / n;
    *ret = (orr_layer_skews){.n = n_runs, .rows = rows, .skew = skew, .of_layer = of_layer};
    return ORR_OK;
}

static orr_status open_maker(maker *m, orr_arena *arena)
{
    const uint32_t experts = m->model->moe.experts;
    const uint32_t most = orr_layer_slots_most(m->placement, experts);
    ORR_TRY(orr_layer_slots_new(experts, m->ranks, m->placement, arena, &m->at.slots, m->err));
    m->at.share = orr_arena_array(arena, double, (size_t)parts_of(m) * experts);
    m->at.rows = orr_arena_array(arena, double, most);
    m->at.order = orr_arena_array(arena, double, most);
    m->at.sent = orr_arena_array(arena, double, (size_t)m->ranks * m->ranks);
    m->layer_of = orr_arena_array(arena, uint32_t, m->model->layers);
    if (m->at.share == NULL || m->at.rows == NULL || m->at.order == NULL || m->at.sent == NULL ||
        m->layer_of == NULL)
        return orr_fail_memory(m->err);
    for (uint32_t l = 0; l < m->model->layers; l++)
        if (orr_model_layer_moe(m->model, l))
            m->layer_of[m->n_layers++] = l;
    return ORR_OK;
}

static orr_status make(maker *m, orr_arena *scratch_arena, orr_arena *arena, orr_layer_skews *ret)
{
    orr_layer_skew *layers;
    ORR_TRY(open_maker(m, scratch_arena));
    layers = orr_arena_array(scratch_arena, orr_layer_skew, m->n_layers + 1);
    if (layers == NULL)
        return orr_fail_memory(m->err);
    for (uint32_t i = 0; i < m->n_layers; i++)
        ORR_TRY(make_layer(m, i, &layers[i]));
    return share_skews(m, layers, arena, ret);
}

orr_status orr_layer_skews_of(const orr_model *model, const orr_plan *plan,
                              const orr_workload *workload, orr_arena *arena, orr_layer_skews *ret,
                              orr_error *err)
{
    maker m = {.model = model,
               .plan = plan,
               .placement = workload->placement,
               .loads = loads_of(workload),
               .ranks = orr_plan_group_size(plan, ORR_AXIS_EP),
               .err = err};
    const bool known = m.loads.layers > 0 || m.placement != NULL;
    *ret = (orr_layer_skews){.rows = 1};
    if (model->moe.experts == 0 || !known)
        return ORR_OK;
    ORR_TRY(check(&m, err));
    if (m.ranks <= 1)
        return ORR_OK;
    orr_arena *scratch_arena = orr_arena_new(0, 0);
    if (scratch_arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = make(&m, scratch_arena, arena, ret);
    orr_arena_free(scratch_arena);
    return status;
}
