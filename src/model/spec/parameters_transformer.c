/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of a transformer. D: hidden size, H heads of hd columns, G key-value heads, F columns
 * of the feed-forward part, E experts, V tokens.
 *
 * Shapes as in the implementations that the checkpoints were made by: Llama
 * (meta-llama/llama-models, models/llama3/model.py, models/llama4/{model,moe}.py), GPT-3 (Brown
 * et al. 2020, as GPT-2 with biases everywhere), multi-head latent attention
 * (deepseek-ai/DeepSeek-V3, inference/model.py), cross-attention and vision of Llama 3.2
 * (transformers, models/mllama). */
#include "model/spec/parameters.h"
#include "model/spec/spec.h"

/* Projections of multi-head latent attention: queries through q_rank columns (or directly), keys
 * and values through kv_rank columns and a rotary key that all heads share. */
static int64_t latent_products(const orr_model *model)
{
    const orr_mla *a = &model->mla;
    const int64_t D = model->hidden, H = model->heads;
    const int64_t query = orr_saturating_mul(H, (int64_t)a->nope_dim + a->rope_dim);
    const int64_t key_value = orr_saturating_mul(H, (int64_t)a->nope_dim + a->value_dim);
    int64_t n = a->q_rank > 0 ? orr_saturating_add(orr_saturating_mul(D, a->q_rank),
                                                   orr_saturating_mul(a->q_rank, query))
                              : orr_saturating_mul(D, query);
    n = orr_saturating_add(n, orr_saturating_mul(D, (int64_t)a->kv_rank + a->rope_dim));
    n = orr_saturating_add(n, orr_saturating_mul(a->kv_rank, key_value));
    return orr_saturating_add(n, orr_saturating_mul(orr_saturating_mul(H, a->value_dim), D));
}

static int64_t attention_matmul_parameters(const orr_model *model)
{
    if (model->mla.kv_rank > 0)
        return latent_products(model);
    const int64_t D = model->hidden, query = orr_saturating_mul(model->heads, model->head_dim);
    const int64_t key_value = orr_saturating_mul(model->kv_heads, model->head_dim);
    return orr_saturating_add(orr_saturating_mul(2, orr_saturating_mul(D, query)),
                              orr_saturating_mul(2, orr_saturating_mul(D, key_value)));
}

/* Parameters of attention outside of products: biases, norms of queries and keys, sinks. */
static int64_t attention_rest(const orr_model *model)
{
    const orr_mla *a = &model->mla;
    if (a->kv_rank > 0)
        return (int64_t)a->q_rank + a->kv_rank;
    const int64_t key_value = orr_saturating_mul(model->kv_heads, model->head_dim);
    const int64_t query = orr_saturating_mul(model->heads, model->head_dim);
    int64_t n = model->qkv_bias ? orr_saturating_add(query, orr_saturating_mul(2, key_value)) : 0;
    n = orr_saturating_add(n, model->output_bias ? model->hidden : 0);
    n = orr_saturating_add(n, model->qk_norm == 1 ? orr_saturating_mul(2, model->head_dim) : 0);
    return orr_saturating_add(n, model->sinks ? model->heads : 0);
}

static int64_t norm(const orr_model *model)
{
    return (int64_t)model->hidden * (model->norm == ORR_NORM_LAYER && model->norm_bias ? 2 : 1);
}

/* A gated feed-forward part has three matrices instead of two. */
static int64_t mlp_multiplied(const orr_model *model, int64_t ffn)
{
    const int64_t matrices = model->activation == ORR_ACTIVATION_SWIGLU ? 3 : 2;
    return orr_saturating_mul(matrices, orr_saturating_mul(model->hidden, ffn));
}
static int64_t mlp(const orr_model *model, int64_t ffn, bool biases)
{
    const int64_t inner = model->activation == ORR_ACTIVATION_SWIGLU ? 2 : 1;
    const int64_t rest =
        biases ? orr_saturating_add(orr_saturating_mul(inner, ffn), model->hidden) : 0;
    return orr_saturating_add(mlp_multiplied(model, ffn), rest);
}

static int64_t router(const orr_model *model)
{
    const orr_moe *moe = &model->moe;
    const int64_t biases = (int64_t)moe->experts * (moe->router_bias + moe->biases);
    return orr_saturating_add(orr_linear_parameters(model->hidden, moe->experts, false), biases);
}

