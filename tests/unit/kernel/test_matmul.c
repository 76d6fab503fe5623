/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "products.h"

/* Products against plain loops in double, at every level of this processor. */

typedef struct shape {
    uint32_t leading; /* dims */
    int64_t lead[2], m, n, k;
    bool ta, tb, w_has_leading, gaps, x_turned, w_turned, y_turned, accumulate;
    orr_dtype x, w, y;
    int format; /* of rows; -1: a tensor */
} shape;

static void dims_of(const shape *s, int64_t rows, int64_t columns, bool leading, int64_t *ret,
                    uint32_t *ret_rank)
{
    uint32_t rank = 0;
    for (uint32_t d = 0; d < s->leading && leading; d++)
        ret[rank++] = s->lead[d];
    ret[rank++] = rows;
    ret[rank++] = columns;
    *ret_rank = rank;
}

static tensor operand_of(const shape *s, orr_dtype dtype, int64_t rows, int64_t columns,
                         bool leading, bool turned, orr_random *r)
{
    int64_t dims[4];
    uint32_t rank;
    dims_of(s, rows, columns, leading, dims, &rank);
    return tensor_of(dtype, rank, dims, s->gaps, turned, r);
}

/* A product in double: the weight of one of the batch, the sums of its columns' magnitudes, and a
 * row of the result with the magnitudes of its terms. */
typedef struct reference {
    double *weight;                    /* (k, n) */
    double *weights, *sum, *magnitude; /* (n) */
} reference;

static void take_weight(reference *ref, const shape *s, const double *w)
{
    memset(ref->weights, 0, (size_t)s->n * sizeof *ref->weights);
    for (int64_t k = 0; k < s->k; k++)
        for (int64_t j = 0; j < s->n; j++) {
            const double weight = w[s->tb ? j * s->k + k : k * s->n + j];
            ref->weight[k * s->n + j] = weight;
            ref->weights[j] += fabs(weight);
        }
}

/* A row of the product: terms are added in the order of k. */
static void multiply_row(reference *ref, const shape *s, const double *a, int64_t i,
                         const double *old)
{
    for (int64_t j = 0; j < s->n; j++) {
        ref->sum[j] = s->accumulate ? old[j] : 0;
        ref->magnitude[j] = fabs(ref->sum[j]);
    }
    for (int64_t k = 0; k < s->k; k++) {
        const double left = a[s->ta ? k * s->m + i : i * s->k + k];
        for (int64_t j = 0; j < s->n; j++) {
            const double term = left * ref->weight[k * s->n + j];
            ref->sum[j] += term;
            ref->magnitude[j] += fabs(term);
        }
    }
}

static void check_row(const reference *ref, const shape *s, uint64_t seed, const tensor *y,
                      int64_t row)
{
    const bool narrow = s->x == ORR_DTYPE_BF16 && s->w == ORR_DTYPE_BF16 && s->format >= 0 &&
                        s->format != ORR_ROW_FORMAT_BF16;
    for (int64_t j = 0; j < s->n; j++) {
        const double got = (double)number_at(y, row * s->n + j);
        const tolerance t = {.magnitude = ref->magnitude[j],
                             .weights = ref->weights[j],
                             .token = token_rounding(s->format),
                             .k = s->k,
                             .coarse = narrow,
                             .dtype = s->y};
        if (!is_near(got, ref->sum[j], &t))
            fail_msg("seed %llu, %s: (%lld, %lld, %lld) leading %u, ta %d tb %d, %s %s %s rows %d, "
                     "row %lld column %lld: %g, not %g",
                     (unsigned long long)seed, orr_cpu_level_name(orr_cpu_level()), (long long)s->m,
                     (long long)s->n, (long long)s->k, s->leading, s->ta, s->tb,
                     orr_dtype_name(s->x), orr_dtype_name(s->w), orr_dtype_name(s->y), s->format,
                     (long long)row, (long long)j, got, ref->sum[j]);
    }
}

static void check_values(const shape *s, uint64_t seed, const tensor *x, const tensor *w,
                         const double *old, const tensor *y)
{
    const size_t n = (size_t)s->n;
    double *room = malloc(((size_t)s->k + 3) * n * sizeof *room);
    reference ref = {room, room + s->k * s->n, room + (s->k + 1) * s->n, room + (s->k + 2) * s->n};
    for (int64_t b = 0; b < y->n / (s->m * s->n); b++) {
        if (b == 0 || s->w_has_leading)
            take_weight(&ref, s, w->values + b * s->k * s->n);
        for (int64_t i = 0; i < s->m; i++) {
            const int64_t row = b * s->m + i;
            multiply_row(&ref, s, x->values + b * s->m * s->k, i, old + row * s->n);
            check_row(&ref, s, seed, y, row);
        }
    }
    free(room);
}

