/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_DTYPE_H
#define ORR_DTYPE_H

#include <stdint.h>

#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kinds of numbers that tensors are made of, with the bytes of an element. */
#define ORR_DTYPE_MAP(X)                                                                           \
    X(FP64, "fp64", 8)                                                                             \
    X(FP32, "fp32", 4)                                                                             \
    X(TF32, "tf32", 4) X(FP16, "fp16", 2) X(BF16, "bf16", 2) X(FP8, "fp8", 1) X(FP4, "fp4", 0.5)   \
        X(INT8, "int8", 1) X(INT32, "int32", 4) X(INT64, "int64", 8)
typedef enum orr_dtype {
#define ORR_DTYPE_ENUM_(name, text, bytes) ORR_DTYPE_##name,
    ORR_DTYPE_MAP(ORR_DTYPE_ENUM_)
#undef ORR_DTYPE_ENUM_
        ORR_DTYPES
} orr_dtype;
ORR_API const char *orr_dtype_name(orr_dtype dtype);
ORR_API double orr_dtype_bytes(orr_dtype dtype);

/* How a row of weights is stored. FP32, FP16, BF16: contiguous numbers. The others are quantized in
 * blocks along the row, each block with a scale:
 *
 *   Q8_0  32 numbers: fp16 scale, 32 int8             (GGUF)
 *   Q4_0  32 numbers: fp16 scale, 16 bytes of two nibbles, number j of the low ones, j + 16 of
 *         the high ones, each minus 8                  (GGUF)
 *   INT8  fp32 scale of the row, then int8            (embedding rows, our own weights)
 *   INT4  fp32 scale, fp32 minimum, then nibbles, low one first */
#define ORR_ROW_FORMAT_MAP(X)                                                                      \
    X(FP32, "fp32")                                                                                \
    X(FP16, "fp16") X(BF16, "bf16") X(Q8_0, "q8_0") X(Q4_0, "q4_0") X(INT8, "int8") X(INT4, "int4")
typedef enum orr_row_format {
#define ORR_ROW_FORMAT_ENUM_(name, text) ORR_ROW_FORMAT_##name,
    ORR_ROW_FORMAT_MAP(ORR_ROW_FORMAT_ENUM_)
#undef ORR_ROW_FORMAT_ENUM_
        ORR_ROW_FORMATS
} orr_row_format;
ORR_API const char *orr_row_format_name(orr_row_format format);
/* Bytes of a row of `columns` numbers; -1: not a whole number of blocks. */
ORR_API int64_t orr_row_format_bytes(orr_row_format format, int64_t columns);

#ifdef __cplusplus
}
#endif

#endif /* ORR_DTYPE_H */
