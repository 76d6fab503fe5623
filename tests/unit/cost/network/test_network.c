/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cost/collective/collective.h"
#include "cost/network/fitted_constants.h"

static orr_fact fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "test"};
}

static const orr_span HOST = {.n_ranks = 8, .n_levels = 2, .width = {8, 1}, .even = true};

static void levels_as_they_are_without_measurements(void **state)
{
    (void)state;
    const orr_level levels[] = {{.size = 8,
                                 .devices = 8,
                                 .topology = ORR_TOPOLOGY_RING,
                                 .bytes_per_s = fact(1e11),
                                 .latency_ns = fact(900),
                                 .oversubscription = fact(1)},
                                {.size = 4,
                                 .devices = 32,
                                 .bytes_per_s = fact(NAN),
                                 .latency_ns = fact(NAN),
                                 .oversubscription = fact(7),
                                 .technology = "string",
                                 .in_network_reduction = true}};
    const orr_cluster cluster = {.n_levels = 2, .n_devices = 32, .levels = levels};
    orr_network network;
    orr_network_of_cluster(&cluster, &network);
    assert_int_equal(network.n_levels, 2);
    assert_int_equal(network.levels[0].basis, ORR_BASIS_ASSUMED);
    assert_true(isnan(network.levels[0].error_frac));
    assert_true(network.levels[0].alpha_ns[ORR_PROTOCOL_MID] == 900);
    assert_true(network.levels[0].bytes_per_s[ORR_PROTOCOL_LATENCY] == 1e11);
    assert_int_equal(network.topology[0], ORR_TOPOLOGY_RING);
    assert_int_equal(network.size[0], 8);
    assert_true(network.levels[1].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] == 1e9);
    assert_true(network.levels[1].alpha_ns[ORR_PROTOCOL_BANDWIDTH] == 0);
    assert_true(network.oversubscription[1] == 7 && network.in_network[1]);
    const orr_price price =
        orr_collective_price(&network, &HOST, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_RING, 800000);
    assert_int_equal(price.ns, 14 * 900 + 14000);
    assert_int_equal(price.basis, ORR_BASIS_ASSUMED);
    assert_true(isnan(price.error_frac));
}

/* A host whose NVLink has half the bandwidth of that which was measured moves bytes half as
 * fast. */
static void fitted_constants_scale_with_the_link(void **state)
{
    (void)state;
    orr_level level = {.size = 8,
                       .devices = 8,
                       .bytes_per_s = fact(450e9),
                       .latency_ns = fact(1),
                       .oversubscription = fact(1),
                       .technology = "NVLink4",
                       .in_network_reduction = true};
    const orr_cluster cluster = {.n_levels = 1, .n_devices = 8, .levels = &level};
    orr_network whole, half;
    orr_network_of_cluster(&cluster, &whole);
    level.bytes_per_s = fact(225e9);
    orr_network_of_cluster(&cluster, &half);
    const orr_fitted_constants *fit = orr_fitted_constants_of("NVLink4");
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        assert_true(whole.reduction[0].bytes_per_s[p] == fit->reduction.bytes_per_s[p]);
        assert_true(half.reduction[0].bytes_per_s[p] == fit->reduction.bytes_per_s[p] / 2);
        assert_true(half.levels[0].base_ns[p] == fit->messages.base_ns[p]);
    }
    for (int64_t bytes = 8; bytes < INT64_C(1) << 36; bytes *= 8) { /* what was measured wins */
        const orr_price price =
            orr_collective_price(&whole, &HOST, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO, bytes);
        assert_int_equal(price.basis, ORR_BASIS_FITTED);
        assert_string_equal(price.model, "in_network");
        assert_true(price.error_frac == fit->reduction.error_frac);
    }
    assert_null(orr_fitted_constants_of("NVLink9"));
    assert_null(orr_fitted_constants_of(NULL));
}

static void nics_are_a_network_of_their_own(void **state)
{
    (void)state;
    orr_network network = {.n_levels = 4, .scale_up = {true}};
    assert_int_equal(orr_network_lowest_level(&network, 0), 0);
    assert_int_equal(orr_network_lowest_level(&network, 1), 1);
    assert_int_equal(orr_network_lowest_level(&network, 2), 1);
    network.scale_up[1] = true; /* NVLink in a host and between the hosts of a rack */
    assert_int_equal(orr_network_lowest_level(&network, 1), 0);
    assert_int_equal(orr_network_lowest_level(&network, 3), 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_as_they_are_without_measurements),
        cmocka_unit_test(fitted_constants_scale_with_the_link),
        cmocka_unit_test(nics_are_a_network_of_their_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
