/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/collective/collective.h"

/* Collectives over sites: long hops, thin cuts, units that are not alike. */

static orr_network a_network(double far_ns, double oversubscription)
{
    orr_network network = {.n_levels = 2, .oversubscription = {1, oversubscription}};
    for (uint32_t k = 0; k < 2; k++)
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network.levels[k].alpha_ns[p] = k == 0 ? 1e4 : far_ns;
            network.levels[k].bytes_per_s[p] = 50e9;
        }
    return network;
}

static orr_span a_span(uint32_t inside, uint32_t across)
{
    return (orr_span){.n_ranks = inside * across,
                      .n_levels = 2,
                      .width = {inside, across},
                      .top = across > 1,
                      .even = true};
}

static double need(const orr_network *network, const orr_span *span, orr_collective collective,
                   orr_algorithm algorithm, double bytes, orr_coll_schedule *ret)
{
    assert_true(orr_coll_schedule_of(network, span, collective, algorithm, bytes, ret));
    return orr_coll_schedule_ns(network, ret);
}

/* Over two sites 1,000 km apart a full exchange is one hop, where a ring has two: alone, and as the
 * phase between the sites. */
static void doubling_over_long_hops(void **state)
{
    (void)state;
    const orr_network network = a_network(5e6, 1);
    const orr_span alone = a_span(1, 2), deep = a_span(16, 2);
    for (int64_t bytes = 1; bytes < (int64_t)1 << 40; bytes *= 8) {
        const orr_price price =
            orr_collective_price(&network, &alone, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO, bytes);
        assert_string_equal(price.model, "recursive_doubling");
        orr_coll_schedule schedule;
        (void)need(&network, &deep, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, (double)bytes,
                   &schedule);
        assert_true(schedule.phases[schedule.n - 1].steps[1] == 1);
    }
    const orr_span many = a_span(1, 64); /* few bytes: 2 hops of pairs; rings have 126 */
    assert_true(
        orr_collective_price(&network, &many, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO, 64).ns <=
        10010000);
}

/* Doubling over 2^6 ranks, bit by bit: who sends how much across which level. */
static void carried(bool nearest_first, uint32_t bits_inside, double bytes, double ret[2])
{
    enum { BITS = 6 };
    double has = bytes / (1 << BITS);
    ret[0] = ret[1] = 0;
    for (uint32_t i = 0; i < BITS; i++) {
        const uint32_t bit = nearest_first ? i : BITS - 1 - i;
        ret[bit >= bits_inside] += has;
        has *= 2;
    }
}

static void farthest_first_carries_less_across(void **state)
{
    (void)state;
    const orr_network network = a_network(75e3, 2.8);
    for (uint32_t inside = 1; inside < 6; inside++) {
        const orr_span span = a_span(1u << inside, 64u >> inside);
        double near[2], far[2];
        orr_coll_phase phase;
        orr_coll_schedule schedule;
        carried(true, inside, 64e6, near);
        carried(false, inside, 64e6, far);
        orr_coll_gather_nearest_first(&network, &span, 64e6, &phase);
        const double ns = need(&network, &span, ORR_COLL_ALL_GATHER,
                               ORR_ALGORITHM_RECURSIVE_DOUBLING, 64e6, &schedule);
        for (uint32_t k = 0; k < 2; k++) {
            assert_true(fabs(phase.sent[k] - near[k]) < 1);
            assert_true(fabs(schedule.phases[0].sent[k] - far[k]) < 1);
            assert_true(phase.steps[k] == schedule.phases[0].steps[k]);
        }
        assert_true(fabs(phase.sent[1] / schedule.phases[0].sent[1] - (1 << inside)) < 1e-9);
        assert_true(orr_coll_phase_ns(&network, &phase, NULL) > ns);
    }
}

