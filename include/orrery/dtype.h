/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_DTYPE_H
#define ORR_DTYPE_H

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

#ifdef __cplusplus
}
#endif

#endif /* ORR_DTYPE_H */
