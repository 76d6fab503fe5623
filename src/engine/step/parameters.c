/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "engine/step/initialize.h"
#include "engine/step/step_state.h"

/* Lists the parameters of a rank in the order of places, and assigns them to buckets. Gradients
 * become final from the last place to the first, so buckets are filled in that order; within a
 * bucket the classes of step_state.h make weight decay and partial gradients single ranges. */

/* Bucket size in gradients, where the plan gives none: Megatron Core's 40 million, or one million
 * per replica if that is more (distributed_data_parallel_config.py). With a team, whose network is
 * slower, reduction should start early: 25 MiB (PyTorch's DistributedDataParallel,
 * bucket_cap_mb). */
static int64_t bucket_numbers(const orr_engine_step *step)
{
    const orr_plan *plan = &step->plan;
    if (plan->bucket_bytes > 0)
        return plan->bucket_bytes / (int64_t)sizeof(float);
    if (step->source.team != NULL)
        return (25 << 20) / (int64_t)sizeof(float);
    return plan->dp > 40 ? INT64_C(1000000) * plan->dp : 40000000;
}

static bool is_parameter(const orr_tape_value *value)
{
    return value->role == ORR_VALUE_PARAMETER && value->view_of == ORR_NONE;
}

static uint32_t count_parameters(const orr_engine_step *step)
{
    uint32_t n = 0;
    for (uint32_t place = 0; place < step->row.n; place++) {
        const orr_module *module = step->at_place[place];
        for (uint32_t v = 0; module != NULL && v < module->tape->n_values; v++)
            n += is_parameter(&module->tape->values[v]);
    }
    return n;
}

static uint32_t count_same(const orr_engine_step *step, uint32_t place, const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = step->first_of[place]; i < step->n_parameters; i++)
        n += strcmp(step->exported[step->parameters[i].exported].name, name) == 0;
    return n;
}

/* The embedding that a head is tied to; ORR_NONE: it is on another stage. */
static uint32_t find_tied(const orr_engine_step *step)
{
    for (uint32_t i = 0; i < step->n_parameters; i++)
        if (step->exported[step->parameters[i].exported].tag == ORR_WEIGHT_TIED)
            return i;
    return ORR_NONE;
}

static uint32_t embedding_place(const orr_engine_step *step)
{
    for (uint32_t place = 0; place < step->row.n; place++)
        if (step->row.modules[step->row.module_of[place]].kind == ORR_MODULE_EMBEDDING)
            return place;
    return 0;
}

static orr_status own_part(const orr_engine_step *step, const orr_step_parameter *p,
                           orr_local_shard *ret, orr_error *err)
{
    return orr_module_local_shard(step->at_place[p->place], &step->plan, step->rank, p->value, ret,
                                  err);
}

/* The head's weights are the embedding's. */
static void tie(const orr_engine_step *step, orr_parameter *exported)
{
    exported->name = "embedding";
    exported->place = embedding_place(step);
    exported->module = ORR_MODULE_EMBEDDING;
}

static orr_status add_parameter(orr_engine_step *step, uint32_t place, orr_value v, orr_error *err)
{
    const orr_module *module = step->at_place[place];
    const orr_tape_value *value = &module->tape->values[v];
    const orr_initializer begin = orr_initializer_of(module->tape, v);
    orr_step_parameter *p = &step->parameters[step->n_parameters];
    orr_parameter *exported = &step->exported[step->n_exported];
    *p = (orr_step_parameter){.place = place,
                              .value = v,
                              .type = value->type,
                              .exported = step->n_exported,
                              .compute_value = ORR_NONE};
    *exported = (orr_parameter){.name = value->name,
                                .place = place,
                                .module = module->kind,
                                .tag = (uint8_t)value->tag,
                                .frozen = value->frozen,
                                .nth = count_same(step, place, value->name),
                                .type = value->type,
                                .n = orr_type_elements(&value->type)};
    ORR_TRY(own_part(step, p, &exported->own, err));
    orr_step_order_rows(step, place, exported);
    p->decays = begin == ORR_INITIALIZER_NORMAL || begin == ORR_INITIALIZER_RESIDUAL;
    p->sliced = value->tag == ORR_WEIGHT_SLICED && step->plan.tp > 1;
    p->counted = value->tag == ORR_WEIGHT_EXPERT || step->at.at[ORR_AXIS_TP] == 0 ||
                 (exported->own.slices & orr_axis_bit(ORR_AXIS_TP)) != 0;
    if (exported->own.copied && !value->frozen)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%u heads of keys and values are not trained in %u slices (tp)",
                        step->source.model->kv_heads, step->plan.tp);
    if (value->tag == ORR_WEIGHT_TIED && module->kind == ORR_MODULE_HEAD) {
        const uint32_t first = find_tied(step);
        tie(step, exported);
        p->tied = first != ORR_NONE;
        p->counted = false;
        if (p->tied)
            p->exported = step->parameters[first].exported;
    }
    step->n_parameters++;
    step->n_exported += !p->tied;
    return ORR_OK;
}

