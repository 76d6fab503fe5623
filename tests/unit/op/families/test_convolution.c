/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

/* The first layer of ResNet-50: 0.236 GFLOPs an image (118 million multiplications). */
static void the_stem_of_resnet(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP16, 2, 3, 224, 224);
    const orr_value w = TRY_VALUE(&t, PARAMETER, FP16, 64, 3, 7, 7);
    TRY_OP(&t, CONVOLUTION, TRY_ARGS(.stride = 2, .padding = 3), x, w);
    TRY_OUT(&t, 0, FP16, 2, 64, 112, 112);
    const double flops = 2.0 * 118013952, x_bytes = 2.0 * 2 * 3 * 224 * 224,
                 w_bytes = 2.0 * 64 * 3 * 49, y_bytes = 2.0 * 2 * 64 * 112 * 112;
    try_work(&t, 2 * flops, x_bytes + w_bytes, y_bytes);
    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, w);
    TRY_OUT(&t, 0, FP16, 64, 3, 7, 7);
    try_work(&t, 2 * flops, x_bytes + y_bytes, w_bytes);
    try_end(&t);
}

/* 7 and 8 pixels give the same with stride 2: the gradient knows which it was. */
static void the_gradient_knows_the_size(void **state)
{
    (void)state;
    for (int64_t size = 7; size <= 8; size++) {
        try_op t;
        try_begin(&t);
        const orr_value x = TRY_VALUE(&t, PARAMETER, FP32, 1, 2, size, size + 2);
        const orr_value w = TRY_VALUE(&t, PARAMETER, FP32, 4, 2, 1, 3);
        TRY_OP(&t, CONVOLUTION, TRY_ARGS(.stride = 2), x, w);
        TRY_OUT(&t, 0, FP32, 1, 4, 4, 4);
        try_gradient(&t);
        t.out[0] = try_gradient_of(&t, x);
        TRY_OUT(&t, 0, FP32, 1, 2, size, size + 2);
        t.out[0] = try_gradient_of(&t, w);
        TRY_OUT(&t, 0, FP32, 4, 2, 1, 3);
        try_end(&t);
    }
}

static void pools(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, FP32, 2, 8, 12, 12);
    TRY_OP(&t, POOL, TRY_ARGS(.size = 3, .stride = 2, .padding = 1), x);
    TRY_OUT(&t, 0, FP32, 2, 8, 6, 6);
    try_work(&t, 9.0 * 2 * 8 * 36, 4.0 * 2 * 8 * 144, 4.0 * 2 * 8 * 36);
    TRY_OP(&t, POOL, TRY_ARGS(.op = ORR_OP_SUM), t.out[0]);
    TRY_OUT(&t, 0, FP32, 2, 8, 1, 1);
    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, x);
    TRY_OUT(&t, 0, FP32, 2, 8, 12, 12);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP32, 1, 2, 5, 5);
    const orr_value w = TRY_VALUE(&t, INPUT, FP32, 4, 3, 3, 3);
    const orr_value large = TRY_VALUE(&t, INPUT, FP32, 4, 2, 6, 3);
    TRY_FAIL(&t, CONVOLUTION, NULL,
             "convolution: x (1, 2, 5, 5) and w (4, 3, 3, 3): the channels 2 and 3 differ", x, w);
    TRY_FAIL(&t, CONVOLUTION, NULL,
             "convolution: x (1, 2, 5, 5) and w (4, 2, 6, 3): the filter is larger than the image",
             x, large);
    TRY_FAIL(&t, CONVOLUTION_INPUT, TRY_ARGS(.begin = 9, .count = 5),
             "convolution_input: dy (1, 2, 5, 5) and w (4, 3, 3, 3): no image of 9 x 5 gives that",
             x, w);
    TRY_FAIL(&t, POOL, TRY_ARGS(.size = 6),
             "pool: x (1, 2, 5, 5): the window of 6 is larger than the image", x);
    TRY_FAIL(&t, POOL_BACKWARD, TRY_ARGS(.begin = 5, .count = 5),
             "pool_backward: dy (1, 2, 5, 5): where maxima were is not told", x);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stem_of_resnet),
        cmocka_unit_test(the_gradient_knows_the_size),
        cmocka_unit_test(pools),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
