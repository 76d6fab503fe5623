/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/module/module.h"
#include "model/plan/plan.h"

/* The pipeline partition: which layers each virtual stage holds. Virtual stage k runs before k +
 * 1. Layers are distributed evenly unless the plan says otherwise for the first and last stage,
 * or for all stages by sections. */
typedef struct partition {
    uint32_t stages, chunks, virtual_stages;
    uint32_t layers;        /* in the sequence */
    uint32_t before, after; /* places before the first layer and after the last */
    bool fixed_first, fixed_last;
    uint32_t fixed; /* layers that the plan assigns to the first and last stage */
    bool sections;  /* the plan assigns layers to all stages */
} partition;

static uint32_t at_least_one(uint32_t n)
{
    return n > 0 ? n : 1;
}

static partition partition_of(const orr_module_sequence *row, const orr_plan *plan)
{
    /* A DualPipe stage holds two chunks of one pipeline, one for each direction. */
    const bool twice = plan->schedule == ORR_SCHEDULE_DUALPIPE;
    partition d = {.stages = at_least_one(plan->pp), .chunks = twice ? 1 : at_least_one(plan->vp)};
    d.virtual_stages = d.stages * d.chunks;
    while (d.before < row->n && !orr_module_is_fsdp_unit_at(row, d.before))
        d.before++;
    while (d.after < row->n - d.before && !orr_module_is_fsdp_unit_at(row, row->n - 1 - d.after))
        d.after++;
    d.layers = row->n - d.before - d.after;
    d.fixed_first = d.stages > 1 && plan->first_layers > 0;
    d.fixed_last = d.stages > 1 && plan->last_layers > 0;
    d.sections = orr_plan_has_sections(plan);
    d.fixed = (d.fixed_first ? plan->first_layers : 0) + (d.fixed_last ? plan->last_layers : 0);
    return d;
}

/* Stage of virtual stage k. Chunks go round the stages; in ZB-V the second chunks come back in
 * reverse (Qi et al., arXiv 2405.15362, figure 2). */
static uint32_t stage_of(const orr_plan *plan, const partition *d, uint32_t k)
{
    const bool back = plan->schedule == ORR_SCHEDULE_ZB_V;
    return back && k / d->stages % 2 == 1 ? d->stages - 1 - k % d->stages : k % d->stages;
}

/* The i-th of n shares of `total`; the remainder goes to shares from `first` on. */
static uint32_t share(uint32_t total, uint32_t n, uint32_t first, uint32_t i)
{
    return total / n + (i >= first && i < first + total % n);
}

/* Layers of a stage according to its section. */
static uint32_t section_layers(const orr_plan *plan, uint32_t stage)
{
    uint32_t i = 0, end = plan->section_stages[0];
    while (stage >= end && i + 1 < ORR_PLAN_PARTS)
        end += plan->section_stages[++i];
    return plan->section_layers[i];
}

/* Layers of a virtual stage according to its section. A remainder goes to the middle: to the
 * last chunks of the first stage and the first chunks of the last stage, since the others also
 * hold embedding and head. */
static uint32_t layers_of_section(const partition *d, const orr_plan *plan, uint32_t k,
                                  uint32_t stage)
{
    const uint32_t layers = section_layers(plan, stage), rest = layers % d->chunks;
    const uint32_t first = stage == 0               ? d->chunks - rest
                           : stage + 1 == d->stages ? 0
                                                    : (d->chunks - rest + 1) / 2;
    return share(layers, d->chunks, first, k / d->stages);
}

static uint32_t layers_of(const partition *d, const orr_plan *plan, uint32_t k, uint32_t stage,
                          uint32_t *share_index)
{
    if (d->sections)
        return layers_of_section(d, plan, k, stage);
    if (stage == 0 && d->fixed_first)
        return share(plan->first_layers, d->chunks, d->chunks - plan->first_layers % d->chunks,
                     k / d->stages);
    if (stage == d->stages - 1 && d->fixed_last)
        return share(plan->last_layers, d->chunks, 0, k / d->stages);
    const uint32_t rest = d->layers - d->fixed,
                   shares = (d->stages - d->fixed_first - d->fixed_last) * d->chunks;
    return share(rest, shares, (shares - rest % shares + 1) / 2, (*share_index)++);
}

