/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "engine/step/step_state.h"

/* Makes a step: modules, parameters, memory, tape, program. */

/* Where things stand that are only measured: apart from one another, as their addresses say which
 * calls wait for which. */
static const uint64_t MADE_UP_ADDRESS = UINT64_C(1) << 56;

orr_status orr_step_allocate(orr_engine_step *step, size_t bytes, int64_t *count, void *ret,
                             orr_error *err)
{
    orr_backend *backend = step->source.backend;
    const size_t room = (bytes + 63) / 64 * 64 + 64;
    void *data = (void *)(uintptr_t)(MADE_UP_ADDRESS + step->measured_bytes);
    step->measured_bytes += room;
    *count += (int64_t)bytes;
    if (!step->measures) {
        if (!orr_array_reserve(&step->held, 1) || !orr_array_reserve(&step->held_bytes, 1))
            return orr_fail_memory(err);
        ORR_TRY(backend->allocate(backend, room, &data, err));
        orr_array_push(&step->held, data);
        orr_array_push(&step->held_bytes, room);
        memset(data, 0, room);
    }
    memcpy(ret, &data, sizeof data);
    return ORR_OK;
}

static orr_status refuse_recommendation(const orr_plan *plan, orr_error *err)
{
    if (plan->precision != ORR_PRECISION_FP32)
        return orr_fail(err, ORR_UNSUPPORTED, "recommendation models are trained in fp32");
    if (orr_plan_ranks(plan) != plan->dp)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "recommendation models are trained on replicas (dp) alone");
    if (plan->zero > 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "zero=%u: recommendation models keep their dense part on every rank",
                        plan->zero);
    return ORR_OK;
}

static orr_status refuse(const orr_step_source *s, orr_error *err)
{
    const orr_plan *plan = s->plan;
    if (plan->schedule == ORR_SCHEDULE_DUALPIPE && plan->pp > 1)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "schedule=dualpipe is simulated, not run: 1f1b, gpipe, interleaved, zb_h1 "
                        "and zb_v are");
    if (plan->precision != ORR_PRECISION_FP32 && plan->precision != ORR_PRECISION_BF16)
        return orr_fail(err, ORR_UNSUPPORTED, "training here is in fp32 or bf16");
    if (s->model->mtp > 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "layers that predict further tokens (mtp) are not trained here");
    if (s->sgd && plan->precision != ORR_PRECISION_FP32)
        return orr_fail(err, ORR_UNSUPPORTED, "sgd here is in fp32");
    if (plan->offload != ORR_OFFLOAD_NONE)
        return orr_fail(err, ORR_UNSUPPORTED, "offload: all memory is the host's here");
    return s->model->kind == ORR_MODEL_DLRM ? refuse_recommendation(plan, err) : ORR_OK;
}

static orr_status build_modules(orr_engine_step *step, orr_error *err)
{
    const orr_step_source *s = &step->source;
    const orr_schedule_spec spec = orr_plan_schedule(&step->plan);
    orr_workload workload = *s->workload;
    workload.real = true;
    ORR_TRY(orr_modules_build(s->model, &step->plan, &workload, step->arena, &step->row, err));
    ORR_TRY(orr_stage_map_make(&step->row, &step->plan, step->arena, &step->map, err));
    ORR_TRY(orr_schedule_make(&spec, step->arena, &step->schedule, err));
    step->modules = orr_arena_array(step->arena, orr_module, step->row.n_modules);
    if (step->modules == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < step->row.n_modules; i++)
        ORR_TRY(orr_module_specialize(&step->row.modules[i], &step->plan, step->rank, step->arena,
                                      &step->modules[i], err));
    return ORR_OK;
}

static orr_status place_modules(orr_engine_step *step, orr_error *err)
{
    const orr_module **at = orr_arena_array(step->arena, const orr_module *, step->row.n);
    const orr_stage_memory_input parts = {
        .plan = &step->plan, .row = &step->row, .map = &step->map};
    if (at == NULL)
        return orr_fail_memory(err);
    for (uint32_t chunk = 0; chunk < step->schedule.spec.chunks; chunk++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&step->schedule.spec, step->stage, chunk);
        for (uint32_t place = step->map.first[k]; place < step->map.first[k + 1]; place++)
            at[place] = &step->modules[orr_module_at(&parts, k, place)];
    }
    step->at_place = at;
    return ORR_OK;
}

static bool has_slot(const orr_engine_step *step, const orr_tape_value *value)
{
    for (uint32_t i = 0; i < step->n_slots; i++)
        if (strcmp(step->slots[i].name, value->name) == 0 &&
            memcmp(&step->slots[i].type, &value->type, sizeof value->type) == 0)
            return true;
    return false;
}

/* Default positions: those within the sample. */
static void fill_positions(orr_engine_step *step, const orr_step_input_buffer *slot)
{
    const int64_t samples = slot->type.dim[0], tokens = slot->type.dim[1];
    for (uint32_t m = 0; m < step->plan.micro_batches && !step->measures; m++)
        for (uint32_t i = 0; i < slot->own.by[1].n; i++)
            for (int64_t k = 0; k < slot->own.by[1].piece[i].count; k++)
                for (int64_t b = 0; b < samples; b++)
                    ((int64_t *)(void *)(slot->data +
                                         m * slot->bytes))[b * tokens +
                                                           slot->own.by[1].piece[i].own + k] =
                        slot->own.by[1].piece[i].whole + k;
}

