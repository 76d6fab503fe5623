/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_KINETO_RECENT_H
#define ORR_TRACE_KINETO_RECENT_H

#include <string.h>

#include "trace/kineto/reader.h"

/* Values that stand as they stood before. A recording has few categories, processes and threads,
 * and the same shapes, grids and types again and again: where the bytes of a value are those of one
 * that was read lately, one comparison reads it. What was a value once is one wherever it stands
 * again. All functions look at up to ORR_STREAM_TAIL_BYTES from p on. */

static inline uint64_t kineto_load64(const void *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

static inline bool kineto_stands_at(const uint8_t *p, const void *bytes, size_t n)
{
    const uint8_t *b = bytes;
    if (n < 8 || n > 64)
        return memcmp(p, b, n) == 0;
    for (size_t i = 0; i + 8 < n; i += 8)
        if (kineto_load64(p + i) != kineto_load64(b + i))
            return false;
    return kineto_load64(p + n - 8) == kineto_load64(b + n - 8);
}

/* Where the array at p is remembered as a string of the graph; by its first 32 bytes. */
enum { KINETO_RECENT_LIST_BYTES = 64 }; /* at most; so short a list is never nested too deep */
_Static_assert((int)KINETO_RECENT_LIST_BYTES <= (int)ORR_STREAM_TAIL_BYTES, "readable");

static inline orr_str *kineto_recent_list(kineto *k, const uint8_t *p)
{
    const uint64_t mix = kineto_load64(p) * UINT64_C(0x9e3779b97f4a7c15) +
                         kineto_load64(p + 8) * UINT64_C(0xc2b2ae3d27d4eb4f) +
                         kineto_load64(p + 16) * UINT64_C(0x165667b19e3779f9) +
                         kineto_load64(p + 24);
    return &k->recent_lists[(mix ^ mix >> 29) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
}

/* As orr_builder_str(), without hashing all of a text that was interned lately. */
static inline orr_status kineto_str(kineto *k, orr_text text, orr_str *ret, orr_error *err)
{
    const uint8_t *const at = (const uint8_t *)text.at;
    const size_t n = text.n;
    if (n < 8)
        return orr_builder_str(k->builder, text.at, n, ret, err);
    const uint64_t mix = kineto_load64(at) * UINT64_C(0x9e3779b97f4a7c15) +
                         kineto_load64(at + n - 8) * UINT64_C(0xc2b2ae3d27d4eb4f) +
                         (kineto_load64(at + n / 2 - 4) ^ n) * UINT64_C(0x165667b19e3779f9);
    orr_str *recent = &k->recent_texts[(mix ^ mix >> 32) * UINT64_C(0x9e3779b97f4a7c15) >> 54];
    if (orr_strtab_len(k->builder->strings, *recent) == n &&
        kineto_stands_at(at, orr_builder_text(k->builder, *recent), n)) {
        *ret = *recent;
        return ORR_OK;
    }
    ORR_TRY(orr_builder_str(k->builder, text.at, n, ret, err));
    *recent = *ret;
    return ORR_OK;
}

/* Where the scalar at p is remembered. */
static inline kineto_recent *kineto_recent_of(kineto_recent table[KINETO_RECENT], const uint8_t *p)
{
    return &table[kineto_load64(p) * UINT64_C(0x9e3779b97f4a7c15) >> 58];
}
_Static_assert(KINETO_RECENT == 1 << (64 - 58), "the hash above");

static inline bool kineto_is_recent(const orr_json *json, const uint8_t *p, const kineto_recent *r)
{
    return ((kineto_load64(p) ^ kineto_load64(r->bytes)) & r->mask) == 0 && r->n > 0 &&
           (size_t)(json->end - p) >= r->n && (r->n <= 8 || kineto_stands_at(p, r->bytes, r->n));
}

/* The value at p was read in the plain way. With a number goes the byte behind it, which ends it.
 */
static inline void kineto_remember(const orr_json *json, const uint8_t *p, kineto_recent *r,
                                   int64_t number, orr_str text)
{
    const size_t value_n = (size_t)(json->at - p), n = value_n + (*p != '"');
    if (n > sizeof r->bytes)
        return;
    *r = (kineto_recent){
        .n = (uint8_t)n, .value_n = (uint8_t)value_n, .number = number, .text = text};
    memcpy(r->bytes, p, n);
    memset(&r->mask, 0xff, n < sizeof r->mask ? n : sizeof r->mask);
}

#endif /* ORR_TRACE_KINETO_RECENT_H */
