/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CUDA_DEVICE_CUH
#define ORR_KERNEL_CUDA_DEVICE_CUH

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <orrery/dtype.h>

#include "kernel/cuda/params.h"

/* Shared by all kernels: numbers of any dtype as fp32, rows of strided tensors, reductions over a
 * warp and a block in a fixed order. */
#define KERNEL extern "C" __global__ void
enum { WARP = 32, BLOCK = 256, WARPS = BLOCK / WARP };

static __device__ __forceinline__ float load(const orr_cuda_operand &t, long long at)
{
    switch (t.dtype) {
    case ORR_DTYPE_BF16:
        return __bfloat162float(((const __nv_bfloat16 *)t.data)[at]);
    case ORR_DTYPE_FP16:
        return __half2float(((const __half *)t.data)[at]);
    case ORR_DTYPE_INT32:
        return (float)((const int *)t.data)[at];
    default:
        return ((const float *)t.data)[at];
    }
}
static __device__ __forceinline__ void store(const orr_cuda_operand &t, long long at, float value)
{
    switch (t.dtype) {
    case ORR_DTYPE_BF16:
        ((__nv_bfloat16 *)t.data)[at] = __float2bfloat16(value);
        break;
    case ORR_DTYPE_FP16:
        ((__half *)t.data)[at] = __float2half(value);
        break;
    default:
        ((float *)t.data)[at] = value;
    }
}
static __device__ __forceinline__ void give(const orr_cuda_params &p, int k, long long at,
                                            float value)
{
    if (p.out[k].data != nullptr)
        store(p.out[k], at, p.accumulate && k == 0 ? load(p.out[k], at) + value : value);
}
static __device__ __forceinline__ long long index_of(const orr_cuda_operand &t, long long at)
{
    return t.dtype == ORR_DTYPE_INT64 ? ((const long long *)t.data)[at] : ((const int *)t.data)[at];
}

/* Offset of element `i`, row-major over dims [0, rank). */
static __device__ __forceinline__ long long place(const orr_cuda_params &p,
                                                  const orr_cuda_operand &t, int rank, long long i)
{
    long long at = 0;
    for (int d = rank - 1; d >= 0; d--) {
        at += i % p.dim[d] * t.stride[d];
        i /= p.dim[d];
    }
    return at;
}
static __device__ __forceinline__ long long row_of(const orr_cuda_params &p,
                                                   const orr_cuda_operand &t, long long row)
{
    return place(p, t, p.rank - 1, row);
}

static __device__ __forceinline__ float warp_sum(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}
static __device__ __forceinline__ float warp_max(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
/* Reduces over all threads of a block of BLOCK; the result is the same in each. */
static __device__ float block_reduce(float x, bool largest)
{
    __shared__ float part[WARPS];
    x = largest ? warp_max(x) : warp_sum(x);
    __syncthreads();
    if (threadIdx.x % WARP == 0)
        part[threadIdx.x / WARP] = x;
    __syncthreads();
    float all = part[0];
    for (int w = 1; w < WARPS; w++)
        all = largest ? fmaxf(all, part[w]) : all + part[w];
    return all;
}

#endif /* ORR_KERNEL_CUDA_DEVICE_CUH */
