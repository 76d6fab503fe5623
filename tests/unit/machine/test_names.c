/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

static void names_are_those_of_the_lists(void **state)
{
    (void)state;
    assert_string_equal(orr_fact_basis_name(ORR_FACT_UNKNOWN), "unknown");
    assert_string_equal(orr_fact_basis_name(ORR_FACT_ASSUMED), "assumed");
    assert_string_equal(orr_dtype_name(ORR_DTYPE_BF16), "bf16");
    assert_string_equal(orr_dtype_name(ORR_DTYPE_INT64), "int64");
    assert_string_equal(orr_topology_name(ORR_TOPOLOGY_FULLY_CONNECTED), "fully_connected");
    assert_string_equal(orr_balance_name(ORR_BALANCE_ADAPTIVE), "adaptive");
    assert_string_equal(orr_congestion_name(ORR_CONGESTION_DCQCN), "dcqcn");
    assert_string_equal(orr_buffers_name(ORR_BUFFERS_DEEP), "deep");
    assert_true(orr_dtype_bytes(ORR_DTYPE_FP4) == 0.5);
    assert_true(orr_dtype_bytes(ORR_DTYPE_TF32) == 4);
}

static void what_is_not_known_has_a_stand_in(void **state)
{
    (void)state;
    const orr_fact unknown = orr_fact_unknown();
    const orr_fact known = {.value = 3, .basis = ORR_FACT_MEASURED, .source = "me", .note = ""};
    assert_true(orr_fact_or(&unknown, 7) == 7);
    assert_true(orr_fact_or(&known, 7) == 3);
    assert_true(isnan(unknown.value));
    assert_string_equal(unknown.source, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_those_of_the_lists),
        cmocka_unit_test(what_is_not_known_has_a_stand_in),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
