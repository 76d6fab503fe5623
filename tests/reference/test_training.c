/* SPDX-License-Identifier: Apache-2.0 */
/* Three steps of AdamW from tiny checkpoints, against PyTorch's (checkpoints/README.md): losses,
 * norms of gradients, gradients and parameters, on one rank and on two. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "engine/step/shard_runs.h"
#include "engine/train/trainer.h"
#include "io/yaml/yaml.h"
#include "weights/store.h"

enum { STEPS = 3, SAMPLES = 2, TOKENS = 24, NAME_CHARS = 256, DEADLINE_S = 120 };

/* Losses and gradients are sums in fp32 in another order. Adam divides gradients by their own size,
 * so parameters are compared in rates, and not where the first gradient is no more than what
 * rounding leaves of sums that cancel: of biases of keys, which move no probability, all of them.
 */
#define LOSS_TOLERANCE     2e-5
#define GRADIENT_TOLERANCE 5e-5
#define AFTER_RATES        1e-3
#define ROUNDING           1e-5

typedef struct golden {
    orr_arena *arena;
    const char *folder;
    const orr_model *model;
    orr_weights *weights, *numbers;
    double loss[STEPS], norm[STEPS], rate;
    int64_t tokens[SAMPLES * TOKENS], targets[SAMPLES * TOKENS];
    float weight[SAMPLES * TOKENS];
    const char *plan_text;
    orr_plan plan;
    orr_workload workload;
    uint32_t compared; /* numbers of this rank */
} golden;

static const char *path_of(const golden *g, const char *file)
{
    const char *path = orr_arena_printf(g->arena, "%s/%s", g->folder, file);
    assert_non_null(path);
    return path;
}

static double number_at(const orr_yaml *map, const char *key)
{
    double number = NAN;
    assert_int_equal(orr_yaml_number(orr_yaml_find(map, key), &number, NULL), ORR_OK);
    return number;
}

static void read_ids(const orr_yaml *rows, int64_t *ret)
{
    assert_int_equal(rows->n, SAMPLES);
    for (uint32_t i = 0; i < SAMPLES; i++) {
        assert_int_equal(rows->values[i]->n, TOKENS);
        for (uint32_t k = 0; k < TOKENS; k++)
            assert_int_equal(orr_yaml_int(rows->values[i]->values[k], ret++, NULL), ORR_OK);
    }
}

static void read_steps(golden *g)
{
    const orr_yaml *about;
    assert_int_equal(orr_yaml_load(path_of(g, "train.json"), g->arena, &about, NULL), ORR_OK);
    const orr_yaml *steps = orr_yaml_find(about, "steps");
    assert_int_equal(steps->n, STEPS);
    for (uint32_t i = 0; i < STEPS; i++) {
        g->loss[i] = number_at(steps->values[i], "loss");
        g->norm[i] = number_at(steps->values[i], "gradient_norm");
    }
    g->rate = number_at(orr_yaml_find(about, "adamw"), "lr");
    read_ids(orr_yaml_find(about, "tokens"), g->tokens);
    read_ids(orr_yaml_find(about, "targets"), g->targets);
    for (int i = 0; i < SAMPLES * TOKENS; i++)
        g->weight[i] = 1.0F / (SAMPLES * TOKENS);
}

static void open_golden(golden *g, const char *family, const char *plan)
{
    const char *source = getenv("ORRERY_SOURCE");
    orr_error err = {.text = ""};
    orr_plan asked;
    *g = (golden){.arena = orr_arena_new(0, 0), .plan_text = plan};
    g->folder = orr_arena_printf(g->arena, "%s/tests/reference/checkpoints/%s",
                                 source != NULL ? source : ".", family);
    if (orr_weights_open(g->folder, &g->weights, &err) != ORR_OK ||
        orr_weights_open(path_of(g, "train.safetensors"), &g->numbers, &err) != ORR_OK ||
        orr_model_of_weights(g->weights, g->arena, &g->model, &err) != ORR_OK ||
        orr_plan_parse(plan, &asked, &err) != ORR_OK)
        fail_msg("%s: %s", family, err.text);
    read_steps(g);
    g->workload = (orr_workload){.task = ORR_TASK_PRETRAIN, .seq = TOKENS};
    g->plan = orr_plan_with_defaults(&asked);
    if (orr_plan_check(&g->plan, &err) != ORR_OK)
        fail_msg("%s: %s", plan, err.text);
}

static void close_golden(golden *g)
{
    orr_weights_close(g->weights);
    orr_weights_close(g->numbers);
    orr_arena_free(g->arena);
}

