/* SPDX-License-Identifier: Apache-2.0 */
/* Readers of config.json by architecture. The meaning of keys is that of transformers (Hugging
 * Face), models/<model>/configuration_<model>.py. Defaults of absent keys are that file's,
 * except for key-value heads: without the key there are as many as heads. */
#include <stddef.h>
#include <string.h>

#include "model/spec/config.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define NEED(name, member)                                                                         \
    {                                                                                              \
        .path = name, .kind = ORR_SPEC_U32, .required = true,                                      \
        .offset = offsetof(orr_model, member)                                                      \
    }
#define U32(name, member)                                                                          \
    {                                                                                              \
        .path = name, .kind = ORR_SPEC_U32, .offset = offsetof(orr_model, member)                  \
    }
#define NUMBER(name, member)                                                                       \
    {                                                                                              \
        .path = name, .kind = ORR_SPEC_NUMBER, .offset = offsetof(orr_model, member)               \
    }
#define BOOL(name, member)                                                                         \
    {                                                                                              \
        .path = name, .kind = ORR_SPEC_BOOL, .offset = offsetof(orr_model, member)                 \
    }

/* Keys that most architectures have, at the top level or within "text_config". */
#define DECODER(in)                                                                                \
    NEED(in "hidden_size", hidden), NEED(in "num_hidden_layers", layers),                          \
        NEED(in "num_attention_heads", heads), NEED(in "vocab_size", vocab),                       \
        NEED(in "max_position_embeddings", context), U32(in "num_key_value_heads", kv_heads),      \
        U32(in "head_dim", head_dim), NUMBER(in "rope_theta", rope_theta),                         \
        NUMBER(in "rope_parameters.rope_theta", rope_theta),                                       \
        NUMBER(in "rms_norm_eps", norm_epsilon), BOOL(in "tie_word_embeddings", tied)

static const orr_config_key PLAIN[] = {DECODER("")};
static const orr_config_key DENSE[] = {NEED("intermediate_size", ffn)};
static const orr_config_key BIASES[] = {
    BOOL("attention_bias", qkv_bias),
    BOOL("attention_bias", output_bias),
    BOOL("mlp_bias", mlp_bias),
};
static const orr_config_key MIXTRAL[] = {
    NEED("intermediate_size", moe.expert_ffn),
    NEED("num_local_experts", moe.experts),
    NEED("num_experts_per_tok", moe.top_k),
};
static const orr_config_key QWEN3_MOE[] = {
    U32("intermediate_size", ffn),
    NEED("moe_intermediate_size", moe.expert_ffn),
    U32("num_experts", moe.experts),
    NEED("num_experts_per_tok", moe.top_k),
    U32("decoder_sparse_step", moe.every),
    U32("num_local_experts", moe.experts), /* since version 5 */
};
static const orr_config_key DEEPSEEK[] = {
    NEED("intermediate_size", ffn),         NEED("moe_intermediate_size", moe.expert_ffn),
    NEED("n_routed_experts", moe.experts),  NEED("num_experts_per_tok", moe.top_k),
    U32("n_shared_experts", moe.shared),    NEED("first_k_dense_replace", moe.first_dense),
    U32("moe_layer_freq", moe.every),       U32("n_group", moe.groups),
    U32("topk_group", moe.top_groups),      U32("q_lora_rank", mla.q_rank),
    NEED("kv_lora_rank", mla.kv_rank),      NEED("qk_nope_head_dim", mla.nope_dim),
    NEED("qk_rope_head_dim", mla.rope_dim), NEED("v_head_dim", mla.value_dim),
    U32("num_nextn_predict_layers", mtp),
};
static const orr_config_key GPT_OSS[] = {
    NEED("intermediate_size", moe.expert_ffn),
    NEED("num_local_experts", moe.experts),
    U32("experts_per_token", moe.top_k),
    U32("num_experts_per_tok", moe.top_k),
    U32("sliding_window", chunk),
};
static const orr_config_key GPT2[] = {
    NEED("n_embd", hidden),
    NEED("n_layer", layers),
    NEED("n_head", heads),
    NEED("n_positions", context),
    NEED("vocab_size", vocab),
    U32("n_inner", ffn),
    NUMBER("layer_norm_epsilon", norm_epsilon),
    BOOL("tie_word_embeddings", tied),
};
static const orr_config_key IN_TEXT[] = {DECODER("text_config.")};
#define LLAMA4_TEXT(in)                                                                            \
    NEED(in "intermediate_size", moe.expert_ffn), U32(in "intermediate_size_mlp", ffn),            \
        NEED(in "num_local_experts", moe.experts), NEED(in "num_experts_per_tok", moe.top_k),      \
        U32(in "interleave_moe_layer_step", moe.every), U32(in "attention_chunk_size", chunk),     \
        U32(in "no_rope_layer_interval", global_every)
