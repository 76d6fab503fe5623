/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/run/program_state.h"

/* Builds a program from its source: views, actions, dependencies, memory plan; then memory,
 * prepared kernels and lane threads. */

static void *copy_or_zero(orr_arena *arena, const void *from, size_t n, size_t element_bytes)
{
    void *to = orr_arena_alloc(arena, n, element_bytes, _Alignof(max_align_t));
    if (to != NULL && from != NULL && n > 0)
        memcpy(to, from, n * element_bytes);
    return to;
}

static int by_call(const void *a_, const void *b_)
{
    const orr_program_dep *a = a_, *b = b_;
    if (a->call != b->call)
        return a->call < b->call ? -1 : 1;
    return (a->on > b->on) - (a->on < b->on);
}

static void choose_lanes(orr_program *p)
{
    for (uint32_t c = 0; c < p->tape->n_calls; c++)
        if (orr_op_is_collective(p->tape->calls[c].op) && p->tape->calls[c].args.overlap)
            p->calls[c].lane = ORR_LANE_COMM;
}

static orr_status check_calls(orr_program *p, orr_error *err)
{
    p->n_lanes = 1;
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        const uint8_t lane = p->calls[c].lane;
        if (lane >= ORR_LANES_MAX)
            return orr_fail(err, ORR_INVALID, "%s: lane %u of %u", orr_program_label(p, c), lane,
                            ORR_LANES_MAX);
        if (orr_op_is_collective(p->tape->calls[c].op) && p->tape->calls[c].args.axis >= ORR_AXES)
            return orr_fail(err, ORR_INVALID, "%s: axis %u of %u", orr_program_label(p, c),
                            p->tape->calls[c].args.axis, ORR_AXES);
        if (lane >= p->n_lanes)
            p->n_lanes = lane + 1u;
    }
    for (uint32_t d = 0; d < p->n_deps; d++)
        if (p->deps[d].call >= p->tape->n_calls || p->deps[d].on >= p->deps[d].call)
            return orr_fail(err, ORR_INVALID, "call %u waits for call %u, which comes no earlier",
                            p->deps[d].call, p->deps[d].on);
    return ORR_OK;
}

static orr_status copy_source(orr_program *p, const orr_program_source *source, orr_error *err)
{
    const orr_tape *tape = source->tape;
    p->tape = tape;
    p->backend = source->backend;
    p->workers = source->workers;
    p->seed = source->seed;
    p->device = p->backend != NULL && p->backend->stream_new != NULL;
    p->n_deps = source->n_deps;
    p->calls = copy_or_zero(p->arena, source->calls, tape->n_calls, sizeof *p->calls);
    p->bindings = copy_or_zero(p->arena, source->bindings, tape->n_values, sizeof *p->bindings);
    p->deps = copy_or_zero(p->arena, source->deps, source->n_deps, sizeof *p->deps);
    p->communicators =
        copy_or_zero(p->arena, source->communicators, ORR_AXES, sizeof *p->communicators);
    if (p->calls == NULL || p->bindings == NULL || p->deps == NULL || p->communicators == NULL)
        return orr_fail_memory(err);
    if (source->calls == NULL)
        choose_lanes(p);
    qsort(p->deps, p->n_deps, sizeof *p->deps, by_call);
    return check_calls(p, err);
}

static orr_status make_room(orr_program *p, orr_error *err)
{
    size_t n = 0;
    for (uint32_t c = 0; c < p->tape->n_calls; c++)
        n += (size_t)p->tape->calls[c].n_in + 2 * (size_t)p->tape->calls[c].n_out;
    if (n >= ORR_NONE)
        return orr_fail(err, ORR_LIMIT, "a tape of over 2^32 operands");
    p->places = orr_arena_array(p->arena, orr_value_location, p->tape->n_values);
    p->base = orr_arena_array(p->arena, char *, p->tape->n_values);
    p->actions = orr_arena_array(p->arena, orr_action, p->tape->n_calls);
    p->operands = orr_arena_array(p->arena, orr_operand, n);
    p->operand_of = orr_arena_array(p->arena, orr_value, n);
    p->operand_offset = orr_arena_array(p->arena, int64_t, n);
    p->lanes = orr_arena_array(p->arena, orr_lane_state *, p->n_lanes);
    if (p->places == NULL || p->base == NULL || p->actions == NULL || p->operands == NULL ||
        p->operand_of == NULL || p->operand_offset == NULL || p->lanes == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        p->lanes[l] = orr_arena_one(p->arena, orr_lane_state);
        if (p->lanes[l] == NULL)
            return orr_fail_memory(err);
        p->lanes[l]->program = p;
        p->lanes[l]->number = l;
    }
    return ORR_OK;
}

/* Everything that is known before memory is taken. */
static orr_status plan(const orr_program_source *source, orr_program **ret, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_program *p = arena != NULL ? orr_arena_one(arena, orr_program) : NULL;
    orr_status status = ORR_OK;
    if (p == NULL) {
        orr_arena_free(arena);
        return orr_fail_memory(err);
    }
    p->arena = arena;
    ORR_TRY_OUT(status, copy_source(p, source, err));
    ORR_TRY_OUT(status, make_room(p, err));
    ORR_TRY_OUT(status, orr_program_resolve_views(p, err));
    ORR_TRY_OUT(status, orr_program_prepare_calls(p, err));
    ORR_TRY_OUT(status, orr_program_assign_offsets(p, err));
    *ret = p;
out:
    if (status != ORR_OK)
        orr_arena_free(arena);
    return status;
}

