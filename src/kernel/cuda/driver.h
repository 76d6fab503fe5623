/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CUDA_DRIVER_H
#define ORR_KERNEL_CUDA_DRIVER_H

#include <cublasLt.h>
#include <cuda.h>
#include <stdint.h>

#include <orrery/kernel.h>

#include "kernel/cuda/params.h"

/* The CUDA driver and cuBLASLt, opened at run time (dlopen), so that the library runs on machines
 * without them. */
#define ORR_CUDA_DRIVER_MAP(X)                                                                     \
    X(cuInit)                                                                                      \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName) X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease) X(cuCtxSetCurrent) \
        X(cuModuleLoadData) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)             \
            X(cuMemAlloc) X(cuMemFree) X(cuMemcpyAsync) X(cuMemsetD8Async) X(cuMemGetInfo)         \
                X(cuStreamCreate) X(cuStreamDestroy) X(cuStreamSynchronize) X(cuStreamWaitEvent)   \
                    X(cuEventCreate) X(cuEventRecord) X(cuGetErrorString)
#define ORR_CUDA_BLAS_MAP(X)                                                                       \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulDescCreate) X(cublasLtMatmulDescDestroy) X(cublasLtMatmulDescSetAttribute)     \
        X(cublasLtMatrixLayoutCreate) X(cublasLtMatrixLayoutDestroy)                               \
            X(cublasLtMatrixLayoutSetAttribute) X(cublasLtMatmulPreferenceCreate)                  \
                X(cublasLtMatmulPreferenceDestroy) X(cublasLtMatmulPreferenceSetAttribute)         \
                    X(cublasLtMatmulAlgoGetHeuristic)

typedef struct orr_cuda_api {
#define ORR_CUDA_FIELD_(name) __typeof__(name) *name;
    ORR_CUDA_DRIVER_MAP(ORR_CUDA_FIELD_)
    ORR_CUDA_BLAS_MAP(ORR_CUDA_FIELD_)
#undef ORR_CUDA_FIELD_
    bool blas; /* cuBLASLt is available */
} orr_cuda_api;
/* Opened once; otherwise one line that says what is missing. Threads: any. */
orr_status orr_cuda_api_open(const orr_cuda_api **ret, orr_error *err) ORR_MUST_CHECK;
/* UNSUPPORTED or NO_MEMORY with the driver's message; `what`: "cuLaunchKernel orr_norm". */
orr_status orr_cuda_check(const orr_cuda_api *api, CUresult result, const char *what,
                          orr_error *err) ORR_MUST_CHECK;

typedef enum orr_cuda_kernel {
#define ORR_CUDA_KERNEL_ENUM_(name, text) ORR_CUDA_##name,
    ORR_CUDA_KERNEL_MAP(ORR_CUDA_KERNEL_ENUM_)
#undef ORR_CUDA_KERNEL_ENUM_
        ORR_CUDA_KERNELS
} orr_cuda_kernel;

/* Device code embedded in the library: one image per source file. */
typedef struct orr_cuda_image {
    const char *name;
    const unsigned char *data;
    size_t bytes;
} orr_cuda_image;
extern const orr_cuda_image orr_cuda_images[];
extern const size_t orr_n_cuda_images;

enum { ORR_CUDA_BLOCK = 256, ORR_CUDA_WARP = 32, ORR_CUDA_IMAGES_MAX = 8 };
/* An open device: ctx of the backend. */
typedef struct orr_cuda {
    orr_backend backend;
    const orr_cuda_api *api;
    CUdevice device;
    CUcontext context;
    CUmodule modules[ORR_CUDA_IMAGES_MAX];
    CUfunction kernels[ORR_CUDA_KERNELS];
    cublasLtHandle_t blas;
    char name[16], description[160];
} orr_cuda;
/* The device that entries run on. A kernel call does not name its backend, so only one can be
 * open. */
orr_cuda *orr_cuda_current(void);

/* Launches a grid of `blocks` by `blocks_y` blocks of `threads`. */
orr_status orr_cuda_launch(const orr_kernel_call *call, orr_cuda_kernel kernel, int64_t blocks,
                           uint32_t blocks_y, const orr_cuda_params *params,
                           orr_error *err) ORR_MUST_CHECK;
/* Fills in the backend's kernel entries. */
void orr_cuda_entries(orr_backend *backend);
extern const orr_kernel_entry orr_cuda_matmul_entry;

#endif /* ORR_KERNEL_CUDA_DRIVER_H */
