/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/format/dtype_convert.h"

/* Every number of a small float comes back, and what lies between two goes to the nearer one, at
 * the middle to the even one. */
static void round_trip(float (*of)(uint8_t), uint8_t (*to)(float), int positive)
{
    for (int bits = 0; bits < positive; bits++) {
        assert_int_equal(to(of((uint8_t)bits)), bits);
        if (bits + 1 == positive)
            break;
        const float low = of((uint8_t)bits), high = of((uint8_t)(bits + 1));
        assert_true(low < high);
        assert_int_equal(to(low + (high - low) * 0.49f), bits);
        assert_int_equal(to(low + (high - low) * 0.51f), bits + 1);
        assert_int_equal(to((low + high) / 2), bits % 2 == 0 ? bits : bits + 1);
    }
}

static void test_small_floats(void **state)
{
    (void)state;
    round_trip(orr_fp8_e4m3_to_fp32, orr_fp32_to_fp8_e4m3, 0x7f);
    round_trip(orr_fp4_e2m1_to_fp32, orr_fp32_to_fp4_e2m1, 8);
    assert_true(orr_fp8_e4m3_to_fp32(0x7e) == 448 && orr_fp8_e4m3_to_fp32(0x01) == 0x1p-9f &&
                isnan(orr_fp8_e4m3_to_fp32(0x7f)));
    assert_true(orr_fp4_e2m1_to_fp32(7) == 6 && orr_fp4_e2m1_to_fp32(1) == 0.5f);
    assert_int_equal(orr_fp32_to_fp8_e4m3(1e9f), 0x7e);
    assert_int_equal(orr_fp32_to_fp8_e4m3(-1e9f), 0xfe);
    assert_int_equal(orr_fp32_to_fp8_e4m3(NAN), 0x7f);
    assert_int_equal(orr_fp32_to_fp4_e2m1(-100), 0xf);
}

static void test_integers(void **state)
{
    (void)state;
    const float from[] = {-1e20f, -129, -1.5f, 0.49f, 127.4f, 1e20f, NAN};
    int8_t narrow[7];
    int32_t wide[7];
    int64_t widest[7];
    orr_strided_from_fp32(ORR_DTYPE_INT8, from, 7, 1, narrow);
    assert_memory_equal(narrow, ((const int8_t[]){-128, -128, -2, 0, 127, 127, 0}), 7);
    orr_strided_from_fp32(ORR_DTYPE_INT32, from, 7, 4, wide);
    assert_int_equal(wide[0], INT32_MIN);
    assert_int_equal(wide[5], 0x7fffff80);
    orr_strided_from_fp32(ORR_DTYPE_INT64, from, 7, 8, widest);
    assert_true(widest[0] == INT64_MIN && widest[5] == INT64_MAX - 0x7fffffffff);
}

static void test_strides(void **state)
{
    (void)state;
    const uint16_t bf16[] = {0x3f80, 0, 0x4000, 0, 0x4040, 0}; /* 1, 2, 3 */
    float got[3];
    orr_strided_to_fp32(ORR_DTYPE_BF16, bf16, 4, 3, got);
    assert_true(got[0] == 1 && got[1] == 2 && got[2] == 3);
    orr_strided_to_fp32(ORR_DTYPE_BF16, bf16 + 2, 0, 3, got);
    assert_true(got[0] == 2 && got[1] == 2 && got[2] == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_floats),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_strides),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
