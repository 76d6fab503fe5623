/* SPDX-License-Identifier: Apache-2.0 */
/* The save plan: from parameters to the tensors of a checkpoint. Parameters are those of the
 * model's own tapes, so that what is saved is what runs. */
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "base/strtab.h"
#include "kernel/format/row.h"
#include "model/module/module.h"
#include "weights/gguf_model.h"
#include "weights/tensor_names.h"
#include "weights/write.h"

typedef struct parameter {
    orr_weight_key key;
    orr_type type;
    orr_weight_mapping mapping;
} parameter;

/* The source of tensor i. */
typedef struct origin {
    const parameter *parameter; /* NULL: `numbers` are the tensor */
    uint32_t tensor;            /* index in its mapping */
    const float *numbers;
} origin;

struct orr_save_plan {
    const orr_model *model;
    const orr_parameter_reader *reader;
    const orr_tensor_naming *naming;
    orr_row_format format;
    orr_arena *arena;
    orr_strtab *names;
    orr_array(orr_weight) weights;
    orr_array(origin) origins;
    const parameter *current; /* the parameter that was read last */
    const float *numbers;
    float *room; /* buffer: a tensor in fp32, then in its format */
    void *bytes;
    size_t room_numbers, room_bytes;
};

/* In GGUF vectors and routers keep 32 bits, as in llama.cpp's files; rows that are not a whole
 * number of blocks get 16. */
static orr_row_format format_of(const orr_save_plan *plan, const orr_weight_mapping *mapping,
                                const orr_weight_mapping_tensor *t)
{
    if (plan->naming->gguf && (mapping->kind == ORR_WEIGHT_MAPPING_VECTOR || t->exact ||
                               strcmp(t->name, "position_embd.weight") == 0))
        return ORR_ROW_FORMAT_FP32;
    return orr_row_format_bytes(plan->format, t->dim[t->rank - 1]) < 0 ? ORR_ROW_FORMAT_FP16
                                                                       : plan->format;
}

static orr_status add_tensor(orr_save_plan *plan, const orr_weight *w, const origin *from,
                             orr_error *err)
{
    return orr_array_push(&plan->weights, *w) && orr_array_push(&plan->origins, *from)
               ? ORR_OK
               : orr_fail_memory(err);
}

/* A tensor that two parameters share (a tied head) is written once. */
static orr_status add_parameter(orr_save_plan *plan, const parameter *p, orr_error *err)
{
    for (uint32_t i = 0; i < p->mapping.n_tensors; i++) {
        const orr_weight_mapping_tensor *t = &p->mapping.tensors[i];
        const uint32_t before = orr_strtab_count(plan->names);
        const uint32_t id = orr_strtab_add(plan->names, t->name, strlen(t->name));
        if (id == UINT32_MAX)
            return orr_fail_memory(err);
        if (id < before)
            continue;
        orr_weight w = {
            .name = t->name, .format = (uint8_t)format_of(plan, &p->mapping, t), .rank = t->rank};
        memcpy(w.dim, t->dim, sizeof w.dim);
        w.bytes = orr_weight_bytes(w.format, w.rank, w.dim);
        if (w.bytes < 0)
            return orr_fail(err, ORR_LIMIT, "tensor '%.200s' has more bytes than can be counted",
                            w.name);
        ORR_TRY(add_tensor(plan, &w, &(origin){.parameter = p, .tensor = i}, err));
    }
    return ORR_OK;
}

static orr_status add_value(orr_save_plan *plan, const orr_weight_key *key, const orr_type *type,
                            orr_error *err)
{
    parameter *p = orr_arena_one(plan->arena, parameter);
    if (p == NULL)
        return orr_fail_memory(err);
    *p = (parameter){.key = *key, .type = *type};
    ORR_TRY(orr_weight_mapping_make(plan->naming, key, plan->arena, &p->mapping, err));
    return add_parameter(plan, p, err);
}

static uint32_t nth_of(const orr_tape *tape, orr_value value)
{
    uint32_t n = 0;
    for (orr_value v = 0; v < value; v++)
        n += tape->values[v].role == ORR_VALUE_PARAMETER &&
             strcmp(tape->values[v].name, tape->values[value].name) == 0;
    return n;
}

