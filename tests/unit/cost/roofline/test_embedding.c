/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/roofline/device_rates.h"

static double embedding_ns(orr_work w)
{
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    return orr_embedding_ns(&rates, &w);
}

static double hit_rate(double bags, double rows, double lookups, double columns)
{
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    return orr_embedding_hit_rate(&rates, bags, rows, lookups, columns);
}

static void test_hit_rate(void **state)
{
    (void)state;
    /* one row, looked up 1000 times: all but the first are hits */
    assert_true(fabs(hit_rate(1000, 1, 1, 64) - 0.999) < 1e-9);
    /* far more rows than lookups: hardly any */
    assert_true(hit_rate(1000, 1e9, 1, 64) < 1e-5);
    double before = 1;
    for (double rows = 10; rows < 1e8; rows *= 3) { /* more rows, fewer hits */
        const double hits = hit_rate(2048, rows, 10, 64);
        assert_true(hits >= 0 && hits <= before);
        before = hits;
    }
    const orr_device nothing = {.name = ""};
    const orr_device_rates rates = orr_device_rates_of(&nothing);
    assert_true(orr_embedding_hit_rate(&rates, 1000, 1, 1, 64) == 0);
}

static void test_simple_bytes(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(EMBEDDING_FORWARD, 100, 1000, 10, 64, 3);
    /* 32 + 64 + r32(40) + 10 * r32(256) + r32(256) for each of 300 bags */
    assert_true(orr_embedding_simple_bytes(&w) == 300.0 * (32 + 64 + 64 + 2560 + 256));
    w.backward = true;
    assert_true(orr_embedding_simple_bytes(&w) == 300.0 * (32 + 64 + 64 + 5120 + 256));
}

static void test_monotone(void **state)
{
    (void)state;
    for (int dim = 0; dim < 5; dim++) {
        double forward = 0, backward = 0;
        for (int64_t size = 1; size < 100000; size += 1 + size / 5) {
            orr_work w = SMALL_WORK(EMBEDDING_FORWARD, 2048, 10000, 8, 64, 4);
            w.dims[dim] = size;
            const double f = embedding_ns(w);
            w.backward = true;
            const double b = embedding_ns(w);
            if (f < forward || b < backward)
                fail_msg("dim %d at %lld: %f after %f, %f after %f", dim, (long long)size, f,
                         forward, b, backward);
            forward = f;
            backward = b;
        }
    }
}

/* The three pieces meet, and no piece falls below the one before. */
static void test_curve(void **state)
{
    (void)state;
    const orr_device device = small_device();
    const orr_device_rates rates = orr_device_rates_of(&device);
    double before = orr_bandwidth_curve_ns(&rates, 0);
    assert_true(fabs(before - 4833.28223) < 1e-6);
    for (double bytes = 1; bytes < 1e11; bytes *= 1.1) {
        const double ns = orr_bandwidth_curve_ns(&rates, bytes);
        assert_true(ns >= before);
        before = ns;
    }
    const double ns = orr_bandwidth_curve_ns(&rates, 1e11);
    assert_true(fabs(ns / (1e11 / 1e12 * 1e9) - 1) < 0.01);
}

static void test_more_work_backward(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(EMBEDDING_FORWARD, 2048, 1000000, 50, 128, 8);
    const double forward = embedding_ns(w);
    w.family = ORR_FAMILY_EMBEDDING_BACKWARD;
    w.backward = true;
    const double backward = embedding_ns(w);
    assert_true(backward > 1.5 * forward && backward < 4 * forward);
    w.n_dims = 4;
    assert_true(isnan(embedding_ns(w)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hit_rate),           cmocka_unit_test(test_simple_bytes),
        cmocka_unit_test(test_monotone),           cmocka_unit_test(test_curve),
        cmocka_unit_test(test_more_work_backward),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
