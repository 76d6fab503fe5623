/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#define SAME(field)                                                                                \
    if (a->field != b->field)                                                                      \
    fail_msg("%s: %s is not the same", family, #field)

/* What a checkpoint's own config.json says is what ours does, read again. */
static void same_shape(const char *family, const orr_model *a, const orr_model *b)
{
    SAME(kind);
    SAME(layers);
    SAME(hidden);
    SAME(ffn);
    SAME(heads);
    SAME(kv_heads);
    SAME(head_dim);
    SAME(vocab);
    SAME(context);
    SAME(rope_theta);
    SAME(rope_factor);
    SAME(rope_low);
    SAME(rope_high);
    SAME(rope_context);
    SAME(rope_interleaved);
    SAME(tuned_floor);
    SAME(tuned_scale);
    SAME(norm);
    SAME(activation);
    SAME(position);
    SAME(norm_epsilon);
    SAME(tied);
    SAME(qkv_bias);
    SAME(output_bias);
    SAME(mlp_bias);
    SAME(norm_bias);
    SAME(positions);
    SAME(qk_norm);
    SAME(chunk);
    SAME(sliding);
    SAME(global_every);
    SAME(moe.experts);
    SAME(moe.top_k);
    SAME(moe.expert_ffn);
    SAME(moe.shared);
    SAME(moe.shared_ffn);
    SAME(moe.every);
    SAME(moe.first_dense);
    SAME(moe.router);
    SAME(moe.scales_input);
    SAME(vision.layers);
    SAME(vision.hidden);
    SAME(vision.ffn);
    SAME(vision.heads);
    SAME(vision.image);
    SAME(vision.patch);
    SAME(vision.tokens);
    SAME(vision.output);
    SAME(vision.adapter_ffn);
    SAME(vision.biases);
}

static void what_is_written_is_the_same_model(void **state)
{
    (void)state;
    for (int i = 0; i < N_FAMILIES; i++) {
        opened o = open_at(checkpoint(families[i]));
        const orr_model *again;
        orr_error err = {.text = ""};
        const char *path = in_scratch("config.json");
        if (orr_model_config_write(o.model, ORR_DTYPE_BF16, path, &err) != ORR_OK ||
            orr_model_load(path, o.arena, &again, &err) != ORR_OK)
            fail_msg("%s: %s", families[i], err.text);
        same_shape(families[i], o.model, again);
        close_it(&o);
    }
}

static void models_of_the_catalogue_are_written(void **state)
{
    (void)state;
    static const char *const names[] = {"llama2-70b",    "llama3.1-8b",  "llama3.2-1b",
                                        "mixtral-8x22b", "llama4-scout", "llama4-maverick",
                                        "gpt3-small",    "qwen3-30b-a3b"};
    orr_arena *arena = orr_arena_new(0, 0);
    const char *path = in_scratch("config.json");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const orr_model *m, *again;
        orr_error err = {.text = ""};
        if (orr_model_load(names[i], arena, &m, &err) != ORR_OK ||
            orr_model_config_write(m, ORR_DTYPE_BF16, path, &err) != ORR_OK ||
            orr_model_load(path, arena, &again, &err) != ORR_OK)
            fail_msg("%s: %s", names[i], err.text);
        orr_model_size a, b;
        assert_int_equal(orr_model_count_parameters(m, arena, &a, NULL), ORR_OK);
        assert_int_equal(orr_model_count_parameters(again, arena, &b, NULL), ORR_OK);
        if (a.total != b.total)
            fail_msg("%s: %lld parameters, and %lld read again", names[i], (long long)a.total,
                     (long long)b.total);
    }
    orr_arena_free(arena);
}

static void what_no_checkpoint_keeps_is_refused(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_model *m;
    orr_error err = {.text = ""};
    assert_int_equal(orr_model_load("resnet50", arena, &m, &err), ORR_OK);
    assert_int_equal(orr_model_config_write(m, ORR_DTYPE_BF16, in_scratch("config.json"), &err),
                     ORR_UNSUPPORTED);
    must_say(&err, "resnet50: checkpoints of such a model cannot be read or written");
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_the_same_model),
        cmocka_unit_test(models_of_the_catalogue_are_written),
        cmocka_unit_test(what_no_checkpoint_keeps_is_refused),
    };
    return cmocka_run_group_tests(tests, make_scratch, remove_scratch);
}
