/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_cluster.h"

/* Ways through the tree of levels. */

static void init(small_cluster *s, orr_fabric *fabric)
{
    s->cluster.levels = s->levels;
    orr_network_of_cluster(&s->cluster, &s->network);
    assert_int_equal(orr_fabric_init(fabric, &s->cluster, &s->network, &s->err), ORR_OK);
}

/* The way as text: "level.unit^" up, "v" down. */
static void assert_route(const orr_fabric *fabric, uint32_t src, uint32_t dst, const char *want,
                         int64_t want_ns)
{
    char text[512] = "";
    orr_route route = {0};
    int64_t latency_ns;
    assert_true(orr_fabric_route(fabric, src, dst, &route, &latency_ns));
    for (size_t i = 0; i < route.n; i++) {
        const orr_fabric_link *link = &fabric->links[route.at[i]];
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, "%s%u.%u%c", i > 0 ? " " : "", link->level, link->unit,
                 link->up ? '^' : 'v');
    }
    orr_array_done(&route);
    assert_string_equal(text, want);
    assert_int_equal(latency_ns, want_ns);
}

static void nics_do_not_pass_through_nvlink(void **state)
{
    (void)state;
    small_cluster s = small_hosts(1);
    orr_fabric fabric;
    init(&s, &fabric);
    assert_route(&fabric, 1, 1, "", 0);
    assert_route(&fabric, 1, 2, "0.1^ 0.2v", 1000);
    assert_route(&fabric, 1, 6, "1.1^ 1.6v", 5000); /* the uplink is as wide as all ports */
    orr_fabric_done(&fabric);
}

static void oversubscribed_uplinks_are_shared(void **state)
{
    (void)state;
    small_cluster s = small_hosts(2);
    orr_fabric fabric;
    small_level(&s, 3, ORR_TOPOLOGY_SWITCH, 50e9, 9000, 7);
    init(&s, &fabric);
    assert_route(&fabric, 1, 6, "1.7^ 1.12v 1.0^ 1.1v", 5000); /* ports count on from the hosts */
    assert_route(&fabric, 1, 23, "1.7^ 1.29v 1.0^ 1.5v 2.0^ 2.2v", 9000);
    orr_fabric_done(&fabric);
}

static void rings_take_the_shorter_way(void **state)
{
    (void)state;
    small_cluster s = {0};
    orr_fabric fabric;
    small_level(&s, 6, ORR_TOPOLOGY_RING, 120e9, 100, 1);
    init(&s, &fabric);
    assert_int_equal(fabric.links[0].capacity, (int64_t)(60e9 * 1048576 / 1e9));
    assert_route(&fabric, 0, 2, "0.0^ 0.1^", 200);
    assert_route(&fabric, 1, 5, "0.1v 0.0v", 200);
    assert_route(&fabric, 0, 3, "0.0^ 0.1^ 0.2^", 300); /* as far either way */
    assert_route(&fabric, 1, 4, "0.1v 0.0v 0.5v", 300);
    orr_fabric_done(&fabric);
}

static void meshes_have_a_link_for_each_pair(void **state)
{
    (void)state;
    small_cluster s = {0};
    orr_fabric fabric;
    small_level(&s, 4, ORR_TOPOLOGY_FULLY_CONNECTED, 300e9, 100, 1);
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 10e9, 1000, 1);
    init(&s, &fabric);
    assert_int_equal(fabric.links[0].capacity, (int64_t)(100e9 * 1048576 / 1e9));
    assert_route(&fabric, 6, 5, "0.25^", 100); /* unit 6, to the second of its four */
    assert_route(&fabric, 0, 5, "1.0^ 1.5v", 1000);
    orr_fabric_done(&fabric);
}

static void links_lie_in_order(void **state)
{
    (void)state;
    small_cluster s = small_hosts(3);
    orr_fabric fabric;
    init(&s, &fabric);
    for (uint32_t l = 1; l < fabric.n_links; l++) {
        const orr_fabric_link *a = &fabric.links[l - 1], *b = &fabric.links[l];
        assert_true(a->level < b->level || (a->level == b->level && a->unit < b->unit) ||
                    (a->level == b->level && a->unit == b->unit && a->up && !b->up));
    }
    orr_fabric_done(&fabric);
}

/* Sites of 10, 4 and 4 devices: hosts of 4, of which one is half there, pairs of them, sites, a wan
 * of a region of two sites and one of one. */
