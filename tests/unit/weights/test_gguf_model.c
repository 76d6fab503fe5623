/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <math.h>

#include "weights/gguf_model.h"
#include "weights/write.h"

static const float zeros[4096];

/* A file of metadata, with the table that says the vocabulary, and more. */
typedef struct made {
    orr_gguf_metadata_writer keys;
    orr_weight tensors[4];
    uint32_t n;
} made;

static made begin(const char *architecture)
{
    made m = {.n = 1};
    char key[64];
    assert_int_equal(orr_output_open_memory(&m.keys.out, NULL), ORR_OK);
    orr_gguf_put_text(&m.keys, "general.architecture", architecture, strlen(architecture));
    static const struct {
        const char *key;
        uint32_t value;
    } shape[] = {{"block_count", 2},
                 {"embedding_length", 64},
                 {"attention.head_count", 4},
                 {"feed_forward_length", 96}};
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++) {
        (void)snprintf(key, sizeof key, "%s.%s", architecture, shape[i].key);
        orr_gguf_put_u32(&m.keys, key, shape[i].value);
    }
    m.tensors[0] = (orr_weight){.name = "token_embd.weight",
                                .rank = 2,
                                .dim = {32, 64},
                                .data = zeros,
                                .bytes = 32 * 64 * 4};
    return m;
}

static orr_status finish(made *m, opened *ret, orr_error *err)
{
    const orr_weight_source source = {.tensors = m->tensors, .n = m->n};
    assert_int_equal(orr_gguf_write(&source, &m->keys, in_scratch("m.gguf"), NULL), ORR_OK);
    orr_output_close(m->keys.out);
    *ret = (opened){.arena = orr_arena_new(0, 0)};
    assert_int_equal(orr_weights_open(in_scratch("m.gguf"), &ret->weights, NULL), ORR_OK);
    return orr_model_of_weights(ret->weights, ret->arena, &ret->model, err);
}

static void must_fail(made *m, orr_status status, const char *says)
{
    opened o;
    orr_error err = {.text = ""};
    const orr_status got = finish(m, &o, &err);
    if (got != status)
        fail_msg("%s: %s", orr_status_name(got), err.text);
    must_say(&err, says);
    close_it(&o);
}

static void what_metadata_leave_out_is_as_llama_cpp_has_it(void **state)
{
    (void)state;
    made m = begin("llama");
    opened o;
    orr_gguf_put_u32(&m.keys, "llama.context_length", 128);
    assert_int_equal(finish(&m, &o, NULL), ORR_OK);
    assert_int_equal(o.model->vocab, 32);
    assert_int_equal(o.model->kv_heads, 4);
    assert_int_equal(o.model->head_dim, 16);
    assert_true(o.model->tied && o.model->rope_interleaved && o.model->rope_theta == 1e4);
    assert_true(o.model->rope_factor == 0 && !o.model->qkv_bias);
    close_it(&o);
}

static void keys_that_are_needed_are_named(void **state)
{
    (void)state;
    made m = begin("llama");
    must_fail(&m, ORR_INVALID, "has no key llama.context_length");
    m = begin("mamba");
    must_fail(&m, ORR_UNSUPPORTED, "the architecture 'mamba' is not known; known: llama, llama4");
    m = begin("llama");
    orr_gguf_put_f32(&m.keys, "llama.context_length", 0.5);
    must_fail(&m, ORR_INVALID, "llama.context_length is 0.5");
    m = begin("llama");
    orr_gguf_put_text(&m.keys, "llama.context_length", "long", 4);
    must_fail(&m, ORR_INVALID, "llama.context_length is 'long', no number");
    m = begin("llama");
    orr_gguf_put_u32(&m.keys, "llama.context_length", 128);
    m.tensors[0].name = "other.weight";
    must_fail(&m, ORR_INVALID, "has no table token_embd.weight");
}

static made stretched(const char *type)
{
    made m = begin("llama");
    orr_gguf_put_u32(&m.keys, "llama.context_length", 128);
    orr_gguf_put_text(&m.keys, "llama.rope.scaling.type", type, strlen(type));
    return m;
}

static void positions_are_stretched_or_refused(void **state)
{
    (void)state;
    opened o;
    made m = stretched("yarn");
    must_fail(&m, ORR_UNSUPPORTED, "positions are stretched by 'yarn'");
    m = stretched("linear");
    must_fail(&m, ORR_INVALID, "has no key llama.rope.scaling.factor");
    m = stretched("linear");
    orr_gguf_put_f32(&m.keys, "llama.rope.scaling.factor", 4);
    assert_int_equal(finish(&m, &o, NULL), ORR_OK);
    assert_true(o.model->rope_factor == 4 && o.model->rope_context == 0);
    close_it(&o);
}

/* Llama 3.1's factors are known by what they come to: transformers, modeling_rope_utils.py,
 * _compute_llama3_parameters. */
static void factors_of_waves_are_recognised(void **state)
{
    (void)state;
    const orr_model llama = {.head_dim = 16,
                             .rope_theta = 1e4,
                             .rope_factor = 8,
                             .rope_low = 1,
                             .rope_high = 4,
                             .rope_context = 8192};
    float freqs[8];
    opened o;
    orr_gguf_rope_freqs(&llama, freqs);
    assert_true(freqs[0] == 1 && freqs[7] == 8); /* waves of 6 and of 19,870 tokens */
    assert_true(freqs[6] > 1 && freqs[6] < 8);
    made m = stretched("none");
    m.tensors[m.n++] = (orr_weight){
        .name = ORR_GGUF_ROPE_FREQS, .rank = 1, .dim = {8}, .data = freqs, .bytes = sizeof freqs};
    assert_int_equal(finish(&m, &o, NULL), ORR_OK);
    assert_true(o.model->rope_factor == 8 && o.model->rope_high == 4);
    assert_int_equal(o.model->rope_context, 8192);
    close_it(&o);
    freqs[6] *= 1.1f;
    m = stretched("none");
    m.tensors[m.n++] = (orr_weight){
        .name = ORR_GGUF_ROPE_FREQS, .rank = 1, .dim = {8}, .data = freqs, .bytes = sizeof freqs};
    must_fail(&m, ORR_UNSUPPORTED, "does not stretch positions as Llama 3.1 or Llama 4 does");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_metadata_leave_out_is_as_llama_cpp_has_it),
        cmocka_unit_test(keys_that_are_needed_are_named),
        cmocka_unit_test(positions_are_stretched_or_refused),
        cmocka_unit_test(factors_of_waves_are_recognised),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
