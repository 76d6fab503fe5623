/* SPDX-License-Identifier: Apache-2.0 */
/* Attention in one kernel, one warp per query: keys one after another with an online softmax
 * (Milakov and Gimelshein, arXiv 1805.02867). Backward: one warp per query for dq, one warp per key
 * for dk and dv, so that no sum depends on the order of blocks and no atomics are needed. A lane
 * holds up to EACH columns in registers, which limits heads to 256 columns. */
#include "kernel/cuda/device.cuh"

#include <orrery/op.h>

enum { EACH = 8 }; /* columns of a lane at most */

typedef struct vector {
    float at[EACH];
} vector;

static __device__ vector read_vector(const orr_cuda_operand &t, long long from, int lane,
                                     long long width)
{
    vector v;
    for (int k = 0; k < EACH; k++) {
        const long long c = lane + (long long)k * WARP;
        v.at[k] = c < width ? load(t, from + c * t.stride[3]) : 0;
    }
    return v;
}
static __device__ void write_vector(const orr_cuda_params &p, int out, long long to, int lane,
                                    long long width, const vector &v)
{
    for (int k = 0; k < EACH; k++) {
        const long long c = lane + (long long)k * WARP;
        if (c < width && p.out[out].data != nullptr)
            store(p.out[out], to + c * p.out[out].stride[3], v.at[k]);
    }
}
static __device__ float dot(const vector &a, const vector &b)
{
    float sum = 0;
    for (int k = 0; k < EACH; k++)
        sum += a.at[k] * b.at[k];
    return warp_sum(sum);
}
static __device__ void add(vector &a, const vector &b, float times)
{
    for (int k = 0; k < EACH; k++)
        a.at[k] += times * b.at[k];
}

/* dim: B, S, H, D; begin: G key heads; count: Skv; columns: Dv. */
typedef struct who {
    long long b, i, h, g, position, keys;
    int lane;
} who;
static __device__ long long at_of(const orr_cuda_operand &t, long long b, long long s, long long h)
{
    return b * t.stride[0] + s * t.stride[1] + h * t.stride[2];
}
static __device__ bool locate(const orr_cuda_params &p, long long tokens, long long heads, who *w)
{
    const long long r = (long long)blockIdx.x * WARPS + threadIdx.x / WARP;
    w->lane = threadIdx.x % WARP;
    w->h = r % heads;
    w->i = r / heads % tokens;
    w->b = r / heads / tokens;
    return w->b < p.dim[0];
}
static __device__ void place_query(const orr_cuda_params &p, long long i, who *w)
{
    w->i = i;
    w->position = (p.first != nullptr ? p.first[w->b] : p.offset) + i;
    w->keys = p.mask == ORR_MASK_NONE ? p.count : min(p.count, w->position + 1);
}
static __device__ long long first_key(const orr_cuda_params &p, const who &w)
{
    return p.mask == ORR_MASK_CHUNKED ? w.position / p.window * p.window : 0;
}

KERNEL orr_attention(orr_cuda_params p)
{
    who w;
    if (!locate(p, p.dim[1], p.dim[2], &w))
        return;
    place_query(p, w.i, &w);
    w.g = w.h / (p.dim[2] / p.begin);
    const vector q = read_vector(p.in[0], at_of(p.in[0], w.b, w.i, w.h), w.lane, p.dim[3]);
    vector y = {{0}};
    float most = -INFINITY, sum = 0;
    for (long long j = first_key(p, w); j < w.keys; j++) {
        const float s =
            p.value * dot(q, read_vector(p.in[1], at_of(p.in[1], w.b, j, w.g), w.lane, p.dim[3]));
        const float next = fmaxf(most, s), old = expf(most - next), e = expf(s - next);
        for (int k = 0; k < EACH; k++)
            y.at[k] *= old;
        add(y, read_vector(p.in[2], at_of(p.in[2], w.b, j, w.g), w.lane, p.columns), e);
        sum = sum * old + e;
        most = next;
    }
    for (int k = 0; k < EACH; k++)
        y.at[k] = sum > 0 ? y.at[k] / sum : 0;
    write_vector(p, 0, at_of(p.out[0], w.b, w.i, w.h), w.lane, p.columns, y);
    if (w.lane == 0 && p.out[1].data != nullptr)
        store(p.out[1], (w.b * p.dim[2] + w.h) * p.dim[1] + w.i,
              sum > 0 ? most + logf(sum) : -INFINITY);
}