static small_cluster uneven(uint32_t n_regions)
{
    static const uint32_t sites[] = {10, 14, 18}, regions[] = {14, 18};
    small_cluster s = {0};
    small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 450e9, 1000, 1);
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 50e9, 5000, 2);
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 50e9, 6000, 1);
    s.levels[2].devices = 10;
    s.levels[2].ends = sites;
    small_level(&s, n_regions == 1 ? 3 : 2, ORR_TOPOLOGY_SWITCH, 50e9, 9000, 5);
    s.levels[3].devices = n_regions == 1 ? 18 : 14;
    if (n_regions == 2) {
        s.levels[3].ends = regions;
        small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 50e9, 70000, 10);
    }
    s.cluster.n_devices = 18;
    return s;
}

static int64_t capacity_of(const orr_fabric *fabric, uint32_t level, uint32_t unit)
{
    for (uint32_t l = 0; l < fabric->n_links; l++)
        if (fabric->links[l].level == level && fabric->links[l].unit == unit)
            return fabric->links[l].capacity;
    return 0;
}

static void uneven_sites_have_links_of_their_size(void **state)
{
    (void)state;
    small_cluster s = uneven(2);
    orr_fabric fabric;
    init(&s, &fabric);
    assert_route(&fabric, 0, 3, "0.0^ 0.3v", 1000);
    assert_route(&fabric, 8, 9, "0.8^ 0.9v", 1000);
    assert_route(&fabric, 4, 1, "1.9^ 1.6v 1.1^ 1.0v", 5000);  /* five hosts, then ports */
    assert_route(&fabric, 9, 3, "1.14^ 1.8v 1.2^ 1.0v", 6000); /* of one site */
    assert_route(&fabric, 9, 10, "1.14^ 1.15v 1.2^ 1.3v 3.0^ 3.1v", 9000);
    assert_route(&fabric, 17, 10, "1.22^ 1.15v 1.4^ 1.3v 3.2^ 3.1v 4.1^ 4.0v", 70000);
    const double unit = 1048576 / 1e9;
    assert_int_equal(capacity_of(&fabric, 1, 0), (int64_t)(50e9 * 4 / 2 * unit));
    assert_int_equal(capacity_of(&fabric, 1, 2), (int64_t)(50e9 * 2 / 2 * unit)); /* half a host */
    assert_int_equal(capacity_of(&fabric, 3, 0), (int64_t)(50e9 * 10 / 5 * unit));
    assert_int_equal(capacity_of(&fabric, 3, 1), (int64_t)(50e9 * 4 / 5 * unit));
    assert_int_equal(capacity_of(&fabric, 4, 0), (int64_t)(50e9 * 14 / 10 * unit));
    assert_int_equal(capacity_of(&fabric, 4, 1), (int64_t)(50e9 * 4 / 10 * unit));
    orr_fabric_done(&fabric);
}

/* The last host of a cluster, too, may be half there. */
static void the_last_unit_may_be_cut_short(void **state)
{
    (void)state;
    small_cluster s = small_hosts(2);
    orr_fabric fabric;
    s.cluster.n_devices = s.levels[1].devices = 6;
    init(&s, &fabric);
    assert_route(&fabric, 1, 5, "1.3^ 1.7v 1.0^ 1.1v", 5000);
    assert_int_equal(capacity_of(&fabric, 1, 1) * 2, capacity_of(&fabric, 1, 0));
    orr_fabric_done(&fabric);
}

static void rings_that_are_not_whole_are_refused(void **state)
{
    (void)state;
    small_cluster s = uneven(1);
    orr_fabric fabric;
    s.levels[0].topology = ORR_TOPOLOGY_RING;
    s.cluster.levels = s.levels;
    orr_network_of_cluster(&s.cluster, &s.network);
    assert_int_equal(orr_fabric_init(&fabric, &s.cluster, &s.network, &s.err), ORR_UNSUPPORTED);
    assert_string_equal(s.err.text, "level 'level' of cluster 'small': not all units of a ring are "
                                    "there; flows over links need them");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics_do_not_pass_through_nvlink),
        cmocka_unit_test(oversubscribed_uplinks_are_shared),
        cmocka_unit_test(rings_take_the_shorter_way),
        cmocka_unit_test(meshes_have_a_link_for_each_pair),
        cmocka_unit_test(links_lie_in_order),
        cmocka_unit_test(uneven_sites_have_links_of_their_size),
        cmocka_unit_test(the_last_unit_may_be_cut_short),
        cmocka_unit_test(rings_that_are_not_whole_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