static orr_status add_slot(orr_engine_step *step, const orr_module *module, orr_value v,
                           orr_error *err)
{
    const orr_tape_value *value = &module->tape->values[v];
    orr_step_input_buffer *slot = &step->slots[step->n_slots];
    if (step->n_slots == ORR_STEP_INPUT_BUFFERS)
        return orr_fail(err, ORR_UNSUPPORTED, "the %s takes over %d inputs", module->name,
                        ORR_STEP_INPUT_BUFFERS);
    *slot = (orr_step_input_buffer){
        .name = value->name, .type = value->type, .bytes = (size_t)orr_type_bytes(&value->type)};
    slot->bytes = (slot->bytes + 63) / 64 * 64;
    ORR_TRY(orr_module_local_shard(module, &step->plan, step->rank, v, &slot->own, err));
    ORR_TRY(orr_step_allocate(step, slot->bytes * step->plan.micro_batches, &step->memory.buffers,
                              &slot->data, err));
    step->n_slots++;
    if (strcmp(slot->name, "positions") == 0)
        fill_positions(step, slot);
    return ORR_OK;
}

/* Buffers for token losses and their derivatives. */
static orr_status hold_losses(orr_engine_step *step, const orr_module *module, orr_error *err)
{
    for (uint32_t c = 0; c < module->tape->n_calls; c++) {
        const orr_tape_call *call = &module->tape->calls[c];
        if (call->pass == ORR_PASS_FORWARD && strcmp(call->name, "loss") == 0)
            step->loss_n = orr_type_elements(&module->tape->values[call->out[0]].type);
    }
    const size_t bytes = (size_t)step->loss_n * step->plan.micro_batches * sizeof(float);
    ORR_TRY(orr_step_allocate(step, bytes, &step->memory.buffers, &step->loss, err));
    if (step->source.model->kind == ORR_MODEL_DLRM) {
        ORR_TRY(orr_step_allocate(step, bytes, &step->memory.buffers, &step->logits, err));
        step->block_losses =
            orr_arena_array(step->arena, orr_step_metrics, step->plan.micro_batches);
        if (step->block_losses == NULL)
            return orr_fail_memory(err);
    }
    return orr_step_allocate(step, bytes, &step->memory.buffers, &step->seed, err);
}

