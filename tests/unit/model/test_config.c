/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

static orr_status read_config(const char *text, const orr_model **ret, orr_error *err)
{
    const orr_yaml *root;
    ORR_TRY(orr_config_parse(text, strlen(text), "config.json", arena, &root, err));
    return orr_config_read(root, arena, ret, err);
}

static const orr_model *config(const char *text)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    if (read_config(text, &model, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return model;
}

/* The config gives what the catalogue has: shape, parts and all. */
static void assert_like(const char *text, const char *name)
{
    const orr_model *got = config(text), *want = load(name);
    const orr_model_size a = size_of(got), b = size_of(want);
    assert_int_equal(a.n, b.n);
    for (uint32_t i = 0; i < a.n; i++) {
        assert_string_equal(a.parts[i].name, b.parts[i].name);
        assert_int_equal(a.parts[i].count, b.parts[i].count);
        assert_int_equal(a.parts[i].each, b.parts[i].each);
        assert_int_equal(a.parts[i].active, b.parts[i].active);
    }
    assert_int_equal(a.matmul, b.matmul);
    assert_int_equal(a.mtp, b.mtp);
    assert_int_equal(got->context, want->context);
    assert_true(got->rope_theta == want->rope_theta || want->position != ORR_POSITION_ROTARY);
    assert_true(got->norm_epsilon == want->norm_epsilon);
    assert_true(got->rope_factor == want->rope_factor && got->rope_low == want->rope_low);
    assert_true(got->rope_high == want->rope_high && got->rope_context == want->rope_context);
    assert_int_equal(got->tuned_floor, want->tuned_floor);
    assert_true(got->tuned_scale == want->tuned_scale);
    assert_int_equal(got->norm, want->norm);
    assert_int_equal(got->activation, want->activation);
    assert_int_equal(got->position, want->position);
    assert_int_equal(got->tied, want->tied);
    assert_int_equal(got->qk_norm, want->qk_norm);
    assert_int_equal(got->chunk, want->chunk);
    assert_int_equal(got->sliding, want->sliding);
    assert_int_equal(got->global_every, want->global_every);
    assert_memory_equal(&got->moe, &want->moe, sizeof got->moe);
    assert_memory_equal(&got->mla, &want->mla, sizeof got->mla);
    assert_memory_equal(&got->vision, &want->vision, sizeof got->vision);
    assert_true(orr_model_flops(got, 10000, false) == orr_model_flops(want, 10000, false));
}

static void llama(void **state)
{
    (void)state;
    assert_like("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 4096, "
                "\"intermediate_size\": 14336, \"num_hidden_layers\": 32, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256, "
                "\"max_position_embeddings\": 131072, \"rope_theta\": 500000.0, "
                "\"rms_norm_eps\": 1e-05, \"tie_word_embeddings\": false, \"head_dim\": null, "
                "\"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, "
                "\"high_freq_factor\": 4.0, \"original_max_position_embeddings\": 8192, "
                "\"rope_type\": \"llama3\"}, \"attention_bias\": false}",
                "llama3.1-8b");
    assert_like("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 2048, "
                "\"intermediate_size\": 8192, \"num_hidden_layers\": 16, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"head_dim\": 64, "
                "\"vocab_size\": 128256, \"max_position_embeddings\": 131072, "
                "\"rope_parameters\": {\"rope_theta\": 500000.0, \"factor\": 32.0, "
                "\"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, \"rope_type\": \"llama3\", "
                "\"original_max_position_embeddings\": 8192}, \"rms_norm_eps\": 1e-05, "
                "\"tie_word_embeddings\": true}",
                "llama3.2-1b");
}

static void llama_with_biases(void **state)
{
    (void)state;
    const orr_model *m =
        config("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, "
               "\"intermediate_size\": 256, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "
               "\"vocab_size\": 100, \"max_position_embeddings\": 128, \"attention_bias\": true, "
               "\"mlp_bias\": true}");
    assert_true(m->qkv_bias && m->output_bias && m->mlp_bias);
    assert_true(m->norm_epsilon == 1e-6 && m->rope_theta == 1e4);
    assert_int_equal(part_of(m, "attention").each, 4 * 64 * 64 + 4 * 64);
    assert_int_equal(part_of(m, "mlp").each, 3 * 64 * 256 + 2 * 256 + 64);
}

#define STRETCHED(rope)                                                                            \
    "{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64, "                            \
    "\"intermediate_size\": 256, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, "           \
    "\"vocab_size\": 100, \"max_position_embeddings\": 128, \"rope_scaling\": " rope "}"

static void positions_are_stretched(void **state)
{
    (void)state;
    const orr_model *m = config(STRETCHED("{\"type\": \"linear\", \"factor\": 4.0}"));
    assert_true(m->rope_factor == 4 && m->rope_context == 0 && m->rope_low > 0);
    assert_true(config(STRETCHED("null"))->rope_factor == 0);
    assert_true(config(STRETCHED("{\"rope_type\": \"default\"}"))->rope_factor == 0);
    /* Known to be there, and to be something else. */
    assert_true(config(STRETCHED("{\"rope_type\": \"yarn\", \"factor\": 4.0}"))->rope_factor < 0);
    assert_true(config(STRETCHED("{\"rope_type\": \"llama3\", \"factor\": 4.0}"))->rope_factor < 0);
}

#define LLAMA4(text)                                                                               \
    "{\"architectures\": [\"Llama4ForConditionalGeneration\"], \"text_config\": {"                 \
    "\"hidden_size\": 5120, \"intermediate_size\": 8192, \"intermediate_size_mlp\": 16384, "       \
    "\"num_hidden_layers\": 48, \"num_attention_heads\": 40, \"num_key_value_heads\": 8, "         \
    "\"head_dim\": 128, \"vocab_size\": 202048, \"rope_theta\": 500000.0, "                        \
    "\"rms_norm_eps\": 1e-05, \"num_experts_per_tok\": 1, \"attention_chunk_size\": 8192, " text   \
    "}, \"vision_config\": {\"hidden_size\": 1408, \"intermediate_size\": 5632, "                  \
    "\"num_hidden_layers\": 34, \"num_attention_heads\": 16, \"image_size\": 336, "                \
    "\"patch_size\": 14, \"projector_input_dim\": 4096, \"vision_output_dim\": 4096}}"

static void llama4(void **state)
{
    (void)state;
    assert_like(LLAMA4("\"num_local_experts\": 16, \"interleave_moe_layer_step\": 1, "
                       "\"max_position_embeddings\": 10485760, \"use_qk_norm\": true, "
                       "\"rope_scaling\": {\"factor\": 16.0, \"low_freq_factor\": 1.0, "
                       "\"high_freq_factor\": 1.0, \"original_max_position_embeddings\": 8192, "
                       "\"rope_type\": \"llama3\"}"),
                "llama4-scout");
    assert_like(LLAMA4("\"num_local_experts\": 128, \"interleave_moe_layer_step\": 2, "
                       "\"max_position_embeddings\": 1048576, \"use_qk_norm\": false"),
                "llama4-maverick");
    const orr_model *plain = config(LLAMA4("\"num_local_experts\": 4, "
                                           "\"max_position_embeddings\": 1024, "
                                           "\"attn_temperature_tuning\": false"));
    const orr_model *early = config(LLAMA4("\"num_local_experts\": 4, "
                                           "\"max_position_embeddings\": 1024, "
                                           "\"attn_temperature_tuning\": 4, "
                                           "\"floor_scale\": 16, \"attn_scale\": 0.5"));
    assert_int_equal(plain->tuned_floor, 0);
    assert_int_equal(early->tuned_floor, 16);
    assert_true(early->tuned_scale == 0.5 && early->rope_interleaved);
}

#define MLLAMA(layers)                                                                             \
    "{\"architectures\": [\"MllamaForConditionalGeneration\"], \"text_config\": {"                 \
    "\"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_hidden_layers\": 40, "             \
    "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 128256, "            \
    "\"max_position_embeddings\": 131072, \"rope_theta\": 500000.0, \"rms_norm_eps\": 1e-05, "     \
    "\"rope_scaling\": {\"factor\": 8.0, \"low_freq_factor\": 1.0, \"high_freq_factor\": 4.0, "    \
    "\"original_max_position_embeddings\": 8192, \"rope_type\": \"llama3\"}, "                     \
    "\"cross_attention_layers\": " layers "}, \"vision_config\": {\"hidden_size\": 1280, "         \
    "\"intermediate_size\": 5120, \"num_hidden_layers\": 32, \"num_global_layers\": 8, "           \
    "\"attention_heads\": 16, \"image_size\": 560, \"patch_size\": 14, \"max_num_tiles\": 4, "     \
    "\"vision_output_dim\": 7680, \"intermediate_layers_indices\": [3, 7, 15, 23, 30], "           \
    "\"supported_aspect_ratios\": [[1, 1], [1, 2], [1, 3], [1, 4], [2, 1], [2, 2], [3, 1], [4, 1]]}}"

static void llama_vision(void **state)
{
    (void)state;
    const orr_model *model = NULL;
    orr_error err = {0};
    assert_like(MLLAMA("[3, 8, 13, 18, 23, 28, 33, 38]"), "llama3.2-11b-vision");
    assert_int_equal(read_config(MLLAMA("[3, 8, 14]"), &model, &err), ORR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "text_config.cross_attention_layers: layers that are not "
                                     "evenly spaced"));
    assert_int_equal(read_config(MLLAMA("[3, 8]"), &model, &err), ORR_UNSUPPORTED);
    assert_int_equal(read_config(MLLAMA("[8, 3]"), &model, &err), ORR_UNSUPPORTED);
    assert_int_equal(read_config(MLLAMA("[]"), &model, &err), ORR_UNSUPPORTED);
    assert_null(model);
}

