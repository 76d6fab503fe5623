/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/dense.h"

#include <string.h>

#include <orrery/weights.h>

#include "base/alloc.h"
#include "engine/checkpoint/checkpoint.h"

enum {
    PROGRAMS = 16, /* of 2^k samples, or of `most` */
    LEAST = 5,     /* k, at least: products of fewer rows are summed in another order */
};

struct orr_dense {
    orr_model model;
    orr_arena *arena;
    uint32_t n;           /* parameters, in the order of the tape */
    const float **values; /* shape (n) */
};

/* The module for so many samples: the forward pass alone. */
static orr_status build(const orr_model *model, int64_t samples, orr_arena *arena,
                        const orr_module **ret, orr_error *err)
{
    orr_plan *plan = orr_arena_one(arena, orr_plan);
    orr_workload *workload = orr_arena_one(arena, orr_workload);
    orr_module_sequence row;
    if (plan == NULL || workload == NULL)
        return orr_fail_memory(err);
    const orr_plan asked = {
        .precision = ORR_PRECISION_FP32, .micro_batch = (uint32_t)samples, .micro_batches = 1};
    *plan = orr_plan_with_defaults(&asked);
    *workload = (orr_workload){.task = ORR_TASK_PREFILL, .real = true};
    ORR_TRY(orr_modules_build(model, plan, workload, arena, &row, err));
    *ret = &row.modules[row.module_of[0]];
    return ORR_OK;
}

static uint32_t nth_of_name(const orr_tape *tape, orr_value value)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < value; v++)
        n += tape->values[v].role == ORR_VALUE_PARAMETER &&
             strcmp(tape->values[v].name, tape->values[value].name) == 0;
    return n;
}

static orr_status read_parameter(orr_dense *d, const orr_weights *weights, const orr_tape *tape,
                                 orr_value v, orr_error *err)
{
    const int64_t bytes = orr_type_elements(&tape->values[v].type) * (int64_t)sizeof(float);
    char name[ORR_PARAMETER_KEY_CHARS];
    orr_parameter_key(0, tape->values[v].name, nth_of_name(tape, v), name);
    const orr_weight *w = orr_weights_find(weights, name);
    if (w == NULL || w->format != ORR_ROW_FORMAT_FP32 || w->bytes != bytes)
        return orr_fail(
            err, ORR_INVALID,
            "%s: %s is %s, and should be %lld numbers in fp32: the weights are of another model",
            weights->path, name, w == NULL ? "missing" : "something else",
            (long long)(bytes / (int64_t)sizeof(float)));
    float *copy = orr_arena_alloc(d->arena, (size_t)bytes, 1, 64);
    if (copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, w->data, (size_t)bytes);
    d->values[d->n++] = copy;
    return ORR_OK;
}

static orr_status read_all(orr_dense *d, const orr_weights *weights, orr_error *err)
{
    orr_arena *scratch = orr_arena_new(0, 0);
    const orr_module *module = NULL;
    if (scratch == NULL)
        return orr_fail_memory(err);
    orr_status status = build(&d->model, 1, scratch, &module, err);
    const orr_tape *tape = status == ORR_OK ? module->tape : NULL;
    if (tape != NULL) {
        d->values = orr_arena_array(d->arena, const float *, (size_t)tape->n_values + 1);
        status = d->values != NULL ? ORR_OK : orr_fail_memory(err);
    }
    for (orr_value v = 0; status == ORR_OK && v < tape->n_values; v++)
        if (tape->values[v].role == ORR_VALUE_PARAMETER)
            status = read_parameter(d, weights, tape, v, err);
    orr_arena_free(scratch);
    return status;
}

orr_status orr_dense_open(const orr_model *model, const char *path, orr_dense **ret, orr_error *err)
{
    orr_weights *weights = NULL;
    if (model->kind != ORR_MODEL_DLRM)
        return orr_fail(err, ORR_UNSUPPORTED, "%s is no recommendation model", model->name);
    ORR_TRY(orr_weights_open(path, &weights, err));
    orr_arena *arena = orr_arena_new(0, 0);
    orr_dense *d = arena != NULL ? orr_arena_one(arena, orr_dense) : NULL;
    orr_status status = d != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK) {
        *d = (orr_dense){.model = *model, .arena = arena};
        status = read_all(d, weights, err);
    }
    orr_weights_close(weights);
    if (status == ORR_OK)
        *ret = d;
    else
        orr_arena_free(arena);
    return status;
}

