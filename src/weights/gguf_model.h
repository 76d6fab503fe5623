/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_GGUF_MODEL_H
#define ORR_WEIGHTS_GGUF_MODEL_H

#include "weights/gguf.h"

/* The model that a GGUF file's metadata describe. Errors: INVALID: a missing key, by name;
 * UNSUPPORTED: an unknown architecture or context extension. */
orr_status orr_gguf_model(const orr_weights *weights, orr_arena *arena, const orr_model **ret,
                          orr_error *err) ORR_MUST_CHECK;

/* llama.cpp's tensor rope_freqs.weight: the factor by which the wave of pair i is slowed down, as
 * in Llama 3.1; see src/op/families/rotary.c. Shape (head_dim / 2). */
#define ORR_GGUF_ROPE_FREQS "rope_freqs.weight"
void orr_gguf_rope_freqs(const orr_model *model, float *ret);

/* Keys of our own, which llama.cpp ignores: exact parameters of the model. */
#define ORR_GGUF_ROPE_FACTOR       "orrery.rope.factor"
#define ORR_GGUF_ROPE_LOW          "orrery.rope.low_freq_factor"
#define ORR_GGUF_ROPE_HIGH         "orrery.rope.high_freq_factor"
#define ORR_GGUF_ROPE_CONTEXT      "orrery.rope.original_context_length"
#define ORR_GGUF_QK_NORM           "orrery.qk_norm"
#define ORR_GGUF_NO_ROPE           "orrery.no_rope_layer_step"
#define ORR_GGUF_TEMPERATURE_FLOOR "orrery.attention.temperature_floor"
#define ORR_GGUF_TEMPERATURE_SCALE "orrery.attention.temperature_scale"

#endif /* ORR_WEIGHTS_GGUF_MODEL_H */