static void mixtures(void **state)
{
    (void)state;
    assert_like("{\"architectures\": [\"MixtralForCausalLM\"], \"hidden_size\": 4096, "
                "\"intermediate_size\": 14336, \"num_hidden_layers\": 32, "
                "\"num_attention_heads\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 32000, "
                "\"max_position_embeddings\": 32768, \"rope_theta\": 1000000.0, "
                "\"rms_norm_eps\": 1e-05, \"num_local_experts\": 8, \"num_experts_per_tok\": 2, "
                "\"sliding_window\": null}",
                "mixtral-8x7b");
    assert_like("{\"architectures\": [\"Qwen3MoeForCausalLM\"], \"hidden_size\": 2048, "
                "\"intermediate_size\": 6144, \"moe_intermediate_size\": 768, "
                "\"num_hidden_layers\": 48, \"num_attention_heads\": 32, "
                "\"num_key_value_heads\": 4, \"head_dim\": 128, \"vocab_size\": 151936, "
                "\"max_position_embeddings\": 40960, \"rope_theta\": 1000000.0, "
                "\"rms_norm_eps\": 1e-06, \"num_experts\": 128, \"num_experts_per_tok\": 8, "
                "\"decoder_sparse_step\": 1, \"mlp_only_layers\": [], "
                "\"use_sliding_window\": false, \"attention_bias\": false}",
                "qwen3-30b-a3b");
    assert_like("{\"architectures\": [\"GptOssForCausalLM\"], \"hidden_size\": 2880, "
                "\"intermediate_size\": 2880, \"num_hidden_layers\": 36, "
                "\"num_attention_heads\": 64, \"num_key_value_heads\": 8, \"head_dim\": 64, "
                "\"vocab_size\": 201088, \"max_position_embeddings\": 131072, "
                "\"rope_theta\": 150000, \"rms_norm_eps\": 1e-05, \"num_local_experts\": 128, "
                "\"num_experts_per_tok\": 4, \"sliding_window\": 128}",
                "gpt-oss-120b");
}

