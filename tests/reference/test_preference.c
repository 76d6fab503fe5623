/* SPDX-License-Identifier: Apache-2.0 */
/* Three steps of direct preference optimisation from the tiny Llama 3, against PyTorch's
 * (checkpoints/make_preference.py): losses, norms of gradients, accuracies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/train/trainer.h"
#include "io/yaml/yaml.h"

enum { STEPS = 3, PAIRS = 2, TOKENS = 12, DEADLINE_S = 60 };
#define TOLERANCE 1e-4

typedef struct golden {
    orr_arena *arena;
    const char *folder;
    const orr_yaml *about;
    orr_train_options options;
    orr_train_job training;
    orr_dataset batches;
} golden;

static double number_of(const orr_yaml *value)
{
    double n = NAN;
    assert_int_equal(orr_yaml_number(value, &n, NULL), ORR_OK);
    return n;
}

static const orr_yaml *row_of(const golden *g, const char *what, uint64_t row)
{
    return orr_yaml_find(g->about, what)->values[row];
}

static void fill(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    const golden *g = self->ctx;
    for (uint64_t i = 0; i < 2 * TOKENS; i++) {
        const uint64_t row = 2 * index + i / TOKENS, at = i % TOKENS;
        ret->tokens[i] = (int64_t)number_of(row_of(g, "tokens", row)->values[at]);
        ret->targets[i] = (int64_t)number_of(row_of(g, "targets", row)->values[at]);
        ret->weights[i] = (float)number_of(row_of(g, "counts", row)->values[at]);
    }
}

static int64_t counted(const orr_dataset *self, uint64_t index)
{
    (void)self;
    (void)index;
    return TOKENS;
}

static const char *path_of(golden *g, const char *file)
{
    const char *source = getenv("ORRERY_SOURCE");
    const char *path = orr_arena_printf(g->arena, "%s/tests/reference/checkpoints/llama3/%s",
                                        source != NULL ? source : ".", file);
    assert_non_null(path);
    return path;
}

static void open_golden(golden *g, const char *plan)
{
    orr_error err = {.text = ""};
    orr_plan asked;
    *g = (golden){.arena = orr_arena_new(0, 0)};
    assert_int_equal(orr_yaml_load(path_of(g, "preference.json"), g->arena, &g->about, NULL),
                     ORR_OK);
    g->folder = path_of(g, "");
    if (orr_model_load(path_of(g, "config.json"), g->arena, &g->training.model, &err) != ORR_OK ||
        orr_plan_parse(plan, &asked, &err) != ORR_OK)
        fail_msg("%s", err.text);
    g->training.plan = orr_plan_with_defaults(&asked);
    g->training.workload = (orr_workload){.task = ORR_TASK_DPO, .seq = TOKENS};
    g->training.options = &g->options;
    g->training.task = &orr_train_task_dpo;
    g->training.batches = &g->batches;
    g->options.dpo_beta = number_of(orr_yaml_find(g->about, "beta"));
    g->options.dpo_nll = number_of(orr_yaml_find(g->about, "nll"));
    g->batches = (orr_dataset){.name = "golden",
                               .tokens = 2 * TOKENS,
                               .n = PAIRS,
                               .ctx = g,
                               .fill = fill,
                               .counted = counted,
                               .epoch = UINT64_MAX};
}

static orr_status run_steps(golden *g, orr_trainer *t, orr_error *err)
{
    orr_update update = {.rate = number_of(orr_yaml_find(g->about, "rate")),
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .epsilon = 1e-8,
                         .decay = 0.1,
                         .gradient_scale = 1};
    for (int i = 0; i < STEPS; i++) {
        const orr_yaml *want = orr_yaml_find(g->about, "steps")->values[i];
        orr_train_step told = {0};
        orr_step_result r;
        update.step = i + 1;
        ORR_TRY(g->training.task->feed(t, (uint64_t)i, err));
        ORR_TRY(orr_engine_step_run(t->step, t->inputs, &update, 0, NULL, &r, err));
        ORR_TRY(g->training.task->evaluate(t, &r, &told, err));
        const double loss = number_of(orr_yaml_find(want, "loss"));
        const double norm = number_of(orr_yaml_find(want, "gradient_norm"));
        const double right = number_of(orr_yaml_find(want, "accuracy"));
        if (!(fabs(told.loss - loss) < TOLERANCE * loss &&
              fabs(r.gradient_norm - norm) < TOLERANCE * norm &&
              (i == 0 ? told.reward == 0.5 : told.reward == right))) /* margins of 0 are ties */
            return orr_fail(err, ORR_INVALID,
                            "step %d: loss %.7f, should be %.7f; norm %.7f, should be %.7f; "
                            "accuracy %g, should be %g",
                            i + 1, told.loss, loss, r.gradient_norm, norm, told.reward, right);
    }
    return ORR_OK;
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    golden *g = ctx;
    orr_trainer t = {
        .training = &g->training, .transport = transport, .arena = orr_arena_new(0, 0)};
    orr_step_source source = {.model = g->training.model,
                              .plan = &g->training.plan,
                              .workload = &g->training.workload,
                              .transport = transport,
                              .objective = g->training.task->objective,
                              .objective_ctx = &t};
    orr_status status = orr_backend_cpu(&source.backend, err);
    if (status == ORR_OK)
        status = orr_engine_step_make(&source, &t.step, err);
    if (status == ORR_OK)
        status = orr_train_read_weights(&t, g->folder, err);
    if (status == ORR_OK)
        status = orr_engine_step_weights_changed(t.step, err);
    if (status == ORR_OK)
        status = g->training.task->open(&t, err);
    if (status == ORR_OK)
        status = run_steps(g, &t, err);
    orr_engine_step_free(t.step);
    orr_arena_free(t.arena);
    return status;
}

static void train(const char *plan, const char *reference)
{
    golden g;
    orr_error err = {.text = ""};
    open_golden(&g, plan);
    g.options.reference = reference != NULL ? g.folder : NULL;
    if (orr_ranks_run((uint32_t)orr_plan_ranks(&g.training.plan), ORR_RANKS_SHM,
                      DEADLINE_S * INT64_C(1000000000), run_rank, &g, &err) != ORR_OK)
        fail_msg("%s: %s", plan, err.text);
    orr_arena_free(g.arena);
    orr_free(g.batches.order);
}

#define PLAN "seq=12,precision=fp32,gradients=fp32"

static void preferences(void **state)
{
    (void)state;
    train(PLAN ",micro_batch=4", NULL);
    train(PLAN ",micro_batch=4", "itself");
    train(PLAN ",micro_batch=2,batch=4", NULL);
    train(PLAN ",micro_batch=2,dp=2", NULL);
    train(PLAN ",micro_batch=2,dp=2,zero=2", "itself");
    train(PLAN ",micro_batch=4,tp=2", NULL);
    train(PLAN ",micro_batch=2,batch=4,pp=2", NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(preferences)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
