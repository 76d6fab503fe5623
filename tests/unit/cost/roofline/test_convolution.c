/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static double convolution_ns(orr_work w, const char *kernel)
{
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    w.kernel = kernel;
    orr_work_complete(&w);
    return orr_convolution_ns(&device, &rates, &w);
}

static void test_as_a_product(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    orr_work w = SMALL_WORK(CONVOLUTION, 32, 64, 56, 56, 128, 3, 3, 2);
    orr_work product = SMALL_WORK(GEMM, 1, 32 * 28 * 28, 128, 64 * 9);
    orr_work_complete(&w);
    product.flops = w.flops;
    product.read_bytes = w.read_bytes;
    product.write_bytes = w.write_bytes;
    assert_true(orr_convolution_ns(&device, &rates, &w) == orr_gemm_ns(&device, &rates, &product));
    w.n_dims = 7;
    assert_true(isnan(orr_convolution_ns(&device, &rates, &w)));
}

static void test_winograd_saves_products(void **state)
{
    (void)state;
    const orr_work three = SMALL_WORK(CONVOLUTION, 32, 256, 28, 28, 256, 3, 3, 1);
    const orr_work strided = SMALL_WORK(CONVOLUTION, 32, 256, 28, 28, 256, 3, 3, 2);
    const char *plain = "volta_scudnn_128x128_relu_medium_nn_v1";
    const char *winograd = "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1";
    const double saved = convolution_ns(three, plain) / convolution_ns(three, winograd);
    assert_true(saved > 2 && saved < 2.3);
    const double more =
        convolution_ns(three, plain) / convolution_ns(three, "volta_sgemm_128x128_nn");
    assert_true(more > 3.3 && more < 4.1);
    assert_true(convolution_ns(strided, plain) == convolution_ns(strided, winograd));
}

static void test_monotone(void **state)
{
    (void)state;
    for (int dim = 0; dim < 7; dim++) {
        double before = 0;
        for (int64_t size = 1; size < 300; size += 1 + size / 9) {
            orr_work w = SMALL_WORK(CONVOLUTION, 4, 32, 20, 20, 64, 1, 1, 1);
            w.dims[dim] = size;
            const double ns = convolution_ns(w, "");
            if (ns < before)
                fail_msg("dim %d at %lld: %f after %f", dim, (long long)size, ns, before);
            before = ns;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_a_product),
        cmocka_unit_test(test_winograd_saves_products),
        cmocka_unit_test(test_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
