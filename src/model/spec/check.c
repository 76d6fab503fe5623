/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/spec/parameters.h"
#include "model/spec/spec.h"

/* One check: a condition, and the message where it does not hold. */
#define NEED(condition, at, err, ...)                                                              \
    do {                                                                                           \
        if (!(condition))                                                                          \
            return orr_yaml_fail((at), ORR_INVALID, (err), __VA_ARGS__);                           \
    } while (0)

static void fill_in(orr_model *m)
{
    if (m->head_dim == 0 && m->heads > 0 && m->hidden % m->heads == 0)
        m->head_dim = m->hidden / m->heads;
    if (m->kv_heads == 0)
        m->kv_heads = m->heads;
    if (m->position == ORR_POSITION_LEARNED && m->positions == 0)
        m->positions = m->context;
    if (m->moe.every == 0)
        m->moe.every = 1;
    if (m->moe.shared > 0 && m->moe.shared_ffn == 0)
        m->moe.shared_ffn = m->moe.expert_ffn;
    if (m->vision.layers > 0 && m->vision.tiles == 0)
        m->vision.tiles = 1;
    m->cross_layers = orr_model_cross_layers(m);
}

static orr_status check_attention(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_mla *mla = &m->mla;
    NEED(m->heads > 0, at, err, "model '%s' does not say how many heads it has", m->name);
    if (mla->kv_rank > 0) {
        NEED(mla->nope_dim > 0 && mla->rope_dim > 0 && mla->value_dim > 0, at, err,
             "model '%s': mla with kv_rank needs nope_dim, rope_dim and value_dim", m->name);
        return ORR_OK;
    }
    NEED(m->head_dim > 0, at, err,
         "model '%s': hidden %u does not divide into %u heads; say head_dim", m->name, m->hidden,
         m->heads);
    NEED(m->heads % m->kv_heads == 0, at, err,
         "model '%s': %u heads cannot share %u heads of keys and values evenly", m->name, m->heads,
         m->kv_heads);
    return ORR_OK;
}

static orr_status check_moe(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_moe *moe = &m->moe;
    if (moe->experts == 0)
        return ORR_OK;
    NEED(moe->top_k > 0 && moe->top_k <= moe->experts, at, err,
         "model '%s': top_k %u is not from 1 to the %u experts", m->name, moe->top_k, moe->experts);
    NEED(moe->expert_ffn > 0, at, err, "model '%s': moe does not say ffn, the width of an expert",
         m->name);
    NEED(moe->groups == 0 || moe->experts % moe->groups == 0, at, err,
         "model '%s': %u experts do not divide into %u groups", m->name, moe->experts, moe->groups);
    NEED(moe->top_groups <= moe->groups, at, err,
         "model '%s': top_groups %u is more than the %u groups", m->name, moe->top_groups,
         moe->groups);
    return ORR_OK;
}

static orr_status check_vision(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_vision *v = &m->vision;
    if (v->layers == 0) {
        NEED(m->cross_layers == 0, at, err,
             "model '%s' has cross_attention, and no vision encoder to attend to", m->name);
        return ORR_OK;
    }
    NEED(v->hidden > 0 && v->ffn > 0 && v->heads > 0 && v->output > 0, at, err,
         "model '%s': vision needs hidden, ffn, heads and output", m->name);
    NEED(v->patch > 0 && v->image >= v->patch, at, err,
         "model '%s': vision needs image and patch, pixels a side", m->name);
    NEED(v->adapter_ffn == 0 || v->adapter_in > 0, at, err,
         "model '%s': vision with adapter_ffn needs adapter_in", m->name);
    return ORR_OK;
}

static bool all_dense_layers_have_experts(const orr_model *m)
{
    return m->moe.experts > 0 && m->moe.first_dense == 0 && m->moe.every == 1;
}

/* Upper limits of sizes: a config.json may hold any number. */
static orr_status check_size(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const uint64_t layers =
        (uint64_t)m->layers + m->mtp + m->vision.layers + m->vision.global_layers;
    const uint32_t widths[] = {m->hidden, m->ffn, m->heads, m->kv_heads, m->head_dim};
    NEED(layers <= ORR_MODEL_MAX_LAYERS, at, err, "model '%s': %llu layers are more than %d",
         m->name, (unsigned long long)layers, ORR_MODEL_MAX_LAYERS);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        NEED(widths[i] <= ORR_MODEL_MAX_WIDTH, at, err, "model '%s': a width of %u is more than %d",
             m->name, widths[i], ORR_MODEL_MAX_WIDTH);
    return ORR_OK;
}

