/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

static void there_and_back(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP8, "x", 8, 64);
    TRY_OP(&t, COPY, NULL, x);
    TRY_OUT(&t, 0, FP8, 8, 64);
    try_work(&t, 0, 512, 512);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, "copy(d):3 input\n");
    assert_int_equal(t.tape.values[1].view_of, ORR_NONE);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(there_and_back)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