static const orr_config_key LLAMA4[] = {LLAMA4_TEXT("text_config.")};
static const orr_config_key LLAMA4_ALONE[] = {LLAMA4_TEXT("")};
static const orr_config_key LLAMA4_VISION[] = {
    NEED("vision_config.num_hidden_layers", vision.layers),
    NEED("vision_config.hidden_size", vision.hidden),
    NEED("vision_config.intermediate_size", vision.ffn),
    NEED("vision_config.intermediate_size", vision.adapter_in),
    NEED("vision_config.num_attention_heads", vision.heads),
    NEED("vision_config.image_size", vision.image),
    NEED("vision_config.patch_size", vision.patch),
    NEED("vision_config.projector_input_dim", vision.adapter_ffn),
    NEED("vision_config.vision_output_dim", vision.output),
};
static const orr_config_key MLLAMA[] = {NEED("text_config.intermediate_size", ffn)};
static const orr_config_key MLLAMA_VISION[] = {
    NEED("vision_config.num_hidden_layers", vision.layers),
    NEED("vision_config.num_global_layers", vision.global_layers),
    NEED("vision_config.hidden_size", vision.hidden),
    NEED("vision_config.intermediate_size", vision.ffn),
    U32("vision_config.attention_heads", vision.heads),
    U32("vision_config.num_attention_heads", vision.heads),
    NEED("vision_config.image_size", vision.image),
    NEED("vision_config.patch_size", vision.patch),
    NEED("vision_config.max_num_tiles", vision.tiles),
    NEED("vision_config.vision_output_dim", vision.output),
};

static orr_status unsupported(const orr_yaml *root, const char *path, const char *why,
                              orr_error *err)
{
    const orr_yaml *value = orr_config_find(root, path);
    return orr_yaml_fail(value != NULL ? value : root, ORR_UNSUPPORTED, err, "%s: %s", path, why);
}

static bool is_true(const orr_yaml *root, const char *path, bool otherwise)
{
    const orr_yaml *value = orr_config_find(root, path);
    return value != NULL ? strcmp(value->text, "true") == 0 : otherwise;
}

static bool is_word(const orr_yaml *root, const char *path, const char *word)
{
    const orr_yaml *value = orr_config_find(root, path);
    return value != NULL && strcmp(value->text, word) == 0;
}

static uint32_t squared(uint32_t side)
{
    return side < 1 << 16 ? side * side : UINT32_MAX;
}

static uint32_t length_of(const orr_yaml *root, const char *path)
{
    const orr_yaml *value = orr_config_find(root, path);
    return value != NULL && value->kind == ORR_YAML_LIST ? value->n : 0;
}

static double number_at(const orr_yaml *root, const char *path, double otherwise)
{
    const orr_yaml *value = orr_config_find(root, path);
    double number;
    return value != NULL && orr_yaml_number(value, &number, NULL) == ORR_OK ? number : otherwise;
}

/* Scaling of rotary positions, as in transformers, modeling_rope_utils.py: "rope_scaling", and
 * since version 5 "rope_parameters". */
static void read_rope(const orr_yaml *rope, orr_model *m)
{
    const double factor = number_at(rope, "factor", 0);
    const bool named = orr_config_find(rope, "rope_type") != NULL;
    const char *type = named ? "rope_type" : "type";
    if (is_word(rope, type, "default") || orr_config_find(rope, type) == NULL)
        return;
    m->rope_factor = factor > 0 ? factor : -1;
    m->rope_low = number_at(rope, "low_freq_factor", 1);
    m->rope_high = number_at(rope, "high_freq_factor", 1);
    const double context = number_at(rope, "original_max_position_embeddings", 0);
    const bool linear =
        is_word(rope, type, "linear"); /* all waves: longer than a context of none */
    if (!linear && context >= 1 && context <= ORR_MODEL_MAX_TOKENS)
        m->rope_context = (uint32_t)context;
    if (!linear && (!is_word(rope, type, "llama3") || m->rope_context == 0))
        m->rope_factor = -1;
}

void orr_config_read_rope(const orr_yaml *root, orr_model *m)
{
    static const char *const paths[] = {"rope_scaling", "rope_parameters",
                                        "text_config.rope_scaling", "text_config.rope_parameters"};
    for (size_t i = 0; i < COUNT(paths); i++) {
        const orr_yaml *rope = orr_config_find(root, paths[i]);
        if (rope != NULL && rope->kind == ORR_YAML_MAP && rope->n > 0)
            read_rope(rope, m);
    }
}

