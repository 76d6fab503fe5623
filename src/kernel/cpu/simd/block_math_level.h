/* SPDX-License-Identifier: Apache-2.0 */
/* Template of block_math.h for one CPU level, all but products: included once by each
 * block_math_<level>.c, after block_math_product.h. Parameters: LEVEL, AT and NUMBERS as there, and
 * optionally, where the level has an instruction for it,
 *
 *   LARGER(a, b)       the larger of both, b where one is NaN
 *   REST(x)            x minus the nearest integer; 0 for infinity
 *   TIMES_POWER(p, n)  p 2^n
 *
 * 2^x is 2^n 2^r with n the nearest integer and r in [-1/2, 1/2], 2^r by its Taylor series. */

typedef float AT(v16) __attribute__((vector_size(64)));
typedef int32_t AT(i16) __attribute__((vector_size(64)));
typedef int32_t AT(int_vec) __attribute__((vector_size(NUMBERS * 4)));
#define V    AT(vec)
#define I    AT(int_vec)
#define HERE static inline __attribute__((always_inline)) LEVEL

HERE void AT(put)(float *p, V v)
{
    __builtin_memcpy(p, &v, sizeof v);
}
HERE I AT(get_int)(const int32_t *p)
{
    I v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}
HERE V AT(choose)(I mask, V yes, V no)
{
    return (V)(((I)yes & mask) | ((I)no & ~mask));
}

/* 2^r for r in [-1/2, 1/2]: the Taylor series in r ln 2, whose next term is below 2e-8. */
HERE V AT(power_of_rest)(V r)
{
    V p = r * 1.54035304e-4f + 1.33335581e-3f;
    p = p * r + 9.61812911e-3f;
    p = p * r + 5.55041087e-2f;
    p = p * r + 2.40226507e-1f;
    p = p * r + 6.93147181e-1f;
    return p * r + 1.0f;
}

#ifdef LARGER
/* NaN stays NaN. */
HERE V AT(power_of_two)(V x)
{
    const V rest = REST(x);
    return TIMES_POWER(AT(power_of_rest)(rest), x - rest);
}
#else
#define LARGER(a, b) AT(choose)((a) > (b), a, b)
/* For x up to 127; 0 below -126.5. Adding 3 * 2^22 rounds to the nearest integer n; the exponent of
 * 2^-127 has the bits of 0. */
HERE V AT(power_of_two)(V x)
{
    const V magic = (V){0} + 12582912.0f;
    const V low = AT(choose)(x < -127.0f, (V){0} - 127.0f, x);
    const V shifted = low + magic, rest = low - (shifted - magic);
    const V power = (V)(((I)shifted + (127 - 0x4b400000)) << 23);
    return AT(power_of_rest)(rest) * power;
}
#endif

HERE void AT(transpose_edge)(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                             float *to, int64_t to_row)
{
    for (int64_t j = 0; j < columns; j++)
        for (int64_t i = 0; i < rows; i++)
            to[j * to_row + i] = from[i * from_row + j];
}

/* One of the four rounds of a 16 x 16 transposition: blocks of `by` numbers are exchanged between
 * rows i and i + by. */
#define SWAP_(r, i, by, low, high)                                                                 \
    do {                                                                                           \
        const AT(v16) a_ = r[i], b_ = r[(i) + (by)];                                               \
        r[i] = __builtin_shufflevector(a_, b_, low);                                               \
        r[(i) + (by)] = __builtin_shufflevector(a_, b_, high);                                     \
    } while (0)
#define LOW8_  0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23
#define HIGH8_ 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 26, 27, 28, 29, 30, 31
#define LOW4_  0, 1, 2, 3, 16, 17, 18, 19, 8, 9, 10, 11, 24, 25, 26, 27
#define HIGH4_ 4, 5, 6, 7, 20, 21, 22, 23, 12, 13, 14, 15, 28, 29, 30, 31
#define LOW2_  0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HIGH2_ 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#define LOW1_  0, 16, 2, 18, 4, 20, 6, 22, 8, 24, 10, 26, 12, 28, 14, 30
#define HIGH1_ 1, 17, 3, 19, 5, 21, 7, 23, 9, 25, 11, 27, 13, 29, 15, 31

