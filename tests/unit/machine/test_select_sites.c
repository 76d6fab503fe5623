/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static void assert_ends(const orr_level *level, const uint32_t *ends, uint32_t n)
{
    assert_non_null(level->ends);
    assert_memory_equal(level->ends, ends, n * sizeof *ends);
}
#define ASSERT_ENDS(level, ...)                                                                    \
    assert_ends((level), (const uint32_t[]){__VA_ARGS__},                                          \
                sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void assert_level(const orr_level *level, const char *name, uint32_t size, uint32_t devices)
{
    assert_string_equal(level->name, name);
    assert_int_equal(level->size, size);
    assert_int_equal(level->devices, devices);
}

static const orr_cluster *three_sites(void)
{
    return cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
}

static void levels_follow_from_sites_and_cuts(void **state)
{
    (void)state;
    const orr_cluster *c = three_sites();
    assert_int_equal(c->n_levels, 5);
    assert_level(&c->levels[0], "host", 4, 4);
    assert_level(&c->levels[1], "rack", 3, 12);
    assert_level(&c->levels[2], "hall", 5, 60);
    assert_level(&c->levels[3], "region", 2, 88);
    assert_level(&c->levels[4], "wan", 2, 100);
    assert_null(c->levels[0].ends);
    assert_null(c->levels[1].ends);
    ASSERT_ENDS(&c->levels[2], 60, 88, 100);
    ASSERT_ENDS(&c->levels[3], 88, 100);
    assert_null(c->levels[4].ends);
    assert_true(c->levels[3].latency_ns.value == 20e3 && c->levels[3].bytes_per_s.value == 50e9);
    assert_true(c->levels[3].oversubscription.value == 3);
    assert_true(c->levels[4].latency_ns.value == 5010e3 && c->levels[4].bytes_per_s.value == 25e9);
    assert_true(c->levels[4].oversubscription.value == 9);
    assert_null(c->levels[3].transport);
    assert_int_equal(c->levels[4].transport->paths, 8);
}

static void a_level_is_as_slow_as_the_slowest_of_each(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(
        SITE_PARTS
        "    sites: [{name: a, devices: 60}, {name: b, devices: 60}, {name: d, devices: 60}]\n"
        "    cuts:\n"
        "      - {between: sites, latency: 5us, technology: cable}\n"
        "      - {between: [a, b], latency: 9us}\n"
        "      - {between: [a, d], oversubscription: 1:6, latency: 8us, transport: {paths: 3}}\n"
        "      - {between: [b, d], bandwidth: 1GB/s, technology: string, transport: {paths: 2}}\n");
    const orr_level *region = &c->levels[3];
    assert_level(region, "region", 3, 180);
    assert_true(region->latency_ns.value == 9e3 && region->oversubscription.value == 6);
    assert_true(region->bytes_per_s.value == 1e9);
    assert_string_equal(region->technology, "string");
    assert_int_equal(region->transport->paths, 3);
    assert_null(c->levels[2].ends); /* three alike */
}

static void what_is_used_is_what_is_there(void **state)
{
    (void)state;
    const orr_cluster *all = three_sites(), *c = PLACED(all, 60, 28, 12);
    assert_ptr_equal(c, all);

    c = PLACED(all, 24, 24, 0);
    assert_int_equal(c->n_devices, 48);
    assert_int_equal(c->n_sites, 2);
    assert_int_equal(c->n_cuts, 1);
    assert_int_equal(c->n_levels, 4);
    assert_level(&c->levels[2], "hall", 2, 24);
    assert_level(&c->levels[3], "region", 2, 48);
    assert_null(c->levels[2].ends); /* whole racks, as many in each */
    assert_string_equal(c->sites[1].name, "south");
    assert_int_equal(c->sites[1].devices, 24);

    c = PLACED(all, 0, 10, 4);
    assert_int_equal(c->n_levels, 3);
    assert_level(&c->levels[1], "rack", 3, 10);
    assert_level(&c->levels[2], "wan", 2, 14);
    ASSERT_ENDS(&c->levels[1], 10, 14);
    assert_int_equal(c->site_level, 1);
    assert_string_equal(c->sites[0].name, "south");
    assert_string_equal(c->device->name, "card"); /* far's */
    assert_int_equal(c->cuts[0].a, 0);
    assert_int_equal(c->cuts[0].b, 1);
    assert_true(c->cuts[0].latency_ns.value == 5010e3);
    assert_true(c->levels[2].bytes_per_s.value == 25e9);

    c = PLACED(c, 4, 4); /* of what was placed */
    assert_level(&c->levels[0], "host", 4, 4);
    assert_level(&c->levels[1], "wan", 2, 8);
    assert_null(c->levels[0].ends);
    assert_int_equal(all->n_devices, 100);
}

/* As many devices in each site, but not as many in each rack. */
static void equal_sites_with_a_cut_rack_are_uneven(void **state)
{
    (void)state;
    const orr_cluster *c = PLACED(three_sites(), 28, 28, 0);
    assert_level(&c->levels[2], "hall", 3, 28);
    ASSERT_ENDS(&c->levels[2], 28, 56);
    assert_null(c->levels[3].ends);
}

static void one_site_is_a_cluster_of_its_own(void **state)
{
    (void)state;
    const orr_cluster *all = three_sites(), *c = PLACED(all, 0, 28, 0);
    assert_int_equal(c->n_levels, 3);
    assert_level(&c->levels[2], "hall", 3, 28);
    assert_null(c->levels[2].ends);
    assert_int_equal(c->n_devices, 28);
    assert_int_equal(c->n_sites, 1);
    assert_int_equal(c->n_cuts, 0);
    assert_string_equal(c->sites[0].name, "south");
    assert_string_equal(c->device->name, "tile");
    c = PLACED(c, 3);
    assert_int_equal(c->n_levels, 1);
    assert_level(&c->levels[0], "host", 3, 3);
    assert_int_equal(c->site_level, 0);
}

static void equal_regions_are_alike(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(
        SITE_PARTS
        "    sites: [{name: a, region: x, devices: 12}, {name: b, region: x, devices: 12},\n"
        "      {name: d, region: y, devices: 12}, {name: e, region: y, devices: 12}]\n"
        "    cuts: [{between: sites, latency: 1us}, {between: regions, latency: 1ms}]\n");
    assert_int_equal(c->n_levels, 4); /* a site is a rack: no halls */
    assert_level(&c->levels[1], "rack", 3, 12);
    assert_level(&c->levels[2], "region", 2, 24);
    assert_level(&c->levels[3], "wan", 2, 48);
    for (uint32_t l = 0; l < 4; l++)
        assert_null(c->levels[l].ends);
    c = PLACED(c, 12, 12, 0, 12);
    assert_null(c->levels[1].ends);
    ASSERT_ENDS(&c->levels[2], 24, 36);
    c = PLACED(c, 12, 0, 12);
    assert_int_equal(c->n_levels, 3);
    assert_level(&c->levels[2], "wan", 2, 24);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    static const struct {
        uint32_t devices[3];
        const char *message;
    } cases[] = {
        {{0, 0, 0}, "no devices of any site of cluster 'c'"},
        {{60, 29, 0}, "site 2, south of cluster 'c' has 28 devices, 29 are needed"},
    };
    const orr_cluster *all = three_sites(), *c = NULL;
    orr_error err = {0};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(orr_cluster_select_sites(all, cases[i].devices, arena, &c, &err),
                         ORR_INVALID);
        assert_string_equal(err.text, cases[i].message);
    }
    const orr_cluster none = {.name = "n", .n_devices = 8};
    assert_int_equal(orr_cluster_select_sites(&none, cases[0].devices, arena, &c, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "cluster 'n' has no sites");
    assert_null(c);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    const orr_cluster *all = three_sites();
    static const uint32_t devices[] = {24, 28, 12};
    size_t failed = 0;
    for (size_t limit = 16;; limit += 64) {
        const orr_cluster *c = NULL;
        orr_arena *small = orr_arena_new(16, limit);
        assert_non_null(small);
        const orr_status status = orr_cluster_select_sites(all, devices, small, &c, NULL);
        assert_true(status == ORR_OK ? c != NULL : status == ORR_NO_MEMORY && c == NULL);
        orr_arena_free(small);
        if (status == ORR_OK)
            break;
        failed++;
        assert_true(failed < 10000);
    }
    assert_true(failed > 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_follow_from_sites_and_cuts),
        cmocka_unit_test(a_level_is_as_slow_as_the_slowest_of_each),
        cmocka_unit_test(what_is_used_is_what_is_there),
        cmocka_unit_test(equal_sites_with_a_cut_rack_are_uneven),
        cmocka_unit_test(one_site_is_a_cluster_of_its_own),
        cmocka_unit_test(equal_regions_are_alike),
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
