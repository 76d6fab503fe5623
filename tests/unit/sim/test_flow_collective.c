/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_cluster.h"

#include <math.h>

/* Collectives as flows: alone on the network they take their price, and each member sends and
 * gets what the collective says. */

static small_cluster cluster_of(int which)
{
    small_cluster s = {0};
    switch (which) {
    case 0:
        small_level(&s, 8, ORR_TOPOLOGY_SWITCH, 400e9, 1000, 1);
        break;
    case 1:
        small_level(&s, 8, ORR_TOPOLOGY_RING, 400e9, 1000, 1);
        break;
    case 2:
        small_level(&s, 8, ORR_TOPOLOGY_FULLY_CONNECTED, 400e9, 1000, 1);
        break;
    case 3:
        small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 450e9, 1000, 1);
        small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 50e9, 5000, 2);
        break;
    default:
        small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 450e9, 1000, 1);
        small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 50e9, 5000, 1);
        small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 5e9, 50000, 3);
        break;
    }
    small_flows(&s);
    return s;
}

static int64_t run_alone(small_cluster *s, const orr_demands *demands, int64_t now_ns)
{
    uint64_t tag;
    assert_int_equal(
        orr_flows_begin(s->flows, now_ns, demands->at, demands->n, demands->latency_ns, 1, &s->err),
        ORR_OK);
    return small_next(s, &tag) - now_ns;
}

/* The groups fill their units, and every algorithm's closed form counts the busiest link. */
static void alone_they_take_their_price(void **state)
{
    static const struct {
        orr_collective collective;
        orr_algorithm algorithm;
    } cases[] = {
        {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_RING},
        {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HALVING_DOUBLING},
        {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_DIRECT},
        {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_HIERARCHICAL},
        {ORR_COLL_ALL_REDUCE, ORR_ALGORITHM_AUTO},
        {ORR_COLL_ALL_GATHER, ORR_ALGORITHM_RING},
        {ORR_COLL_ALL_GATHER, ORR_ALGORITHM_AUTO},
        {ORR_COLL_REDUCE_SCATTER, ORR_ALGORITHM_HIERARCHICAL},
        {ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_DIRECT},
        {ORR_COLL_ALL_TO_ALL, ORR_ALGORITHM_AUTO},
        {ORR_COLL_BARRIER, ORR_ALGORITHM_AUTO},
    };
    (void)state;
    for (int which = 0; which < 5; which++) {
        small_cluster s = cluster_of(which);
        uint32_t members[16];
        orr_demands demands = {0};
        const uint32_t n = s.cluster.n_devices;
        int64_t now_ns = 0;
        for (uint32_t i = 0; i < n; i++)
            members[i] = (i * 5 + 3) % n; /* any order */
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
            for (int64_t bytes = 1000; bytes < INT64_C(10000000000); bytes *= 100) {
                assert_int_equal(orr_flows_of_collective(s.flows, members, n, cases[i].collective,
                                                         cases[i].algorithm, bytes, 0, &demands,
                                                         &s.err),
                                 ORR_OK);
                const int64_t ns = run_alone(&s, &demands, now_ns);
                now_ns += ns;
                const double want = (double)demands.price.ns;
                /* shifts of a ring both ways around share links that steps use one by one */
                const double low = which == 1 || which == 2 ? 0.4 : 1;
                if ((double)ns > want * (1 + 1e-5) + 64 ||
                    (double)ns < low * want * (1 - 1e-5) - 64)
                    fail_msg("cluster %d, %s %s of %lld bytes: flows %lld ns, price %lld ns", which,
                             orr_collective_name(cases[i].collective), demands.price.model,
                             (long long)bytes, (long long)ns, (long long)demands.price.ns);
            }
        orr_demands_done(&demands);
        orr_flows_free(s.flows);
    }
}

typedef struct traffic {
    int64_t sent[16], got[16];
} traffic;

