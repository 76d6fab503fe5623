/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels with one block per row: norms, rotary embeddings, cross entropy. */
#include "kernel/cuda/device.cuh"

#include <orrery/op.h>

/* x [, weight [, bias]] -> y [, mean], 1 / deviation. flag: centred (layer norm). */
KERNEL orr_norm(orr_cuda_params p)
{
    const long long row = blockIdx.x, from = row_of(p, p.in[0], row), to = row_of(p, p.out[0], row);
    const long long d = p.columns, step = p.in[0].stride[p.rank - 1];
    float mean = 0, square = 0;
    if (p.flag) {
        for (long long c = threadIdx.x; c < d; c += blockDim.x)
            mean += load(p.in[0], from + c * step);
        mean = block_reduce(mean, false) / d;
    }
    for (long long c = threadIdx.x; c < d; c += blockDim.x) {
        const float x = load(p.in[0], from + c * step) - mean;
        square += x * x;
    }
    const float r = rsqrtf(block_reduce(square, false) / d + p.value);
    for (long long c = threadIdx.x; c < d; c += blockDim.x) {
        float y = (load(p.in[0], from + c * step) - mean) * r;
        if (p.n_in > 1)
            y *= load(p.in[1], c);
        if (p.n_in > 2)
            y += load(p.in[2], c);
        give(p, 0, to + c * p.out[0].stride[p.rank - 1], y);
    }
    if (threadIdx.x == 0) {
        if (p.flag && p.out[1].data != nullptr)
            store(p.out[1], row, mean);
        if (p.out[p.flag ? 2 : 1].data != nullptr)
            store(p.out[p.flag ? 2 : 1], row, r);
    }
}

/* dy, x, [mean,] 1 / deviation [, weight]: with h = (x - m) r and e = dy w, dx = r (e - mean(e) - h
 * mean(e h)). */
KERNEL orr_norm_backward(orr_cuda_params p)
{
    const int statistics = p.flag ? 2 : 1;
    const long long row = blockIdx.x, d = p.columns, last = p.rank - 1;
    const long long at_dy = row_of(p, p.in[0], row), at_x = row_of(p, p.in[1], row);
    const float m = p.flag ? load(p.in[2], row) : 0, r = load(p.in[1 + statistics], row);
    const bool weighed = p.n_in > 2 + statistics;
    float mean = 0, product = 0;
    for (long long c = threadIdx.x; c < d; c += blockDim.x) {
        const float e = load(p.in[0], at_dy + c * p.in[0].stride[last]) *
                        (weighed ? load(p.in[2 + statistics], c) : 1);
        mean += e;
        product += e * (load(p.in[1], at_x + c * p.in[1].stride[last]) - m) * r;
    }
    mean = p.flag ? block_reduce(mean, false) / d : 0;
    product = block_reduce(product, false) / d;
    for (long long c = threadIdx.x; c < d; c += blockDim.x) {
        const float e = load(p.in[0], at_dy + c * p.in[0].stride[last]) *
                        (weighed ? load(p.in[2 + statistics], c) : 1);
        const float h = (load(p.in[1], at_x + c * p.in[1].stride[last]) - m) * r;
        give(p, 0, row_of(p, p.out[0], row) + c * p.out[0].stride[last],
             r * (e - mean - h * product));
    }
}

/* Sums over rows in `count` parts, which orr_fold adds in order. */
KERNEL orr_norm_weights(orr_cuda_params p)
{
    const long long c = (long long)blockIdx.x * blockDim.x + threadIdx.x, part = blockIdx.y;
    const int statistics = p.flag ? 2 : 1, last = p.rank - 1;
    const long long each = (p.n + p.count - 1) / p.count;
    float sum = 0;
    if (c >= p.columns)
        return;
    for (long long row = part * each; row < p.n && row < (part + 1) * each; row++) {
        const float x = load(p.in[1], row_of(p, p.in[1], row) + c * p.in[1].stride[last]);
        const float m = p.flag ? load(p.in[2], row) : 0;
        sum += load(p.in[0], row_of(p, p.in[0], row) + c * p.in[0].stride[last]) * (x - m) *
               load(p.in[1 + statistics], row);
    }
    p.scratch[part * p.columns + c] = sum;
}
KERNEL orr_fold(orr_cuda_params p)
{
    const long long c = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    float sum = 0;
    if (c >= p.columns)
        return;
    for (long long part = 0; part < p.count; part++)
        sum += p.scratch[part * p.columns + c];
    give(p, 0, c, sum);
}

