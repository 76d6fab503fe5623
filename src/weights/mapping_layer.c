/* SPDX-License-Identifier: Apache-2.0 */
/* Mappings of a layer's parameters, by their names on tapes. */
#include "weights/tensor_names.h"

#include <string.h>

#include "model/module/module.h"

typedef struct layer {
    const orr_tensor_naming *naming;
    const orr_weight_key *key;
    const orr_model *model;
    const orr_tensor_names *names;
    uint32_t number; /* the checkpoint's layer: MTP layers come last */
    bool moe;
    bool turned; /* rotary pairs have another layout in the file */
    orr_weight_mapping *mapping;
} layer;

static const char *bare_name(const layer *l, const char *name, const char *end)
{
    return orr_weight_mapping_name(l->mapping, l->naming->stem, l->names->layer, l->number, name,
                                   end);
}

/* Name of the weight, or of the bias. */
static const char *name_of(const layer *l, const char *name)
{
    return bare_name(l, name, orr_weight_mapping_suffix(l->key->nth));
}

static void vector(const layer *l, const char *name, int64_t n)
{
    orr_weight_mapping_single(l->mapping, ORR_WEIGHT_MAPPING_VECTOR, name_of(l, name), n, 1, false);
}

static void linear(const layer *l, const char *name, int64_t in, int64_t out)
{
    orr_weight_mapping_linear(l->mapping, name_of(l, name), l->key->nth, in, out,
                              l->names->input_major);
}

static void exact(const layer *l)
{
    if (l->mapping->n_tensors > 0)
        l->mapping->tensors[0].exact = true;
}

static void attention_norm(const layer *l)
{
    vector(l, l->names->attention_norm, l->model->hidden);
}

static void mlp_norm(const layer *l)
{
    vector(l, l->names->mlp_norm, l->model->hidden);
}

static void qkv(const layer *l)
{
    const orr_model *m = l->model;
    const orr_qkv_heads heads = {.q = name_of(l, l->names->q),
                                 .k = name_of(l, l->names->k),
                                 .v = name_of(l, l->names->v),
                                 .qkv = name_of(l, l->names->qkv),
                                 .heads = m->heads,
                                 .groups = m->kv_heads,
                                 .width = m->head_dim,
                                 .hidden = m->hidden,
                                 .nth = l->key->nth,
                                 .input_major = l->names->input_major,
                                 .turned = l->turned};
    orr_weight_mapping_qkv(l->mapping, &heads, m->rope_interleaved);
}

static void head_norm(const layer *l, const char *name)
{
    const int64_t width = l->model->head_dim;
    const char *whole = name_of(l, name);
    if (whole == NULL || !l->turned) {
        vector(l, name, width);
        return;
    }
    orr_weight_mapping_begin(l->mapping, ORR_WEIGHT_MAPPING_VECTOR, 1, width, 1);
    const uint32_t t = orr_weight_mapping_add_tensor(l->mapping, whole, 0, width, false);
    orr_weight_mapping_rotary(l->mapping, t, 0, width, l->model->rope_interleaved);
}

static void q_norm(const layer *l)
{
    head_norm(l, l->names->q_norm);
}

static void k_norm(const layer *l)
{
    head_norm(l, l->names->k_norm);
}

static void attention_out(const layer *l)
{
    const orr_model *m = l->model;
    const int64_t width = m->mla.kv_rank > 0 ? m->mla.value_dim : m->head_dim;
    linear(l, l->names->attention_out, m->heads * width, m->hidden);
}

/* Gate projections, then up projections. */
static void gate_up(const layer *l)
{
    const orr_model *m = l->model;
    const bool bias = l->key->nth > 0;
    const int64_t ffn = l->moe ? (int64_t)m->moe.shared * m->moe.shared_ffn : m->ffn;
    const char *gate = name_of(l, l->moe ? l->names->shared_gate : l->names->gate);
    const char *up = name_of(l, l->moe ? l->names->shared_up : l->names->up);
    if (gate == NULL || up == NULL)
        return;
    orr_weight_mapping_begin(l->mapping,
                             bias ? ORR_WEIGHT_MAPPING_VECTOR : ORR_WEIGHT_MAPPING_LINEAR, 1,
                             2 * ffn, bias ? 1 : m->hidden);
    const char *const both[] = {gate, up};
    for (int i = 0; i < 2; i++) {
        const uint32_t t =
            orr_weight_mapping_add_tensor(l->mapping, both[i], 0, ffn, l->names->input_major);
        orr_weight_mapping_add_rows(l->mapping, t, 0, 0, ffn);
    }
}

