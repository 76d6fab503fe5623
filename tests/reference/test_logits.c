/* SPDX-License-Identifier: Apache-2.0 */
/* Logits of tiny checkpoints against those of transformers (checkpoints/README.md): weights, tapes,
 * the engine and its kernels, in fp32. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <orrery/weights.h>

#include "base/alloc.h"
#include "engine/run/program.h"
#include "io/yaml/yaml.h"
#include "model/module/module.h"
#include "model/spec/spec.h"

#define TOLERANCE 1e-4
enum { MOST_VALUES = 4096, MOST_TOKENS = 64 };

typedef struct golden {
    orr_arena *arena;
    orr_weights *weights, *numbers;
    orr_model model;
    const orr_yaml *about;
    orr_backend *backend;
} golden;

static void open_weights(golden *g, const char *path)
{
    const orr_model *model = NULL;
    orr_error err = {.text = ""};
    if (orr_weights_open(path, &g->weights, &err) != ORR_OK ||
        orr_model_of_weights(g->weights, g->arena, &model, &err) != ORR_OK)
        fail_msg("%s: %s", path, err.text);
    g->model = *model;
}

static golden open_golden(const char *family)
{
    golden g = {.arena = orr_arena_new(0, 0)};
    char folder[512], path[600];
    const char *source = getenv("ORRERY_SOURCE");
    (void)snprintf(folder, sizeof folder, "%s/tests/reference/checkpoints/%s",
                   source != NULL ? source : ".", family);
    assert_int_equal(orr_backend_cpu(&g.backend, NULL), ORR_OK);
    open_weights(&g, folder);
    (void)snprintf(path, sizeof path, "%s/golden.safetensors", folder);
    assert_int_equal(orr_weights_open(path, &g.numbers, NULL), ORR_OK);
    (void)snprintf(path, sizeof path, "%s/golden.json", folder);
    assert_int_equal(orr_yaml_load(path, g.arena, &g.about, NULL), ORR_OK);
    return g;
}

static void close_golden(golden *g)
{
    orr_weights_close(g->weights);
    orr_weights_close(g->numbers);
    orr_arena_free(g->arena);
}

/* What a module is run with. */
typedef struct feed {
    const int64_t *tokens;
    int64_t n;
    float *hidden;   /* what comes in; after the run, what goes out */
    float *pictures; /* out of the vision encoder */
    const float *pixels;
    int64_t image_token;
    uint32_t layer;
} feed;

/* Weights as rows where products and tables take them so, else as numbers. */
static bool is_rows(const orr_tape *tape, orr_value value)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        if ((call->op == ORR_OP_MATMUL || call->op == ORR_OP_GROUPED_MATMUL) &&
            call->in[1] == value)
            return !call->args.transpose_b;
        if (call->op == ORR_OP_EMBEDDING && call->in[0] == value)
            return true;
    }
    return false;
}

static void bind_parameter(golden *g, const orr_module *module, orr_value value, uint32_t layer,
                           orr_binding *ret)
{
    const orr_tape *tape = module->tape;
    const orr_type *type = &tape->values[value].type;
    orr_weight_key key = {.module = module->kind, .layer = layer, .name = tape->values[value].name};
    orr_error err = {.text = ""};
    for (orr_value v = 0; v < value; v++)
        key.nth += tape->values[v].role == ORR_VALUE_PARAMETER &&
                   strcmp(tape->values[v].name, key.name) == 0;
    orr_weight_rows *rows = orr_arena_one(g->arena, orr_weight_rows);
    float *numbers =
        orr_arena_alloc(g->arena, (size_t)orr_type_elements(type), sizeof *numbers, 64);
    assert_true(rows != NULL && numbers != NULL);
    orr_status status;
    if (is_rows(tape, value)) {
        status = orr_weights_rows(g->weights, &g->model, &key, g->arena, rows, &err);
        ret->rows = rows;
    } else {
        status = orr_weights_read(g->weights, &g->model, &key, type, numbers, &err);
        ret->data = numbers;
    }
    if (status != ORR_OK)
        fail_msg("%s of layer %u: %s", key.name, layer, err.text);
}

static void *fed(golden *g, const feed *f, const orr_tape_value *value)
{
    const int64_t n = orr_type_elements(&value->type);
    int64_t *ids = orr_arena_array(g->arena, int64_t, (size_t)n);
    assert_non_null(ids);
    if (strcmp(value->name, "tokens") == 0)
        return memcpy(ids, f->tokens, (size_t)n * sizeof *ids);
    if (strcmp(value->name, "positions") == 0) {
        for (int64_t i = 0; i < n; i++)
            ids[i] = i;
        return ids;
    }
    if (strcmp(value->name, "pixels") == 0)
        return (void *)(uintptr_t)f->pixels;
    if (strcmp(value->name, "pictures") == 0)
        return f->pictures;
    fail_msg("nobody gives '%s'", value->name);
    return NULL;
}