static void add_experts(const orr_model *model, uint64_t layers, orr_parameter_count *m)
{
    const orr_moe *moe = &model->moe;
    orr_parameter_count_add(m, "router", layers, router(model), layers,
                            orr_saturating_mul(model->hidden, moe->experts));
    orr_parameter_count_add(m, "experts", layers * moe->experts,
                            mlp(model, moe->expert_ffn, moe->biases), layers * moe->top_k,
                            mlp_multiplied(model, moe->expert_ffn));
    orr_parameter_count_add(m, "shared experts", layers * moe->shared,
                            mlp(model, moe->shared_ffn, moe->biases), layers * moe->shared,
                            mlp_multiplied(model, moe->shared_ffn));
    if (moe->shared_gate)
        orr_parameter_count_add(m, "gates of shared experts", layers, model->hidden, layers,
                                model->hidden);
}

static void add_norms(const orr_model *model, orr_parameter_count *m)
{
    const uint64_t n =
        (uint64_t)model->layers * (model->parallel_residual ? 1 : 2) + model->final_norm;
    orr_parameter_count_add(m, "norms", n, norm(model), n, 0);
}

void orr_parameter_count_transformer(const orr_model *model, orr_parameter_count *m)
{
    const int64_t D = model->hidden;
    const uint64_t cross = orr_model_cross_layers(model), self = model->layers - cross;
    const uint64_t moe = orr_model_moe_layers(model), dense = model->layers - moe;
    const int64_t attention = attention_matmul_parameters(model);
    const int64_t rest = attention_rest(model);
    const int64_t rows = (int64_t)model->vocab + model->extra_tokens;
    const int64_t head = orr_linear_parameters(D, model->vocab, false);

    orr_parameter_count_add(m, "embedding", 1, orr_saturating_mul(rows, D), 1,
                            model->tied ? head : 0);
    orr_parameter_count_add(m, "positions", model->position == ORR_POSITION_LEARNED,
                            orr_saturating_mul(model->positions, D), 1, 0);
    orr_parameter_count_add(m, "attention", self, orr_saturating_add(attention, rest), self,
                            attention);
    /* Norms of queries and keys, and a gate after attention and after the MLP. */
    orr_parameter_count_add(m, "cross-attention", cross,
                            orr_saturating_add(attention, 2 * (int64_t)model->head_dim + 2), cross,
                            attention);
    orr_parameter_count_add(m, "mlp", dense, mlp(model, model->ffn, model->mlp_bias), dense,
                            mlp_multiplied(model, model->ffn));
    add_experts(model, moe, m);
    add_norms(model, m);
    if (!model->tied)
        orr_parameter_count_add(
            m, "head", 1, orr_saturating_add(head, model->head_bias ? model->vocab : 0), 1, head);
    orr_parameter_count_add(m, "vision", model->vision.layers > 0,
                            orr_parameter_count_vision(model), 0, 0);
}

/* Multi-token prediction: one more layer each, with a projection of two streams into one and a
 * norm for each stream and for the output; embedding and head are the model's (DeepSeek-V3,
 * arXiv 2412.19437, section 2.2). */
int64_t orr_parameter_count_mtp(const orr_model *model)
{
    orr_model layer = *model;
    orr_parameter_count m = {0};
    int64_t n = 0;
    if (model->mtp == 0)
        return 0;
    const int64_t attention =
        orr_saturating_add(attention_matmul_parameters(model), attention_rest(model));
    orr_parameter_count_add(&m, "attention", 1, attention, 1, 0);
    if (model->moe.experts > 0)
        add_experts(&layer, 1, &m);
    else
        orr_parameter_count_add(&m, "mlp", 1, mlp(model, model->ffn, model->mlp_bias), 1, 0);
    orr_parameter_count_add(&m, "norms", 5, norm(model), 5, 0);
    orr_parameter_count_add(&m, "projection", 1,
                            orr_saturating_mul(2, orr_saturating_mul(model->hidden, model->hidden)),
                            1, 0);
    for (uint32_t i = 0; i < m.n; i++)
        n = orr_saturating_add(n, orr_saturating_mul((int64_t)m.parts[i].count, m.parts[i].each));
    return orr_saturating_mul(n, model->mtp);
}