/* The same bits by 1, 2, 3 and 5 threads and without workers, at the right values. */
static void check_shape(const shape *s, uint64_t seed, orr_random *r)
{
    tensor x = operand_of(s, s->x, s->ta ? s->k : s->m, s->ta ? s->m : s->k, true, s->x_turned, r);
    tensor w = s->format >= 0 ? rows_of((orr_row_format)s->format, s->w, 1, s->k, s->n, s->tb, r)
                              : operand_of(s, s->w, s->tb ? s->n : s->k, s->tb ? s->k : s->n,
                                           s->w_has_leading, s->w_turned, r);
    tensor y = operand_of(s, s->y, s->m, s->n, true, s->y_turned, r);
    settle(&w);
    const size_t y_bytes =
        (size_t)(1 + place_of(&y.operand, y.n - 1)) * (size_t)orr_dtype_bytes(s->y);
    char *before = malloc(y_bytes), *first = malloc(y_bytes);
    memcpy(before, y.bytes, y_bytes);
    const orr_op_args args = {.transpose_a = s->ta, .transpose_b = s->tb};
    const orr_operand in[2] = {x.operand, w.operand};
    orr_kernel_call call = {.op = ORR_OP_MATMUL,
                            .args = &args,
                            .n_in = 2,
                            .n_out = 1,
                            .in = in,
                            .out = &y.operand,
                            .accumulate = s->accumulate};
    static const int threads[] = {0, 1, 2, 3, 5};
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
        memcpy(y.bytes, before, y_bytes);
        assert_int_equal(run_call(&call, threads[t]), ORR_OK);
        if (t == 0)
            memcpy(first, y.bytes, y_bytes);
        assert_memory_equal(y.bytes, first, y_bytes);
    }
    check_values(s, seed, &x, &w, y.values, &y);
    free(before);
    free(first);
    tensor_done(&x);
    tensor_done(&w);
    tensor_done(&y);
}

static int64_t some(orr_random *r, int64_t below)
{
    return 1 + (int64_t)orr_random_below(r, (uint64_t)below);
}

static bool coin(orr_random *r)
{
    return orr_random_below(r, 2) != 0;
}

static orr_dtype some_dtype(orr_random *r)
{
    static const orr_dtype all[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_BF16, ORR_DTYPE_FP16};
    return all[orr_random_below(r, 4)];
}

static shape some_shape(orr_random *r)
{
    static const int64_t m_below[] = {1, 4, 9, 40, 300}, n_below[] = {3, 50, 130, 400},
                         k_below[] = {3, 40, 200, 700};
    shape s = {.m = some(r, m_below[orr_random_below(r, 5)]),
               .n = some(r, n_below[orr_random_below(r, 4)]),
               .k = some(r, k_below[orr_random_below(r, 4)]),
               .leading = (uint32_t)orr_random_below(r, 3),
               .lead = {some(r, 3), some(r, 2)},
               .ta = coin(r),
               .tb = coin(r),
               .w_has_leading = coin(r),
               .gaps = coin(r),
               .x_turned = coin(r) && coin(r),
               .w_turned = coin(r) && coin(r),
               .y_turned = coin(r) && coin(r) && coin(r),
               .accumulate = coin(r),
               .x = some_dtype(r),
               .w = some_dtype(r),
               .y = some_dtype(r),
               .format = -1};
    if (coin(r))
        s.w = s.x;
    if (orr_random_below(r, 3) == 0) {
        s.format = (int)orr_random_below(r, ORR_ROW_FORMATS);
        s.w_has_leading = false;
        if (s.format == ORR_ROW_FORMAT_Q8_0 || s.format == ORR_ROW_FORMAT_Q4_0)
            s.k = (s.k + 31) / 32 * 32;
    }
    s.w_has_leading = s.w_has_leading && s.leading > 0;
    if (!s.w_has_leading && s.leading > 0)
        s.ta = false;
    return s;
}

