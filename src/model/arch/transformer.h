/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_TRANSFORMER_H
#define ORR_MODEL_ARCH_TRANSFORMER_H

#include "model/module/draft.h"

/* The parts that modules of transformers are written from. Letters: B samples, S tokens, D
 * hidden, F width of the feed-forward part, H heads, G heads of keys and values, W columns of a
 * head. Every part takes and gives the stream (B, S, D) unless it says otherwise. */

/* Which of its dims tensor parallelism slices a linear layer's weights (in, out) along. */
typedef enum orr_slicing { ORR_BY_NONE, ORR_BY_COLUMN, ORR_BY_ROW } orr_slicing;
typedef struct orr_linear {
    const char *name;
    int64_t in, out;
    uint8_t slicing; /* orr_slicing; BY_ROW: what comes out is laid as the stream         */
    bool bias;
    bool exact;          /* never in 8 bits: routers and heads                                */
    bool adapted;        /* LoRA puts an adapter beside it                                    */
    bool turned;         /* weights (out, in): an engine has one tensor for embedding and head */
    uint8_t tag;         /* orr_weight_tag */
    orr_packed_dim form; /* of what comes out; `dim` is not said                              */
} orr_linear;
orr_value orr_write_linear(orr_draft *draft, orr_value x, const orr_linear *linear);
/* The operand of a product: quantised where products are in 8 bits or fewer, else as it is with
 * ret_scale ORR_NONE. */
void orr_write_operand(orr_draft *draft, orr_value x, orr_value *ret, orr_value *ret_scale);
/* Elements that share a scale of what is quantised: `size` of products; 0: a whole tensor. */
uint32_t orr_write_scale_block(const orr_draft *draft);
/* Weights of a linear layer in the dtype of products, and their scale. */
void orr_write_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis, bool exact,
                      const char *name, orr_value *ret, orr_value *ret_scale);

/* The model's kind of norm, over the last dim of `width`. */
orr_value orr_write_norm(orr_draft *draft, orr_value x, int64_t width, const char *name);
orr_value orr_write_dropout(orr_draft *draft, orr_value x, const char *name);
/* x + y, dropped out where the model is trained so. */
orr_value orr_write_residual(orr_draft *draft, orr_value x, orr_value y, const char *name);
/* Other dims of the same elements. */
orr_value orr_write_view(orr_draft *draft, orr_value x, orr_dims dims);
/* Two to four parts of the last dim. */
void orr_write_split(orr_draft *draft, orr_value x, orr_dims sizes, orr_value *ret);

/* x times a number that is learned. */
orr_value orr_write_gate(orr_draft *draft, orr_value x, const char *name);

/* What attention sees: tokens before its own; and of these only those of its chunk; or all. */
typedef struct orr_visibility {
    bool chunked, all;
    bool rotary; /* positions turn q and k */
} orr_visibility;
orr_value orr_write_attention(orr_draft *draft, orr_value x, const orr_visibility *visibility);
/* Queries of the stream, keys and values of the pictures' tokens. */
orr_value orr_write_cross_attention(orr_draft *draft, orr_value x);
orr_value orr_write_mla(orr_draft *draft, orr_value x);
/* x (B, S, H, W), turned by its tokens' positions. */
orr_value orr_write_rotary(orr_draft *draft, orr_value x, const char *name);
/* q (B, S, H, W), k and v (B, T, G, W): (B, S, H, W of v). Keys of tokens before these are in
 * the cache. */
orr_value orr_write_attention_core(orr_draft *draft, orr_value q, orr_value k, orr_value v,
                                   const orr_visibility *visibility);
orr_value orr_write_mlp(orr_draft *draft, orr_value x, int64_t ffn);
/* The activation between two linear layers, whose first gives (..., 2 F) with SwiGLU. */
orr_value orr_write_activation(orr_draft *draft, orr_value x, int64_t ffn);
orr_value orr_write_moe(orr_draft *draft, orr_value x);

/* Whole modules: they set draft->in and draft->out. */
typedef struct orr_layer_kind {
    bool moe, cross;
    bool gated; /* what attention and MLP add is weighed by a gate each */
    orr_visibility visibility;
} orr_layer_kind;
orr_value orr_write_body(orr_draft *draft, orr_value x, const orr_layer_kind *kind);
void orr_write_embedding(orr_draft *draft);
void orr_write_layer(orr_draft *draft, const orr_layer_kind *kind);
void orr_write_head(orr_draft *draft);
void orr_write_mtp(orr_draft *draft, const orr_layer_kind *kind);
/* Of a vision encoder: draft->job is orr_vision_job_of(). */
void orr_write_vision_patches(orr_draft *draft);
void orr_write_vision_layer(orr_draft *draft, bool global);
void orr_write_vision_output(orr_draft *draft);
void orr_write_dlrm(orr_draft *draft);
void orr_write_resnet(orr_draft *draft);

#endif /* ORR_MODEL_ARCH_TRANSFORMER_H */
