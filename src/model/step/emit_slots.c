/* SPDX-License-Identifier: Apache-2.0 */
#include "model/step/emitter.h"

#include <stdio.h>
#include <string.h>

#include "model/memory/memory.h"
#include "model/plan/plan.h"

/* Emission of a stage's schedule slots, module by module: receives, gathers of weights,
 * computation, gradient reductions, sends. */

static uint32_t module_at(const orr_step_job *job, uint32_t k, uint32_t place)
{
    const orr_stage_memory_input parts = {.plan = job->plan, .row = job->row, .map = job->map};
    return orr_module_at(&parts, k, place);
}

/* A slot while its nodes are emitted. */
typedef struct slot_modules {
    const orr_schedule_slot *slot;
    uint32_t first, n; /* places of its virtual stage */
    uint32_t k;
    bool forward;
    bool gathers;        /* weights are gathered before each module */
    bool gathered_first; /* weights are gathered before some modules, in the step's first forward
                          * slots */
    bool reduces, last;  /* gradients are reduced after it; for the last time */
} slot_modules;

static slot_modules slot_modules_of(const orr_stage_emitter *l, uint32_t i)
{
    const orr_step_job *job = l->job;
    const orr_schedule_slot *slot = &job->schedule->slots[i];
    const uint32_t k = orr_schedule_virtual_stage_at(&job->schedule->spec, l->stage, slot->chunk);
    const bool gives = slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_WEIGHT;
    const bool beside = job->plan->overlap_dp == ORR_SWITCH_ON;
    const orr_chunk_slots *chunk = &l->chunks[slot->chunk];
    const bool last = chunk->last_gradient == i;
    const bool ends_group =
        orr_stage_reduces_in_slots(l) &&
        (last || (slot->micro_batch + 1) % orr_plan_gradient_group(job->plan) == 0);
    return (slot_modules){.slot = slot,
                          .first = job->map->first[k],
                          .n = job->map->first[k + 1] - job->map->first[k],
                          .k = k,
                          .forward = slot->phase == ORR_SLOT_FORWARD,
                          .gathers = orr_stage_gathers_in_slots(l),
                          .gathered_first = chunk->first_forward == i,
                          .last = last,
                          .reduces = gives && (ends_group || (beside && last))};
}

/* Place of the i-th module that the slot runs; a backward slot runs them from the last. */
static uint32_t place_at(const slot_modules *t, uint32_t i)
{
    return t->forward ? t->first + i : t->first + t->n - 1 - i;
}

static void name_node(orr_stage_emitter *l, const orr_module *module, uint8_t phase)
{
    static const char *const phases[ORR_SLOT_PHASES] = {"forward", "backward", "input gradient",
                                                        "weight gradient"};
    if (l->job->detail == ORR_DETAIL_CHUNK)
        snprintf(l->title, sizeof l->title, "%s", phases[phase]);
    else
        snprintf(l->title, sizeof l->title, "%s %s", module->name, phases[phase]);
}

static void enter(orr_stage_emitter *l, const orr_schedule_slot *slot)
{
    l->now = (orr_step_node){
        .phase = slot->phase, .chunk = slot->chunk, .micro_batch = slot->micro_batch};
}

/* Host time of a micro-batch beside its kernels: half in the forward slot, half in the backward
 * slot (assumed). */
static void spend_host(orr_stage_emitter *l, uint8_t phase)
{
    const orr_step_prices *prices = l->job->prices;
    const orr_calibration *c = prices->kernels->calibration;
    if (phase != ORR_SLOT_WEIGHT)
        orr_stage_emit_waterfall_part(
            l, "micro-batch", ORR_WATERFALL_OVERHEAD,
            orr_step_jittered_ns(prices, (int64_t)(c->micro_batch_ns / 2)), c->basis);
}

