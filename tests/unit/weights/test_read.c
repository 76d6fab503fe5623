/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "base/alloc.h"
#include "kernel/format/row.h"
#include "model/module/module.h"
#include "weights/mapping.h"

static float number_at(const orr_weights *w, const char *name, int64_t i)
{
    const orr_weight *t = orr_weights_find(w, name);
    float value;
    assert_non_null(t);
    const int64_t each = t->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    orr_row_to_fp32((orr_row_format)t->format, (const char *)t->data + i * each, 1, &value);
    return value;
}

static float *read_it(const opened *o, orr_weight_key key, orr_type type)
{
    orr_error err = {.text = ""};
    float *ret = orr_arena_array(o->arena, float, (size_t)orr_type_elements(&type));
    assert_non_null(ret);
    if (orr_weights_read(o->weights, o->model, &key, &type, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

#define TYPE(...)                                                                                  \
    ((orr_type){.dtype = ORR_DTYPE_FP32,                                                           \
                .rank = sizeof((int64_t[]){__VA_ARGS__}) / 8,                                      \
                .dim = {__VA_ARGS__}})

/* 4 heads of 16 columns in 2 groups: 2 queries, a key, a value; twice. */
static void queries_keys_and_values_are_laid_by_groups(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("llama3"));
    const orr_weight_key key = {.module = ORR_MODULE_LAYER, .layer = 1, .name = "qkv"};
    const float *qkv = read_it(&o, key, TYPE(64, 128));
    for (int64_t k = 0; k < 64; k++) {
        for (int64_t n = 0; n < 128; n++) {
            const int64_t group = n / 64, at = n % 64;
            const char *name = at < 32   ? "model.layers.1.self_attn.q_proj.weight"
                               : at < 48 ? "model.layers.1.self_attn.k_proj.weight"
                                         : "model.layers.1.self_attn.v_proj.weight";
            const int64_t row = at < 32 ? group * 32 + at : group * 16 + (at - 32) % 16;
            assert_true(qkv[k * 128 + n] == number_at(o.weights, name, row * 64 + k));
        }
    }
    close_it(&o);
}

static void biases_are_laid_as_the_weights_are(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("qwen2"));
    const orr_weight_key key = {.module = ORR_MODULE_LAYER, .layer = 0, .name = "qkv", .nth = 1};
    const float *bias = read_it(&o, key, TYPE(128));
    for (int64_t i = 0; i < 16; i++) {
        assert_true(bias[64 + i] ==
                    number_at(o.weights, "model.layers.0.self_attn.q_proj.bias", 32 + i));
        assert_true(bias[112 + i] ==
                    number_at(o.weights, "model.layers.0.self_attn.v_proj.bias", 16 + i));
    }
    close_it(&o);
}

/* GPT-2 keeps weights as the tape has them, with all queries before all keys. */
static void input_major_weights_are_read(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("gpt2"));
    const orr_weight_key qkv = {.module = ORR_MODULE_LAYER, .layer = 0, .name = "qkv"};
    const orr_weight_key up = {.module = ORR_MODULE_LAYER, .layer = 1, .name = "up"};
    const float *a = read_it(&o, qkv, TYPE(64, 192)), *b = read_it(&o, up, TYPE(64, 256));
    for (int64_t k = 0; k < 64; k++) {
        for (int64_t n = 0; n < 192; n++) { /* 4 heads of query, key, value */
            const int64_t source = n % 48 / 16 * 64 + n / 48 * 16 + n % 16;
            assert_true(a[k * 192 + n] == number_at(o.weights, "transformer.h.0.attn.c_attn.weight",
                                                    k * 192 + source));
        }
        for (int64_t n = 0; n < 256; n++)
            assert_true(b[k * 256 + n] ==
                        number_at(o.weights, "transformer.h.1.mlp.c_fc.weight", k * 256 + n));
    }
    close_it(&o);
}

static void experts_are_one_parameter(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("mixtral"));
    const orr_weight_key key = {
        .module = ORR_MODULE_MOE_LAYER, .layer = 1, .name = "expert_gate_up"};
    const float *w = read_it(&o, key, TYPE(4, 64, 96));
    static const char up[] = "model.layers.1.block_sparse_moe.experts.2.w3.weight";
    static const char gate[] = "model.layers.1.block_sparse_moe.experts.2.w1.weight";
    for (int64_t k = 0; k < 64; k++) {
        assert_true(w[(2 * 64 + k) * 96 + 5] == number_at(o.weights, gate, 5 * 64 + k));
        assert_true(w[(2 * 64 + k) * 96 + 48 + 5] == number_at(o.weights, up, 5 * 64 + k));
    }
    close_it(&o);
}

