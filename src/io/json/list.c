/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/list.h"

#include <stdbool.h>
#include <stddef.h>

#include "base/cpu_level.h"

#if ORR_X86
#include <immintrin.h>

enum { BLOCK_BYTES = 64 };

/* Bit i of each: byte i of a block is one. */
typedef struct kinds {
    uint64_t quote, open, close, comma, digit, zero, minus, point, space;
    uint64_t odd; /* not for itself in a string: backslash, control, not ASCII */
} kinds;

/* What a block leaves to the next. */
typedef struct carry {
    uint64_t in_string; /* all ones: it ended within a string */
    /* Of its last byte, or of the last that is no space where a run of spaces ends the block. */
    uint64_t open, comma, value;
    uint64_t number, minus, point, lone_zero; /* of its last byte */
    uint64_t fraction;                        /* it ended within digits behind a point */
    size_t depth;
} carry;

/* The first bytes that are no space behind each of `at`; *pending: one is still to come. */
static inline uint64_t behind(uint64_t at, uint64_t also, uint64_t space, uint64_t *pending)
{
    const uint64_t next = at << 1 | *pending | also;
    uint64_t sum;
    /* A carry runs through each run of spaces that begins behind one. */
    const bool over = __builtin_add_overflow(space, next & space, &sum);
    *pending = at >> 63 | over;
    return (next | sum) & ~space;
}

/* Each bit is the parity of those up to it: set from a quote to before the next. */
static inline uint64_t parity(uint64_t bits)
{
    for (unsigned shift = 1; shift < 64; shift *= 2)
        bits ^= bits << shift;
    return bits;
}

/* Bytes that break the grammar of numbers. *ret_starts, *ret_behind: where numbers begin, and the
 * bytes behind them. */
static inline uint64_t bad_numbers(const kinds *k, uint64_t outside, carry *c, uint64_t *ret_starts,
                                   uint64_t *ret_behind)
{
    const uint64_t digit = k->digit & outside, minus = k->minus & outside;
    const uint64_t point = k->point & outside, number = digit | minus | point;
    const uint64_t before = number << 1 | c->number;
    const uint64_t starts = number & ~before;
    const uint64_t behind_minus = minus << 1 | c->minus, behind_point = point << 1 | c->point;
    /* A zero in front of all other digits is the only one. */
    const uint64_t lone_zero = k->zero & (starts | behind_minus) & outside;
    /* Digits behind a point end at what is no second point. */
    const uint64_t fraction = behind_point | c->fraction;
    uint64_t sum;
    const bool over = __builtin_add_overflow(digit, fraction & digit, &sum);
    const uint64_t bad = (minus & ~starts) | (behind_minus & ~digit) | (behind_point & ~digit) |
                         (point & starts) | ((lone_zero << 1 | c->lone_zero) & digit) |
                         ((fraction | sum) & ~digit & point);
    *ret_starts = starts;
    *ret_behind = before & ~number;
    c->number = number >> 63;
    c->minus = minus >> 63;
    c->point = point >> 63;
    c->lone_zero = lone_zero >> 63;
    c->fraction = over;
    return bad;
}

/* Bytes that break the grammar, if the array goes on as far. */
static inline uint64_t bad_bytes(const kinds *k, uint64_t in_string, carry *c)
{
    const uint64_t outside = ~(in_string | k->quote), space = k->space & outside;
    const uint64_t open = k->open & outside, close = k->close & outside;
    const uint64_t comma = k->comma & outside, ends = k->quote & ~in_string;
    uint64_t numbers, behind_numbers;
    uint64_t bad = bad_numbers(k, outside, c, &numbers, &behind_numbers);
    const uint64_t values = open | (k->quote & in_string) | numbers;
    bad |= behind(open, 0, space, &c->open) & ~(values | close);
    bad |= behind(comma, 0, space, &c->comma) & ~values;
    bad |= behind(close | ends, behind_numbers, space, &c->value) & ~(comma | close);
    bad |= outside & ~(space | open | close | comma | k->digit | k->minus | k->point);
    return bad | (k->odd & in_string);
}

/* The closing bracket of the array; 0: not in this block. */
static inline uint64_t last_bracket(uint64_t open, uint64_t close, size_t *depth)
{
    size_t closed = 0;
    for (; close != 0; close &= close - 1) {
        const uint64_t bit = close & -close;
        closed++;
        if (*depth + (size_t)__builtin_popcountll(open & (bit - 1)) == closed)
            return bit;
    }
    *depth += (size_t)__builtin_popcountll(open) - closed;
    return 0;
}

