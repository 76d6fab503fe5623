/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/models/learned.h"

/* Two trees: by FLOPs, then by SMs, which a device may not say. */
static const orr_tree_node NODES[] = {
    {.value = 20, .feature = ORR_FEATURE_FLOPS, .child = 1},
    {.value = 0.5f, .feature = -1},
    {.value = 7, .feature = ORR_FEATURE_SMS, .child = 3, .missing_left = true},
    {.value = 0.25f, .feature = -1},
    {.value = -0.25f, .feature = -1},
    {.value = 0.125f, .feature = -1},
};
static const uint32_t ROOTS[] = {0, 5};
static const orr_trees TREES = {NODES, ROOTS, 2, 6};

static void a_tree_is_walked_left_when_less(void **state)
{
    (void)state;
    float x[ORR_FEATURES] = {0};
    x[ORR_FEATURE_FLOPS] = 19.999f;
    assert_true(orr_trees_sum(&TREES, x) == 0.5f + 0.125f);
    x[ORR_FEATURE_FLOPS] = 20;
    x[ORR_FEATURE_SMS] = 6;
    assert_true(orr_trees_sum(&TREES, x) == 0.25f + 0.125f);
    x[ORR_FEATURE_SMS] = 7;
    assert_true(orr_trees_sum(&TREES, x) == -0.25f + 0.125f);
    x[ORR_FEATURE_SMS] = NAN;
    assert_true(orr_trees_sum(&TREES, x) == 0.25f + 0.125f);
    x[ORR_FEATURE_FLOPS] = NAN; /* missing goes right there */
    assert_true(orr_trees_sum(&TREES, x) == 0.25f + 0.125f);
    assert_true(orr_trees_sum(&(orr_trees){0}, x) == 0);
}

static void features_are_logarithms(void **state)
{
    (void)state;
    const orr_device device = some_device("one", 100e12, 1e12);
    const orr_work work = gemm(63, 127, 255);
    const orr_cost_model *roofline = orr_cost_roofline();
    float x[ORR_FEATURES];
    double roofline_ns;
    orr_price price;

    assert_true(orr_learned_features(&device, &work, x, &roofline_ns));
    assert_true(roofline->price(roofline, &device, &work, &price));
    assert_true(roofline_ns == (double)price.ns);
    assert_true(x[ORR_FEATURE_DIM1] == 6 && x[ORR_FEATURE_DIM2] == 7 && x[ORR_FEATURE_DIM3] == 8);
    assert_true(x[ORR_FEATURE_DIM4] == 0);
    assert_true(x[ORR_FEATURE_ELEMENT_BYTES] == 2);
    assert_true(isnan(x[ORR_FEATURE_L2_BYTES])); /* the device does not say */
    assert_true(fabsf(x[ORR_FEATURE_PEAK_FLOPS] - log2f(100e12f)) < 1e-4f);
    for (int f = 0; f < ORR_FEATURES; f++)
        assert_true(f == ORR_FEATURE_L2_BYTES || isfinite(x[f]));
}

static orr_cost_learned made_up(void)
{
    orr_cost_learned learned = {0};
    orr_learned_family family = {.present = true,
                                 .base = -0.5,
                                 .trees = TREES,
                                 .error_frac = 0.1,
                                 .samples = 9,
                                 .groups = 9};
    for (int f = 0; f < ORR_FEATURES; f++) {
        family.low[f] = f == ORR_FEATURE_L2_BYTES ? NAN : 0;
        family.high[f] = f == ORR_FEATURE_L2_BYTES ? NAN : 60;
    }
    family.high[ORR_FEATURE_DIM1] = 8;
    learned.families[ORR_FAMILY_GEMM] = family;
    return learned;
}

static void the_roofline_is_scaled(void **state)
{
    (void)state;
    const orr_cost_learned learned = made_up();
    const orr_device device = some_device("one", 100e12, 1e12);
    const orr_work work = gemm(255, 1024, 1024);
    float x[ORR_FEATURES];
    double roofline_ns;
    orr_price price;

    assert_true(orr_learned_price(&learned, &device, &work, &price));
    assert_true(orr_learned_features(&device, &work, x, &roofline_ns));
    const double want = roofline_ns * exp(-0.5 + (double)orr_trees_sum(&TREES, x));
    assert_int_equal(price.ns, llround(want));
    assert_int_equal(price.basis, ORR_BASIS_LEARNED);
    assert_true(price.error_frac == 0.1);
    assert_string_equal(price.model, "learned");
}

static void outside_the_hull_the_error_is_not_known(void **state)
{
    (void)state;
    const orr_cost_learned learned = made_up();
    const orr_device device = some_device("one", 100e12, 1e12);
    orr_device informed = device;
    informed.l2_bytes = known(40e6);
    const orr_work inside = gemm(255, 1024, 1024), outside = gemm(256, 1024, 1024);
    orr_price price;

    assert_true(orr_learned_price(&learned, &device, &inside, &price));
    assert_false(isnan(price.error_frac));
    assert_true(orr_learned_price(&learned, &device, &outside, &price));
    assert_true(isnan(price.error_frac));
    assert_true(orr_learned_price(&learned, &informed, &inside, &price));
    assert_true(isnan(price.error_frac)); /* it was fitted where L2 was not known */
}

static void what_was_not_fitted_is_not_answered(void **state)
{
    (void)state;
    orr_cost_learned learned = made_up();
    const orr_device device = some_device("one", 100e12, 1e12);
    orr_work work = gemm(255, 1024, 1024);
    orr_price price;

    work.family = ORR_FAMILY_NORM;
    assert_false(orr_learned_price(&learned, &device, &work, &price));
    work.family = 99;
    assert_false(orr_learned_price(&learned, &device, &work, &price));
    work = (orr_work){.family = ORR_FAMILY_OTHER, .dtype = ORR_DTYPE_FP32, .op = "", .kernel = ""};
    learned.families[ORR_FAMILY_OTHER] = learned.families[ORR_FAMILY_GEMM];
    assert_false(orr_learned_price(&learned, &device, &work, &price)); /* no roofline */
    work = gemm(255, 1024, 1024);
    learned.families[ORR_FAMILY_GEMM].base = 900; /* beyond any time */
    assert_false(orr_learned_price(&learned, &device, &work, &price));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tree_is_walked_left_when_less),
        cmocka_unit_test(features_are_logarithms),
        cmocka_unit_test(the_roofline_is_scaled),
        cmocka_unit_test(outside_the_hull_the_error_is_not_known),
        cmocka_unit_test(what_was_not_fitted_is_not_answered),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
