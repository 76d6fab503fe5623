/* SPDX-License-Identifier: Apache-2.0 */
/* Template of vectors of embedding rows for one CPU level: row_kernels.c includes this file,
 * row_sums_level.h and row_steps_level.h once for each level, with
 *
 *   LEVEL     function attributes of the level (__attribute__((target)))
 *   AT(name)  the name at that level
 *   NUMBERS   fp32 numbers of a vector: 4, 8 or 16
 *   ROOT(v)   square roots of a vector
 *
 * and optionally, where the level has instructions for them,
 *
 *   HALVES_AT(p)   NUMBERS fp16 numbers from p on, in fp32
 *   BYTES(v)       int8 to int32
 *   NIBBLES_AT(p)  NUMBERS / 2 bytes from p on, each in 16 bits */

typedef float AT(vec) __attribute__((vector_size(NUMBERS * 4)));
typedef int32_t AT(ints) __attribute__((vector_size(NUMBERS * 4)));
typedef uint32_t AT(uints) __attribute__((vector_size(NUMBERS * 4)));
typedef int8_t AT(bytes) __attribute__((vector_size(NUMBERS)));
typedef uint8_t AT(halves) __attribute__((vector_size(NUMBERS / 2)));
typedef uint16_t AT(words) __attribute__((vector_size(NUMBERS)));
typedef uint16_t AT(shorts) __attribute__((vector_size(NUMBERS * 2)));
#define V    AT(vec)
#define HERE static inline __attribute__((always_inline)) LEVEL

#ifndef HALVES_AT
#define HALVES_AT(p) AT(widen_halves)(p)
HERE V AT(widen_halves)(const char *at)
{
    uint16_t bits[NUMBERS];
    V v;
    __builtin_memcpy(bits, at, sizeof bits);
    for (int i = 0; i < NUMBERS; i++)
        v[i] = orr_fp16_to_fp32(bits[i]);
    return v;
}
#endif
#ifndef BYTES
#define BYTES(v)      __builtin_convertvector(v, AT(ints))
#define NIBBLES_AT(p) AT(widen)(p)
HERE AT(words) AT(widen)(const char *at)
{
    AT(halves) packed;
    __builtin_memcpy(&packed, at, sizeof packed);
    return __builtin_convertvector(packed, AT(words));
}
#endif

HERE float AT(number)(const char *at)
{
    float value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

HERE V AT(get)(const float *at)
{
    V v;
    __builtin_memcpy(&v, at, sizeof v);
    return v;
}
HERE void AT(put)(float *at, V v)
{
    __builtin_memcpy(at, &v, sizeof v);
}

/* Columns [column, column + NUMBERS) of a row; `format` is a compile-time constant. */
HERE V AT(of_row)(const char *row, int64_t column, const int format)
{
    if (format == ORR_ROW_FORMAT_FP32) {
        V v;
        __builtin_memcpy(&v, row + column * 4, sizeof v);
        return v;
    }
    if (format == ORR_ROW_FORMAT_FP16)
        return HALVES_AT(row + column * 2);
    if (format == ORR_ROW_FORMAT_BF16) {
        AT(shorts) v;
        __builtin_memcpy(&v, row + column * 2, sizeof v);
        return (V)(__builtin_convertvector(v, AT(ints)) << 16);
    }
    AT(bytes) v;
    if (format == ORR_ROW_FORMAT_INT8) {
        __builtin_memcpy(&v, row + 4 + column, sizeof v);
        return __builtin_convertvector(BYTES(v), V) * AT(number)(row);
    }
    /* A byte in 16 bits: its low nibble is in place, the high one four bits too low. */
    const AT(words) wide = NIBBLES_AT(row + 8 + column / 2);
    v = (AT(bytes))((wide | wide << 4) & 0x0f0f);
    return __builtin_convertvector(BYTES(v), V) * AT(number)(row) + AT(number)(row + 4);
}

HERE float AT(one_of_row)(const char *row, int64_t column, const int format)
{
    uint16_t bits;
    if (format == ORR_ROW_FORMAT_FP32)
        return AT(number)(row + column * 4);
    if (format == ORR_ROW_FORMAT_FP16 || format == ORR_ROW_FORMAT_BF16) {
        __builtin_memcpy(&bits, row + column * 2, sizeof bits);
        return format == ORR_ROW_FORMAT_FP16 ? orr_fp16_to_fp32(bits) : orr_bf16_to_fp32(bits);
    }
    if (format == ORR_ROW_FORMAT_INT8)
        return (float)(int8_t)row[4 + column] * AT(number)(row);
    const int nibble = (uint8_t)row[8 + column / 2] >> (column % 2 * 4) & 15;
    return (float)nibble * AT(number)(row) + AT(number)(row + 4);
}

/* Prefetch distance in rows: rows are in no cache yet. */
enum { AT(ahead) = 40 };

HERE void AT(fetch)(const char *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
}
HERE void AT(fetch_to_write)(const char *at, int64_t bytes)
{
    for (int64_t i = 0; i < bytes; i += 64)
        __builtin_prefetch(at + i, 1);
    __builtin_prefetch(at + bytes - 1, 1);
}
