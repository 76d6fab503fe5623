/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

static bool only_copies(const orr_cost_model *self, const orr_device *device, const orr_work *work,
                        orr_price *ret)
{
    (void)device;
    if (work->family != ORR_FAMILY_COPY)
        return false;
    *ret = (orr_price){.ns = 7, .basis = ORR_BASIS_TABLE, .error_frac = 0.1, .model = self->name};
    return true;
}

static void test_first_that_answers(void **state)
{
    (void)state;
    const orr_cost_model table = {.name = "copies", .price = only_copies};
    const orr_cost_model *const models[] = {&table, orr_cost_roofline(), orr_cost_assumed()};
    const orr_cost_chain chain = {models, 3};
    const orr_device device = small_device();
    orr_work w = SMALL_WORK(COPY, 100);
    orr_price p = orr_cost_price(&chain, &device, &w);
    assert_int_equal(p.ns, 7);
    assert_string_equal(p.model, "copies");
    w = SMALL_WORK(ELEMENTWISE, 100);
    assert_int_equal(orr_cost_price(&chain, &device, &w).basis, ORR_BASIS_ROOFLINE);
    w.n_dims = 0;
    p = orr_cost_price(&chain, &device, &w);
    assert_int_equal(p.basis, ORR_BASIS_ASSUMED);
    assert_true(p.ns > 0);
}

/* A model that knows one side only gives neither: the other's error would not cancel. */
static bool only_short(const orr_cost_model *self, const orr_device *device, const orr_work *work,
                       orr_price *ret)
{
    (void)device;
    if (work->dims[0] > 100)
        return false;
    *ret = (orr_price){.ns = 3, .basis = ORR_BASIS_LEARNED, .model = self->name};
    return true;
}

static void test_both_of_one_model(void **state)
{
    (void)state;
    const orr_cost_model learned = {.name = "short", .price = only_short};
    const orr_cost_model *const models[] = {&learned, orr_cost_roofline()};
    const orr_cost_chain chain = {models, 2}, none = {models, 0};
    const orr_device device = small_device();
    const orr_work w = SMALL_WORK(ELEMENTWISE, 100), longer = SMALL_WORK(ELEMENTWISE, 100000);
    const orr_priced_work low = {&device, &w}, high = {&device, &longer};
    orr_price before, after;
    assert_true(orr_cost_price_pair(&chain, low, low, &before, &after));
    assert_string_equal(before.model, "short");
    assert_true(orr_cost_price_pair(&chain, low, high, &before, &after));
    assert_string_equal(before.model, after.model);
    assert_int_equal(before.basis, ORR_BASIS_ROOFLINE);
    assert_true(before.ns < after.ns);
    assert_false(orr_cost_price_pair(&none, low, high, &before, &after));
}

static void test_default_chain(void **state)
{
    (void)state;
    const orr_cost_chain chain = orr_cost_default_chain();
    assert_int_equal(chain.n, 2);
    assert_ptr_equal(chain.models[0], orr_cost_roofline());
    assert_ptr_equal(chain.models[1], orr_cost_assumed());
}

static void test_nobody_answers(void **state)
{
    (void)state;
    const orr_cost_chain none = {NULL, 0};
    const orr_work w = SMALL_WORK(ELEMENTWISE, 100);
    const orr_price p = orr_cost_price(&none, NULL, &w);
    assert_int_equal(p.ns, 0);
    assert_int_equal(p.basis, ORR_BASIS_NONE);
    assert_true(isnan(p.error_frac));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_that_answers),
        cmocka_unit_test(test_both_of_one_model),
        cmocka_unit_test(test_default_chain),
        cmocka_unit_test(test_nobody_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
