/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void shapes_and_work(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 64, 16),
                    w = TRY_VALUE(&t, PARAMETER, BF16, 8, 16, 32);
    const orr_value wt = TRY_VALUE(&t, PARAMETER, BF16, 8, 32, 16),
                    counts = TRY_VALUE(&t, INPUT, INT32, 8);
    TRY_OP(&t, GROUPED_MATMUL, NULL, x, w);
    TRY_OUT(&t, 0, BF16, 64, 32);
    try_work(&t, 2.0 * 64 * 16 * 32, 2 * (64 * 16 + 8 * 16 * 32), 2 * 64 * 32);
    const orr_value y = t.out[0];
    TRY_OP(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_b = true), x, wt, counts);
    TRY_OUT(&t, 0, BF16, 64, 32);
    TRY_OP(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_a = true, .experts = 8), x, y);
    TRY_OUT(&t, 0, BF16, 8, 16, 32);
    try_work(&t, 2.0 * 64 * 16 * 32, 2 * (64 * 16 + 64 * 32), 2 * 8 * 16 * 32);
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 64, 16),
                    w = TRY_VALUE(&t, PARAMETER, BF16, 8, 12, 32);
    const orr_value good = TRY_VALUE(&t, PARAMETER, BF16, 8, 16, 32),
                    few = TRY_VALUE(&t, INPUT, INT32, 7);
    TRY_FAIL(&t, GROUPED_MATMUL, NULL,
             "grouped_matmul: x (64, 16) and w (8, 12, 32): the inner dims 16 and 12 differ", x, w);
    TRY_FAIL(&t, GROUPED_MATMUL, NULL,
             "grouped_matmul: x (64, 16) and w (64, 16): x has two dims, w three", x, x);
    TRY_FAIL(
        &t, GROUPED_MATMUL, NULL,
        "grouped_matmul: x (64, 16), w (8, 16, 32) and counts (7): counts are one of each of the 8 "
        "experts",
        x, good, few);
    TRY_FAIL(
        &t, GROUPED_MATMUL, TRY_ARGS(.transpose_a = true, .experts = 8),
        "grouped_matmul: x (64, 16) and w (8, 16, 32): gradients of weights take (T, K) and (T, N)",
        x, good);
    TRY_FAIL(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_a = true),
             "grouped_matmul: x (64, 16) and w (64, 16): with transpose_a, `experts` is said and w "
             "stands as it is",
             x, x);
    try_end(&t);
}

static void gradients(void **state)
{
    (void)state;
    for (int tb = 0; tb < 2; tb++) {
        try_op t;
        try_begin(&t);
        const orr_value x = NAMED(&t, INPUT, BF16, "x", 64, 16);
        const orr_value w = tb ? NAMED(&t, PARAMETER, BF16, "w", 8, 32, 16)
                               : NAMED(&t, PARAMETER, BF16, "w", 8, 16, 32);
        const orr_value counts = NAMED(&t, INPUT, INT32, "n", 8);
        TRY_OP(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_b = tb), x, w, counts);
        orr_value dx;
        try_backward(&t, t.out[0], &x, 1, &dx);
        TAPE_IS(&t, 1,
                tb ? "grouped_matmul(d, w, n):5 input\ngrouped_matmul(d', x, n):6 weight\n"
                   : "grouped_matmul(d, w', n):5 input\ngrouped_matmul(x', d, n):6 weight\n");
        SAME_TYPE(&t, 6, w);
        SAME_TYPE(&t, 5, x);
        try_end(&t);
    }
}

static void gradients_of_a_weight_gradient(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, PARAMETER, BF16, "x", 64, 16),
                    y = NAMED(&t, PARAMETER, BF16, "y", 64, 32);
    TRY_OP(&t, GROUPED_MATMUL, TRY_ARGS(.transpose_a = true, .experts = 8), x, y);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    TAPE_IS(&t, 1, "grouped_matmul(y, d'):4 weight\ngrouped_matmul(x, d):5 weight\n");
    SAME_TYPE(&t, 4, x);
    SAME_TYPE(&t, 5, y);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_work),
        cmocka_unit_test(what_does_not_fit_is_named),
        cmocka_unit_test(gradients),
        cmocka_unit_test(gradients_of_a_weight_gradient),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
