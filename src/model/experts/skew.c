/* SPDX-License-Identifier: Apache-2.0 */
#include "model/experts/skew.h"

#include <math.h>
#include <stdlib.h>

#include "model/experts/arrange.h"
#include "model/experts/maker.h"

/* Skews of the layers of a model: layers that are nearly alike share one. */

static const double STEPS = 1e9; /* in 1 */

/* A layer before it is known which of them share a skew. */
typedef struct made_layer {
    bool uneven;
    double rows, full; /* of the fullest rank; and port, which receives `to` */
    uint32_t slots;    /* of the rank that has most */
} made_layer;

static orr_status measure_layer(orr_skew_maker *m, uint32_t i, made_layer *ret)
{
    orr_layer_skew skew;
    double port = 0;
    ORR_TRY(orr_skew_make_layer(m, i, &skew));
    for (uint32_t to = 0; to < m->ranks; to++) {
        double sum = 0;
        for (uint32_t from = 0; from < m->at.senders; from++)
            sum += m->at.sent[(size_t)from * m->ranks + to];
        port = fmax(port, sum * m->ranks / m->at.senders);
    }
    *ret = (made_layer){skew.ranks > 0, skew.rows, skew.rows + port, skew.slots};
    return ORR_OK;
}

static orr_status keep_senders(const orr_skew_maker *m, orr_arena *arena, orr_layer_skew *skew)
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

/* Layers in the order of how full their fullest rank and port are, in runs that become one skew. */
typedef struct run {
    double full; /* mean */
    uint32_t first, n;
} run;

/* Joins the neighbouring runs whose sum of squares grows least, until there are few enough. */
static uint32_t join_runs(run *runs, uint32_t n)
{
    while (n > ORR_LAYER_SKEWS_MAX) {
        uint32_t best = 0;
        double least = INFINITY;
        for (uint32_t i = 0; i + 1 < n; i++) {
            const double a = runs[i].n, b = runs[i + 1].n, d = runs[i].full - runs[i + 1].full;
            if (a * b / (a + b) * d * d < least) {
                least = a * b / (a + b) * d * d;
                best = i;
            }
        }
        run *a = &runs[best], *b = a + 1;
        a->full = (a->full * a->n + b->full * b->n) / (a->n + b->n);
        a->n += b->n;
        for (uint32_t i = best + 1; i + 1 < n; i++)
            runs[i] = runs[i + 1];
        n--;
    }
    return n;
}

typedef struct ranked_layer {
    int64_t full; /* in steps of rounding */
    uint32_t layer;
} ranked_layer;

static int by_fullness(const void *a, const void *b)
{
    const ranked_layer *x = a, *y = b;
    return x->full != y->full ? (x->full > y->full) - (x->full < y->full)
                              : (x->layer > y->layer) - (x->layer < y->layer);
}

/* Which layers share a skew: those of the same recorded layer at once, others as they must. The
 * skew of a run is that of its layer nearest to the mean. */
static orr_status share_skews(orr_skew_maker *m, const made_layer *layers, orr_arena *arena,
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
        if (layers[i].uneven)
            order[uneven++] = (ranked_layer){(int64_t)(layers[i].full * STEPS + 0.5), i};
    }
    qsort(order, uneven, sizeof *order, by_fullness);
    for (uint32_t i = 0; i < uneven; i++)
        runs[n_runs++] = (run){(double)order[i].full / STEPS, i, 1};
    n_runs = join_runs(runs, n_runs);
    for (uint32_t k = 0; k < n_runs; k++) {
        uint32_t near = runs[k].first;
        for (uint32_t i = runs[k].first; i < runs[k].first + runs[k].n; i++) {
            of_layer[order[i].layer] = (uint8_t)(k + 1);
            if (fabs((double)order[i].full / STEPS - runs[k].full) + ORR_SKEW_ROUNDING <
                fabs((double)order[near].full / STEPS - runs[k].full))
                near = i;
        }
        ORR_TRY(orr_skew_make_layer(m, order[near].layer, &skew[k]));
        ORR_TRY(keep_senders(m, arena, &skew[k]));
    }
    *ret = (orr_layer_skews){.n = n_runs, .skew = skew, .of_layer = of_layer};
    for (uint32_t i = 0; i < n; i++) {
        const double rows = layers[i].uneven ? layers[i].rows : 1;
        ret->rows += rows / n;
        ret->rows_worst = fmax(ret->rows_worst, rows);
        ret->slots = layers[i].slots > ret->slots ? layers[i].slots : ret->slots;
    }
    return ORR_OK;
}

static orr_status open_maker(orr_skew_maker *m, orr_arena *arena)
{
    const uint32_t experts = m->model->moe.experts;
    const uint32_t most = orr_layer_slots_most(m->placement, experts);
    ORR_TRY(orr_layer_slots_new(experts, m->ranks, m->placement, arena, &m->at.slots, m->err));
    m->at.share = orr_arena_array(arena, double, (size_t)orr_skew_parts(m) * experts);
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

static orr_status make(orr_skew_maker *m, orr_arena *scratch_arena, orr_arena *arena,
                       orr_layer_skews *ret)
{
    made_layer *layers;
    ORR_TRY(open_maker(m, scratch_arena));
    layers = orr_arena_array(scratch_arena, made_layer, m->n_layers + 1);
    if (layers == NULL)
        return orr_fail_memory(m->err);
    for (uint32_t i = 0; i < m->n_layers; i++)
        ORR_TRY(measure_layer(m, i, &layers[i]));
    return share_skews(m, layers, arena, ret);
}

orr_status orr_layer_skews_of(const orr_model *model, const orr_plan *plan,
                              const orr_workload *workload, orr_arena *arena, orr_layer_skews *ret,
                              orr_error *err)
{
    orr_workload arranged;
    *ret = (orr_layer_skews){.rows = 1, .rows_worst = 1};
    if (model->moe.experts == 0)
        return ORR_OK;
    ORR_TRY(orr_experts_arrange(model, plan, workload, arena, &arranged, err));
    orr_skew_maker m = {.model = model,
                        .plan = plan,
                        .placement = arranged.placement,
                        .routes = arranged.routes,
                        .loads = orr_skew_loads_of(&arranged),
                        .ranks = orr_plan_group_size(plan, ORR_AXIS_EP),
                        .err = err};
    if (m.loads.layers == 0 && m.placement == NULL)
        return ORR_OK;
    ORR_TRY(orr_skew_check(&m));
    if (m.ranks <= 1)
        return ORR_OK;
    orr_arena *scratch_arena = orr_arena_new(0, 0);
    if (scratch_arena == NULL)
        return orr_fail_memory(err);
    const orr_status status = make(&m, scratch_arena, arena, ret);
    orr_arena_free(scratch_arena);
    return status;
}
