/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void shapes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 2, 8, 512);
    const orr_value w = TRY_VALUE(&t, PARAMETER, BF16, 512, 1024);
    const orr_value wt = TRY_VALUE(&t, PARAMETER, BF16, 1024, 512);
    TRY_OP(&t, MATMUL, NULL, x, w);
    TRY_OUT(&t, 0, BF16, 2, 8, 1024);
    TRY_OP(&t, MATMUL, TRY_ARGS(.transpose_b = true), x, wt);
    TRY_OUT(&t, 0, BF16, 2, 8, 1024);
    const orr_value a = TRY_VALUE(&t, INPUT, FP32, 4, 3, 7, 5),
                    b = TRY_VALUE(&t, INPUT, BF16, 4, 3, 7, 6);
    TRY_OP(&t, MATMUL, TRY_ARGS(.transpose_a = true), a, b);
    TRY_OUT(&t, 0, FP32, 4, 3, 5, 6);
    try_work(&t, 2.0 * 4 * 3 * 5 * 7 * 6, 4 * 3 * 7 * (5 * 4 + 6 * 2), 4 * 3 * 5 * 6 * 4);
    try_end(&t);
}

static void work_of_a_product(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP8, 128, 512),
                    w = TRY_VALUE(&t, PARAMETER, FP8, 512, 256);
    TRY_OP(&t, MATMUL, NULL, x, w);
    TRY_OUT(&t, 0, BF16, 128, 256); /* 8 bits in, 16 out */
    try_work(&t, 2.0 * 128 * 512 * 256, 128 * 512 + 512 * 256, 128 * 256 * 2);
    orr_op_work work;
    orr_tape_work(&t.tape, 0, &work);
    assert_int_equal(work.dtype, ORR_DTYPE_FP8);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 512),
                    w = TRY_VALUE(&t, PARAMETER, BF16, 256, 1024);
    const orr_value batch = TRY_VALUE(&t, INPUT, BF16, 3, 8, 512),
                    row = TRY_VALUE(&t, INPUT, BF16, 512);
    const orr_value other = TRY_VALUE(&t, INPUT, BF16, 4, 512, 8),
                    square = TRY_VALUE(&t, INPUT, BF16, 8, 8);
    TRY_FAIL(&t, MATMUL, NULL,
             "matmul: x (8, 512) and w (256, 1024): the inner dims 512 and 256 differ", x, w);
    TRY_FAIL(&t, MATMUL, NULL,
             "matmul: x (512) and w (256, 1024): a product is of matrices, of two dims or more",
             row, w);
    TRY_FAIL(&t, MATMUL, NULL,
             "matmul: x (3, 8, 512) and w (4, 512, 8): the leading dims 3 and 4 differ", batch,
             other);
    TRY_FAIL(&t, MATMUL, NULL,
             "matmul: x (8, 512) and w (4, 512, 8): w has two dims, or as many as x", x, other);
    TRY_FAIL(
        &t, MATMUL, TRY_ARGS(.transpose_a = true),
        "matmul: x (3, 8, 512) and w (8, 8): a transposed x of more than two dims needs a w with "
        "the same leading dims",
        batch, square);
    TRY_FAIL(
        &t, MATMUL, NULL,
        "matmul: x (8, 512), w (256, 1024) and scale_x (512): scales come of both operands or of "
        "none",
        x, w, row);
    TRY_FAIL(&t, MATMUL, NULL, "matmul takes 2 to 4 inputs, not 1", x);
    try_end(&t);
}

static void gradients_of_all_transposes(void **state)
{
    (void)state;
    const char *const want[2][2] = {
        {"matmul(d, w'):4 input\nmatmul(x', d):5 weight\n",
         "matmul(d, w):4 input\nmatmul(d', x):5 weight\n"},
        {"matmul(w, d'):4 input\nmatmul(x, d):5 weight\n",
         "matmul(w', d'):4 input\nmatmul(d', x'):5 weight\n"},
    };
    for (int ta = 0; ta < 2; ta++)
        for (int tb = 0; tb < 2; tb++) {
            try_op t;
            try_begin(&t);
            const orr_value x =
                ta ? NAMED(&t, INPUT, BF16, "x", 2, 5, 3) : NAMED(&t, INPUT, BF16, "x", 2, 3, 5);
            const orr_value w = tb ? NAMED(&t, PARAMETER, BF16, "w", 2, 7, 5)
                                   : NAMED(&t, PARAMETER, BF16, "w", 2, 5, 7);
            TRY_OP(&t, MATMUL, TRY_ARGS(.transpose_a = ta, .transpose_b = tb), x, w);
            TRY_OUT(&t, 0, BF16, 2, 3, 7);
            orr_value dx;
            try_backward(&t, t.out[0], &x, 1, &dx);
            TAPE_IS(&t, 1, want[ta][tb]);
            const orr_value dw = try_gradient_of(&t, w);
            SAME_TYPE(&t, dx, x);
            SAME_TYPE(&t, dw, w);
            try_end(&t);
        }
}

static void one_weight_for_a_batch_is_summed_in_one_product(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3, 5),
                    w = NAMED(&t, PARAMETER, BF16, "w", 5, 7);
    TRY_OP(&t, MATMUL, NULL, x, w);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1,
            "matmul(d, w'):4 input\nview(x):5 weight\nview(d):6 weight\n"
            "matmul(5', 6):7 weight\n");
    assert_int_equal(t.tape.values[7].type.dim[0], 5);
    assert_int_equal(t.tape.values[7].type.dim[1], 7);
    assert_true(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

/* With scales the gradient is quantised too, and both of its products have scales. */
static void quantised_products_have_quantised_gradients(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 64, 128),
                    w = NAMED(&t, PARAMETER, BF16, "w", 128, 32);
    const orr_op_args *how = TRY_ARGS(.dtype = ORR_DTYPE_FP8, .size = 32);
    TRY_OP(&t, QUANTIZE, how, x);
    TRY_OUT(&t, 1, FP8, 64, 4);
    const orr_value xq = name_value(&t, t.out[0], "xq"), xs = name_value(&t, t.out[1], "xs");
    TRY_OP(&t, QUANTIZE, how, w);
    const orr_value wq = name_value(&t, t.out[0], "wq"), ws = name_value(&t, t.out[1], "ws");
    TRY_OP(&t, MATMUL, TRY_ARGS(.size = 32), xq, wq, xs, ws);
    TRY_OUT(&t, 0, BF16, 64, 32);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 3,
            "quantize(d):8,9 input\nmatmul(8, wq', 9, ws):10 input\n"
            "matmul(xq', 8, xs, 9):11 weight\n");
    assert_int_equal(t.tape.values[dx].type.dtype, ORR_DTYPE_BF16);
    assert_int_equal(try_gradient_of(&t, w), 11);
    assert_false(orr_tape_is_saved(&t.tape, x)); /* its 8 bits are kept */
    assert_true(orr_tape_is_saved(&t.tape, xq));
    try_end(&t);
}

static void frozen_weights_have_no_gradient(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 3, 5),
                    w = NAMED(&t, PARAMETER, BF16, "w", 5, 7);
    t.tape.values[w].frozen = true;
    TRY_OP(&t, MATMUL, NULL, x, w);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "matmul(d, w'):4 input\n");
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(work_of_a_product),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(gradients_of_all_transposes),
        cmocka_unit_test(one_weight_for_a_batch_is_summed_in_one_product),
        cmocka_unit_test(quantised_products_have_quantised_gradients),
        cmocka_unit_test(frozen_weights_have_no_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
