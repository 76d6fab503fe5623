/* SPDX-License-Identifier: Apache-2.0 */
#include "../try_op.h"

/* Mixed precision as in ZeRO (Rajbhandari et al., 2020): 16 bytes a parameter are held; a step
 * reads fp32 parameter, fp32 gradient and both moments, and writes all but the gradient, and the
 * bf16 copy. */
static void adamw_moves_30_bytes_a_parameter(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value p = TRY_VALUE(&t, STATE, FP32, 100, 10),
                    g = TRY_VALUE(&t, STATE, FP32, 100, 10),
                    m = TRY_VALUE(&t, STATE, FP32, 100, 10),
                    v = TRY_VALUE(&t, STATE, FP32, 100, 10),
                    copy = TRY_VALUE(&t, PARAMETER, BF16, 100, 10);
    TRY_OP(&t, ADAMW, NULL, p, g, m, v);
    try_work(&t, 14e3, 16e3, 12e3);
    TRY_OP(&t, ADAMW, NULL, p, g, m, v, copy);
    try_work(&t, 14e3, 16e3, 14e3);
    assert_int_equal(t.tape.calls[t.tape.n_calls - 1].n_out, 0);
    try_end(&t);
}

static void sgd_with_and_without_momentum(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value p = TRY_VALUE(&t, PARAMETER, FP32, 1000), g = TRY_VALUE(&t, STATE, FP16, 1000),
                    m = TRY_VALUE(&t, STATE, FP32, 1000), odd = TRY_VALUE(&t, STATE, FP32, 999);
    TRY_OP(&t, SGD, NULL, p, g);
    try_work(&t, 2e3, 6e3, 4e3);
    TRY_OP(&t, SGD, NULL, p, g, m);
    try_work(&t, 4e3, 10e3, 8e3);
    TRY_FAIL(&t, SGD, NULL, "sgd: param (1000) and grad (999): the dims differ", p, odd);
    try_end(&t);
}

/* Of a million rows only the 40 that were looked up are touched. */
static void rows_that_were_looked_up(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value table = TRY_VALUE(&t, PARAMETER, FP32, 1000000, 16),
                    rows = TRY_VALUE(&t, GRADIENT, FP32, 40, 16),
                    sums = TRY_VALUE(&t, STATE, FP32, 1000000),
                    ids = TRY_VALUE(&t, INPUT, INT64, 8, 5);
    TRY_OP(&t, ROWWISE_ADAGRAD, NULL, table, rows, sums, ids);
    try_work(&t, 5 * 40 * 16, 40 * 64 + 40 * 8 + 40 * 68, 40 * 68);
    TRY_FAIL(&t, ROWWISE_ADAGRAD, NULL,
             "rowwise_adagrad: table (1000000, 16), drows (40, 16), state (40, 16) and ids "
             "(8, 5): the state has a number for each row",
             table, rows, rows, ids);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_moves_30_bytes_a_parameter),
        cmocka_unit_test(sgd_with_and_without_momentum),
        cmocka_unit_test(rows_that_were_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
