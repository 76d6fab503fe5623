/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/estimate.h"

/* Peak memory of the worst stage: what model/memory/memory_plan.c tracks slot by slot, evaluated
 * where the stage has most micro-batches in flight. */

typedef struct class_bytes {
    int64_t states, gathered, kept, apart, largest, summed, transient[ORR_SLOT_PHASES];
} class_bytes;

static void raise(int64_t *most, int64_t bytes)
{
    if (bytes > *most)
        *most = bytes;
}

/* ZeRO 3 (FSDP): gathered weights of the current layer and of prefetched ones; gradients in
 * transfer. */
static int64_t on_their_way(const orr_estimate_draft *d, const orr_module_memory *m, bool back)
{
    const orr_plan *plan = d->plan;
    const int64_t wide = plan->gradients == ORR_PRECISION_FP32 ? 2 : 1;
    int64_t bytes = 0;
    if (plan->zero >= 3 && plan->reshard == ORR_SWITCH_ON)
        bytes += m->gather_bytes * (1 + plan->prefetch);
    if (plan->zero >= 2 && back && orr_plan_gradient_group(plan) == 1)
        bytes += m->gather_bytes * wide;
    return bytes;
}

/* Activations of earlier places: not there yet in the forward pass, freed already in the backward
 * pass. */
static void find_transient(const orr_estimate_draft *d, const orr_stage_class *class, int64_t *ret)
{
    int64_t later = 0, apart = 0;
    for (uint32_t i = 0; i < class->n_ending; i++) {
        const orr_priced_module *module = &d->row->modules[class->ending[i]];
        const orr_module_memory *m = &module->memory;
        const int64_t ahead = orr_module_is_fsdp_unit(module->kind) ? on_their_way(d, m, false) : 0;
        const int64_t behind = orr_module_is_fsdp_unit(module->kind) ? on_their_way(d, m, true) : 0;
        const int64_t back = d->plan->zero >= 2 ? m->owned_peak_bytes : m->backward_peak_bytes;
        raise(&ret[ORR_SLOT_FORWARD], m->forward_peak_bytes + ahead - later);
        raise(&ret[ORR_SLOT_BACKWARD], back + behind - later);
        raise(&ret[ORR_SLOT_INPUT], m->input_peak_bytes + behind + apart - later);
        raise(&ret[ORR_SLOT_WEIGHT], m->weight_peak_bytes + behind - apart);
        later += m->kept_bytes;
        apart += m->apart_bytes;
    }
}

/* Weights of a module that ZeRO 3 keeps gathered. */
static int64_t gathered_bytes(const orr_estimate_draft *d, const orr_priced_module *module)
{
    const bool stays = d->plan->reshard == ORR_SWITCH_OFF || !orr_module_is_fsdp_unit(module->kind);
    return d->plan->zero >= 3 && stays ? module->memory.gather_bytes : 0;
}

static class_bytes bytes_of(const orr_estimate_draft *d, const orr_stage_class *class,
                            const int64_t *states)
{
    class_bytes b = {0};
    find_transient(d, class, b.transient);
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_module_memory *memory = &d->row->modules[m].memory;
        if (class->count[m] == 0)
            continue;
        b.states += class->count[m] * states[m];
        b.gathered += class->count[m] * gathered_bytes(d, &d->row->modules[m]);
        b.kept += class->count[m] * memory->kept_bytes;
        b.apart += class->count[m] * memory->apart_bytes;
        b.summed += class->count[m] * orr_summed_gradient_bytes(memory, d->plan);
        raise(&b.largest, memory->kept_bytes);
    }
    return b;
}

static void weigh_states(const orr_estimate_draft *d, int64_t *ret)
{
    const orr_plan *plan = d->plan;
    for (uint32_t m = 0; m < d->row->row.n_modules; m++) {
        const orr_priced_module *module = &d->row->modules[m];
        const orr_state_bytes s =
            orr_state_bytes_of(&module->memory, plan, d->e->options.workload.task);
        ret[m] = s.weights + s.gradients + s.optimizer + module->memory.derived_bytes;
        ret[m] += gathered_bytes(d, module);
    }
}

/* Buffers of a rank without modules, which do not depend on the stage. */
static orr_status common_buffers(const orr_estimate_draft *d, const orr_device *device,
                                 orr_buffer_bytes *ret, orr_error *err)
{
    static const uint32_t none[2] = {0, 0};
    static const orr_schedule_plan alone = {.spec = {ORR_SCHEDULE_1F1B, 1, 1, 1, 0, false}};
    const orr_stage_map map = {1, 1, none};
    const orr_stage_memory_input parts = {.plan = d->plan,
                                          .task = d->e->options.workload.task,
                                          .device = device,
                                          .row = &d->row->row,
                                          .map = &map,
                                          .schedule = &alone};
    return orr_stage_buffers(&parts, ret, err);
}

