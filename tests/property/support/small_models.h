/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SMALL_MODELS_H
#define TESTS_SMALL_MODELS_H

#include "../../unit/model/built.h"
#include "model/module/local_shard.h"
#include "seeds.h"

/* Models of each family, as small as they can be with all that is particular about them. Words,
 * columns and heads do not divide evenly where real ones do not. */
typedef struct small_model {
    const char *name;
    orr_model model;
} small_model;

static orr_model small_llama(void)
{
    return (orr_model){.name = "small",
                       .family = "llama",
                       .kind = ORR_MODEL_TRANSFORMER,
                       .layers = 2,
                       .hidden = 16,
                       .ffn = 24,
                       .heads = 4,
                       .kv_heads = 4,
                       .head_dim = 4,
                       .vocab = 30,
                       .context = 64,
                       .rope_theta = 1e4,
                       .position = ORR_POSITION_ROTARY,
                       .norm_epsilon = 1e-5,
                       .final_norm = true,
                       .moe = {.every = 1},
                       .source = "small"};
}

static small_model small_llama2(void)
{
    return (small_model){"llama 2", small_llama()};
}

/* Heads of keys and values that slices share; waves that are stretched. */
static small_model small_llama3(void)
{
    orr_model m = small_llama();
    m.kv_heads = 2;
    m.rope_factor = 8;
    m.rope_low = 1;
    m.rope_high = 4;
    m.rope_context = 40;
    m.tied = true;
    return (small_model){"llama 3", m};
}

/* Chunks, layers without positions whose queries are tuned, weightless norms, scores that weigh
 * what goes in, an expert for all. */
static small_model small_llama4(void)
{
    orr_model m = small_llama();
    m.layers = 4;
    m.kv_heads = 2;
    m.rope_interleaved = true;
    m.chunk = 3;
    m.global_every = 4;
    m.tuned_floor = 2;
    m.tuned_scale = 0.1;
    m.qk_norm = 2;
    m.moe = (orr_moe){.experts = 8,
                      .top_k = 1,
                      .expert_ffn = 8,
                      .shared = 1,
                      .shared_ffn = 8,
                      .every = 2,
                      .router = ORR_ROUTER_SIGMOID,
                      .scales_input = true};
    return (small_model){"llama 4", m};
}

static small_model small_mixtral(void)
{
    orr_model m = small_llama();
    m.kv_heads = 2;
    m.qk_norm = 1;
    m.moe = (orr_moe){.experts = 4, .top_k = 2, .expert_ffn = 8, .every = 1};
    return (small_model){"mixtral", m};
}

/* More choices than experts of a rank, one group of experts of two, a gate before the shared
 * expert. */
static small_model small_deepseek(void)
{
    orr_model m = small_llama();
    m.mla = (orr_mla){8, 8, 4, 4, 6};
    m.mtp = 1;
    m.moe = (orr_moe){.experts = 8,
                      .top_k = 3,
                      .expert_ffn = 8,
                      .shared = 1,
                      .shared_ffn = 8,
                      .shared_gate = true,
                      .first_dense = 1,
                      .every = 1,
                      .router = ORR_ROUTER_SIGMOID,
                      .router_bias = true,
                      .groups = 2,
                      .top_groups = 1};
    return (small_model){"deepseek", m};
}

static small_model small_gpt2(void)
{
    orr_model m = small_llama();
    m.norm = ORR_NORM_LAYER;
    m.activation = ORR_ACTIVATION_GELU;
    m.position = ORR_POSITION_LEARNED;
    m.positions = 12;
    m.tied = true;
    m.qkv_bias = m.output_bias = m.mlp_bias = m.norm_bias = true;
    return (small_model){"gpt-2", m};
}

typedef small_model (*small_model_of)(void);
static const small_model_of SMALL_MODELS[] = {small_llama2,  small_llama3,   small_llama4,
                                              small_mixtral, small_deepseek, small_gpt2};
enum { N_SMALL_MODELS = sizeof SMALL_MODELS / sizeof *SMALL_MODELS };

#endif /* TESTS_SMALL_MODELS_H */
