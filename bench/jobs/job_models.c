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

const orr_model *job_model(job_cases *cases, const char *name)
{
    const orr_model *model;
    orr_error err = {0};
    orr_model *own = orr_arena_one(cases->arena, orr_model);
    if (own == NULL || orr_model_load(name, cases->arena, &model, &err) != ORR_OK)
        return NULL;
    *own = *model;
    if (strcmp(own->family, "gpt-oss") == 0)
        own->ffn = own->moe.expert_ffn; /* its config.json's name for it: the split hashes it */
    return own;
}
