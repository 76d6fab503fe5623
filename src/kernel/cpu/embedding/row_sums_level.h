/* SPDX-License-Identifier: Apache-2.0 */
/* Template of the row sums of embedding bags for one CPU level: included by row_sums.c once for
 * each level, with
 *
 *   LEVEL     function attributes of the level (__attribute__((target)))
 *   AT(name)  the name at that level
 *   NUMBERS   fp32 numbers of a vector: 4, 8 or 16
 *
 * and optionally, where the level has instructions for them,
 *
 *   BYTES(v)       int8 to int32
 *   NIBBLES_AT(p)  NUMBERS / 2 bytes from p on, each in 16 bits
 *   ACROSS(v)      the sum of a vector */

typedef float AT(vec) __attribute__((vector_size(NUMBERS * 4)));
typedef int32_t AT(ints) __attribute__((vector_size(NUMBERS * 4)));
typedef int8_t AT(bytes) __attribute__((vector_size(NUMBERS)));
typedef uint8_t AT(halves) __attribute__((vector_size(NUMBERS / 2)));
typedef uint16_t AT(words) __attribute__((vector_size(NUMBERS)));
typedef uint16_t AT(shorts) __attribute__((vector_size(NUMBERS * 2)));
#define V    AT(vec)
#define HERE static inline __attribute__((always_inline)) LEVEL

