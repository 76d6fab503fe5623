/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/program.h"

#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "op/tape/live_ranges.h"
#include "replay/native.h"

/* Makes a selection runnable: memory for recorded storages, indices, dependencies of
 * collectives. */

enum { ALIGNMENT = 64 };

/* State of the builder before an operator, to undo one that could not be built. */
typedef struct mark {
    uint32_t values, calls;
    size_t indices;
} mark;

static void rewind_to(orr_replay_builder *b, mark m)
{
    b->tape.n_values = m.values;
    b->tape.n_calls = m.calls;
    b->places.n = m.values;
    b->calls.n = m.calls;
    b->indices.n = m.indices;
}

static void add_work(const orr_replay_builder *b, uint32_t from, orr_replay_unit *u)
{
    for (uint32_t c = from; c < b->tape.n_calls; c++) {
        orr_op_work work;
        orr_tape_work(&b->tape, c, &work);
        u->flops += work.flops;
        u->bytes += work.read_bytes + work.write_bytes;
    }
}

static orr_status emulate(orr_replay_builder *b, const orr_replay_options *options,
                          const char *name, orr_replay_unit *u, const char *why, orr_arena *arena,
                          orr_error *err)
{
    const char *reason = orr_arena_strndup(arena, why, strlen(why));
    if (reason == NULL)
        return orr_fail_memory(err);
    if (options->strict)
        return orr_fail(err, ORR_UNSUPPORTED, "%s cannot be run here: %s", name, why);
    u->how = ORR_REPLAY_EMULATED;
    u->why = reason;
    return u->recorded_ns > 0 ? orr_replay_emulate(b, u->recorded_ns, err) : ORR_OK;
}

static orr_status build_unit(orr_replay_builder *b, const orr_graph *g,
                             const orr_replay_options *options, orr_replay_unit *u,
                             orr_arena *arena, orr_error *err)
{
    const mark before = {b->tape.n_values, b->tape.n_calls, b->indices.n};
    orr_replay_call call;
    orr_error why;
    bool known = false;
    const char *name = orr_graph_str(g, g->name[u->node]);
    if (u->how == ORR_REPLAY_VIEW || u->how == ORR_REPLAY_SKIPPED)
        return ORR_OK;
    if (u->how == ORR_REPLAY_EMULATED)
        return emulate(b, options, name, u, u->why, arena, err);
    if (u->how == ORR_REPLAY_COLLECTIVE && b->ranks == 1 && g->world_size > 1)
        return emulate(b, options, name, u, "the other ranks are not here", arena, err);
    b->lane = u->how == ORR_REPLAY_COLLECTIVE ? ORR_LANE_COMM : ORR_LANE_COMPUTE;
    ORR_TRY(orr_replay_call_read(g, u->node, arena, &call, &known, err));
    const orr_status status = u->rule->build == NULL
                                  ? orr_replay_native_build(b, g, &call, (orr_op)u->rule->op, &why)
                              : known ? u->rule->build(b, &call, u->rule->op, &why)
                                      : orr_fail(&why, ORR_UNSUPPORTED, "unknown shapes");
    b->lane = ORR_LANE_COMPUTE;
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    if (status == ORR_OK) {
        add_work(b, before.calls, u);
        return ORR_OK;
    }
    rewind_to(b, before);
    return emulate(b, options, name, u, why.text, arena, err);
}

/* A collective waits for the last users of its storages in the other lane, and they for it. */
static orr_status add_deps(orr_replay_builder *b, orr_arena *arena, orr_error *err)
{
    uint32_t *last = orr_arena_array(arena, uint32_t, 2 * b->storages.n);
    if (last == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < 2 * b->storages.n; i++)
        last[i] = ORR_NONE;
    for (uint32_t c = 0; c < b->tape.n_calls; c++) {
        const orr_tape_call *call = &b->tape.calls[c];
        const uint32_t lane = b->calls.at[c].lane == ORR_LANE_COMM;
        for (uint32_t k = 0; k < (uint32_t)call->n_in + call->n_out; k++) {
            const orr_value v = k < call->n_in ? call->in[k] : call->out[k - call->n_in];
            const uint32_t s = b->places.at[v].storage;
            if (s == ORR_NONE)
                continue;
            const uint32_t other = last[2 * s + !lane];
            if (other != ORR_NONE && !orr_array_push(&b->deps, ((orr_program_dep){c, other})))
                return orr_fail_memory(err);
            last[2 * s + lane] = c;
        }
    }
    return ORR_OK;
}

/* Storages that are live at the same time get separate bytes; one that a collective uses lives to
 * the end of the step, since its lane runs ahead or behind. */
