/* SPDX-License-Identifier: Apache-2.0 */
/* The model in GGUF's metadata. Keys: llama.cpp, gguf-py/gguf/constants.py; defaults:
 * src/llama-model.cpp. */
#include "weights/gguf_model.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json/reader.h"
#include "model/spec/spec.h"

typedef struct reader {
    const orr_weights *weights;
    const char *architecture;
    orr_arena *arena;
    orr_error *err;
} reader;

static const char *whole_key(const reader *r, const char *key, char *room, size_t bytes)
{
    if (strncmp(key, "orrery.", 7) == 0)
        return key;
    (void)snprintf(room, bytes, "%s.%s", r->architecture, key);
    return room;
}

/* The number at a key; where there is none *ret is unchanged, unless it is required. */
static orr_status number(const reader *r, const char *key, bool needed, double *ret)
{
    char room[128];
    const char *whole = whole_key(r, key, room, sizeof room);
    const char *text = orr_gguf_text(r->weights, whole);
    if (text == NULL)
        return needed ? orr_fail(r->err, ORR_INVALID, "%s: has no key %s", r->weights->path, whole)
                      : ORR_OK;
    return orr_text_double((orr_text){text, strlen(text)}, ret) && isfinite(*ret)
               ? ORR_OK
               : orr_fail(r->err, ORR_INVALID, "%s: %s is '%.40s', no number", r->weights->path,
                          whole, text);
}

static orr_status count(const reader *r, const char *key, bool needed, uint32_t *ret)
{
    double value = *ret;
    ORR_TRY(number(r, key, needed, &value));
    if (value < 0 || value > ORR_MODEL_MAX_TOKENS || value != floor(value))
        return orr_fail(r->err, ORR_INVALID, "%s: %s.%s is %g, not from 0 to %d", r->weights->path,
                        r->architecture, key, value, ORR_MODEL_MAX_TOKENS);
    *ret = (uint32_t)value;
    return ORR_OK;
}

static bool has(const reader *r, const char *tensor)
{
    return orr_weights_find(r->weights, tensor) != NULL;
}

static orr_status read_vocabulary(const reader *r, orr_model *m)
{
    const orr_weight *table = orr_weights_find(r->weights, "token_embd.weight");
    if (table == NULL || table->rank != 2 || table->dim[0] > ORR_MODEL_MAX_TOKENS)
        return orr_fail(r->err, ORR_INVALID, "%s: has no table token_embd.weight",
                        r->weights->path);
    m->vocab = (uint32_t)table->dim[0];
    m->tied = !has(r, "output.weight");
    return ORR_OK;
}

static orr_status read_decoder(const reader *r, orr_model *m)
{
    ORR_TRY(count(r, "block_count", true, &m->layers));
    ORR_TRY(count(r, "embedding_length", true, &m->hidden));
    ORR_TRY(count(r, "context_length", true, &m->context));
    ORR_TRY(count(r, "attention.head_count", true, &m->heads));
    m->kv_heads = m->heads;
    ORR_TRY(count(r, "attention.head_count_kv", false, &m->kv_heads));
    ORR_TRY(count(r, "attention.key_length", false, &m->head_dim));
    ORR_TRY(count(r, "feed_forward_length", true, &m->ffn));
    m->rope_theta = 1e4;
    ORR_TRY(number(r, "rope.freq_base", false, &m->rope_theta));
    m->norm_epsilon = 1e-5;
    ORR_TRY(number(r, "attention.layer_norm_rms_epsilon", false, &m->norm_epsilon));
    ORR_TRY(number(r, "attention.layer_norm_epsilon", false, &m->norm_epsilon));
    if (!(m->norm_epsilon >= 0) || !(m->rope_theta > 0) || !isfinite(m->norm_epsilon) ||
        !isfinite(m->rope_theta))
        return orr_fail(r->err, ORR_INVALID,
                        "%s: an epsilon of norms of %g and a base of rotations of %g cannot be",
                        r->weights->path, m->norm_epsilon, m->rope_theta);
    m->qkv_bias = has(r, "blk.0.attn_q.bias") || has(r, "blk.0.attn_qkv.bias");
    m->output_bias = has(r, "blk.0.attn_output.bias");
    m->mlp_bias = has(r, "blk.0.ffn_up.bias");
    m->head_bias = has(r, "output.bias");
    m->qk_norm = has(r, "blk.0.attn_q_norm.weight") ? 1 : 0;
    return read_vocabulary(r, m);
}

