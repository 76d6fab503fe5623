/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs as a backend: memory, streams, events and kernel images, by the CUDA driver API alone. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kernel/cuda/driver.h"

static orr_cuda *current;

orr_cuda *orr_cuda_current(void)
{
    return current;
}

static orr_cuda *of(orr_backend *backend)
{
    return backend->ctx;
}

static orr_status allocate(orr_backend *self, size_t bytes, void **ret, orr_error *err)
{
    const orr_cuda *c = of(self);
    CUdeviceptr data = 0;
    ORR_TRY(orr_cuda_check(c->api, c->api->cuMemAlloc(&data, bytes > 0 ? bytes : 1), "cuMemAlloc",
                           err));
    *ret = (void *)(uintptr_t)data;
    return ORR_OK;
}

static void release(orr_backend *self, void *data, size_t bytes)
{
    (void)bytes;
    if (data != NULL)
        (void)of(self)->api->cuMemFree((CUdeviceptr)(uintptr_t)data);
}

/* With unified addressing the driver knows which side each address is on. */
static orr_status copy(orr_backend *self, void *to, const void *from, size_t bytes, void *stream,
                       orr_error *err)
{
    const orr_cuda *c = of(self);
    return orr_cuda_check(c->api,
                          c->api->cuMemcpyAsync((CUdeviceptr)(uintptr_t)to,
                                                (CUdeviceptr)(uintptr_t)from, bytes, stream),
                          "cuMemcpyAsync", err);
}

static orr_status stream_new(orr_backend *self, void **ret, orr_error *err)
{
    const orr_cuda *c = of(self);
    CUstream stream;
    ORR_TRY(orr_cuda_check(c->api, c->api->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                           "cuStreamCreate", err));
    *ret = stream;
    return ORR_OK;
}

static void stream_free(orr_backend *self, void *stream)
{
    (void)of(self)->api->cuStreamDestroy(stream);
}

static orr_status event_record(orr_backend *self, void *stream, void **event, orr_error *err)
{
    const orr_cuda_api *api = of(self)->api;
    CUevent e = *event;
    if (e == NULL)
        ORR_TRY(orr_cuda_check(api, api->cuEventCreate(&e, CU_EVENT_DISABLE_TIMING),
                               "cuEventCreate", err));
    *event = e;
    return orr_cuda_check(api, api->cuEventRecord(e, stream), "cuEventRecord", err);
}

static orr_status event_wait(orr_backend *self, void *stream, void *event, orr_error *err)
{
    const orr_cuda_api *api = of(self)->api;
    return orr_cuda_check(api, api->cuStreamWaitEvent(stream, event, 0), "cuStreamWaitEvent", err);
}

static orr_status synchronize(orr_backend *self, void *stream, orr_error *err)
{
    const orr_cuda_api *api = of(self)->api;
    return orr_cuda_check(api, api->cuStreamSynchronize(stream), "cuStreamSynchronize", err);
}

static int64_t free_bytes(orr_backend *self)
{
    size_t there = 0, all = 0;
    return of(self)->api->cuMemGetInfo(&there, &all) == CUDA_SUCCESS ? (int64_t)there : -1;
}

static void close_device(orr_backend *self)
{
    orr_cuda *c = of(self);
    for (size_t i = 0; i < orr_n_cuda_images; i++)
        if (c->modules[i] != NULL)
            (void)c->api->cuModuleUnload(c->modules[i]);
    if (c->blas != NULL)
        (void)c->api->cublasLtDestroy(c->blas);
    if (c->context != NULL)
        (void)c->api->cuDevicePrimaryCtxRelease(c->device);
    if (current == c)
        current = NULL;
    orr_free(c);
}

