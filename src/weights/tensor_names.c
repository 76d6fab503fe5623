/* SPDX-License-Identifier: Apache-2.0 */
/* Tensor names: transformers, models/<model>/modeling_<model>.py (as in files), and llama.cpp,
 * gguf-py/gguf/constants.py. */
#include "weights/tensor_names.h"

#include <string.h>

#include "model/module/module.h"

#define DECODER                                                                                    \
    .embedding = "embed_tokens", .final_norm = "norm", .layer = "layers.%u.",                      \
    .attention_norm = "input_layernorm", .mlp_norm = "post_attention_layernorm",                   \
    .attention_out = "self_attn.o_proj"
#define QKV    .q = "self_attn.q_proj", .k = "self_attn.k_proj", .v = "self_attn.v_proj"
#define NORMED .q_norm = "self_attn.q_norm", .k_norm = "self_attn.k_norm"
#define MLP    .gate = "mlp.gate_proj", .up = "mlp.up_proj", .down = "mlp.down_proj"
#define EXPERTS                                                                                    \
    .router = "mlp.gate", .expert_gate = "mlp.experts.%u.gate_proj",                               \
    .expert_up = "mlp.experts.%u.up_proj", .expert_down = "mlp.experts.%u.down_proj"

static const orr_tensor_names names_hugging_face[ORR_ARCHITECTURES] = {
    [ORR_ARCHITECTURE_LLAMA] = {DECODER, QKV, MLP},
    [ORR_ARCHITECTURE_MISTRAL] = {DECODER, QKV, MLP},
    [ORR_ARCHITECTURE_MIXTRAL] = {DECODER, QKV, .router = "block_sparse_moe.gate",
                                  .expert_gate = "block_sparse_moe.experts.%u.w1",
                                  .expert_up = "block_sparse_moe.experts.%u.w3",
                                  .expert_down = "block_sparse_moe.experts.%u.w2"},
    [ORR_ARCHITECTURE_LLAMA4] = {DECODER, QKV, .gate = "feed_forward.gate_proj",
                                 .up = "feed_forward.up_proj", .down = "feed_forward.down_proj",
                                 .router = "feed_forward.router",
                                 .experts_gate_up = "feed_forward.experts.gate_up_proj",
                                 .experts_down = "feed_forward.experts.down_proj",
                                 .shared_gate = "feed_forward.shared_expert.gate_proj",
                                 .shared_up = "feed_forward.shared_expert.up_proj",
                                 .shared_down = "feed_forward.shared_expert.down_proj",
                                 .interleaved = true},
    [ORR_ARCHITECTURE_QWEN2] = {DECODER, QKV, MLP},
    [ORR_ARCHITECTURE_QWEN2_MOE] = {DECODER, QKV, MLP, EXPERTS,
                                    .shared_gate = "mlp.shared_expert.gate_proj",
                                    .shared_up = "mlp.shared_expert.up_proj",
                                    .shared_down = "mlp.shared_expert.down_proj",
                                    .shared_weight = "mlp.shared_expert_gate"},
    [ORR_ARCHITECTURE_QWEN3] = {DECODER, QKV, NORMED, MLP},
    [ORR_ARCHITECTURE_QWEN3_MOE] = {DECODER, QKV, NORMED, MLP, EXPERTS},
    [ORR_ARCHITECTURE_DEEPSEEK] =
        {DECODER, MLP, EXPERTS, .router_bias = "mlp.gate.e_score_correction_bias",
         .shared_gate = "mlp.shared_experts.gate_proj", .shared_up = "mlp.shared_experts.up_proj",
         .shared_down = "mlp.shared_experts.down_proj", .q = "self_attn.q_proj",
         .q_down = "self_attn.q_a_proj", .q_down_norm = "self_attn.q_a_layernorm",
         .q_up = "self_attn.q_b_proj", .kv_down = "self_attn.kv_a_proj_with_mqa",
         .kv_down_norm = "self_attn.kv_a_layernorm", .kv_up = "self_attn.kv_b_proj",
         .next_embedding_norm = "enorm", .next_hidden_norm = "hnorm", .next_mix = "eh_proj",
         .next_norm = "shared_head.norm", .interleaved = true},
    [ORR_ARCHITECTURE_GPT2] = {.embedding = "wte",
                               .positions = "wpe",
                               .final_norm = "ln_f",
                               .layer = "h.%u.",
                               .attention_norm = "ln_1",
                               .mlp_norm = "ln_2",
                               .qkv = "attn.c_attn",
                               .attention_out = "attn.c_proj",
                               .up = "mlp.c_fc",
                               .down = "mlp.c_proj",
                               .input_major = true},
};

