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

/* --- balance by time ---------------------------------------------------------------------------
 */

/* The device by which modules are weighed, about an H100 with a port of 400 Gb/s: its FLOP/s in 16
 * bits, bytes/s of memory and of network. Of the FLOP/s products reach three quarters, in 8 bits
 * and fewer 0.6, and attention 0.4, forward and backward; kernels reach 0.7 of the memory: assumed,
 * as calibrations have them. */
#define NOMINAL_FLOPS   1e15
#define NOMINAL_MEMORY  (0.7 * 3.35e12)
#define NOMINAL_NETWORK 50e9

static double nominal_share(const orr_work *work)
{
    if (work->family == ORR_FAMILY_ATTENTION)
        return 0.4;
    return orr_dtype_bytes((orr_dtype)work->dtype) < 2 ? 0.6 : 0.75;
}

static double nominal_seconds(const orr_work *work)
{
    const double flops = work->flops * orr_dtype_bytes((orr_dtype)work->dtype) / 2 /
                         (nominal_share(work) * NOMINAL_FLOPS);
    const double bytes = (work->read_bytes + work->write_bytes) / NOMINAL_MEMORY;
    return flops > bytes ? flops : bytes;
}

orr_module_time orr_module_nominal_time(const orr_module *module)
{
    enum { ADAM_BYTES = 24, SUM_BYTES = 8 }; /* of an element: read and written; sent in fp32 */
    double seconds = 0, elements = 0;
    orr_work work;
    for (uint32_t call = 0; call < module->tape->n_calls; call++)
        if (orr_module_work(module, call, &work))
            seconds += nominal_seconds(&work);
    for (uint32_t i = 0; i < module->tape->n_values; i++) {
        const orr_tape_value *v = &module->tape->values[i];
        if (v->role == ORR_VALUE_PARAMETER && v->view_of == ORR_NONE && !v->frozen)
            elements += (double)orr_type_elements(&v->type);
    }
    const double update = elements * (ADAM_BYTES / NOMINAL_MEMORY + SUM_BYTES / NOMINAL_NETWORK);
    return (orr_module_time){(int64_t)(1e9 * seconds), (int64_t)(1e9 * update)};
}

enum { GAIN = 33 }; /* a gain below 3 % is none */

/* The search for the number of layers on the first and last stage. */
typedef struct balance {
    const orr_module_sequence *row;
    const orr_plan *plan;
    orr_module_time *before; /* shape (n + 1): sums over the places before one */
    orr_module_time *stage;  /* shape (stages): of a stage's parts */
    int64_t *round;          /* shape (chunks): longest of a stage's chunk, a micro-batch */
} balance;

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Times of stages and chunks under a split. False: there is no such split. */
static bool split_times(const balance *b, const orr_plan *plan, const partition *d,
                        int64_t *ret_slot_ns)
{
    uint32_t share_index = 0, place = d->before;
    if (check(d, plan, NULL) != ORR_OK)
        return false;
    memset(b->stage, 0, d->stages * sizeof *b->stage);
    memset(b->round, 0, d->chunks * sizeof *b->round);
    *ret_slot_ns = 0;
    for (uint32_t k = 0; k < d->virtual_stages; k++) {
        const uint32_t s = stage_of(plan, d, k), begin = k == 0 ? 0 : place;
        place += layers_of(d, plan, k, s, &share_index);
        const uint32_t end = k + 1 == d->virtual_stages ? b->row->n : place;
        const int64_t ns = b->before[end].micro_batch_ns - b->before[begin].micro_batch_ns;
        b->stage[s].micro_batch_ns += ns;
        b->stage[s].update_ns += b->before[end].update_ns - b->before[begin].update_ns;
        b->round[k / d->stages] = larger(b->round[k / d->stages], ns);
        *ret_slot_ns = larger(*ret_slot_ns, ns);
    }
    return true;
}

/* Time of a step: in the steady state a micro-batch takes as long as the slowest stage, or, where
 * chunks go round the stages in lockstep, as the slowest of each chunk; to fill and drain the
 * pipeline, pp - 1 slots more (Narayanan et al., SC 2021, section 2.2); then the longest update.
 * INT64_MAX: there is no such split. */
static int64_t step_ns(const balance *b, uint32_t first, uint32_t last)
{
    orr_plan plan = *b->plan;
    plan.first_layers = first;
    plan.last_layers = last;
    const partition d = partition_of(b->row, &plan);
    int64_t slot = 0, steady = 0, rounds = 0, update = 0;
    if (!split_times(b, &plan, &d, &slot))
        return INT64_MAX;
    const bool dual =
        plan.schedule == ORR_SCHEDULE_DUALPIPE; /* half of the micro-batches each way */
    for (uint32_t s = 0; s < d.stages; s++) {
        const orr_module_time *here = &b->stage[s], *other = &b->stage[dual ? d.stages - 1 - s : s];
        steady = larger(steady, (here->micro_batch_ns + other->micro_batch_ns) / 2);
        update = larger(update, here->update_ns + (dual ? other->update_ns : 0));
    }
    for (uint32_t c = 0; c < d.chunks; c++)
        rounds += b->round[c];
    if (plan.schedule == ORR_SCHEDULE_INTERLEAVED)
        steady = rounds;
    return steady * plan.micro_batches + (d.stages - 1) * slot + update;
}