/* Sliding-window attention in every layer, where there is a window. */
static orr_status finish_mistral(const orr_yaml *root, orr_model *m, orr_error *err)
{
    const orr_yaml *window = orr_config_find(root, "sliding_window");
    int64_t tokens = 0;
    if (window != NULL)
        ORR_TRY(orr_yaml_int(window, &tokens, err));
    if (tokens < 0 || tokens > UINT32_MAX / 2)
        return unsupported(root, "sliding_window", "no such window", err);
    m->chunk = (uint32_t)tokens;
    m->sliding = tokens > 0;
    return ORR_OK;
}

static orr_status finish_qwen2(const orr_yaml *root, orr_model *m, orr_error *err)
{
    m->qkv_bias = true;
    return is_true(root, "use_sliding_window", false)
               ? unsupported(root, "use_sliding_window", "windows of some layers only", err)
               : ORR_OK;
}

static orr_status finish_qwen3(const orr_yaml *root, orr_model *m, orr_error *err)
{
    m->qk_norm = 1;
    return is_true(root, "use_sliding_window", false)
               ? unsupported(root, "use_sliding_window", "windows of some layers only", err)
               : ORR_OK;
}

static orr_status finish_qwen3_moe(const orr_yaml *root, orr_model *m, orr_error *err)
{
    if (m->moe.experts == 0)
        return orr_yaml_fail(root, ORR_INVALID, err, "a Qwen3MoeForCausalLM needs 'num_experts'");
    if (length_of(root, "mlp_only_layers") > 0)
        return unsupported(root, "mlp_only_layers", "single layers without experts", err);
    if (m->moe.every <= 1)
        m->ffn = 0; /* no layer has a dense feed-forward part */
    return finish_qwen3(root, m, err);
}

static orr_status finish_deepseek(const orr_yaml *root, orr_model *m, orr_error *err)
{
    if (m->moe.every > 1)
        return unsupported(root, "moe_layer_freq", "experts in every second layer or fewer", err);
    if (is_word(root, "scoring_func", "sigmoid"))
        m->moe.router = ORR_ROUTER_SIGMOID;
    m->moe.router_bias = is_word(root, "topk_method", "noaux_tc");
    m->kv_heads = m->heads;
    return ORR_OK;
}

static orr_status finish_deepseek_v3(const orr_yaml *root, orr_model *m, orr_error *err)
{
    ORR_TRY(finish_deepseek(root, m, err));
    m->moe.router = ORR_ROUTER_SIGMOID;
    m->moe.router_bias = true;
    m->rope_interleaved = is_true(root, "rope_interleave", true);
    return ORR_OK;
}

static orr_status finish_gpt_oss(const orr_yaml *root, orr_model *m, orr_error *err)
{
    (void)root, (void)err;
    m->qkv_bias = m->output_bias = m->sinks = m->moe.biases = true;
    m->sliding = m->chunk > 0;
    m->global_every = m->chunk > 0 ? 2 : 0;
    return ORR_OK;
}

static orr_status finish_gpt2(const orr_yaml *root, orr_model *m, orr_error *err)
{
    (void)err;
    if (m->ffn == 0)
        m->ffn = 4 * m->hidden;
    m->norm = ORR_NORM_LAYER;
    m->activation = is_word(root, "activation_function", "gelu") ? ORR_ACTIVATION_GELU
                                                                 : ORR_ACTIVATION_GELU_TANH;
    m->position = ORR_POSITION_LEARNED;
    m->positions = m->context;
    m->norm_bias = m->qkv_bias = m->output_bias = m->mlp_bias = true;
    m->tied = is_true(root, "tie_word_embeddings", true);
    return ORR_OK;
}

/* Attention temperature tuning. Older files write 4 for true. */
static void tune(const orr_yaml *text, orr_model *m)
{
    static const char path[] = "attn_temperature_tuning";
    if (is_word(text, path, "false") || is_word(text, path, "0"))
        return;
    const double floor = number_at(text, "floor_scale", 8192);
    m->tuned_floor = floor >= 1 && floor <= ORR_MODEL_MAX_TOKENS ? (uint32_t)floor : 0;
    m->tuned_scale = number_at(text, "attn_scale", 0.1);
}

/* A text-only Llama 4 has its keys at the top level. */
static orr_status finish_llama4_alone(const orr_yaml *text, orr_model *m, orr_error *err)
{
    (void)err;
    m->moe.router = ORR_ROUTER_SIGMOID;
    m->moe.scales_input = true;
    m->moe.shared = 1;
    m->qk_norm = is_true(text, "use_qk_norm", true) ? 2 : 0;
    m->rope_interleaved = true;
    tune(text, m);
    if (m->moe.every <= 1)
        m->ffn = 0;
    if (m->chunk == 0)
        m->chunk = 8192;
    if (m->global_every == 0)
        m->global_every = 4;
    return ORR_OK;
}

