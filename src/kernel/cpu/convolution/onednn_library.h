/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_LIBRARY_H
#define ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_LIBRARY_H

#include <stdbool.h>

#include <oneapi/dnnl/dnnl.h>

/* The functions of oneDNN's C API, version 2, that are used. */
#define ORR_ONEDNN_MAP(X)                                                                          \
    X(dnnl_convolution_backward_data_desc_init)                                                    \
    X(dnnl_convolution_backward_weights_desc_init)                                                 \
    X(dnnl_convolution_forward_desc_init)                                                          \
    X(dnnl_engine_create)                                                                          \
    X(dnnl_memory_create)                                                                          \
    X(dnnl_memory_desc_equal)                                                                      \
    X(dnnl_memory_desc_get_size)                                                                   \
    X(dnnl_memory_desc_init_by_strides)                                                            \
    X(dnnl_memory_desc_init_by_tag)                                                                \
    X(dnnl_memory_destroy)                                                                         \
    X(dnnl_memory_set_data_handle_v2)                                                              \
    X(dnnl_primitive_attr_create)                                                                  \
    X(dnnl_primitive_attr_destroy)                                                                 \
    X(dnnl_primitive_attr_set_scratchpad_mode)                                                     \
    X(dnnl_primitive_create)                                                                       \
    X(dnnl_primitive_desc_create)                                                                  \
    X(dnnl_primitive_desc_destroy)                                                                 \
    X(dnnl_primitive_desc_query)                                                                   \
    X(dnnl_primitive_desc_query_md)                                                                \
    X(dnnl_primitive_destroy)                                                                      \
    X(dnnl_primitive_execute)                                                                      \
    X(dnnl_reorder_primitive_desc_create)                                                          \
    X(dnnl_stream_create)                                                                          \
    X(dnnl_stream_destroy)

typedef struct orr_onednn_api {
#define ORR_ONEDNN_POINTER_(name) __typeof__(name) *name;
    ORR_ONEDNN_MAP(ORR_ONEDNN_POINTER_)
#undef ORR_ONEDNN_POINTER_
    int (*omp_get_max_threads)(void); /* from the OpenMP runtime that it uses */
    void (*omp_set_num_threads)(int n);
    dnnl_engine_t engine; /* CPU engine, for the life of the process */
} orr_onednn_api;
/* NULL: not installed. Threads: any. */
const orr_onednn_api *orr_onednn_open(void);

/* Until orr_onednn_end(), which takes the returned value, oneDNN runs single-threaded in the
 * calling thread: our workers do the threading. */
static inline int orr_onednn_begin(const orr_onednn_api *api)
{
    const int threads = api->omp_get_max_threads();
    if (threads != 1)
        api->omp_set_num_threads(1);
    return threads;
}

static inline void orr_onednn_end(const orr_onednn_api *api, int threads)
{
    if (threads != 1)
        api->omp_set_num_threads(threads);
}

#endif /* ORR_KERNEL_CPU_CONVOLUTION_ONEDNN_LIBRARY_H */