#ifndef ACROSS
#define ACROSS(v) AT(across)(v)
HERE float AT(across)(V v)
{
    float all[NUMBERS];
    __builtin_memcpy(all, &v, sizeof v);
    for (int n = NUMBERS / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            all[i] += all[i + n];
    return all[0];
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

/* Prefetch distance in rows: rows are in no cache yet. */
enum { AT(ahead) = 16 };

HERE float AT(number)(const char *at)
{
    float value;
    __builtin_memcpy(&value, at, sizeof value);
    return value;
}

/* Adds columns [column, column + NUMBERS) of a row; `format` is a compile-time constant. */
HERE V AT(add)(V sum, const char *row, int64_t column, const int format)
{
    if (format == ORR_ROW_FORMAT_FP32) {
        V v;
        __builtin_memcpy(&v, row + column * 4, sizeof v);
        return sum + v;
    }
    if (format == ORR_ROW_FORMAT_BF16) {
        AT(shorts) v;
        __builtin_memcpy(&v, row + column * 2, sizeof v);
        return sum + (V)(__builtin_convertvector(v, AT(ints)) << 16);
    }
    AT(bytes) v;
    if (format == ORR_ROW_FORMAT_INT8) {
        __builtin_memcpy(&v, row + 4 + column, sizeof v);
    } else { /* a byte in 16 bits: its low nibble is in place, the high one four bits too low */
        const AT(words) wide = NIBBLES_AT(row + 8 + column / 2);
        v = (AT(bytes))((wide | wide << 4) & 0x0f0f);
    }
    return sum + __builtin_convertvector(BYTES(v), V) * AT(number)(row);
}

HERE void AT(fetch)(const char *row, int64_t bytes)
{
    for (int64_t at = 0; at < bytes; at += 64)
        __builtin_prefetch(row + at);
    __builtin_prefetch(row + bytes - 1);
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

HERE void AT(sum_one)(const char *const *row, int64_t n, int64_t more, int64_t column,
                      int64_t bytes, float *sum, const int format)
{
    V s = AT(get)(sum + column);
    float least = 0;
    for (int64_t i = 0; i < n; i++) {
        if (column == 0 && i + AT(ahead) < n + more)
            AT(fetch)(row[i + AT(ahead)], bytes);
        if (format == ORR_ROW_FORMAT_INT4)
            least += AT(number)(row[i] + 4);
        s = AT(add)(s, row[i], column, format);
    }
    AT(put)(sum + column, s + least);
}

/* Four vectors of columns at a time, whose additions are independent. */
HERE void AT(sum_four)(const char *const *row, int64_t n, int64_t more, int64_t column,
                       int64_t bytes, float *sum, const int format)
{
    enum { A = NUMBERS, B = 2 * NUMBERS, C = 3 * NUMBERS };
    V s0 = AT(get)(sum + column), s1 = AT(get)(sum + column + A), s2 = AT(get)(sum + column + B),
      s3 = AT(get)(sum + column + C);
    float least = 0;
    for (int64_t i = 0; i < n; i++) {
        if (column == 0 && i + AT(ahead) < n + more)
            AT(fetch)(row[i + AT(ahead)], bytes);
        if (format == ORR_ROW_FORMAT_INT4)
            least += AT(number)(row[i] + 4);
        s0 = AT(add)(s0, row[i], column, format);
        s1 = AT(add)(s1, row[i], column + A, format);
        s2 = AT(add)(s2, row[i], column + B, format);
        s3 = AT(add)(s3, row[i], column + C, format);
    }
    AT(put)(sum + column, s0 + least);
    AT(put)(sum + column + A, s1 + least);
    AT(put)(sum + column + B, s2 + least);
    AT(put)(sum + column + C, s3 + least);
}

HERE float AT(one)(const char *row, int64_t column, const int format)
{
    if (format == ORR_ROW_FORMAT_FP32)
        return AT(number)(row + column * 4);
    if (format == ORR_ROW_FORMAT_BF16) {
        uint16_t bits;
        __builtin_memcpy(&bits, row + column * 2, sizeof bits);
        return orr_bf16_to_fp32(bits);
    }
    if (format == ORR_ROW_FORMAT_INT8)
        return (float)(int8_t)row[4 + column] * AT(number)(row);
    const int nibble = (uint8_t)row[8 + column / 2] >> (column % 2 * 4) & 15;
    return (float)nibble * AT(number)(row) + AT(number)(row + 4);
}

/* All columns: four vectors at a time, then one, then single numbers. */
HERE void AT(sum_rows)(const char *const *row, int64_t n, int64_t more, int64_t columns, float *sum,
                       const int format)
{
    const int64_t bytes = orr_row_format_bytes((orr_row_format)format, columns);
    int64_t column = 0;
    for (; columns - column >= 4 * NUMBERS; column += 4 * NUMBERS)
        AT(sum_four)(row, n, more, column, bytes, sum, format);
    for (; columns - column >= NUMBERS; column += NUMBERS)
        AT(sum_one)(row, n, more, column, bytes, sum, format);
    for (int64_t i = 0; column < columns && i < n; i++)
        for (int64_t j = column; j < columns; j++)
            sum[j] += AT(one)(row[i], j, format);
}

#define SUM_(name)                                                                                 \
    LEVEL static void AT(sum_##name)(const char *const *row, int64_t n, int64_t more,              \
                                     int64_t columns, float *sum)                                  \
    {                                                                                              \
        AT(sum_rows)(row, n, more, columns, sum, ORR_ROW_FORMAT_##name);                           \
    }
SUM_(FP32)
SUM_(BF16)
SUM_(INT8)
SUM_(INT4)
#undef SUM_

LEVEL static void AT(adagrad)(const orr_adagrad_step *by, const float *g, int64_t n, float *state,
                              float *row)
{
    V squares = {0};
    float rest = 0;
    int64_t j = 0;
    for (; n - j >= NUMBERS; j += NUMBERS)
        squares += AT(get)(g + j) * AT(get)(g + j);
    for (; j < n; j++)
        rest += g[j] * g[j];
    *state += (ACROSS(squares) + rest) * by->mean;
    const float factor = -by->rate / (__builtin_sqrtf(*state) + by->epsilon);
    for (j = 0; n - j >= NUMBERS; j += NUMBERS)
        AT(put)(row + j, AT(get)(row + j) + AT(get)(g + j) * factor);
    for (; j < n; j++)
        row[j] += g[j] * factor;
}

const orr_row_sum_kernels AT(orr_row_sum_kernels) = {
    .of[ORR_ROW_FORMAT_FP32] = AT(sum_FP32),
    .of[ORR_ROW_FORMAT_BF16] = AT(sum_BF16),
    .of[ORR_ROW_FORMAT_INT8] = AT(sum_INT8),
    .of[ORR_ROW_FORMAT_INT4] = AT(sum_INT4),
    .adagrad = AT(adagrad),
};

#undef V
#undef HERE
#undef LEVEL
#undef AT
#undef NUMBERS
#undef BYTES
#undef NIBBLES_AT
#undef ACROSS