orr_status orr_step_list_parameters(orr_engine_step *step, orr_error *err)
{
    const uint32_t n = count_parameters(step);
    step->parameters = orr_arena_array(step->arena, orr_step_parameter, n);
    step->exported = orr_arena_array(step->arena, orr_parameter, (size_t)n + 1);
    step->first_of = orr_arena_array(step->arena, uint32_t, (size_t)step->row.n + 1);
    if (step->parameters == NULL || step->exported == NULL || step->first_of == NULL)
        return orr_fail_memory(err);
    for (uint32_t place = 0; place < step->row.n; place++) {
        const orr_module *module = step->at_place[place];
        step->first_of[place] = step->n_parameters;
        for (uint32_t v = 0; module != NULL && v < module->tape->n_values; v++)
            if (is_parameter(&module->tape->values[v]))
                ORR_TRY(add_parameter(step, place, v, err));
    }
    step->first_of[step->row.n] = step->n_parameters;
    return ORR_OK;
}

/* The kind of bucket that a parameter belongs to. */
typedef enum kind { DENSE, EXPERT, TIED, FROZEN, KINDS } kind;

static kind kind_of(const orr_parameter *p)
{
    if (p->frozen)
        return FROZEN;
    return p->tag == ORR_WEIGHT_TIED ? TIED : p->tag == ORR_WEIGHT_EXPERT ? EXPERT : DENSE;
}

static uint32_t index_on(const orr_engine_step *step, uint32_t axis, orr_arena *arena)
{
    const uint32_t n = orr_step_members(step, axis);
    uint32_t *members = orr_arena_array(arena, uint32_t, n);
    if (members == NULL)
        return ORR_NONE;
    orr_plan_members_of(&step->plan, (orr_axis)axis, step->rank, members);
    for (uint32_t i = 0; i < n; i++)
        if (members[i] == step->rank)
            return i;
    return 0;
}

static uint32_t open_bucket(orr_engine_step *step, kind k, uint32_t chunk)
{
    orr_bucket *b = &step->buckets[step->n_buckets];
    *b = (orr_bucket){.axis = k == EXPERT ? ORR_AXIS_EDP : ORR_AXIS_GRADIENT,
                      .shard_axis = ORR_AXIS_NONE,
                      .tied = k == TIED,
                      .frozen = k == FROZEN,
                      .chunk = chunk,
                      .last_write = ORR_NONE,
                      .sum = ORR_NONE,
                      .gathered = ORR_NONE};
    const uint8_t axis = k == EXPERT ? ORR_AXIS_EDP : ORR_AXIS_SHARD;
    if (step->plan.zero > 0 && k != FROZEN && orr_step_members(step, axis) > 1)
        b->shard_axis = axis;
    return step->n_buckets++;
}

static int64_t padded(int64_t n)
{
    return (n + ORR_BUCKET_ALIGN - 1) / ORR_BUCKET_ALIGN * ORR_BUCKET_ALIGN;
}

/* Fills the buckets of a chunk from its last place to its first, the order in which gradients
 * become final. */
static void fill_buckets(orr_engine_step *step, uint32_t chunk, uint32_t first, uint32_t end)
{
    uint32_t open[KINDS] = {ORR_NONE, ORR_NONE, ORR_NONE, ORR_NONE};
    const int64_t most = bucket_numbers(step);
    for (uint32_t place = end; place-- > first;) {
        for (uint32_t i = step->first_of[place]; i < step->first_of[place + 1]; i++) {
            orr_step_parameter *p = &step->parameters[i];
            const kind k = kind_of(&step->exported[p->exported]);
            if (p->tied)
                continue;
            if (open[k] == ORR_NONE)
                open[k] = open_bucket(step, k, chunk);
            p->bucket = open[k];
            step->buckets[p->bucket].used += padded(step->exported[p->exported].n);
        }
        for (kind k = DENSE; k <= EXPERT; k++)
            if (open[k] != ORR_NONE &&
                (step->plan.zero >= 2 || step->buckets[open[k]].used >= most))
                open[k] = ORR_NONE;
    }
}

static int class_of(const orr_step_parameter *p)
{
    if (p->decays)
        return p->sliced ? 1 : 0;
    return p->sliced ? 2 : 3;
}

static void place_parameters(orr_engine_step *step, uint32_t bucket)
{
    orr_bucket *b = &step->buckets[bucket];
    int64_t at = 0;
    for (int c = 0; c < 4; c++) {
        b->sliced_begin = c == 1 ? at : b->sliced_begin;
        b->decays_end = c == 2 ? at : b->decays_end;
        b->sliced_end = c == 3 ? at : b->sliced_end;
        for (uint32_t i = 0; i < step->n_parameters; i++) {
            orr_step_parameter *p = &step->parameters[i];
            if (p->tied || p->bucket != bucket || class_of(p) != c)
                continue;
            p->at = at;
            at += padded(step->exported[p->exported].n);
        }
    }
}

