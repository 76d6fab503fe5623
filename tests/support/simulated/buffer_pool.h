/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SUPPORT_SIMULATED_BUFFER_POOL_H
#define ORR_SUPPORT_SIMULATED_BUFFER_POOL_H

#include <stdint.h>

#include "base/array.h"

/* A pool of memory for payloads in flight, in powers of two; returned buffers are reused, and
 * freed only with the pool. */
enum { ORR_BUFFER_POOL_SIZES = 34 };
typedef struct orr_buffer_pool {
    void *free[ORR_BUFFER_POOL_SIZES]; /* free lists by size, linked through the buffers
                                        * themselves */
    orr_array(void *) blocks;
} orr_buffer_pool;

/* NULL: out of memory. */
void *orr_buffer_pool_take(orr_buffer_pool *pool, size_t bytes, uint8_t *ret_size);
void orr_buffer_pool_give(orr_buffer_pool *pool, void *memory, uint8_t size);
void orr_buffer_pool_done(orr_buffer_pool *pool);

#endif /* ORR_SUPPORT_SIMULATED_BUFFER_POOL_H */
