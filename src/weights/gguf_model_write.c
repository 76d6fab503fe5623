/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a model's metadata, as gguf_model.c reads them. */
#include <stdio.h>
#include <string.h>

#include "weights/gguf_model.h"
#include "weights/write.h"

typedef struct keys {
    orr_gguf_metadata_writer *to;
    const char *architecture;
} keys;

static void u32(const keys *k, const char *key, uint32_t value)
{
    char whole[128];
    (void)snprintf(whole, sizeof whole, "%s.%s", k->architecture, key);
    orr_gguf_put_u32(k->to, whole, value);
}

static void f32(const keys *k, const char *key, double value)
{
    char whole[128];
    (void)snprintf(whole, sizeof whole, "%s.%s", k->architecture, key);
    orr_gguf_put_f32(k->to, whole, value);
}

static void text(const keys *k, const char *key, const char *value)
{
    char whole[128];
    (void)snprintf(whole, sizeof whole, "%s.%s", k->architecture, key);
    orr_gguf_put_text(k->to, whole, value, strlen(value));
}

/* llama.cpp, include/llama.h, enum llama_ftype. */
static uint32_t file_type(orr_row_format format)
{
    switch (format) {
    case ORR_ROW_FORMAT_FP16:
        return 1;
    case ORR_ROW_FORMAT_Q4_0:
        return 2;
    case ORR_ROW_FORMAT_Q8_0:
        return 7;
    case ORR_ROW_FORMAT_BF16:
        return 32;
    default:
        return 0;
    }
}

static void put_experts(const keys *k, const orr_model *m)
{
    const orr_moe *moe = &m->moe;
    if (moe->experts == 0)
        return;
    u32(k, "expert_count", moe->experts);
    u32(k, "expert_used_count", moe->top_k);
    u32(k, "expert_feed_forward_length", moe->expert_ffn);
    if (moe->shared > 0)
        u32(k, "expert_shared_feed_forward_length", moe->shared * moe->shared_ffn);
    if (moe->scales_input)
        u32(k, "interleave_moe_layer_step", moe->every);
}

static void put_attention(const keys *k, const orr_model *m)
{
    u32(k, "attention.head_count", m->heads);
    u32(k, "attention.head_count_kv", m->kv_heads);
    u32(k, "attention.key_length", m->head_dim);
    u32(k, "attention.value_length", m->head_dim);
    f32(k,
        m->norm == ORR_NORM_LAYER ? "attention.layer_norm_epsilon"
                                  : "attention.layer_norm_rms_epsilon",
        m->norm_epsilon);
    if (m->chunk > 0)
        u32(k, "attention.sliding_window", m->chunk);
    if (m->position != ORR_POSITION_ROTARY)
        return;
    u32(k, "rope.dimension_count", m->head_dim);
    f32(k, "rope.freq_base", m->rope_theta);
    if (m->rope_factor <= 0 || m->rope_context > 0)
        return;
    text(k, "rope.scaling.type", "linear");
    f32(k, "rope.scaling.factor", m->rope_factor);
}

/* What llama.cpp assumes, or has no key for. */
static void put_ours(orr_gguf_metadata_writer *to, const orr_model *m)
{
    if (m->rope_factor > 0 && m->rope_context > 0) {
        orr_gguf_put_f32(to, ORR_GGUF_ROPE_FACTOR, m->rope_factor);
        orr_gguf_put_f32(to, ORR_GGUF_ROPE_LOW, m->rope_low);
        orr_gguf_put_f32(to, ORR_GGUF_ROPE_HIGH, m->rope_high);
        orr_gguf_put_u32(to, ORR_GGUF_ROPE_CONTEXT, m->rope_context);
    }
    if (!m->moe.scales_input)
        return;
    orr_gguf_put_u32(to, ORR_GGUF_QK_NORM, m->qk_norm);
    orr_gguf_put_u32(to, ORR_GGUF_NO_ROPE, m->global_every);
    orr_gguf_put_u32(to, ORR_GGUF_TEMPERATURE_FLOOR, m->tuned_floor);
    orr_gguf_put_f32(to, ORR_GGUF_TEMPERATURE_SCALE, m->tuned_scale);
}

void orr_gguf_put_model(orr_gguf_metadata_writer *to, const orr_model *m, const char *architecture,
                        orr_row_format format)
{
    const keys k = {to, architecture};
    const bool experts_only = m->moe.experts > 0 && m->ffn == 0;
    orr_gguf_put_text(to, "general.architecture", architecture, strlen(architecture));
    orr_gguf_put_text(to, "general.name", m->title, strlen(m->title));
    orr_gguf_put_u32(to, "general.file_type", file_type(format));
    u32(&k, "block_count", m->layers);
    u32(&k, "context_length", m->context);
    u32(&k, "embedding_length", m->hidden);
    u32(&k, "feed_forward_length", experts_only ? m->moe.expert_ffn : m->ffn);
    u32(&k, "vocab_size", m->vocab);
    put_attention(&k, m);
    put_experts(&k, m);
    put_ours(to, m);
}
