/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters of Llama 4's vision encoder (transformers, models/llama4/modeling_llama4.py). Places:
 * 0 patches, 1 to n its layers, n + 1 the projector into the model. */
#include "weights/tensor_names.h"

#include <string.h>

#include "model/module/module.h"

enum { COLOURS = 3 };

typedef struct place {
    const orr_weight_key *key;
    const orr_vision *vision;
    int64_t model_columns;
    orr_weight_mapping *mapping;
} place;

static const char *name_of(const place *p, const char *name, const char *end)
{
    return orr_weight_mapping_name(p->mapping, "", "", 0, name, end);
}

static void norm(const place *p, const char *name)
{
    orr_weight_mapping_single(p->mapping, ORR_WEIGHT_MAPPING_VECTOR,
                              name_of(p, name, orr_weight_mapping_suffix(p->key->nth)),
                              p->vision->hidden, 1, false);
}

static void linear(const place *p, const char *name, uint32_t nth, int64_t in, int64_t out)
{
    orr_weight_mapping_linear(p->mapping, name_of(p, name, orr_weight_mapping_suffix(nth)), nth, in,
                              out, false);
}

static void patches(const place *p)
{
    const orr_vision *v = p->vision;
    const int64_t side = v->image / v->patch, pixels = COLOURS * (int64_t)v->patch * v->patch;
    const char *what = p->key->name;
    if (strcmp(what, "patches") == 0)
        linear(p, "vision_model.patch_embedding.linear", 0, pixels, v->hidden);
    else if (strcmp(what, "class token") == 0)
        orr_weight_mapping_single(p->mapping, ORR_WEIGHT_MAPPING_VECTOR,
                                  name_of(p, "vision_model.class_embedding", ""), v->hidden, 1,
                                  false);
    else if (strcmp(what, "positions") == 0)
        orr_weight_mapping_single(p->mapping, ORR_WEIGHT_MAPPING_TABLE,
                                  name_of(p, "vision_model.positional_embedding_vlm", ""),
                                  side * side + v->class_token, v->hidden, false);
    else if (strcmp(what, "norm") == 0)
        norm(p, "vision_model.layernorm_pre");
}

static const char *layer_name(const place *p, const char *name)
{
    return orr_weight_mapping_name(p->mapping, "", "vision_model.model.layers.%u.",
                                   p->key->layer - 1, name, orr_weight_mapping_suffix(p->key->nth));
}

static void layer_linear(const place *p, const char *name, int64_t in, int64_t out)
{
    orr_weight_mapping_linear(p->mapping, layer_name(p, name), p->key->nth, in, out, false);
}

static void layer(const place *p)
{
    const orr_vision *v = p->vision;
    const char *what = p->key->name;
    const orr_qkv_heads heads = {.q = layer_name(p, "self_attn.q_proj"),
                                 .k = layer_name(p, "self_attn.k_proj"),
                                 .v = layer_name(p, "self_attn.v_proj"),
                                 .heads = v->heads,
                                 .groups = v->heads,
                                 .width = v->hidden / v->heads,
                                 .hidden = v->hidden,
                                 .nth = p->key->nth};
    if (strcmp(what, "attention_norm") == 0)
        orr_weight_mapping_single(p->mapping, ORR_WEIGHT_MAPPING_VECTOR,
                                  layer_name(p, "input_layernorm"), v->hidden, 1, false);
    else if (strcmp(what, "mlp_norm") == 0)
        orr_weight_mapping_single(p->mapping, ORR_WEIGHT_MAPPING_VECTOR,
                                  layer_name(p, "post_attention_layernorm"), v->hidden, 1, false);
    else if (strcmp(what, "qkv") == 0)
        orr_weight_mapping_qkv(p->mapping, &heads, false);
    else if (strcmp(what, "attention_out") == 0)
        layer_linear(p, "self_attn.o_proj", v->hidden, v->hidden);
    else if (strcmp(what, "up") == 0)
        layer_linear(p, "mlp.fc1", v->hidden, v->ffn);
    else if (strcmp(what, "down") == 0)
        layer_linear(p, "mlp.fc2", v->ffn, v->hidden);
}

static void output(const place *p)
{
    const orr_vision *v = p->vision;
    const char *what = p->key->name;
    if (strcmp(what, "norm") == 0)
        norm(p, "vision_model.layernorm_post");
    else if (strcmp(what, "adapter") == 0 && p->key->nth == 0)
        linear(p, "vision_model.vision_adapter.mlp.fc1", 0, v->adapter_in, v->adapter_ffn);
    else if (strcmp(what, "adapter") == 0)
        linear(p, "vision_model.vision_adapter.mlp.fc2", 0, v->adapter_ffn, v->output);
    else if (strcmp(what, "projector") == 0)
        linear(p, "multi_modal_projector.linear_1", 0, v->output, p->model_columns);
}

bool orr_weight_mapping_of_vision(const orr_tensor_naming *naming, const orr_weight_key *key,
                                  orr_weight_mapping *mapping)
{
    const orr_vision *v = &naming->model->vision;
    const place p = {
        .key = key, .vision = v, .model_columns = naming->model->hidden, .mapping = mapping};
    if (naming->architecture != ORR_ARCHITECTURE_LLAMA4 || naming->gguf || v->heads == 0 ||
        v->patch == 0 || key->layer > v->layers + 1)
        return false;
    if (key->layer == 0)
        patches(&p);
    else if (key->layer <= v->layers)
        layer(&p);
    else
        output(&p);
    return mapping->n_tensors > 0;
}