static bool fuses_gradients(const orr_estimate_draft *d)
{
    return d->trains && d->plan->zero < 2 && d->plan->precision != ORR_PRECISION_FP32 &&
           d->plan->precision != ORR_PRECISION_TF32;
}

typedef struct activations {
    int64_t kept, transient, summed; /* summed: gradients that wait for their reduction */
} activations;

static activations most_held(const orr_estimate_draft *d, const class_bytes *classes,
                             const orr_schedule_spec *spec, uint32_t stage)
{
    activations most = {0};
    for (uint32_t way = 0; way < ORR_PIPELINE_HELD; way++) {
        activations now = {0};
        int64_t summed = 0;
        for (uint32_t c = 0; c < spec->chunks && d->pipeline->held[way] != NULL; c++) {
            const orr_peak_in_flight *held = &d->pipeline->held[way][stage * spec->chunks + c];
            const class_bytes *b =
                &classes[d->partition->class_of[orr_schedule_virtual_stage_at(spec, stage, c)]];
            now.kept += held->kept * b->kept + held->apart * b->apart;
            raise(&now.transient, b->transient[way / 2]);
            if (d->plan->zero >= 3)
                summed += b->summed;
            else
                raise(&summed, b->summed);
        }
        now.summed = d->trains && way / 2 != ORR_SLOT_FORWARD ? summed : 0;
        if (now.kept + now.transient + now.summed > most.kept + most.transient + most.summed)
            most = now;
    }
    return most;
}

static int64_t stage_bytes(const orr_estimate_draft *d, const class_bytes *classes,
                           const orr_priced_row *row, uint32_t stage)
{
    const orr_schedule_spec spec = orr_plan_schedule(d->plan);
    const bool offloads =
        d->plan->offload == ORR_OFFLOAD_ACTIVATIONS || d->plan->offload == ORR_OFFLOAD_BOTH;
    activations held = most_held(d, classes, &spec, stage);
    int64_t states = 0, gathered = 0, window = 0;
    uint32_t ends = 0;
    for (uint32_t c = 0; c < spec.chunks; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&spec, stage, c);
        const class_bytes *b = &classes[d->partition->class_of[k]];
        states += b->states;
        gathered += b->gathered;
        raise(&window, 2 * b->largest);
        ends |= (k == 0) | (k + 1 == d->partition->virtual_stages ? 2U : 0);
    }
    if (offloads && held.kept > window)
        held.kept = window;
    const int64_t visible = fuses_gradients(d) ? row->buffer_bytes[ends] : 0;
    const int64_t come_and_go = held.kept + held.transient;
    return states + come_and_go + held.summed + visible +
           orr_fragmentation_bytes(come_and_go + held.summed + gathered);
}

static uint32_t index_of(const orr_estimate_draft *d, uint32_t stage)
{
    return d->pattern->of_stage != NULL ? d->pattern->of_stage[stage] : 0;
}

/* Unknown memory ranks above any known excess. */
static int64_t over_bytes(const orr_stage_peak *peak)
{
    return peak->bytes - (peak->usable_bytes >= 0 ? peak->usable_bytes : INT64_MAX / 2);
}

orr_status orr_estimate_memory(const orr_estimate_draft *d, orr_stage_peak *ret, orr_error *err)
{
    int64_t states[ORR_ROW_MODULES], common[ORR_SITES_MAX + 1];
    class_bytes classes[ORR_STAGE_CLASSES];
    orr_stage_peak worst = {0};
    for (uint32_t i = 0; i < d->pattern->n; i++) {
        orr_buffer_bytes buffers;
        ORR_TRY(common_buffers(d, d->e->devices[d->pattern->device[i]].device, &buffers, err));
        common[i] = buffers.hidden + (fuses_gradients(d) ? 0 : buffers.visible);
    }
    weigh_states(d, states);
    for (uint32_t c = 0; c < d->partition->n_classes; c++)
        classes[c] = bytes_of(d, &d->partition->classes[c], states);
    for (uint32_t s = 0; s < d->partition->stages; s++) {
        const uint32_t i = index_of(d, s);
        const orr_stage_peak peak = {stage_bytes(d, classes, d->rows[i], s) + common[i],
                                     d->e->devices[d->pattern->device[i]].usable_bytes};
        if (s == 0 || over_bytes(&peak) > over_bytes(&worst))
            worst = peak;
    }
    *ret = worst;
    return ORR_OK;
}
