/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_VEC_DOT_H
#define ORR_KERNEL_CPU_GEMM_VEC_DOT_H

#include "kernel/cpu/gemm/gemm.h"

/* Products of few tokens: every row of weights is read once, from memory as it is, and multiplied
 * by all tokens at that. Tokens are brought to a form first that makes this cheap. */
enum { ORR_VEC_DOT_TOKENS = 8, ORR_VEC_DOT_ROWS = 4 }; /* at once, at most */

/* How rows of one format meet tokens at one level of the CPU.
 *
 *   what          tokens are                                         error of their rounding
 *   fp32          as they are                                        none
 *   bf16          as they are (bf16 times bf16 only)                 none
 *   int16         int16, a scale for 256                             1.6e-5 of the largest of 256
 *   int15         twice int8, a scale for 256                        3.1e-5 of the largest of 256
 *   int8          int8, a scale for 32                               4e-3 of the largest of 32 */
typedef struct orr_vec_dot {
    /* Bytes of a token of k numbers in this form, a multiple of 64. */
    size_t (*token_bytes)(int64_t k);
    void (*prepare)(const float *x, int64_t k, void *ret);
    /* ret[t * ret_stride + r] = row r (of n_rows, up to 4) times token t (of n_tokens, up to 8). */
    void (*dots)(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                 int n_tokens, int64_t k, float *ret, int64_t ret_stride);
    int64_t most; /* tokens for which this was measured to be faster than packing */
} orr_vec_dot;
/* For rows of the format and tokens of the dtype; never NULL. */
const orr_vec_dot *orr_vec_dot_of(orr_row_format format, orr_dtype x);

/* Of dots_avx512.c. */
extern const orr_vec_dot orr_vec_dot_bf16, orr_vec_dot_fp32_by_fp32, orr_vec_dot_fp32_by_bf16,
    orr_vec_dot_fp32_by_fp16, orr_vec_dot_int16_by_int8, orr_vec_dot_int16_by_int4,
    orr_vec_dot_int15_by_q8_0, orr_vec_dot_int8_by_q4_0;
size_t orr_token_bytes_fp32(int64_t k);
void orr_token_prepare_fp32(const float *x, int64_t k, void *ret);

#endif /* ORR_KERNEL_CPU_GEMM_VEC_DOT_H */