#define GGUF_DECODER                                                                               \
    .embedding = "token_embd", .positions = "position_embd", .final_norm = "output_norm",          \
    .layer = "blk.%u.", .attention_norm = "attn_norm", .mlp_norm = "ffn_norm",                     \
    .attention_out = "attn_output", .q = "attn_q", .k = "attn_k", .v = "attn_v",                   \
    .q_norm = "attn_q_norm", .k_norm = "attn_k_norm", .gate = "ffn_gate", .up = "ffn_up",          \
    .down = "ffn_down", .router = "ffn_gate_inp", .expert_gate = "ffn_gate_exps",                  \
    .expert_up = "ffn_up_exps", .expert_down = "ffn_down_exps", .shared_gate = "ffn_gate_shexp",   \
    .shared_up = "ffn_up_shexp", .shared_down = "ffn_down_shexp",                                  \
    .shared_weight = "ffn_gate_inp_shexp", .router_bias = "exp_probs_b.bias"

/* llama.cpp rotates interleaved pairs in llama, llama4 and deepseek2 (llama-model.cpp,
 * llama_model_rope_type). */
static const orr_tensor_names names_gguf[ORR_ARCHITECTURES] = {
    [ORR_ARCHITECTURE_LLAMA] = {GGUF_DECODER, .interleaved = true},
    [ORR_ARCHITECTURE_MISTRAL] = {GGUF_DECODER, .interleaved = true},
    [ORR_ARCHITECTURE_MIXTRAL] = {GGUF_DECODER, .interleaved = true},
    [ORR_ARCHITECTURE_LLAMA4] = {GGUF_DECODER, .interleaved = true},
    [ORR_ARCHITECTURE_QWEN2] = {GGUF_DECODER},
    [ORR_ARCHITECTURE_QWEN2_MOE] = {GGUF_DECODER},
    [ORR_ARCHITECTURE_QWEN3] = {GGUF_DECODER},
    [ORR_ARCHITECTURE_QWEN3_MOE] = {GGUF_DECODER},
    [ORR_ARCHITECTURE_DEEPSEEK] = {GGUF_DECODER, .q_down = "attn_q_a",
                                   .q_down_norm = "attn_q_a_norm", .q_up = "attn_q_b",
                                   .kv_down = "attn_kv_a_mqa", .kv_down_norm = "attn_kv_a_norm",
                                   .kv_up = "attn_kv_b", .interleaved = true},
    [ORR_ARCHITECTURE_GPT2] = {GGUF_DECODER, .qkv = "attn_qkv"},
};

static const struct {
    const char *architecture, *gguf;
} NAMES[] = {
#define NAME_(name, hugging_face, gguf) {hugging_face, gguf},
    ORR_ARCHITECTURE_MAP(NAME_)
#undef NAME_
};

const char *orr_architecture_name(orr_architecture architecture)
{
    return NAMES[architecture].architecture;
}

const char *orr_architecture_gguf(orr_architecture architecture)
{
    return NAMES[architecture].gguf;
}

static orr_architecture with_experts(const orr_model *m)
{
    if (m->mla.kv_rank > 0)
        return ORR_ARCHITECTURE_DEEPSEEK;
    if (m->moe.scales_input)
        return ORR_ARCHITECTURE_LLAMA4;
    if (m->moe.shared > 0)
        return ORR_ARCHITECTURE_QWEN2_MOE;
    return m->qk_norm == 1 ? ORR_ARCHITECTURE_QWEN3_MOE : ORR_ARCHITECTURE_MIXTRAL;
}

static orr_architecture dense(const orr_model *m)
{
    if (m->mla.kv_rank > 0)
        return ORR_ARCHITECTURE_DEEPSEEK;
    if (m->position == ORR_POSITION_LEARNED)
        return ORR_ARCHITECTURE_GPT2;
    if (m->qk_norm == 1)
        return ORR_ARCHITECTURE_QWEN3;
    if (m->qkv_bias && !m->output_bias)
        return ORR_ARCHITECTURE_QWEN2;
    return m->sliding ? ORR_ARCHITECTURE_MISTRAL : ORR_ARCHITECTURE_LLAMA;
}

orr_status orr_architecture_of(const orr_model *m, orr_architecture *ret, orr_error *err)
{
    const bool learned = m->position == ORR_POSITION_LEARNED;
    const bool known = m->kind == ORR_MODEL_TRANSFORMER && m->cross_layers == 0 && !m->sinks &&
                       !m->parallel_residual && m->final_norm &&
                       (learned || m->position == ORR_POSITION_ROTARY) &&
                       learned == (m->norm == ORR_NORM_LAYER) &&
                       learned == (m->activation != ORR_ACTIVATION_SWIGLU) &&
                       m->activation != ORR_ACTIVATION_RELU && !(learned && m->moe.experts > 0);
    if (!known)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: checkpoints of such a model cannot be read or written; of Llama, "
                        "Mistral, Mixtral, Qwen, DeepSeek-V3 and GPT-2 they can",
                        m->name);
    if (m->rope_factor < 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: positions are stretched in a way that cannot be run", m->name);
    *ret = m->moe.experts > 0 ? with_experts(m) : dense(m);
    return ORR_OK;
}

