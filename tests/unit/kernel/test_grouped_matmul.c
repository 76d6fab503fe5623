/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "products.h"

/* A product an expert, against plain loops in double. */

typedef struct shape {
    int64_t experts, tokens, k, n;
    bool counted, transposed, accumulate;
    int format; /* of rows; -1: a tensor */
    orr_dtype x, y;
} shape;

static tensor counts_of(const shape *s, int32_t *counts, orr_random *r)
{
    tensor t = {.operand.type = {.dtype = ORR_DTYPE_INT32, .rank = 1, .dim = {s->experts}}};
    int64_t left = s->tokens;
    for (int64_t e = 0; e < s->experts; e++) {
        counts[e] = s->counted ? (int32_t)orr_random_below(r, (uint64_t)left / 2 + 1)
                               : (int32_t)(s->tokens / s->experts);
        left -= counts[e];
    }
    t.operand.stride[0] = 1;
    t.operand.data = counts;
    return t;
}

static void run_all(orr_kernel_call *call, tensor *y)
{
    const size_t bytes = (size_t)y->n * (size_t)orr_dtype_bytes((orr_dtype)y->operand.type.dtype);
    char *before = malloc(bytes), *first = malloc(bytes);
    memcpy(before, y->bytes, bytes);
    for (int threads = 0; threads <= 5; threads++) {
        memcpy(y->bytes, before, bytes);
        assert_int_equal(run_call(call, threads), ORR_OK);
        if (threads == 0)
            memcpy(first, y->bytes, bytes);
        assert_memory_equal(y->bytes, first, bytes);
    }
    free(before);
    free(first);
}

static void check(const tensor *y, int64_t at, double want, const tolerance *t)
{
    if (!is_near((double)number_at(y, at), want, t))
        fail_msg("number %lld: %g, not %g", (long long)at, (double)number_at(y, at), want);
}

static void check_forward(const shape *s, const int32_t *counts, const tensor *x, const tensor *w,
                          const tensor *y)
{
    int64_t token = 0;
    for (int64_t e = 0; e < s->experts; e++)
        for (int32_t i = 0; i < counts[e]; i++, token++)
            for (int64_t j = 0; j < s->n; j++) {
                double sum = s->accumulate ? y->values[token * s->n + j] : 0;
                tolerance t = {.magnitude = fabs(sum),
                               .token = token_rounding(s->format),
                               .coarse = s->format >= ORR_ROW_FORMAT_Q8_0,
                               .k = s->k,
                               .dtype = s->y};
                for (int64_t k = 0; k < s->k; k++) {
                    const double *of = w->values + e * s->k * s->n;
                    const double weight = of[s->transposed ? j * s->k + k : k * s->n + j];
                    sum += x->values[token * s->k + k] * weight;
                    t.magnitude += fabs(x->values[token * s->k + k] * weight);
                    t.weights += fabs(weight);
                }
                check(y, token * s->n + j, sum, &t);
            }
    for (; token < s->tokens && !s->accumulate; token++)
        for (int64_t j = 0; j < s->n; j++)
            assert_true(number_at(y, token * s->n + j) == 0);
}

static void forward(const shape *s, orr_random *r)
{
    int32_t counts[16];
    tensor in[3] = {tensor_of(s->x, 2, (int64_t[]){s->tokens, s->k}, false, false, r)};
    in[1] = s->format >= 0
                ? rows_of((orr_row_format)s->format, s->x, s->experts, s->k, s->n, s->transposed, r)
                : tensor_of(s->x, 3,
                            (int64_t[]){s->experts, s->transposed ? s->n : s->k,
                                        s->transposed ? s->k : s->n},
                            false, false, r);
    in[2] = counts_of(s, counts, r);
    settle(&in[1]);
    tensor y = tensor_of(s->y, 2, (int64_t[]){s->tokens, s->n}, false, false, r);
    const orr_op_args args = {.transpose_b = s->transposed};
    const orr_operand operands[3] = {in[0].operand, in[1].operand, in[2].operand};
    orr_kernel_call call = {.op = ORR_OP_GROUPED_MATMUL,
                            .args = &args,
                            .in = operands,
                            .n_in = s->counted ? 3 : 2,
                            .n_out = 1,
                            .out = &y.operand,
                            .accumulate = s->accumulate};
    run_all(&call, &y);
    check_forward(s, counts, &in[0], &in[1], &y);
    tensor_done(&in[0]);
    tensor_done(&in[1]);
    tensor_done(&y);
}

