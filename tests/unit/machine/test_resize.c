/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static const orr_level LEVELS[] = {
    {.name = "host", .size = 8, .devices = 8},
    {.name = "rack", .size = 4, .devices = 32},
    {.name = "site", .size = 10, .devices = 320},
};
static const orr_cluster CLUSTER = {
    .name = "c", .n_devices = 320, .n_levels = 3, .levels = LEVELS, .notes = "x"};

static void only_as_much_as_is_needed(void **state)
{
    (void)state;
    static const struct {
        uint32_t wanted, n_levels, top_size, n_devices;
    } cases[] = {
        {1, 1, 1, 1},   {3, 1, 3, 3},   {8, 1, 8, 8},      {9, 2, 2, 16},     {24, 2, 3, 24},
        {32, 2, 4, 32}, {33, 3, 2, 64}, {300, 3, 10, 320}, {320, 3, 10, 320},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_cluster *c = NULL;
        assert_int_equal(orr_cluster_resize(&CLUSTER, cases[i].wanted, arena, &c, NULL), ORR_OK);
        assert_int_equal(c->n_levels, cases[i].n_levels);
        assert_int_equal(c->levels[c->n_levels - 1].size, cases[i].top_size);
        assert_int_equal(c->levels[c->n_levels - 1].devices, cases[i].n_devices);
        assert_int_equal(c->n_devices, cases[i].n_devices);
        assert_string_equal(c->levels[c->n_levels - 1].name, LEVELS[c->n_levels - 1].name);
        for (uint32_t l = 0; l + 1 < c->n_levels; l++)
            assert_int_equal(c->levels[l].size, LEVELS[l].size);
        assert_string_equal(c->notes, "x");
    }
    assert_int_equal(CLUSTER.n_devices, 320);
}

static void more_than_there_is_is_refused(void **state)
{
    (void)state;
    const orr_cluster *c = NULL;
    orr_error err = {0};
    assert_int_equal(orr_cluster_resize(&CLUSTER, 321, arena, &c, &err), ORR_INVALID);
    assert_string_equal(err.text, "cluster 'c' has 320 devices, 321 are needed");
    assert_int_equal(orr_cluster_resize(&CLUSTER, 0, arena, &c, &err), ORR_INVALID);
    assert_null(c);
}

/* 60, 28 and 12 devices: filled from the first on, in whole hosts. */
static void sites_are_filled_one_after_another(void **state)
{
    (void)state;
    const orr_cluster *all = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    static const struct {
        uint32_t wanted, n_devices, n_sites, n_levels;
    } cases[] = {
        {1, 4, 1, 1},   {13, 16, 1, 3}, {60, 60, 1, 3},   {61, 64, 2, 4},
        {88, 88, 2, 4}, {89, 92, 3, 5}, {100, 100, 3, 5},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const orr_cluster *c = NULL;
        assert_int_equal(orr_cluster_resize(all, cases[i].wanted, arena, &c, NULL), ORR_OK);
        assert_int_equal(c->n_devices, cases[i].n_devices);
        assert_int_equal(c->n_sites, cases[i].n_sites);
        assert_int_equal(c->n_levels, cases[i].n_levels);
        assert_string_equal(c->sites[0].name, "north");
    }
}

static void buildings_of_a_tree_are_cut_with_it(void **state)
{
    (void)state;
    const orr_cluster *all =
        cluster_of("basis: published\nsource: a paper\n"
                   "devices: {card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}}\n"
                   "clusters:\n  c:\n    device: card\n    levels:\n"
                   "      - {name: host, size: 4, bandwidth: 1GB/s}\n"
                   "      - {name: building, size: 3, bandwidth: 1GB/s}\n"
                   "      - {name: region, size: 5, bandwidth: 1GB/s}\n");
    const orr_cluster *c = NULL;
    assert_int_equal(orr_cluster_resize(all, 25, arena, &c, NULL), ORR_OK);
    assert_int_equal(c->n_devices, 36);
    assert_int_equal(c->n_sites, 3);
    assert_int_equal(c->n_cuts, 3);
    assert_int_equal(c->cuts[2].a, 1);
    assert_int_equal(c->cuts[2].b, 2);
    assert_int_equal(orr_cluster_resize(all, 12, arena, &c, NULL), ORR_OK);
    assert_int_equal(c->n_sites, 0);
    assert_int_equal(c->n_cuts, 0);
    assert_int_equal(c->n_levels, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_as_much_as_is_needed),
        cmocka_unit_test(more_than_there_is_is_refused),
        cmocka_unit_test(sites_are_filled_one_after_another),
        cmocka_unit_test(buildings_of_a_tree_are_cut_with_it),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