#define DEEPSEEK(more)                                                                             \
    "\"num_attention_heads\": 128, \"num_key_value_heads\": 128, \"rope_theta\": 10000, "          \
    "\"rms_norm_eps\": 1e-06, \"q_lora_rank\": 1536, \"kv_lora_rank\": 512, "                      \
    "\"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, \"v_head_dim\": 128, " more

static void deepseek(void **state)
{
    (void)state;
    const char *v3 = "{\"architectures\": [\"DeepseekV3ForCausalLM\"], " DEEPSEEK(
        "\"hidden_size\": 7168, \"intermediate_size\": 18432, \"moe_intermediate_size\": 2048, "
        "\"num_hidden_layers\": 61, \"vocab_size\": 129280, "
        "\"max_position_embeddings\": 131072, \"n_routed_experts\": 256, "
        "\"num_experts_per_tok\": 8, \"n_shared_experts\": 1, \"first_k_dense_replace\": 3, "
        "\"moe_layer_freq\": 1, \"n_group\": 8, \"topk_group\": 4, "
        "\"num_nextn_predict_layers\": 1}");
    const char *v2 = "{\"architectures\": [\"DeepseekV2ForCausalLM\"], " DEEPSEEK(
        "\"hidden_size\": 5120, \"intermediate_size\": 12288, \"moe_intermediate_size\": 1536, "
        "\"num_hidden_layers\": 60, \"vocab_size\": 102400, "
        "\"max_position_embeddings\": 163840, \"n_routed_experts\": 160, "
        "\"num_experts_per_tok\": 6, \"n_shared_experts\": 2, \"first_k_dense_replace\": 1, "
        "\"moe_layer_freq\": 1, \"n_group\": 8, \"topk_group\": 3, "
        "\"scoring_func\": \"softmax\", \"topk_method\": \"group_limited_greedy\"}");
    assert_like(v3, "deepseek-v3");
    assert_like(v2, "deepseek-v2");
}

