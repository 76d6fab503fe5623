/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cost/network/alpha_beta_fit.h"
#include "cost/collective/collective.h"

static orr_network network_of(void)
{
    orr_network network = {.n_levels = 1, .in_network = {true}, .oversubscription = {1}};
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        network.levels[0].alpha_ns[p] = 100 * (p + 1);
        network.reduction[0].alpha_ns[p] = 50 * (p + 1);
    }
    return network;
}

/* Points that a network itself gives. */
static size_t points_of(const orr_network *network, orr_algorithm algorithm, orr_busbw_point *ret)
{
    size_t n = 0;
    for (int64_t bytes = 1 << 10; bytes <= INT64_C(1) << 34; bytes *= 4, n++) {
        const orr_span span = {.n_ranks = 8, .n_levels = 1, .width = {8}, .even = true};
        ret[n] = (orr_busbw_point){.span = span,
                                   .collective = ORR_COLL_ALL_REDUCE,
                                   .algorithm = (uint8_t)algorithm,
                                   .bytes = bytes};
        orr_coll_schedule schedule;
        ret[n].ns = orr_coll_choose(network, &ret[n].span, ORR_COLL_ALL_REDUCE, algorithm,
                                    (double)bytes, &algorithm, &schedule);
    }
    return n;
}

static void finds_the_constants_again(void **state)
{
    static const orr_algorithm algorithms[] = {ORR_ALGORITHM_IN_NETWORK, ORR_ALGORITHM_RING};
    (void)state;
    for (int i = 0; i < 2; i++) {
        orr_network true_one = network_of(), found = network_of();
        orr_alpha_beta *c = i == 0 ? &true_one.reduction[0] : &true_one.levels[0];
        orr_busbw_point points[16];
        orr_error err;
        double loss;
        const double base_ns[] = {5000, 60000, 400000}, rate[] = {1e10, 1e11, 3e11};
        memcpy(c->base_ns, base_ns, sizeof base_ns);
        memcpy(c->bytes_per_s, rate, sizeof rate);
        const size_t n = points_of(&true_one, algorithms[i], points);
        assert_int_equal(orr_alpha_beta_fit(&found, 0, i == 0, 4e11, points, n, &loss, &err),
                         ORR_OK);
        const orr_alpha_beta *at = i == 0 ? &found.reduction[0] : &found.levels[0];
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            assert_true(fabs(at->base_ns[p] - base_ns[p]) < 1e-3 * base_ns[p]);
            assert_true(fabs(at->bytes_per_s[p] - rate[p]) < 1e-3 * rate[p]);
        }
        assert_int_equal(at->basis, ORR_BASIS_FITTED);
        assert_true(loss < 1e-6);

        points[5].ns *= 40; /* what makes no sense costs no more than itself */
        assert_int_equal(orr_alpha_beta_fit(&found, 0, i == 0, 4e11, points, n, &loss, &err),
                         ORR_OK);
        assert_true(loss <= log(40) / (double)n);
    }
}

static void no_bandwidth_above_the_link(void **state)
{
    (void)state;
    orr_network true_one = network_of(), found = network_of();
    orr_busbw_point points[16];
    orr_error err;
    for (int p = 0; p < ORR_PROTOCOLS; p++)
        true_one.reduction[0].bytes_per_s[p] = 3e11;
    const size_t n = points_of(&true_one, ORR_ALGORITHM_IN_NETWORK, points);
    assert_int_equal(orr_alpha_beta_fit(&found, 0, true, 2e11, points, n, NULL, &err), ORR_INVALID);
    assert_int_equal(orr_alpha_beta_fit(&found, 0, true, 4e11, points, 0, NULL, &err), ORR_INVALID);
    assert_true(found.reduction[0].bytes_per_s[0] == 0); /* as it was */
}

/* nccl-tests doc/PERFORMANCE.md. */
static void bus_bandwidth_as_nccl_tests_define_it(void **state)
{
    (void)state;
    assert_true(orr_busbw_ns(ORR_COLL_ALL_REDUCE, 8, 800, 1e9) == 1400);
    assert_true(orr_busbw_ns(ORR_COLL_ALL_GATHER, 8, 800, 1e9) == 700);
    assert_true(orr_busbw_ns(ORR_COLL_REDUCE_SCATTER, 8, 800, 1e9) == 700);
    assert_true(orr_busbw_ns(ORR_COLL_ALL_TO_ALL, 8, 800, 1e9) == 700);
    assert_true(orr_busbw_ns(ORR_COLL_BROADCAST, 8, 800, 1e9) == 800);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_the_constants_again),
        cmocka_unit_test(no_bandwidth_above_the_link),
        cmocka_unit_test(bus_bandwidth_as_nccl_tests_define_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
