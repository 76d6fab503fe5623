/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_JOB_H
#define SMALL_JOB_H

#include <math.h>

#include "small_module.h"

#include "model/schedule/schedule.h"

/* A model of an embedding, four layers and a head, put down by hand. */
enum { SMALL_LAYERS = 4, SMALL_PLACES = SMALL_LAYERS + 2 };
typedef struct small_job {
    small_module parts[3];
    orr_module modules[3];
    orr_module_memory memory[3];
    uint8_t module_of[SMALL_PLACES];
    uint32_t first[SMALL_PLACES + 1];
    orr_model model;
    orr_workload workload;
    orr_plan plan;
    orr_device device;
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_arena *arena;
    orr_stage_memory_input stage;
    orr_memory_plan_input job;
} small_job;

static inline void small_job_make(small_job *j, orr_plan plan, orr_task task)
{
    static const uint8_t kinds[] = {ORR_MODULE_EMBEDDING, ORR_MODULE_LAYER, ORR_MODULE_HEAD};
    memset(j, 0, sizeof *j);
    j->arena = orr_arena_new(0, 0);
    j->plan = orr_plan_with_defaults(&plan);
    j->workload.task = (uint8_t)task;
    j->model = (orr_model){.name = "small",
                           .layers = SMALL_LAYERS,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 8,
                           .context = 64};
    for (int i = 0; i < 3; i++) {
        small_layer(&j->parts[i], kinds[i], orr_task_trains((uint8_t)task));
        j->modules[i] = j->parts[i].module;
    }
    j->parts[2].s.values[j->parts[2].w].type.dim[1] = 10 * SMALL_COLUMNS; /* the head's is wider */
    for (int i = 0; i < 3; i++)
        assert_int_equal(orr_module_memory_of(&j->modules[i], &j->memory[i], NULL), ORR_OK);
    memset(j->module_of, 1, sizeof j->module_of);
    j->module_of[0] = 0;
    j->module_of[SMALL_PLACES - 1] = 2;
    j->row = (orr_module_sequence){.modules = j->modules,
                                   .n_modules = 3,
                                   .n = SMALL_PLACES,
                                   .module_of = j->module_of,
                                   .recomputed_of = j->module_of};
    const orr_schedule_spec spec = orr_plan_schedule(&j->plan);
    const uint32_t n = orr_schedule_virtual_stages(&spec);
    assert_int_equal(orr_schedule_make(&spec, j->arena, &j->schedule, NULL), ORR_OK);
    for (uint32_t k = 0; k <= n; k++)
        j->first[k] = k == 0 ? 0 : k == n ? SMALL_PLACES : 1 + k * SMALL_LAYERS / n;
    j->map = (orr_stage_map){.stages = n, .chunks = 1, .first = j->first};
    j->stage = (orr_stage_memory_input){.plan = &j->plan,
                                        .task = (uint8_t)task,
                                        .row = &j->row,
                                        .memory = j->memory,
                                        .map = &j->map,
                                        .schedule = &j->schedule};
    j->job = (orr_memory_plan_input){.model = &j->model,
                                     .plan = &j->plan,
                                     .workload = &j->workload,
                                     .row = &j->row,
                                     .map = &j->map,
                                     .schedule = &j->schedule};
}

/* A device of so much memory, with fp8 or without. */
static inline void small_job_device(small_job *j, double bytes, bool fp8)
{
    j->device.memory_bytes = (orr_fact){.value = bytes, .basis = ORR_FACT_PUBLISHED};
    if (fp8)
        j->device.peak_flops[ORR_DTYPE_FP8] =
            (orr_fact){.value = 1e15, .basis = ORR_FACT_PUBLISHED};
    else
        j->device.peak_flops[ORR_DTYPE_FP8] = (orr_fact){.value = NAN};
    j->stage.device = j->job.device = &j->device;
}

static inline void small_job_done(small_job *j)
{
    orr_arena_free(j->arena);
}

#endif /* SMALL_JOB_H */