/* in: dy, q, k, v, y, logsumexp. scratch: dy . y of every query. */
KERNEL orr_attention_delta(orr_cuda_params p)
{
    who w;
    if (!locate(p, p.dim[1], p.dim[2], &w))
        return;
    const float d = dot(read_vector(p.in[0], at_of(p.in[0], w.b, w.i, w.h), w.lane, p.columns),
                        read_vector(p.in[4], at_of(p.in[4], w.b, w.i, w.h), w.lane, p.columns));
    if (w.lane == 0)
        p.scratch[(w.b * p.dim[2] + w.h) * p.dim[1] + w.i] = d;
}

typedef struct pair_of {
    float p, ds;
} pair_of;
static __device__ pair_of weigh(const orr_cuda_params &p, const who &w, const vector &q,
                                const vector &k, const vector &dy, const vector &v)
{
    const long long row = (w.b * p.dim[2] + w.h) * p.dim[1] + w.i;
    pair_of r;
    r.p = expf(p.value * dot(q, k) - load(p.in[5], row));
    r.ds = r.p * (dot(dy, v) - p.scratch[row]) * p.value;
    return r;
}

KERNEL orr_attention_query(orr_cuda_params p)
{
    who w;
    if (!locate(p, p.dim[1], p.dim[2], &w))
        return;
    place_query(p, w.i, &w);
    w.g = w.h / (p.dim[2] / p.begin);
    const vector q = read_vector(p.in[1], at_of(p.in[1], w.b, w.i, w.h), w.lane, p.dim[3]);
    const vector dy = read_vector(p.in[0], at_of(p.in[0], w.b, w.i, w.h), w.lane, p.columns);
    vector dq = {{0}};
    for (long long j = first_key(p, w); j < w.keys; j++) {
        const vector k = read_vector(p.in[2], at_of(p.in[2], w.b, j, w.g), w.lane, p.dim[3]);
        const vector v = read_vector(p.in[3], at_of(p.in[3], w.b, j, w.g), w.lane, p.columns);
        add(dq, k, weigh(p, w, q, k, dy, v).ds);
    }
    write_vector(p, 0, at_of(p.out[0], w.b, w.i, w.h), w.lane, p.dim[3], dq);
}

/* One warp per key of a key head: loops over all queries of the heads that share it. */
KERNEL orr_attention_key(orr_cuda_params p)
{
    who w;
    if (!locate(p, p.count, p.begin, &w))
        return;
    const long long j = w.i, share = p.dim[2] / p.begin;
    w.g = w.h;
    const vector k = read_vector(p.in[2], at_of(p.in[2], w.b, j, w.g), w.lane, p.dim[3]);
    const vector v = read_vector(p.in[3], at_of(p.in[3], w.b, j, w.g), w.lane, p.columns);
    vector dk = {{0}}, dv = {{0}};
    for (long long h = w.g * share; h < (w.g + 1) * share; h++)
        for (long long i = 0; i < p.dim[1]; i++) {
            w.h = h;
            place_query(p, i, &w);
            if (j >= w.keys || j < first_key(p, w))
                continue;
            const vector q = read_vector(p.in[1], at_of(p.in[1], w.b, i, h), w.lane, p.dim[3]);
            const vector dy = read_vector(p.in[0], at_of(p.in[0], w.b, i, h), w.lane, p.columns);
            const pair_of r = weigh(p, w, q, k, dy, v);
            add(dk, q, r.ds);
            add(dv, dy, r.p);
        }
    write_vector(p, 1, at_of(p.out[1], w.b, j, w.g), w.lane, p.dim[3], dk);
    write_vector(p, 2, at_of(p.out[2], w.b, j, w.g), w.lane, p.columns, dv);
}
