/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/fit/table.h"

typedef struct scene {
    orr_device one;
    orr_samples *samples;
    orr_arena *arena;
    orr_fit_data data;
    orr_cost_table *table;
    const char *remarks[ORR_FAMILIES];
    orr_error err;
} scene;

static int setup(void **state)
{
    static scene s;
    s = (scene){.one = some_device("one", 100e12, 1e12),
                .samples = orr_samples_new(),
                .arena = orr_arena_new(0, 0)};
    *state = &s;
    return 0;
}

static int teardown(void **state)
{
    scene *s = *state;
    orr_samples_free(s->samples);
    orr_arena_free(s->arena);
    return 0;
}

static void fit(scene *s)
{
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    assert_int_equal(orr_fit_table(&s->data, s->arena, &s->table, s->remarks, &s->err), ORR_OK);
}

/* Every shape of the train and validation sides is in it, none of the test side. */
static void the_test_side_stays_out(void **state)
{
    scene *s = *state;
    add_gemms(s->samples, &s->one, 2);
    fit(s);
    assert_true(s->table->families[ORR_FAMILY_GEMM].neighbours > 0);
    assert_int_equal(s->table->n, 1);
    const orr_fit_split *split = &s->data.splits[ORR_FAMILY_GEMM];
    assert_int_equal(s->table->series[0].n,
                     split->groups[ORR_SUBSET_TRAIN] + split->groups[ORR_SUBSET_VALIDATION]);
    for (size_t i = 0; i < s->data.n; i++) {
        const orr_fit_cell *cell = &s->data.cells[i];
        bool in = false;
        for (uint32_t p = 0; p < s->table->series[0].n; p++)
            in |= orr_table_compare_points(&s->table->series[0].points[p], &cell->point) == 0;
        assert_int_equal(in, cell->side != ORR_SUBSET_TEST);
    }
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "nearest shape"));
    assert_null(s->remarks[ORR_FAMILY_NORM]);
}

static void repeats_say_how_much_measurements_scatter(void **state)
{
    scene *s = *state;
    for (int64_t m = 1; m <= 4; m++) {
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 100);
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 100);
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 125);
    }
    fit(s);
    /* |100/125 - 1| in one of three, times 3/2 */
    assert_true(fabs(s->table->families[ORR_FAMILY_GEMM].repeat_frac - 0.1) < 1e-12);
    assert_true(isnan(s->table->families[ORR_FAMILY_GEMM].error_frac));
}

static void with_few_shapes_only_those_are_answered(void **state)
{
    scene *s = *state;
    orr_price price;
    for (int64_t m = 1; m <= 6; m++)
        add_sample(s->samples, &s->one, gemm(100 * m, 64, 64), 1000 + (double)m);
    fit(s);
    assert_int_equal(s->table->families[ORR_FAMILY_GEMM].neighbours, 0);
    assert_true(isnan(s->table->families[ORR_FAMILY_GEMM].repeat_frac));
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "measured shapes only: "));
    for (int64_t m = 1; m <= 6; m++) { /* all of them: nothing is claimed that a test would check */
        const orr_work work = gemm(100 * m, 64, 64);
        assert_true(orr_table_price(s->table, &s->one, &work, &price));
        assert_int_equal(price.ns, 1000 + m);
    }
    const orr_work between = gemm(250, 64, 64);
    assert_false(orr_table_price(s->table, &s->one, &between, &price));
}

/* Times that have nothing to do with the shape: interpolation is no better than the roofline. */
static void noise_is_not_interpolated(void **state)
{
    scene *s = *state;
    const orr_cost_model *roofline = orr_cost_roofline();
    orr_random random = orr_random_of(3, 0);
    for (int64_t m = 1; m <= 200; m++) {
        const orr_work work = gemm(64 * m, 1024, 1024);
        orr_price price;
        assert_true(roofline->price(roofline, &s->one, &work, &price));
        const double factor = exp(2 * orr_random_unit(&random) - 1);
        add_sample(s->samples, &s->one, work, (double)price.ns * factor);
    }
    fit(s);
    assert_int_equal(s->table->families[ORR_FAMILY_GEMM].neighbours, 0);
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "not clearly better than roofline"));
}

static void no_memory_is_survived(void **state)
{
    scene *s = *state;
    orr_status status = ORR_NO_MEMORY;
    add_gemms(s->samples, &s->one, 1);
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(nth);
        status = orr_fit_table(&s->data, arena, &s->table, s->remarks, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_test_side_stays_out, setup, teardown),
        cmocka_unit_test_setup_teardown(repeats_say_how_much_measurements_scatter, setup, teardown),
        cmocka_unit_test_setup_teardown(with_few_shapes_only_those_are_answered, setup, teardown),
        cmocka_unit_test_setup_teardown(noise_is_not_interpolated, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_survived, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