HERE void AT(transpose_16)(const float *from, int64_t from_row, float *to, int64_t to_row)
{
    AT(v16) r[16];
    UNROLL
    for (int i = 0; i < 16; i++)
        __builtin_memcpy(&r[i], from + i * from_row, 64);
    UNROLL
    for (int i = 0; i < 8; i++)
        SWAP_(r, i, 8, LOW8_, HIGH8_);
    UNROLL
    for (int i = 0; i < 8; i++)
        SWAP_(r, i / 4 * 8 + i % 4, 4, LOW4_, HIGH4_);
    UNROLL
    for (int i = 0; i < 8; i++)
        SWAP_(r, i / 2 * 4 + i % 2, 2, LOW2_, HIGH2_);
    UNROLL
    for (int i = 0; i < 8; i++)
        SWAP_(r, i * 2, 1, LOW1_, HIGH1_);
    UNROLL
    for (int i = 0; i < 16; i++)
        __builtin_memcpy(to + i * to_row, &r[i], 64);
}

LEVEL static void AT(transpose)(const float *from, int64_t from_row, int64_t rows, int64_t columns,
                                float *to, int64_t to_row)
{
    for (int64_t i = 0; i < rows; i += 16)
        for (int64_t j = 0; j < columns; j += 16) {
            const float *at = from + i * from_row + j;
            float *there = to + j * to_row + i;
            const int64_t high = rows - i < 16 ? rows - i : 16,
                          wide = columns - j < 16 ? columns - j : 16;
            if (high == 16 && wide == 16)
                AT(transpose_16)(at, from_row, there, to_row);
            else
                AT(transpose_edge)(at, from_row, high, wide, there, to_row);
        }
}

LEVEL static void AT(mask_scores)(float *score, int64_t keys, int64_t lanes, const int32_t *least,
                                  const int32_t *end, float hidden)
{
    for (int64_t lane = 0; lane < lanes; lane += NUMBERS) {
        const I low = AT(get_int)(least + lane), high = AT(get_int)(end + lane);
        for (int64_t j = 0; j < keys; j++) {
            float *at = score + j * lanes + lane;
            const I key = (I){0} + (int32_t)j;
            AT(put)(at, AT(choose)((low <= key) & (key < high), AT(get)(at), (V){0} + hidden));
        }
    }
}

LEVEL static bool AT(online_softmax)(const orr_online_softmax_block *b)
{
    I moved = {0};
    for (int64_t lane = 0; lane < b->lanes; lane += NUMBERS) {
        const V before = AT(get)(b->max + lane);
        V max = before;
        for (int64_t j = 0; j < b->keys; j++) {
            const V s = AT(get)(b->score + j * b->lanes + lane);
            max = LARGER(s, max);
        }
        const V factor = AT(power_of_two)((before - max) * b->scale), minus = max * b->scale;
        V sum = {0};
        for (int64_t j = 0; j < b->keys; j++) {
            float *at = b->score + j * b->lanes + lane;
            const V e = AT(power_of_two)(AT(get)(at) * b->scale - minus);
            AT(put)(at, e);
            sum += e;
        }
        moved |= max != before;
        AT(put)(b->max + lane, max);
        AT(put)(b->factor + lane, factor);
        AT(put)(b->sum + lane, AT(get)(b->sum + lane) * factor + sum);
    }
    int32_t any = 0;
    for (int i = 0; i < NUMBERS; i++)
        any |= moved[i];
    return any != 0;
}

LEVEL static void AT(scale)(float *x, int64_t rows, int64_t lanes, const float *factor)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t lane = 0; lane < lanes; lane += NUMBERS)
            AT(put)(x + r * lanes + lane, AT(get)(x + r * lanes + lane) * AT(get)(factor + lane));
}

LEVEL static void AT(exp2_scaled)(float *score, int64_t keys, int64_t lanes, float scale,
                                  const float *minus)
{
    for (int64_t j = 0; j < keys; j++)
        for (int64_t lane = 0; lane < lanes; lane += NUMBERS) {
            float *at = score + j * lanes + lane;
            AT(put)(at, AT(power_of_two)(AT(get)(at) * scale - AT(get)(minus + lane)));
        }
}

LEVEL static void AT(slope)(float *slope, const float *weight, int64_t keys, int64_t lanes,
                            float scale, const float *minus)
{
    for (int64_t j = 0; j < keys; j++)
        for (int64_t lane = 0; lane < lanes; lane += NUMBERS) {
            float *at = slope + j * lanes + lane;
            const V weighed = AT(get)(weight + j * lanes + lane) * scale;
            AT(put)(at, weighed * (AT(get)(at) - AT(get)(minus + lane)));
        }
}

#undef V
#undef I
#undef HERE
