/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_STORE_H
#define ORR_WEIGHTS_STORE_H

#include <orrery/weights.h>

#include "base/array.h"
#include "weights/mapped_file.h"

/* What the readers of formats fill. An array of GGUF metadata, in the file's encoding: */

/* An array of a GGUF file's metadata: as it stands in the file. */
typedef struct orr_gguf_array {
    const char *key;
    uint8_t type; /* orr_gguf_type of its elements */
    uint64_t n;
    const uint8_t *bytes; /* in the mapped file; strings: length (8 bytes), text, one by one    */
    uint64_t n_bytes;
} orr_gguf_array;

/* A tensor that cannot be read: integer tables, unknown quantization. */
typedef struct orr_weight_unsupported {
    const char *name, *dtype;
} orr_weight_unsupported;

typedef struct orr_weight_store {
    orr_weights about; /* first: the public part */
    orr_arena *arena;
    orr_array(orr_weight_unsupported) foreign;
    orr_array(orr_mapped_file) files;
    orr_array(orr_weight) tensors; /* while reading, also unsupported ones: ORR_ROW_FORMATS */
    orr_array(orr_metadata) metadata;
    orr_array(orr_gguf_array) arrays;
} orr_weight_store;
static inline const orr_weight_store *orr_weight_store_of(const orr_weights *weights)
{
    return (const orr_weight_store *)weights;
}

/* Appends the tensors of one file. Errors have no file name. */
orr_status orr_safetensors_read(const orr_mapped_file *file, orr_weight_store *store,
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_gguf_read(const orr_mapped_file *file, orr_weight_store *store,
                         orr_error *err) ORR_MUST_CHECK;
/* Reads all files of the index at `path`. Errors include the file's name. */
orr_status orr_safetensors_index_read(const char *path, orr_weight_store *store,
                                      orr_error *err) ORR_MUST_CHECK;
/* Maps and reads a file of either format. Errors include its name. */
orr_status orr_weight_store_add(orr_weight_store *store, const char *path,
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_weight_store_add_metadata(orr_weight_store *store, const char *key,
                                         const char *value, orr_error *err) ORR_MUST_CHECK;

/* Bytes of a tensor; -1: overflow, or the last dim is not a whole number of blocks. */
int64_t orr_weight_bytes(uint8_t format, uint32_t rank, const int64_t *dim);
/* The dims as text: "(2, 3)". */
enum { ORR_SHAPE_CHARS = 160 };
const char *orr_weight_shape(uint32_t rank, const int64_t *dim, char ret[ORR_SHAPE_CHARS]);

#endif /* ORR_WEIGHTS_STORE_H */