static traffic traffic_of(const orr_demands *demands)
{
    traffic t = {0};
    for (size_t i = 0; i < demands->n; i++) {
        assert_true(demands->at[i].bytes > 0 && demands->at[i].src != demands->at[i].dst);
        t.sent[demands->at[i].src] += demands->at[i].bytes;
        t.got[demands->at[i].dst] += demands->at[i].bytes;
    }
    return t;
}

/* 2 (n - 1) / n S by every member of an all-reduce, (n - 1) / n S by those of the others,
 * whatever the algorithm, topology and levels: what all that are optimal have in common. */
static void members_send_what_the_collective_says(void **state)
{
    static const orr_algorithm optimal[] = {ORR_ALGORITHM_RING, ORR_ALGORITHM_HALVING_DOUBLING,
                                            ORR_ALGORITHM_DIRECT, ORR_ALGORITHM_HIERARCHICAL};
    const int64_t bytes = 16 * 15 * 7 * 64 * 100;
    (void)state;
    for (int which = 0; which < 5; which++) {
        small_cluster s = cluster_of(which);
        const uint32_t n = s.cluster.n_devices;
        orr_demands demands = {0};
        uint32_t members[16];
        for (uint32_t i = 0; i < n; i++)
            members[i] = i;
        for (int a = 0; a < 4; a++)
            for (int rounds = 1; rounds <= 2; rounds++) {
                const int64_t want = bytes / n * (n - 1) * rounds;
                assert_int_equal(
                    orr_flows_of_collective(s.flows, members, n,
                                            rounds == 2 ? ORR_COLL_ALL_REDUCE : ORR_COLL_ALL_GATHER,
                                            optimal[a], bytes, 0, &demands, &s.err),
                    ORR_OK);
                if (demands.price.model != orr_algorithm_name(optimal[a]))
                    continue; /* does not serve here */
                const traffic t = traffic_of(&demands);
                for (uint32_t i = 0; i < n; i++)
                    assert_true(t.sent[i] == want && t.got[i] == want);
            }
        orr_demands_done(&demands);
        orr_flows_free(s.flows);
    }
}

static void roots_send_and_get(void **state)
{
    static const orr_algorithm algorithms[] = {ORR_ALGORITHM_RING, ORR_ALGORITHM_TREE,
                                               ORR_ALGORITHM_DIRECT};
    (void)state;
    small_cluster s = cluster_of(0);
    const uint32_t members[8] = {7, 6, 5, 4, 3, 2, 1, 0};
    orr_demands demands = {0};
    for (int a = 0; a < 3; a++) {
        assert_int_equal(orr_flows_of_collective(s.flows, members, 8, ORR_COLL_BROADCAST,
                                                 algorithms[a], 1000, 2, &demands, &s.err),
                         ORR_OK);
        traffic t = traffic_of(&demands);
        assert_int_equal(demands.n, 7);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(t.got[i], i == 5 ? 0 : 1000);
        assert_int_equal(orr_flows_of_collective(s.flows, members, 8, ORR_COLL_REDUCE,
                                                 algorithms[a], 1000, 2, &demands, &s.err),
                         ORR_OK);
        t = traffic_of(&demands);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(t.sent[i], i == 5 ? 0 : 1000);
    }
    for (int a = 1; a < 3; a++) {
        assert_int_equal(orr_flows_of_collective(s.flows, members, 8, ORR_COLL_SCATTER,
                                                 algorithms[a], 8000, 2, &demands, &s.err),
                         ORR_OK);
        traffic t = traffic_of(&demands);
        for (uint32_t i = 0; i < 8; i++)
            assert_int_equal(t.got[i] - t.sent[i], i == 5 ? -7000 : 1000);
    }
    assert_int_equal(orr_flows_of_collective(s.flows, members, 2, ORR_COLL_SEND, ORR_ALGORITHM_AUTO,
                                             123, 0, &demands, &s.err),
                     ORR_OK);
    assert_int_equal(demands.n, 1);
    assert_true(demands.at[0].src == 7 && demands.at[0].dst == 6 && demands.at[0].bytes == 123);
    orr_demands_done(&demands);
    orr_flows_free(s.flows);
}

