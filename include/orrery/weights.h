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

/* Files of tensors: safetensors (one, or shards with an index) and GGUF. Files are mapped, not
 * read: opening one costs its header. Frozen once open: any number of threads may share one. */
typedef struct orr_weight {
    const char *name;
    uint8_t format; /* orr_row_format of its rows: the last dim is a row               */
    uint8_t rank;
    int64_t dim[ORR_TYPE_DIMS]; /* outermost first, also of GGUF                          */
    const void *data; /* in the mapped file; as many bytes as the dims say: checked      */
    int64_t bytes;
} orr_weight;
typedef struct orr_metadata { /* of GGUF and safetensors: text as it is, numbers printed, arrays not
                               */
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
/* A file .safetensors, .gguf, a model.safetensors.index.json, or a folder of one of these. Tensors
 * of safetensors that are no fp32, fp16 or bf16 are not listed; who asks for one is told. Errors:
 * IO; PARSE as "file: byte N: what is wrong"; INVALID: tensors that overlap, reach beyond the file,
 * do not have the bytes that their dims say; NOT_FOUND: a missing shard, by name, or a folder
 * without such files; LIMIT: a header over 100 MB; UNSUPPORTED: of GGUF, a quantisation that is not
 * known, by name. */
ORR_API ORR_MUST_CHECK orr_status orr_weights_open(const char *path, orr_weights **ret,
                                                   orr_error *err);
ORR_API void orr_weights_close(orr_weights *weights); /* NULL is allowed */
/* NULL: there is none of this name. */
ORR_API const orr_weight *orr_weights_find(const orr_weights *weights, const char *name);

/* Written beside, then put in place: an old file stays whole until the new one is. Tensors are
 * asked for one after another; shards of at most `shard_bytes` (0: one file) with an index. `path`:
 * a file .safetensors ("x.safetensors" becomes "x-00001-of-00003.safetensors", ..., and
 * "x.safetensors.index.json" where there are shards), or a folder, which is made if need be: there
 * it is "model". Errors: IO; INVALID: two tensors of one name, a shape without so many bytes;
 * UNSUPPORTED: a format that such files do not have; NO_MEMORY; what data() says. */
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

/* Which of a checkpoint's tensors a model's parameter is made of. Names are Hugging Face's
 * ("model.layers.0.self_attn.q_proj.weight") or GGUF's ("blk.0.attn_q.weight"). Parameters have the
 * names that they have on tapes: module, place in the row of modules, name, which of that name. */
typedef struct orr_weight_key {
    uint8_t module; /* orr_module_kind of src/model/module/module.h */
    uint32_t layer; /* of the model, of its MTP layers; VISION: place among its modules: 0 patches,
                     * 1 .. n its layers, n + 1 what leads into the model */
    const char *name;
    uint32_t nth;
} orr_weight_key;
/* The weights of a product (K, N) as rows, or of anything else contiguous: in place in the mapped
 * file where its rows lie so, else in the arena. `rows` of a table: its V rows. Errors: NOT_FOUND:
 * the tensor that is missing, by name; INVALID: "model.layers.3.mlp.up_proj.weight is (11008, 4096)
 * and should be (8192, 4096)". */
ORR_API ORR_MUST_CHECK orr_status orr_weights_rows(const orr_weights *weights,
                                                   const orr_model *model,
                                                   const orr_weight_key *key, orr_arena *arena,
                                                   orr_weight_rows *ret, orr_error *err);
/* The same parameter in fp32, as it is on the tape of one device: shape `type`, row-major. */
ORR_API ORR_MUST_CHECK orr_status orr_weights_read(const orr_weights *weights,
                                                   const orr_model *model,
                                                   const orr_weight_key *key, const orr_type *type,
                                                   float *ret, orr_error *err);
/* The other way: a whole checkpoint, from the parameters that `read` gives, in FP32, BF16 or FP16.
 * `path` as of orr_safetensors_write(); a folder gets a config.json too. UNSUPPORTED: a model of
 * which no checkpoints are known. */
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
/* GGUF with the tokenizer inside (NULL: none); format also Q8_0 and Q4_0. */
ORR_API ORR_MUST_CHECK orr_status orr_gguf_save(const orr_model *model,
                                                const orr_parameter_reader *reader,
                                                orr_row_format format,
                                                const orr_tokenizer *tokenizer, const char *path,
                                                orr_error *err);
/* config.json as Hugging Face has it, so that others can load what was saved. */
ORR_API ORR_MUST_CHECK orr_status orr_model_config_write(const orr_model *model, orr_dtype dtype,
                                                         const char *path, orr_error *err);
/* The tokenizer inside of a GGUF file. NOT_FOUND: it has none; else as orr_tokenizer_open(). */
ORR_API ORR_MUST_CHECK orr_status orr_weights_tokenizer(const orr_weights *weights,
                                                        orr_tokenizer **ret, orr_error *err);
/* A model's shape from a checkpoint's folder (config.json) or a GGUF file (its metadata), in the
 * arena. */
ORR_API ORR_MUST_CHECK orr_status orr_model_of_weights(const orr_weights *weights, orr_arena *arena,
                                                       const orr_model **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_WEIGHTS_H */
