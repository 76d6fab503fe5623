/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

static void test_shares(void **state)
{
    (void)state;
    small s = small_begin();
    char copy[] = "gemm"; /* the same name from another graph */
    const orr_path_piece pieces[] = {
        {.name = "op", .bound = ORR_BOUND_CPU, .from_ns = 0, .to_ns = 10},
        {.name = "gemm", .bound = ORR_BOUND_LAUNCH, .wait = true, .from_ns = 10, .to_ns = 20},
        {.name = "gemm", .bound = ORR_BOUND_COMPUTE, .from_ns = 20, .to_ns = 50},
        {.name = copy, .bound = ORR_BOUND_COMPUTE, .from_ns = 50, .to_ns = 80},
        {.name = copy, .rank = 1, .bound = ORR_BOUND_COMPUTE, .from_ns = 80, .to_ns = 100},
    };
    const orr_critical_path path = {.pieces = pieces, .n_pieces = 5, .start_ns = 0, .end_ns = 100};
    const orr_path_share *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_critical_path_shares(&path, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 4);
    assert_string_equal(rows[0].name, "gemm");
    assert_string_equal(rows[0].bound, "gpu_compute_bound");
    assert_int_equal(rows[0].rank, 0);
    assert_int_equal(rows[0].count, 2);
    assert_int_equal(rows[0].sum_ns, 60);
    assert_float_equal(rows[0].frac, 0.6, 1e-12);
    assert_int_equal(rows[1].rank, 1);
    assert_int_equal(rows[1].sum_ns, 20);
    /* equal sums: by rank, then name */
    assert_string_equal(rows[2].name, "gemm");
    assert_string_equal(rows[2].bound, "gpu_kernel_launch_overhead");
    assert_string_equal(rows[3].name, "op");
    small_end(&s);
}

static void test_of_nothing(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_critical_path path = {0};
    const orr_path_share *rows;
    size_t n = 7;
    assert_int_equal(orr_critical_path_shares(&path, s.arena, &rows, &n, &s.err), ORR_OK);
    assert_int_equal(n, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shares),
        cmocka_unit_test(test_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
