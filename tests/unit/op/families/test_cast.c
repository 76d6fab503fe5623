/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void casts_are_cast_back(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value w = NAMED(&t, PARAMETER, FP32, "w", 8, 64);
    TRY_OP(&t, CAST, TRY_ARGS(.dtype = ORR_DTYPE_BF16), w);
    TRY_OUT(&t, 0, BF16, 8, 64);
    try_work(&t, 0, 2048, 1024);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    TAPE_IS(&t, 1, "cast(d):3 weight\n");
    assert_int_equal(t.tape.values[try_gradient_of(&t, w)].type.dtype, ORR_DTYPE_FP32);
    try_end(&t);
}

/* A scale of all, a byte a block (MXFP8, NVFP4), four bytes a block of another size. */
static void scales(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 72);
    TRY_OP(&t, QUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_FP8), x);
    TRY_OUT(&t, 0, FP8, 8, 72);
    TRY_OUT(&t, 1, FP32, 1);
    try_work(&t, 2 * 576, 1152, 576 + 4);
    TRY_OP(&t, QUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_FP8, .size = 32), x);
    TRY_OUT(&t, 1, FP8, 8, 3);
    TRY_OP(&t, QUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_FP4, .size = 16), x);
    TRY_OUT(&t, 0, FP4, 8, 72);
    TRY_OUT(&t, 1, FP8, 8, 5);
    TRY_OP(&t, QUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_FP8, .size = 128), x);
    TRY_OUT(&t, 1, FP32, 8, 1);
    TRY_OP(&t, DEQUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_BF16), t.out[0], t.out[1]);
    TRY_OUT(&t, 0, BF16, 8, 72);
    try_work(&t, 576, 576 + 32, 1152);
    try_end(&t);
}

static void rounding_is_passed_through(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 64);
    TRY_OP(&t, QUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_FP8), x);
    TRY_OP(&t, DEQUANTIZE, TRY_ARGS(.dtype = ORR_DTYPE_BF16), t.out[0], t.out[1]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 2, "");
    assert_int_equal(dx, 4);
    assert_int_equal(t.tape.values[dx].type.dtype, ORR_DTYPE_BF16);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8);
    TRY_FAIL(&t, CAST, TRY_ARGS(.dtype = 99), "cast: x (8): 99 is no dtype", x);
    TRY_FAIL(&t, QUANTIZE, TRY_ARGS(.dtype = 99), "quantize: x (8): 99 is no dtype", x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(casts_are_cast_back),
        cmocka_unit_test(scales),
        cmocka_unit_test(rounding_is_passed_through),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
