/* SPDX-License-Identifier: Apache-2.0 */
/* Template of the optimizer steps of a row, after row_vectors_level.h. Columns are a multiple of
 * ORR_EMBEDDING_BLOCK. */

/* The sum of a block's squares by halves: 16 lanes, 8, 4, 2, 1. */
HERE float AT(block_squares)(const float *g)
{
    float all[ORR_EMBEDDING_BLOCK];
    for (int i = 0; i < ORR_EMBEDDING_BLOCK; i += NUMBERS)
        AT(put)(all + i, AT(get)(g + i) * AT(get)(g + i));
    for (int half = ORR_EMBEDDING_BLOCK / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            all[i] += all[i + half];
    return all[0];
}

LEVEL static void AT(squares)(const float *g, int64_t n, float *ret)
{
    for (int64_t j = 0; j < n; j += ORR_EMBEDDING_BLOCK)
        *ret++ = AT(block_squares)(g + j);
}

LEVEL static void AT(add_scaled)(const orr_row_step *by, const float *g, int64_t n, float *row)
{
    for (int64_t j = 0; j < n; j += NUMBERS)
        AT(put)(row + j, AT(get)(row + j) + AT(get)(g + j) * by->factor);
}

LEVEL static void AT(adagrad)(const orr_row_step *by, const float *g, int64_t n, float *row,
                              float *state)
{
    for (int64_t j = 0; j < n; j += NUMBERS) {
        const V x = AT(get)(g + j), sum = AT(get)(state + j) + x * x;
        AT(put)(state + j, sum);
        AT(put)(row + j, AT(get)(row + j) - x * by->rate / (ROOT(sum) + by->epsilon));
    }
}

LEVEL static void AT(adam)(const orr_row_step *by, const float *g, int64_t n, float *row,
                           float *moment)
{
    for (int64_t j = 0; j < n; j += NUMBERS) {
        const V m = AT(get)(moment + j) * by->beta1 + AT(get)(g + j) * (1 - by->beta1);
        AT(put)(moment + j, m);
        AT(put)(row + j, AT(get)(row + j) + m * by->factor);
    }
}

/* A hash of the key and the column number: the mixing steps of lowbias32 (C. Wellons, "Prospecting
 * for hash functions", 2018), the key's upper half added between its multiplications. */
HERE AT(uints) AT(noise)(uint64_t key, uint32_t column)
{
    AT(uints) h;
    for (uint32_t i = 0; i < NUMBERS; i++)
        h[i] = i;
    h = (h + column) * 0x9e3779b9u + (uint32_t)key;
    h = (h ^ h >> 16) * 0x7feb352du + (uint32_t)(key >> 32);
    h = (h ^ h >> 15) * 0x846ca68bu;
    return h ^ h >> 16;
}

HERE AT(uints) AT(either)(AT(ints) which, AT(uints) yes, AT(uints) no)
{
    return (yes & (AT(uints))which) | (no & ~(AT(uints))which);
}

/* The magnitude's upper 16 bits after noise below them. */
HERE AT(uints) AT(bf16_of)(AT(uints) bits, AT(uints) noise)
{
    const AT(uints) size = bits & 0x7fffffffu, up = size + (noise >> 16);
    const AT(uints) finite = AT(either)(up > 0x7f7fffffu, (AT(uints)){0} + 0x7f7fu, up >> 16);
    const AT(uints) wrong = size >> 16 | (AT(uints))((size > 0x7f800000u) & 0x40);
    return AT(either)(size > 0x7f7fffffu, wrong, finite) | (bits >> 16 & 0x8000u);
}

/* 13 bits of noise below the last of a normal number, or below 2^-24 of a subnormal one. */
HERE AT(uints) AT(fp16_of)(AT(uints) bits, AT(uints) noise)
{
    const AT(uints) size = bits & 0x7fffffffu, low = noise >> 19, none = {0};
    const AT(ints) normal = size >= 0x38800000u;
    const V small = (V)AT(either)(normal, none, size) * 0x1p37f;
    const AT(uints) steps = (AT(uints)) __builtin_convertvector(small, AT(ints));
    const AT(uints) half =
        AT(either)(normal, (size - 0x38000000u + low) >> 13, (steps + low) >> 13);
    const AT(uints) finite =
        AT(either)((half > 0x7bffu) | (size > 0x477fe000u), none + 0x7bffu, half);
    const AT(uints) wrong = none + 0x7c00u + (AT(uints))((size > 0x7f800000u) & 0x200);
    return AT(either)(size > 0x7f7fffffu, wrong, finite) | (bits >> 16 & 0x8000u);
}

#define ROUND_(name)                                                                               \
    LEVEL static void AT(round_##name)(const float *row, uint64_t key, uint32_t column, int64_t n, \
                                       uint16_t *ret)                                              \
    {                                                                                              \
        for (int64_t j = 0; j < n; j += NUMBERS) {                                                 \
            const AT(uints) bits =                                                                 \
                AT(name##_of)((AT(uints))AT(get)(row + j), AT(noise)(key, column + (uint32_t)j));  \
            const AT(shorts) narrow = __builtin_convertvector(bits, AT(shorts));                   \
            __builtin_memcpy(ret + j, &narrow, sizeof narrow);                                     \
        }                                                                                          \
    }
ROUND_(fp16)
ROUND_(bf16)
#undef ROUND_

static const orr_row_kernels AT(row_kernels) = {
#define SUM_(name)                                                                                 \
    .sum[ORR_ROW_FORMAT_##name] = AT(sum_##name), .tree[ORR_ROW_FORMAT_##name] = AT(tree_##name),
    SUM_(FP32) SUM_(FP16) SUM_(BF16) SUM_(INT8) SUM_(INT4)
#undef SUM_
        .squares = AT(squares),
    .add_scaled = AT(add_scaled),
    .adagrad = AT(adagrad),
    .adam = AT(adam),
    .round_fp16 = AT(round_fp16),
    .round_bf16 = AT(round_bf16),
};

#undef V
#undef HERE
#undef LEVEL
#undef AT
#undef NUMBERS
#undef ROOT
#undef HALVES_AT
#undef BYTES
#undef NIBBLES_AT
