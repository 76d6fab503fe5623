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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nics_do_not_pass_through_nvlink),
        cmocka_unit_test(oversubscribed_uplinks_are_shared),
        cmocka_unit_test(rings_take_the_shorter_way),
        cmocka_unit_test(meshes_have_a_link_for_each_pair),
        cmocka_unit_test(links_lie_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