static orr_status check_transformer(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    NEED(m->layers > 0, at, err, "model '%s' does not say how many layers it has", m->name);
    NEED(m->hidden > 0, at, err, "model '%s' does not say its hidden size", m->name);
    NEED(m->vocab > 0, at, err, "model '%s' does not say its vocab: tokens in the vocabulary",
         m->name);
    NEED(m->context > 0, at, err, "model '%s' does not say its context: tokens it was made for",
         m->name);
    NEED(m->ffn > 0 || all_dense_layers_have_experts(m), at, err,
         "model '%s' does not say ffn, the width of its feed-forward part", m->name);
    NEED(m->global_every == 0 || m->chunk > 0, at, err,
         "model '%s': global_every says which layers see all, and chunk not what the others see",
         m->name);
    NEED(m->chunk == 0 || m->cross_layers == 0, at, err,
         "model '%s': chunks and cross_attention do not go together", m->name);
    NEED(m->norm_epsilon >= 0 && isfinite(m->norm_epsilon), at, err,
         "model '%s': norm_epsilon %g is below 0 or no number", m->name, m->norm_epsilon);
    NEED(m->rope_theta > 0 && isfinite(m->rope_theta), at, err,
         "model '%s': rope_theta %g is not above 0", m->name, m->rope_theta);
    ORR_TRY(check_size(m, at, err));
    ORR_TRY(check_attention(m, at, err));
    ORR_TRY(check_moe(m, at, err));
    return check_vision(m, at, err);
}

/* Dot products are of vectors of one width; cross layers take any. */
static orr_status check_columns(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_dlrm *d = &m->dlrm;
    for (uint32_t t = 0; t < d->n_tables; t++)
        NEED(d->cross_layers > 0 || d->tables[t].columns == d->dim, at, err,
             "model '%s': table %s has %u columns, and dot products need %u", m->name,
             d->tables[t].name, d->tables[t].columns, d->dim);
    return ORR_OK;
}

static orr_status check_dlrm(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_dlrm *d = &m->dlrm;
    NEED(d->n_tables > 0 && d->dim > 0, at, err,
         "model '%s': dlrm needs rows and dim of its tables", m->name);
    NEED(d->dense_features > 0 && d->n_bottom > 0 && d->n_top > 0, at, err,
         "model '%s': dlrm needs dense_features and the widths bottom and top", m->name);
    NEED(d->bottom[d->n_bottom - 1] == d->dim, at, err,
         "model '%s': the bottom layers end %u wide, and dim is %u", m->name,
         d->bottom[d->n_bottom - 1], d->dim);
    NEED(d->cross_layers == 0 || d->cross_rank > 0, at, err,
         "model '%s': cross_layers without cross_rank", m->name);
    return check_columns(m, at, err);
}

static orr_status check_resnet(const orr_model *m, const orr_yaml *at, orr_error *err)
{
    const orr_resnet *r = &m->resnet;
    NEED(r->n_stages > 0 && r->stem > 0 && r->classes > 0 && r->image > 0 && r->expansion > 0, at,
         err, "model '%s': resnet needs blocks, width, stem, classes, image and expansion",
         m->name);
    for (uint32_t s = 0; s < r->n_stages; s++)
        NEED(r->blocks[s] > 0 && r->width[s] > 0, at, err,
             "model '%s': stage %u of resnet has no blocks or no width", m->name, s);
    return ORR_OK;
}

static orr_status check_kind(orr_model *m, const orr_yaml *at, orr_error *err)
{
    switch ((orr_model_kind)m->kind) {
    case ORR_MODEL_TRANSFORMER:
        return check_transformer(m, at, err);
    case ORR_MODEL_DLRM:
        return check_dlrm(m, at, err);
    case ORR_MODEL_CONVOLUTIONAL:
        return check_resnet(m, at, err);
    }
    return ORR_OK;
}

orr_status orr_model_complete(orr_model *model, const orr_yaml *at, orr_error *err)
{
    orr_parameter_count measure;
    orr_model_size size;
    orr_error why = {0};
    if (model->incomplete)
        return ORR_OK;
    fill_in(model);
    ORR_TRY(check_kind(model, at, err));
    const orr_status status = orr_parameter_count_model(model, &measure, &size, &why);
    return status == ORR_OK ? ORR_OK : orr_yaml_fail(at, status, err, "%s", why.text);
}
