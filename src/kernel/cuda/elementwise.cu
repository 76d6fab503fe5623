/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with one thread per element: arithmetic, activations, strided copies, sums over dims,
 * optimizers, embeddings. */
#include "kernel/cuda/device.cuh"

#include <orrery/op.h>

static __device__ float sigmoid(float x)
{
    return 1 / (1 + expf(-x));
}
static __device__ float normal(float x)
{
    return 0.5f * (1 + erff(x * 0.70710678f));
}
/* (1 + tanh(u)) / 2 of GELU's tanh form: src/op/families/activation.c. */
static __device__ float by_tanh(float x)
{
    return sigmoid(x * (1.595769122f + 0.0713548163f * x * x));
}
static __device__ float activate(int op, bool tanh, float x)
{
    switch (op) {
    case ORR_OP_GELU:
        return x * (tanh ? by_tanh(x) : normal(x));
    case ORR_OP_RELU:
        return fmaxf(x, 0);
    case ORR_OP_SILU:
        return x * sigmoid(x);
    default:
        return sigmoid(x);
    }
}
/* For RELU and SIGMOID x is the output. */
static __device__ float slope(int op, bool tanh, float x)
{
    const float s = sigmoid(x), t = by_tanh(x);
    switch (op) {
    case ORR_OP_GELU:
        if (tanh)
            return t + x * t * (1 - t) * (1.595769122f + 0.214064449f * x * x);
        return normal(x) + x * 0.39894228f * expf(-0.5f * x * x);
    case ORR_OP_RELU:
        return x > 0;
    case ORR_OP_SILU:
        return s * (1 + x * (1 - s));
    default:
        return x * (1 - x);
    }
}

/* begin: the operator whose derivative ACTIVATION_BACKWARD computes. */
static __device__ float made(const orr_cuda_params &p, const float *x)
{
    switch (p.code) {
    case ORR_OP_ADD:
    case ORR_OP_BIAS:
        return x[0] + x[1];
    case ORR_OP_MUL:
        return x[0] * x[1];
    case ORR_OP_SCALE:
        return x[0] * p.value;
    case ORR_OP_FILL:
        return p.value;
    case ORR_OP_SWIGLU:
        return x[0] * sigmoid(x[0]) * x[1];
    case ORR_OP_ACTIVATION_BACKWARD:
        return x[0] * slope((int)p.begin, p.flag, x[1]);
    case ORR_OP_GELU:
    case ORR_OP_RELU:
    case ORR_OP_SILU:
    case ORR_OP_SIGMOID:
        return activate(p.code, p.flag, x[0]);
    default: /* copies, casts */
        return x[0];
    }
}

KERNEL orr_map(orr_cuda_params p)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    float x[3] = {0, 0, 0};
    if (i >= p.n)
        return;
    const long long to = place(p, p.out[0], p.rank, i);
    if (p.n_in == 1 && p.in[0].dtype == ORR_DTYPE_INT64) { /* indices are copied as they are */
        ((long long *)p.out[0].data)[to] =
            ((const long long *)p.in[0].data)[place(p, p.in[0], p.rank, i)];
        return;
    }
    for (int k = 0; k < p.n_in && k < 3; k++)
        x[k] = load(p.in[k], place(p, p.in[k], p.rank, i));
    if (p.code == ORR_OP_SWIGLU_BACKWARD) { /* dy, gate, up */
        const float s = sigmoid(x[1]);
        give(p, 0, to, x[0] * x[2] * s * (1 + x[1] * (1 - s)));
        give(p, 1, place(p, p.out[1], p.rank, i), x[0] * x[1] * s);
        return;
    }
    give(p, 0, to, made(p, x));
}

/* dims [0, rank) are those of y; each sums `count` elements of x, `window` apart. */
KERNEL orr_sum(orr_cuda_params p)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n)
        return;
    const long long from = place(p, p.in[0], p.rank, i);
    float sum = 0;
    for (long long k = 0; k < p.count; k++)
        sum += load(p.in[0], from + k * p.window);
    give(p, 0, place(p, p.out[0], p.rank, i), sum);
}

/* p, g, m, v [, copy]: src/op/families/optimizer.c says what is computed. */
KERNEL orr_adamw(orr_cuda_params p)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n)
        return;
    const float g = load(p.in[1], i) * p.scale;
    const float m = p.beta1 * load(p.in[2], i) + (1 - p.beta1) * g;
    const float v = p.beta2 * load(p.in[3], i) + (1 - p.beta2) * g * g;
    const float step = m * p.correction1 / (sqrtf(v * p.correction2) + p.epsilon);
    const float w = load(p.in[0], i);
    const float next = w - p.rate * (step + p.decay * w);
    store(p.in[0], i, next);
    store(p.in[2], i, m);
    store(p.in[3], i, v);
    if (p.n_in > 4)
        store(p.in[4], i, next);
}

KERNEL orr_sgd(orr_cuda_params p)
{
    const long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= p.n)
        return;
    float v = load(p.in[1], i) * p.scale;
    if (p.n_in > 2) {
        v += p.beta1 * load(p.in[2], i);
        store(p.in[2], i, v);
    }
    store(p.in[0], i, load(p.in[0], i) - p.rate * v);
}

/* One block per token; rows begin .. begin + count - 1 are in this slice, others give zeros. */
KERNEL orr_embedding(orr_cuda_params p)
{
    const long long row = blockIdx.x;
    const long long id = index_of(p.in[1], row) - p.begin;
    const bool here = id >= 0 && id < p.count;
    for (long long c = threadIdx.x; c < p.columns; c += blockDim.x)
        give(p, 0, row * p.columns + c,
             here ? load(p.in[0], id * p.in[0].stride[0] + c * p.in[0].stride[1]) : 0);
}

/* Gradients of a table row are added in token order: block (part, columns) handles the rows whose
 * id modulo the number of parts is its part. The gradient starts at zero, or at what it was. */
KERNEL orr_embedding_backward(orr_cuda_params p)
{
    const long long c = (long long)blockIdx.y * blockDim.x + threadIdx.x;
    if (c >= p.columns)
        return;
    for (long long t = 0; t < p.n; t++) {
        const long long id = index_of(p.in[1], t) - p.begin;
        if (id < 0 || id >= p.count || id % gridDim.x != blockIdx.x)
            continue;
        const long long at = id * p.columns + c;
        store(p.out[0], at, load(p.out[0], at) + load(p.in[0], t * p.columns + c));
    }
}
