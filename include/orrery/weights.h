/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_H
#define ORR_WEIGHTS_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/kernel.h>
#include <orrery/model.h>
#include <orrery/text.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Checkpoints of weights: safetensors (one file, or shards with an index) and GGUF. Files are
 * mapped, not read: opening one costs its header. Immutable once open: any number of threads may
 * share one. */
typedef struct orr_weight {
    const char *name;
    uint8_t format; /* orr_row_format; rows are along the last dim */
    uint8_t rank;
    int64_t dim[ORR_TYPE_DIMS]; /* outermost first, also of GGUF                          */
    const void *data;           /* in the mapped file; its size has been checked against the dims */
    int64_t bytes;
} orr_weight;
typedef struct orr_metadata { /* GGUF and safetensors: text as it is, numbers printed, arrays left
                                 out */
    const char *key, *value;
} orr_metadata;
typedef struct orr_weights orr_weights;
struct orr_weights {
    const orr_weight *tensors; /* shape (n), by name */
    uint32_t n;
    const orr_metadata *metadata; /* shape (n_metadata) */
    uint32_t n_metadata;
    int64_t bytes; /* of all tensors */
    const char *path;
    bool gguf;
};
/* Opens a .safetensors or .gguf file, a model.safetensors.index.json, or a folder with one of
 * these. Tensors of safetensors other than fp32, fp16 and bf16 are not listed; asking for one is an
 * error. Errors: IO; PARSE as "file: byte N: what is wrong"; INVALID: tensors that overlap, exceed
 * the file, or have another size than their dims; NOT_FOUND: a missing shard, by name, or a folder
 * without such files; LIMIT: a header over 100 MB; UNSUPPORTED: an unknown quantization of GGUF, by
 * name. */
ORR_API ORR_MUST_CHECK orr_status orr_weights_open(const char *path, orr_weights **ret,
                                                   orr_error *err);
ORR_API void orr_weights_close(orr_weights *weights); /* NULL is allowed */
/* NULL: there is none of this name. */
ORR_API const orr_weight *orr_weights_find(const orr_weights *weights, const char *name);

/* Writes tensors, requested one after another, under a temporary name, then renames: an old file
 * stays complete until the new one is. Shards have at most `shard_bytes` (0: one file) and get an
 * index. `path`: a .safetensors file ("x.safetensors" becomes "x-00001-of-00003.safetensors", ...,
 * and "x.safetensors.index.json" if there are shards), or a folder, created if needed, in which the
 * name is "model". Errors: IO; INVALID: duplicate names, a shape without a size; UNSUPPORTED: a
 * format that such files do not have; NO_MEMORY; those of data(). */
typedef struct orr_weight_source {
    const orr_weight *tensors; /* shape (n); data may be NULL */
    uint32_t n;
    /* The bytes of tensor i; valid until the next call. NULL: tensors[i].data. */
    orr_status (*data)(void *ctx, uint32_t i, const void **ret, orr_error *err);
    void *ctx;
    const orr_metadata *metadata; /* shape (n_metadata) */
    uint32_t n_metadata;
} orr_weight_source;
ORR_API ORR_MUST_CHECK orr_status orr_safetensors_write(const orr_weight_source *source,
                                                        const char *path, int64_t shard_bytes,
                                                        orr_error *err);

/* Identifies a parameter of a model, for mapping it to tensors of a checkpoint. Tensors have the
 * names of Hugging Face ("model.layers.0.self_attn.q_proj.weight") or GGUF ("blk.0.attn_q.weight");
 * parameters those they have on tapes: module, layer, name, number among equal names. */
typedef struct orr_weight_key {
    uint8_t module; /* orr_module_kind of src/model/module/module.h */
    uint32_t layer; /* of the model, or of its MTP layers; VISION: place among its modules: 0
                       patches, 1 .. n its layers, n + 1 the projector into the model */
    const char *name;
    uint32_t nth;
} orr_weight_key;
/* Weights (K, N) of a product as rows, or other contiguous weights: in place in the mapped file
 * where the layout allows, else copied to the arena. A table gives its V rows. Errors: NOT_FOUND:
 * the missing tensor, by name; INVALID: "model.layers.3.mlp.up_proj.weight is (11008, 4096) and
 * should be (8192, 4096)". */
ORR_API ORR_MUST_CHECK orr_status orr_weights_rows(const orr_weights *weights,
                                                   const orr_model *model,
                                                   const orr_weight_key *key, orr_arena *arena,
                                                   orr_weight_rows *ret, orr_error *err);
/* The same parameter in fp32, as on the tape of one device: shape `type`, row-major. */
ORR_API ORR_MUST_CHECK orr_status orr_weights_read(const orr_weights *weights,
                                                   const orr_model *model,
                                                   const orr_weight_key *key, const orr_type *type,
                                                   float *ret, orr_error *err);
/* Writes a whole checkpoint from the parameters that `read` gives, in FP32, BF16 or FP16. `path` as
 * in orr_safetensors_write(); a folder also gets a config.json. UNSUPPORTED: a model of no known
 * architecture. */
typedef struct orr_parameter_reader {
    /* A parameter of one device in fp32; valid until the next call. */
    orr_status (*read)(void *ctx, const orr_weight_key *key, const orr_type *type,
                       const float **ret, orr_error *err);
    void *ctx;
} orr_parameter_reader;
ORR_API ORR_MUST_CHECK orr_status orr_weights_save(const orr_model *model,
                                                   const orr_parameter_reader *reader,
                                                   orr_row_format format, const char *path,
                                                   int64_t shard_bytes, orr_error *err);
/* Writes GGUF including the tokenizer (NULL: none); format may also be Q8_0 or Q4_0. */
ORR_API ORR_MUST_CHECK orr_status orr_gguf_save(const orr_model *model,
                                                const orr_parameter_reader *reader,
                                                orr_row_format format,
                                                const orr_tokenizer *tokenizer, const char *path,
                                                orr_error *err);
/* Writes a Hugging Face config.json, so that others can load what was saved. */
ORR_API ORR_MUST_CHECK orr_status orr_model_config_write(const orr_model *model, orr_dtype dtype,
                                                         const char *path, orr_error *err);
/* The tokenizer in a GGUF file. NOT_FOUND: it has none; else as orr_tokenizer_open(). */
ORR_API ORR_MUST_CHECK orr_status orr_weights_tokenizer(const orr_weights *weights,
                                                        orr_tokenizer **ret, orr_error *err);
/* The model described by a checkpoint's folder (config.json) or a GGUF file's metadata, in the
 * arena. */
ORR_API ORR_MUST_CHECK orr_status orr_model_of_weights(const orr_weights *weights, orr_arena *arena,
                                                       const orr_model **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_WEIGHTS_H */