static void gpt2(void **state)
{
    (void)state;
    const orr_model *m =
        config("{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 1600, \"n_layer\": 48, "
               "\"n_head\": 25, \"n_positions\": 1024, \"vocab_size\": 50257, \"n_inner\": null}");
    assert_int_equal(size_of(m).total, 1557611200); /* what the checkpoint of GPT-2 XL holds */
    assert_like("{\"architectures\": [\"GPT2LMHeadModel\"], \"n_embd\": 12288, \"n_layer\": 96, "
                "\"n_head\": 96, \"n_positions\": 2048, \"vocab_size\": 50257, "
                "\"layer_norm_epsilon\": 1e-05, \"activation_function\": \"gelu\"}",
                "gpt3-175b");
}

#define PLAIN(name, more)                                                                          \
    "{\"architectures\": [\"" name "\"], \"hidden_size\": 3584, \"intermediate_size\": 18944, "    \
    "\"num_hidden_layers\": 28, \"num_attention_heads\": 28, \"num_key_value_heads\": 4, "         \
    "\"vocab_size\": 152064, \"max_position_embeddings\": 32768" more "}"

static void others(void **state)
{
    (void)state;
    const orr_model *model = NULL;
    /* What the checkpoint of Qwen2.5 7B holds. */
    assert_int_equal(size_of(config(PLAIN("Qwen2ForCausalLM", ""))).total, 7615616512);
    assert_int_equal(config(PLAIN("Qwen3ForCausalLM", ""))->qk_norm, 1);
    const orr_model *mistral = config(PLAIN("MistralForCausalLM", ", \"sliding_window\": 4096"));
    assert_int_equal(mistral->chunk, 4096);
    assert_true(mistral->sliding && !orr_model_layer_global(mistral, 27));
    assert_int_equal(config(PLAIN("MistralForCausalLM", ""))->chunk, 0);
    assert_int_equal(
        read_config(PLAIN("Qwen2ForCausalLM", ", \"use_sliding_window\": true"), &model, NULL),
        ORR_UNSUPPORTED);
}

static void assert_config_refused(const char *text, orr_status status, const char *message)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    assert_int_equal(read_config(text, &model, &err), status);
    assert_string_equal(err.text, message);
    assert_null(model);
}

static void what_is_wrong_is_named(void **state)
{
    (void)state;
    assert_config_refused(
        "{\n  \"architectures\": [\"MambaForCausalLM\"]\n}", ORR_UNSUPPORTED,
        "config.json:2:21: the architecture 'MambaForCausalLM' is not known; known: "
        "LlamaForCausalLM, Llama4ForConditionalGeneration, Llama4ForCausalLM, "
        "MllamaForConditionalGeneration, "
        "MistralForCausalLM, MixtralForCausalLM, Qwen2ForCausalLM, Qwen3ForCausalLM, "
        "Qwen3MoeForCausalLM, DeepseekV2ForCausalLM, DeepseekV3ForCausalLM, GPT2LMHeadModel, "
        "GptOssForCausalLM");
    assert_config_refused("{\"hidden_size\": 4}", ORR_INVALID,
                          "config.json:1:1: a config.json names one architecture: "
                          "\"architectures\": [\"LlamaForCausalLM\"]");
    assert_config_refused("[]", ORR_INVALID, "config.json:1:1: a config.json is an object");
    assert_config_refused("{\"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 64}",
                          ORR_INVALID,
                          "config.json:1:1: a LlamaForCausalLM needs 'num_hidden_layers'");
    assert_config_refused("{\"architectures\": [\"LlamaForCausalLM\"],\n \"hidden_size\": \"64\"}",
                          ORR_INVALID,
                          "config.json:2:17: a whole number is needed here: write it without "
                          "quotes");
    assert_config_refused("{\"architectures\": [\"LlamaForCausalLM\"],\n \"hidden_size\": -64}",
                          ORR_INVALID,
                          "config.json:2:17: hidden_size: -64 is not from 0 to 1073741824");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(llama),
        cmocka_unit_test(llama_with_biases),
        cmocka_unit_test(positions_are_stretched),
        cmocka_unit_test(llama4),
        cmocka_unit_test(llama_vision),
        cmocka_unit_test(mixtures),
        cmocka_unit_test(deepseek),
        cmocka_unit_test(gpt2),
        cmocka_unit_test(others),
        cmocka_unit_test(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