static orr_status finish_llama(const reader *r, orr_model *m)
{
    m->rope_interleaved = true;
    ORR_TRY(count(r, "expert_count", false, &m->moe.experts));
    ORR_TRY(count(r, "expert_used_count", false, &m->moe.top_k));
    ORR_TRY(count(r, "attention.sliding_window", false, &m->chunk));
    m->sliding = m->chunk > 0;
    if (m->moe.experts > 0) {
        m->moe.expert_ffn = m->ffn;
        m->ffn = 0;
    }
    return ORR_OK;
}

static orr_status finish_qwen(const reader *r, orr_model *m)
{
    ORR_TRY(count(r, "expert_count", false, &m->moe.experts));
    ORR_TRY(count(r, "expert_used_count", false, &m->moe.top_k));
    if (m->moe.experts > 0) {
        ORR_TRY(count(r, "expert_feed_forward_length", true, &m->moe.expert_ffn));
        m->ffn = 0;
    }
    return ORR_OK;
}

/* llama.cpp has constants in its code for what the file does not say: chunks of 8192 tokens, three
 * layers of four; no norm of q and k with 128 experts (llama-model.cpp, LLM_ARCH_LLAMA4). */
static orr_status finish_llama4(const reader *r, orr_model *m)
{
    m->rope_interleaved = true;
    ORR_TRY(count(r, "expert_count", true, &m->moe.experts));
    ORR_TRY(count(r, "expert_used_count", true, &m->moe.top_k));
    ORR_TRY(count(r, "expert_feed_forward_length", true, &m->moe.expert_ffn));
    ORR_TRY(count(r, "interleave_moe_layer_step", false, &m->moe.every));
    m->moe.router = ORR_ROUTER_SIGMOID;
    m->moe.scales_input = true;
    m->moe.shared = 1;
    if (m->moe.every <= 1)
        m->ffn = 0;
    m->chunk = m->tuned_floor = 8192;
    m->global_every = 4;
    m->tuned_scale = 0.1;
    uint32_t qk_norm = m->moe.experts == 128 ? 0 : 2;
    ORR_TRY(count(r, "attention.sliding_window", false, &m->chunk));
    ORR_TRY(count(r, ORR_GGUF_QK_NORM, false, &qk_norm));
    ORR_TRY(count(r, ORR_GGUF_NO_ROPE, false, &m->global_every));
    ORR_TRY(count(r, ORR_GGUF_TEMPERATURE_FLOOR, false, &m->tuned_floor));
    m->qk_norm = (uint8_t)(qk_norm > 0 ? 2 : 0);
    return number(r, ORR_GGUF_TEMPERATURE_SCALE, false, &m->tuned_scale);
}

static orr_status finish_gpt2(const reader *r, orr_model *m)
{
    (void)r;
    m->norm = ORR_NORM_LAYER;
    m->activation = ORR_ACTIVATION_GELU_TANH;
    m->position = ORR_POSITION_LEARNED;
    m->positions = m->context;
    m->norm_bias = true;
    return ORR_OK;
}

static const struct {
    const char *architecture;
    orr_status (*finish)(const reader *r, orr_model *m);
} ROWS[] = {
    {"llama", finish_llama}, {"llama4", finish_llama4}, {"qwen2", finish_qwen},
    {"qwen3", finish_qwen},  {"qwen3moe", finish_qwen}, {"gpt2", finish_gpt2},
};

/* The factor for a wave whose period is `tokens`. */
static double stretch(const orr_model *m, double tokens)
{
    const double longest = m->rope_context / m->rope_low, shortest = m->rope_context / m->rope_high;
    if (tokens > longest)
        return m->rope_factor;
    if (tokens < shortest || m->rope_high <= m->rope_low)
        return 1;
    const double smooth = (m->rope_context / tokens - m->rope_low) / (m->rope_high - m->rope_low);
    return 1 / ((1 - smooth) / m->rope_factor + smooth);
}

void orr_gguf_rope_freqs(const orr_model *m, float *ret)
{
    const double pi = 3.14159265358979323846;
    for (uint32_t i = 0; i < m->head_dim / 2; i++)
        ret[i] = (float)stretch(m, 2 * pi * pow(m->rope_theta, 2.0 * i / m->head_dim));
}

static orr_status same_freqs(const reader *r, const orr_model *m, const float *freqs, bool *ret)
{
    const uint32_t n = m->head_dim / 2;
    float *mine = orr_arena_array(r->arena, float, n);
    if (mine == NULL)
        return orr_fail_memory(r->err);
    orr_gguf_rope_freqs(m, mine);
    *ret = true;
    for (uint32_t i = 0; i < n; i++)
        *ret &= fabsf(mine[i] - freqs[i]) <= 1e-3f * mine[i];
    return ORR_OK;
}

/* The file has a tensor of factors, not the parameters that they come from: Llama 3.1's or Llama
 * 4's parameters are taken if they give the same factors. */