void orr_dense_close(orr_dense *dense)
{
    if (dense != NULL)
        orr_arena_free(dense->arena);
}

struct orr_dense_programs {
    const orr_dense *dense;
    orr_backend *backend;
    orr_arena *arena[PROGRAMS];
    orr_program *at[PROGRAMS]; /* NULL: not made yet */
};

orr_status orr_dense_runner_open(const orr_dense *dense, int64_t most, orr_dense_runner *ret,
                                 orr_error *err)
{
    const orr_dlrm *d = &dense->model.dlrm;
    orr_dense_runner r = {.most = most};
    for (uint32_t i = 0; i < d->n_tables; i++)
        r.columns += d->tables[i].columns;
    const size_t features = (size_t)(most * d->dense_features) * sizeof(float),
                 bags = (size_t)(most * r.columns) * sizeof(float);
    r.features = orr_malloc_aligned(features + 64);
    r.bags = orr_malloc_aligned(bags + 64);
    r.logits = orr_malloc_aligned((size_t)most * sizeof(float) + 64);
    r.programs = orr_calloc(1, sizeof *r.programs);
    if (r.features == NULL || r.bags == NULL || r.logits == NULL || r.programs == NULL) {
        orr_dense_runner_close(&r);
        return orr_fail_memory(err);
    }
    memset(r.features, 0, features); /* samples that fill up a program are finite */
    memset(r.bags, 0, bags);
    r.programs->dense = dense;
    const orr_status status = orr_backend_cpu(&r.programs->backend, err);
    if (status == ORR_OK)
        *ret = r;
    else
        orr_dense_runner_close(&r);
    return status;
}

void orr_dense_runner_close(orr_dense_runner *r)
{
    for (int i = 0; r->programs != NULL && i < PROGRAMS; i++) {
        orr_program_free(r->programs->at[i]);
        orr_arena_free(r->programs->arena[i]);
    }
    orr_free(r->programs);
    orr_free(r->features);
    orr_free(r->bags);
    orr_free(r->logits);
    *r = (orr_dense_runner){0};
}

static orr_status make(orr_dense_runner *r, int64_t samples, orr_arena *arena, orr_program **ret,
                       orr_error *err)
{
    const orr_dense *d = r->programs->dense;
    const orr_module *module;
    ORR_TRY(build(&d->model, samples, arena, &module, err));
    const orr_tape *tape = module->tape;
    orr_binding *bindings = orr_arena_array(arena, orr_binding, tape->n_values);
    uint32_t parameter = 0;
    if (bindings == NULL)
        return orr_fail_memory(err);
    for (orr_value v = 0; v < tape->n_values; v++) {
        const orr_tape_value *value = &tape->values[v];
        bindings[v] = (orr_binding){0};
        if (value->role == ORR_VALUE_PARAMETER)
            bindings[v].data = (void *)(uintptr_t)d->values[parameter++]; /* read alone */
        else if (v == module->in)
            bindings[v].data = r->bags;
        else if (value->role == ORR_VALUE_INPUT)
            bindings[v].data = r->features;
    }
    bindings[module->out].data = r->logits;
    const orr_program_source source = {
        .tape = tape, .bindings = bindings, .backend = r->programs->backend};
    return orr_program_make(&source, ret, err);
}

orr_status orr_dense_run(orr_dense_runner *r, int64_t n, orr_error *err)
{
    int k = LEAST;
    while (k + 1 < PROGRAMS && (INT64_C(1) << k) < n)
        k++;
    if (r->programs->at[k] == NULL) {
        const int64_t all = INT64_C(1) << k, samples = all < r->most && all >= n ? all : r->most;
        orr_arena *arena = orr_arena_new(0, 0);
        if (arena == NULL)
            return orr_fail_memory(err);
        const orr_status status = make(r, samples, arena, &r->programs->at[k], err);
        if (status != ORR_OK) {
            r->programs->at[k] = NULL;
            orr_arena_free(arena);
            return status;
        }
        r->programs->arena[k] = arena;
    }
    return orr_program_execute(r->programs->at[k], &(orr_program_run){0}, err);
}