static bool has(const orr_weights *weights, orr_arena *arena, const char *stem, const char *name)
{
    const char *whole = orr_arena_printf(arena, "%s%s.weight", stem, name);
    return whole != NULL && orr_weights_find(weights, whole) != NULL;
}

/* The prefix of a checkpoint's names, in the present and in the old form. */
static void set_stem(orr_tensor_naming *n, orr_arena *arena)
{
    static const struct {
        const char *stem, *head;
    } stems[] = {{"model.", "lm_head"},
                 {"language_model.model.", "language_model.lm_head"},
                 {"model.language_model.", "lm_head"},
                 {"transformer.", "lm_head"},
                 {"", "lm_head"}};
    n->stem = n->architecture == ORR_ARCHITECTURE_GPT2 ? "transformer." : "model.";
    n->head = "lm_head";
    if (n->gguf) {
        n->stem = "";
        n->head = "output";
    } else if (n->weights != NULL) {
        for (size_t i = 0; i < sizeof stems / sizeof *stems; i++) {
            if (has(n->weights, arena, stems[i].stem, n->names->embedding)) {
                n->stem = stems[i].stem;
                n->head = stems[i].head;
                return;
            }
        }
    } else if (n->architecture == ORR_ARCHITECTURE_LLAMA4 && n->model->vision.layers > 0) {
        n->stem = stems[1].stem;
        n->head = stems[1].head;
    }
}

orr_status orr_tensor_naming_of(const orr_model *model, const orr_weights *weights, bool gguf,
                                orr_arena *arena, const orr_tensor_naming **ret, orr_error *err)
{
    orr_architecture architecture;
    ORR_TRY(orr_architecture_of(model, &architecture, err));
    orr_tensor_naming *n = orr_arena_one(arena, orr_tensor_naming);
    if (n == NULL)
        return orr_fail_memory(err);
    *n = (orr_tensor_naming){.model = model,
                             .weights = weights,
                             .names = gguf ? &names_gguf[architecture]
                                           : &names_hugging_face[architecture],
                             .architecture = (uint8_t)architecture,
                             .gguf = gguf};
    set_stem(n, arena);
    *ret = n;
    return ORR_OK;
}

/* Embedding, head and final norm; the rest is a layer's or the vision encoder's. */
static bool make(const orr_tensor_naming *n, const orr_weight_key *key, orr_weight_mapping *r)
{
    const orr_model *m = n->model;
    const orr_tensor_names *names = n->names;
    const char *embedding = orr_weight_mapping_name(r, n->stem, "", 0, names->embedding, ".weight");
    const char *what = key->name, *end = orr_weight_mapping_suffix(key->nth);
    switch (key->module) {
    case ORR_MODULE_EMBEDDING:
        if (strcmp(what, "positions") == 0 && names->positions != NULL)
            orr_weight_mapping_single(
                r, ORR_WEIGHT_MAPPING_TABLE,
                orr_weight_mapping_name(r, n->stem, "", 0, names->positions, ".weight"),
                m->positions, m->hidden, false);
        else if (strcmp(what, "embedding") == 0)
            orr_weight_mapping_single(r, ORR_WEIGHT_MAPPING_TABLE, embedding,
                                      (int64_t)m->vocab + m->extra_tokens, m->hidden, false);
        return r->n_tensors > 0;
    case ORR_MODULE_HEAD:
        if (strcmp(what, "final_norm") == 0)
            orr_weight_mapping_single(
                r, ORR_WEIGHT_MAPPING_VECTOR,
                orr_weight_mapping_name(r, n->stem, "", 0, names->final_norm, end), m->hidden, 1,
                false);
        else if (strcmp(what, "head") == 0 && m->tied && key->nth == 0)
            orr_weight_mapping_linear(r, embedding, 0, m->hidden, m->vocab, false);
        else if (strcmp(what, "head") == 0)
            orr_weight_mapping_linear(r, orr_weight_mapping_name(r, n->head, "", 0, "", end),
                                      key->nth, m->hidden, m->vocab, false);
        return r->n_tensors > 0;
    case ORR_MODULE_VISION:
        return orr_weight_mapping_of_vision(n, key, r);
    default:
        return orr_weight_mapping_of_layer(n, key, r);
    }
}

orr_status orr_weight_mapping_make(const orr_tensor_naming *naming, const orr_weight_key *key,
                                   orr_arena *arena, orr_weight_mapping *ret, orr_error *err)
{
    orr_weight_mapping r = {.arena = arena, .weights = naming->weights};
    const bool known = make(naming, key, &r);
    if (r.failed)
        return orr_fail_memory(err);
    if (!known || r.n_tensors == 0)
        return orr_fail(
            err, ORR_NOT_FOUND, "checkpoints of a %s have no parameter '%s' of layer %u",
            orr_architecture_name((orr_architecture)naming->architecture), key->name, key->layer);
    *ret = r;
    return ORR_OK;
}
