/* SPDX-License-Identifier: Apache-2.0 */
#include "../../op/try_op.h"

#include <orrery/calibration.h>

/* The work of the last call is of this family, with these dims: and FLOPs and bytes as its row
 * says. */
static void hold(const try_op *t, orr_kernel_family family, bool backward, size_t n,
                 const int64_t *dims)
{
    const uint32_t last = t->tape.n_calls - 1;
    orr_work work;
    orr_op_work row;
    orr_work_of_call(&t->tape, last, &work);
    orr_tape_work(&t->tape, last, &row);
    assert_int_equal(work.family, family);
    assert_int_equal(work.backward, backward);
    assert_int_equal(work.n_dims, n);
    for (size_t d = 0; d < n; d++)
        assert_int_equal(work.dims[d], dims[d]);
    assert_int_equal(work.dtype, row.dtype);
    assert_true(work.flops == row.flops);
    assert_true(work.read_bytes == row.read_bytes);
    assert_true(work.write_bytes == row.write_bytes);
}
#define HOLD(t, family, backward, ...)                                                             \
    hold((t), ORR_FAMILY_##family, (backward), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
         (int64_t[]){__VA_ARGS__})

static orr_value number(try_op *t, size_t rank, const int64_t *dims)
{
    return try_value(t, ORR_VALUE_INPUT, ORR_DTYPE_BF16, rank, dims);
}
#define NUMBER(t, ...)                                                                             \
    number((t), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static void products(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    TRY_OP(&t, MATMUL, NULL, NUMBER(&t, 2, 8, 64), NUMBER(&t, 64, 128));
    HOLD(&t, GEMM, false, 1, 16, 128, 64);
    TRY_OP(&t, MATMUL, TRY_ARGS(.transpose_b = true), NUMBER(&t, 8, 64), NUMBER(&t, 128, 64));
    HOLD(&t, GEMM, false, 1, 8, 128, 64);
    TRY_OP(&t, MATMUL, TRY_ARGS(.transpose_a = true), NUMBER(&t, 64, 8), NUMBER(&t, 64, 128));
    HOLD(&t, GEMM, false, 1, 8, 128, 64);
    TRY_OP(&t, MATMUL, NULL, NUMBER(&t, 2, 3, 8, 64), NUMBER(&t, 2, 3, 64, 128));
    HOLD(&t, GEMM, false, 6, 8, 128, 64);
    TRY_OP(&t, GROUPED_MATMUL, NULL, NUMBER(&t, 80, 64), NUMBER(&t, 8, 64, 128));
    HOLD(&t, GEMM, false, 8, 10, 128, 64);
    TRY_OP(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_a = true, .experts = 8), NUMBER(&t, 80, 64),
           NUMBER(&t, 80, 128));
    HOLD(&t, GEMM, true, 8, 64, 128, 10);
    try_end(&t);
}

static void attention_and_rows(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value q = TRY_VALUE(&t, PARAMETER, BF16, 2, 16, 8, 64),
                    k = TRY_VALUE(&t, PARAMETER, BF16, 2, 32, 4, 64);
    TRY_OP(&t, ATTENTION, TRY_ARGS(.flash = true), q, k, k);
    HOLD(&t, ATTENTION, false, 2, 8, 16, 32, 64);
    orr_work half, whole;
    orr_work_of_call(&t.tape, t.tape.n_calls - 1, &whole);
    TRY_OP(&t, ATTENTION, TRY_ARGS(.flash = true, .mask = ORR_MASK_CAUSAL, .offset = 0), q, q, q);
    orr_work_of_call(&t.tape, t.tape.n_calls - 1, &half);
    assert_true(half.flops == whole.flops / 2 * 17 / 32); /* 16 x 17 / 2 pairs of 16 x 32 */
    TRY_OP(&t, RMS_NORM, NULL, NUMBER(&t, 2, 8, 64));
    HOLD(&t, NORM, false, 16, 64);
    TRY_OP(&t, SOFTMAX, NULL, NUMBER(&t, 2, 8, 64));
    HOLD(&t, SOFTMAX, false, 16, 64);
    TRY_OP(&t, CROSS_ENTROPY, NULL, NUMBER(&t, 2, 8, 64), TRY_VALUE(&t, INPUT, INT64, 2, 8));
    HOLD(&t, SOFTMAX, false, 16, 64);
    TRY_OP(&t, BATCH_NORM, NULL, NUMBER(&t, 4, 16, 7, 7), NUMBER(&t, 16), NUMBER(&t, 16));
    HOLD(&t, NORM, false, 16, 196);
    try_end(&t);
}

