/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/parameters.h"
#include "model/spec/spec.h"

/* FLOPs of attention for one pair of a query and a key: the score, and the weighted sum of
 * values. */
static double attention_pair_flops(const orr_model *model)
{
    const orr_mla *a = &model->mla;
    const double columns =
        a->kv_rank > 0 ? (double)a->nope_dim + a->rope_dim + a->value_dim : 2.0 * model->head_dim;
    return 2 * columns * model->heads;
}

/* Pairs of a query and a key in `seq` tokens, without a causal mask. */
static double square(double seq)
{
    return seq * seq;
}

static double chunked_pairs(const orr_model *model, double seq)
{
    const double chunk = model->chunk;
    if (chunk == 0 || seq <= chunk)
        return square(seq);
    if (model->sliding) /* twice the pairs of a causal window */
        return square(chunk) + 2 * (seq - chunk) * chunk;
    const double whole = (double)(uint64_t)(seq / chunk);
    return whole * square(chunk) + square(seq - whole * chunk);
}

static double attention_flops(const orr_model *model, double seq, bool full)
{
    const double global = orr_model_global_layers(model), cross = orr_model_cross_layers(model);
    const double layers = (double)model->layers - cross, local = (double)model->layers - global;
    const orr_vision *v = &model->vision;
    const double pairs = (layers - local) * square(seq) + local * chunked_pairs(model, seq);
    const double seen = (double)v->tokens * v->tiles;
    return attention_pair_flops(model) * (pairs * (full ? 1 : 0.5) + cross * seq * seen);
}

/* Parameters in matrix products, counted without allocation: searches ask for it often. */
static double matmul_parameters(const orr_model *model)
{
    orr_parameter_count m = {0};
    orr_parameter_count_transformer(model, &m);
    return (double)m.matmul;
}

double orr_model_flops(const orr_model *model, uint32_t seq, bool full)
{
    if (model->incomplete)
        return 0;
    if (model->kind == ORR_MODEL_DLRM)
        return orr_flops_dlrm(model);
    if (model->kind == ORR_MODEL_CONVOLUTIONAL)
        return orr_flops_resnet(model);
    return 2 * matmul_parameters(model) * seq + attention_flops(model, seq, full);
}

double orr_model_kv_cache_bytes(const orr_model *model, orr_dtype dtype)
{
    const orr_mla *a = &model->mla;
    const double columns =
        a->kv_rank > 0 ? (double)a->kv_rank + a->rope_dim : 2.0 * model->kv_heads * model->head_dim;
    const double layers = (double)model->layers - orr_model_cross_layers(model);
    return model->kind == ORR_MODEL_TRANSFORMER ? layers * columns * orr_dtype_bytes(dtype) : 0;
}
