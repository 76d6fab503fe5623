/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "base/alloc.h"
#include "cost/network/rdma_transport.h"
#include "sim/effects/multipath.h"

static orr_multipath_load drawn(const orr_multipath_job *job)
{
    orr_multipath_load load;
    orr_error err;
    assert_int_equal(orr_multipath_simulate(job, &load, &err), ORR_OK);
    assert_true(load.mean >= 1 && load.median >= 1 && load.p99 >= load.median);
    return load;
}

/* What the closed form says of the same flows, as busiest over mean of the paths that are left. At
 * least as many flows as paths, so that no path is faster than it has to be. */
static double said(const orr_multipath_job *job)
{
    const orr_rdma_transport transport = {.balance = job->balance,
                                          .queue_pairs = job->queue_pairs,
                                          .outstanding = job->segments,
                                          .paths = job->paths,
                                          .failed = job->failed};
    const orr_rdma_path place = {
        .bytes_per_s = 50e9, .oversubscription = 1, .round_trip_ns = 1, .devices = job->flows};
    return 1 / orr_rdma_effect_of(&transport, &place).balance_frac;
}

static void closed_form_of_hashed_flows(void **state)
{
    (void)state;
    double worst = 0;
    for (uint8_t balance = ORR_BALANCE_ECMP; balance <= ORR_BALANCE_SPRAY; balance++)
        for (uint32_t paths = 4; paths <= 64; paths *= 4)
            for (uint32_t flows = paths; flows <= 1024; flows *= 4)
                for (uint32_t failed = 0; failed < 3; failed += 2) {
                    const orr_multipath_job job = {.balance = balance,
                                                   .flows = flows,
                                                   .queue_pairs = 4,
                                                   .segments = 4,
                                                   .paths = paths,
                                                   .failed = failed,
                                                   .draws = 60,
                                                   .seed = 1};
                    worst = fmax(worst, fabs(said(&job) / drawn(&job).mean - 1));
                }
    print_message("closed form within %.1f %%\n", 100 * worst);
    assert_true(worst < 0.04);
}

/* The formula has 0.95 on top, for demands out of date. */
static void closed_form_of_central_engineering(void **state)
{
    (void)state;
    for (uint32_t failed = 0; failed < 8; failed++) {
        const orr_multipath_job job = {.balance = ORR_BALANCE_CENTRAL,
                                       .flows = 1000,
                                       .queue_pairs = 1,
                                       .paths = 16,
                                       .failed = failed,
                                       .draws = 200,
                                       .seed = 2};
        assert_true(fabs(0.95 * said(&job) / drawn(&job).mean - 1) < 0.03);
    }
}

static void adaptive_is_even(void **state)
{
    (void)state;
    const orr_multipath_job job = {.balance = ORR_BALANCE_ADAPTIVE,
                                   .flows = 130,
                                   .queue_pairs = 4,
                                   .paths = 16,
                                   .failed = 3,
                                   .draws = 3,
                                   .seed = 1};
    assert_true(drawn(&job).mean == 40.0 * 13 / 520);
}

static void a_seed_is_a_result(void **state)
{
    (void)state;
    orr_multipath_job job = {
        .balance = ORR_BALANCE_ECMP, .flows = 100, .paths = 16, .draws = 50, .seed = 1};
    const double first = drawn(&job).mean;
    assert_true(first == drawn(&job).mean);
    job.seed = 2;
    assert_true(first != drawn(&job).mean);
}

static void what_cannot_be(void **state)
{
    (void)state;
    const orr_multipath_job good = {
        .balance = ORR_BALANCE_ECMP, .flows = 8, .paths = 4, .draws = 2};
    orr_multipath_job bad = good;
    orr_multipath_load load;
    orr_error err;
    bad.failed = 4;
    assert_int_equal(orr_multipath_simulate(&bad, &load, &err), ORR_INVALID);
    bad = good;
    bad.flows = 0;
    assert_int_equal(orr_multipath_simulate(&bad, &load, &err), ORR_INVALID);
    for (uint64_t nth = 1; nth <= 2; nth++) {
        orr_alloc_fail_from(nth);
        assert_int_equal(orr_multipath_simulate(&good, &load, &err), ORR_NO_MEMORY);
        orr_alloc_fail_from(0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_form_of_hashed_flows),
        cmocka_unit_test(closed_form_of_central_engineering),
        cmocka_unit_test(adaptive_is_even),
        cmocka_unit_test(a_seed_is_a_result),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
