/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_WRITE_H
#define ORR_WEIGHTS_WRITE_H

#include "io/stream/output.h"
#include "weights/mapping.h"
#include "weights/store.h"

/* The bytes of tensor i, as many as its dims say. */
orr_status orr_weight_source_data(const orr_weight_source *source, uint32_t i, const void **ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* INVALID: duplicate names; a shape without a size. UNSUPPORTED: a format that such files do not
 * have. */
orr_status orr_weight_source_check(const orr_weight_source *source, bool gguf,
                                   orr_error *err) ORR_MUST_CHECK;
void orr_weight_write_padding(orr_output *out, uint64_t n);

/* Metadata of a GGUF file, being built in memory. */
typedef struct orr_gguf_metadata_writer {
    orr_output *out; /* in memory */
    uint64_t n;
} orr_gguf_metadata_writer;
void orr_gguf_put_text(orr_gguf_metadata_writer *keys, const char *key, const char *value,
                       size_t len);
void orr_gguf_put_u32(orr_gguf_metadata_writer *keys, const char *key, uint32_t value);
void orr_gguf_put_f32(orr_gguf_metadata_writer *keys, const char *key, double value);
void orr_gguf_put_bool(orr_gguf_metadata_writer *keys, const char *key, bool value);
/* The head of an array; its elements follow. */
void orr_gguf_put_array(orr_gguf_metadata_writer *keys, const char *key, uint32_t type, uint64_t n);
void orr_gguf_put_string(orr_gguf_metadata_writer *keys, const char *text,
                         size_t len);                                               /* an element */
void orr_gguf_put_number(orr_gguf_metadata_writer *keys, uint64_t bits, int bytes); /* an element */

/* Writes version 3. `keys` are the file's metadata; tensors are requested as in
 * orr_safetensors_write(). */
orr_status orr_gguf_write(const orr_weight_source *source, const orr_gguf_metadata_writer *keys,
                          const char *path, orr_error *err) ORR_MUST_CHECK;
/* What llama.cpp needs to know of a model, except its tokenizer. */
void orr_gguf_put_model(orr_gguf_metadata_writer *keys, const orr_model *model,
                        const char *architecture, orr_row_format format);

/* All tensors of a model's checkpoint, made from its parameters. done() frees it. */
typedef struct orr_save_plan orr_save_plan;
orr_status orr_save_plan_make(const orr_model *model, const orr_parameter_reader *reader,
                              orr_row_format format, bool gguf, orr_save_plan **ret,
                              orr_error *err) ORR_MUST_CHECK;
orr_weight_source orr_save_plan_source(orr_save_plan *plan);
void orr_save_plan_free(orr_save_plan *plan);

#endif /* ORR_WEIGHTS_WRITE_H */