/* Finds every kernel in one of the images. */
static orr_status load_kernels(orr_cuda *c, orr_error *err)
{
    static const char *const names[ORR_CUDA_KERNELS] = {
#define NAME_(name, text) text,
        ORR_CUDA_KERNEL_MAP(NAME_)
#undef NAME_
    };
    for (size_t i = 0; i < orr_n_cuda_images; i++)
        ORR_TRY(orr_cuda_check(c->api,
                               c->api->cuModuleLoadData(&c->modules[i], orr_cuda_images[i].data),
                               "cuModuleLoadData", err));
    for (int k = 0; k < ORR_CUDA_KERNELS; k++) {
        for (size_t i = 0; i < orr_n_cuda_images && c->kernels[k] == NULL; i++)
            if (c->api->cuModuleGetFunction(&c->kernels[k], c->modules[i], names[k]) !=
                CUDA_SUCCESS)
                c->kernels[k] = NULL;
        if (c->kernels[k] == NULL)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "no GPU: the library has no kernel %s for this device", names[k]);
    }
    return ORR_OK;
}

static orr_status open_device(orr_cuda *c, int device, orr_error *err)
{
    const orr_cuda_api *api = c->api;
    char name[128] = "";
    int n = 0;
    ORR_TRY(orr_cuda_check(api, api->cuInit(0), "no GPU: cuInit", err));
    ORR_TRY(orr_cuda_check(api, api->cuDeviceGetCount(&n), "no GPU: cuDeviceGetCount", err));
    if (device < 0 || device >= n)
        return orr_fail(err, ORR_UNSUPPORTED, "no GPU %d: there are %d", device, n);
    ORR_TRY(orr_cuda_check(api, api->cuDeviceGet(&c->device, device), "cuDeviceGet", err));
    (void)api->cuDeviceGetName(name, sizeof name, c->device);
    ORR_TRY(orr_cuda_check(api, api->cuDevicePrimaryCtxRetain(&c->context, c->device),
                           "cuDevicePrimaryCtxRetain", err));
    ORR_TRY(orr_cuda_check(api, api->cuCtxSetCurrent(c->context), "cuCtxSetCurrent", err));
    (void)snprintf(c->name, sizeof c->name, "cuda:%d", device);
    (void)snprintf(c->description, sizeof c->description, "%s%s", name,
                   api->blas ? "" : ", without cuBLASLt: no products");
    if (api->blas && api->cublasLtCreate(&c->blas) != CUBLAS_STATUS_SUCCESS)
        return orr_fail(err, ORR_UNSUPPORTED, "no GPU: cuBLASLt does not start");
    return load_kernels(c, err);
}

orr_status orr_backend_cuda(int device, orr_backend **ret, orr_error *err)
{
    const orr_cuda_api *api;
    ORR_TRY(orr_cuda_api_open(&api, err));
    if (current != NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "%s is open: one GPU a process", current->name);
    orr_cuda *c = orr_calloc(1, sizeof *c);
    if (c == NULL)
        return orr_fail_memory(err);
    c->api = api;
    c->backend = (orr_backend){.name = c->name,
                               .description = c->description,
                               .ctx = c,
                               .allocate = allocate,
                               .release = release,
                               .copy = copy,
                               .stream_new = stream_new,
                               .stream_free = stream_free,
                               .event_record = event_record,
                               .event_wait = event_wait,
                               .synchronize = synchronize,
                               .free_bytes = free_bytes,
                               .close = close_device};
    orr_cuda_entries(&c->backend);
    const orr_status status = open_device(c, device, err);
    if (status != ORR_OK) {
        close_device(&c->backend);
        return status;
    }
    current = c;
    *ret = &c->backend;
    return ORR_OK;
}

orr_status orr_cuda_launch(const orr_kernel_call *call, orr_cuda_kernel kernel, int64_t blocks,
                           uint32_t blocks_y, const orr_cuda_params *params, orr_error *err)
{
    const orr_cuda *c = current;
    orr_cuda_params copy_of = *params;
    void *arguments[] = {&copy_of};
    if (blocks == 0)
        return ORR_OK;
    (void)c->api->cuCtxSetCurrent(
        c->context); /* the context is current per thread, and lanes are threads */
    if (blocks > INT32_MAX)
        return orr_fail(err, ORR_LIMIT, "%s: more blocks than a GPU counts",
                        orr_op_of((orr_op)call->op)->name);
    return orr_cuda_check(c->api,
                          c->api->cuLaunchKernel(c->kernels[kernel], (unsigned)blocks, blocks_y, 1,
                                                 ORR_CUDA_BLOCK, 1, 1, 0, call->stream, arguments,
                                                 NULL),
                          orr_op_of((orr_op)call->op)->name, err);
}
