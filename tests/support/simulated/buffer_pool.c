/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/buffer_pool.h"

#include <string.h>

#include "base/alloc.h"

enum { LEAST = 6, BLOCK = 1 << 15 }; /* 2^LEAST: a cache line */

static uint8_t size_of(size_t bytes)
{
    return bytes <= 1 << LEAST ? LEAST : (uint8_t)(64 - __builtin_clzll(bytes - 1));
}

static bool refill(orr_buffer_pool *pool, uint8_t size)
{
    const size_t each = (size_t)1 << size, block = each > BLOCK ? each : BLOCK;
    if (!orr_array_reserve(&pool->blocks, 1))
        return false;
    char *memory = orr_malloc_aligned(block);
    if (memory == NULL)
        return false;
    pool->blocks.at[pool->blocks.n++] = memory;
    for (size_t at = block; at > 0; at -= each)
        orr_buffer_pool_give(pool, memory + at - each, size);
    return true;
}

void *orr_buffer_pool_take(orr_buffer_pool *pool, size_t bytes, uint8_t *ret_size)
{
    const uint8_t size = size_of(bytes);
    if (size >= ORR_BUFFER_POOL_SIZES || (pool->free[size] == NULL && !refill(pool, size)))
        return NULL;
    void *memory = pool->free[size];
    memcpy(&pool->free[size], memory, sizeof(void *));
    *ret_size = size;
    return memory;
}

void orr_buffer_pool_give(orr_buffer_pool *pool, void *memory, uint8_t size)
{
    memcpy(memory, &pool->free[size], sizeof(void *));
    pool->free[size] = memory;
}

void orr_buffer_pool_done(orr_buffer_pool *pool)
{
    for (size_t i = 0; i < pool->blocks.n; i++)
        orr_free(pool->blocks.at[i]);
    orr_array_done(&pool->blocks);
    *pool = (orr_buffer_pool){0};
}