static void count_phase(orr_stage_emitter *l, const orr_phase_cost *cost)
{
    l->totals.part_ns[ORR_WATERFALL_RECOMPUTE] += cost->again_ns;
    l->totals.flops += cost->flops;
    l->totals.again_flops += cost->again_flops;
    if (orr_stage_emit_per_operator(l))
        return;
    for (int axis = 0; axis < ORR_AXES; axis++) {
        l->totals.busy_ns[axis] += cost->busy_ns[axis];
        l->totals.sent_bytes[axis] += cost->sent_bytes[axis];
    }
}

static void count_waits(orr_stage_emitter *l, const int64_t waited_ns[ORR_AXES])
{
    for (int axis = 0; axis < ORR_AXES; axis++) {
        l->totals.exposed_ns[axis] += waited_ns[axis];
        l->totals.part_ns[orr_axis_waterfall(axis)] += waited_ns[axis];
    }
}

static const orr_phase_cost *cost_of(const orr_stage_emitter *l, const slot_modules *t,
                                     uint32_t place, const orr_module **ret_module)
{
    const uint32_t module = module_at(l->job, t->k, place);
    *ret_module = &l->job->row->modules[module];
    return &l->job->costs[module].phase[t->slot->phase];
}

static void compute_module(orr_stage_emitter *l, const slot_modules *t, uint32_t place)
{
    const orr_module *module;
    const orr_phase_cost *cost = cost_of(l, t, place, &module);
    count_phase(l, cost);
    name_node(l, module, t->slot->phase);
    if (orr_stage_emit_per_operator(l)) {
        const orr_phase_sequence sequence = {&cost, 1};
        orr_stage_emit_operators(l, &sequence, 1, &(const orr_module *const *){&module});
        return;
    }
    count_waits(l, cost->transfer_ns);
    orr_stage_emit_compute(l, cost->span_ns, cost->basis);
    if (l->job->detail == ORR_DETAIL_LAYER)
        orr_stage_emit_flush(l);
}

/* Is the module's weight gathered for this slot? FSDP's root unit (all that is no layer), and with
 * reshard=off the layers, are gathered for the forward pass alone, with a pipeline for the first
 * one. */
static bool gathers_again(const orr_stage_emitter *l, const slot_modules *t,
                          const orr_module *module)
{
    const orr_plan *plan = l->job->plan;
    if (orr_module_is_fsdp_unit(module->kind) && plan->reshard == ORR_SWITCH_ON)
        return true;
    return t->forward && (t->gathered_first || !orr_plan_keeps_gathered(plan));
}

static orr_parameter_elements gathered_by(const orr_stage_emitter *l, const slot_modules *t,
                                          uint32_t i)
{
    const uint32_t id = l->job->row->module_of[place_at(t, i)];
    const orr_module_weights *w = &l->job->weights[id];
    if (!gathers_again(l, t, &l->job->row->modules[id]))
        return (orr_parameter_elements){0};
    return (orr_parameter_elements){w->gathered, w->expert_gathered};
}

enum { AHEAD_MOST = 64 };

/* Starts the gathers of all modules up to the `ahead`-th after the i-th; waits for that of the
 * i-th. */
static void gather_ahead(orr_stage_emitter *l, const slot_modules *t, uint32_t i,
                         orr_node_id gathers[AHEAD_MOST], uint32_t *sent)
{
    const orr_plan *plan = l->job->plan;
    const uint32_t asked = plan->overlap_dp == ORR_SWITCH_ON ? plan->prefetch : 0;
    const uint32_t ahead = asked < AHEAD_MOST ? asked : AHEAD_MOST - 1;
    for (; *sent < t->n && *sent <= i + ahead; (*sent)++) {
        const orr_parameter_elements weights = gathered_by(l, t, *sent);
        gathers[*sent % AHEAD_MOST] = orr_stage_emit_weight_gather(l, &weights, false);
    }
    const orr_parameter_elements weights = gathered_by(l, t, i);
    orr_stage_emit_wait_for_gather(l, &weights, gathers[i % AHEAD_MOST]);
}

