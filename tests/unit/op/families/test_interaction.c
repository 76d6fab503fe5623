/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

/* DLRM's 27 vectors of 128: 351 pairs. */
static void all_pairs_of_features(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, PARAMETER, FP16, 64, 27, 128);
    TRY_OP(&t, INTERACTION, NULL, x);
    TRY_OUT(&t, 0, FP16, 64, 351);
    try_work(&t, 2.0 * 64 * 351 * 128, 2.0 * 64 * 27 * 128, 2.0 * 64 * 351);
    try_gradient(&t);
    t.out[0] = try_gradient_of(&t, x);
    TRY_OUT(&t, 0, FP16, 64, 27, 128);
    try_work(&t, 4.0 * 64 * 351 * 128, 2.0 * 64 * (27 * 128 + 351), 2.0 * 64 * 27 * 128);
    try_end(&t);
}

static void one_feature_has_no_pair(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, FP16, 64, 1, 128);
    const orr_value pair = TRY_VALUE(&t, INPUT, FP16, 64, 27, 128);
    const orr_value grad = TRY_VALUE(&t, INPUT, FP16, 64, 350);
    TRY_FAIL(&t, INTERACTION, NULL,
             "interaction: x (64, 1, 128): pairs are of two features of a "
             "sample, or more",
             x);
    TRY_FAIL(&t, INTERACTION_BACKWARD, NULL,
             "interaction_backward: x (64, 27, 128) and dy (64, 350): a sample has a gradient for "
             "each pair",
             pair, grad);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_pairs_of_features),
        cmocka_unit_test(one_feature_has_no_pair),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
