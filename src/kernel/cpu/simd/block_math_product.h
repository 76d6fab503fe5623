/* SPDX-License-Identifier: Apache-2.0 */
/* Template of block_math.h's product for one CPU level: included once for each kind of product,
 * with
 *
 *   LEVEL          function attributes of the level (__attribute__((target)))
 *   AT(name)       the name at that level
 *   NUMBERS        fp32 numbers of a vector
 *   TILES(X)       X(vectors, rows, fewer rows) of each register tile whose sums fit the registers,
 *                  widest first, the last one of 16 lanes or fewer
 *   STEP(c, a, b)  c += a b */

#ifndef UNROLL
#ifdef __clang__
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 24")
#endif
#endif

typedef float AT(vec) __attribute__((vector_size(NUMBERS * 4)));
#define V    AT(vec)
#define HERE static inline __attribute__((always_inline)) LEVEL
typedef int32_t AT(bits) __attribute__((vector_size(NUMBERS * 4)));

/* Broadcasts by way of integers: adding to a vector of zeros would cost an addition, and would
 * change the bits of bf16 pairs. */
HERE V AT(spread)(const float *p)
{
    int32_t bits;
    __builtin_memcpy(&bits, p, sizeof bits);
    return (V)((AT(bits)){0} + bits);
}
HERE V AT(get)(const float *p)
{
    V v;
    __builtin_memcpy(&v, p, sizeof v);
    return v;
}

/* `wide` and `high` are constants after inlining, so that the sums are registers. */
HERE void AT(tile)(const orr_block_product *p, int64_t row, int64_t lane, const int wide,
                   const int high)
{
    V sum[24];
    const float *a = p->a + row * p->a_row, *b = p->b + lane;
    float *c = p->c + row * p->c_row + lane;
    UNROLL
    for (int i = 0; i < high; i++) {
        UNROLL
        for (int j = 0; j < wide; j++)
            sum[i * wide + j] = p->add ? AT(get)(c + i * p->c_row + j * NUMBERS) : (V){0};
    }
    const int64_t a_row = p->a_row, a_step = p->a_step, b_row = p->b_row;
    for (int64_t k = p->depth; k > 0; k--, a += a_step, b += b_row) {
        V of_b[4];
        UNROLL
        for (int j = 0; j < wide; j++)
            of_b[j] = AT(get)(b + j * NUMBERS);
        UNROLL
        for (int i = 0; i < high; i++) {
            const V of_a = AT(spread)(a + i * a_row);
            UNROLL
            for (int j = 0; j < wide; j++)
                STEP(sum[i * wide + j], of_a, of_b[j]);
        }
    }
    UNROLL
    for (int i = 0; i < high; i++) {
        UNROLL
        for (int j = 0; j < wide; j++)
            __builtin_memcpy(c + i * p->c_row + j * NUMBERS, &sum[i * wide + j], sizeof(V));
    }
}

/* Covers the lanes that tiles of this width take, for each all rows: high tiles first, then lower
 * ones. */
#define STRIP_(wide, high, low)                                                                    \
    for (; p->lanes - lane >= (wide)*NUMBERS; lane += (wide)*NUMBERS) {                            \
        int64_t row = 0;                                                                           \
        for (; p->rows - row >= (high); row += (high))                                             \
            AT(tile)(p, row, lane, wide, high);                                                    \
        for (; p->rows - row >= (low); row += (low))                                               \
            AT(tile)(p, row, lane, wide, low);                                                     \
        for (; row < p->rows; row++)                                                               \
            AT(tile)(p, row, lane, wide, 1);                                                       \
    }

LEVEL static void AT(product)(const orr_block_product *p)
{
    int64_t lane = 0;
    TILES(STRIP_)
}

#undef STRIP_
#undef V
#undef HERE