/* Sections are checked by orr_plan_check() already; here against the model's layers. */
static orr_status check_sections(const partition *d, const orr_plan *plan, orr_error *err)
{
    uint64_t layers = 0;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        layers += (uint64_t)plan->section_stages[i] * plan->section_layers[i];
    return layers == d->layers
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "sections of %llu layers: the model has %u",
                          (unsigned long long)layers, d->layers);
}

static orr_status check(const partition *d, const orr_plan *plan, orr_error *err)
{
    if (d->sections)
        return check_sections(d, plan, err);
    if (d->layers + (d->before > 0) + (d->after > 0) < d->virtual_stages)
        return orr_fail(err, ORR_INVALID, "%u layers cannot fill %u stages of %u chunks each",
                        d->layers, d->stages, d->chunks);
    if (d->fixed > d->layers)
        return orr_fail(err, ORR_INVALID,
                        "first_layers=%u and last_layers=%u are more than the %u layers there are",
                        plan->first_layers, plan->last_layers, d->layers);
    const uint32_t free_stages = d->stages - d->fixed_first - d->fixed_last;
    const uint32_t rest = d->layers - d->fixed;
    if (free_stages == 0 && rest > 0)
        return orr_fail(err, ORR_INVALID,
                        "first_layers=%u and last_layers=%u leave %u layers without a stage",
                        plan->first_layers, plan->last_layers, rest);
    if (free_stages > 0 && rest < free_stages * d->chunks && (d->fixed_first || d->fixed_last))
        return orr_fail(err, ORR_INVALID,
                        "first_layers=%u and last_layers=%u leave %u layers for %u stages of %u "
                        "chunks each",
                        plan->first_layers, plan->last_layers, rest, free_stages, d->chunks);
    return ORR_OK;
}

orr_status orr_stage_map_make(const orr_module_sequence *row, const orr_plan *plan,
                              orr_arena *arena, orr_stage_map *ret, orr_error *err)
{
    const partition d = partition_of(row, plan);
    ORR_TRY(check(&d, plan, err));
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)d.virtual_stages + 1);
    if (first == NULL)
        return orr_fail_memory(err);

    uint32_t share_index = 0, place = d.before;
    for (uint32_t k = 0; k < d.virtual_stages; k++) {
        first[k] = k == 0 ? 0 : place;
        place += layers_of(&d, plan, k, stage_of(plan, &d, k), &share_index);
    }
    first[d.virtual_stages] = row->n;
    *ret = (orr_stage_map){.stages = d.stages, .chunks = d.chunks, .first = first};
    return ORR_OK;
}

/* --- balance by cost ---------------------------------------------------------------------------
 */

/* Layers of the first and last stage whose step is compared with that of the even split. */
typedef struct balance {
    const orr_module_sequence *row;
    const orr_plan *plan;
    int64_t *before; /* shape (n + 1): cost of the places before one */
    int64_t *stage;  /* shape (stages): cost of a stage's parts */
    int64_t *round;  /* shape (chunks): largest cost of a stage's chunk */
} balance;

static void keep_larger(int64_t *most, int64_t value)
{
    *most = value > *most ? value : *most;
}

/* Time of the pipeline: in the steady state a micro-batch takes as long as the slowest stage, or,
 * where chunks go round the stages in lockstep, as the slowest of each chunk; to fill and drain it,
 * pp - 1 slots more (Narayanan et al., SC 2021, section 2.2). INT64_MAX: no such split. */