/* Rings leave a host through all of its NICs. */
static void rings_cross_hosts_through_every_device(void **state)
{
    (void)state;
    small_cluster s = cluster_of(3);
    orr_demands demands = {0};
    uint32_t members[16];
    for (uint32_t i = 0; i < 16; i++)
        members[i] = i;
    assert_int_equal(orr_flows_of_collective(s.flows, members, 16, ORR_COLL_ALL_REDUCE,
                                             ORR_ALGORITHM_RING, 1 << 20, 0, &demands, &s.err),
                     ORR_OK);
    uint32_t across = 0;
    for (size_t i = 0; i < demands.n; i++)
        across += demands.at[i].src / 4 != demands.at[i].dst / 4;
    assert_int_equal(across, 16);
    orr_demands_done(&demands);
    orr_flows_free(s.flows);
}

static void groups_that_lie_unevenly_and_bad_ones(void **state)
{
    (void)state;
    small_cluster s = cluster_of(3);
    orr_demands demands = {0};
    const uint32_t uneven[] = {0, 1, 2, 5, 9}, beyond[] = {0, 16}, twice[] = {3, 3};
    assert_int_equal(orr_flows_of_collective(s.flows, uneven, 5, ORR_COLL_ALL_REDUCE,
                                             ORR_ALGORITHM_RING, 5000, 0, &demands, &s.err),
                     ORR_OK);
    const traffic t = traffic_of(&demands);
    for (uint32_t i = 0; i < 5; i++)
        assert_int_equal(t.sent[uneven[i]], 8000);
    assert_int_equal(orr_flows_of_collective(s.flows, beyond, 2, ORR_COLL_ALL_REDUCE,
                                             ORR_ALGORITHM_RING, 5000, 0, &demands, &s.err),
                     ORR_INVALID);
    assert_int_equal(orr_flows_of_collective(s.flows, twice, 2, ORR_COLL_ALL_REDUCE,
                                             ORR_ALGORITHM_RING, 5000, 0, &demands, &s.err),
                     ORR_INVALID);
    orr_demands_done(&demands);
    orr_flows_free(s.flows);
}

/* All pairs of many are not followed one by one, unless that is what the collective is. */
static void large_groups(void **state)
{
    enum { N = 4096 };
    (void)state;
    small_cluster s = {0};
    static uint32_t members[N];
    orr_demands demands = {0};
    small_level(&s, 8, ORR_TOPOLOGY_SWITCH, 450e9, 1000, 1);
    small_level(&s, N / 8, ORR_TOPOLOGY_SWITCH, 50e9, 5000, 1);
    small_flows(&s);
    for (uint32_t i = 0; i < N; i++)
        members[i] = i;
    assert_int_equal(orr_flows_of_collective(s.flows, members, N, ORR_COLL_ALL_REDUCE,
                                             ORR_ALGORITHM_DIRECT, 1 << 20, 0, &demands, &s.err),
                     ORR_OK);
    assert_string_equal(demands.price.model, "direct");
    assert_int_equal(demands.n, 2 * N);
    assert_int_equal(orr_flows_of_collective(s.flows, members, N, ORR_COLL_ALL_TO_ALL,
                                             ORR_ALGORITHM_AUTO, 1 << 20, 0, &demands, &s.err),
                     ORR_LIMIT);
    orr_demands_done(&demands);
    orr_flows_free(s.flows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(alone_they_take_their_price),
        cmocka_unit_test(members_send_what_the_collective_says),
        cmocka_unit_test(roots_send_and_get),
        cmocka_unit_test(rings_cross_hosts_through_every_device),
        cmocka_unit_test(groups_that_lie_unevenly_and_bad_ones),
        cmocka_unit_test(large_groups),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
