/* SPDX-License-Identifier: Apache-2.0 */
/* config.json: keys as in transformers, models/<model>/configuration_<model>.py. */
#include <string.h>

#include "io/json/writer.h"
#include "weights/tensor_names.h"

static void put_rope(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_double(w, "rope_theta", m->rope_theta);
    if (m->rope_factor <= 0)
        return;
    orr_json_write_key(w, "rope_scaling");
    orr_json_write_object(w);
    orr_json_member_text(w, "rope_type", m->rope_context > 0 ? "llama3" : "linear");
    orr_json_member_double(w, "factor", m->rope_factor);
    if (m->rope_context > 0) {
        orr_json_member_double(w, "low_freq_factor", m->rope_low);
        orr_json_member_double(w, "high_freq_factor", m->rope_high);
        orr_json_member_uint(w, "original_max_position_embeddings", m->rope_context);
    }
    orr_json_write_object_end(w);
}

/* What all decoders but GPT-2 have. */
static void put_decoder(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "hidden_size", m->hidden);
    orr_json_member_uint(w, "num_hidden_layers", m->layers);
    orr_json_member_uint(w, "num_attention_heads", m->heads);
    orr_json_member_uint(w, "num_key_value_heads", m->kv_heads);
    if (m->mla.kv_rank == 0)
        orr_json_member_uint(w, "head_dim", m->head_dim);
    orr_json_member_uint(w, "vocab_size", m->vocab);
    orr_json_member_uint(w, "max_position_embeddings", m->context);
    orr_json_member_double(w, "rms_norm_eps", m->norm_epsilon);
    orr_json_member_text(w, "hidden_act", "silu");
    orr_json_member_bool(w, "tie_word_embeddings", m->tied);
    orr_json_member_bool(w, "attention_bias", m->qkv_bias && m->output_bias);
    put_rope(w, m);
}

static void put_llama(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "intermediate_size", m->ffn);
    orr_json_member_bool(w, "mlp_bias", m->mlp_bias);
}

static void put_window(orr_json_writer *w, const orr_model *m)
{
    orr_json_write_key(w, "sliding_window");
    if (m->sliding)
        orr_json_write_uint(w, m->chunk);
    else
        orr_json_write_null(w);
}

static void put_mistral(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "intermediate_size", m->ffn);
    put_window(w, m);
}

static void put_mixtral(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "intermediate_size", m->moe.expert_ffn);
    orr_json_member_uint(w, "num_local_experts", m->moe.experts);
    orr_json_member_uint(w, "num_experts_per_tok", m->moe.top_k);
    put_window(w, m);
}

static void put_qwen(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "intermediate_size", m->ffn);
    orr_json_member_bool(w, "use_sliding_window", false);
}

static void put_qwen_moe(orr_json_writer *w, const orr_model *m)
{
    const orr_moe *moe = &m->moe;
    orr_json_member_uint(w, "intermediate_size", m->ffn > 0 ? m->ffn : moe->expert_ffn);
    orr_json_member_uint(w, "moe_intermediate_size", moe->expert_ffn);
    orr_json_member_uint(w, "num_experts", moe->experts);
    orr_json_member_uint(w, "num_experts_per_tok", moe->top_k);
    orr_json_member_uint(w, "decoder_sparse_step", moe->every);
    if (moe->shared > 0)
        orr_json_member_uint(w, "shared_expert_intermediate_size", moe->shared * moe->shared_ffn);
    orr_json_member_bool(w, "norm_topk_prob", true);
    orr_json_member_bool(w, "use_sliding_window", false);
}

static void put_deepseek(orr_json_writer *w, const orr_model *m)
{
    const orr_moe *moe = &m->moe;
    orr_json_member_uint(w, "intermediate_size", m->ffn);
    orr_json_member_uint(w, "moe_intermediate_size", moe->expert_ffn);
    orr_json_member_uint(w, "n_routed_experts", moe->experts);
    orr_json_member_uint(w, "n_shared_experts", moe->shared);
    orr_json_member_uint(w, "num_experts_per_tok", moe->top_k);
    orr_json_member_uint(w, "first_k_dense_replace", moe->first_dense);
    orr_json_member_uint(w, "n_group", moe->groups > 0 ? moe->groups : 1);
    orr_json_member_uint(w, "topk_group", moe->top_groups > 0 ? moe->top_groups : 1);
    orr_json_write_key(w, "q_lora_rank");
    if (m->mla.q_rank > 0)
        orr_json_write_uint(w, m->mla.q_rank);
    else
        orr_json_write_null(w);
    orr_json_member_uint(w, "kv_lora_rank", m->mla.kv_rank);
    orr_json_member_uint(w, "qk_nope_head_dim", m->mla.nope_dim);
    orr_json_member_uint(w, "qk_rope_head_dim", m->mla.rope_dim);
    orr_json_member_uint(w, "v_head_dim", m->mla.value_dim);
    orr_json_member_uint(w, "num_nextn_predict_layers", m->mtp);
    orr_json_member_double(w, "routed_scaling_factor", 1);
    orr_json_member_bool(w, "norm_topk_prob", true);
    orr_json_member_bool(w, "rope_interleave", true); /* as names.c lays them */
}

