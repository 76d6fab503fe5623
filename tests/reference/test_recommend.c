/* SPDX-License-Identifier: Apache-2.0 */
/* Three steps of recommendation, with dot products and with cross layers, against plain PyTorch
 * (checkpoints/README.md): losses, gradients, parameters, states; on one rank, and with the tables
 * spread over two. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <orrery/weights.h>

#include "base/alloc.h"
#include "engine/data/clicks.h"
#include "engine/ranks/launch.h"
#include "io/yaml/yaml.h"
#include "model/arch/dlrm.h"

enum { STEPS = 3, SAMPLES = 8, TABLES = 3, NAME_CHARS = 128, DEADLINE_S = 60 };
#define TOLERANCE 2e-5

typedef struct golden {
    orr_arena *arena;
    const char *kind; /* "dot", "cross" */
    const orr_yaml *about;
    orr_weights *numbers;
    orr_model model;
    orr_plan plan;
    orr_workload workload;
    double rate, epsilon, loss[STEPS];
} golden;

static int64_t integer(const orr_yaml *value)
{
    int64_t n = 0;
    assert_int_equal(orr_yaml_int(value, &n, NULL), ORR_OK);
    return n;
}

static double number(const orr_yaml *map, const char *key)
{
    double n = NAN;
    assert_int_equal(orr_yaml_number(orr_yaml_find(map, key), &n, NULL), ORR_OK);
    return n;
}

static uint32_t widths(const orr_yaml *list, uint32_t *ret)
{
    for (uint32_t i = 0; i < list->n; i++)
        ret[i] = (uint32_t)integer(list->values[i]);
    return list->n;
}

static void read_shape(golden *g, const orr_yaml *shape)
{
    orr_dlrm *d = &g->model.dlrm;
    g->model.kind = ORR_MODEL_DLRM;
    g->model.name = g->model.title = g->kind;
    d->dense_features = (uint32_t)integer(orr_yaml_find(shape, "dense"));
    d->dim = (uint32_t)integer(orr_yaml_find(shape, "dim"));
    const orr_yaml *lookups = orr_yaml_find(shape, "lookups");
    orr_embedding *tables = orr_arena_array(g->arena, orr_embedding, lookups->n);
    assert_non_null(tables);
    for (uint32_t i = 0; i < lookups->n; i++)
        tables[i] = (orr_embedding){.rows = integer(orr_yaml_find(shape, "rows")->values[i]),
                                    .columns = d->dim,
                                    .pooling = (double)integer(lookups->values[i])};
    d->tables = tables;
    d->n_tables = lookups->n;
    d->n_bottom = widths(orr_yaml_find(shape, "bottom"), d->bottom);
    d->n_top = widths(orr_yaml_find(shape, "top"), d->top);
    d->cross_layers = (uint32_t)integer(orr_yaml_find(shape, "cross_layers"));
    d->cross_rank = (uint32_t)integer(orr_yaml_find(shape, "cross_rank"));
}

static void open_golden(golden *g, const char *kind, const char *plan)
{
    char path[512];
    const char *source = getenv("ORRERY_SOURCE");
    const orr_yaml *all;
    orr_plan asked;
    *g = (golden){.arena = orr_arena_new(0, 0), .kind = kind};
    (void)snprintf(path, sizeof path, "%s/tests/reference/checkpoints/dlrm/golden.json",
                   source != NULL ? source : ".");
    assert_int_equal(orr_yaml_load(path, g->arena, &all, NULL), ORR_OK);
    (void)snprintf(path, sizeof path, "%s/tests/reference/checkpoints/dlrm/golden.safetensors",
                   source != NULL ? source : ".");
    assert_int_equal(orr_weights_open(path, &g->numbers, NULL), ORR_OK);
    g->rate = number(all, "rate");
    g->epsilon = number(all, "eps");
    g->about = orr_yaml_find(all, kind);
    read_shape(g, orr_yaml_find(g->about, "shape"));
    const orr_yaml *losses = orr_yaml_find(g->about, "losses_adagrad");
    for (int i = 0; i < STEPS; i++)
        assert_int_equal(orr_yaml_number(losses->values[i], &g->loss[i], NULL), ORR_OK);
    assert_int_equal(orr_plan_parse(plan, &asked, NULL), ORR_OK);
    g->plan = orr_plan_with_defaults(&asked);
    g->workload = (orr_workload){.task = ORR_TASK_PRETRAIN};
}

static void close_golden(golden *g)
{
    orr_weights_close(g->numbers);
    orr_arena_free(g->arena);
}

