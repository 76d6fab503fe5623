/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include "base/alloc.h"
#include "kernel/format/row.h"

/* Parameters straight from a checkpoint. */
typedef struct source {
    const opened *from;
    float *numbers;
} source;

static orr_status read_parameter(void *ctx, const orr_weight_key *key, const orr_type *type,
                                 const float **ret, orr_error *err)
{
    source *s = ctx;
    orr_free(s->numbers);
    s->numbers = orr_malloc((size_t)orr_type_elements(type) * sizeof *s->numbers);
    if (s->numbers == NULL)
        return orr_fail_memory(err);
    *ret = s->numbers;
    return orr_weights_read(s->from->weights, s->from->model, key, type, s->numbers, err);
}

static void save(const opened *from, orr_row_format format, const char *path, int64_t shard_bytes)
{
    source s = {from, NULL};
    orr_error err = {.text = ""};
    const orr_parameter_reader reader = {read_parameter, &s};
    const size_t n = strlen(path);
    const orr_status status =
        n > 5 && strcmp(path + n - 5, ".gguf") == 0
            ? orr_gguf_save(from->model, &reader, format, NULL, path, &err)
            : orr_weights_save(from->model, &reader, format, path, shard_bytes, &err);
    orr_free(s.numbers);
    if (status != ORR_OK)
        fail_msg("%s: %s", path, err.text);
}

static float number_at(const orr_weight *w, int64_t i)
{
    float value;
    const int64_t each = w->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    orr_row_to_fp32((orr_row_format)w->format, (const char *)w->data + i * each, 1, &value);
    return value;
}

/* Every tensor of `a` is in `b`, of the same shape and the same numbers. */
static void must_be_the_same(const orr_weights *a, const orr_weights *b)
{
    for (uint32_t i = 0; i < a->n; i++) {
        const orr_weight *x = &a->tensors[i], *y = orr_weights_find(b, x->name);
        int64_t n = 1;
        if (y == NULL)
            fail_msg("%s is missing", x->name);
        assert_int_equal(x->rank, y->rank);
        for (uint32_t d = 0; d < x->rank; n *= x->dim[d++])
            assert_int_equal(x->dim[d], y->dim[d]);
        for (int64_t j = 0; j < n; j++)
            if (number_at(x, j) != number_at(y, j))
                fail_msg("%s: number %lld is %g, not %g", x->name, (long long)j,
                         (double)number_at(y, j), (double)number_at(x, j));
    }
    assert_int_equal(a->n, b->n);
}

static void what_is_saved_is_what_was_read(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        opened from = open_at(checkpoint(families[i]));
        const char *folder = in_scratch(families[i]);
        save(&from, ORR_ROW_FORMAT_FP32, folder, i % 2 == 0 ? 0 : 100000);
        opened to = open_at(in_scratch(families[i]));
        must_be_the_same(from.weights, to.weights);
        close_it(&to);
        close_it(&from);
    }
}

/* There and back: rotary pairs stand otherwise in GGUF. */
static void gguf_and_back_is_the_same(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        char path[256];
        opened from = open_at(checkpoint(families[i]));
        if (from.model->vision.layers > 0) { /* GGUF has no pictures */
            close_it(&from);
            continue;
        }
        (void)snprintf(path, sizeof path, "%s/%s.gguf", scratch, families[i]);
        save(&from, ORR_ROW_FORMAT_FP32, path, 0);
        opened gguf = open_at(path);
        assert_true(gguf.weights->gguf);
        (void)snprintf(path, sizeof path, "%s/%s-back", scratch, families[i]);
        save(&gguf, ORR_ROW_FORMAT_FP32, path, 0);
        opened back = open_at(path);
        must_be_the_same(from.weights, back.weights);
        close_it(&back);
        close_it(&gguf);
        close_it(&from);
    }
}

/* Queries of GGUF's llama: columns i and i + 8 of a head of 16 are neighbours (llama.cpp,
 * convert_hf_to_gguf.py, LlamaModel.permute). */
