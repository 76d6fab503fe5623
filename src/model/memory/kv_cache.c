/* SPDX-License-Identifier: Apache-2.0 */
#include "model/memory/memory.h"
#include "model/plan/plan.h"

static int64_t at_least_one(int64_t n)
{
    return n > 0 ? n : 1;
}

/* Numbers that the cache holds for one token in one layer: keys and values of the slice's
 * key-value heads, at least one of them; with latent attention the latent vector and the rotated
 * part of k, the same in every slice (DeepSeek-V2, arXiv 2405.04434, section 2.1.2). */
static double columns(const orr_model *model, const orr_plan *plan)
{
    if (model->mla.kv_rank > 0)
        return (double)model->mla.kv_rank + model->mla.rope_dim;
    const int64_t tp = at_least_one(plan->tp), heads = (model->kv_heads + tp - 1) / tp;
    return 2.0 * (double)at_least_one(heads) * model->head_dim;
}

/* As kv_cache_dtype says; else in bf16, or fp32 where products are. */
static double number_bytes(const orr_plan *plan)
{
    if (plan->kv_cache_dtype != 0)
        return orr_dtype_bytes(orr_precision_dtype(plan->kv_cache_dtype));
    return plan->precision == ORR_PRECISION_FP32 || plan->precision == ORR_PRECISION_TF32 ? 4 : 2;
}

/* A chunked layer needs no more than a chunk. */
double orr_kv_cache_bytes(const orr_model *model, const orr_plan *plan, uint32_t layer,
                          uint64_t tokens, uint64_t samples)
{
    uint64_t seen = tokens;
    if (orr_model_layer_cross(model, layer))
        seen = (uint64_t)model->vision.tokens * model->vision.tiles;
    else if (model->chunk > 0 && !orr_model_layer_global(model, layer) && model->chunk < tokens)
        seen = model->chunk;
    const uint64_t cp = (uint64_t)at_least_one(plan->cp);
    return (double)((seen + cp - 1) / cp) * (double)samples * columns(model, plan) *
           number_bytes(plan);
}
