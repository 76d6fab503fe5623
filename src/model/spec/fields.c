/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "model/spec/spec.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define U32(name, member, limit)                                                                   \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_U32, .offset = offsetof(orr_model, member), .most = limit    \
    }
#define WIDTH(name, member)  U32(name, member, ORR_MODEL_MAX_WIDTH)
#define LAYERS(name, member) U32(name, member, ORR_MODEL_MAX_LAYERS)
#define I64(name, member)                                                                          \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_I64, .offset = offsetof(orr_model, member),                  \
        .most = INT64_MAX                                                                          \
    }
#define NUMBER(name, member)                                                                       \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_NUMBER, .offset = offsetof(orr_model, member)                \
    }
#define BOOL(name, member)                                                                         \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_BOOL, .offset = offsetof(orr_model, member)                  \
    }
#define TEXT(name, member)                                                                         \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_TEXT, .offset = offsetof(orr_model, member)                  \
    }
#define WORD(name, member, list)                                                                   \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_WORD, .offset = offsetof(orr_model, member),                 \
        .words = (list), .n = COUNT(list)                                                          \
    }
#define LIST(name, type, member, count, limit, most_each)                                          \
    {                                                                                              \
        .key = name, .kind = type, .offset = offsetof(orr_model, member),                          \
        .length = offsetof(orr_model, count), .room = limit, .most = most_each                     \
    }
#define SECTION(name, table)                                                                       \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_SECTION, .fields = (table), .n = COUNT(table)                \
    }
#define OTHER(name)                                                                                \
    {                                                                                              \
        .key = name, .kind = ORR_SPEC_OTHER                                                        \
    }

static const char *const KINDS[] = {
#define NAME_(name, text) text,
    ORR_MODEL_KIND_MAP(NAME_)
#undef NAME_
};
static const char *const NORMS[] = {"rms", "layer"};
static const char *const ACTIVATIONS[] = {"swiglu", "gelu", "relu", "gelu_tanh"};
static const char *const POSITIONS[] = {"rotary", "learned", "alibi", "none"};
static const char *const ROUTERS[] = {"softmax", "sigmoid"};
static const char *const QK_NORMS[] = {"none", "learned", "weightless"};

static const orr_spec_field MOE[] = {
    WIDTH("experts", moe.experts),
    WIDTH("top_k", moe.top_k),
    WIDTH("ffn", moe.expert_ffn),
    LAYERS("shared", moe.shared),
    WIDTH("shared_ffn", moe.shared_ffn),
    BOOL("shared_gate", moe.shared_gate),
    LAYERS("first_dense", moe.first_dense),
    LAYERS("every", moe.every),
    WORD("router", moe.router, ROUTERS),
    BOOL("router_bias", moe.router_bias),
    BOOL("biases", moe.biases),
    BOOL("scales_input", moe.scales_input),
    WIDTH("groups", moe.groups),
    WIDTH("top_groups", moe.top_groups),
};
static const orr_spec_field MLA[] = {
    WIDTH("q_rank", mla.q_rank),       WIDTH("kv_rank", mla.kv_rank),
    WIDTH("nope_dim", mla.nope_dim),   WIDTH("rope_dim", mla.rope_dim),
    WIDTH("value_dim", mla.value_dim),
};
static const orr_spec_field CROSS[] = {
    LAYERS("first", cross_first),
    LAYERS("every", cross_every),
};
static const orr_spec_field VISION[] = {
    LAYERS("layers", vision.layers),
    LAYERS("global_layers", vision.global_layers),
    WIDTH("hidden", vision.hidden),
    WIDTH("ffn", vision.ffn),
    WIDTH("heads", vision.heads),
    WIDTH("image", vision.image),
    WIDTH("patch", vision.patch),
    LAYERS("tiles", vision.tiles),
    WIDTH("tokens", vision.tokens),
    WIDTH("output", vision.output),
    WIDTH("adapter_in", vision.adapter_in),
    WIDTH("adapter_ffn", vision.adapter_ffn),
    LAYERS("aspect_ratios", vision.aspect_ratios),
    BOOL("biases", vision.biases),
    BOOL("gated_global", vision.gated_global),
    BOOL("class_token", vision.class_token),
    LAYERS("intermediate", vision.intermediate),
    I64("parameters", vision.parameters),
};
static const orr_spec_field DLRM[] = {
    WIDTH("dense_features", dlrm.dense_features),
    WIDTH("dim", dlrm.dim),
    OTHER("rows"),
    OTHER("pooling"),
    OTHER("tables"),
    LIST("bottom", ORR_SPEC_U32S, dlrm.bottom, dlrm.n_bottom, ORR_MLP_LAYERS, ORR_MODEL_MAX_WIDTH),
    LIST("top", ORR_SPEC_U32S, dlrm.top, dlrm.n_top, ORR_MLP_LAYERS, ORR_MODEL_MAX_WIDTH),
    LAYERS("cross_layers", dlrm.cross_layers),
    WIDTH("cross_rank", dlrm.cross_rank),
};
static const orr_spec_field RESNET[] = {
    LIST("blocks", ORR_SPEC_U32S, resnet.blocks, resnet.n_stages, 4, ORR_MODEL_MAX_LAYERS),
    LIST("width", ORR_SPEC_U32S, resnet.width, resnet.n_stages, 4, ORR_MODEL_MAX_WIDTH),
    WIDTH("stem", resnet.stem),
    WIDTH("classes", resnet.classes),
    WIDTH("image", resnet.image),
    LAYERS("expansion", resnet.expansion),
};