static orr_status share_bucket(orr_engine_step *step, orr_bucket *b, orr_error *err)
{
    const uint32_t members = orr_step_members(step, b->shard_axis);
    const int64_t each = (int64_t)members * ORR_BUCKET_ALIGN;
    b->n = (b->used + each - 1) / each * each;
    b->shard_n = b->n / members;
    const uint32_t all = orr_step_members(step, b->axis);
    const uint32_t place = index_on(step, b->axis, step->arena);
    const uint32_t index = members > 1 ? index_on(step, b->shard_axis, step->arena) : 0;
    if (index == ORR_NONE || place == ORR_NONE)
        return orr_fail_memory(err);
    b->shard_begin = index * b->shard_n;
    b->holders = all / members;
    b->holder_index = place / members; /* neighbouring ranks hold the same shard */
    return ORR_OK;
}

static void copy_twins(orr_engine_step *step)
{
    const uint32_t first = find_tied(step);
    for (uint32_t i = 0; i < step->n_parameters; i++)
        if (step->parameters[i].tied) {
            step->parameters[i].bucket = step->parameters[first].bucket;
            step->parameters[i].at = step->parameters[first].at;
        }
}

orr_status orr_step_fill_buckets(orr_engine_step *step, orr_error *err)
{
    const orr_schedule_spec *spec = &step->schedule.spec;
    step->buckets = orr_arena_array(step->arena, orr_bucket, (size_t)step->n_parameters + 1);
    if (step->buckets == NULL)
        return orr_fail_memory(err);
    for (uint32_t chunk = 0; chunk < spec->chunks; chunk++) {
        const uint32_t k = orr_schedule_virtual_stage_at(spec, step->stage, chunk);
        fill_buckets(step, chunk, step->map.first[k], step->map.first[k + 1]);
    }
    for (uint32_t b = 0; b < step->n_buckets; b++) {
        place_parameters(step, b);
        ORR_TRY(share_bucket(step, &step->buckets[b], err));
    }
    copy_twins(step);
    return ORR_OK;
}

/* Sets the addresses of the part of a parameter that is in the shard. */
static void set_addresses(orr_engine_step *step, const orr_step_parameter *p)
{
    const orr_bucket *b = &step->buckets[p->bucket];
    orr_parameter *exported = &step->exported[p->exported];
    const int64_t n = exported->n, from = b->shard_begin - p->at, to = from + b->shard_n;
    const int64_t begin = from > 0 ? (from < n ? from : n) : 0, end = to < n ? to : n;
    const int64_t in_shard = p->at + begin - b->shard_begin;
    exported->shard_begin = begin;
    exported->shard_n = end > begin ? end - begin : 0;
    if (exported->shard_n == 0)
        return;
    exported->master = b->master + in_shard;
    if (b->copy != NULL)
        exported->copy = (char *)b->copy + in_shard * 2;
    if (b->frozen)
        return;
    exported->gradient = b->gradient + in_shard + (step->plan.zero < 2 ? b->shard_begin : 0);
    exported->m = b->m + in_shard;
    exported->v = b->v + in_shard;
}

static orr_status hold_bucket(orr_engine_step *step, orr_bucket *b, orr_error *err)
{
    const size_t all = (size_t)b->n, shard = (size_t)b->shard_n;
    const bool half = orr_dtype_bytes(step->stream) < 4;
    const bool whole = step->plan.zero < 3 || b->shard_axis == ORR_AXIS_NONE;
    orr_step_memory *m = &step->memory;
    if (whole)
        ORR_TRY(orr_step_allocate(step, all * (half ? 2 : 4), &m->weights, &b->compute, err));
    if (half) {
        ORR_TRY(orr_step_allocate(step, shard * 4, whole ? &m->optimizer : &m->weights, &b->master,
                                  err));
        if (whole)
            b->copy = (char *)b->compute + b->shard_begin * 2;
        else
            ORR_TRY(orr_step_allocate(step, shard * 2, &m->weights, &b->copy, err));
    } else if (whole) {
        b->master = (float *)b->compute + b->shard_begin;
    } else {
        ORR_TRY(orr_step_allocate(step, shard * 4, &m->weights, &b->master, err));
    }
    if (b->frozen)
        return ORR_OK;
    if (step->source.model->kind == ORR_MODEL_DLRM)
        ORR_TRY(orr_step_plant_tree(step, b, err));
    else
        ORR_TRY(orr_step_allocate(step, (step->plan.zero < 2 ? all : shard) * 4, &m->gradients,
                                  &b->gradient, err));
    ORR_TRY(orr_step_allocate(step, shard * 4, &m->optimizer, &b->m, err));
    return orr_step_allocate(step, shard * 4, &m->optimizer, &b->v, err);
}

orr_status orr_step_allocate_buckets(orr_engine_step *step, orr_error *err)
{
    for (uint32_t b = 0; b < step->n_buckets; b++)
        ORR_TRY(hold_bucket(step, &step->buckets[b], err));
    for (uint32_t i = 0; i < step->n_parameters; i++)
        if (!step->parameters[i].tied)
            set_addresses(step, &step->parameters[i]);
    return ORR_OK;
}