static orr_status assign_storage_offsets(orr_replay_program *p, int64_t **ret_offsets,
                                         orr_arena *arena, orr_error *err)
{
    orr_replay_builder *b = &p->builder;
    orr_live_range *lives = orr_arena_array(arena, orr_live_range, b->storages.n);
    int64_t *offsets = orr_arena_array(arena, int64_t, b->storages.n), bytes = 0;
    if (lives == NULL || offsets == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < b->storages.n; i++) {
        const orr_replay_storage *s = &b->storages.at[i];
        if (s->first != ORR_NONE)
            lives[i] = (orr_live_range){s->first, s->last, s->bytes};
    }
    for (uint32_t c = 0; c < b->tape.n_calls; c++)
        for (uint32_t k = 0; b->calls.at[c].lane == ORR_LANE_COMM && k < b->tape.calls[c].n_in;
             k++) {
            const uint32_t s = b->places.at[b->tape.calls[c].in[k]].storage;
            if (s != ORR_NONE)
                lives[s].last = b->tape.n_calls;
        }
    ORR_TRY(orr_live_ranges_pack(lives, (uint32_t)b->storages.n, ALIGNMENT, offsets, &bytes, err));
    const int64_t there = p->backend->free_bytes(p->backend);
    if (there >= 0 && bytes > there)
        return orr_fail(err, ORR_LIMIT,
                        "the recorded tensors need %.1f GiB at once, %.1f GiB are free",
                        (double)bytes / (1 << 30), (double)there / (1 << 30));
    p->storage_bytes = (size_t)bytes + ALIGNMENT;
    ORR_TRY(p->backend->allocate(p->backend, p->storage_bytes, &p->storages, err));
    memset(p->storages, 0, p->storage_bytes);
    *ret_offsets = offsets;
    return ORR_OK;
}

static orr_status fill_indices(orr_replay_program *p, uint64_t seed, orr_arena *arena,
                               orr_error *err)
{
    const orr_replay_builder *b = &p->builder;
    for (size_t i = 0; i < b->indices.n; i++) {
        const orr_replay_indices *row = &b->indices.at[i];
        orr_random random = orr_random_of(seed, i);
        int64_t *ids = orr_arena_alloc(arena, (size_t)row->n, sizeof *ids, ALIGNMENT);
        if (ids == NULL)
            return orr_fail_memory(err);
        for (int64_t k = 0; k < row->n; k++)
            ids[k] = row->offsets     ? (int64_t)((double)row->limit * (double)k / (double)row->n)
                     : row->limit > 0 ? (int64_t)orr_random_below(&random, (uint64_t)row->limit)
                                      : 0;
        p->bindings[row->value].data = ids;
    }
    return ORR_OK;
}

static orr_status bind(orr_replay_program *p, uint64_t seed, orr_arena *arena, orr_error *err)
{
    const orr_replay_builder *b = &p->builder;
    int64_t *offsets;
    p->bindings = orr_arena_array(arena, orr_binding, b->tape.n_values);
    if (p->bindings == NULL)
        return orr_fail_memory(err);
    ORR_TRY(assign_storage_offsets(p, &offsets, arena, err));
    for (orr_value v = 0; v < b->tape.n_values; v++) {
        const orr_replay_value_location place = b->places.at[v];
        if (place.storage != ORR_NONE)
            p->bindings[v].data = (char *)p->storages + offsets[place.storage] + place.offset_bytes;
        else if (b->tape.values[v].made_by == ORR_NONE)
            p->bindings[v].kept = true; /* statistics that were not recorded */
    }
    return fill_indices(p, seed, arena, err);
}

orr_status orr_replay_program_open(const orr_graph *graph, const orr_replay_options *options,
                                   const orr_replay_selection *selection,
                                   orr_communicator *communicator, orr_backend *backend,
                                   orr_workers *workers, orr_arena *arena, orr_replay_program *ret,
                                   orr_error *err)
{
    orr_communicator *communicators[ORR_AXES] = {[ORR_AXIS_DP] = communicator};
    orr_replay_builder *b = &ret->builder;
    *ret = (orr_replay_program){.backend = backend};
    orr_replay_builder_init(b, arena);
    b->ranks = communicator != NULL ? communicator->n : 1;
    for (uint32_t i = 0; i < selection->n; i++) {
        b->node = i;
        ORR_TRY(build_unit(b, graph, options, &selection->units[i], arena, err));
    }
    if (b->tape.n_calls == 0)
        return orr_fail(err, ORR_INVALID, "there is nothing to run: views, and what was skipped");
    ORR_TRY(add_deps(b, arena, err));
    ORR_TRY(bind(ret, options->seed, arena, err));
    const orr_program_source source = {.tape = &b->tape,
                                       .calls = b->calls.at,
                                       .bindings = ret->bindings,
                                       .deps = b->deps.at,
                                       .n_deps = (uint32_t)b->deps.n,
                                       .communicators = communicators,
                                       .backend = backend,
                                       .workers = workers,
                                       .seed = options->seed};
    ORR_TRY(orr_program_make(&source, &ret->program, err));
    static const orr_update update = {.rate = 1e-6,
                                      .beta1 = 0.9,
                                      .beta2 = 0.999,
                                      .epsilon = 1e-8,
                                      .step = 1,
                                      .gradient_scale = 1};
    orr_program_set_update(ret->program, &update);
    const orr_program_memory memory = orr_program_memory_of(ret->program);
    ret->memory_bytes = (int64_t)ret->storage_bytes + memory.planned_bytes + memory.kept_bytes +
                        memory.workspace_bytes;
    ret->start_ns = orr_arena_array(arena, int64_t, b->tape.n_calls);
    ret->end_ns = orr_arena_array(arena, int64_t, b->tape.n_calls);
    return ret->start_ns == NULL || ret->end_ns == NULL ? orr_fail_memory(err) : ORR_OK;
}

void orr_replay_program_close(orr_replay_program *p)
{
    orr_program_free(p->program);
    if (p->storages != NULL)
        p->backend->release(p->backend, p->storages, p->storage_bytes);
    orr_replay_builder_done(&p->builder);
}
