/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_TRAINING_H
#define SMALL_TRAINING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "engine/step/step.h"

#include "../io/folder.h"

/* A tiny model of the catalogue on one rank, and samples whose tokens follow a rule. */
#define SMALL_PLAN "layers=2,hidden=32,ffn=64,heads=4,vocab=64,seq=16,precision=fp32"
enum { SMALL_TOKENS = 16, SMALL_VOCAB = 64, SMALL_MICRO_BATCHES = 8 };

typedef struct small_training {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_workload workload;
    orr_step_source source;
    orr_engine_step *step;
    orr_step_inputs inputs[SMALL_MICRO_BATCHES];
    orr_update update;
    orr_status status;
    orr_error err;
} small_training;

static inline void small_read(small_training *t, const char *model, const char *plan)
{
    orr_plan asked;
    *t = (small_training){.arena = orr_arena_new(0, 0)};
    assert_non_null(t->arena);
    if (orr_model_load(model, t->arena, &t->model, &t->err) != ORR_OK ||
        orr_plan_parse(plan, &asked, &t->err) != ORR_OK ||
        orr_model_override(t->model, &asked, t->arena, &t->model, &t->err) != ORR_OK)
        fail_msg("%s, %s: %s", model, plan, t->err.text);
    t->plan = orr_plan_with_defaults(&asked);
    if (orr_plan_check(&t->plan, &t->err) != ORR_OK)
        fail_msg("%s: %s", plan, t->err.text);
    t->workload = (orr_workload){.task = ORR_TASK_PRETRAIN};
    t->update = (orr_update){
        .rate = 1e-2, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .step = 1, .gradient_scale = 1};
    t->source = (orr_step_source){.model = t->model,
                                  .plan = &t->plan,
                                  .workload = &t->workload,
                                  .transport = orr_transport_self(),
                                  .seed = 7};
    assert_int_equal(orr_backend_cpu(&t->source.backend, &t->err), ORR_OK);
}

static inline void small_fill(small_training *t)
{
    const int64_t n = (int64_t)t->plan.micro_batch * SMALL_TOKENS;
    for (uint32_t i = 0; i < t->plan.micro_batches; i++) {
        int64_t *tokens = orr_arena_array(t->arena, int64_t, (size_t)n);
        int64_t *targets = orr_arena_array(t->arena, int64_t, (size_t)n);
        float *weights = orr_arena_array(t->arena, float, (size_t)n);
        assert_true(tokens != NULL && targets != NULL && weights != NULL);
        for (int64_t k = 0; k < n; k++) {
            tokens[k] = (k * 5 + i * 3) % SMALL_VOCAB;
            targets[k] = (tokens[k] * 3 + 1) % SMALL_VOCAB;
            weights[k] = 1.0F / (float)(n * t->plan.micro_batches);
        }
        t->inputs[i] = (orr_step_inputs){.tokens = tokens, .targets = targets, .weights = weights};
    }
}

static inline small_training small_open(const char *model, const char *plan)
{
    small_training t;
    small_read(&t, model, plan);
    small_fill(&t);
    return t;
}

/* The source points into the training: once it stands where it stays. */
static inline orr_status small_try(small_training *t)
{
    t->source.plan = &t->plan;
    t->source.workload = &t->workload;
    return orr_engine_step_make(&t->source, &t->step, &t->err);
}

static inline void small_make(small_training *t)
{
    if (small_try(t) != ORR_OK)
        fail_msg("%s", t->err.text);
}

static inline orr_step_result small_run(small_training *t)
{
    orr_step_result r = {0};
    if (orr_engine_step_run(t->step, t->inputs, &t->update, 0, NULL, &r, &t->err) != ORR_OK)
        fail_msg("%s", t->err.text);
    t->update.step++;
    return r;
}

static inline void small_close(small_training *t)
{
    orr_engine_step_free(t->step);
    orr_arena_free(t->arena);
}

#endif /* SMALL_TRAINING_H */
