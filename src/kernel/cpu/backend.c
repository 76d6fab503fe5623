/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/simd/cpu_level.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "kernel/cpu/free_memory.h"
#include "kernel/cpu/entries.h"

static const orr_kernel_entry *const ENTRIES[ORR_OPS] = {
#define ENTRY_(name) [ORR_OP_##name] = &orr_cpu_##name,
    ORR_CPU_ENTRY_MAP(ENTRY_)
#undef ENTRY_
};

/* Larger allocations come straight from the system, in huge pages of 2 MiB where it has them: a
 * product reads gigabytes, and TLB misses would cost a tenth of its time. */
enum { LARGE_BYTES = 4 << 20 };

static orr_status allocate(orr_backend *self, size_t bytes, void **ret, orr_error *err)
{
    (void)self;
    void *data;
    if (bytes < LARGE_BYTES) {
        data = orr_malloc_aligned(bytes);
        if (data == NULL)
            return orr_fail_memory(err);
    } else {
        data = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (data == MAP_FAILED)
            return orr_fail_memory(err);
        (void)madvise(data, bytes, MADV_HUGEPAGE);
    }
    *ret = data;
    return ORR_OK;
}

static void release(orr_backend *self, void *data, size_t bytes)
{
    (void)self;
    if (bytes < LARGE_BYTES)
        orr_free(data);
    else if (data != NULL)
        (void)munmap(data, bytes);
}

static orr_status copy(orr_backend *self, void *to, const void *from, size_t bytes, void *stream,
                       orr_error *err)
{
    (void)self, (void)stream, (void)err;
    if (bytes > 0)
        memcpy(to, from, bytes);
    return ORR_OK;
}

static orr_status synchronize(orr_backend *self, void *stream, orr_error *err)
{
    (void)self, (void)stream, (void)err;
    return ORR_OK;
}

static int64_t free_bytes(orr_backend *self)
{
    (void)self;
    return orr_memory_free_bytes("/proc", "/sys/fs/cgroup");
}

static void nothing_to_close(orr_backend *self)
{
    (void)self;
}

static char description[128];
static orr_backend backend = {
    .name = "cpu",
    .description = description,
    .allocate = allocate,
    .release = release,
    .copy = copy,
    .synchronize = synchronize,
    .free_bytes = free_bytes,
    .close = nothing_to_close,
};
static pthread_once_t filled = PTHREAD_ONCE_INIT;

static void fill(void)
{
    char model[64];
    orr_cpu_model(model, sizeof model);
    (void)snprintf(description, sizeof description, "%s, %s", model,
                   orr_cpu_level_name(orr_cpu_level()));
    for (int op = 0; op < ORR_OPS; op++)
        if (ENTRIES[op] != NULL)
            backend.entries[op] = *ENTRIES[op];
}

orr_status orr_backend_cpu(orr_backend **ret, orr_error *err)
{
    (void)err;
    (void)pthread_once(&filled, fill);
    *ret = &backend;
    return ORR_OK;
}
