/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cuda/driver.h"

#include <pthread.h>
#include <string.h>

#include "base/library.h"

static orr_cuda_api api;
static const char *missing; /* what could not be opened, or NULL */
static pthread_once_t opened = PTHREAD_ONCE_INIT;

/* Symbols that the header renames ("cuMemAlloc_v2") are looked up by their renamed names. */
#define TEXT_(name) #name
#define NAME_(name) TEXT_(name)

static void open_blas(void)
{
    static const char *const names[] = {"libcublasLt.so.13", "libcublasLt.so.12",
                                        "libcublasLt.so.11", "libcublasLt.so", NULL};
    void *blas = orr_library_open(names);
    if (blas == NULL)
        return;
    const char *lacks = NULL;
#define FIND_(name) api.name = (__typeof__(name) *)orr_library_find(blas, NAME_(name), &lacks);
    ORR_CUDA_BLAS_MAP(FIND_)
#undef FIND_
    api.blas = lacks == NULL;
}

static void open_all(void)
{
    static const char *const names[] = {"libcuda.so.1", "libcuda.so", NULL};
    const char *lacks = NULL;
    void *driver = orr_library_open(names);
    if (driver == NULL) {
        missing = "no CUDA driver (libcuda.so.1)";
        return;
    }
#define FIND_(name)                                                                                \
    api.name = (__typeof__(name) *)orr_library_find(driver, NAME_(name), &lacks);                  \
    if (api.name == NULL)                                                                          \
        missing = "the CUDA driver is too old: it has no " NAME_(name);
    ORR_CUDA_DRIVER_MAP(FIND_)
#undef FIND_
    if (missing == NULL)
        open_blas();
}

orr_status orr_cuda_api_open(const orr_cuda_api **ret, orr_error *err)
{
    (void)pthread_once(&opened, open_all);
    if (missing != NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "no GPU: %s", missing);
    *ret = &api;
    return ORR_OK;
}

orr_status orr_cuda_check(const orr_cuda_api *cuda, CUresult result, const char *what,
                          orr_error *err)
{
    const char *text = NULL;
    if (result == CUDA_SUCCESS)
        return ORR_OK;
    if (cuda->cuGetErrorString(result, &text) != CUDA_SUCCESS || text == NULL)
        text = "unknown error";
    return orr_fail(err, result == CUDA_ERROR_OUT_OF_MEMORY ? ORR_NO_MEMORY : ORR_UNSUPPORTED,
                    "%s: %s", what, text);
}