static orr_status make_seedings(orr_engine_step *step, orr_error *err)
{
    const uint32_t n = step->plan.micro_batches;
    if (step->source.objective == NULL || step->loss == NULL)
        return ORR_OK;
    step->seedings = orr_arena_array(step->arena, orr_step_objective_call, n);
    if (step->seedings == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        step->seedings[i] = (orr_step_objective_call){step, i};
    return ORR_OK;
}

static orr_status hold_inputs(orr_engine_step *step, orr_error *err)
{
    for (uint32_t place = 0; place < step->row.n; place++) {
        const orr_module *module = step->at_place[place];
        for (uint32_t v = 0; module != NULL && v < module->tape->n_values; v++) {
            const orr_tape_value *value = &module->tape->values[v];
            if (value->role == ORR_VALUE_INPUT && v != module->in && !has_slot(step, value))
                ORR_TRY(add_slot(step, module, v, err));
        }
        if (module != NULL && (module->kind == ORR_MODULE_HEAD || module->kind == ORR_MODULE_BODY))
            ORR_TRY(hold_losses(step, module, err));
    }
    const size_t zeros = (size_t)ORR_BUCKET_ALIGN * ((size_t)orr_plan_ranks(&step->plan) + 1);
    return orr_step_allocate(step, zeros * sizeof(float), &step->memory.buffers, &step->zeros, err);
}

static orr_program_source source_of(const orr_engine_step *step, const orr_step_program *p)
{
    return (orr_program_source){.tape = &p->tape,
                                .calls = p->calls.at,
                                .bindings = p->bindings.at,
                                .deps = p->deps.at,
                                .n_deps = (uint32_t)p->deps.n,
                                .communicators = step->communicators,
                                .backend = step->source.backend,
                                .workers = step->source.workers,
                                .seed = step->source.seed};
}

static void count_memory(orr_engine_step *step, const orr_program_memory *m)
{
    step->memory.activations += m->planned_bytes + m->kept_bytes;
    step->memory.workspace += m->workspace_bytes;
    const orr_step_memory *all = &step->memory;
    step->memory.total = all->weights + all->gradients + all->optimizer + all->activations +
                         all->workspace + all->buffers;
}

orr_status orr_step_make_program(orr_engine_step *step, bool trains, orr_error *err)
{
    orr_step_program *p = trains ? &step->train : &step->score;
    orr_program_memory memory;
    ORR_TRY(orr_step_write(step, trains, p, err));
    const orr_program_source source = source_of(step, p);
    if (step->measures) {
        ORR_TRY(orr_program_measure(&source, &memory, err));
    } else {
        ORR_TRY(orr_program_make(&source, &p->program, err));
        memory = orr_program_memory_of(p->program);
    }
    count_memory(step, &memory);
    return ORR_OK;
}

static orr_status prepare(orr_engine_step *step, orr_error *err)
{
    ORR_TRY(refuse(&step->source, err));
    ORR_TRY(build_modules(step, err));
    ORR_TRY(place_modules(step, err));
    ORR_TRY(orr_step_order_experts(step, err));
    ORR_TRY(orr_step_list_parameters(step, err));
    ORR_TRY(orr_step_fill_buckets(step, err));
    ORR_TRY(orr_step_allocate_buckets(step, err));
    ORR_TRY(hold_inputs(step, err));
    ORR_TRY(orr_step_hold_choices(step, err));
    ORR_TRY(orr_step_open_tables(step, err));
    ORR_TRY(orr_step_allocate_reductions(step, err));
    ORR_TRY(orr_step_list_spans(step, err));
    return make_seedings(step, err);
}

static orr_status open_step(const orr_step_source *source, bool measures, orr_engine_step **ret,
                            orr_error *err)
{
    orr_engine_step *step = orr_calloc(1, sizeof *step);
    if (step == NULL)
        return orr_fail_memory(err);
    step->arena = orr_arena_new(0, 0);
    step->source = *source;
    step->plan = *source->plan;
    step->measures = measures;
    step->rank = source->transport != NULL ? source->transport->rank : 0;
    step->at = orr_plan_coordinates(&step->plan, step->rank);
    step->stage = step->at.at[ORR_AXIS_PP];
    step->stream = step->plan.precision == ORR_PRECISION_FP32 ? ORR_DTYPE_FP32 : ORR_DTYPE_BF16;
    *ret = step;
    return step->arena == NULL ? orr_fail_memory(err) : ORR_OK;
}

static void close_program(orr_step_program *p)
{
    orr_program_free(p->program);
    orr_array_done(&p->calls);
    orr_array_done(&p->bindings);
    orr_array_done(&p->deps);
}

void orr_engine_step_free(orr_engine_step *step)
{
    if (step == NULL)
        return;
    close_program(&step->train);
    close_program(&step->score);
    orr_step_close_tables(step);
    for (size_t i = 0; i < step->held.n; i++)
        step->source.backend->release(step->source.backend, step->held.at[i],
                                      step->held_bytes.at[i]);
    orr_array_done(&step->held);
    orr_array_done(&step->held_bytes);
    orr_arena_free(step->arena);
    orr_free(step);
}

orr_status orr_engine_step_make_unallocated(const orr_step_source *source, orr_engine_step **ret,
                                            orr_error *err)
{
    orr_engine_step *step = NULL;
    orr_status status = open_step(source, true, &step, err);
    if (status == ORR_OK)
        status = prepare(step, err);
    if (status == ORR_OK)
        status = orr_step_make_communicators(step, err);
    if (status == ORR_OK)
        status = orr_step_make_program(step, true, err);
    if (status == ORR_OK)
        *ret = step;
    else
        orr_engine_step_free(step);
    return status;
}

orr_program_source orr_engine_step_program(const orr_engine_step *step)
{
    return source_of(step, &step->train);
}

orr_status orr_engine_step_measure(const orr_step_source *source, orr_step_memory *ret,
                                   orr_error *err)
{
    orr_engine_step *step;
    ORR_TRY(orr_engine_step_make_unallocated(source, &step, err));
    *ret = step->memory;
    orr_engine_step_free(step);
    return ORR_OK;
}

/* Compares the memory that the step needs with what is free, before any is taken. */
static orr_status check_room(const orr_step_source *source, orr_error *err)
{
    orr_backend *backend = source->backend;
    const int64_t room = backend->free_bytes != NULL ? backend->free_bytes(backend) : -1;
    orr_step_memory need;
    ORR_TRY(orr_engine_step_measure(source, &need, err));
    if (room < 0 || need.total <= room)
        return ORR_OK;
    return orr_fail(err, ORR_LIMIT,
                    "a step of this plan needs %.2f GiB on rank %u, %.2f GiB are free",
                    (double)need.total / 0x1p30, source->transport->rank, (double)room / 0x1p30);
}

orr_status orr_engine_step_make(const orr_step_source *source, orr_engine_step **ret,
                                orr_error *err)
{
    orr_engine_step *step = NULL;
    orr_status status;
    ORR_TRY(check_room(source, err));
    ORR_TRY_OUT(status, open_step(source, false, &step, err));
    ORR_TRY_OUT(status, prepare(step, err));
    ORR_TRY_OUT(status, orr_step_make_communicators(step, err));
    ORR_TRY_OUT(status, orr_step_make_program(step, true, err));
    orr_step_initialize_parameters(step);
    ORR_TRY_OUT(status, orr_engine_step_weights_changed(step, err));
    *ret = step;
out:
    if (status != ORR_OK)
        orr_engine_step_free(step);
    return status;
}
