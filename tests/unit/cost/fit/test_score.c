/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/fit/data.h"

static void errors_are_as_defined(void **state)
{
    (void)state;
    const double ns[] = {100, 200};
    const orr_fit_cell cell = {.ns = ns, .point = {.count = 2}};
    orr_fit_errors errors = {0};

    assert_true(orr_fit_errors_add(&errors, &cell, 150)); /* 50 % over, 25 % under */
    const orr_fit_score score = orr_fit_errors_score(&errors);
    assert_true(fabs(score.mape - 0.375) < 1e-12);
    assert_true(fabs(score.gmae - sqrt((0.5 + 4e-4) * (0.25 + 4e-4))) < 1e-12);
    assert_true(score.p90 == 0.5);
    orr_fit_errors_done(&errors);
}

static void the_90th_percentile_is_the_nearest_rank(void **state)
{
    (void)state;
    double ns[20];
    orr_fit_errors errors = {0};
    for (int i = 0; i < 20; i++)
        ns[i] = 100.0 / (1 + 0.01 * (i + 1)); /* errors of 1 to 20 % */
    const orr_fit_cell cell = {.ns = ns, .point = {.count = 20}};
    assert_true(orr_fit_errors_add(&errors, &cell, 100));
    assert_true(fabs(orr_fit_errors_score(&errors).p90 - 0.18) < 1e-9);
    orr_fit_errors_done(&errors);
}

static void of_nothing_there_is_no_error(void **state)
{
    (void)state;
    orr_fit_errors errors = {0};
    const orr_fit_score score = orr_fit_errors_score(&errors);
    assert_true(isnan(score.gmae) && isnan(score.mape) && isnan(score.p90));
}

static orr_fit_cell cell_of(uint32_t place, const double *ns, uint64_t n, double roofline_ns)
{
    return (orr_fit_cell){
        .place = place, .ns = ns, .point = {.count = n}, .roofline_ns = roofline_ns};
}

/* A shape that was measured a thousand times counts as much as one that was measured once. */
static void groups_count_alike(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_fit_comparison duel;
    double many[1000];
    const double once[] = {exp(1)};
    for (int i = 0; i < 1000; i++)
        many[i] = 1;
    const orr_fit_cell a = cell_of(0, many, 1000, 1), b = cell_of(2, once, 1, exp(3));

    assert_int_equal(orr_fit_comparison_new(3, arena, &duel, NULL), ORR_OK);
    orr_fit_comparison_reset(&duel);
    orr_fit_comparison_add(&duel, &a, 1);
    orr_fit_comparison_add(&duel, &b, 1);
    const orr_fit_comparison_result verdict = orr_fit_comparison_end(&duel);
    assert_int_equal(verdict.groups, 2);
    assert_true(fabs(verdict.distance - 0.5) < 1e-12);
    orr_arena_free(arena);
}

static void ahead_is_more_than_chance(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_fit_comparison duel;
    const double ns[] = {1};

    assert_int_equal(orr_fit_comparison_new(10, arena, &duel, NULL), ORR_OK);
    assert_false(orr_fit_comparison_end(&duel).ahead); /* of nothing */
    assert_true(isinf(orr_fit_comparison_end(&duel).distance));
    for (uint32_t i = 0; i < 10; i++) { /* better everywhere */
        const orr_fit_cell cell = cell_of(i, ns, 1, exp(0.5 + 0.01 * i));
        orr_fit_comparison_add(&duel, &cell, exp(0.1));
    }
    assert_true(orr_fit_comparison_end(&duel).ahead);
    orr_fit_comparison_reset(&duel);
    for (uint32_t i = 0; i < 10; i++) { /* much better once, a little worse else */
        const orr_fit_cell cell = cell_of(i, ns, 1, exp(i == 0 ? 2.0 : 0.1));
        orr_fit_comparison_add(&duel, &cell, exp(0.25));
    }
    assert_false(orr_fit_comparison_end(&duel).ahead);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_are_as_defined),
        cmocka_unit_test(the_90th_percentile_is_the_nearest_rank),
        cmocka_unit_test(of_nothing_there_is_no_error),
        cmocka_unit_test(groups_count_alike),
        cmocka_unit_test(ahead_is_more_than_chance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
