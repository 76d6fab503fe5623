/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic uint64_t allocations;
static _Atomic uint64_t fail_from;

static bool may_allocate(void)
{
    const uint64_t number = atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed) + 1;
    const uint64_t first_to_fail = atomic_load_explicit(&fail_from, memory_order_relaxed);
    return first_to_fail == 0 || number < first_to_fail;
}

void *orr_malloc(size_t bytes)
{
    return may_allocate() ? malloc(bytes > 0 ? bytes : 1) : NULL;
}

void *orr_calloc(size_t count, size_t bytes)
{
    size_t total;
    if (!orr_mul_size(count, bytes, &total))
        return NULL;
    if (total == 0)
        count = bytes = 1;
    return may_allocate() ? calloc(count, bytes) : NULL;
}

void *orr_realloc(void *old, size_t bytes)
{
    return may_allocate() ? realloc(old, bytes > 0 ? bytes : 1) : NULL;
}

void *orr_malloc_aligned(size_t bytes)
{
    size_t whole;
    if (!orr_add_size(bytes > 0 ? bytes : 1, 63, &whole))
        return NULL;
    return may_allocate() ? aligned_alloc(64, whole & ~(size_t)63) : NULL;
}

void orr_free(void *old)
{
    free(old);
}

void orr_alloc_fail_from(uint64_t nth)
{
    atomic_store(&fail_from, nth);
    atomic_store(&allocations, 0);
}

uint64_t orr_alloc_count(void)
{
    return atomic_exchange(&allocations, 0);
}
