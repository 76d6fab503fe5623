/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_cluster.h"

#include <math.h>

#include "base/alloc.h"

/* ns for `bytes` at bytes/ns, when rates are whole units: within a hair. */
static void assert_about(int64_t ns, double want)
{
    if (fabs((double)ns - want) > 1 + 1e-6 * want)
        fail_msg("%lld ns, not about %.1f", (long long)ns, want);
}

static void flows_share_what_they_share(void **state)
{
    (void)state;
    small_cluster s = {0};
    uint64_t tag;
    small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    small_begin(&s, 0, 0, 1, 10000000, 1); /* two leave device 0, two enter device 3 */
    small_begin(&s, 0, 0, 3, 10000000, 2);
    small_begin(&s, 0, 2, 3, 30000000, 3);
    assert_about(small_next(&s, &tag), 200000); /* 50 GB/s each */
    assert_in_range(tag, 1, 2);
    assert_about(small_next(&s, &tag), 200000);
    assert_about(small_next(&s, &tag), 400000); /* the third: 10 MB so far, then all of the port */
    assert_int_equal(tag, 3);
    int64_t at_ns;
    assert_false(orr_flows_next(s.flows, &at_ns));
    orr_flows_free(s.flows);
}

static void what_begins_later_slows_what_is_under_way(void **state)
{
    (void)state;
    small_cluster s = {0};
    uint64_t tag;
    small_level(&s, 3, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    small_begin(&s, 0, 0, 1, 10000000, 1); /* alone 100 us */
    small_begin(&s, 50000, 0, 2, 10000000, 2);
    assert_about(small_next(&s, &tag), 150000); /* 5 MB at half the rate */
    assert_int_equal(tag, 1);
    assert_about(small_next(&s, &tag), 200000);
    assert_int_equal(tag, 2);
    orr_flows_free(s.flows);
}

static void an_oversubscribed_uplink_is_shared_by_the_host(void **state)
{
    (void)state;
    uint64_t tag;
    small_cluster s = small_hosts(2);
    small_flows(&s);
    small_begin(&s, 0, 0, 4, 50000000, 1); /* alone: the NIC's 50 GB/s */
    assert_about(small_next(&s, &tag), 1e6);
    for (uint32_t d = 0; d < 4; d++)
        small_begin(&s, 2000000, d, 4 + d, 50000000, d);
    for (int d = 0; d < 4; d++) /* all four: 4 x 50 / 2 GB/s together */
        assert_about(small_next(&s, &tag), 2e6 + 2e6);
    orr_flows_free(s.flows);
}

static void a_transfer_ends_after_its_last_flow_and_its_latency(void **state)
{
    (void)state;
    const orr_flow_demand demands[] = {{0, 1, 10000000}, {1, 0, 30000000}, {2, 2, 5}, {2, 3, 0}};
    small_cluster s = {0};
    uint64_t tag;
    small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    assert_int_equal(orr_flows_begin(s.flows, 0, demands, 4, 777, 9, &s.err), ORR_OK);
    assert_about(small_next(&s, &tag), 300777);
    assert_int_equal(tag, 9);
    assert_int_equal(orr_flows_begin(s.flows, 400000, demands, 0, 5, 10, &s.err), ORR_OK);
    assert_int_equal(small_next(&s, &tag), 400005); /* nothing to carry */
    assert_int_equal(orr_flows_add(s.flows, 500000, 0, 3, 100000, 11, &s.err), ORR_OK);
    assert_about(small_next(&s, &tag), 502000); /* 1 us and the latency of the level */
    orr_flows_free(s.flows);
}

static void those_that_end_together_come_in_the_order_of_beginning(void **state)
{
    (void)state;
    small_cluster s = {0};
    const uint64_t *done;
    size_t n = 0;
    int64_t at_ns = 0;
    small_level(&s, 8, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    small_begin(&s, 0, 0, 1, 1000000, 30);
    small_begin(&s, 0, 2, 3, 1000000, 10);
    small_begin(&s, 0, 4, 5, 1000000, 20);
    assert_true(orr_flows_next(s.flows, &at_ns));
    orr_flows_advance(s.flows, at_ns, &done, &n);
    assert_int_equal(n, 3);
    assert_int_equal(done[0], 30);
    assert_int_equal(done[1], 10);
    assert_int_equal(done[2], 20);
    orr_flows_free(s.flows);
}

static void bad_demands_are_refused(void **state)
{
    (void)state;
    small_cluster s = {0};
    uint64_t tag;
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    const orr_flow_demand beyond = {0, 2, 1}, negative = {0, 1, -1},
                          huge = {0, 1, ORR_FLOW_BYTES_MAX + 1}, good = {0, 1, 1000000};
    assert_int_equal(orr_flows_begin(s.flows, 0, &beyond, 1, 0, 0, &s.err), ORR_INVALID);
    assert_string_equal(s.err.text, "a flow from device 0 to 2: there are 2");
    assert_int_equal(orr_flows_begin(s.flows, 0, &negative, 1, 0, 0, &s.err), ORR_INVALID);
    assert_int_equal(orr_flows_begin(s.flows, 0, &huge, 1, 0, 0, &s.err), ORR_LIMIT);
    assert_int_equal(orr_flows_begin(s.flows, 100, &good, 1, 0, 7, &s.err), ORR_OK);
    assert_int_equal(orr_flows_begin(s.flows, 99, &good, 1, 0, 0, &s.err), ORR_INVALID);
    assert_string_equal(s.err.text, "flows at 99 ns, before 100 ns");
    assert_int_equal(orr_flows_begin(s.flows, 1000000, &good, 1, 0, 0, &s.err), ORR_INVALID);
    assert_non_null(strstr(s.err.text, "past what happens at 10"));
    assert_about(small_next(&s, &tag), 10100); /* none of them disturbed it */
    assert_int_equal(tag, 7);
    orr_flows_free(s.flows);
    orr_flows_free(NULL);
}

static void links_say_what_they_carried(void **state)
{
    (void)state;
    small_cluster s = {0};
    const orr_link_use *use;
    uint32_t n;
    uint64_t tag;
    orr_arena *arena = orr_arena_new(0, 0);
    small_level(&s, 3, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    small_begin(&s, 0, 0, 1, 10000000, 1);
    small_begin(&s, 0, 2, 1, 10000000, 2);
    (void)small_next(&s, &tag);
    (void)small_next(&s, &tag);
    small_begin(&s, 300000, 0, 1, 10000000, 3);
    (void)small_next(&s, &tag); /* until 400 us */
    assert_int_equal(orr_flows_links(s.flows, 0, arena, &use, &n, &s.err), ORR_OK);
    assert_int_equal(n, 3);
    assert_true(use[0].unit == 0 && use[0].up && use[0].bytes == 20000000);
    assert_true(use[1].unit == 1 && !use[1].up && use[1].bytes == 30000000);
    assert_true(use[2].unit == 2 && use[2].up && use[2].bytes == 10000000);
    assert_about((int64_t)use[1].busy_ns, 300000);
    assert_true(fabs(use[1].utilisation_frac - 0.75) < 1e-4);
    assert_true(fabs(use[0].load_frac[0] - 0.5) < 1e-4);
    assert_int_equal(use[0].n_samples, 4); /* half, nothing, all, nothing */
    assert_int_equal(use[0].at_ns[2], 300000);
    orr_arena_free(arena);
    orr_flows_free(s.flows);
}

static void half_way_links_have_carried_half(void **state)
{
    (void)state;
    small_cluster s = {0};
    const orr_link_use *use;
    uint32_t n;
    orr_arena *arena = orr_arena_new(0, 0);
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 100e9, 1000, 1);
    small_flows(&s);
    small_begin(&s, 0, 0, 1, 10000000, 1);
    small_begin(&s, 50000, 1, 0, 10, 2);
    assert_int_equal(orr_flows_links(s.flows, 0, arena, &use, &n, &s.err), ORR_OK);
    assert_int_equal(n, 4);
    assert_true(fabs(use[0].bytes - 5000000) < 10);
    orr_arena_free(arena);
    orr_flows_free(s.flows);
}

/* Every allocation on the way fails once; what was under way is not disturbed. */
static void survives_without_memory(void **state)
{
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        small_cluster s = small_hosts(2);
        s.cluster.levels = s.levels;
        orr_network_of_cluster(&s.cluster, &s.network);
        orr_alloc_fail_from(nth);
        orr_status status = orr_flows_new(&s.cluster, &s.network, &s.flows, &s.err);
        if (status == ORR_OK) {
            orr_flow_demand all[64];
            for (uint32_t i = 0; i < 64; i++)
                all[i] = (orr_flow_demand){i / 8, i % 8, 1000 * (i + 1)};
            status = orr_flows_begin(s.flows, 0, all, 1, 0, 1, &s.err);
            if (status == ORR_OK)
                status = orr_flows_begin(s.flows, 0, all, 64, 0, 2, &s.err);
            orr_alloc_fail_from(0);
            uint64_t tag;
            if (status == ORR_OK) {
                assert_int_equal(small_next(&s, &tag), 0); /* device 0 to itself */
                (void)small_next(&s, &tag);
                assert_int_equal(tag, 2);
            } else {
                int64_t at_ns;
                while (orr_flows_next(s.flows, &at_ns)) {
                    const uint64_t *done;
                    size_t n;
                    orr_flows_advance(s.flows, at_ns, &done, &n);
                }
            }
            orr_flows_free(s.flows);
        }
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_share_what_they_share),
        cmocka_unit_test(what_begins_later_slows_what_is_under_way),
        cmocka_unit_test(an_oversubscribed_uplink_is_shared_by_the_host),
        cmocka_unit_test(a_transfer_ends_after_its_last_flow_and_its_latency),
        cmocka_unit_test(those_that_end_together_come_in_the_order_of_beginning),
        cmocka_unit_test(bad_demands_are_refused),
        cmocka_unit_test(links_say_what_they_carried),
        cmocka_unit_test(half_way_links_have_carried_half),
        cmocka_unit_test(survives_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