static void gradient(const shape *s, orr_random *r)
{
    int32_t counts[16];
    tensor x = tensor_of(s->x, 2, (int64_t[]){s->tokens, s->k}, false, false, r);
    tensor dy = tensor_of(s->x, 2, (int64_t[]){s->tokens, s->n}, false, false, r);
    tensor dw = tensor_of(s->y, 3, (int64_t[]){s->experts, s->k, s->n}, false, false, r);
    const tensor c = counts_of(s, counts, r);
    const orr_op_args args = {.transpose_a = true, .experts = s->experts};
    const orr_operand in[3] = {x.operand, dy.operand, c.operand};
    orr_kernel_call call = {.op = ORR_OP_GROUPED_MATMUL,
                            .args = &args,
                            .in = in,
                            .n_in = s->counted ? 3 : 2,
                            .n_out = 1,
                            .out = &dw.operand,
                            .accumulate = s->accumulate};
    run_all(&call, &dw);
    int64_t first = 0;
    for (int64_t e = 0; e < s->experts; first += counts[e], e++)
        for (int64_t i = 0; i < s->k; i++)
            for (int64_t j = 0; j < s->n; j++) {
                const int64_t at = (e * s->k + i) * s->n + j;
                double sum = s->accumulate ? dw.values[at] : 0;
                tolerance t = {.magnitude = fabs(sum), .k = s->tokens, .dtype = s->y};
                for (int64_t token = first; token < first + counts[e]; token++) {
                    const double term = x.values[token * s->k + i] * dy.values[token * s->n + j];
                    sum += term;
                    t.magnitude += fabs(term);
                }
                check(&dw, at, sum, &t);
            }
    tensor_done(&x);
    tensor_done(&dy);
    tensor_done(&dw);
}

static const shape SHAPES[] = {
    {.experts = 4,
     .tokens = 8,
     .k = 32,
     .n = 70,
     .x = ORR_DTYPE_FP32,
     .y = ORR_DTYPE_FP32,
     .format = -1},
    {.experts = 3,
     .tokens = 21,
     .k = 65,
     .n = 33,
     .counted = true,
     .x = ORR_DTYPE_BF16,
     .y = ORR_DTYPE_BF16,
     .format = -1,
     .transposed = true},
    {.experts = 8,
     .tokens = 300,
     .k = 64,
     .n = 100,
     .counted = true,
     .accumulate = true,
     .x = ORR_DTYPE_BF16,
     .y = ORR_DTYPE_FP32,
     .format = -1},
    {.experts = 5,
     .tokens = 900,
     .k = 40,
     .n = 50,
     .counted = true,
     .x = ORR_DTYPE_FP32,
     .y = ORR_DTYPE_FP32,
     .format = -1,
     .transposed = true},
    {.experts = 4,
     .tokens = 40,
     .k = 64,
     .n = 48,
     .counted = true,
     .x = ORR_DTYPE_BF16,
     .y = ORR_DTYPE_BF16,
     .format = ORR_ROW_FORMAT_Q8_0},
    {.experts = 4,
     .tokens = 120,
     .k = 96,
     .n = 48,
     .counted = true,
     .x = ORR_DTYPE_BF16,
     .y = ORR_DTYPE_FP32,
     .format = ORR_ROW_FORMAT_INT8},
    {.experts = 1,
     .tokens = 90,
     .k = 96,
     .n = 200,
     .counted = true,
     .x = ORR_DTYPE_FP32,
     .y = ORR_DTYPE_FP32,
     .format = -1},
    {.experts = 1,
     .tokens = 200,
     .k = 150,
     .n = 60,
     .counted = true,
     .x = ORR_DTYPE_FP32,
     .y = ORR_DTYPE_FP32,
     .format = -1},
};

static void each_expert_has_its_own_weights(void **state)
{
    (void)state;
    for (int level = 0; level < ORR_CPU_LEVELS; level++)
        for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
            orr_random r = orr_random_of(i, 3);
            orr_cpu_level_limit((orr_cpu_level_id)level);
            forward(&SHAPES[i], &r);
        }
}

static void gradients_of_weights_sum_over_an_experts_tokens(void **state)
{
    (void)state;
    for (int level = 0; level < ORR_CPU_LEVELS; level++)
        for (size_t i = 0; i < sizeof SHAPES / sizeof *SHAPES; i++) {
            orr_random r = orr_random_of(i, 4);
            orr_cpu_level_limit((orr_cpu_level_id)level);
            gradient(&SHAPES[i], &r);
        }
}

static void counts_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const int32_t wrong[2][2] = {{-1, 3}, {3, 2}};
    orr_random r = orr_random_of(1, 1);
    tensor x = tensor_of(ORR_DTYPE_FP32, 2, (int64_t[]){4, 8}, false, false, &r);
    tensor w = tensor_of(ORR_DTYPE_FP32, 3, (int64_t[]){2, 8, 8}, false, false, &r);
    tensor y = tensor_of(ORR_DTYPE_FP32, 2, (int64_t[]){4, 8}, false, false, &r);
    for (int i = 0; i < 2; i++) {
        const orr_op_args args = {0};
        const orr_operand in[3] = {x.operand,
                                   w.operand,
                                   {.type = {.dtype = ORR_DTYPE_INT32, .rank = 1, .dim = {2}},
                                    .stride = {1},
                                    .data = (void *)(uintptr_t)wrong[i]}};
        orr_kernel_call call = {.op = ORR_OP_GROUPED_MATMUL,
                                .args = &args,
                                .n_in = 3,
                                .n_out = 1,
                                .in = in,
                                .out = &y.operand};
        assert_int_equal(run_call(&call, 1), ORR_INVALID);
    }
    tensor_done(&x);
    tensor_done(&w);
    tensor_done(&y);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_expert_has_its_own_weights),
        cmocka_unit_test(gradients_of_weights_sum_over_an_experts_tokens),
        cmocka_unit_test(counts_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests_name("kernel/matmul_grouped", tests, NULL, NULL);
}
