/* SPDX-License-Identifier: Apache-2.0 */
/* Three steps of recommendation, with dot products and with cross layers, against plain PyTorch
 * (checkpoints/README.md): losses, gradients, parameters, states; on one rank, and with the tables
 * sharded over two. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <orrery/weights.h>

#include "engine/data/clicks.h"
#include "engine/ranks/launch.h"
#include "io/yaml/yaml.h"

enum { STEPS = 3, SAMPLES = 8, TABLES = 3, NAME_CHARS = 128, DEADLINE_S = 60 };
#define TOLERANCE 2e-5

typedef struct golden {
    orr_arena *arena;
    const char *kind; /* "dot", "cross" */
    const orr_yaml *about;
    orr_weights *numbers;
    orr_model model;
    orr_embedding *tables;
    orr_embedding_placement placements[TABLES];
    orr_embedding_plan sharding;
    orr_plan plan;
    orr_workload workload;
    double rate, epsilon, loss[STEPS];
    bool by_sgd; /* one step, in which tables take off their gradients */
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
    d->tables = g->tables = tables;
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

/* What a shard has of a row. */
typedef enum held { NUMBERS, STATE } held;

static orr_status row_of(const golden *g, const orr_embedding_shard *shard, orr_row_store *store,
                         int64_t row, const char *prefix, held what, bool set, orr_error *err)
{
    const orr_embedding *table = &g->tables[shard->table];
    char name[NAME_CHARS], *record = store->base + row * store->record_bytes;
    float *numbers = (float *)(void *)(what == STATE ? orr_row_store_state(store, row) : record);
    const int64_t columns = what == STATE ? 1 : table->columns,
                  n = what == STATE ? 1 : store->columns;
    const int64_t at =
        (orr_embedding_range_begin(table->rows, shard->range_begin) + row) * columns +
        (what == STATE ? 0 : shard->column_begin);
    (void)snprintf(name, sizeof name, "%u", shard->table);
    const float *want = (const float *)tensor(g, prefix, name)->data + at;
    for (int64_t i = 0; i < n; i++) {
        if (set)
            numbers[i] = want[i];
        else if (!(fabsf(numbers[i] - want[i]) <= TOLERANCE * (1 + fabsf(want[i]))))
            return orr_fail(err, ORR_INVALID, "%s%u, row %lld: %g, should be %g", prefix,
                            shard->table, (long long)row, (double)numbers[i], (double)want[i]);
    }
    return ORR_OK;
}

static orr_status tables(const golden *g, const orr_engine_step *step, const char *prefix,
                         held what, bool set, orr_error *err)
{
    const orr_tables *all = orr_engine_step_tables(step);
    for (uint32_t i = 0; i < orr_tables_n_shards(all); i++) {
        orr_row_store *store;
        const orr_embedding_shard *shard = orr_tables_shard(all, i, &store);
        for (int64_t row = 0; row < store->rows; row++)
            ORR_TRY(row_of(g, shard, store, row, prefix, what, set, err));
    }
    return ORR_OK;
}

static orr_status all_dense(const golden *g, orr_engine_step *step, const char *prefix, bool set,
                            orr_error *err)
{
    uint32_t n;
    orr_parameter *p = orr_engine_step_parameters(step, &n);
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(dense(g, &p[i], prefix,
                      strncmp(prefix, "gradient", 8) == 0 ? p[i].gradient : p[i].master, set, err));
    return ORR_OK;
}

/* Rows after a step of SGD with rate 1, from which the gradients are what has been taken off. */
static orr_status table_gradients(const golden *g, const orr_engine_step *step, orr_error *err)
{
    const orr_tables *all = orr_engine_step_tables(step);
    for (uint32_t i = 0; i < orr_tables_n_shards(all); i++) {
        orr_row_store *store;
        const orr_embedding_shard *shard = orr_tables_shard(all, i, &store);
        const orr_embedding *table = &g->tables[shard->table];
        char name[NAME_CHARS];
        (void)snprintf(name, sizeof name, "%u", shard->table);
        const float *before = tensor(g, "tables.", name)->data;
        for (int64_t row = 0; row < store->rows; row++) {
            float *now = (float *)(void *)(store->base + row * store->record_bytes);
            const int64_t first = orr_embedding_range_begin(table->rows, shard->range_begin);
            for (int64_t k = 0; k < store->columns; k++)
                now[k] = before[(first + row) * table->columns + shard->column_begin + k] - now[k];
        }
    }
    return tables(g, step, "gradient.1.tables.", NUMBERS, false, err);
}

/* Before anything is learned; what was prepared for this is dropped. */
static orr_status score(const golden *g, orr_engine_step *step, const orr_step_inputs *inputs,
                        orr_error *err)
{
    float losses[SAMPLES];
    double sum = 0;
    ORR_TRY(orr_engine_step_set_batch(step, 0, STEPS, err));
    ORR_TRY(orr_engine_step_score(step, inputs, losses, err));
    for (uint32_t i = 0; i < SAMPLES / g->plan.dp; i++)
        sum += (double)losses[i] / SAMPLES;
    if (g->plan.dp == 1 && !(fabs(sum - g->loss[0]) < TOLERANCE))
        return orr_fail(err, ORR_INVALID, "scored as %.8f, should be %.8f", sum, g->loss[0]);
    return ORR_OK;
}