/* Layers that fill a stage which has other modules as well. */
static uint32_t layers_that_fill(double other, double stage, double layer, uint32_t least)
{
    const double n = (stage - other) / layer;
    return n > least ? (uint32_t)n : least;
}

/* Tries splits in which both ends take about the mean time of a stage. */
static void search_balance(const balance *b, const partition *d, uint32_t *ret_first,
                           uint32_t *ret_last)
{
    enum { MORE = 1 };
    const uint32_t n = b->row->n, end = d->before + d->layers;
    const double head = (double)b->before[d->before].micro_batch_ns,
                 whole = (double)b->before[n].micro_batch_ns,
                 tail = whole - (double)b->before[end].micro_batch_ns,
                 layer = (whole - head - tail) / d->layers;
    const uint32_t least = d->chunks > 1 ? d->chunks - 1 : 1;
    double mean = whole / d->stages;
    if (tail + least * layer > mean) /* the tail alone is more than a stage */
        mean = (whole - tail - least * layer) / (d->stages - 1);
    const uint32_t last = layers_that_fill(tail, mean, layer, least),
                   first = layers_that_fill(head, mean, layer, least);
    const int64_t even = step_ns(b, 0, 0);
    int64_t best = even - even / GAIN;
    for (uint32_t f = first; f <= first + MORE; f++)
        for (uint32_t l = last; l <= last + MORE; l++) {
            const uint32_t rest = d->stages == 2 && f < d->layers ? d->layers - f : l;
            const int64_t ns = step_ns(b, f, rest);
            if (ns >= best)
                continue;
            best = ns;
            *ret_first = f;
            *ret_last = rest;
        }
}

orr_row_ends orr_row_ends_of(const orr_module_sequence *row, const orr_module_time *time)
{
    const partition d = partition_of(row, &(orr_plan){0});
    orr_row_ends ends = {.n_layers = d.layers};
    for (uint32_t i = 0; i < row->n; i++)
        *(i < d.before              ? &ends.head_ns
          : i < d.before + d.layers ? &ends.layers_ns
                                    : &ends.tail_ns) += time[row->module_of[i]].micro_batch_ns;
    return ends;
}

bool orr_stages_are_uneven(const orr_row_ends *ends, const orr_plan *plan)
{
    const uint8_t schedule = plan->schedule;
    if (plan->pp <= 1 || ends->layers_ns == 0 || plan->first_layers > 0 || plan->last_layers > 0 ||
        plan->zero >= 2 || plan->micro_batches == 0 || schedule == ORR_SCHEDULE_ZB_V ||
        orr_plan_has_sections(plan) || orr_plan_balances_sections(plan))
        return false;
    if (schedule == ORR_SCHEDULE_ZB_H1 && plan->micro_batches < 2 * plan->pp)
        return false; /* bubbles hide the ends */
    const int64_t even = ends->layers_ns / ends->n_layers * (ends->n_layers / plan->pp),
                  mean = (ends->head_ns + ends->layers_ns + ends->tail_ns) / plan->pp;
    const int64_t end = schedule == ORR_SCHEDULE_DUALPIPE /* one rank has both ends */
                            ? (ends->head_ns + ends->tail_ns) / 2
                            : larger(ends->head_ns, ends->tail_ns);
    return even + end > mean + mean / GAIN;
}

orr_status orr_stages_balance(const orr_module_sequence *row, const orr_module_time *time,
                              orr_arena *arena, orr_plan *plan, orr_error *err)
{
    const partition d = partition_of(row, plan);
    const orr_row_ends ends = orr_row_ends_of(row, time);
    if (!orr_stages_are_uneven(&ends, plan))
        return ORR_OK;
    ORR_TRY(check(&d, plan, err));
    balance b = {.row = row, .plan = plan};
    b.before = orr_arena_array(arena, orr_module_time, (size_t)row->n + 1);
    b.stage = orr_arena_array(arena, orr_module_time, d.stages);
    b.round = orr_arena_array(arena, int64_t, d.chunks);
    if (b.before == NULL || b.stage == NULL || b.round == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < row->n; i++) {
        const orr_module_time *t = &time[row->module_of[i]];
        b.before[i + 1].micro_batch_ns = b.before[i].micro_batch_ns + t->micro_batch_ns;
        b.before[i + 1].update_ns = b.before[i].update_ns + t->update_ns;
    }
    search_balance(&b, &d, &plan->first_layers, &plan->last_layers);
    return ORR_OK;
}
