/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "job_tables.h"

/* Models of the tables that the catalogue does not have: by their shape. */

const orr_model *job_gpt(job_cases *cases, const char *name, uint32_t layers, uint32_t hidden,
                         uint32_t heads, uint32_t vocab, uint32_t seq)
{
    orr_model *m = orr_arena_one(cases->arena, orr_model);
    if (m == NULL || heads == 0)
        return NULL;
    *m = (orr_model){.name = name,
                     .title = name,
                     .family = "gpt3",
                     .kind = ORR_MODEL_TRANSFORMER,
                     .layers = layers,
                     .hidden = hidden,
                     .ffn = 4 * hidden,
                     .heads = heads,
                     .kv_heads = heads,
                     .head_dim = hidden / heads,
                     .vocab = vocab,
                     .context = seq,
                     .norm = ORR_NORM_LAYER,
                     .activation = ORR_ACTIVATION_GELU,
                     .position = ORR_POSITION_LEARNED,
                     .norm_epsilon = 1e-5,
                     .tied = true,
                     .qkv_bias = true,
                     .output_bias = true,
                     .mlp_bias = true,
                     .norm_bias = true,
                     .positions = seq,
                     .final_norm = true,
                     .moe = {.every = 1},
                     .source = "the table's own shape"};
    return m;
}

/* deepseek-ai/DeepSeek-V3 inference/configs/config_236B.json */
static const orr_model DEEPSEEK_V2 = {
    .name = "deepseek-v2",
    .title = "DeepSeek-V2",
    .family = "deepseek",
    .kind = ORR_MODEL_TRANSFORMER,
    .layers = 60,
    .hidden = 5120,
    .ffn = 12288,
    .heads = 128,
    .kv_heads = 128,
    .head_dim = 192,
    .vocab = 102400,
    .context = 131072,
    .rope_theta = 1e4,
    .norm = ORR_NORM_RMS,
    .activation = ORR_ACTIVATION_SWIGLU,
    .position = ORR_POSITION_ROTARY,
    .norm_epsilon = 1e-6,
    .final_norm = true,
    .moe = {.experts = 160,
            .top_k = 6,
            .expert_ffn = 1536,
            .shared = 2,
            .shared_ffn = 1536,
            .first_dense = 1,
            .every = 1,
            .router = ORR_ROUTER_SOFTMAX,
            .groups = 8,
            .top_groups = 3},
    .mla = {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128},
    .source = "deepseek-ai/DeepSeek-V3 inference/configs/config_236B.json"};

/* openai/gpt-oss-120b config.json: every second layer sees 128 tokens; here chunks of as many. */
static const orr_model GPT_OSS = {.name = "gpt-oss-120b",
                                  .title = "gpt-oss-120b",
                                  .family = "gpt-oss",
                                  .kind = ORR_MODEL_TRANSFORMER,
                                  .layers = 36,
                                  .hidden = 2880,
                                  .ffn = 2880,
                                  .heads = 64,
                                  .kv_heads = 8,
                                  .head_dim = 64,
                                  .vocab = 201088,
                                  .context = 131072,
                                  .rope_theta = 150000,
                                  .norm = ORR_NORM_RMS,
                                  .activation = ORR_ACTIVATION_SWIGLU,
                                  .position = ORR_POSITION_ROTARY,
                                  .norm_epsilon = 1e-5,
                                  .qkv_bias = true,
                                  .output_bias = true,
                                  .final_norm = true,
                                  .chunk = 128,
                                  .global_every = 2,
                                  .moe = {.experts = 128,
                                          .top_k = 4,
                                          .expert_ffn = 2880,
                                          .every = 1,
                                          .router = ORR_ROUTER_SOFTMAX},
                                  .source = "openai/gpt-oss-120b config.json"};

const orr_model *job_model(job_cases *cases, const char *table, const char *name)
{
    static const orr_model *const OWN[] = {&DEEPSEEK_V2, &GPT_OSS};
    const orr_model *model;
    orr_error err = {0};
    for (size_t i = 0; i < sizeof OWN / sizeof *OWN; i++)
        if (strcmp(OWN[i]->name, name) == 0)
            return OWN[i];
    if (orr_model_load(name, cases->arena, &model, &err) == ORR_OK)
        return model;
    job_cases_leave_out(cases, table, job_text(cases->arena, "%s", err.text));
    return NULL;
}
