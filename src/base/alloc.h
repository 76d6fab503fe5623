/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_ALLOC_H
#define ORR_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one door to malloc. Everything in the library allocates through it, so
 * that a test can make the n-th allocation fail. Threads: any. */
void *orr_malloc(size_t bytes);
void *orr_calloc(size_t count, size_t bytes);
void *orr_realloc(void *old, size_t bytes);
void orr_free(void *old);
/* At an address that is a multiple of 64: what several threads write to, or vectors read. */
void *orr_malloc_aligned(size_t bytes);

/* Test seam: allocation number `nth` (1 = the next) and all after it fail; 0 = none.
 * orr_alloc_count(): allocations since the last call of either. */
void orr_alloc_fail_from(uint64_t nth);
uint64_t orr_alloc_count(void);

/* a * b and a + b with overflow told. */
static inline bool orr_mul_size(size_t a, size_t b, size_t *ret)
{
    return !__builtin_mul_overflow(a, b, ret);
}
static inline bool orr_add_size(size_t a, size_t b, size_t *ret)
{
    return !__builtin_add_overflow(a, b, ret);
}
static inline size_t orr_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

#endif /* ORR_BASE_ALLOC_H */