static orr_status add_place(orr_save_plan *plan, const orr_module *module, uint32_t layer,
                            orr_error *err)
{
    const orr_tape *tape = module->tape;
    for (orr_value v = 0; v < tape->n_values; v++) {
        if (tape->values[v].role != ORR_VALUE_PARAMETER)
            continue;
        const orr_weight_key key = {.module = module->kind,
                                    .layer = layer,
                                    .name = tape->values[v].name,
                                    .nth = nth_of(tape, v)};
        ORR_TRY(add_value(plan, &key, &tape->values[v].type, err));
    }
    return ORR_OK;
}

static bool is_layer(uint8_t kind)
{
    return kind == ORR_MODULE_LAYER || kind == ORR_MODULE_MOE_LAYER ||
           kind == ORR_MODULE_CROSS_LAYER;
}

/* All modules of the model on one device. */
static orr_status add_modules(orr_save_plan *plan, orr_error *err)
{
    const orr_workload workload = {.task = ORR_TASK_PREFILL,
                                   .seq = 1,
                                   .images = plan->model->vision.layers > 0 && !plan->naming->gguf};
    const orr_plan given = {.seq = 1, .precision = ORR_PRECISION_FP32};
    const orr_plan complete = orr_plan_with_defaults(&given);
    orr_module_sequence row;
    uint32_t layers = 0, vision = 0;
    ORR_TRY(orr_modules_build(plan->model, &complete, &workload, plan->arena, &row, err));
    for (uint32_t i = 0; i < row.n; i++) {
        const orr_module *module = &row.modules[row.module_of[i]];
        const uint32_t layer = is_layer(module->kind)              ? layers++
                               : module->kind == ORR_MODULE_VISION ? vision++
                                                                   : 0;
        ORR_TRY(add_place(plan, module, layer, err));
    }
    return ORR_OK;
}

/* Adds rope_freqs, from which llama.cpp reads the context extension. */
static orr_status add_rope_freqs(orr_save_plan *plan, orr_error *err)
{
    const int64_t n = plan->model->head_dim / 2;
    if (!plan->naming->gguf || plan->model->rope_factor <= 0 || plan->model->rope_context == 0)
        return ORR_OK;
    float *freqs = orr_arena_array(plan->arena, float, (size_t)n);
    if (freqs == NULL)
        return orr_fail_memory(err);
    orr_gguf_rope_freqs(plan->model, freqs);
    const orr_weight w = {.name = ORR_GGUF_ROPE_FREQS,
                          .format = ORR_ROW_FORMAT_FP32,
                          .rank = 1,
                          .dim = {n},
                          .bytes = n * (int64_t)sizeof *freqs};
    return add_tensor(plan, &w, &(origin){.numbers = freqs}, err);
}

/* Element (r, k) of a tensor's matrix is element (k, r) on the tape. */
static void gather_product(const parameter *p, uint32_t tensor, const float *numbers, float *ret)
{
    const orr_weight_mapping *mapping = &p->mapping;
    const orr_weight_mapping_tensor *t = &mapping->tensors[tensor];
    const int64_t width = p->type.dim[p->type.rank - 1], columns = mapping->columns;
    int64_t row = 0;
    for (uint32_t i = 0; i < mapping->n_ranges; row += mapping->ranges[i++].count) {
        const orr_weight_mapping_rows *part = &mapping->ranges[i];
        if (part->tensor != tensor)
            continue;
        const float *from = numbers + row / mapping->rows * columns * width + row % mapping->rows;
        float *to =
            ret + part->matrix * t->rows * columns + part->from * (t->input_major ? 1 : columns);
        for (int64_t k = 0; k < columns; k++)
            for (int64_t r = 0; r < part->count; r++)
                to[t->input_major ? k * t->rows + r : r * columns + k] = from[k * width + r];
    }
}

/* Rows as they are. */
static void gather_rows(const parameter *p, uint32_t tensor, const float *numbers, float *ret)
{
    const orr_weight_mapping *mapping = &p->mapping;
    for (uint32_t i = 0; i < mapping->n_ranges; i++) {
        const orr_weight_mapping_rows *part = &mapping->ranges[i];
        const int64_t n = part->count * mapping->columns;
        if (part->tensor == tensor)
            memcpy(ret + part->from * mapping->columns, numbers, (size_t)n * sizeof *ret);
        numbers += n;
    }
}