static const orr_spec_field FIELDS[] = {
    TEXT("title", title),
    TEXT("family", family),
    WORD("kind", kind, KINDS),
    BOOL("incomplete", incomplete),
    BOOL("unverified", unverified),
    LAYERS("layers", layers),
    WIDTH("hidden", hidden),
    WIDTH("ffn", ffn),
    WIDTH("heads", heads),
    WIDTH("kv_heads", kv_heads),
    WIDTH("head_dim", head_dim),
    U32("vocab", vocab, ORR_MODEL_MAX_TOKENS),
    U32("extra_tokens", extra_tokens, ORR_MODEL_MAX_TOKENS),
    U32("context", context, ORR_MODEL_MAX_TOKENS),
    NUMBER("rope_theta", rope_theta),
    NUMBER("rope_factor", rope_factor),
    NUMBER("rope_low", rope_low),
    NUMBER("rope_high", rope_high),
    U32("rope_context", rope_context, ORR_MODEL_MAX_TOKENS),
    BOOL("rope_interleaved", rope_interleaved),
    U32("tuned_floor", tuned_floor, ORR_MODEL_MAX_TOKENS),
    NUMBER("tuned_scale", tuned_scale),
    WORD("norm", norm, NORMS),
    NUMBER("norm_epsilon", norm_epsilon),
    WORD("activation", activation, ACTIVATIONS),
    WORD("position", position, POSITIONS),
    U32("positions", positions, ORR_MODEL_MAX_TOKENS),
    BOOL("tied", tied),
    BOOL("qkv_bias", qkv_bias),
    BOOL("output_bias", output_bias),
    BOOL("mlp_bias", mlp_bias),
    BOOL("norm_bias", norm_bias),
    BOOL("head_bias", head_bias),
    BOOL("parallel_residual", parallel_residual),
    WORD("qk_norm", qk_norm, QK_NORMS),
    BOOL("final_norm", final_norm),
    BOOL("sinks", sinks),
    WIDTH("chunk", chunk),
    BOOL("sliding", sliding),
    LAYERS("global_every", global_every),
    LAYERS("mtp", mtp),
    I64("parameters", published_parameters),
    I64("active", published_active),
    SECTION("moe", MOE),
    SECTION("mla", MLA),
    SECTION("cross_attention", CROSS),
    SECTION("vision", VISION),
    SECTION("dlrm", DLRM),
    SECTION("resnet", RESNET),
    OTHER("like"),
    OTHER("notes"),
    OTHER("source"),
};

const orr_spec_field *orr_spec_fields(size_t *ret_n)
{
    *ret_n = COUNT(FIELDS);
    return FIELDS;
}

orr_model orr_model_default(void)
{
    return (orr_model){
        .title = "", .family = "", .final_norm = true, .norm_epsilon = 1e-5, .rope_theta = 1e4};
}
