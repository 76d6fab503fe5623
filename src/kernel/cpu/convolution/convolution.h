/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H
#define ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H

#include "kernel/cpu/simd/block_math.h"
#include "kernel/cpu/tensor/parallel_scratch.h"

/* Convolutions as products with lanes of pixels: a block of 64 pixels of an image, and for each of
 * them the numbers that a filter meets there, are put together in scratch (never for a whole
 * image), and multiplied with all filters. x (N, C, H, W), w (K, C, R, S), y (N, K, P, Q). */
enum { ORR_CONVOLUTION_PIXELS = 64, ORR_CONVOLUTION_DEPTH = 256 };

typedef struct orr_convolution {
    const orr_block_math *lanes;
    const orr_operand *x, *w, *y; /* or their gradients */
    int64_t samples, channels, high, wide, filters, filter_high, filter_wide, rows, columns;
    int64_t stride, padding;
    int64_t taps;   /* C R S */
    int64_t blocks; /* of pixels of what is made, for each sample */
} orr_convolution;
orr_convolution orr_convolution_of(const orr_op_args *args, const orr_operand *x,
                                   const orr_operand *w, const orr_operand *y);

/* `n` pixels of a plane (rows, columns) from `first` on, in pieces of rows: those of one row at a
 * time. Returns how many, and where they begin. */
static inline int64_t orr_pixel_run(int64_t first, int64_t n, int64_t columns, int64_t *ret_row,
                                    int64_t *ret_column)
{
    *ret_row = first / columns;
    *ret_column = first % columns;
    return columns - *ret_column < n ? columns - *ret_column : n;
}

/* What filters meet at `n` pixels of y from `first` on: to[i][pixel] for taps tap .. tap + taps -
 * 1, rows of ORR_CONVOLUTION_PIXELS, zeros behind n. */
void orr_convolution_im2col(const orr_convolution *c, int64_t sample, int64_t first, int64_t n,
                            int64_t tap, int64_t taps, float *to);
/* `n` pixels from `first` on of planes plane .. plane + planes - 1 of an image, in fp32 (planes,
 * ORR_CONVOLUTION_PIXELS), zeros behind n, and back. */
void orr_planes_read(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                     int64_t first, int64_t n, float *to);
void orr_planes_write(const orr_operand *image, int64_t sample, int64_t plane, int64_t planes,
                      int64_t first, int64_t n, const float *from);

#endif /* ORR_KERNEL_CPU_CONVOLUTION_CONVOLUTION_H */
