/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <string.h>

#include "base/alloc.h"

/* Emits the execution graph of one stage: posted receives, slots in schedule order, optimizer. */

const char *orr_waterfall_name(orr_waterfall part)
{
    static const char *const names[] = {
#define NAME_OF(name, text) text,
        ORR_WATERFALL_MAP(NAME_OF)
#undef NAME_OF
    };
    return (unsigned)part < ORR_WATERFALLS ? names[part] : "";
}

static orr_status open_emitter(orr_stage_emitter *l, orr_error *err)
{
    l->scratch = orr_arena_new(0, 0);
    l->b = orr_graph_builder_new();
    if (l->scratch == NULL || l->b == NULL)
        return orr_fail_memory(err);
    memset(l->lane, 0xff, sizeof l->lane);
    memset(l->last, 0xff, sizeof l->last);
    memset(l->group, 0xff, sizeof l->group);
    l->last_slot = l->before_last_slot = l->fetched_ahead = ORR_NONE;
    return ORR_OK;
}

static void close_emitter(orr_stage_emitter *l)
{
    orr_graph_builder_free(l->b);
    orr_arena_free(l->scratch);
    orr_array_done(&l->waits);
    orr_array_done(&l->duration_ns);
    orr_array_done(&l->basis);
    orr_array_done(&l->axis);
    orr_array_done(&l->nodes);
    orr_array_done(&l->rendezvous);
}

static orr_status find_chunks(orr_stage_emitter *l, orr_error *err)
{
    const orr_schedule_plan *schedule = l->job->schedule;
    l->chunks = orr_arena_array(l->scratch, orr_chunk_slots, schedule->spec.chunks);
    if (l->chunks == NULL)
        return orr_fail_memory(err);
    memset(l->chunks, 0xff, schedule->spec.chunks * sizeof *l->chunks);
    for (uint32_t i = schedule->first[l->stage]; i < schedule->first[l->stage + 1]; i++) {
        orr_chunk_slots *chunk = &l->chunks[schedule->slots[i].chunk];
        const uint8_t phase = schedule->slots[i].phase;
        if (phase == ORR_SLOT_FORWARD && chunk->first_forward == ORR_NONE)
            chunk->first_forward = i;
        if (phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT)
            chunk->last_gradient = i;
    }
    return ORR_OK;
}

static orr_status set_recording(orr_stage_emitter *l, orr_error *err)
{
    static const char source[] = "orrery simulate";
    const orr_device *device = l->job->prices->kernels->device;
    orr_recording recording = {.rank = l->who->rank,
                               .world_size = (uint32_t)orr_plan_ranks(l->job->plan)};
    ORR_TRY(orr_builder_str(l->b, source, sizeof source - 1, &recording.source, err));
    ORR_TRY(orr_builder_str(l->b, device->name, strlen(device->name), &recording.device_name, err));
    orr_builder_recording(l->b, &recording);
    return ORR_OK;
}

static void *kept(orr_arena *arena, const void *at, size_t n, size_t bytes)
{
    void *copy = orr_arena_alloc(arena, n, bytes, _Alignof(int64_t));
    if (copy != NULL && n > 0)
        memcpy(copy, at, n * bytes);
    return copy;
}
#define KEPT(arena, array) kept((arena), (array).at, (array).n, sizeof *(array).at)

static orr_status freeze(orr_stage_emitter *l, orr_arena *arena, orr_step_graph *ret,
                         orr_error *err)
{
    orr_step_graph made = {.rendezvous = KEPT(arena, l->rendezvous),
                           .duration_ns = KEPT(arena, l->duration_ns),
                           .basis = KEPT(arena, l->basis),
                           .nodes = KEPT(arena, l->nodes),
                           .axis = KEPT(arena, l->axis),
                           .totals = l->totals};
    if (!made.rendezvous || !made.duration_ns || !made.basis || !made.nodes || !made.axis)
        return orr_fail_memory(err);
    ORR_TRY(orr_graph_build(l->b, &made.graph, err));
    *ret = made;
    return ORR_OK;
}

orr_status orr_step_layout_stage(const orr_step_job *job, const orr_step_target *who,
                                 orr_arena *arena, orr_step_graph *ret, orr_error *err)
{
    orr_stage_emitter l = {.job = job, .who = who, .stage = who->stage, .err = err};
    orr_status status;
    ORR_TRY_OUT(status, open_emitter(&l, err));
    ORR_TRY_OUT(status, set_recording(&l, err));
    ORR_TRY_OUT(status, find_chunks(&l, err));
    orr_stage_emit_posted_receives(&l);
    if (orr_stage_emit_ok(&l))
        orr_stage_emit_initial_gathers(&l);
    if (orr_stage_emit_ok(&l))
        orr_stage_emit_slots(&l);
    if (orr_stage_emit_ok(&l))
        orr_stage_emit_optimizer(&l);
    ORR_TRY_OUT(status, l.status);
    status = freeze(&l, arena, ret, err);
out:
    close_emitter(&l);
    return status;
}
