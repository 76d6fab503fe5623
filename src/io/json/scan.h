/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_JSON_SCAN_H
#define ORR_IO_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ORR_JSON_NO_VECTORS: build the plain loops also where there are vectors, to test them. */
#if defined(__SSE2__) && !defined(ORR_JSON_NO_VECTORS)
#define ORR_JSON_SSE2_
#include <emmintrin.h>
#endif

/* The two loops that most bytes of a trace go through. Both read whole vectors, so that
 * ORR_JSON_VECTOR bytes behind `end` must be readable; what stands there does not matter. */
enum { ORR_JSON_VECTOR = 16 };

static inline bool orr_json_is_space(uint8_t c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Stands for itself in a string: neither quote, backslash nor control, and ASCII. */
static inline bool orr_json_is_plain(uint8_t c)
{
    return c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
}

#if defined(ORR_JSON_SSE2_)

static inline unsigned orr_json_special_mask(const uint8_t *p)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)p);
    /* Signed: bytes of 0x80 and more are below 0x20 as well. */
    const __m128i control = _mm_cmplt_epi8(v, _mm_set1_epi8(0x20));
    const __m128i quote = _mm_cmpeq_epi8(v, _mm_set1_epi8('"'));
    const __m128i backslash = _mm_cmpeq_epi8(v, _mm_set1_epi8('\\'));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash)));
}

/* Bit i: a[i] is b[i], of 16 bytes. */
static inline unsigned orr_json_equal_mask(const uint8_t *a, const uint8_t *b)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)a);
    const __m128i y = _mm_loadu_si128((const __m128i *)b);
    return (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(x, y));
}

static inline unsigned orr_json_not_space_mask(const uint8_t *p)
{
    const __m128i v = _mm_loadu_si128((const __m128i *)p);
    const __m128i blank =
        _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8(' ')), _mm_cmpeq_epi8(v, _mm_set1_epi8('\n')));
    const __m128i rare = _mm_or_si128(_mm_cmpeq_epi8(v, _mm_set1_epi8('\r')),
                                      _mm_cmpeq_epi8(v, _mm_set1_epi8('\t')));
    return (unsigned)_mm_movemask_epi8(_mm_or_si128(blank, rare)) ^ 0xffffU;
}

/* First byte of p[0..end) that is not plain; `end` or beyond when there is none. */
static inline const uint8_t *orr_json_plain_end(const uint8_t *p, const uint8_t *end)
{
    for (; p < end; p += ORR_JSON_VECTOR) {
        const unsigned special = orr_json_special_mask(p);
        if (special != 0)
            return p + __builtin_ctz(special);
    }
    return p;
}

static inline const uint8_t *orr_json_spaces_end(const uint8_t *p, const uint8_t *end)
{
    for (; p < end; p += ORR_JSON_VECTOR) {
        const unsigned other = orr_json_not_space_mask(p);
        if (other != 0)
            return p + __builtin_ctz(other);
    }
    return p;
}

#else

static inline const uint8_t *orr_json_plain_end(const uint8_t *p, const uint8_t *end)
{
    while (p < end && orr_json_is_plain(*p))
        p++;
    return p;
}

static inline const uint8_t *orr_json_spaces_end(const uint8_t *p, const uint8_t *end)
{
    while (p < end && orr_json_is_space(*p))
        p++;
    return p;
}

#endif

/* First byte that is not white space; `end` or beyond when there is none. Mostly there
 * is none or one. */
static inline const uint8_t *orr_json_skip_space(const uint8_t *p, const uint8_t *end)
{
    if (*p > ' ')
        return p;
    if (*p == ' ' && p[1] > ' ')
        return p + 1;
    return orr_json_spaces_end(p, end);
}

#endif /* ORR_IO_JSON_SCAN_H */