static const orr_weight *tensor(const golden *g, const char *prefix, const char *name)
{
    char whole[3 * NAME_CHARS];
    (void)snprintf(whole, sizeof whole, "%s.%s%s", g->kind, prefix, name);
    return orr_weights_find(g->numbers, whole);
}

static orr_status read_clicks(const orr_click_data *self, uint64_t first, orr_click_batch *ret,
                              orr_error *err)
{
    const golden *g = self->ctx;
    const uint32_t features = self->dlrm->dense_features;
    const orr_yaml *ids = orr_yaml_find(g->about, "ids");
    (void)err;
    for (int64_t i = 0; i < ret->samples; i++) {
        const uint64_t number = orr_click_number(self, first + (uint64_t)i);
        memcpy(ret->dense.at + i * features,
               (const float *)tensor(g, "", "dense")->data + number * features,
               features * sizeof(float));
        ret->labels.at[i] = ((const float *)tensor(g, "", "labels")->data)[number];
        for (uint32_t t = 0; t < TABLES; t++) {
            const int32_t n = ret->lengths.at[t * ret->samples + i];
            for (int32_t k = 0; k < n; k++)
                ret->ids.at[ret->first.at[t] + i * n + k] =
                    integer(ids->values[t]->values[number]->values[k]);
        }
    }
    return ORR_OK;
}

/* What PyTorch calls a parameter: "bottom.1.bias", "cross_u.0.weight". */
static void name_of(const orr_parameter *p, char ret[NAME_CHARS / 2])
{
    const uint32_t third = p->nth % 3;
    if (strcmp(p->name, "cross") == 0)
        (void)snprintf(ret, NAME_CHARS / 2, "cross_%c.%u.%s", third == 0 ? 'u' : 'v', p->nth / 3,
                       third == 2 ? "bias" : "weight");
    else
        (void)snprintf(ret, NAME_CHARS / 2, "%s.%u.%s", p->name, p->nth / 2,
                       p->nth % 2 == 0 ? "weight" : "bias");
}

/* Weights stand (in, out) here, (out, in) there. */
static int64_t there(const orr_parameter *p, int64_t i)
{
    if (p->type.rank < 2)
        return i;
    const int64_t out = p->type.dim[1];
    return i % out * p->type.dim[0] + i / out;
}

static orr_status dense(const golden *g, const orr_parameter *p, const char *prefix, float *numbers,
                        bool set, orr_error *err)
{
    char name[NAME_CHARS / 2];
    name_of(p, name);
    const orr_weight *t = tensor(g, prefix, name);
    if (t == NULL)
        return orr_fail(err, ORR_NOT_FOUND, "no golden %s%s", prefix, name);
    for (int64_t i = 0; i < p->n; i++) {
        const float want = ((const float *)t->data)[there(p, i)];
        if (set)
            numbers[i] = want;
        else if (!(fabsf(numbers[i] - want) <= TOLERANCE * (1 + fabsf(want))))
            return orr_fail(err, ORR_INVALID, "%s%s, number %lld: %g, should be %g", prefix, name,
                            (long long)i, (double)numbers[i], (double)want);
    }
    return ORR_OK;
}

static orr_status tables(const golden *g, const orr_table_shard *share, const char *prefix,
                         int64_t columns, float *numbers, bool set, orr_error *err)
{
    for (uint32_t t = share->first; t < share->first + share->n; t++) {
        char name[NAME_CHARS];
        (void)snprintf(name, sizeof name, "%u", t);
        const float *want = tensor(g, prefix, name)->data;
        for (int64_t i = 0; i < g->model.dlrm.tables[t].rows * columns; i++, numbers++)
            if (set)
                *numbers = want[i];
            else if (!(fabsf(*numbers - want[i]) <= TOLERANCE * (1 + fabsf(want[i]))))
                return orr_fail(err, ORR_INVALID, "%s%u, number %lld: %g, should be %g", prefix, t,
                                (long long)i, (double)*numbers, (double)want[i]);
    }
    return ORR_OK;
}

static orr_status all(const golden *g, orr_engine_step *step, const orr_table_shard *share,
                      const char *prefix, bool set, orr_error *err)
{
    char of_tables[NAME_CHARS];
    uint32_t n;
    orr_parameter *p = orr_engine_step_parameters(step, &n);
    (void)snprintf(of_tables, sizeof of_tables, "%stables.", prefix);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(p[i].name, "tables_state") == 0)
            continue;
        else if (p[i].tag == ORR_WEIGHT_TABLE)
            ORR_TRY(tables(g, share, of_tables, g->model.dlrm.dim, p[i].master, set, err));
        else
            ORR_TRY(dense(g, &p[i], prefix,
                          strncmp(prefix, "gradient", 8) == 0 ? p[i].gradient : p[i].master, set,
                          err));
    return ORR_OK;
}

