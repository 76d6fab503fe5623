/* SPDX-License-Identifier: Apache-2.0 */
/* Binds a generator's weights: in place in the mapped file where they are stored as products need
 * them, else converted. */
#include <math.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "engine/generate/experts.h"
#include "kernel/format/row.h"
#include "model/memory/memory.h"

/* How a parameter is used. USE_TURNED: in a product, transposed, as a tied head uses the
 * embedding. */
typedef enum weight_use { USE_WHOLE, USE_PRODUCT, USE_EXPERTS, USE_TURNED, USE_TABLE } weight_use;

/* By the first call that reads the parameter. */
static weight_use use_of(const orr_tape *tape, orr_value value)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        const bool experts = call->op == ORR_OP_GROUPED_MATMUL;
        if (experts && call->in[1] == value && !call->args.transpose_b)
            return USE_EXPERTS;
        if (call->op == ORR_OP_MATMUL && call->in[1] == value)
            return call->args.transpose_b ? USE_TURNED : USE_PRODUCT;
        if (call->op == ORR_OP_EMBEDDING && call->in[0] == value)
            return USE_TABLE;
    }
    return USE_WHOLE;
}

/* Stored rows, and numbers of each. */
typedef struct shape {
    int64_t rows, columns;
} shape;
static shape shape_of(const orr_type *type, weight_use use)
{
    const int r = type->rank;
    if (use == USE_TABLE || use == USE_TURNED || r < 2)
        return (shape){r == 2 ? type->dim[0] : 1, type->dim[r - 1]};
    const int64_t n = orr_type_elements(type), k = type->dim[r - 2];
    return (shape){k > 0 ? n / k : 0, k};
}

/* Every token reads all weights, and huge pages of 2 MiB make that faster. */
enum { LARGE_PAGE = 2 << 20, LINE = 64 };
static void ask_for_large_pages(char *data, size_t bytes)
{
    const size_t before = (LARGE_PAGE - (uintptr_t)data % LARGE_PAGE) % LARGE_PAGE;
    if (bytes >= before + LARGE_PAGE)
        (void)madvise(data + before, (bytes - before) / LARGE_PAGE * LARGE_PAGE, MADV_HUGEPAGE);
}

void *orr_generator_allocate(orr_generator *g, size_t n, size_t bytes)
{
    size_t all;
    if (!orr_mul_size(n, bytes, &all) || !orr_add_size(all, LINE, &all) ||
        !orr_array_reserve(&g->held, 1))
        return NULL;
    char *data = orr_calloc(1, all);
    if (data == NULL)
        return NULL;
    (void)orr_array_push(&g->held, (void *)data);
    ask_for_large_pages(data, all);
    return data + (LINE - (uintptr_t)data % LINE) % LINE;
}