/* A tensor of the checkpoint as the golden file has it under `prefix`; NULL: it has not. Mixtral's
 * experts stand in one tensor there. */
static const float *known(const golden *g, const char *prefix, const orr_weight *tensor)
{
    char name[NAME_CHARS];
    uint32_t layer, expert;
    (void)snprintf(name, sizeof name, "%s.%s", prefix, tensor->name);
    const orr_weight *found = orr_weights_find(g->numbers, name);
    if (found != NULL)
        return found->data;
    if (sscanf(tensor->name, "model.layers.%u.block_sparse_moe.experts.%u.w2", &layer, &expert) !=
            2 ||
        strstr(tensor->name, "w2") == NULL)
        return NULL;
    (void)snprintf(name, sizeof name, "%s.model.layers.%u.mlp.experts.down_proj", prefix, layer);
    found = orr_weights_find(g->numbers, name);
    return found != NULL ? (const float *)found->data + expert * tensor->dim[0] * tensor->dim[1]
                         : NULL;
}

/* The checkpoint again, with the golden numbers for its own, and NaN where there are none. */
static orr_weight_store *substituted(const golden *g, const char *prefix, orr_arena *arena)
{
    orr_weight_store *store = orr_arena_one(arena, orr_weight_store);
    orr_weight *tensors = orr_arena_array(arena, orr_weight, g->weights->n);
    if (store == NULL || tensors == NULL)
        return NULL;
    for (uint32_t i = 0; i < g->weights->n; i++) {
        orr_weight *t = &tensors[i];
        int64_t n = 1;
        *t = g->weights->tensors[i];
        for (uint32_t k = 0; k < t->rank; k++)
            n *= t->dim[k];
        t->format = ORR_ROW_FORMAT_FP32;
        t->bytes = n * (int64_t)sizeof(float);
        t->data = known(g, prefix, t);
        if (t->data != NULL)
            continue;
        float *none = orr_arena_array(arena, float, (size_t)n);
        if (none == NULL)
            return NULL;
        memset(none, 0xff, (size_t)t->bytes);
        t->data = none;
    }
    store->about = (orr_weights){.tensors = tensors, .n = g->weights->n, .path = prefix};
    return store;
}

typedef struct comparison {
    const float *whole, *own;
    const float *first; /* gradients of the first step; NULL: all numbers are compared */
    int64_t begin;      /* of `own` */
    double tolerance, relative, worst;
    uint32_t n;
} comparison;

static void compare_run(void *ctx, int64_t own, int64_t whole, int64_t n)
{
    comparison *c = ctx;
    for (int64_t i = 0; i < n; i++) {
        const double want = c->whole[whole + i], is = c->own[own + i - c->begin];
        if (isnan(want) || (c->first != NULL && fabsf(c->first[whole + i]) < ROUNDING))
            continue;
        const double off = fabs(is - want) / (c->tolerance + c->relative * fabs(want));
        c->worst = off > c->worst || isnan(off) ? off : c->worst;
        c->n++;
    }
}

/* A whole parameter, or its gradient, as golden numbers have it. */
static orr_status read_whole(const golden *g, const char *prefix, const orr_parameter *p,
                             orr_arena *arena, const float **ret, orr_error *err)
{
    orr_type type = p->own.whole;
    const orr_weight_key key = {.module = p->module,
                                .name = p->name,
                                .nth = p->nth,
                                .layer = orr_train_layer_of(g->model, p->place)};
    type.dtype = ORR_DTYPE_FP32;
    const orr_weight_store *store = substituted(g, prefix, arena);
    float *whole = orr_arena_array(arena, float, (size_t)orr_type_elements(&type));
    if (store == NULL || whole == NULL)
        return orr_fail_memory(err);
    *ret = whole;
    return orr_weights_read(&store->about, g->model, &key, &type, whole, err);
}

static orr_status compare_one(golden *g, const orr_parameter *p, comparison c, const char *prefix,
                              orr_arena *arena, orr_error *err)
{
    ORR_TRY(read_whole(g, prefix, p, arena, &c.whole, err));
    if (c.relative == 0)
        ORR_TRY(read_whole(g, "gradient.1", p, arena, &c.first, err));
    c.begin = p->shard_begin;
    orr_shard_runs(&p->own, &p->type, p->shard_begin, p->shard_n, compare_run, &c);
    g->compared += c.n;
    if (c.worst > 1 || isnan(c.worst))
        return orr_fail(err, ORR_INVALID, "%s: %s of place %u is off by %.1f tolerances", prefix,
                        p->name, p->place, c.worst);
    return ORR_OK;
}

