/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static double attention_ns(orr_work w)
{
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    orr_work_complete(&w);
    return orr_attention_ns(&device, &rates, &w);
}

/* 100 full blocks on 100 multiprocessors: the FLOPs over half the rate of matrix products. */
static void test_full_blocks(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(ATTENTION, 10, 10, 128, 6400, 64);
    const double flops = 4.0 * 100 * 128 * 6400 * 64;
    assert_true(fabs(attention_ns(w) - 1e9 * flops / 5e12) < 1e-3);
    w.dims[2] = 64; /* half a block takes as long */
    assert_true(fabs(attention_ns(w) - 1e9 * flops / 5e12) < 1e-3);
    w.dims[2] = 129; /* a second one twice as long */
    assert_true(fabs(attention_ns(w) - 2e9 * flops / 5e12) < 1e-3);
    w.n_dims = 4;
    assert_true(isnan(attention_ns(w)));
}

static void test_monotone(void **state)
{
    (void)state;
    for (int dim = 0; dim < 5; dim++) {
        double before = 0;
        for (int64_t size = 1; size < 3000; size += 1 + size / 9) {
            orr_work w = SMALL_WORK(ATTENTION, 3, 8, 200, 300, 64);
            w.dims[dim] = size;
            const double ns = attention_ns(w);
            if (ns < before * (1 - 1e-12))
                fail_msg("dim %d at %lld: %f after %f", dim, (long long)size, ns, before);
            before = ns;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_blocks),
        cmocka_unit_test(test_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
