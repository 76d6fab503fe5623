/* SPDX-License-Identifier: Apache-2.0 */
/* Template of sums of embedding rows at arbitrary addresses, after row_vectors_level.h: columns are
 * summed four vectors at a time, whose additions are independent, then one, then single numbers. */

HERE void AT(sum_one)(const char *const *row, int64_t n, int64_t more, int64_t column,
                      int64_t bytes, float *sum, const int format)
{
    V s = AT(get)(sum + column);
    for (int64_t i = 0; i < n; i++) {
        if (column == 0 && i + AT(ahead) < n + more)
            AT(fetch)(row[i + AT(ahead)], bytes);
        s += AT(of_row)(row[i], column, format);
    }
    AT(put)(sum + column, s);
}

HERE void AT(sum_four)(const char *const *row, int64_t n, int64_t more, int64_t column,
                       int64_t bytes, float *sum, const int format)
{
    enum { A = NUMBERS, B = 2 * NUMBERS, C = 3 * NUMBERS };
    V s0 = AT(get)(sum + column), s1 = AT(get)(sum + column + A), s2 = AT(get)(sum + column + B),
      s3 = AT(get)(sum + column + C);
    for (int64_t i = 0; i < n; i++) {
        if (column == 0 && i + AT(ahead) < n + more)
            AT(fetch)(row[i + AT(ahead)], bytes);
        s0 += AT(of_row)(row[i], column, format);
        s1 += AT(of_row)(row[i], column + A, format);
        s2 += AT(of_row)(row[i], column + B, format);
        s3 += AT(of_row)(row[i], column + C, format);
    }
    AT(put)(sum + column, s0);
    AT(put)(sum + column + A, s1);
    AT(put)(sum + column + B, s2);
    AT(put)(sum + column + C, s3);
}

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
            sum[j] += AT(one_of_row)(row[i], j, format);
}

/* The tree of a bag. Two neighbours of its ranges, a < b, have their lowest common ancestor at the
 * height of the highest bit in which they differ: 0 in the same range, 8 at the root. Sums that
 * wait for their right neighbours stand at the height of that ancestor: a bit of `waiting` each, so
 * that the processor finds early how many a row joins. */
enum { AT(root) = 9 };
HERE uint32_t AT(height)(const orr_ranged_row *row, int64_t i, int64_t n)
{
    if (i + 1 == n)
        return AT(root);
    return 31 - (uint32_t)__builtin_clz(2 * (uint32_t)(row[i].range ^ row[i + 1].range) | 1);
}
/* Those that wait below `up`; in the same range, for the row before. */
HERE uint32_t AT(joined)(uint32_t waiting, uint32_t up)
{
    return waiting & ((1u << up) - 1 + (up == 0));
}

/* `vectors` of columns, a compile-time constant of up to 4. */
HERE void AT(tree_vectors)(const orr_ranged_row *row, int64_t n, int64_t more, int64_t column,
                           int64_t bytes, float *ret, const int format, const int vectors)
{
    V left[AT(root) + 1][4];
    uint32_t waiting = 0;
    for (int64_t i = 0; i < n; i++) {
        V s[4];
        if (column == 0 && i + AT(ahead) < n + more)
            AT(fetch)(row[i + AT(ahead)].at, bytes);
        for (int k = 0; k < vectors; k++)
            s[k] = AT(of_row)(row[i].at, column + k * NUMBERS, format);
        const uint32_t up = AT(height)(row, i, n);
        for (uint32_t low = AT(joined)(waiting, up); low != 0; low &= low - 1)
            for (int k = 0; k < vectors; k++)
                s[k] = left[__builtin_ctz(low)][k] + s[k];
        for (int k = 0; k < vectors; k++)
            left[up][k] = s[k];
        waiting = waiting >> up << up | 1u << up;
    }
    for (int k = 0; k < vectors; k++)
        AT(put)(ret + column + k * NUMBERS, left[AT(root)][k] + 0.0f);
}

/* The same of `some` columns, fewer than a vector. */
HERE void AT(tree_some)(const orr_ranged_row *row, int64_t n, int64_t column, int64_t some,
                        float *ret, const int format)
{
    float left[AT(root) + 1][NUMBERS];
    uint32_t waiting = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t up = AT(height)(row, i, n), low = AT(joined)(waiting, up);
        for (int64_t j = 0; j < some; j++) {
            float s = AT(one_of_row)(row[i].at, column + j, format);
            for (uint32_t rest = low; rest != 0; rest &= rest - 1)
                s = left[__builtin_ctz(rest)][j] + s;
            left[up][j] = s;
        }
        waiting = waiting >> up << up | 1u << up;
    }
    for (int64_t j = 0; j < some; j++)
        ret[column + j] = left[AT(root)][j] + 0.0f;
}

HERE void AT(tree_rows)(const orr_ranged_row *row, int64_t n, int64_t more, int64_t columns,
                        float *ret, const int format)
{
    const int64_t bytes = orr_row_format_bytes((orr_row_format)format, columns);
    int64_t column = 0;
    for (; columns - column >= 4 * NUMBERS; column += 4 * NUMBERS)
        AT(tree_vectors)(row, n, more, column, bytes, ret, format, 4);
    for (; columns - column >= NUMBERS; column += NUMBERS)
        AT(tree_vectors)(row, n, more, column, bytes, ret, format, 1);
    if (column < columns)
        AT(tree_some)(row, n, column, columns - column, ret, format);
}

#define SUM_(name)                                                                                 \
    LEVEL static void AT(sum_##name)(const char *const *row, int64_t n, int64_t more,              \
                                     int64_t columns, float *sum)                                  \
    {                                                                                              \
        AT(sum_rows)(row, n, more, columns, sum, ORR_ROW_FORMAT_##name);                           \
    }                                                                                              \
    LEVEL static void AT(tree_##name)(const orr_ranged_row *row, int64_t n, int64_t more,          \
                                      int64_t columns, float *ret)                                 \
    {                                                                                              \
        AT(tree_rows)(row, n, more, columns, ret, ORR_ROW_FORMAT_##name);                          \
    }
SUM_(FP32)
SUM_(FP16)
SUM_(BF16)
SUM_(INT8)
SUM_(INT4)
#undef SUM_
