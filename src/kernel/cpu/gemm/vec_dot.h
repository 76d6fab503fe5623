/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_GEMM_VEC_DOT_H
#define ORR_KERNEL_CPU_GEMM_VEC_DOT_H

#include "kernel/cpu/gemm/gemm.h"

/* Dot products of stored weight rows with few tokens, the inner loop of skinny GEMM. Every weight
 * row is read from memory once, in its stored format, and multiplied by up to 8 tokens while in
 * registers; tokens are first converted to a form that makes this cheap (cf. vec_dot of ggml). */
enum { ORR_VEC_DOT_TOKENS = 8, ORR_VEC_DOT_ROWS = 4 }; /* most at a time */

/* Numbers of K whose products are summed in lanes; then the lanes are added, and blocks are added
 * in order. So sums have the same bits however many rows and tokens are taken at a time. */
enum { ORR_DOT_BLOCK = 1024, ORR_DOT_BLOCK_BF16 = 2048 };

/* The dot product of one row format at one CPU level, and the form that tokens are converted to:
 *
 *   form          token                                              error of its rounding
 *   fp32          fp32                                               none
 *   bf16          bf16 (bf16 by bf16 products only)                  none
 *   int16         int16, one scale per 256 numbers                   1.6e-5 of the largest of 256
 *   int15         two int8 (high, low), one scale per 256 numbers    3.1e-5 of the largest of 256
 *   int8          int8, one scale per 32 numbers                     4e-3 of the largest of 32 */
typedef struct orr_vec_dot {
    /* Bytes of a token of k numbers in this form, a multiple of 64. */
    size_t (*token_bytes)(int64_t k);
    void (*prepare)(const float *x, int64_t k, void *ret);
    /* ret[t * ret_stride + r] = row r (of n_rows, up to 4) dot token t (of n_tokens, up to 8). */
    void (*dots)(const void *const *rows, int n_rows, const char *tokens, size_t token_bytes,
                 int n_tokens, int64_t k, float *ret, int64_t ret_stride);
    int64_t max_tokens; /* most tokens for which this was measured faster than packing */
    /* Blocked products with the same bits, for more tokens; NULL: there are none, `dots` serves any
     * number. */
    const orr_gemm_microkernel *tiler;
} orr_vec_dot;
/* The dot product for rows of `format` and tokens of dtype `x`; never NULL. */
const orr_vec_dot *orr_vec_dot_of(orr_row_format format, orr_dtype x);

/* The dot product that sums a batch's products; NULL: they are summed in the order of K. */
const orr_vec_dot *orr_gemm_dots(const orr_gemm_batch *products);

/* Defined in vec_dot_avx512.c, vec_dot_q8_0.c, vec_dot_q4_0.c and vec_dot_int8_int4.c. */
extern const orr_gemm_microkernel orr_gemm_dots_avx512, orr_gemm_dots_avx512_bf16;
extern const orr_vec_dot orr_vec_dot_bf16, orr_vec_dot_fp32_by_fp32, orr_vec_dot_fp32_by_bf16,
    orr_vec_dot_fp32_by_fp16, orr_vec_dot_int16_by_int8, orr_vec_dot_int16_by_int4,
    orr_vec_dot_int15_by_q8_0, orr_vec_dot_int8_by_q4_0;
/* Of one block of K, of fp32 rows: added to ret, or stored. */
void orr_dots_fp32_avx512(const void *const *rows, int n_rows, const char *tokens,
                          size_t token_bytes, int n_tokens, int64_t n, bool add, float *ret,
                          int64_t ret_stride);
size_t orr_token_bytes_fp32(int64_t k);
void orr_token_prepare_fp32(const float *x, int64_t k, void *ret);

#endif /* ORR_KERNEL_CPU_GEMM_VEC_DOT_H */
