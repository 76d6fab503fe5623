/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/models/table.h"

/* One series of products of M x 256 x 256, and one of a labelled family. */
enum { POINTS = 5 };
static const int64_t SIDES[POINTS] = {64, 128, 256, 512, 65536};
static orr_device one, two;
static orr_table_point points[POINTS], labelled[2];
static orr_table_series series[2];
static orr_cost_table table;
static orr_arena *arena;

static orr_work relu(int64_t elements, const char *op)
{
    orr_work work = {.family = ORR_FAMILY_ELEMENTWISE,
                     .dtype = ORR_DTYPE_FP32,
                     .n_dims = 1,
                     .dims = {elements},
                     .op = op,
                     .kernel = "vectorized_elementwise_kernel"};
    orr_work_complete(&work);
    return work;
}

static void place(orr_table_series *into, orr_table_point *at, orr_work work, double ns)
{
    *at = orr_table_point_of(&work);
    at->ns = ns;
    at->count = 3;
    orr_table_locate(into, at);
}

static int setup(void **state)
{
    (void)state;
    one = some_device("one", 100e12, 1e12);
    two = some_device("two", 100e12, 1e12);
    const orr_work first = gemm(SIDES[0], 256, 256), op = relu(1000, "aten::relu");
    series[0] = orr_table_series_of(&one, &first);
    series[1] = orr_table_series_of(&one, &op);
    for (int i = 0; i < POINTS; i++)
        place(&series[0], &points[i], gemm(SIDES[i], 256, 256), 100.0 * (double)SIDES[i]);
    place(&series[1], &labelled[0], op, 3000);
    place(&series[1], &labelled[1], relu(4000, "aten::relu"), 4000);
    series[0].points = points;
    series[0].n = POINTS;
    series[1].points = labelled;
    series[1].n = 2;
    arena = orr_arena_new(0, 0);
    assert_int_equal(orr_table_index(&series[0], arena, NULL), ORR_OK);
    assert_int_equal(orr_table_index(&series[1], arena, NULL), ORR_OK);
    table = (orr_cost_table){.series = series, .n = 2};
    table.families[ORR_FAMILY_GEMM] = (orr_table_family){
        .present = true, .neighbours = 2, .error_frac = 0.25, .repeat_frac = 0.125};
    table.families[ORR_FAMILY_ELEMENTWISE] =
        (orr_table_family){.present = true, .repeat_frac = NAN};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void a_measured_shape_has_its_median(void **state)
{
    (void)state;
    orr_price price;
    for (int i = 0; i < POINTS; i++) {
        const orr_work work = gemm(SIDES[i], 256, 256);
        assert_true(orr_table_price(&table, &one, &work, &price));
        assert_int_equal(price.ns, 100 * SIDES[i]);
        assert_int_equal(price.basis, ORR_BASIS_TABLE);
        assert_true(price.error_frac == 0.125);
        assert_string_equal(price.model, "table");
    }
}

static void between_shapes_the_nearest_count_most(void **state)
{
    (void)state;
    orr_price price;
    const orr_work middle = gemm(181, 256, 256), low = gemm(140, 256, 256);
    assert_true(orr_table_price(&table, &one, &middle, &price));
    /* half way between 128 and 256 in octaves: their geometric mean */
    assert_in_range(price.ns, 18000, 18200);
    assert_true(price.error_frac == 0.25);
    assert_true(orr_table_price(&table, &one, &low, &price));
    assert_in_range(price.ns, 12800, 14000);
}

/* Of efficiency, what is proportional to the roofline comes out as it is. */
static void the_roofline_is_a_trend(void **state)
{
    (void)state;
    const orr_cost_model *roofline = orr_cost_roofline();
    orr_price price, reference;
    for (int i = 0; i < POINTS; i++) {
        const orr_work work = gemm(SIDES[i], 256, 256);
        assert_true(roofline->price(roofline, &one, &work, &reference));
        points[i].ns = 3.0 * (double)reference.ns;
    }
    table.families[ORR_FAMILY_GEMM].trend = true;
    const orr_work asked = gemm(400, 256, 256);
    assert_true(orr_table_price(&table, &one, &asked, &price));
    assert_true(roofline->price(roofline, &one, &asked, &reference));
    assert_in_range(price.ns, 3 * reference.ns - 2, 3 * reference.ns + 2);
}

static void outside_there_is_no_answer(void **state)
{
    (void)state;
    orr_price price;
    const orr_work outside[] = {
        gemm(63, 256, 256),    /* below the box */
        gemm(65537, 256, 256), /* above it */
        gemm(128, 255, 256),   /* beside it */
        gemm(2200, 256, 256),  /* in it, but a factor of four from all */
    };
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++)
        assert_false(orr_table_price(&table, &one, &outside[i], &price));
    const orr_work near = gemm(2040, 256, 256);
    assert_true(orr_table_price(&table, &one, &near, &price));
}