/* A tied head is the table, either way round; padding of a table is zeros. */
static void tables_are_read(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("qwen2"));
    const orr_weight_key table = {.module = ORR_MODULE_EMBEDDING, .name = "embedding"};
    const orr_weight_key head = {.module = ORR_MODULE_HEAD, .name = "head"};
    const float *t = read_it(&o, table, TYPE(164, 64)), *h = read_it(&o, head, TYPE(64, 160));
    const float *turned = read_it(&o, head, TYPE(160, 64)),
                *padded = read_it(&o, head, TYPE(64, 162));
    for (int64_t v = 0; v < 164; v++) {
        for (int64_t d = 0; d < 64; d++) {
            const float want =
                v < 160 ? number_at(o.weights, "model.embed_tokens.weight", v * 64 + d) : 0;
            assert_true(t[v * 64 + d] == want);
            if (v < 162)
                assert_true(padded[d * 162 + v] == want);
            if (v < 160)
                assert_true(h[d * 160 + v] == want && turned[v * 64 + d] == want);
        }
    }
    close_it(&o);
}

static const void *row_at(const orr_weight_rows *rows, int64_t i)
{
    const orr_row_segment *p = rows->segments;
    while (i >= p->first + p->count)
        p++;
    return (const char *)p->data + (i - p->first) * rows->row_bytes;
}

/* Rows and numbers of a parameter say the same, whether in place or copied. */
static void must_agree(const opened *o, const orr_weight_key *key, const orr_type *type, bool table)
{
    orr_weight_rows rows;
    orr_error err = {.text = ""};
    const float *numbers = read_it(o, *key, *type);
    if (orr_weights_rows(o->weights, o->model, key, o->arena, &rows, &err) != ORR_OK)
        fail_msg("%s: %s", key->name, err.text);
    float *row = orr_arena_array(o->arena, float, (size_t)rows.columns);
    const int64_t n = orr_type_elements(type) / rows.columns;
    const int64_t width = type->dim[type->rank - 1];
    const orr_row_segment *last = &rows.segments[rows.n_segments - 1];
    assert_int_equal(last->first + last->count, n);
    assert_int_equal(rows.row_bytes,
                     orr_row_format_bytes((orr_row_format)rows.format, rows.columns));
    for (int64_t i = 0; i < n; i++) {
        const int64_t matrix = type->rank > 1 ? i / width : 0, r = type->rank > 1 ? i % width : i;
        orr_row_to_fp32((orr_row_format)rows.format, row_at(&rows, i), rows.columns, row);
        for (int64_t k = 0; k < rows.columns; k++) {
            const float want = table || type->rank == 1
                                   ? numbers[i * rows.columns + k]
                                   : numbers[(matrix * rows.columns + k) * width + r];
            if (row[k] != want)
                fail_msg("%s: row %lld, column %lld", key->name, (long long)i, (long long)k);
        }
    }
}

static void rows_say_the_same_as_numbers(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        opened o = open_at(checkpoint(families[i]));
        const orr_workload workload = {.task = ORR_TASK_PREFILL,
                                       .images = o.model->vision.layers > 0};
        const orr_plan given = {.seq = 4, .precision = ORR_PRECISION_FP32};
        const orr_plan plan = orr_plan_with_defaults(&given);
        orr_module_sequence row;
        uint32_t layers = 0, places = 0, n = 0;
        assert_int_equal(orr_modules_build(o.model, &plan, &workload, o.arena, &row, NULL), ORR_OK);
        for (uint32_t p = 0; p < row.n; p++) {
            const orr_module *m = &row.modules[row.module_of[p]];
            orr_weight_key key = {.module = m->kind};
            key.layer = m->kind == ORR_MODULE_VISION                                     ? places++
                        : m->kind == ORR_MODULE_LAYER || m->kind == ORR_MODULE_MOE_LAYER ? layers++
                                                                                         : 0;
            for (orr_value v = 0; v < m->tape->n_values; v++) {
                const orr_tape_value *value = &m->tape->values[v];
                if (value->role != ORR_VALUE_PARAMETER)
                    continue;
                key.name = value->name;
                key.nth = 0;
                for (orr_value u = 0; u < v; u++)
                    key.nth += m->tape->values[u].role == ORR_VALUE_PARAMETER &&
                               strcmp(m->tape->values[u].name, key.name) == 0;
                const bool table =
                    strcmp(key.name, "embedding") == 0 || strcmp(key.name, "positions") == 0;
                must_agree(&o, &key, &value->type, table);
                n++;
            }
        }
        assert_true(n > 10);
        close_it(&o);
    }
}