/* Which token stands for pictures is not known to the tape. */
static void tell_image_token(const orr_tape *tape, int64_t token)
{
    for (uint32_t c = 0; c < tape->n_calls; c++)
        if (tape->calls[c].op == ORR_OP_MASKED_SCATTER)
            tape->calls[c].args.begin = token;
}

static void run_module(golden *g, const orr_module *module, feed *f)
{
    const orr_tape *tape = module->tape;
    orr_binding bindings[MOST_VALUES] = {{0}};
    orr_program *program;
    orr_error err = {.text = ""};
    assert_true(tape->n_values <= MOST_VALUES);
    for (orr_value v = 0; v < tape->n_values; v++) {
        const orr_tape_value *value = &tape->values[v];
        if (v == module->in)
            bindings[v].data = f->hidden;
        else if (value->role == ORR_VALUE_PARAMETER)
            bind_parameter(g, module, v, f->layer, &bindings[v]);
        else if (value->role == ORR_VALUE_INPUT)
            bindings[v].data = fed(g, f, value);
    }
    tell_image_token(tape, f->image_token);
    const orr_type *type = &tape->values[module->out].type;
    float *out = orr_arena_alloc(g->arena, (size_t)orr_type_elements(type), sizeof *out, 64);
    assert_non_null(out);
    bindings[module->out].data = out;
    const orr_program_source source = {.tape = tape, .bindings = bindings, .backend = g->backend};
    const orr_program_run run = {.check = true};
    if (orr_program_make(&source, &program, &err) != ORR_OK ||
        orr_program_execute(program, &run, &err) != ORR_OK)
        fail_msg("%s: %s", module->name, err.text);
    orr_program_free(program);
    f->hidden = out;
}

static bool is_layer(uint8_t kind)
{
    return kind == ORR_MODULE_LAYER || kind == ORR_MODULE_MOE_LAYER;
}

