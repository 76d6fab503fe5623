/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static void test_measured_facts_come_first(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const orr_device_rates r = orr_device_rates_of(&device);
    bool assumed = false;
    assert_true(r.memory_bytes_per_s == 1e12);
    assert_true(r.l2_bytes_per_s == 4e12);
    assert_true(r.vector_flops == 10e12);
    assert_true(r.pcie_bytes_per_s == 10e9);
    assert_false(r.memory_assumed || r.pcie_assumed);
    assert_true(orr_device_matmul_rate(&device, ORR_DTYPE_FP16, &assumed) == 100e12);
    assert_false(assumed);
}

static void test_published_ones_are_cut(void **state)
{
    (void)state;
    orr_device device = small_device();
    device.achievable_memory_bytes_per_s = (orr_fact){.value = NAN, .source = ""};
    device.matmul_flops[ORR_DTYPE_FP16] = (orr_fact){.value = NAN, .source = ""};
    device.peak_flops[ORR_DTYPE_FP16] = small_published(200e12);
    device.pcie_bytes_per_s = small_published(16e9);
    const orr_device_rates r = orr_device_rates_of(&device);
    bool assumed = false;
    assert_true(r.memory_assumed && r.pcie_assumed);
    assert_true(r.memory_bytes_per_s > 0.85 * 1.2e12 && r.memory_bytes_per_s < 1.2e12);
    assert_true(r.pcie_bytes_per_s < 16e9);
    const double products = orr_device_matmul_rate(&device, ORR_DTYPE_FP16, &assumed);
    assert_true(assumed && products > 100e12 && products < 200e12);
}

/* BF16 is as fast as FP16; where a type is not known at all, FP32 does it. */
static void test_nearest_type(void **state)
{
    (void)state;
    const orr_device device = small_device();
    bool assumed = false;
    assert_true(orr_device_matmul_rate(&device, ORR_DTYPE_BF16, &assumed) == 100e12);
    assert_true(assumed);
    assert_true(orr_device_matmul_rate(&device, ORR_DTYPE_TF32, &assumed) == 10e12);
    assert_true(isnan(orr_device_matmul_rate(&device, ORR_DTYPE_FP64, NULL)));
}

static void test_nothing_known(void **state)
{
    (void)state;
    const orr_device nothing = {.name = ""};
    const orr_device_rates r = orr_device_rates_of(&nothing);
    assert_true(isnan(r.memory_bytes_per_s) && isnan(r.sms) && isnan(r.vector_flops));
    assert_true(r.l2_bytes == 0 && r.floor_ns > 0 && r.pcie_bytes_per_s > 0 && r.memory_assumed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_facts_come_first),
        cmocka_unit_test(test_published_ones_are_cut),
        cmocka_unit_test(test_nearest_type),
        cmocka_unit_test(test_nothing_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