/* Adds gradients of the i-th module to the bucket; starts the reduction of a full one. */
static void add_gradients(orr_stage_emitter *l, const slot_modules *t, uint32_t i,
                          orr_parameter_elements *bucket)
{
    const orr_module_weights *w = &l->job->weights[l->job->row->module_of[place_at(t, i)]];
    bucket->dense += w->dense;
    bucket->expert += w->expert;
    if (!orr_stage_gathers_in_slots(l) && i + 1 < t->n && !orr_stage_fills_bucket(l, bucket))
        return;
    orr_stage_emit_gradient_reduction(l, bucket, t->last);
    *bucket = (orr_parameter_elements){0};
}

/* Offloading: activations are copied to the host after the forward slot, and back before the
 * backward slot; the copy back starts with the slot before. */
static void offload(orr_stage_emitter *l, const slot_modules *t, bool before)
{
    const orr_step_job *job = l->job;
    int64_t bytes = 0;
    if (job->kept_bytes == NULL || before != (t->slot->phase != ORR_SLOT_FORWARD) ||
        t->slot->phase == ORR_SLOT_WEIGHT)
        return;
    for (uint32_t i = 0; i < t->n; i++)
        bytes += job->kept_bytes[module_at(job, t->k, t->first + i)];
    const orr_node_id last = orr_stage_emit_flush(l);
    if (before)
        orr_stage_emit_wait(l,
                            orr_stage_emit_host_copy(l, ORR_STEP_IN, bytes, ORR_WATERFALL_OVERHEAD,
                                                     l->before_last_slot));
    else
        orr_stage_emit_host_copy(l, ORR_STEP_OUT, bytes, ORR_WATERFALL_OVERHEAD, last);
}

/* Dependencies of a slot's first module. Gathers that are prefetched for it do not wait for
 * these. */
static void begin(orr_stage_emitter *l, const slot_modules *t)
{
    orr_stage_emit_receive(l, t->slot);
    offload(l, t, true);
    spend_host(l, t->slot->phase);
    for (uint32_t i = 0; i < t->n && t->forward; i++)
        orr_stage_emit_fetch(l, &l->job->costs[module_at(l->job, t->k, t->first + i)].fetch);
}

static void emit_modules(orr_stage_emitter *l, const slot_modules *t)
{
    orr_node_id gathers[AHEAD_MOST];
    orr_parameter_elements bucket = {0};
    uint32_t sent = 0;
    const bool gathers_any = t->gathers && t->slot->phase != ORR_SLOT_WEIGHT;
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t place = place_at(t, i);
        name_node(l, &l->job->row->modules[l->job->row->module_of[place]], t->slot->phase);
        if (gathers_any)
            gather_ahead(l, t, i, gathers, &sent);
        else if (t->gathered_first)
            orr_stage_emit_wait_for_gather(l, &l->heads[place], l->gather_of[place]);
        if (i == 0)
            begin(l, t);
        compute_module(l, t, place);
        if (t->reduces)
            add_gradients(l, t, i, &bucket);
    }
}

static void emit_slot(orr_stage_emitter *l, uint32_t i)
{
    const slot_modules t = slot_modules_of(l, i);
    enter(l, t.slot);
    orr_stage_emit_exposed_transfers(l);
    emit_modules(l, &t);
    const orr_node_id end = orr_stage_emit_flush(l);
    orr_stage_emit_send(l, t.slot);
    offload(l, &t, false);
    l->before_last_slot = l->last_slot;
    l->last_slot = end;
}

static orr_phase_sequence sequence_of(orr_stage_emitter *l, const slot_modules *t,
                                      const orr_module **modules, const orr_phase_cost **phases)
{
    for (uint32_t i = 0; i < t->n; i++) {
        phases[i] = cost_of(l, t, place_at(t, i), &modules[i]);
        count_phase(l, phases[i]);
    }
    return (orr_phase_sequence){phases, t->n};
}