/* The scan, with a level's way to tell kinds of bytes. */
#define DEFINE_SCAN(name, target, kinds_of)                                                        \
    target static const uint8_t *name(const uint8_t *p, const uint8_t *end, uint32_t most_depth)   \
    {                                                                                              \
        carry c = {0};                                                                             \
        for (; p < end; p += BLOCK_BYTES) {                                                        \
            const kinds k = kinds_of(p);                                                           \
            const uint64_t in_string = parity(k.quote) ^ c.in_string;                              \
            const uint64_t open = k.open & ~in_string, close = k.close & ~in_string;               \
            if (c.depth + (size_t)__builtin_popcountll(open) > most_depth)                         \
                return NULL;                                                                       \
            const uint64_t bad = bad_bytes(&k, in_string, &c);                                     \
            const uint64_t last = last_bracket(open, close, &c.depth);                             \
            if (last != 0) {                                                                       \
                p += __builtin_ctzll(last) + 1;                                                    \
                return (bad & (last | (last - 1))) == 0 && p <= end ? p : NULL;                    \
            }                                                                                      \
            if (bad != 0)                                                                          \
                return NULL;                                                                       \
            c.in_string = (uint64_t)((int64_t)in_string >> 63);                                    \
        }                                                                                          \
        return NULL;                                                                               \
    }

#define ORR_LIST_AVX2   __attribute__((target("avx2,popcnt")))
#define ORR_LIST_AVX512 __attribute__((target("avx512f,avx512bw,popcnt")))

ORR_LIST_AVX2 static inline uint64_t equal_avx2(__m256i low, __m256i high, char c)
{
    const __m256i wanted = _mm256_set1_epi8(c);
    const uint32_t l = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(low, wanted));
    const uint32_t h = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(high, wanted));
    return (uint64_t)h << 32 | l;
}

/* Signed, so that bytes of 0x80 and more are below all others. */
ORR_LIST_AVX2 static inline uint64_t below_avx2(__m256i low, __m256i high, char c)
{
    const __m256i wanted = _mm256_set1_epi8(c);
    const uint32_t l = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(wanted, low));
    const uint32_t h = (uint32_t)_mm256_movemask_epi8(_mm256_cmpgt_epi8(wanted, high));
    return (uint64_t)h << 32 | l;
}

ORR_LIST_AVX2 static inline kinds kinds_avx2(const uint8_t *p)
{
    const __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)p);
    const __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(p + 32));
    return (kinds){
        .quote = equal_avx2(a, b, '"'),
        .open = equal_avx2(a, b, '['),
        .close = equal_avx2(a, b, ']'),
        .comma = equal_avx2(a, b, ','),
        .digit = below_avx2(a, b, '9' + 1) & ~below_avx2(a, b, '0'),
        .zero = equal_avx2(a, b, '0'),
        .minus = equal_avx2(a, b, '-'),
        .point = equal_avx2(a, b, '.'),
        .space = equal_avx2(a, b, ' ') | equal_avx2(a, b, '\n') | equal_avx2(a, b, '\r') |
                 equal_avx2(a, b, '\t'),
        .odd = below_avx2(a, b, ' ') | equal_avx2(a, b, '\\'),
    };
}

ORR_LIST_AVX512 static inline uint64_t equal_avx512(__m512i v, char c)
{
    return _mm512_cmpeq_epi8_mask(v, _mm512_set1_epi8(c));
}

ORR_LIST_AVX512 static inline uint64_t below_avx512(__m512i v, char c)
{
    return _mm512_cmplt_epi8_mask(v, _mm512_set1_epi8(c));
}

ORR_LIST_AVX512 static inline kinds kinds_avx512(const uint8_t *p)
{
    const __m512i v = _mm512_loadu_si512((const void *)p);
    return (kinds){
        .quote = equal_avx512(v, '"'),
        .open = equal_avx512(v, '['),
        .close = equal_avx512(v, ']'),
        .comma = equal_avx512(v, ','),
        .digit = below_avx512(v, '9' + 1) & ~below_avx512(v, '0'),
        .zero = equal_avx512(v, '0'),
        .minus = equal_avx512(v, '-'),
        .point = equal_avx512(v, '.'),
        .space = equal_avx512(v, ' ') | equal_avx512(v, '\n') | equal_avx512(v, '\r') |
                 equal_avx512(v, '\t'),
        .odd = below_avx512(v, ' ') | equal_avx512(v, '\\'),
    };
}

DEFINE_SCAN(scan_avx2, ORR_LIST_AVX2, kinds_avx2)
DEFINE_SCAN(scan_avx512, ORR_LIST_AVX512, kinds_avx512)

orr_json_list_scan *orr_json_list_scan_of_cpu(void)
{
    if (orr_cpu_level() < ORR_CPU_AVX2 || !__builtin_cpu_supports("popcnt"))
        return NULL;
    return orr_cpu_level() >= ORR_CPU_AVX512 ? scan_avx512 : scan_avx2;
}

#else

orr_json_list_scan *orr_json_list_scan_of_cpu(void)
{
    return NULL;
}

#endif
