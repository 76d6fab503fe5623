/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H
#define ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H

#include <stdint.h>

/* Vector math: elementwise functions and reductions on rows of `n` fp32 numbers, one implementation
 * per CPU level (cf. Intel VML, SLEEF). Outputs may alias inputs element by element. Sums are added
 * in a fixed order at each level, but levels differ.
 *
 * Relative error of exponentials: 2e-7, between -87.3 (below: 0) and 88.3 (above: infinity);
 * absolute error of the normal distribution function: 1.5e-7 (Abramowitz and Stegun, 7.1.26). */
typedef void orr_vector_unary(const float *x, int64_t n, float *y);
typedef void orr_vector_binary(const float *a, const float *b, int64_t n, float *y);

/* Constants of one AdamW step: see optimizer.c. */
typedef struct orr_adamw_factors {
    float gradient; /* scale of the gradient */
    float keep;     /* 1 - learning rate * weight decay */
    float beta1, beta2;
    float rate; /* learning rate / (1 - beta1^step) */
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
    float (*spread)(const float *x, float mean,
                    int64_t n);               /* sum of squared deviations, (x - mean)^2 */
    float (*most)(const float *x, int64_t n); /* maximum; -infinity of none */
    float (*size)(const float *x, int64_t n); /* the largest |x|; 0 of none */
    float (*exp_sum)(const float *x, float most, int64_t n); /* sum of exp(x - most) */
    float (*exp_write)(const float *x, float most, int64_t n,
                       float *y); /* also writes the exponentials */
    void (*exp_scaled)(const float *x, float minus, float factor, int64_t n, float *y);
    void (*softmax_gradient)(const float *dy, const float *y, float dot, int64_t n, float *dx);

    /* Normalization: y = (x - m) r w + b; w NULL: 1, b NULL: 0 */
    void (*norm)(const float *x, const float *w, const float *b, float m, float r, int64_t n,
                 float *y);
    /* With e = dy w and h = (x - m) r: ret[0] += sum e, ret[1] += sum e h */
    void (*norm_sums)(const float *dy, const float *x, const float *w, float m, float r, int64_t n,
                      double ret[2]);
    /* dx = r (e - mean - h product); dw += dy h unless it is NULL */
    void (*norm_gradient)(const float *dy, const float *x, const float *w, float m, float r,
                          float mean, float product, int64_t n, float *dx, float *dw);

    /* cos and sin of position * frequency[i] */
    void (*angles)(double position, const double *frequency, int64_t n, float *cosine, float *sine);
    /* Rotates pairs (a, b): a cos - b sin, b cos + a sin */
    void (*turn)(const float *a, const float *b, const float *cosine, const float *sine, int64_t n,
                 float *ya, float *yb);

    /* `blocks` blocks of four words of the Philox sequence (base/philox.h), from number `block`
     * on */
    void (*philox)(const uint32_t key[2], uint64_t block, int64_t blocks, uint32_t *ret);

    void (*adamw)(const orr_adamw_factors *by, const float *g, int64_t n, float *p, float *m,
                  float *v);
    /* SGD: v = momentum v + factor g + decay p (v NULL: not kept), p -= rate v */
    void (*sgd)(const float *g, float factor, float decay, float momentum, float rate, int64_t n,
                float *p, float *v);
} orr_vector_math;

/* The implementation for this CPU's level. */
const orr_vector_math *orr_vector_math_of_cpu(void);

#endif /* ORR_KERNEL_CPU_SIMD_VECTOR_MATH_H */