/* From tokens to logits. */
static const float *run_model(golden *g, feed *f)
{
    const orr_plan given = {
        .seq = (uint32_t)f->n, .micro_batch = 1, .precision = ORR_PRECISION_FP32};
    const orr_plan plan = orr_plan_with_defaults(&given);
    const orr_workload workload = {.task = ORR_TASK_PREFILL,
                                   .prompt = (uint32_t)f->n,
                                   .all_logits = true,
                                   .real = true,
                                   .images = f->pixels != NULL};
    orr_module_sequence row;
    orr_error err = {.text = ""};
    uint32_t layers = 0, places = 0;
    if (orr_modules_build(&g->model, &plan, &workload, g->arena, &row, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (uint32_t i = 0; i < row.n; i++) {
        const orr_module *module = &row.modules[row.module_of[i]];
        f->layer = is_layer(module->kind)              ? layers++
                   : module->kind == ORR_MODULE_VISION ? places++
                                                       : 0;
        if (module->kind == ORR_MODULE_EMBEDDING)
            f->pictures = f->hidden;
        run_module(g, module, f);
    }
    return f->hidden;
}

static double must_be_close(const golden *g, const char *name, const float *got)
{
    const orr_weight *want = orr_weights_find(g->numbers, name);
    double most = 0;
    assert_non_null(want);
    for (int64_t i = 0; i < want->bytes / 4; i++) {
        const double off = fabs((double)got[i] - (double)((const float *)want->data)[i]);
        if (isnan(off) || off > most) /* A NaN stays the largest, where fmax() would drop it. */
            most = off;
    }
    return most;
}

/* (tiles, 3, side, side) to (tiles, patches, 3 x patch x patch). */
static const float *patches_of(golden *g)
{
    const orr_weight *pixels = orr_weights_find(g->numbers, "pixels");
    const int64_t tiles = pixels->dim[0], side = pixels->dim[2], p = g->model.vision.patch;
    const int64_t across = side / p;
    float *ret = orr_arena_array(g->arena, float, (size_t)pixels->bytes / 4);
    const float *from = pixels->data;
    assert_non_null(ret);
    g->model.vision.tiles = (uint32_t)tiles;
    for (int64_t i = 0; i < pixels->bytes / 4; i++) {
        const int64_t x = i % side, y = i / side % side, colour = i / side / side % 3;
        const int64_t tile = i / side / side / 3, patch = y / p * across + x / p;
        ret[((tile * across * across + patch) * 3 + colour) * p * p + y % p * p + x % p] = from[i];
    }
    return ret;
}

static void check_prompt(golden *g, const char *family, uint32_t i, const float *pixels,
                         int64_t image_token)
{
    const orr_yaml *list = orr_yaml_find(orr_yaml_find(g->about, "prompts")->values[i], "tokens");
    int64_t tokens[MOST_TOKENS];
    char name[32];
    bool pictures = false;
    assert_true(list->n <= MOST_TOKENS);
    for (uint32_t t = 0; t < list->n; t++) {
        assert_int_equal(orr_yaml_int(list->values[t], &tokens[t], NULL), ORR_OK);
        pictures |= pixels != NULL && tokens[t] == image_token;
    }
    feed f = {.tokens = tokens,
              .n = list->n,
              .pixels = pictures ? pixels : NULL,
              .image_token = image_token};
    const float *logits = run_model(g, &f);
    (void)snprintf(name, sizeof name, "logits.%u", i);
    const double most = must_be_close(g, name, logits);
    if (f.pixels != NULL)
        print_message("%s, pictures: off by %.1e\n", family,
                      must_be_close(g, "pictures", f.pictures));
    print_message("%s, %u tokens: off by %.1e\n", family, list->n, most);
    if (!(most <= TOLERANCE))
        fail_msg("%s, %u tokens: logits are off by %g", family, list->n, most);
}

static void check_prompts(golden *g, const char *family)
{
    const orr_yaml *image = orr_yaml_find(g->about, "image_token");
    int64_t token = -1;
    if (image != NULL)
        assert_int_equal(orr_yaml_int(image, &token, NULL), ORR_OK);
    const float *pixels = image != NULL ? patches_of(g) : NULL;
    for (uint32_t i = 0; i < orr_yaml_find(g->about, "prompts")->n; i++)
        check_prompt(g, family, i, pixels, token);
}

static void check_family(const char *family)
{
    golden g = open_golden(family);
    check_prompts(&g, family);
    close_golden(&g);
}

static orr_status read_parameter(void *ctx, const orr_weight_key *key, const orr_type *type,
                                 const float **ret, orr_error *err)
{
    const golden *g = ctx;
    float *numbers = orr_arena_array(g->arena, float, (size_t)orr_type_elements(type));
    if (numbers == NULL)
        return orr_fail_memory(err);
    *ret = numbers;
    return orr_weights_read(g->weights, &g->model, key, type, numbers, err);
}

/* Through a GGUF file, where rotary pairs stand otherwise and the shape is metadata. */
static void check_gguf(const char *family)
{
    char path[64];
    golden g = open_golden(family);
    orr_error err = {.text = ""};
    const orr_parameter_reader reader = {read_parameter, &g};
    (void)snprintf(path, sizeof path, "/tmp/orrery-logits-%d.gguf", (int)getpid());
    if (orr_gguf_save(&g.model, &reader, ORR_ROW_FORMAT_BF16, NULL, path, &err) != ORR_OK)
        fail_msg("%s: %s", family, err.text);
    orr_weights_close(g.weights);
    open_weights(&g, path);
    (void)unlink(path); /* it stays mapped */
    check_prompts(&g, family);
    close_golden(&g);
}

#define FAMILIES(X)                                                                                \
    X(llama2) X(llama3) X(llama4) X(llama4_vision) X(mixtral) X(qwen2) X(qwen3) X(qwen3_moe) X(gpt2)
#define TEST_(family)                                                                              \
    static void logits_of_##family(void **state)                                                   \
    {                                                                                              \
        (void)state;                                                                               \
        check_family(#family);                                                                     \
    }
FAMILIES(TEST_)

#define GGUF(X) X(llama3) X(llama4) X(mixtral) X(qwen3) X(qwen3_moe) X(gpt2)
#define TEST_GGUF_(family)                                                                         \
    static void logits_of_##family##_in_gguf(void **state)                                         \
    {                                                                                              \
        (void)state;                                                                               \
        check_gguf(#family);                                                                       \
    }
GGUF(TEST_GGUF_)

int main(void)
{
    const struct CMUnitTest tests[] = {
#define ROW_(family) cmocka_unit_test(logits_of_##family),
        FAMILIES(ROW_)
#define ROW_GGUF_(family) cmocka_unit_test(logits_of_##family##_in_gguf),
            GGUF(ROW_GGUF_)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
