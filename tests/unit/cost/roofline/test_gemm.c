/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static double gemm_ns(int64_t m, int64_t n, int64_t k, const char *kernel)
{
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    orr_work w = SMALL_WORK(GEMM, 1, m, n, k);
    w.kernel = kernel;
    orr_work_complete(&w);
    return orr_gemm_ns(&device, &rates, &w);
}

static void test_tiles_from_names(void **state)
{
    (void)state;
    int64_t m, n;
    assert_true(orr_tile_of_kernel("volta_sgemm_128x64_nt", &m, &n));
    assert_int_equal(m, 128);
    assert_int_equal(n, 64);
    assert_true(orr_tile_of_kernel("sm90_xmma_gemm_bf16_tn_n_tilesize256x128x64_w", &m, &n));
    assert_int_equal(m, 256);
    assert_true(orr_tile_of_kernel("winograd4x4_then_64x32_tile", &m, &n)); /* 4x4 is no tile */
    assert_int_equal(m, 64);
    assert_false(orr_tile_of_kernel("void gemmSN_TN_kernel<float, 128, 16>", &m, &n));
    assert_false(orr_tile_of_kernel("99999999999999999999x64", &m, &n));
    assert_false(orr_tile_of_kernel("128x", &m, &n));
    assert_false(orr_tile_of_kernel("", &m, &n));
}

/* A large product comes near the rate of the device, and never beyond it. */
static void test_large(void **state)
{
    (void)state;
    const double ideal_ns = 2.0 * 8192 * 8192 * 8192 / 10e12 * 1e9;
    const double ns = gemm_ns(8192, 8192, 8192, "");
    assert_true(ns >= ideal_ns);
    assert_true(ns < 1.1 * ideal_ns);
}

/* 101 blocks on 100 multiprocessors take two waves; 100 take one. */
static void test_waves(void **state)
{
    (void)state;
    const char *kernel = "sgemm_128x128_nn";
    const double one = gemm_ns(1280, 1280, 4096, kernel);
    const double two = gemm_ns(1280 + 1, 1280, 4096, kernel);
    assert_true(two > 1.15 * one); /* not 2: with K cut into parts the last wave is shorter */
    assert_true(gemm_ns(1280, 1280 - 127, 4096, kernel) == one);
}

static void test_monotone(void **state)
{
    (void)state;
    static const char *const KERNELS[] = {"", "volta_sgemm_32x128_nt"};
    for (int which = 0; which < 2; which++)
        for (int dim = 0; dim < 3; dim++) {
            double before = 0;
            for (int64_t size = 1; size < 5000; size += 1 + size / 7) {
                const double ns = gemm_ns(dim == 0 ? size : 300, dim == 1 ? size : 300,
                                          dim == 2 ? size : 300, KERNELS[which]);
                if (ns < before)
                    fail_msg("dim %d at %lld: %f after %f", dim, (long long)size, ns, before);
                before = ns;
            }
        }
}

static void test_thin_products_are_bound_by_memory(void **state)
{
    (void)state;
    const double bytes = 4.0 * (100000.0 * 100 + 100 + 100000);
    const double ns = gemm_ns(100000, 1, 100, "");
    assert_true(ns >= bytes / 1e12 * 1e9);
}

static void test_unknown_facts(void **state)
{
    (void)state;
    orr_device device = small_device();
    orr_work w = SMALL_WORK(GEMM, 1, 512, 512, 512);
    orr_work_complete(&w);
    device.sms = (orr_fact){.value = NAN, .source = ""};
    orr_device_rates rates = orr_device_rates_of(&device);
    assert_true(orr_gemm_ns(&device, &rates, &w) >= 2.0 * 512 * 512 * 512 / 10e12 * 1e9);
    device = (orr_device){.name = ""};
    rates = orr_device_rates_of(&device);
    assert_true(isnan(orr_gemm_ns(&device, &rates, &w)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tiles_from_names),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_waves),
        cmocka_unit_test(test_monotone),
        cmocka_unit_test(test_thin_products_are_bound_by_memory),
        cmocka_unit_test(test_unknown_facts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