/* Weights that lie in the file as products want them are not copied. */
static void weights_stay_in_the_file(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("llama3"));
    const orr_weight_key key = {.module = ORR_MODULE_LAYER, .layer = 0, .name = "qkv"};
    const orr_weight_key up = {.module = ORR_MODULE_LAYER, .layer = 0, .name = "gate_up"};
    const orr_weight *q = orr_weights_find(o.weights, "model.layers.0.self_attn.q_proj.weight");
    const orr_weight *gate = orr_weights_find(o.weights, "model.layers.0.mlp.gate_proj.weight");
    orr_weight_rows rows;
    assert_int_equal(orr_weights_rows(o.weights, o.model, &key, o.arena, &rows, NULL), ORR_OK);
    assert_int_equal(rows.format, ORR_ROW_FORMAT_BF16);
    assert_int_equal(rows.n_segments, 6);
    assert_ptr_equal(rows.segments[0].data, q->data);
    assert_ptr_equal(rows.segments[3].data, (const char *)q->data + 32 * 128);
    assert_int_equal(rows.segments[3].first, 64);
    assert_int_equal(orr_weights_rows(o.weights, o.model, &up, o.arena, &rows, NULL), ORR_OK);
    assert_true(rows.n_segments <= 2);
    assert_ptr_equal(rows.segments[0].data, gate->data);
    close_it(&o);
}

static void must_fail(const opened *o, orr_weight_key key, orr_type type, orr_status status,
                      const char *says)
{
    float numbers[1];
    orr_weight_rows rows;
    orr_error err = {.text = ""};
    assert_int_equal(orr_weights_read(o->weights, o->model, &key, &type, numbers, &err), status);
    must_say(&err, says);
    err.text[0] = '\0';
    if (status != ORR_INVALID || strstr(says, "should be") != NULL) {
        assert_int_equal(orr_weights_rows(o->weights, o->model, &key, o->arena, &rows, &err),
                         status);
        must_say(&err, says);
    }
}

static void what_is_missing_or_of_another_shape_is_named(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("llama3"));
    orr_model other = *o.model;
    const orr_weight_key up = {.module = ORR_MODULE_LAYER, .layer = 1, .name = "gate_up"};
    const orr_weight_key bias = {
        .module = ORR_MODULE_LAYER, .layer = 1, .name = "gate_up", .nth = 1};
    const orr_weight_key lora = {.module = ORR_MODULE_LAYER, .name = "lora_a"};
    must_fail(&o, bias, TYPE(192), ORR_NOT_FOUND,
              "has no tensor model.layers.1.mlp.gate_proj.bias");
    must_fail(&o, lora, TYPE(64, 2), ORR_NOT_FOUND, "have no parameter 'lora_a'");
    must_fail(&o, up, TYPE(64, 190), ORR_INVALID, "is asked for as (64, 190)");
    other.ffn = 95;
    o.model = &other;
    must_fail(&o, up, TYPE(64, 190), ORR_INVALID,
              "model.layers.1.mlp.gate_proj.weight is (96, 64) and should be (95, 64)");
    other.layers = 4;
    must_fail(&o,
              (orr_weight_key){.module = ORR_MODULE_LAYER, .layer = 3, .name = "attention_norm"},
              TYPE(64), ORR_NOT_FOUND, "has no tensor model.layers.3.input_layernorm.weight");
    close_it(&o);
}

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    opened o = open_at(checkpoint("llama4_vision"));
    const orr_weight_key key = {.module = ORR_MODULE_MOE_LAYER, .name = "expert_gate_up"};
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_weight_rows rows;
        orr_alloc_fail_from(nth);
        status = orr_weights_rows(o.weights, o.model, &key, arena, &rows, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_true(nth < 100);
        orr_arena_free(arena);
    }
    close_it(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(queries_keys_and_values_are_laid_by_groups),
        cmocka_unit_test(biases_are_laid_as_the_weights_are),
        cmocka_unit_test(input_major_weights_are_read),
        cmocka_unit_test(experts_are_one_parameter),
        cmocka_unit_test(tables_are_read),
        cmocka_unit_test(rows_say_the_same_as_numbers),
        cmocka_unit_test(weights_stay_in_the_file),
        cmocka_unit_test(what_is_missing_or_of_another_shape_is_named),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
