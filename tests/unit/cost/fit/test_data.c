/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/fit/data.h"

typedef struct scene {
    orr_device one, two;
    orr_samples *samples;
    orr_arena *arena;
    orr_fit_data data;
    orr_error err;
} scene;

static int setup(void **state)
{
    static scene s;
    s = (scene){.one = some_device("one", 100e12, 1e12),
                .two = some_device("two", 200e12, 2e12),
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

static void rows_of_a_shape_are_a_cell_with_its_median(void **state)
{
    scene *s = *state;
    static const double NS[] = {30, 10, 20, 1000};
    for (int i = 0; i < 3; i++)
        add_sample(s->samples, &s->one, gemm(64, 64, 64), NS[i]);
    add_sample(s->samples, &s->two, gemm(64, 64, 64), 5);
    for (int i = 0; i < 4; i++)
        add_sample(s->samples, &s->one, gemm(64, 64, 128), NS[i]);
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    assert_int_equal(s->data.n, 3);
    assert_int_equal(s->data.first[ORR_FAMILY_GEMM], 0);
    assert_int_equal(s->data.first[ORR_FAMILY_GEMM + 1], 3);
    assert_int_equal(s->data.first[ORR_FAMILIES], 3);
    assert_int_equal(s->data.groups[ORR_FAMILY_GEMM], 2);
    const orr_fit_cell *cells = s->data.cells;
    assert_true(cells[0].point.ns == 20 && cells[0].point.count == 3);
    assert_true(cells[0].ns[0] == 10 && cells[0].ns[2] == 30);
    assert_true(cells[1].point.ns == 25 && cells[1].point.count == 4);
    assert_string_equal(cells[2].series.device, "two");
    assert_true(cells[0].roofline_ns > 0);
}

/* What is one shape is on one side, whatever device, dtype or operator. */
static void a_shape_group_is_on_one_side(void **state)
{
    scene *s = *state;
    for (int64_t m = 1; m <= 300; m++)
        for (int variant = 0; variant < 4; variant++) {
            orr_work work = gemm(m, 64, 64);
            work.dtype = variant & 1 ? ORR_DTYPE_FP32 : ORR_DTYPE_FP16;
            work.backward = variant == 3;
            add_sample(s->samples, variant & 2 ? &s->two : &s->one, work, 1000);
        }
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    assert_int_equal(s->data.groups[ORR_FAMILY_GEMM], 300);
    uint8_t side_of[301];
    uint32_t place_of[301];
    memset(side_of, 99, sizeof side_of);
    for (size_t i = 0; i < s->data.n; i++) {
        const orr_fit_cell *cell = &s->data.cells[i];
        const int64_t m = cell->point.dims[1];
        if (side_of[m] == 99) {
            side_of[m] = cell->side;
            place_of[m] = cell->place;
        }
        assert_int_equal(cell->side, side_of[m]);
        assert_int_equal(cell->place, place_of[m]);
        assert_true(cell->place < 300);
    }
    const orr_fit_split *split = &s->data.splits[ORR_FAMILY_GEMM];
    uint32_t groups = 0;
    for (int side = 0; side < ORR_SUBSETS; side++) {
        groups += split->groups[side];
        assert_int_equal(split->samples[side], 4 * split->groups[side]);
    }
    assert_int_equal(groups, 300);
    assert_in_range(split->groups[ORR_SUBSET_TRAIN], 150, 210); /* 60 % of 300, five sigma */
    assert_in_range(split->groups[ORR_SUBSET_TEST], 25, 95);
}

static void another_seed_is_another_split(void **state)
{
    scene *s = *state;
    orr_fit_data again, other;
    size_t moved = 0;
    for (int64_t m = 1; m <= 200; m++)
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 1000);
    assert_int_equal(orr_fit_data_make(s->samples, 7, s->arena, &s->data, &s->err), ORR_OK);
    assert_int_equal(orr_fit_data_make(s->samples, 7, s->arena, &again, &s->err), ORR_OK);
    assert_int_equal(orr_fit_data_make(s->samples, 8, s->arena, &other, &s->err), ORR_OK);
    for (size_t i = 0; i < s->data.n; i++) {
        assert_int_equal(s->data.cells[i].side, again.cells[i].side);
        moved += s->data.cells[i].side != other.cells[i].side;
    }
    assert_in_range(moved, 60, 160); /* 56 % are expected to */
}

/* What is added later does not move a shape to another side. */
static void a_side_does_not_depend_on_the_others(void **state)
{
    scene *s = *state;
    orr_fit_data more;
    add_sample(s->samples, &s->one, gemm(100, 64, 64), 1000);
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    const uint8_t side = s->data.cells[0].side;
    for (int64_t m = 1; m < 100; m++)
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 1000);
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &more, &s->err), ORR_OK);
    assert_int_equal(more.cells[99].point.dims[1], 100);
    assert_int_equal(more.cells[99].side, side);
}

/* Where dims do not tell, FLOPs and bytes are the shape; operators of one size stay together. */
static void work_without_dims_is_grouped_by_its_amounts(void **state)
{
    scene *s = *state;
    for (int i = 0; i < 6; i++) {
        orr_work work = {.family = ORR_FAMILY_OTHER,
                         .dtype = ORR_DTYPE_FP32,
                         .flops = 10,
                         .read_bytes = i < 3 ? 100 : 200,
                         .op = "",
                         .kernel = i % 3 ? "a" : "b"};
        add_sample(s->samples, &s->one, work, 1000);
    }
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    assert_int_equal(s->data.n, 4);
    assert_int_equal(s->data.groups[ORR_FAMILY_OTHER], 2);
}

static void enough_is_enough_on_every_side(void **state)
{
    scene *s = *state;
    const orr_fit_minimum least = {{10, 5, 5}};
    orr_fit_split split = {.groups = {10, 5, 5}};
    assert_true(orr_fit_enough(&split, &least));
    for (int side = 0; side < ORR_SUBSETS; side++) {
        split.groups[side]--;
        assert_false(orr_fit_enough(&split, &least));
        split.groups[side]++;
    }
    assert_string_equal(orr_fit_too_few(&split, &orr_fit_learned_minimum, s->arena),
                        "10/5/5 shape groups, 24/8/8 needed");
}

static void no_memory_is_survived(void **state)
{
    scene *s = *state;
    orr_status status = ORR_NO_MEMORY;
    add_gemms(s->samples, &s->one, 2);
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_alloc_fail_from(nth);
        status = orr_fit_data_make(s->samples, 1, arena, &s->data, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_of_a_shape_are_a_cell_with_its_median, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(a_shape_group_is_on_one_side, setup, teardown),
        cmocka_unit_test_setup_teardown(another_seed_is_another_split, setup, teardown),
        cmocka_unit_test_setup_teardown(a_side_does_not_depend_on_the_others, setup, teardown),
        cmocka_unit_test_setup_teardown(work_without_dims_is_grouped_by_its_amounts, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(enough_is_enough_on_every_side, setup, teardown),
        cmocka_unit_test_setup_teardown(no_memory_is_survived, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
