/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POST_TRAINING_H
#define POST_TRAINING_H

#include "small_training.h"

#include <math.h>

#include <orrery/engine.h>

/* A tiny model that learns from lines of JSON; its tokens are bytes, and 256 ends a text. */
typedef struct post_training {
    orr_arena *arena;
    const orr_model *model;
    orr_plan plan;
    orr_workload workload;
    orr_train_options options;
    orr_train_result result;
    char data[128];
    orr_error err;
} post_training;

static inline void post_open(post_training *p, const char *folder, orr_task task, const char *plan,
                             int64_t steps)
{
    *p = (post_training){.arena = orr_arena_new(0, 0), .workload = {.task = (uint8_t)task}};
    assert_non_null(p->arena);
    assert_int_equal(orr_model_load("llama2-7b", p->arena, &p->model, &p->err), ORR_OK);
    if (orr_plan_parse(plan, &p->plan, &p->err) != ORR_OK)
        fail_msg("%s", p->err.text);
    (void)snprintf(p->data, sizeof p->data, "%s/lines.jsonl", folder);
    p->options = (orr_train_options){.model = p->model,
                                     .plan = &p->plan,
                                     .workload = &p->workload,
                                     .data = p->data,
                                     .steps = steps,
                                     .rate = 1e-2,
                                     .seed = 4,
                                     .threads = 1,
                                     .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
}

static inline void post_write(const post_training *p, const char *lines)
{
    FILE *file = fopen(p->data, "w");
    assert_non_null(file);
    assert_true(fputs(lines, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static inline void post_run(post_training *p)
{
    if (orr_train(&p->options, p->arena, &p->result, &p->err) != ORR_OK)
        fail_msg("%s", p->err.text);
}

static inline const orr_train_step *post_last(const post_training *p)
{
    return &p->result.history[p->result.steps - 1];
}

#endif /* POST_TRAINING_H */