/* Rows of lookups, added up. */
static orr_status table_gradient(const golden *g, orr_engine_step *step,
                                 const orr_table_shard *share, orr_error *err)
{
    const orr_step_table *t = orr_engine_step_table(step);
    float *sum = orr_calloc((size_t)(t->rows * t->columns), sizeof *sum);
    if (sum == NULL)
        return orr_fail_memory(err);
    for (int64_t i = 0; i < t->lookups; i++)
        for (int64_t k = 0; k < t->columns; k++)
            sum[t->ids[i] * t->columns + k] += t->gradient[i * t->columns + k];
    const orr_status status = tables(g, share, "gradient.1.tables.", t->columns, sum, false, err);
    orr_free(sum);
    return status;
}

static orr_status run_steps(const golden *g, orr_engine_step *step, uint32_t rank, orr_error *err)
{
    const orr_click_data clicks = {
        .dlrm = &g->model.dlrm, .ctx = (void *)g, .n = SAMPLES, .read = read_clicks};
    const orr_table_shard share =
        orr_table_shard_of(clicks.dlrm, g->plan.dp, orr_plan_member(&g->plan, ORR_AXIS_DP, rank));
    float labels[SAMPLES], weights[SAMPLES];
    orr_step_inputs inputs[SAMPLES];
    orr_update update = {.rate = g->rate, .epsilon = g->epsilon, .gradient_scale = 1};
    for (int i = 0; i < SAMPLES; i++) {
        weights[i] = 1.0F / SAMPLES;
        inputs[i] = (orr_step_inputs){.weights = weights};
    }
    ORR_TRY(all(g, step, &share, "", true, err));
    ORR_TRY(orr_engine_step_weights_changed(step, err));
    for (int i = 0; i < STEPS; i++) {
        orr_step_result r;
        update.step = i + 1;
        ORR_TRY(orr_click_data_feed(&clicks, step, &g->plan, rank, 0, labels, err));
        ORR_TRY(orr_engine_step_run(step, inputs, &update, 0, NULL, &r, err));
        if (!(fabs(r.loss - g->loss[i]) < TOLERANCE))
            return orr_fail(err, ORR_INVALID, "step %d: loss %.8f, should be %.8f", i + 1, r.loss,
                            g->loss[i]);
        if (i == 0)
            ORR_TRY(table_gradient(g, step, &share, err));
        if (i == 0 && g->plan.zero < 2)
            ORR_TRY(all(g, step, &(orr_table_shard){0}, "gradient.1.", false, err));
    }
    ORR_TRY(all(g, step, &share, "after.3.adagrad.", false, err));
    return tables(g, &share, "after.3.state.", 1, orr_engine_step_table(step)->state, false, err);
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    golden *g = ctx;
    orr_engine_step *step;
    orr_step_source source = {.model = &g->model,
                              .plan = &g->plan,
                              .workload = &g->workload,
                              .transport = transport,
                              .sgd = true};
    ORR_TRY(orr_backend_cpu(&source.backend, err));
    ORR_TRY(orr_engine_step_make(&source, &step, err));
    const orr_status status = run_steps(g, step, transport->rank, err);
    orr_engine_step_free(step);
    return status;
}

static void train(const char *kind, const char *plan)
{
    golden g;
    orr_error err = {.text = ""};
    open_golden(&g, kind, plan);
    if (orr_ranks_run((uint32_t)orr_plan_ranks(&g.plan), ORR_RANKS_SHM,
                      DEADLINE_S * INT64_C(1000000000), run_rank, &g, &err) != ORR_OK)
        fail_msg("%s, %s: %s", kind, plan, err.text);
    close_golden(&g);
}

static void in_all_plans(const char *kind)
{
    train(kind, "precision=fp32,micro_batch=8");
    train(kind, "precision=fp32,micro_batch=2,batch=8");
    train(kind, "precision=fp32,micro_batch=4,dp=2");
    train(kind, "precision=fp32,micro_batch=2,batch=8,dp=2");
}

static void dot(void **state)
{
    (void)state;
    in_all_plans("dot");
}

static void cross(void **state)
{
    (void)state;
    in_all_plans("cross");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(dot),
        cmocka_unit_test(cross),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