static void up(const layer *l)
{
    linear(l, l->names->up, l->model->hidden, l->model->ffn);
}

static void down(const layer *l)
{
    const orr_model *m = l->model;
    if (l->moe)
        linear(l, l->names->shared_down, (int64_t)m->moe.shared * m->moe.shared_ffn, m->hidden);
    else
        linear(l, l->names->down, m->ffn, m->hidden);
}

static void router(const layer *l)
{
    linear(l, l->names->router, l->model->hidden, l->model->moe.experts);
    exact(l);
}

static void router_bias(const layer *l)
{
    orr_weight_mapping_single(l->mapping, ORR_WEIGHT_MAPPING_VECTOR,
                              bare_name(l, l->names->router_bias, ""), l->model->moe.experts, 1,
                              false);
}

static void shared_weight(const layer *l)
{
    linear(l, l->names->shared_weight, l->model->hidden, 1);
    exact(l);
}

/* All experts in one input-major tensor, whose name has no ending. */
static void fused_experts(const layer *l, const char *name, int64_t in, int64_t out)
{
    const int64_t n = l->model->moe.experts;
    orr_weight_mapping_begin(l->mapping, ORR_WEIGHT_MAPPING_LINEAR, n, out, in);
    const uint32_t t =
        orr_weight_mapping_add_tensor(l->mapping, bare_name(l, name, ""), n, out, true);
    for (int64_t e = 0; e < n && !l->mapping->incomplete; e++)
        orr_weight_mapping_add_rows(l->mapping, t, e, 0, out);
}

/* Experts made of `n_parts` tensors, each of all experts (GGUF) or of one. */
static void experts(const layer *l, const char *const *parts, uint32_t n_parts, int64_t in,
                    int64_t out)
{
    const uint32_t n = l->model->moe.experts;
    uint32_t tensors[2] = {0};
    if (parts[0] == NULL || parts[n_parts - 1] == NULL)
        return;
    const bool together = strstr(parts[0], "%u") == NULL;
    orr_weight_mapping_begin(l->mapping, ORR_WEIGHT_MAPPING_LINEAR, n, n_parts * out, in);
    for (uint32_t e = 0; e < n && !l->mapping->incomplete; e++) {
        for (uint32_t p = 0; p < n_parts; p++) {
            if (!together || e == 0)
                tensors[p] = orr_weight_mapping_add_tensor(
                    l->mapping,
                    orr_weight_mapping_name(l->mapping, bare_name(l, "", ""), parts[p], e, "",
                                            ".weight"),
                    together ? n : 0, out, false);
            orr_weight_mapping_add_rows(l->mapping, tensors[p], together ? e : 0, 0, out);
        }
    }
}

static void expert_gate_up(const layer *l)
{
    const orr_model *m = l->model;
    const char *const parts[] = {l->names->expert_gate, l->names->expert_up};
    if (l->names->experts_gate_up != NULL)
        fused_experts(l, l->names->experts_gate_up, m->hidden, 2 * (int64_t)m->moe.expert_ffn);
    else
        experts(l, parts, 2, m->hidden, m->moe.expert_ffn);
}

static void expert_down(const layer *l)
{
    const orr_model *m = l->model;
    if (l->names->experts_down != NULL)
        fused_experts(l, l->names->experts_down, m->moe.expert_ffn, m->hidden);
    else
        experts(l, &l->names->expert_down, 1, m->moe.expert_ffn, m->hidden);
}

/* Rows of a projection, of every `width` of which the last `rope` are rotary. */
static void latent(const layer *l, const char *name, int64_t in, int64_t out, int64_t width)
{
    const int64_t rope = l->model->mla.rope_dim;
    const char *whole = name_of(l, name);
    if (whole == NULL || !l->turned || rope % 2 != 0) {
        linear(l, name, in, out);
        return;
    }
    orr_weight_mapping_begin(l->mapping, ORR_WEIGHT_MAPPING_LINEAR, 1, out, in);
    const uint32_t t =
        orr_weight_mapping_add_tensor(l->mapping, whole, 0, out, l->names->input_major);
    for (int64_t at = 0; at < out && !l->mapping->incomplete; at += width) {
        orr_weight_mapping_add_rows(l->mapping, t, 0, at, width - rope);
        orr_weight_mapping_rotary(l->mapping, t, at + width - rope, rope,
                                  l->model->rope_interleaved);
    }
}