/* Lists operands of bound values by root, so that binding can update them. */
static orr_status list_bound(orr_program *p, orr_error *err)
{
    const uint32_t n = p->tape->n_values;
    p->bound_first = orr_arena_array(p->arena, uint32_t, (size_t)n + 2);
    p->bound = orr_arena_array(p->arena, uint32_t, p->n_operands);
    if (p->bound_first == NULL || p->bound == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (p->operand_of[k] != ORR_NONE)
            p->bound_first[p->operand_of[k] + 2]++;
    for (uint32_t v = 0; v < n; v++)
        p->bound_first[v + 2] += p->bound_first[v + 1];
    for (uint32_t k = 0; k < p->n_operands; k++)
        if (p->operand_of[k] != ORR_NONE)
            p->bound[p->bound_first[p->operand_of[k] + 1]++] = k;
    return ORR_OK;
}

static orr_status prepare_call(orr_program *p, uint32_t index, orr_error *err)
{
    orr_action *action = &p->actions[index];
    const orr_tape_call *call = &p->tape->calls[index];
    const orr_kernel_entry *entry = &p->backend->entries[call->op];
    const orr_operand *in = &p->operands[action->operands];
    if (action->kind != ORR_ACTION_KERNEL || entry->prepare == NULL)
        return ORR_OK;
    return entry->prepare(&(orr_kernel_call){.op = call->op,
                                             .args = &call->args,
                                             .n_in = action->n_in,
                                             .n_out = action->n_out,
                                             .in = in,
                                             .out = in + action->n_in,
                                             .accumulate = action->accumulate,
                                             .workers = action->lane == 0 ? p->workers : NULL,
                                             .stream = p->lanes[action->lane]->stream},
                          &action->state, err);
}

orr_status orr_program_make(const orr_program_source *source, orr_program **ret, orr_error *err)
{
    orr_program *p;
    orr_status status = ORR_OK;
    ORR_TRY(plan(source, &p, err));
    for (uint32_t l = 0; l < p->n_lanes && p->device; l++)
        ORR_TRY_OUT(status, p->backend->stream_new(p->backend, &p->lanes[l]->stream, err));
    ORR_TRY_OUT(status, orr_program_allocate(p, err));
    orr_program_resolve_addresses(p);
    ORR_TRY_OUT(status, list_bound(p, err));
    for (uint32_t c = 0; c < p->tape->n_calls; c++)
        ORR_TRY_OUT(status, prepare_call(p, c, err));
    ORR_TRY_OUT(status, orr_program_find_waits(p, NULL, err));
    ORR_TRY_OUT(status, orr_program_start_lanes(p, err));
    *ret = p;
out:
    if (status != ORR_OK)
        orr_program_free(p);
    return status;
}

void orr_program_free(orr_program *p)
{
    if (p == NULL)
        return;
    orr_program_stop_lanes(p);
    orr_backend *backend = p->backend;
    for (uint32_t c = 0; c < p->tape->n_calls; c++) {
        const orr_kernel_entry *entry = &backend->entries[p->tape->calls[c].op];
        if (p->actions[c].state != NULL && entry->release != NULL)
            entry->release(p->actions[c].state);
    }
    for (uint32_t l = 0; l < p->n_lanes; l++) {
        if (p->lanes[l]->workspace != NULL)
            backend->release(backend, p->lanes[l]->workspace, p->lanes[l]->workspace_bytes);
        if (p->lanes[l]->stream != NULL)
            backend->stream_free(backend, p->lanes[l]->stream);
    }
    if (p->planned != NULL)
        backend->release(backend, p->planned, p->planned_room);
    if (p->kept != NULL)
        backend->release(backend, p->kept, p->kept_room);
    orr_arena_free(p->arena);
}

orr_program_memory orr_program_memory_of(const orr_program *program)
{
    return program->memory;
}

orr_status orr_program_measure(const orr_program_source *source, orr_program_memory *ret,
                               orr_error *err)
{
    orr_program *p;
    ORR_TRY(plan(source, &p, err));
    *ret = p->memory;
    orr_arena_free(p->arena);
    return ORR_OK;
}

void orr_program_bind(orr_program *p, orr_value value, void *data)
{
    p->base[value] = data;
    for (uint32_t i = p->bound_first[value]; i < p->bound_first[value + 1]; i++) {
        const uint32_t k = p->bound[i];
        p->operands[k].data = data != NULL ? (char *)data + p->operand_offset[k] : NULL;
    }
}

void *orr_program_data(const orr_program *p, orr_value value)
{
    const orr_value_location *place = &p->places[value];
    return p->base[place->root] != NULL ? p->base[place->root] + place->offset_bytes : NULL;
}

void orr_program_set_positions(orr_program *program, const int64_t *first)
{
    program->first = first;
}

void orr_program_set_update(orr_program *program, const orr_update *update)
{
    program->update = update;
}
