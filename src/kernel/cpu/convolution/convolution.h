/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H
#define ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H

#include "kernel/cpu/simd/block_math.h"
#include "kernel/cpu/tensor/parallel_scratch.h"

/* Convolution as a matrix product over blocks of 64 pixels, the lanes of block_math.h: the
 * neighbourhoods of a block's pixels are gathered in scratch (im2col, Chellapilla et al. 2006, but
 * never for a whole image) and multiplied by all filters. x (N, C, H, W), w (K, C, R, S), y (N, K,
 * P, Q). */
enum { ORR_CONVOLUTION_PIXELS = 64, ORR_CONVOLUTION_DEPTH = 256 };

typedef struct orr_convolution {
    const orr_block_math *lanes;
    const orr_operand *x, *w, *y; /* or their gradients */
    int64_t samples, channels, high, wide, filters, filter_high, filter_wide, rows, columns;
    int64_t stride, padding;
    int64_t taps;   /* C R S */
    int64_t blocks; /* blocks of output pixels of a sample */
} orr_convolution;
orr_convolution orr_convolution_of(const orr_op_args *args, const orr_operand *x,
                                   const orr_operand *w, const orr_operand *y);

/* Splits `n` pixels of a plane (rows, columns) from `first` on into runs within one row: returns
 * the length of the first run, and where it begins. */
static inline int64_t orr_pixel_run(int64_t first, int64_t n, int64_t columns, int64_t *ret_row,
                                    int64_t *ret_column)
{
    *ret_row = first / columns;
    *ret_column = first % columns;
    return columns - *ret_column < n ? columns - *ret_column : n;
}

/* im2col of `n` pixels of y from `first` on: to[i][pixel] for taps tap .. tap + taps - 1, in rows
 * of ORR_CONVOLUTION_PIXELS, zero beyond n. */
void orr_convolution_im2col(const orr_convolution *c, int64_t sample, int64_t first, int64_t n,
                            int64_t tap, int64_t taps, float *to);
/* Reads `n` pixels from `first` on of planes plane .. plane + planes - 1 as fp32 (planes,
 * ORR_CONVOLUTION_PIXELS), zero beyond n; writes them back. */
void orr_planes_read(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                     int64_t first, int64_t n, float *to);
void orr_planes_write(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                      int64_t first, int64_t n, const float *from);

#endif /* ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H */
