/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/convolution/onednn_library.h"

#include <pthread.h>

#include "base/library.h"
#include "kernel/cpu/convolution/onednn.h"

static orr_onednn_api api;
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    static const char *const files[] = {"libdnnl.so.2", NULL};
    const char *missing = NULL;
    void *library = orr_library_open(files);
    if (library == NULL)
        return;
#define FIND_(name) api.name = (__typeof__(api.name))orr_library_find(library, #name, &missing);
    ORR_ONEDNN_MAP(FIND_)
    FIND_(omp_get_max_threads)
    FIND_(omp_set_num_threads)
#undef FIND_
    available = missing == NULL && api.dnnl_engine_create(&api.engine, dnnl_cpu, 0) == dnnl_success;
}

const orr_onednn_api *orr_onednn_open(void)
{
    (void)pthread_once(&opened, open_library);
    return available ? &api : NULL;
}

bool orr_onednn_available(void)
{
    return orr_onednn_open() != NULL;
}
