/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_TRANSFORMER_H
#define ORR_MODEL_ARCH_TRANSFORMER_H

#include "model/module/draft.h"

/* Building blocks that the modules of transformers are written with. Letters: B samples, S
 * tokens, D hidden size, F width of the feed-forward part, H heads, G key-value heads, W columns
 * of a head. Every block maps activations (B, S, D) to (B, S, D) unless it says otherwise. */

/* Along which dim of its weights (in, out) tensor parallelism shards a linear layer:
 * column-parallel or row-parallel, as in Megatron-LM. */
typedef enum orr_slicing { ORR_BY_NONE, ORR_BY_COLUMN, ORR_BY_ROW } orr_slicing;
typedef struct orr_linear {
    const char *name;
    int64_t in, out;
    uint8_t slicing; /* orr_slicing; BY_ROW: the output has the layout of activations between
                      * layers */
    bool bias;
    bool exact;          /* never in 8 bits: routers and heads */
    bool adapted;        /* with a LoRA adapter */
    bool turned;         /* weights are (out, in), for embedding and head that are one tensor */
    uint8_t tag;         /* orr_weight_tag */
    orr_packed_dim form; /* of the output; `dim` is not set */
} orr_linear;
orr_value orr_write_linear(orr_draft *draft, orr_value x, const orr_linear *linear);
/* The operand of a matrix product: quantised where products are in 8 bits or fewer; else
 * unchanged, and ret_scale is ORR_NONE. */
void orr_write_operand(orr_draft *draft, orr_value x, orr_value *ret, orr_value *ret_scale);
/* Number of elements that share a quantisation scale: `size` elements of the contracted dim; 0:
 * the whole tensor. */
uint32_t orr_write_scale_block(const orr_draft *draft);
/* Weights of a linear layer in the dtype of products, and their scale. */
void orr_write_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis, bool exact,
                      const char *name, orr_value *ret, orr_value *ret_scale);

/* The model's kind of norm over the last dim, which has `width` elements. */
orr_value orr_write_norm(orr_draft *draft, orr_value x, int64_t width, const char *name);
orr_value orr_write_dropout(orr_draft *draft, orr_value x, const char *name);
/* x + y, with dropout where the model is trained so. */
orr_value orr_write_residual(orr_draft *draft, orr_value x, orr_value y, const char *name);
/* A view of the same elements with other dims. */
orr_value orr_write_view(orr_draft *draft, orr_value x, orr_dims dims);
/* Splits the last dim into two to four parts. */
void orr_write_split(orr_draft *draft, orr_value x, orr_dims sizes, orr_value *ret);

/* x times a learned scalar. */
orr_value orr_write_gate(orr_draft *draft, orr_value x, const char *name);

/* Which tokens attention sees: earlier ones; of these only those of the same chunk; or all. */
typedef struct orr_visibility {
    bool chunked, all;
    bool rotary; /* q and k have rotary positions */
} orr_visibility;
orr_value orr_write_attention(orr_draft *draft, orr_value x, const orr_visibility *visibility);
/* Cross-attention: queries from the text, keys and values from image tokens. */
orr_value orr_write_cross_attention(orr_draft *draft, orr_value x);
orr_value orr_write_mla(orr_draft *draft, orr_value x);
/* Rotary position embedding of x (B, S, H, W). */
orr_value orr_write_rotary(orr_draft *draft, orr_value x, const char *name);
/* Attention core: q (B, S, H, W), k and v (B, T, G, W) to (B, S, H, W of v). Keys of earlier
 * tokens are in the cache. */
orr_value orr_write_attention_core(orr_draft *draft, orr_value q, orr_value k, orr_value v,
                                   const orr_visibility *visibility);
orr_value orr_write_mlp(orr_draft *draft, orr_value x, int64_t ffn);
/* The activation between two linear layers; with SwiGLU the first gives (..., 2 F). */
orr_value orr_write_activation(orr_draft *draft, orr_value x, int64_t ffn);
orr_value orr_write_moe(orr_draft *draft, orr_value x);

/* Whole modules: they set draft->in and draft->out. */
typedef struct orr_layer_kind {
    bool moe, cross;
    bool gated; /* outputs of attention and MLP have a learned gate each */
    orr_visibility visibility;
} orr_layer_kind;
orr_value orr_write_body(orr_draft *draft, orr_value x, const orr_layer_kind *kind);
void orr_write_embedding(orr_draft *draft);
void orr_write_layer(orr_draft *draft, const orr_layer_kind *kind);
void orr_write_head(orr_draft *draft);
void orr_write_mtp(orr_draft *draft, const orr_layer_kind *kind);
/* Modules of a vision encoder: draft->job is orr_vision_job_of(). */
void orr_write_vision_patches(orr_draft *draft);
void orr_write_vision_layer(orr_draft *draft, bool global);
void orr_write_vision_output(orr_draft *draft);
void orr_write_dlrm(orr_draft *draft);
void orr_write_resnet(orr_draft *draft);

#endif /* ORR_MODEL_ARCH_TRANSFORMER_H */