static orr_status allocate(orr_generator *g, size_t bytes, void *ret, orr_error *err)
{
    void **data = ret;
    *data = orr_generator_allocate(g, 1, bytes);
    return *data != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status one_piece(orr_generator *g, orr_weight_rows *rows, const void *data, int64_t n,
                            orr_error *err)
{
    orr_row_segment *piece = orr_arena_one(g->arena, orr_row_segment);
    if (piece == NULL)
        return orr_fail_memory(err);
    *piece = (orr_row_segment){.data = data, .count = n};
    rows->segments = piece;
    rows->n_segments = 1;
    return ORR_OK;
}

/* Converts rows to another format. */
static orr_status convert(orr_generator *g, orr_row_format format, int64_t n, orr_weight_rows *rows,
                          orr_error *err)
{
    const int64_t bytes = orr_row_format_bytes(format, rows->columns);
    float *room = NULL;
    char *data = NULL;
    if (bytes < 0)
        return orr_fail(err, ORR_INVALID, "rows of %lld numbers have no whole blocks of %s",
                        (long long)rows->columns, orr_row_format_name(format));
    ORR_TRY(allocate(g, (size_t)(n * bytes), &data, err));
    ORR_TRY(allocate(g, (size_t)rows->columns * sizeof *room, &room, err));
    for (int64_t i = 0; i < n; i++) {
        orr_row_to_fp32((orr_row_format)rows->format, orr_row_at(rows, i), rows->columns, room);
        orr_row_from_fp32(format, room, rows->columns, data + i * bytes);
    }
    rows->format = (uint8_t)format;
    rows->row_bytes = bytes;
    return one_piece(g, rows, data, n, err);
}

/* Random weights for measurements: a few thousand small numbers, repeated. */
enum { DRAWN = 8192 };
void orr_generator_draw(const orr_generator *g, int64_t rows, int64_t columns, int64_t from,
                        int64_t n, uint16_t *ret)
{
    orr_random random = orr_random_of(g->options.seed, (uint64_t)rows * 31 + (uint64_t)columns);
    const double scale = 1 / sqrt((double)columns);
    uint16_t drawn[DRAWN];
    for (int64_t i = 0; i < DRAWN; i++)
        drawn[i] = orr_fp32_to_bf16((float)((orr_random_unit(&random) - 0.5) * 2 * scale));
    for (int64_t i = 0; i < n * columns; i++)
        ret[i] = drawn[(from * columns + i) % DRAWN];
}

static orr_status random_weights(orr_generator *g, shape s, orr_weight_rows *rows, orr_error *err)
{
    uint16_t *data = NULL;
    ORR_TRY(allocate(g, (size_t)(s.rows * s.columns) * sizeof *data, &data, err));
    orr_generator_draw(g, s.rows, s.columns, 0, s.rows, data);
    *rows = (orr_weight_rows){
        .format = ORR_ROW_FORMAT_BF16, .columns = s.columns, .row_bytes = s.columns * 2};
    return one_piece(g, rows, data, s.rows, err);
}

/* Of experts on several ranks the rows of this rank's are made later. */
static orr_status bind_experts(orr_generator *g, const orr_weight_key *key, const orr_type *type,
                               const orr_bound_weight *w, orr_error *err)
{
    const shape s = shape_of(type, USE_EXPERTS);
    orr_expert_weight weight = {.place = w->place,
                                .nth = w->nth,
                                .name = w->name,
                                .rows = s.rows / g->model.moe.experts,
                                .source = {.format = ORR_ROW_FORMAT_BF16,
                                           .columns = s.columns,
                                           .row_bytes = s.columns * 2}};
    if (g->options.weights != NULL)
        ORR_TRY(
            orr_weights_rows(g->options.weights, &g->model, key, g->arena, &weight.source, err));
    return orr_expert_weight_add(g, &weight, err);
}

static orr_status bind_rows(orr_generator *g, const orr_weight_key *key, const orr_type *type,
                            weight_use use, orr_bound_weight *w, orr_error *err)
{
    const shape s = shape_of(type, use);
    const orr_row_format format = g->options.format;
    if (g->options.weights != NULL)
        ORR_TRY(orr_weights_rows(g->options.weights, &g->model, key, g->arena, &w->rows, err));
    else
        ORR_TRY(random_weights(g, s, &w->rows, err));
    if (use != USE_TABLE && format < ORR_ROW_FORMATS && w->rows.format != format)
        ORR_TRY(convert(g, format, s.rows, &w->rows, err));
    w->read_bytes = use == USE_TABLE ? w->rows.row_bytes : s.rows * w->rows.row_bytes;
    if (use == USE_EXPERTS) /* of the experts that a token goes to */
        w->read_bytes = w->read_bytes / g->model.moe.experts * g->model.moe.top_k;
    if (key->module == ORR_MODULE_VISION)
        w->read_bytes = 0;
    w->binding.rows = &w->rows; /* the array may move: pointers are set again when it is complete */
    return ORR_OK;
}

static orr_status bind_whole(orr_generator *g, const orr_weight_key *key, const orr_type *type,
                             orr_bound_weight *w, orr_error *err)
{
    const int64_t n = orr_type_elements(type);
    float *numbers = NULL;
    void *data = NULL;
    ORR_TRY(allocate(g, (size_t)n * sizeof *numbers, &numbers, err));
    ORR_TRY(allocate(g, (size_t)orr_type_bytes(type), &data, err));
    if (g->options.weights != NULL)
        ORR_TRY(orr_weights_read(g->options.weights, &g->model, key, type, numbers, err));
    else
        for (int64_t i = 0; i < n; i++)
            numbers[i] = 1;
    orr_dtype_from_fp32((orr_dtype)type->dtype, numbers, n, data);
    w->binding.data = data;
    w->read_bytes = orr_type_bytes(type);
    return ORR_OK;
}

/* The model layer, or vision encoder place, of a place. */
static uint32_t layer_of(const orr_module_sequence *row, uint32_t place)
{
    const uint8_t kind = row->modules[row->module_of[place]].kind;
    const bool vision = kind == ORR_MODULE_VISION;
    uint32_t n = 0;
    for (uint32_t i = 0; i < place; i++) {
        const uint8_t other = row->modules[row->module_of[i]].kind;
        n += vision ? other == ORR_MODULE_VISION : orr_module_is_layer(other);
    }
    return n;
}

static orr_status bind_place(orr_generator *g, const orr_module_sequence *row, uint32_t place,
                             orr_error *err)
{
    const orr_module *module = &row->modules[row->module_of[place]];
    const orr_tape *tape = module->tape;
    for (orr_value v = 0; v < tape->n_values; v++) {
        const orr_tape_value *value = &tape->values[v];
        if (value->role != ORR_VALUE_PARAMETER)
            continue;
        uint32_t nth = 0;
        for (orr_value u = 0; u < v; u++)
            nth += tape->values[u].role == ORR_VALUE_PARAMETER &&
                   strcmp(tape->values[u].name, value->name) == 0;
        const orr_weight_key key = {
            .module = module->kind, .layer = layer_of(row, place), .name = value->name, .nth = nth};
        orr_bound_weight w = {.place = place, .nth = nth, .name = value->name};
        const weight_use use = use_of(tape, v);
        if (use == USE_EXPERTS && g->parallel != NULL) {
            ORR_TRY(bind_experts(g, &key, &value->type, &w, err));
            continue;
        }
        ORR_TRY(use == USE_WHOLE ? bind_whole(g, &key, &value->type, &w, err)
                                 : bind_rows(g, &key, &value->type, use, &w, err));
        if (!orr_array_push(&g->weights, w))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_generator_bind_weights(orr_generator *g, orr_error *err)
{
    const int64_t tiles = g->model.vision.layers > 0 ? g->model.vision.tiles : 0;
    orr_module_sequence row;
    ORR_TRY(orr_generator_modules(g, 1, 1, tiles, g->arena, &row, err));
    g->n_places = row.n;
    for (uint32_t place = 0; place < row.n; place++)
        ORR_TRY(bind_place(g, &row, place, err));
    for (size_t i = 0; i < g->weights.n; i++)
        if (g->weights.at[i].binding.rows != NULL)
            g->weights.at[i].binding.rows = &g->weights.at[i].rows;
    return g->parallel != NULL ? orr_expert_weights_make(g, err) : ORR_OK;
}

const orr_binding *orr_generator_weight(const orr_generator *g, uint32_t place, const char *name,
                                        uint32_t nth)
{
    for (size_t i = 0; i < g->weights.n; i++) {
        const orr_bound_weight *w = &g->weights.at[i];
        if (w->place == place && w->nth == nth && strcmp(w->name, name) == 0)
            return &w->binding;
    }
    return NULL;
}

int64_t orr_generator_read_bytes(const orr_generator *g, int64_t tokens)
{
    int64_t bytes = 0;
    for (size_t i = 0; i < g->weights.n; i++)
        bytes += g->weights.at[i].read_bytes;
    for (uint32_t p = 0; p < g->n_places; p++)
        if (g->keys[p] != NULL)
            bytes += (int64_t)(2 * g->cache_bytes[p] / (size_t)g->capacity) * tokens;
    return bytes;
}