static void another_series_is_another_kernel(void **state)
{
    (void)state;
    orr_price price;
    orr_work work = gemm(128, 256, 256);
    assert_false(orr_table_price(&table, &two, &work, &price));
    work.dtype = ORR_DTYPE_FP32;
    assert_false(orr_table_price(&table, &one, &work, &price));
    work = gemm(128, 256, 256);
    work.backward = true;
    assert_false(orr_table_price(&table, &one, &work, &price));
    work = gemm(128, 256, 256);
    work.op = "aten::linear"; /* the dims say it all */
    assert_true(orr_table_price(&table, &one, &work, &price));
    work.family = ORR_FAMILY_NORM;
    assert_false(orr_table_price(&table, &one, &work, &price));
}

static void elementwise_operators_are_told_apart(void **state)
{
    (void)state;
    orr_price price;
    const orr_work same = relu(1000, "aten::relu"), other = relu(1000, "aten::gelu"),
                   between = relu(2000, "aten::relu");
    assert_true(orr_table_price(&table, &one, &same, &price));
    assert_int_equal(price.ns, 3000);
    assert_true(isnan(price.error_frac));
    assert_false(orr_table_price(&table, &one, &other, &price));
    /* neighbours 0: only what was measured */
    assert_false(orr_table_price(&table, &one, &between, &price));
    table.families[ORR_FAMILY_ELEMENTWISE].neighbours = 1;
    assert_true(orr_table_price(&table, &one, &between, &price));
}

/* A product whose shapes were not recorded, by its amounts. */
static void work_without_dims_is_told_by_its_amounts(void **state)
{
    (void)state;
    orr_work bare = {.family = ORR_FAMILY_GEMM,
                     .dtype = ORR_DTYPE_FP16,
                     .flops = 1e9,
                     .read_bytes = 1e6,
                     .op = "",
                     .kernel = ""};
    orr_table_series alone = orr_table_series_of(&one, &bare);
    orr_table_point two_points[2];
    orr_price price;

    for (int i = 0; i < 2; i++) {
        bare.flops = i == 0 ? 1e9 : 2e9;
        place(&alone, &two_points[i], bare, i == 0 ? 10000 : 20000);
    }
    alone.points = two_points;
    alone.n = 2;
    assert_int_equal(orr_table_coords(&alone), 2);
    assert_int_equal(orr_table_index(&alone, arena, NULL), ORR_OK);
    table.series = &alone;
    table.n = 1;
    bare.flops = 1.1e9;
    assert_true(orr_table_price(&table, &one, &bare, &price));
    assert_in_range(price.ns, 10000, 11500);
    bare.flops = 3e9;
    assert_false(orr_table_price(&table, &one, &bare, &price));
    bare.flops = 1.1e9;
    bare.read_bytes = 2e6;
    assert_false(orr_table_price(&table, &one, &bare, &price));
}

/* Nothing that a caller may ask walks off an array. */
static void nonsense_is_not_answered(void **state)
{
    (void)state;
    orr_price price;
    orr_work work = gemm(128, 256, 256);
    work.family = 200;
    assert_false(orr_table_price(&table, &one, &work, &price));
    work = gemm(128, 256, 256);
    work.n_dims = 9;
    assert_false(orr_table_price(&table, &one, &work, &price));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_measured_shape_has_its_median, setup, teardown),
        cmocka_unit_test_setup_teardown(between_shapes_the_nearest_count_most, setup, teardown),
        cmocka_unit_test_setup_teardown(the_roofline_is_a_trend, setup, teardown),
        cmocka_unit_test_setup_teardown(outside_there_is_no_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(another_series_is_another_kernel, setup, teardown),
        cmocka_unit_test_setup_teardown(elementwise_operators_are_told_apart, setup, teardown),
        cmocka_unit_test_setup_teardown(work_without_dims_is_told_by_its_amounts, setup, teardown),
        cmocka_unit_test_setup_teardown(nonsense_is_not_answered, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