/* Two slots that run at once: gathers before both, reductions after both, since the order in
 * which their modules interleave is not defined. */
static void gather_before(orr_stage_emitter *l, const slot_modules *t)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const uint32_t place = place_at(t, i);
        if (t->gathers && t->slot->phase != ORR_SLOT_WEIGHT) {
            const orr_parameter_elements weights = gathered_by(l, t, i);
            orr_stage_emit_wait_for_gather(l, &weights,
                                           orr_stage_emit_weight_gather(l, &weights, false));
        } else if (t->gathered_first) {
            orr_stage_emit_wait_for_gather(l, &l->heads[place], l->gather_of[place]);
        }
    }
}

static void reduce_after(orr_stage_emitter *l, const slot_modules *t)
{
    orr_parameter_elements bucket = {0};
    for (uint32_t i = 0; i < t->n && t->reduces; i++)
        add_gradients(l, t, i, &bucket);
}

static void compute_pair(orr_stage_emitter *l, const slot_modules t[2])
{
    const uint32_t n = t[0].n + t[1].n;
    const orr_arena_mark mark = orr_arena_get_mark(l->scratch);
    const orr_module **modules = orr_arena_array(l->scratch, const orr_module *, n);
    const orr_phase_cost **phases = orr_arena_array(l->scratch, const orr_phase_cost *, n);
    if (modules == NULL || phases == NULL) {
        l->status = orr_fail_memory(l->err);
        return;
    }
    const orr_phase_sequence both[2] = {sequence_of(l, &t[0], modules, phases),
                                        sequence_of(l, &t[1], modules + t[0].n, phases + t[0].n)};
    const orr_module *const *of[2] = {modules, modules + t[0].n};
    if (orr_stage_emit_per_operator(l)) {
        orr_stage_emit_operators(l, both, 2, of);
    } else {
        orr_phase_simulation played;
        orr_simulate_phases(both, 2, l->job->prices->kernels->calibration->compute_slowdown, NULL,
                            NULL, &played);
        count_waits(l, played.waited_ns);
        played.span_ns += orr_step_launch_wait(l->job->prices, both, 2, played.span_ns);
        orr_stage_emit_compute(l, played.span_ns, n > 0 ? phases[0]->basis : ORR_BASIS_NONE);
    }
    orr_arena_rewind(l->scratch, mark);
}

static void emit_slot_pair(orr_stage_emitter *l, uint32_t i)
{
    const slot_modules t[2] = {slot_modules_of(l, i), slot_modules_of(l, i + 1)};
    enter(l, t[0].slot);
    orr_stage_emit_exposed_transfers(l);
    snprintf(l->title, sizeof l->title, "forward beside backward");
    for (int k = 0; k < 2; k++)
        gather_before(l, &t[k]);
    for (int k = 0; k < 2; k++)
        begin(l, &t[k]);
    compute_pair(l, t);
    const orr_node_id end = orr_stage_emit_flush(l);
    for (int k = 0; k < 2; k++) {
        enter(l, t[k].slot);
        orr_stage_emit_send(l, t[k].slot);
        offload(l, &t[k], false);
    }
    for (int k = 0; k < 2; k++)
        reduce_after(l, &t[k]);
    l->before_last_slot = l->last_slot;
    l->last_slot = end;
}

void orr_stage_emit_slots(orr_stage_emitter *l)
{
    const orr_schedule_plan *schedule = l->job->schedule;
    const uint32_t end = schedule->first[l->stage + 1];
    const bool trains = orr_task_trains(l->job->task);
    for (uint32_t i = schedule->first[l->stage]; i < end && orr_stage_emit_ok(l); i++) {
        const orr_schedule_slot *slot = &schedule->slots[i];
        if (!trains && slot->phase != ORR_SLOT_FORWARD)
            continue;
        if (trains && slot->paired && i + 1 < end)
            emit_slot_pair(l, i++);
        else
            emit_slot(l, i);
    }
}
