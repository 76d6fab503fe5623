/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/fit/boost.h"
#include "cost/fit/learned.h"

typedef struct scene {
    orr_device one;
    orr_samples *samples;
    orr_arena *arena;
    orr_fit_data data;
    orr_cost_learned *learned;
    orr_fit_progress progress;
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

static void skip_without_xgboost(void)
{
    const char *why;
    if (orr_boost_available(&why))
        return;
    print_message("%s\n", why);
    skip();
}

static void fit(scene *s)
{
    assert_int_equal(orr_fit_data_make(s->samples, 1, s->arena, &s->data, &s->err), ORR_OK);
    s->progress.total = orr_fit_learned_steps(&s->data);
    assert_int_equal(
        orr_fit_learned(&s->data, s->arena, &s->progress, &s->learned, s->remarks, &s->err),
        ORR_OK);
    assert_int_equal(s->progress.done, s->progress.total);
}

/* Times that are what `factor` makes of the roofline, of 150 shapes. */
static void add_scaled(scene *s, double (*factor)(orr_random *random, int64_t m))
{
    const orr_cost_model *roofline = orr_cost_roofline();
    orr_random random = orr_random_of(9, 0);
    for (int64_t m = 1; m <= 150; m++) {
        const orr_work work = gemm(64 * m, 2048, 2048);
        orr_price price;
        assert_true(roofline->price(roofline, &s->one, &work, &price));
        add_sample(s->samples, &s->one, work, factor(&random, m) * (double)price.ns);
    }
}

static double noise(orr_random *random, int64_t m)
{
    (void)m;
    return exp(2 * orr_random_unit(random) - 1);
}

static double constant(orr_random *random, int64_t m)
{
    (void)random, (void)m;
    return 1.7;
}

static double stairs(orr_random *random, int64_t m)
{
    return (m <= 50 ? 1.2 : m <= 100 ? 2.5 : 1.6) * (0.99 + 0.02 * orr_random_unit(random));
}

static void few_shapes_get_no_trees(void **state)
{
    scene *s = *state;
    for (int64_t m = 1; m <= 12; m++)
        add_sample(s->samples, &s->one, gemm(m, 64, 64), 1000);
    fit(s);
    assert_null(s->learned);
    assert_int_equal(s->progress.total, 0);
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "no model: "));
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "24/8/8 needed"));
    assert_null(s->remarks[ORR_FAMILY_NORM]);
}

static void noise_is_not_learned(void **state)
{
    scene *s = *state;
    skip_without_xgboost();
    add_scaled(s, noise);
    fit(s);
    assert_null(s->learned);
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], "not clearly better than roofline"));
}

/* All the same efficiency: the mean says it, and no tree is needed. */
static void a_constant_needs_no_tree(void **state)
{
    scene *s = *state;
    skip_without_xgboost();
    add_scaled(s, constant);
    fit(s);
    assert_non_null(s->learned);
    const orr_learned_family *family = &s->learned->families[ORR_FAMILY_GEMM];
    assert_true(fabs(family->base - log(1.7)) < 1e-9);
    float x[ORR_FEATURES] = {0};
    assert_true(fabsf(orr_trees_sum(&family->trees, x)) < 1e-6f);
}

static void stairs_are_learned(void **state)
{
    scene *s = *state;
    skip_without_xgboost();
    add_scaled(s, stairs);
    fit(s);
    assert_non_null(s->learned);
    const orr_learned_family *family = &s->learned->families[ORR_FAMILY_GEMM];
    const orr_fit_split *split = &s->data.splits[ORR_FAMILY_GEMM];
    assert_int_equal(family->groups,
                     split->groups[ORR_SUBSET_TRAIN] + split->groups[ORR_SUBSET_VALIDATION]);
    assert_int_equal(family->samples,
                     split->samples[ORR_SUBSET_TRAIN] + split->samples[ORR_SUBSET_VALIDATION]);
    assert_true(isnan(family->error_frac)); /* for who looks at the test side */
    assert_non_null(strstr(s->remarks[ORR_FAMILY_GEMM], " trees of depth "));
    for (int64_t m = 5; m < 150; m += 10) {
        const double want = m <= 50 ? 1.2 : m <= 100 ? 2.5 : 1.6;
        const orr_work work = gemm(64 * m, 2048, 2048);
        float x[ORR_FEATURES];
        double roofline_ns;
        orr_price price;
        assert_true(orr_learned_features(&s->one, &work, x, &roofline_ns));
        assert_true(orr_learned_price(s->learned, &s->one, &work, &price));
        assert_true(fabs((double)price.ns / roofline_ns / want - 1) < 0.1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(few_shapes_get_no_trees, setup, teardown),
        cmocka_unit_test_setup_teardown(noise_is_not_learned, setup, teardown),
        cmocka_unit_test_setup_teardown(a_constant_needs_no_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(stairs_are_learned, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