static void put_llama4(orr_json_writer *w, const orr_model *m)
{
    const orr_moe *moe = &m->moe;
    orr_json_member_uint(w, "intermediate_size", moe->expert_ffn);
    orr_json_member_uint(w, "intermediate_size_mlp", m->ffn > 0 ? m->ffn : moe->expert_ffn);
    orr_json_member_uint(w, "num_local_experts", moe->experts);
    orr_json_member_uint(w, "num_experts_per_tok", moe->top_k);
    orr_json_member_uint(w, "interleave_moe_layer_step", moe->every);
    orr_json_member_uint(w, "attention_chunk_size", m->chunk);
    orr_json_member_uint(w, "no_rope_layer_interval", m->global_every);
    orr_json_member_bool(w, "use_qk_norm", m->qk_norm > 0);
    orr_json_member_bool(w, "attn_temperature_tuning", m->tuned_floor > 0);
    if (m->tuned_floor == 0)
        return;
    orr_json_member_uint(w, "floor_scale", m->tuned_floor);
    orr_json_member_double(w, "attn_scale", m->tuned_scale);
}

static void put_gpt2(orr_json_writer *w, const orr_model *m)
{
    orr_json_member_uint(w, "n_embd", m->hidden);
    orr_json_member_uint(w, "n_layer", m->layers);
    orr_json_member_uint(w, "n_head", m->heads);
    orr_json_member_uint(w, "n_inner", m->ffn);
    orr_json_member_uint(w, "n_positions", m->positions);
    orr_json_member_uint(w, "n_ctx", m->positions);
    orr_json_member_uint(w, "vocab_size", m->vocab);
    orr_json_member_double(w, "layer_norm_epsilon", m->norm_epsilon);
    orr_json_member_text(w, "activation_function",
                         m->activation == ORR_ACTIVATION_GELU_TANH ? "gelu_new" : "gelu");
    orr_json_member_bool(w, "tie_word_embeddings", m->tied);
}

static void put_vision(orr_json_writer *w, const orr_vision *v)
{
    orr_json_write_key(w, "vision_config");
    orr_json_write_object(w);
    orr_json_member_text(w, "model_type", "llama4_vision_model");
    orr_json_member_uint(w, "hidden_size", v->hidden);
    orr_json_member_uint(w, "num_hidden_layers", v->layers);
    orr_json_member_uint(w, "num_attention_heads", v->heads);
    orr_json_member_uint(w, "intermediate_size", v->ffn);
    orr_json_member_uint(w, "image_size", v->image);
    orr_json_member_uint(w, "patch_size", v->patch);
    orr_json_member_uint(w, "vision_output_dim", v->output);
    orr_json_member_uint(w, "projector_input_dim", v->adapter_ffn);
    orr_json_member_uint(w, "projector_output_dim", v->output);
    orr_json_member_double(w, "pixel_shuffle_ratio",
                           0.5); /* model/spec/config_architectures.c: two by two patches make a token */
    orr_json_write_object_end(w);
}

static const struct {
    const char *type;
    void (*put)(orr_json_writer *w, const orr_model *m);
} ROWS[ORR_ARCHITECTURES] = {
    [ORR_ARCHITECTURE_LLAMA] = {"llama", put_llama},
    [ORR_ARCHITECTURE_MISTRAL] = {"mistral", put_mistral},
    [ORR_ARCHITECTURE_MIXTRAL] = {"mixtral", put_mixtral},
    [ORR_ARCHITECTURE_LLAMA4] = {"llama4_text", put_llama4},
    [ORR_ARCHITECTURE_QWEN2] = {"qwen2", put_qwen},
    [ORR_ARCHITECTURE_QWEN2_MOE] = {"qwen2_moe", put_qwen_moe},
    [ORR_ARCHITECTURE_QWEN3] = {"qwen3", put_qwen},
    [ORR_ARCHITECTURE_QWEN3_MOE] = {"qwen3_moe", put_qwen_moe},
    [ORR_ARCHITECTURE_DEEPSEEK] = {"deepseek_v3", put_deepseek},
    [ORR_ARCHITECTURE_GPT2] = {"gpt2", put_gpt2},
};

static void put_model(orr_json_writer *w, const orr_model *m, orr_architecture architecture)
{
    orr_json_member_text(w, "model_type", ROWS[architecture].type);
    if (architecture != ORR_ARCHITECTURE_GPT2)
        put_decoder(w, m);
    ROWS[architecture].put(w, m);
}

static const char *name_of(orr_dtype dtype)
{
    switch (dtype) {
    case ORR_DTYPE_BF16:
        return "bfloat16";
    case ORR_DTYPE_FP16:
        return "float16";
    default:
        return "float32";
    }
}

static void put_config(orr_json_writer *w, const orr_model *m, orr_architecture architecture,
                       orr_dtype dtype)
{
    const bool pictures = architecture == ORR_ARCHITECTURE_LLAMA4 && m->vision.layers > 0;
    orr_json_write_object(w);
    orr_json_write_key(w, "architectures");
    orr_json_write_array(w);
    orr_json_write_cstr(w, pictures ? "Llama4ForConditionalGeneration"
                                    : orr_architecture_name(architecture));
    orr_json_write_array_end(w);
    orr_json_member_text(w, "torch_dtype", name_of(dtype));
    if (pictures) {
        orr_json_member_text(w, "model_type", "llama4");
        orr_json_write_key(w, "text_config");
        orr_json_write_object(w);
        put_model(w, m, architecture);
        orr_json_write_object_end(w);
        put_vision(w, &m->vision);
    } else {
        put_model(w, m, architecture);
    }
    orr_json_write_object_end(w);
}

orr_status orr_model_config_write(const orr_model *model, orr_dtype dtype, const char *path,
                                  orr_error *err)
{
    orr_architecture architecture;
    orr_output *out;
    orr_json_writer w;
    ORR_TRY(orr_architecture_of(model, &architecture, err));
    ORR_TRY(orr_output_open(path, &out, err));
    orr_json_write_init(&w, out);
    put_config(&w, model, architecture, dtype);
    orr_output_text(out, "\n");
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