static orr_status finish_llama4(const orr_yaml *root, orr_model *m, orr_error *err)
{
    orr_vision *v = &m->vision;
    const orr_yaml *text = orr_config_find(root, "text_config");
    ORR_TRY(finish_llama4_alone(text != NULL ? text : root, m, err));
    v->biases = v->class_token = true;
    v->tiles = 16;
    if (v->patch > 0) /* 2 x 2 patches become one token */
        v->tokens = squared(v->image / v->patch / 2);
    return ORR_OK;
}

/* Cross-attention layers at first, first + every, ... */
static orr_status read_cross_layers(const orr_yaml *root, orr_model *m, orr_error *err)
{
    static const char path[] = "text_config.cross_attention_layers";
    const orr_yaml *list = orr_config_find(root, path);
    int64_t first = 0, second = m->layers, layer;
    if (list == NULL || list->kind != ORR_YAML_LIST || list->n == 0)
        return unsupported(root, path, "a list of layers is needed here", err);
    ORR_TRY(orr_yaml_int(list->values[0], &first, err));
    if (list->n > 1)
        ORR_TRY(orr_yaml_int(list->values[1], &second, err));
    if (first < 0 || second <= first || second > m->layers)
        return unsupported(root, path, "no layers of this model in order", err);
    m->cross_first = (uint32_t)first;
    m->cross_every = (uint32_t)(second - first);
    for (uint32_t i = 0; i < list->n; i++) {
        ORR_TRY(orr_yaml_int(list->values[i], &layer, err));
        if (layer != first + (int64_t)i * (second - first))
            return unsupported(root, path, "layers that are not evenly spaced", err);
    }
    return orr_model_cross_layers(m) == list->n
               ? ORR_OK
               : unsupported(root, path, "the last layers of the model are left out", err);
}

static orr_status finish_mllama(const orr_yaml *root, orr_model *m, orr_error *err)
{
    orr_vision *v = &m->vision;
    m->extra_tokens = 8;
    v->class_token = v->gated_global = true;
    v->aspect_ratios = length_of(root, "vision_config.supported_aspect_ratios") + 1;
    v->intermediate = length_of(root, "vision_config.intermediate_layers_indices");
    if (v->patch > 0)
        v->tokens = squared(v->image / v->patch) + 1;
    return read_cross_layers(root, m, err);
}

#define TABLE(name)                                                                                \
    {                                                                                              \
        name, COUNT(name)                                                                          \
    }
static const orr_config_architecture ROWS[] = {
    {"LlamaForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DENSE), TABLE(BIASES)}, NULL},
    {"Llama4ForConditionalGeneration",
     1e-5,
     5e5,
     {TABLE(IN_TEXT), TABLE(LLAMA4), TABLE(LLAMA4_VISION)},
     finish_llama4},
    {"Llama4ForCausalLM", 1e-5, 5e5, {TABLE(PLAIN), TABLE(LLAMA4_ALONE)}, finish_llama4_alone},
    {"MllamaForConditionalGeneration",
     1e-5,
     5e5,
     {TABLE(IN_TEXT), TABLE(MLLAMA), TABLE(MLLAMA_VISION)},
     finish_mllama},
    {"MistralForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DENSE)}, finish_mistral},
    {"MixtralForCausalLM", 1e-5, 1e6, {TABLE(PLAIN), TABLE(MIXTRAL)}, finish_mistral},
    {"Qwen2ForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DENSE)}, finish_qwen2},
    {"Qwen3ForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DENSE), TABLE(BIASES)}, finish_qwen3},
    {"Qwen3MoeForCausalLM",
     1e-6,
     1e4,
     {TABLE(PLAIN), TABLE(QWEN3_MOE), TABLE(BIASES)},
     finish_qwen3_moe},
    {"DeepseekV2ForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DEEPSEEK)}, finish_deepseek},
    {"DeepseekV3ForCausalLM", 1e-6, 1e4, {TABLE(PLAIN), TABLE(DEEPSEEK)}, finish_deepseek_v3},
    {"GPT2LMHeadModel", 1e-5, 1e4, {TABLE(GPT2)}, finish_gpt2},
    {"GptOssForCausalLM", 1e-5, 1.5e5, {TABLE(PLAIN), TABLE(GPT_OSS)}, finish_gpt_oss},
};

const orr_config_architecture *orr_config_architectures(size_t *ret_n)
{
    *ret_n = COUNT(ROWS);
    return ROWS;
}
