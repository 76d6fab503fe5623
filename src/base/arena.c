/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/arena.h>

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Blocks form a stack: `top` is the one that gives, `below` the one before it. An
 * object never spans blocks; one that is larger than a block gets a block to measure. */
typedef struct block {
    struct block *below;
    size_t room_bytes; /* of data */
    size_t used_bytes;
    _Alignas(max_align_t) unsigned char data[];
} block;

struct orr_arena {
    block *top;
    size_t block_bytes; /* of the next block */
    size_t max_block_bytes;
    size_t limit_bytes; /* SIZE_MAX: none */
    size_t held_bytes, peak_bytes;
};

enum { FIRST_BLOCK_BYTES = 64 * 1024, LARGEST_BLOCK_BYTES = 1024 * 1024 };

orr_arena *orr_arena_new(size_t block_bytes, size_t limit_bytes)
{
    orr_arena *arena = orr_calloc(1, sizeof *arena);
    if (arena == NULL)
        return NULL;
    arena->block_bytes = block_bytes > 0 ? block_bytes : FIRST_BLOCK_BYTES;
    arena->max_block_bytes = block_bytes > 0 ? block_bytes : LARGEST_BLOCK_BYTES;
    arena->limit_bytes = limit_bytes > 0 ? limit_bytes : SIZE_MAX;
    return arena;
}

static void pop_block(orr_arena *arena)
{
    block *gone = arena->top;
    arena->top = gone->below;
    arena->held_bytes -= sizeof *gone + gone->room_bytes;
    orr_free(gone);
}

void orr_arena_free(orr_arena *arena)
{
    if (arena == NULL)
        return;
    while (arena->top != NULL)
        pop_block(arena);
    orr_free(arena);
}

static bool push_block(orr_arena *arena, size_t need_bytes)
{
    size_t room = arena->block_bytes > sizeof(block) ? arena->block_bytes - sizeof(block) : 0;
    if (room < need_bytes)
        room = need_bytes;
    const size_t left = arena->limit_bytes - arena->held_bytes;
    if (left < sizeof(block) || left - sizeof(block) < need_bytes)
        return false;
    if (room > left - sizeof(block))
        room = left - sizeof(block);
    size_t bytes;
    if (!orr_add_size(room, sizeof(block), &bytes))
        return false;
    block *fresh = orr_malloc(bytes);
    if (fresh == NULL)
        return false;
    *fresh = (block){.below = arena->top, .room_bytes = room};
    arena->top = fresh;
    arena->held_bytes += bytes;
    if (arena->held_bytes > arena->peak_bytes)
        arena->peak_bytes = arena->held_bytes;
    if (arena->block_bytes < arena->max_block_bytes)
        arena->block_bytes *= 2;
    return true;
}

/* The next aligned place in the top block, or NULL when it does not fit. */
static void *take(block *top, size_t bytes, size_t align_bytes)
{
    if (top == NULL)
        return NULL;
    const uintptr_t at = (uintptr_t)(top->data + top->used_bytes);
    const size_t pad = (size_t)(-at & (align_bytes - 1));
    const size_t left = top->room_bytes - top->used_bytes;
    if (left < pad || left - pad < bytes)
        return NULL;
    void *result = top->data + top->used_bytes + pad;
    top->used_bytes += pad + bytes;
    return result;
}

static void *alloc_dirty(orr_arena *arena, size_t bytes, size_t align_bytes)
{
    void *result = take(arena->top, bytes, align_bytes);
    if (result != NULL)
        return result;
    size_t need;
    const size_t slack = align_bytes > _Alignof(max_align_t) ? align_bytes : 0;
    if (!orr_add_size(bytes, slack, &need) || !push_block(arena, need))
        return NULL;
    return take(arena->top, bytes, align_bytes);
}

void *orr_arena_alloc(orr_arena *arena, size_t count, size_t size_bytes, size_t align_bytes)
{
    size_t bytes;
    if (!orr_mul_size(count, size_bytes, &bytes))
        return NULL;
    void *result = alloc_dirty(arena, bytes > 0 ? bytes : 1, align_bytes);
    return result != NULL ? memset(result, 0, bytes) : NULL;
}

char *orr_arena_strndup(orr_arena *arena, const char *text, size_t len)
{
    size_t bytes;
    if (!orr_add_size(len, 1, &bytes))
        return NULL;
    char *copy = alloc_dirty(arena, bytes, 1);
    if (copy == NULL)
        return NULL;
    if (len > 0)
        memcpy(copy, text, len);
    copy[len] = '\0';
    return copy;
}

char *orr_arena_printf(orr_arena *arena, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    va_list again;
    va_copy(again, args);
    char *text = NULL;
    const int len = vsnprintf(NULL, 0, format, args);
    if (len >= 0)
        text = alloc_dirty(arena, (size_t)len + 1, 1);
    if (text != NULL)
        (void)vsnprintf(text, (size_t)len + 1, format, again);
    va_end(again);
    va_end(args);
    return text;
}

orr_arena_mark orr_arena_get_mark(const orr_arena *arena)
{
    return (orr_arena_mark){.block = arena->top,
                            .used_bytes = arena->top != NULL ? arena->top->used_bytes : 0};
}

void orr_arena_rewind(orr_arena *arena, orr_arena_mark mark)
{
    while (arena->top != NULL && arena->top != mark.block)
        pop_block(arena);
    if (arena->top != NULL)
        arena->top->used_bytes = mark.used_bytes;
}

void orr_arena_reset(orr_arena *arena)
{
    while (arena->top != NULL && arena->top->below != NULL)
        pop_block(arena);
    if (arena->top != NULL)
        arena->top->used_bytes = 0;
}

size_t orr_arena_held_bytes(const orr_arena *arena)
{
    return arena->held_bytes;
}

size_t orr_arena_peak_bytes(const orr_arena *arena)
{
    return arena->peak_bytes;
}