static orr_status read_rope(const reader *r, orr_model *m)
{
    static const double high[] = {0, 4, 1}; /* 0: as the file says */
    const orr_weight *w = orr_weights_find(r->weights, ORR_GGUF_ROPE_FREQS);
    bool same = false;
    if (w == NULL)
        return ORR_OK;
    if (w->format != ORR_ROW_FORMAT_FP32 || w->rank != 1 || w->dim[0] != m->head_dim / 2)
        return orr_fail(r->err, ORR_UNSUPPORTED,
                        "%s: " ORR_GGUF_ROPE_FREQS " is not %u numbers in fp32", r->weights->path,
                        m->head_dim / 2);
    for (uint32_t i = 0; i < sizeof high / sizeof *high && !same; i++) {
        m->rope_low = 1;
        m->rope_high = high[i];
        m->rope_context = 8192;
        m->rope_factor = 1;
        for (int64_t j = 0; j < w->dim[0]; j++)
            m->rope_factor = fmax(m->rope_factor, ((const float *)w->data)[j]);
        if (i == 0) {
            m->rope_context = 0;
            ORR_TRY(number(r, ORR_GGUF_ROPE_FACTOR, false, &m->rope_factor));
            ORR_TRY(number(r, ORR_GGUF_ROPE_LOW, false, &m->rope_low));
            ORR_TRY(number(r, ORR_GGUF_ROPE_HIGH, false, &m->rope_high));
            ORR_TRY(count(r, ORR_GGUF_ROPE_CONTEXT, false, &m->rope_context));
        }
        if (m->rope_high > 0 && m->rope_low > 0)
            ORR_TRY(same_freqs(r, m, w->data, &same));
    }
    return same ? ORR_OK
                : orr_fail(r->err, ORR_UNSUPPORTED,
                           "%s: " ORR_GGUF_ROPE_FREQS
                           " does not stretch positions as Llama 3.1 or Llama 4 does",
                           r->weights->path);
}

/* Linear scaling: all waves are slowed down alike. */
static orr_status read_scaling(const reader *r, orr_model *m)
{
    char room[128];
    const char *type =
        orr_gguf_text(r->weights, whole_key(r, "rope.scaling.type", room, sizeof room));
    if (type == NULL || strcmp(type, "none") == 0)
        return ORR_OK;
    m->rope_low = m->rope_high = 1;
    if (strcmp(type, "linear") == 0)
        return number(r, "rope.scaling.factor", true, &m->rope_factor);
    return orr_fail(r->err, ORR_UNSUPPORTED, "%s: positions are stretched by '%.40s'",
                    r->weights->path, type);
}

static orr_status read_model(const reader *r, orr_model *m)
{
    const size_t n = sizeof ROWS / sizeof *ROWS;
    size_t i = 0;
    while (i < n && strcmp(ROWS[i].architecture, r->architecture) != 0)
        i++;
    if (i == n)
        return orr_fail(r->err, ORR_UNSUPPORTED,
                        "%s: the architecture '%.40s' is not known; known: llama, llama4, qwen2, "
                        "qwen3, qwen3moe, gpt2",
                        r->weights->path, r->architecture);
    ORR_TRY(read_scaling(r, m));
    ORR_TRY(read_decoder(r, m));
    ORR_TRY(ROWS[i].finish(r, m));
    const orr_yaml at = {.file = r->weights->path, .line = 1, .column = 1};
    ORR_TRY(orr_model_complete(m, &at, r->err));
    return m->position == ORR_POSITION_ROTARY ? read_rope(r, m) : ORR_OK;
}

orr_status orr_gguf_model(const orr_weights *weights, orr_arena *arena, const orr_model **ret,
                          orr_error *err)
{
    const char *name = orr_gguf_text(weights, "general.name");
    const reader r = {.weights = weights,
                      .architecture = orr_gguf_text(weights, "general.architecture"),
                      .arena = arena,
                      .err = err};
    if (r.architecture == NULL)
        return orr_fail(err, ORR_INVALID, "%s: has no key general.architecture", weights->path);
    orr_model *m = orr_arena_one(arena, orr_model);
    if (m == NULL)
        return orr_fail_memory(err);
    *m = orr_model_default();
    m->name = m->source = orr_arena_strndup(arena, weights->path, strlen(weights->path));
    m->title = name != NULL ? orr_arena_strndup(arena, name, strlen(name)) : m->name;
    m->family = orr_arena_strndup(arena, r.architecture, strlen(r.architecture));
    if (m->name == NULL || m->title == NULL || m->family == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_model(&r, m));
    *ret = m;
    return ORR_OK;
}