static void tables(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 300, 16);
    TRY_OP(&t, EMBEDDING, NULL, table, TRY_VALUE(&t, INPUT, INT32, 6, 2));
    HOLD(&t, EMBEDDING_FORWARD, false, 12, 300, 1, 16, 1);
    TRY_OP(&t, EMBEDDING_BAG, NULL, table, TRY_VALUE(&t, INPUT, INT32, 4, 3, 5));
    HOLD(&t, EMBEDDING_FORWARD, false, 4, 100, 5, 16, 3);
    try_gradient(&t);
    HOLD(&t, EMBEDDING_BACKWARD, true, 4, 20, 5, 16, 3);
    TRY_OP(&t, INTERACTION, NULL, NUMBER(&t, 4, 27, 16));
    HOLD(&t, INTERACTION, false, 4, 27, 27);
    try_end(&t);
}

static void images(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, FP16, 32, 3, 224, 224),
                    w = TRY_VALUE(&t, PARAMETER, FP16, 64, 3, 7, 7);
    TRY_OP(&t, CONVOLUTION, TRY_ARGS(.stride = 2, .padding = 3), x, w);
    HOLD(&t, CONVOLUTION, false, 32, 3, 224, 224, 64, 7, 7, 2);
    const uint32_t forward = t.tape.n_calls;
    try_gradient(&t);
    assert_int_equal(t.tape.n_calls, forward + 2);
    HOLD(&t, CONVOLUTION, true, 32, 3, 224, 224, 64, 7, 7, 2);
    t.tape.n_calls--;
    HOLD(&t, CONVOLUTION, true, 32, 3, 224, 224, 64, 7, 7, 2);
    try_end(&t);
}

static void elements_and_bytes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NUMBER(&t, 6, 4, 10);
    TRY_OP(&t, GELU, NULL, x);
    HOLD(&t, ELEMENTWISE, false, 240);
    TRY_OP(&t, CONCAT, TRY_ARGS(.dim = 0), x, x);
    HOLD(&t, CONCAT, false, 480);
    TRY_OP(&t, TRANSPOSE, TRY_ARGS(.dim = 1, .to_dim = 2), x);
    HOLD(&t, TRANSPOSE, false, 6, 4, 10);
    TRY_OP(&t, TRANSPOSE, TRY_ARGS(.dim = 1, .to_dim = 0), x);
    HOLD(&t, TRANSPOSE, false, 1, 6, 40);
    TRY_OP(&t, SUM, TRY_ARGS(.dim = 0), x);
    HOLD(&t, REDUCTION, false, 240);
    TRY_OP(&t, COPY, NULL, x);
    HOLD(&t, COPY, false, 480);
    TRY_OP(&t, ADAMW, NULL, x, x, x, x);
    HOLD(&t, OPTIMIZER, false, 240);
    try_end(&t);
}

/* Nothing for a kernel to do: no price of its own. */
static void views_and_collectives(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_type flat = {.rank = 1, .dim = {240}};
    const orr_value x = NUMBER(&t, 6, 4, 10);
    orr_work work;
    TRY_OP(&t, VIEW, TRY_ARGS(.shape = &flat), x);
    orr_work_of_call(&t.tape, 0, &work);
    assert_int_equal(work.family, ORR_FAMILY_OTHER);
    assert_true(work.flops == 0 && work.read_bytes == 0 && work.write_bytes == 0);
    TRY_OP(&t, ALL_REDUCE, TRY_ARGS(.members = 2), x);
    orr_work_of_call(&t.tape, 1, &work);
    assert_int_equal(work.family, ORR_FAMILY_OTHER);
    assert_true(work.flops == 0 && work.read_bytes == 0 && work.write_bytes == 0);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(products),
        cmocka_unit_test(attention_and_rows),
        cmocka_unit_test(tables),
        cmocka_unit_test(images),
        cmocka_unit_test(elements_and_bytes),
        cmocka_unit_test(views_and_collectives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
