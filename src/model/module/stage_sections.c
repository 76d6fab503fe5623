/* SPDX-License-Identifier: Apache-2.0 */
#include "model/module/module.h"

#include <string.h>

#include "model/plan/plan.h"

/* Sections by cost: the split of layers over stages, on devices of unequal speed, in which the
 * stage that takes longest is as short as possible. Whether all stages can be within a time is told
 * by filling them from the last one on, each with as many layers as fit; the least such time is
 * found by bisection. */

enum { STEPS = 60, ROUNDINGS = 24 };

typedef struct splitter {
    const orr_stage_costs *costs;
    const orr_plan *plan;
    double *before;      /* shape (devices, layers + 1): cost of the first layers */
    double *head, *tail; /* shape (devices): of what comes before the layers, and after them */
    uint32_t *of_stage;  /* shape (stages): layers */
    uint32_t stages, chunks, layers;
} splitter;

/* The first and the last virtual stage have other modules too, and can be without layers. */
static uint32_t least_layers(const splitter *s, uint32_t stage)
{
    const bool has_end = stage == 0 || stage + 1 == s->stages;
    return s->chunks - (has_end && s->chunks > 1);
}

/* The stage of the model's last virtual stage. */
static uint32_t tail_stage(const splitter *s)
{
    return s->plan->schedule == ORR_SCHEDULE_ZB_V ? 0 : s->stages - 1;
}

/* Fills stages from the last one on. False: they do not take all layers in this time. */
static bool fill(const splitter *s, double time)
{
    uint32_t end = s->layers, needed = 0;
    for (uint32_t k = 0; k < s->stages; k++)
        needed += least_layers(s, k);
    for (uint32_t k = s->stages; k-- > 0;) {
        const uint32_t least = least_layers(s, k);
        const uint32_t device = s->costs->device_of_stage[k];
        const double *before = s->before + (size_t)device * (s->layers + 1);
        double room = time - s->chunks * s->costs->chunk_ns[device];
        uint32_t n = 0;
        needed -= least;
        if (end < needed + least)
            return false;
        room -= (k == 0 ? s->head[device] : 0) + (k == tail_stage(s) ? s->tail[device] : 0);
        while (end - n > needed && before[end] - before[end - n - 1] <= room)
            n++;
        if (n < least)
            return false;
        s->of_stage[k] = n;
        end -= n;
    }
    return end == 0;
}

/* The split as sections. False: they are too many. */
static bool store(const splitter *s, orr_plan *plan)
{
    uint32_t n = 0;
    memset(plan->section_stages, 0, sizeof plan->section_stages);
    memset(plan->section_layers, 0, sizeof plan->section_layers);
    for (uint32_t k = 0; k < s->stages; k++) {
        if (k == 0 || s->of_stage[k] != s->of_stage[k - 1])
            n++;
        if (n > ORR_PLAN_PARTS)
            return false;
        plan->section_stages[n - 1]++;
        plan->section_layers[n - 1] = (uint16_t)s->of_stage[k];
    }
    return true;
}

static void add_up(splitter *s, const orr_module_sequence *row, uint32_t device)
{
    const double *module_ns = s->costs->module_ns + (size_t)device * row->n_modules;
    double *before = s->before + (size_t)device * (s->layers + 1);
    uint32_t n = 0;
    for (uint32_t i = 0; i < row->n; i++) {
        const double ns = module_ns[row->module_of[i]];
        if (orr_module_is_layer(row->modules[row->module_of[i]].kind)) {
            before[n + 1] = before[n] + ns;
            n++;
        } else {
            *(n == 0 ? &s->head[device] : &s->tail[device]) += ns;
        }
    }
    for (uint32_t i = 1; i < n && s->chunks > 1; i++)
        before[i] = before[n] * i / n;
}

/* A time that is enough for whatever split. */
static double longest(const splitter *s)
{
    double all = 0;
    for (uint32_t d = 0; d < s->costs->n_devices; d++)
        all += s->before[(size_t)(d + 1) * (s->layers + 1) - 1] + s->head[d] + s->tail[d] +
               s->chunks * s->costs->chunk_ns[d];
    return all;
}

static orr_status split(splitter *s, orr_plan *plan, orr_error *err)
{
    double low = 0, high = longest(s);
    if (!fill(s, high))
        return orr_fail(err, ORR_INVALID, "sections=balanced: %u layers cannot fill %u stages",
                        s->layers, s->stages);
    for (int i = 0; i < STEPS; i++) {
        const double middle = (low + high) / 2;
        *(fill(s, middle) ? &high : &low) = middle;
    }
    for (int i = 0; i < ROUNDINGS; i++, high *= 1.01)
        if (fill(s, high) && store(s, plan))
            return ORR_OK;
    return orr_fail(err, ORR_INVALID, "sections=balanced: more than %d sections; write them",
                    ORR_PLAN_PARTS);
}

orr_status orr_stages_split_by_cost(const orr_module_sequence *row, const orr_stage_costs *costs,
                                    orr_arena *arena, orr_plan *plan, orr_error *err)
{
    const uint32_t n = costs->n_devices;
    splitter s = {.costs = costs,
                  .plan = plan,
                  .stages = orr_plan_degree(plan->pp),
                  .chunks = orr_plan_degree(plan->vp)};
    if (!orr_plan_balances_sections(plan))
        return ORR_OK;
    for (uint32_t i = 0; i < row->n; i++)
        s.layers += orr_module_is_layer(row->modules[row->module_of[i]].kind);
    if (s.stages == 1 || s.layers == 0) {
        plan->section_layers[0] = 0;
        return ORR_OK;
    }
    s.before = orr_arena_array(arena, double, n *((size_t)s.layers + 1));
    s.head = orr_arena_array(arena, double, 2 * (size_t)n);
    s.of_stage = orr_arena_array(arena, uint32_t, s.stages);
    if (s.before == NULL || s.head == NULL || s.of_stage == NULL)
        return orr_fail_memory(err);
    s.tail = s.head + n;
    for (uint32_t d = 0; d < n; d++)
        add_up(&s, row, d);
    return split(&s, plan, err);
}
