/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_GGUF_H
#define ORR_WEIGHTS_GGUF_H

#include "weights/store.h"

/* GGUF, versions 2 and 3 (github.com/ggml-org/ggml, docs/gguf.md). Little-endian: "GGUF", version,
 * numbers of tensors and of keys; keys with values; descriptions of tensors; then, at the next
 * multiple of the alignment, the tensors' data. */
enum { ORR_GGUF_VERSION = 3, ORR_GGUF_ALIGNMENT = 32 };

/* Types of values: number, name, bytes (0: text or array). */
#define ORR_GGUF_TYPE_MAP(X)                                                                       \
    X(U8, 0, 1)                                                                                    \
    X(I8, 1, 1)                                                                                    \
    X(U16, 2, 2) X(I16, 3, 2) X(U32, 4, 4) X(I32, 5, 4) X(F32, 6, 4) X(BOOL, 7, 1) X(TEXT, 8, 0)   \
        X(ARRAY, 9, 0) X(U64, 10, 8) X(I64, 11, 8) X(F64, 12, 8)
typedef enum orr_gguf_type {
#define ORR_GGUF_TYPE_ENUM_(name, number, bytes) ORR_GGUF_##name = number,
    ORR_GGUF_TYPE_MAP(ORR_GGUF_TYPE_ENUM_)
#undef ORR_GGUF_TYPE_ENUM_
        ORR_GGUF_TYPES
} orr_gguf_type;

/* Tensor types (ggml.h, enum ggml_type) of our formats. */
enum {
    ORR_GGML_F32 = 0,
    ORR_GGML_F16 = 1,
    ORR_GGML_Q4_0 = 2,
    ORR_GGML_Q8_0 = 8,
    ORR_GGML_BF16 = 30
};
/* ORR_ROW_FORMATS: not one of ours. */
orr_row_format orr_gguf_format(uint32_t type);
uint32_t orr_gguf_type_of(orr_row_format format);
const char *orr_gguf_type_name(uint32_t type); /* "Q6_K"; NULL: no type has this number */

/* Metadata by key; NULL: not there. */
const char *orr_gguf_text(const orr_weights *weights, const char *key);
const orr_gguf_array *orr_gguf_array_find(const orr_weights *weights, const char *key);

#endif /* ORR_WEIGHTS_GGUF_H */