static void at_level(orr_cpu_level_id level, int shapes)
{
    orr_cpu_level_limit(level);
    if (orr_cpu_level() != level) {
        orr_cpu_level_limit(ORR_CPU_LEVELS);
        print_message("this processor has no %s\n", orr_cpu_level_name(level));
        skip();
    }
    const char *asked = getenv("ORRERY_SEED");
    const uint64_t first = asked != NULL ? strtoull(asked, NULL, 10) : 0;
    for (uint64_t seed = first; seed < first + (asked != NULL ? 1 : (uint64_t)shapes); seed++) {
        orr_random r = orr_random_of(seed, 7);
        const shape s = some_shape(&r);
        check_shape(&s, seed, &r);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static void plain(void **state)
{
    (void)state;
    at_level(ORR_CPU_PLAIN, 60);
}

static void avx2(void **state)
{
    (void)state;
    at_level(ORR_CPU_AVX2, 120);
}

static void avx512(void **state)
{
    (void)state;
    at_level(ORR_CPU_AVX512, 120);
}

static void avx512_bf16(void **state)
{
    (void)state;
    at_level(ORR_CPU_AVX512_BF16, 200);
}

/* More than a block of each dim, and a side that is packed in several spans. */
static void many_blocks(void **state)
{
    (void)state;
    orr_random r = orr_random_of(1, 1);
    static const shape shapes[] = {
        {.m = 19,
         .n = 4800,
         .k = 1100,
         .x = ORR_DTYPE_FP32,
         .w = ORR_DTYPE_FP32,
         .y = ORR_DTYPE_FP32,
         .format = -1,
         .tb = true},
        {.m = 4000,
         .n = 17,
         .k = 1100,
         .x = ORR_DTYPE_BF16,
         .w = ORR_DTYPE_BF16,
         .y = ORR_DTYPE_FP32,
         .format = -1,
         .ta = true,
         .accumulate = true},
        {.m = 600,
         .n = 1000,
         .k = 65,
         .x = ORR_DTYPE_BF16,
         .w = ORR_DTYPE_BF16,
         .y = ORR_DTYPE_BF16,
         .format = -1},
        {.m = 300,
         .n = 301,
         .k = 20000,
         .x = ORR_DTYPE_FP32,
         .w = ORR_DTYPE_FP32,
         .y = ORR_DTYPE_FP32,
         .format = -1},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        check_shape(&shapes[i], i, &r);
}

static void nothing_to_sum_makes_zeros(void **state)
{
    (void)state;
    orr_random r = orr_random_of(1, 1);
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        shape s = {.m = 5,
                   .n = 70,
                   .k = 0,
                   .x = ORR_DTYPE_FP32,
                   .w = ORR_DTYPE_FP32,
                   .y = ORR_DTYPE_BF16,
                   .format = -1,
                   .accumulate = accumulate != 0};
        check_shape(&s, 0, &r);
    }
}

static void wrong_rows_are_refused(void **state)
{
    (void)state;
    orr_random r = orr_random_of(1, 1);
    const orr_op_args args = {0};
    tensor x = tensor_of(ORR_DTYPE_FP32, 2, (int64_t[]){2, 32}, false, false, &r);
    tensor w = rows_of(ORR_ROW_FORMAT_BF16, ORR_DTYPE_BF16, 1, 32, 4, false, &r);
    tensor y = tensor_of(ORR_DTYPE_FP32, 2, (int64_t[]){2, 5}, false, false, &r);
    settle(&w);
    w.operand.type.dim[1] = 5;
    const orr_operand in[4] = {x.operand, w.operand, x.operand, x.operand};
    orr_kernel_call call = {
        .op = ORR_OP_MATMUL, .args = &args, .n_in = 2, .n_out = 1, .in = in, .out = &y.operand};
    assert_int_equal(run_call(&call, 1), ORR_INVALID);
    call.n_in = 4;
    assert_int_equal(run_call(&call, 1), ORR_UNSUPPORTED);
    tensor_done(&x);
    tensor_done(&w);
    tensor_done(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain),
        cmocka_unit_test(avx2),
        cmocka_unit_test(avx512),
        cmocka_unit_test(avx512_bf16),
        cmocka_unit_test(many_blocks),
        cmocka_unit_test(nothing_to_sum_makes_zeros),
        cmocka_unit_test(wrong_rows_are_refused),
    };
    return cmocka_run_group_tests_name("kernel/matmul", tests, NULL, NULL);
}