/* RoPE frequency, with context extension: src/op/families/rotary.c. */
static __device__ float frequency(const orr_cuda_params &p, long long pair)
{
    const float f = powf(fabsf(p.value), -2.0f * pair / p.columns);
    const float wave = 6.28318531f / f;
    if (p.stretch == 0 || wave < p.context / p.high)
        return f;
    if (wave > p.context / p.low)
        return f / p.stretch;
    const float s = (p.context / wave - p.low) / (p.high - p.low);
    return (1 - s) * f / p.stretch + s * f;
}

/* x (B, S, H, D): one block per head of a token. flag: interleaved pairs. */
KERNEL orr_rotary(orr_cuda_params p)
{
    const long long row = blockIdx.x, token = row / p.dim[2], sample = token / p.dim[1];
    const long long from = row_of(p, p.in[0], row), to = row_of(p, p.out[0], row);
    const long long step = p.in[0].stride[3], half = p.columns / 2;
    const float position =
        (float)((p.first != nullptr ? p.first[sample] : p.offset) + token % p.dim[1]);
    for (long long i = threadIdx.x; i < half; i += blockDim.x) {
        const long long a = p.flag ? 2 * i : i, b = p.flag ? 2 * i + 1 : i + half;
        const float angle = position * frequency(p, i) * (p.value < 0 ? -1 : 1);
        const float x = load(p.in[0], from + a * step), y = load(p.in[0], from + b * step);
        give(p, 0, to + a * p.out[0].stride[3], x * cosf(angle) - y * sinf(angle));
        give(p, 0, to + b * p.out[0].stride[3], x * sinf(angle) + y * cosf(angle));
    }
}

/* logits, targets [, log-sum-exps of all slices (members, rows)] -> loss, log-sum-exp. flag: a
 * slice of the vocabulary from column `begin` on; count: columns that are words. */
KERNEL orr_cross_entropy(orr_cuda_params p)
{
    const long long row = blockIdx.x, from = row_of(p, p.in[0], row),
                    step = p.in[0].stride[p.rank - 1];
    const long long target = index_of(p.in[1], row) - p.begin;
    const bool here = target >= 0 && target < p.count;
    float most = -INFINITY, sum = 0, lse;
    if (p.n_in > 2) {
        for (long long k = 0; k < p.window; k++)
            most = fmaxf(most, load(p.in[2], k * p.n + row));
        for (long long k = 0; k < p.window; k++)
            sum += expf(load(p.in[2], k * p.n + row) - most);
        lse = most + logf(sum);
    } else {
        for (long long c = threadIdx.x; c < p.count; c += blockDim.x)
            most = fmaxf(most, load(p.in[0], from + c * step));
        most = block_reduce(most, true);
        for (long long c = threadIdx.x; c < p.count; c += blockDim.x)
            sum += expf(load(p.in[0], from + c * step) - most);
        sum = block_reduce(sum, false);
        lse = p.count > 0 ? most + logf(sum) : -INFINITY;
    }
    if (threadIdx.x != 0)
        return;
    const float of_target = here ? load(p.in[0], from + target * step) : 0;
    const bool part = p.flag && p.n_in == 2; /* the sum over slices is not known yet */
    give(p, 0, row, part ? -of_target : (here || !p.flag ? lse - of_target : 0));
    if (p.out[1].data != nullptr)
        store(p.out[1], row, lse);
}

/* logits, targets, log-sum-exp, dpick [, dsum]: dsum softmax - dpick at the target */
KERNEL orr_cross_entropy_backward(orr_cuda_params p)
{
    const long long row = blockIdx.x, from = row_of(p, p.in[0], row), to = row_of(p, p.out[0], row);
    const long long target = index_of(p.in[1], row) - p.begin;
    const float lse = load(p.in[2], row), pick = load(p.in[3], row);
    const float all = p.n_in > 4 ? load(p.in[4], row) : 0;
    for (long long c = threadIdx.x; c < p.columns; c += blockDim.x) {
        const bool word = c < p.count;
        const float share =
            word ? expf(load(p.in[0], from + c * p.in[0].stride[p.rank - 1]) - lse) : 0;
        give(p, 0, to + c * p.out[0].stride[p.rank - 1],
             word ? all * share - (c == target ? pick : 0) : 0);
    }
}
