/* SPDX-License-Identifier: Apache-2.0 */
#include "try_op.h"

static void elements_and_bytes(void **state)
{
    (void)state;
    const orr_type matrix = {.dtype = ORR_DTYPE_BF16, .rank = 2, .dim = {8, 512}};
    assert_int_equal(orr_type_elements(&matrix), 4096);
    assert_int_equal(orr_type_bytes(&matrix), 8192);
    const orr_type scalar = {.dtype = ORR_DTYPE_FP32};
    assert_int_equal(orr_type_elements(&scalar), 1);
    assert_int_equal(orr_type_bytes(&scalar), 4);
    const orr_type nothing = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {0, 7}};
    assert_int_equal(orr_type_bytes(&nothing), 0);
}

static void half_bytes_are_rounded_up(void **state)
{
    (void)state;
    const orr_type odd = {.dtype = ORR_DTYPE_FP4, .rank = 1, .dim = {7}};
    assert_int_equal(orr_type_bytes(&odd), 4);
    const orr_type even = {.dtype = ORR_DTYPE_FP4, .rank = 1, .dim = {8}};
    assert_int_equal(orr_type_bytes(&even), 4);
}

static void what_does_not_fit_is_minus_one(void **state)
{
    (void)state;
    const orr_type many = {.dtype = ORR_DTYPE_INT8, .rank = 2, .dim = {INT64_MAX, 2}};
    assert_int_equal(orr_type_elements(&many), -1);
    assert_int_equal(orr_type_bytes(&many), -1);
    const orr_type wide = {.dtype = ORR_DTYPE_FP64, .rank = 1, .dim = {INT64_MAX}};
    assert_int_equal(orr_type_elements(&wide), INT64_MAX);
    assert_int_equal(orr_type_bytes(&wide), -1);
    const orr_type negative = {.dtype = ORR_DTYPE_INT8, .rank = 1, .dim = {-1}};
    assert_int_equal(orr_type_elements(&negative), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(elements_and_bytes),
        cmocka_unit_test(half_bytes_are_rounded_up),
        cmocka_unit_test(what_does_not_fit_is_minus_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