static void compressed_across(void **state)
{
    (void)state;
    orr_network network = a_network(5e6, 4.5);
    const orr_span span = a_span(16, 2);
    orr_coll_schedule plain, half;
    const double S = 16e9;
    network.memory_bytes_per_s = 2e12;
    (void)need(&network, &span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, S, &plain);
    network.bytes_frac[1] = 0.5;
    (void)need(&network, &span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, S, &half);
    assert_memory_equal(&plain.phases[0], &half.phases[0], sizeof plain.phases[0]);
    const orr_coll_phase *was = &plain.phases[2], *is = &half.phases[2];
    assert_true(is->bytes[1] == was->bytes[1] / 2 && is->sent[1] == was->sent[1] / 2);
    assert_true(is->steps[1] == was->steps[1]);
    assert_true(is->copied_bytes == 3 * S / 16); /* read, written half; read half, written */
    const double saved_ns = was->bytes[1] / 2 / 50, copied_ns = 3 * S / 16 / 2000;
    assert_true(fabs(orr_coll_phase_ns(&network, was, NULL) -
                     orr_coll_phase_ns(&network, is, NULL) - (saved_ns - copied_ns)) < 1);
    network.bytes_frac[1] = 0;
    const int64_t weights_ns =
        orr_collective_price(&network, &span, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RING, 1 << 30).ns;
    network.bytes_frac[1] = 0.5; /* weights are not gradients */
    assert_int_equal(
        weights_ns,
        orr_collective_price(&network, &span, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RING, 1 << 30).ns);
}

/* Five replicas in one site and three in the other: three ports are what the cut has. */
static void through_the_smaller_site(void **state)
{
    (void)state;
    orr_network network = a_network(5e6, 1);
    orr_span uneven = a_span(5, 2);
    orr_coll_schedule schedule;
    uneven.n_ranks = 8;
    uneven.even = false;
    (void)need(&network, &uneven, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 15e9, &schedule);
    assert_true(schedule.phases[2].bytes[1] == 3e9); /* as it ever was */
    network.uneven[1] = true;
    (void)need(&network, &uneven, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 15e9, &schedule);
    assert_true(schedule.phases[2].bytes[1] == 5e9);
    assert_true(schedule.phases[0].bytes[0] == 12e9);
    uneven.n_ranks = 9; /* five and four */
    (void)need(&network, &uneven, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 12e9, &schedule);
    assert_true(schedule.phases[2].bytes[1] == 3e9);
    uneven.n_ranks = 6; /* five and one: half of the mean of three */
    (void)need(&network, &uneven, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 12e9, &schedule);
    assert_true(schedule.phases[2].bytes[1] == 8e9);
    uneven.n_ranks = 8;
    /* each of the three speaks to five others, whatever the ports */
    (void)need(&network, &uneven, ORR_COLL_ALL_GATHER, ORR_ALGORITHM_DIRECT, 8e9, &schedule);
    assert_true(schedule.phases[0].bytes[1] == 5e9);
    uneven.even = true; /* five each */
    (void)need(&network, &uneven, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 15e9, &schedule);
    assert_true(schedule.phases[2].bytes[1] == 3e9);
}

/* More pieces hide the cut behind what is inside, until their latency is more than they hide. */
static void pieces_have_a_best_number(void **state)
{
    (void)state;
    orr_network network = a_network(1e6, 7);
    const orr_span span = a_span(16, 2);
    orr_coll_schedule schedule;
    double at[13];
    for (uint32_t i = 0; i < 13; i++) {
        network.chunks = 1u << i;
        at[i] =
            need(&network, &span, ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL, 4e9, &schedule);
        assert_int_equal(schedule.pieces, network.chunks);
    }
    assert_true(at[4] < 0.83 * at[0] && at[12] > 2 * at[4]);
    uint32_t turns = 0;
    for (uint32_t i = 2; i < 13; i++)
        turns += (at[i] > at[i - 1]) != (at[i - 1] > at[i - 2]);
    assert_int_equal(turns, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(doubling_over_long_hops),
        cmocka_unit_test(farthest_first_carries_less_across),
        cmocka_unit_test(compressed_across),
        cmocka_unit_test(through_the_smaller_site),
        cmocka_unit_test(pieces_have_a_best_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
