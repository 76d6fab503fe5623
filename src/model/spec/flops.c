/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/packing.h"
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

/* `whole`, `windowed`: shares of the pairs that are seen, in layers of global attention and in the
 * others. */
static double attention_flops(const orr_model *model, double seq, bool full, double whole,
                              double windowed)
{
    const double global = orr_model_global_layers(model), cross = orr_model_cross_layers(model);
    const double layers = (double)model->layers - cross, local = (double)model->layers - global;
    const orr_vision *v = &model->vision;
    const double pairs =
        whole * (layers - local) * square(seq) + windowed * local * chunked_pairs(model, seq);
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

static double flops_of(const orr_model *model, uint32_t seq, bool full, double whole,
                       double windowed)
{
    if (model->incomplete)
        return 0;
    if (model->kind == ORR_MODEL_DLRM)
        return orr_flops_dlrm(model);
    if (model->kind == ORR_MODEL_CONVOLUTIONAL)
        return orr_flops_resnet(model);
    return 2 * matmul_parameters(model) * seq + attention_flops(model, seq, full, whole, windowed);
}

double orr_model_flops(const orr_model *model, uint32_t seq, bool full)
{
    return flops_of(model, seq, full, 1, 1);
}

double orr_model_packed_flops(const orr_model *model, uint32_t seq, const orr_packed_pairs *whole,
                              const orr_packed_pairs *windowed)
{
    return flops_of(model, seq, false, whole->seen_frac, windowed->seen_frac);
}

double orr_model_kv_cache_bytes(const orr_model *model, orr_dtype dtype)
{
    const orr_mla *a = &model->mla;
    const double columns =
        a->kv_rank > 0 ? (double)a->kv_rank + a->rope_dim : 2.0 * model->kv_heads * model->head_dim;
    const double layers = (double)model->layers - orr_model_cross_layers(model);
    return model->kind == ORR_MODEL_TRANSFORMER ? layers * columns * orr_dtype_bytes(dtype) : 0;
}