static orr_status reserve(void **at, size_t *room, size_t n, size_t bytes, orr_error *err)
{
    size_t all;
    if (n <= *room)
        return ORR_OK;
    if (!orr_mul_size(n, bytes, &all))
        return orr_fail_memory(err);
    void *larger = orr_realloc(*at, all);
    if (larger == NULL)
        return orr_fail_memory(err);
    *at = larger;
    *room = n;
    return ORR_OK;
}

static orr_status read_parameter(orr_save_plan *plan, const parameter *p, orr_error *err)
{
    if (plan->current == p)
        return ORR_OK;
    plan->current = NULL;
    ORR_TRY(plan->reader->read(plan->reader->ctx, &p->key, &p->type, &plan->numbers, err));
    plan->current = p;
    return ORR_OK;
}

static orr_status gather(orr_save_plan *plan, const origin *from, size_t n, orr_error *err)
{
    const parameter *p = from->parameter;
    if (p == NULL) {
        memcpy(plan->room, from->numbers, n * sizeof *plan->room);
        return ORR_OK;
    }
    ORR_TRY(read_parameter(plan, p, err));
    if (p->mapping.kind == ORR_WEIGHT_MAPPING_LINEAR)
        gather_product(p, from->tensor, plan->numbers, plan->room);
    else
        gather_rows(p, from->tensor, plan->numbers, plan->room);
    return ORR_OK;
}

static orr_status tensor_data(void *ctx, uint32_t i, const void **ret, orr_error *err)
{
    orr_save_plan *plan = ctx;
    const orr_weight *w = &plan->weights.at[i];
    const int64_t columns = w->dim[w->rank - 1];
    const int64_t row_bytes = orr_row_format_bytes((orr_row_format)w->format, columns);
    const int64_t rows = row_bytes > 0 ? w->bytes / row_bytes : 0;
    const size_t n = (size_t)(rows * columns);
    ORR_TRY(reserve((void **)&plan->room, &plan->room_numbers, n, sizeof *plan->room, err));
    ORR_TRY(reserve(&plan->bytes, &plan->room_bytes, (size_t)w->bytes, 1, err));
    ORR_TRY(gather(plan, &plan->origins.at[i], n, err));
    for (int64_t r = 0; r < rows; r++)
        orr_row_from_fp32((orr_row_format)w->format, plan->room + r * columns, columns,
                          (char *)plan->bytes + r * row_bytes);
    *ret = plan->bytes;
    return ORR_OK;
}

static orr_status fill(orr_save_plan *plan, bool gguf, orr_error *err)
{
    plan->arena = orr_arena_new(0, 0);
    plan->names = orr_strtab_new();
    if (plan->arena == NULL || plan->names == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_tensor_naming_of(plan->model, NULL, gguf, plan->arena, &plan->naming, err));
    ORR_TRY(add_modules(plan, err));
    return add_rope_freqs(plan, err);
}

orr_status orr_save_plan_make(const orr_model *model, const orr_parameter_reader *reader,
                              orr_row_format format, bool gguf, orr_save_plan **ret, orr_error *err)
{
    orr_save_plan *plan = orr_calloc(1, sizeof *plan);
    if (plan == NULL)
        return orr_fail_memory(err);
    plan->model = model;
    plan->reader = reader;
    plan->format = format;
    const orr_status status = fill(plan, gguf, err);
    if (status == ORR_OK)
        *ret = plan;
    else
        orr_save_plan_free(plan);
    return status;
}

orr_weight_source orr_save_plan_source(orr_save_plan *plan)
{
    return (orr_weight_source){.tensors = plan->weights.at,
                               .n = (uint32_t)plan->weights.n,
                               .data = tensor_data,
                               .ctx = plan};
}

void orr_save_plan_free(orr_save_plan *plan)
{
    if (plan == NULL)
        return;
    orr_free(plan->room);
    orr_free(plan->bytes);
    orr_array_done(&plan->weights);
    orr_array_done(&plan->origins);
    orr_strtab_free(plan->names);
    orr_arena_free(plan->arena);
    orr_free(plan);
}
