/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ARENA_H
#define ORR_ARENA_H

#include <stddef.h>

#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Arena: many objects that die together.
 *
 * A result allocates from the arena that its caller gives and is freed with it
 * by one call. Pointers stay valid until orr_arena_rewind() past them,
 * orr_arena_reset() or orr_arena_free(); the arena never moves what it gave.
 *
 * Threads: none. One arena belongs to one thread at a time. */
typedef struct orr_arena orr_arena;

/* A point to come back to. A plain value, not owned. */
typedef struct orr_arena_mark {
    void *block;
    size_t used_bytes;
} orr_arena_mark;

/* New arena. `block_bytes`: size of each block asked of malloc, 0 = 64 KiB
 * growing to 1 MiB. `limit_bytes`: most the arena may hold, 0 = no limit.
 * Returns NULL when out of memory. Free with orr_arena_free(). */
ORR_API orr_arena *orr_arena_new(size_t block_bytes, size_t limit_bytes);

/* Free the arena and all that came from it. NULL is allowed. */
ORR_API void orr_arena_free(orr_arena *arena);

/* Zeroed memory for `count` objects of `size_bytes`, aligned to `align_bytes`
 * (a power of two). A count of zero gives a unique non-NULL pointer. NULL when
 * out of memory, over the limit, or when count * size_bytes overflows. */
ORR_API ORR_MUST_CHECK void *orr_arena_alloc(orr_arena *arena, size_t count, size_t size_bytes,
                                             size_t align_bytes);

/* Copy of text[0..len), NUL-terminated. NULL as in orr_arena_alloc(). */
ORR_API ORR_MUST_CHECK char *orr_arena_strndup(orr_arena *arena, const char *text, size_t len);

/* Formatted text. NULL as in orr_arena_alloc(). */
ORR_API ORR_MUST_CHECK char *orr_arena_printf(orr_arena *arena, const char *format, ...)
    ORR_PRINTF(2, 3);

/* Typed forms: orr_span *spans = orr_arena_array(arena, orr_span, n); */
#define orr_arena_array(arena, T, count)                                                           \
    ((T *)orr_arena_alloc((arena), (count), sizeof(T), ORR_ALIGNOF_(T)))
#define orr_arena_one(arena, T) orr_arena_array(arena, T, 1)
#ifdef __cplusplus
#define ORR_ALIGNOF_(T) alignof(T)
#else
#define ORR_ALIGNOF_(T) _Alignof(T)
#endif

/* Scratch work: take a mark, allocate, rewind. Marks nest like braces. */
ORR_API orr_arena_mark orr_arena_get_mark(const orr_arena *arena);
ORR_API void orr_arena_rewind(orr_arena *arena, orr_arena_mark mark);

/* Drop everything, keep the first block for reuse. */
ORR_API void orr_arena_reset(orr_arena *arena);

/* Bytes held from malloc, and the highest that number has been. */
ORR_API size_t orr_arena_held_bytes(const orr_arena *arena);
ORR_API size_t orr_arena_peak_bytes(const orr_arena *arena);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ARENA_H */