/* Gradients of a step, or parameters after the last (`step` 0). */
static orr_status compare_all(golden *g, orr_engine_step *step, int nth, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    char prefix[32] = "after.3";
    uint32_t n;
    const orr_parameter *all = orr_engine_step_parameters(step, &n);
    if (nth > 0)
        (void)snprintf(prefix, sizeof prefix, "gradient.%d", nth);
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++) {
        const comparison c = {.own = nth > 0 ? all[i].gradient : all[i].master,
                              .tolerance = nth > 0 ? GRADIENT_TOLERANCE : AFTER_RATES * g->rate,
                              .relative = nth > 0 ? GRADIENT_TOLERANCE : 0};
        status = compare_one(g, &all[i], c, prefix, arena, err);
    }
    orr_arena_free(arena);
    return status;
}

static bool is_near(double is, double want)
{
    return fabs(is - want) <= LOSS_TOLERANCE * fabs(want);
}

static orr_status run_steps(golden *g, orr_engine_step *step, const orr_step_inputs *inputs,
                            orr_error *err)
{
    orr_update update = {.rate = g->rate,
                         .beta1 = 0.9,
                         .beta2 = 0.95,
                         .epsilon = 1e-8,
                         .decay = 0.1,
                         .gradient_scale = 1};
    for (int i = 0; i < STEPS; i++) {
        orr_step_result r;
        update.step = i + 1;
        ORR_TRY(orr_engine_step_run(step, inputs, &update, 0, NULL, &r, err));
        if (!is_near(r.loss, g->loss[i]) || !is_near(r.gradient_norm, g->norm[i]))
            return orr_fail(err, ORR_INVALID,
                            "step %d: loss %.8f, should be %.8f; norm %.8f, should be %.8f", i + 1,
                            r.loss, g->loss[i], r.gradient_norm, g->norm[i]);
        ORR_TRY(compare_all(g, step, i + 1, err));
    }
    ORR_TRY(compare_all(g, step, 0, err));
    return g->compared > 1000 ? ORR_OK : orr_fail(err, ORR_INVALID, "hardly anything was compared");
}

/* Replicas have a sample each. */
static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    golden *g = ctx;
    orr_train_job training = {.model = g->model};
    orr_trainer trainer = {.training = &training};
    const orr_coordinates at = orr_plan_coordinates(&g->plan, transport->rank);
    const size_t first = g->plan.dp > 1 ? (size_t)at.at[ORR_AXIS_DP] * TOKENS : 0;
    const orr_step_inputs inputs = {
        .tokens = g->tokens + first, .targets = g->targets + first, .weights = g->weight + first};
    orr_step_source source = {.model = g->model,
                              .plan = &g->plan,
                              .workload = &g->workload,
                              .transport = transport,
                              .check = true};
    ORR_TRY(orr_backend_cpu(&source.backend, err));
    ORR_TRY(orr_engine_step_make(&source, &trainer.step, err));
    orr_status status = orr_train_read_weights(&trainer, g->folder, err);
    if (status == ORR_OK)
        status = orr_engine_step_weights_changed(trainer.step, err);
    if (status == ORR_OK)
        status = run_steps(g, trainer.step, &inputs, err);
    orr_engine_step_free(trainer.step);
    return status;
}

static void train(const char *family, const char *plan)
{
    golden g;
    orr_error err = {.text = ""};
    open_golden(&g, family, plan);
    const uint32_t ranks = (uint32_t)orr_plan_ranks(&g.plan);
    if (orr_ranks_run(ranks, ORR_RANKS_SHM, DEADLINE_S * INT64_C(1000000000), run_rank, &g, &err) !=
        ORR_OK)
        fail_msg("%s, %s: %s", family, plan, err.text);
    close_golden(&g);
}

#define ONE "seq=24,micro_batch=2,precision=fp32"
#define DP2 "seq=24,dp=2,precision=fp32,gradients=fp32"

static void llama3(void **state)
{
    (void)state;
    train("llama3", ONE);
    train("llama3", DP2);
    train("llama3", DP2 ",zero=2");
    train("llama3", ONE ",tp=2");
}

static void mixtral(void **state)
{
    (void)state;
    train("mixtral", ONE);
    train("mixtral", DP2 ",ep=2");
}

static void gpt2(void **state)
{
    (void)state;
    train("gpt2", ONE);
    train("gpt2", DP2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama3),
        cmocka_unit_test(mixtral),
        cmocka_unit_test(gpt2),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