static void rotary_pairs_of_gguf_are_neighbours(void **state)
{
    (void)state;
    opened from = open_at(checkpoint("llama3"));
    save(&from, ORR_ROW_FORMAT_BF16, in_scratch("turned.gguf"), 0);
    opened gguf = open_at(in_scratch("turned.gguf"));
    const orr_weight *a = orr_weights_find(from.weights, "model.layers.1.self_attn.k_proj.weight");
    const orr_weight *b = orr_weights_find(gguf.weights, "blk.1.attn_k.weight");
    assert_int_equal(b->format, ORR_ROW_FORMAT_BF16);
    for (int64_t head = 0; head < 2; head++)
        for (int64_t pair = 0; pair < 8; pair++)
            for (int64_t half = 0; half < 2; half++)
                for (int64_t k = 0; k < 64; k++)
                    assert_true(number_at(a, (head * 16 + half * 8 + pair) * 64 + k) ==
                                number_at(b, (head * 16 + 2 * pair + half) * 64 + k));
    assert_true(gguf.model->rope_interleaved && !from.model->rope_interleaved);
    assert_true(gguf.model->rope_factor == 8 && gguf.model->rope_high == 4);
    assert_int_equal(gguf.model->rope_context, 64);
    close_it(&gguf);
    close_it(&from);
}

/* Rows of 32 become blocks; vectors and routers keep 32 bits; what is no whole number of blocks
 * has 16. */
static void quantised_files_keep_what_must_be_exact(void **state)
{
    (void)state;
    opened from = open_at(checkpoint("mixtral"));
    save(&from, ORR_ROW_FORMAT_Q4_0, in_scratch("q.gguf"), 0);
    opened gguf = open_at(in_scratch("q.gguf"));
    static const struct {
        const char *name;
        uint8_t format;
    } want[] = {{"blk.0.attn_q.weight", ORR_ROW_FORMAT_Q4_0},
                {"token_embd.weight", ORR_ROW_FORMAT_Q4_0},
                {"blk.0.ffn_gate_inp.weight", ORR_ROW_FORMAT_FP32},
                {"blk.0.attn_norm.weight", ORR_ROW_FORMAT_FP32},
                {"blk.0.ffn_down_exps.weight", ORR_ROW_FORMAT_FP16},
                {"blk.0.ffn_up_exps.weight", ORR_ROW_FORMAT_Q4_0}};
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_int_equal(orr_weights_find(gguf.weights, want[i].name)->format, want[i].format);
    assert_int_equal(gguf.model->moe.experts, 4);
    close_it(&gguf);
    close_it(&from);
}

static void nothing_half_written_stays(void **state)
{
    (void)state;
    opened from = open_at(checkpoint("llama2"));
    source s = {&from, NULL};
    orr_error err = {.text = ""};
    const orr_parameter_reader reader = {read_parameter, &s};
    orr_model other = *from.model;
    save(&from, ORR_ROW_FORMAT_BF16, in_scratch("whole.safetensors"), 0);
    other.layers = 3; /* the last one's weights are missing */
    assert_int_equal(orr_weights_save(&other, &reader, ORR_ROW_FORMAT_FP32,
                                      in_scratch("whole.safetensors"), 0, &err),
                     ORR_NOT_FOUND);
    must_say(&err, "of layer 2");
    orr_free(s.numbers);
    orr_weights *w;
    assert_int_equal(orr_weights_open(in_scratch("whole.safetensors"), &w, NULL), ORR_OK);
    assert_int_equal(orr_weights_find(w, "model.norm.weight")->format, ORR_ROW_FORMAT_BF16);
    orr_weights_close(w);
    close_it(&from);
}

/* A checkpoint that was sharded and is not any more: the old index does not stay. */
static void one_form_is_left(void **state)
{
    (void)state;
    opened from = open_at(checkpoint("llama2"));
    const char *folder = in_scratch("again");
    save(&from, ORR_ROW_FORMAT_FP32, folder, 100000);
    assert_int_equal(access(in_scratch("again/model.safetensors.index.json"), F_OK), 0);
    save(&from, ORR_ROW_FORMAT_BF16, in_scratch("again"), 0);
    assert_int_equal(access(in_scratch("again/model.safetensors"), F_OK), 0);
    assert_int_not_equal(access(in_scratch("again/model.safetensors.index.json"), F_OK), 0);
    save(&from, ORR_ROW_FORMAT_FP32, in_scratch("again"), 100000);
    assert_int_not_equal(access(in_scratch("again/model.safetensors"), F_OK), 0);
    close_it(&from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_saved_is_what_was_read),
        cmocka_unit_test(gguf_and_back_is_the_same),
        cmocka_unit_test(rotary_pairs_of_gguf_are_neighbours),
        cmocka_unit_test(quantised_files_keep_what_must_be_exact),
        cmocka_unit_test(nothing_half_written_stays),
        cmocka_unit_test(one_form_is_left),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