static void q_down(const layer *l)
{
    linear(l, l->names->q_down, l->model->hidden, l->model->mla.q_rank);
}

static void q_down_norm(const layer *l)
{
    vector(l, l->names->q_down_norm, l->model->mla.q_rank);
}

static void q_up(const layer *l)
{
    const orr_mla *mla = &l->model->mla;
    const int64_t width = (int64_t)mla->nope_dim + mla->rope_dim;
    latent(l, mla->q_rank > 0 ? l->names->q_up : l->names->q,
           mla->q_rank > 0 ? mla->q_rank : l->model->hidden, l->model->heads * width, width);
}

static void kv_down(const layer *l)
{
    const int64_t width = (int64_t)l->model->mla.kv_rank + l->model->mla.rope_dim;
    latent(l, l->names->kv_down, l->model->hidden, width, width);
}

static void kv_down_norm(const layer *l)
{
    vector(l, l->names->kv_down_norm, l->model->mla.kv_rank);
}

static void kv_up(const layer *l)
{
    const orr_mla *mla = &l->model->mla;
    linear(l, l->names->kv_up, mla->kv_rank,
           l->model->heads * ((int64_t)mla->nope_dim + mla->value_dim));
}

static void embedding_norm(const layer *l)
{
    vector(l, l->names->next_embedding_norm, l->model->hidden);
}

static void hidden_norm(const layer *l)
{
    vector(l, l->names->next_hidden_norm, l->model->hidden);
}

static void mix(const layer *l)
{
    linear(l, l->names->next_mix, 2 * (int64_t)l->model->hidden, l->model->hidden);
}

static void final_norm(const layer *l)
{
    vector(l, l->names->next_norm, l->model->hidden);
}

static const struct {
    const char *name;
    void (*write)(const layer *l);
    bool latent; /* multi-head latent attention */
} PARAMETERS[] = {
    {"attention_norm", attention_norm, false},
    {"mlp_norm", mlp_norm, false},
    {"qkv", qkv, false},
    {"q", q_norm, false},
    {"k", k_norm, false},
    {"attention_out", attention_out, false},
    {"gate_up", gate_up, false},
    {"up", up, false},
    {"down", down, false},
    {"router", router, false},
    {"router_bias", router_bias, false},
    {"shared_gate", shared_weight, false},
    {"expert_gate_up", expert_gate_up, false},
    {"expert_down", expert_down, false},
    {"q_down", q_down, true},
    {"q_norm", q_down_norm, true},
    {"q_up", q_up, true},
    {"kv_down", kv_down, true},
    {"kv_norm", kv_down_norm, true},
    {"kv_up", kv_up, true},
    {"embedding_norm", embedding_norm, false},
    {"hidden_norm", hidden_norm, false},
    {"mtp", mix, false},
    {"final_norm", final_norm, false},
};

bool orr_weight_mapping_of_layer(const orr_tensor_naming *naming, const orr_weight_key *key,
                                 orr_weight_mapping *mapping)
{
    const orr_model *m = naming->model;
    const bool next = key->module == ORR_MODULE_MTP;
    layer l = {.naming = naming,
               .key = key,
               .model = m,
               .names = naming->names,
               .number = key->layer + (next ? m->layers : 0),
               .mapping = mapping};
    if (key->layer >= (next ? m->mtp : m->layers))
        return false;
    l.moe = m->moe.experts > 0 && orr_model_layer_moe(m, next ? m->layers - 1 : key->layer);
    l.turned = m->position == ORR_POSITION_ROTARY && m->rope_interleaved != l.names->interleaved;
    for (size_t i = 0; i < sizeof PARAMETERS / sizeof *PARAMETERS; i++) {
        if (strcmp(PARAMETERS[i].name, key->name) != 0 ||
            (PARAMETERS[i].latent && m->mla.kv_rank == 0))
            continue;
        PARAMETERS[i].write(&l);
        return mapping->n_tensors > 0;
    }
    return false;
}
