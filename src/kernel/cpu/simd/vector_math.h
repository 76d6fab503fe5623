/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H
#define ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H

#include <stdint.h>

/* Arithmetic on rows of `n` numbers in fp32, for each level of the processor. Outputs may be where
 * inputs are, element on element. Sums are made in a fixed order: the same on each run, and not the
 * same at each level.
 *
 * Exponentials are within 2e-7 of themselves, between -87.3 (below: 0) and 88.3 (above: infinite);
 * the normal distribution is within 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
typedef void orr_vector_unary(const float *x, int64_t n, float *y);
typedef void orr_vector_binary(const float *a, const float *b, int64_t n, float *y);

/* An update of AdamW: see optimizer.c. */
typedef struct orr_adamw_factors {
    float gradient; /* factor of the gradient */
    float keep;     /* 1 - rate decay         */
    float beta1, beta2;
    float rate; /* / (1 - beta1^step)     */
    float root; /* 1 / sqrt(1 - beta2^step) */
    float epsilon;
} orr_adamw_factors;

typedef struct orr_vector_math {
    orr_vector_binary *add, *mul;
    void (*scale)(const float *x, float factor, int64_t n, float *y);
    void (*add_scaled)(const float *x, float factor, int64_t n, float *y); /* y += factor x */
    void (*fill)(float value, int64_t n, float *y);

    orr_vector_unary *gelu, *gelu_tanh, *relu, *silu, *sigmoid;
    orr_vector_binary *gelu_slope, *gelu_tanh_slope, *relu_slope, *silu_slope,
        *sigmoid_slope;        /* a: dy, b: x or y */
    orr_vector_binary *swiglu; /* a: gate, b: up   */
    void (*swiglu_gradient)(const float *dy, const float *gate, const float *up, int64_t n,
                            float *dgate, float *dup);

    float (*sum)(const float *x, int64_t n);
    float (*dot)(const float *a, const float *b, int64_t n);
    float (*spread)(const float *x, float mean, int64_t n);  /* sum of (x - mean)^2          */
    float (*most)(const float *x, int64_t n);                /* -infinity of none            */
    float (*size)(const float *x, int64_t n);                /* the largest |x|; 0 of none   */
    float (*exp_sum)(const float *x, float most, int64_t n); /* of exp(x - most)             */
    float (*exp_write)(const float *x, float most, int64_t n, float *y); /* and what it sums   */
    void (*exp_scaled)(const float *x, float minus, float factor, int64_t n, float *y);
    void (*softmax_gradient)(const float *dy, const float *y, float dot, int64_t n, float *dx);

    /* y = (x - m) r w + b; w, b NULL: 1, 0 */
    void (*norm)(const float *x, const float *w, const float *b, float m, float r, int64_t n,
                 float *y);
    /* of e = dy w and h = (x - m) r: ret[0] += sum e, ret[1] += sum e h */
    void (*norm_sums)(const float *dy, const float *x, const float *w, float m, float r, int64_t n,
                      double ret[2]);
    /* dx = r (e - mean - h product); dw += dy h unless it is NULL */
    void (*norm_gradient)(const float *dy, const float *x, const float *w, float m, float r,
                          float mean, float product, int64_t n, float *dx, float *dw);

    /* cos and sin of position * frequency[i]. */
    void (*angles)(double position, const double *frequency, int64_t n, float *cosine, float *sine);
    /* Pairs (a, b) turned: a cos - b sin, b cos + a sin. */
    void (*turn)(const float *a, const float *b, const float *cosine, const float *sine, int64_t n,
                 float *ya, float *yb);

    /* `blocks` of four words of base/philox.h, from block number `block` on. */
    void (*philox)(const uint32_t key[2], uint64_t block, int64_t blocks, uint32_t *ret);

    void (*adamw)(const orr_adamw_factors *by, const float *g, int64_t n, float *p, float *m,
                  float *v);
    /* v = momentum v + factor g + decay p (v NULL: without), p -= rate v */
    void (*sgd)(const float *g, float factor, float decay, float momentum, float rate, int64_t n,
                float *p, float *v);
} orr_vector_math;

/* Of the level that the processor has. */
const orr_vector_math *orr_vector_math_of_cpu(void);

#endif /* ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H */