static int64_t pipeline_cost(const balance *b, uint32_t first, uint32_t last)
{
    orr_plan plan = *b->plan;
    plan.first_layers = first;
    plan.last_layers = last;
    const partition d = partition_of(b->row, &plan);
    int64_t slot = 0, steady = 0;
    uint32_t share_index = 0, place = d.before;
    if (check(&d, &plan, NULL) != ORR_OK)
        return INT64_MAX;
    memset(b->stage, 0, d.stages * sizeof *b->stage);
    memset(b->round, 0, d.chunks * sizeof *b->round);
    for (uint32_t k = 0; k < d.virtual_stages; k++) {
        const uint32_t s = stage_of(&plan, &d, k), begin = k == 0 ? 0 : place;
        place += layers_of(&d, &plan, k, s, &share_index);
        const uint32_t end = k + 1 == d.virtual_stages ? b->row->n : place;
        const int64_t cost = b->before[end] - b->before[begin];
        b->stage[s] += cost;
        if (plan.schedule == ORR_SCHEDULE_DUALPIPE)
            b->stage[d.stages - 1 - s] += cost;
        keep_larger(&b->round[k / d.stages], cost);
        keep_larger(&slot, cost);
    }
    for (uint32_t s = 0; s < d.stages; s++)
        keep_larger(&steady, b->stage[s]);
    int64_t rounds = 0;
    for (uint32_t c = 0; c < d.chunks; c++)
        rounds += b->round[c];
    if (plan.schedule == ORR_SCHEDULE_INTERLEAVED)
        steady = rounds;
    return steady * (plan.micro_batches > 0 ? plan.micro_batches : 1) + (d.stages - 1) * slot;
}

/* Layers that fill an end of the pipeline, `other` being the cost of its other modules. */
static uint32_t layers_that_fill(double other, double mean_stage, double layer, uint32_t least)
{
    const double n = (mean_stage - other) / layer;
    return n > least ? (uint32_t)n : least;
}

/* Tries splits about that in which both ends have the mean cost of a stage. */
static void search_balance(const balance *b, const partition *d, uint32_t *ret_first,
                           uint32_t *ret_last)
{
    enum { BELOW = 1, ABOVE = 3, GAIN = 100 }; /* a gain below 1 % is none */
    const uint32_t n = b->row->n, ends = d->before + d->layers;
    const bool folded = b->plan->schedule == ORR_SCHEDULE_ZB_V;
    const double whole = (double)b->before[n], tail = (double)(b->before[n] - b->before[ends]);
    const double head = (double)b->before[d->before] + (folded ? tail : 0);
    const double other = folded ? 0 : tail, layer = (whole - head - other) / d->layers;
    const uint32_t least = d->chunks > 1 ? d->chunks - 1 : 1;
    double mean = whole / d->stages;
    if (other + least * layer > mean) /* the head alone is more than a stage */
        mean = (whole - other - least * layer) / (d->stages - 1);
    const uint32_t last = layers_that_fill(other, mean, layer, least),
                   first = layers_that_fill(head, mean, layer, least);
    const int64_t even = pipeline_cost(b, 0, 0);
    int64_t best = even - even / GAIN;
    for (uint32_t f = first > least + BELOW ? first - BELOW : least; f <= first + ABOVE; f++)
        for (uint32_t l = last > least + BELOW ? last - BELOW : least; l <= last + ABOVE; l++) {
            const uint32_t rest = d->stages == 2 && f < d->layers ? d->layers - f : l;
            const int64_t cost = pipeline_cost(b, f, rest);
            if (cost >= best)
                continue;
            best = cost;
            *ret_first = f;
            *ret_last = rest;
        }
}

orr_status orr_stages_balance(const orr_module_sequence *row, const int64_t *cost, orr_arena *arena,
                              orr_plan *plan, orr_error *err)
{
    const partition d = partition_of(row, plan);
    if (d.stages == 1 || d.sections || d.fixed > 0 || d.layers == 0)
        return ORR_OK;
    ORR_TRY(check(&d, plan, err));
    balance b = {.row = row, .plan = plan};
    b.before = orr_arena_array(arena, int64_t, (size_t)row->n + 1);
    b.stage = orr_arena_array(arena, int64_t, d.stages);
    b.round = orr_arena_array(arena, int64_t, d.chunks);
    if (b.before == NULL || b.stage == NULL || b.round == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < row->n; i++)
        b.before[i + 1] = b.before[i] + cost[row->module_of[i]];
    if (b.before[d.before + d.layers] > b.before[d.before])
        search_balance(&b, &d, &plan->first_layers, &plan->last_layers);
    return ORR_OK;
}