static orr_status run_steps(const golden *g, orr_engine_step *step, orr_error *err)
{
    float weights[SAMPLES];
    orr_step_inputs inputs[SAMPLES];
    orr_update update = {
        .rate = g->by_sgd ? 1 : g->rate, .epsilon = g->epsilon, .gradient_scale = 1};
    for (int i = 0; i < SAMPLES; i++) {
        weights[i] = 1.0F / SAMPLES;
        inputs[i] = (orr_step_inputs){.weights = weights};
    }
    ORR_TRY(all_dense(g, step, "", true, err));
    ORR_TRY(tables(g, step, "tables.", NUMBERS, true, err));
    ORR_TRY(orr_engine_step_weights_changed(step, err));
    ORR_TRY(score(g, step, inputs, err));
    for (int i = 0; i < (g->by_sgd ? 1 : STEPS); i++) {
        orr_step_result r;
        update.step = i + 1;
        ORR_TRY(orr_engine_step_set_batch(step, (uint64_t)i, STEPS, err));
        ORR_TRY(orr_engine_step_run(step, inputs, &update, 0, NULL, &r, err));
        if (!(fabs(r.loss - g->loss[i]) < TOLERANCE))
            return orr_fail(err, ORR_INVALID, "step %d: loss %.8f, should be %.8f", i + 1, r.loss,
                            g->loss[i]);
        if (i == 0)
            ORR_TRY(all_dense(g, step, "gradient.1.", false, err));
    }
    if (g->by_sgd)
        return table_gradients(g, step, err);
    ORR_TRY(all_dense(g, step, "after.3.adagrad.", false, err));
    ORR_TRY(tables(g, step, "after.3.adagrad.tables.", NUMBERS, false, err));
    return tables(g, step, "after.3.state.", STATE, false, err);
}

static orr_status run_rank(void *ctx, orr_transport *transport, orr_error *err)
{
    golden *g = ctx;
    orr_engine_step *step;
    const orr_click_data clicks = {
        .dlrm = &g->model.dlrm, .ctx = g, .n = SAMPLES, .read = read_clicks};
    const int64_t samples = (int64_t)g->plan.micro_batch * g->plan.micro_batches;
    orr_click_reader batches = {.clicks = &clicks,
                                .batch = SAMPLES,
                                .first = transport->rank * (uint64_t)samples,
                                .samples = samples};
    const orr_step_reader reader = {orr_click_reader_read, &batches};
    orr_step_source source = {.model = &g->model,
                              .plan = &g->plan,
                              .workload = &g->workload,
                              .transport = transport,
                              .sgd = true,
                              .tables = &g->sharding,
                              .reader = &reader};
    ORR_TRY(orr_backend_cpu(&source.backend, err));
    ORR_TRY(orr_engine_step_make(&source, &step, err));
    const orr_status status = run_steps(g, step, err);
    orr_engine_step_free(step);
    orr_click_reader_done(&batches);
    return status;
}

static void shard(golden *g, orr_embedding_sharding kind, uint8_t pipeline)
{
    static const uint32_t ranks[] = {0, 1};
    const uint32_t of_rows = kind == ORR_SHARDING_ROW ? g->plan.dp : 1;
    for (uint32_t t = 0; t < TABLES; t++)
        g->placements[t] =
            (orr_embedding_placement){.sharding = (uint8_t)kind,
                                      .columns = 1,
                                      .ranks = ranks + (of_rows == 1 ? t % g->plan.dp : 0),
                                      .n_ranks = kind == ORR_SHARDING_DATA ? 0 : of_rows};
    g->sharding = (orr_embedding_plan){.ranks = g->plan.dp,
                                       .groups = 1,
                                       .synchronize = 1,
                                       .pipeline = pipeline,
                                       .n_tables = TABLES,
                                       .tables = g->tables,
                                       .placements = g->placements};
    assert_int_equal(orr_embedding_plan_shard(&g->sharding, g->arena, NULL), ORR_OK);
}

static void train(const char *kind, const char *plan, orr_embedding_sharding sharding, bool by_sgd)
{
    golden g;
    orr_error err = {.text = ""};
    open_golden(&g, kind, plan);
    g.by_sgd = by_sgd;
    for (uint32_t t = 0; t < TABLES; t++)
        g.tables[t].optimizer = by_sgd ? ORR_ROW_OPTIMIZER_SGD : ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD;
    shard(&g, sharding, (uint8_t)sharding % 4);
    if (orr_ranks_run((uint32_t)orr_plan_ranks(&g.plan), ORR_RANKS_SHM,
                      DEADLINE_S * INT64_C(1000000000), run_rank, &g, &err) != ORR_OK)
        fail_msg("%s, %s, tables by %s: %s", kind, plan, orr_embedding_sharding_name(sharding),
                 err.text);
    close_golden(&g);
}

static void in_all_plans(const char *kind)
{
    static const char *const plans[] = {
        "precision=fp32,micro_batch=8", "precision=fp32,micro_batch=2,batch=8",
        "precision=fp32,micro_batch=4,dp=2", "precision=fp32,micro_batch=2,batch=8,dp=2"};
    static const orr_embedding_sharding kinds[] = {ORR_SHARDING_TABLE, ORR_SHARDING_ROW,
                                                   ORR_SHARDING_DATA};
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            train(kind, plans[p], kinds[k], false);
            train(kind, plans[p], kinds[k], true);
        }
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
