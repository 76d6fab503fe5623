/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static bool price(const orr_device *device, orr_work w, orr_price *ret)
{
    const orr_cost_model *model = orr_cost_roofline();
    return model->price(model, device, &w, ret);
}

static int64_t ns_of(orr_work w)
{
    const orr_device device = small_device();
    orr_price p;
    assert_true(price(&device, w, &p));
    assert_int_equal(p.basis, ORR_BASIS_ROOFLINE);
    assert_string_equal(p.model, "roofline");
    const double error = orr_roofline_error((orr_kernel_family)w.family);
    assert_true(isnan(error) ? isnan(p.error_frac) : p.error_frac == error);
    return p.ns;
}

static orr_work smallest(unsigned family)
{
    orr_work w = {.family = (uint8_t)family,
                  .dtype = ORR_DTYPE_FP32,
                  .n_dims = ORR_WORK_DIMS,
                  .op = "",
                  .kernel = ""};
    for (int i = 0; i < ORR_WORK_DIMS; i++)
        w.dims[i] = 2;
    return w;
}

static void test_floor_and_growth_of_every_family(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const double floor_ns = orr_device_rates_of(&device).floor_ns;
    for (unsigned family = ORR_FAMILY_GEMM; family < ORR_FAMILIES; family++) {
        orr_work w = smallest(family);
        if (family == ORR_FAMILY_CONVOLUTION)
            w.dims[7] = 1;
        const int64_t least = ns_of(w);
        w.dims[0] = 100000000;
        const int64_t most = ns_of(w);
        if ((double)least < floor_ns || most <= least)
            fail_msg("%s: %lld, then %lld", orr_kernel_family_name((orr_kernel_family)family),
                     (long long)least, (long long)most);
    }
}

static void test_elements_by_bytes(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const double floor_ns = orr_device_rates_of(&device).floor_ns;
    /* 8 GB at 1 TB/s */
    assert_true(fabs((double)ns_of(SMALL_WORK(ELEMENTWISE, 1000000000)) - floor_ns - 8e6) < 2);
    orr_work concat = SMALL_WORK(CONCAT, 1000000000);
    assert_true(fabs((double)ns_of(concat) - floor_ns - 8e6 / 0.79) < 2);
    /* gelu is bound by its FLOPs: 175 at 10 TFLOP/s take longer than 8 bytes at 1 TB/s */
    orr_work gelu = SMALL_WORK(ELEMENTWISE, 1000000000);
    gelu.op = "aten::gelu";
    assert_true(fabs((double)ns_of(gelu) - floor_ns - 17.5e6) < 2);
}

static void test_copies_by_direction(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(COPY, 1000000000);
    w.copy = ORR_COPY_HTOD;
    const int64_t from_host = ns_of(w);
    w.copy = ORR_COPY_DTOH;
    assert_int_equal(ns_of(w), from_host);
    w.copy = ORR_COPY_DTOD;
    assert_true(ns_of(w) < from_host / 10);
    assert_true(from_host > 100000000 && from_host < 100010000); /* 1 GB at 10 GB/s */
}

static void test_says_what_is_assumed(void **state)
{
    (void)state;
    orr_device device = small_device();
    orr_price p;
    device.memory_bytes_per_s = small_published(1e12);
    orr_work w = SMALL_WORK(GEMM, 1, 64, 64, 64);
    w.dtype = ORR_DTYPE_BF16; /* only FP16 was measured */
    assert_true(price(&device, w, &p));
    assert_string_equal(p.model, "roofline, assumed efficiency");
    w.dtype = ORR_DTYPE_FP16;
    assert_true(price(&device, w, &p));
    assert_string_equal(p.model, "roofline");
    device.achievable_memory_bytes_per_s = (orr_fact){.value = NAN, .source = ""};
    assert_true(price(&device, SMALL_WORK(CONCAT, 100), &p));
    assert_string_equal(p.model, "roofline, assumed efficiency");
    orr_work copy = SMALL_WORK(COPY, 100); /* over PCIe, which was measured */
    copy.copy = ORR_COPY_HTOD;
    assert_true(price(&device, copy, &p));
    assert_string_equal(p.model, "roofline");
}

static void test_nothing_known(void **state)
{
    (void)state;
    const orr_device device = small_device(), nothing = {.name = ""};
    orr_price p = {.ns = 42};
    const orr_work unknown = {.family = ORR_FAMILY_GEMM, .dtype = ORR_DTYPE_FP32};
    assert_false(price(&device, unknown, &p));
    assert_false(price(NULL, SMALL_WORK(ELEMENTWISE, 10), &p));
    assert_false(price(&nothing, SMALL_WORK(ELEMENTWISE, 10), &p));
    assert_int_equal(p.ns, 42);
    /* bytes without dims are enough */
    orr_work bytes = {.family = ORR_FAMILY_OTHER, .dtype = ORR_DTYPE_FP32, .read_bytes = 1e9};
    assert_true(ns_of(bytes) > 1000000);
    bytes.read_bytes = 1e300; /* never past the end of time */
    assert_true(ns_of(bytes) == INT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_floor_and_growth_of_every_family),
        cmocka_unit_test(test_elements_by_bytes),
        cmocka_unit_test(test_copies_by_direction),
        cmocka_unit_test(test_says_what_is_assumed),
        cmocka_unit_test(test_nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
