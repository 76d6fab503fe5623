/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/philox.h"

/* Known answers published with Random123 (kat_vectors, philox4x32 10). */
static void known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        orr_philox4x32(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].want, sizeof out);
    }
}

static void sequence_is_the_counter(void **state)
{
    (void)state;
    orr_random random = orr_random_of(0, 0);
    assert_int_equal(orr_random_u32(&random), 0x6627e8d5);
    assert_int_equal(orr_random_u32(&random), 0xe169c58d);
    orr_random fork = random;
    assert_true(orr_random_u64(&random) == UINT64_C(0x9b00dbd8bc57ac4c));
    assert_true(orr_random_u64(&fork) == UINT64_C(0x9b00dbd8bc57ac4c));
    orr_random other = orr_random_of(0, 1);
    assert_int_not_equal(orr_random_u32(&other), 0x6627e8d5);

    orr_random wrap = orr_random_of(5, 0);
    wrap.counter[0] = UINT32_MAX;
    (void)orr_random_u32(&wrap);
    assert_int_equal(wrap.counter[0], 0);
    assert_int_equal(wrap.counter[1], 1);
}

static void below_is_even(void **state)
{
    (void)state;
    enum { BOUND = 7, DRAWS = 70000 };
    orr_random random = orr_random_of(20240501, 3);
    int counts[BOUND] = {0};
    for (int i = 0; i < DRAWS; i++) {
        const uint64_t x = orr_random_below(&random, BOUND);
        assert_true(x < BOUND);
        counts[x]++;
    }
    /* 10,000 each; the standard deviation is 93. */
    for (int i = 0; i < BOUND; i++)
        assert_in_range(counts[i], 9500, 10500);
    const uint64_t huge = (UINT64_C(1) << 63) + 1;
    for (int i = 0; i < 1000; i++)
        assert_true(orr_random_below(&random, huge) < huge);
    assert_true(orr_random_below(&random, 1) == 0);
}

static void unit_fills_its_range(void **state)
{
    (void)state;
    orr_random random = orr_random_of(1, 1);
    double sum = 0, low = 1, high = 0;
    for (int i = 0; i < 100000; i++) {
        const double x = orr_random_unit(&random);
        assert_true(x >= 0 && x < 1);
        sum += x;
        low = fmin(low, x);
        high = fmax(high, x);
    }
    assert_true(fabs(sum / 100000 - 0.5) < 0.005);
    assert_true(low < 0.001 && high > 0.999);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),
        cmocka_unit_test(sequence_is_the_counter),
        cmocka_unit_test(below_is_even),
        cmocka_unit_test(unit_fills_its_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
