/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static void sites_are_read(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    assert_int_equal(c->n_sites, 3);
    assert_int_equal(c->n_cuts, 3);
    assert_int_equal(c->n_devices, 100);
    assert_int_equal(c->site_level, 2);
    const orr_site *s = c->sites;
    assert_string_equal(s[0].name, "north");
    assert_string_equal(s[0].region, "east");
    assert_string_equal(s[0].device->name, "card");
    assert_int_equal(s[0].devices, 60);
    assert_int_equal(s[0].price_per_hour.basis, ORR_FACT_UNKNOWN);
    assert_string_equal(s[1].device->name, "tile");
    assert_fact(&s[1].price_per_hour, 2.5, ORR_FACT_PUBLISHED, "a paper");
    assert_string_equal(s[2].region, "west");
    assert_int_equal(s[2].devices, 12);
    assert_string_equal(c->device->name, "card");
}

static void a_site_needs_no_region(void **state)
{
    (void)state;
    const orr_cluster *c =
        cluster_of(SITE_PARTS "    sites: [{name: a, devices: 12}, {name: b, devices: 24}]\n"
                              "    cuts: [{between: sites, latency: 5us}]\n");
    assert_string_equal(c->sites[0].region, "");
    assert_int_equal(c->n_levels, 4);
    assert_string_equal(c->levels[3].name, "region");
}

static void the_device_is_one_that_a_site_has(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(
        SITE_PARTS "    sites: [{name: a, devices: 12, device: tile}, {name: b, devices: 24, "
                   "device: tile}]\n"
                   "    cuts: [{between: sites, latency: 5us}]\n");
    assert_string_equal(c->device->name, "tile");
}

static orr_status read_in(orr_arena *small, const orr_cluster **ret)
{
    static const char text[] = SITE_PARTS THREE_SITES THREE_CUTS;
    const orr_scope scope = {.arena = small};
    orr_catalog_builder shelf = {.arena = small};
    const orr_yaml *file;
    orr_status status = orr_yaml_parse(text, sizeof text - 1, "t.yaml", small, &file, NULL);
    if (status == ORR_OK)
        status = orr_catalog_file_read_parts(file, &scope, &shelf, NULL);
    if (status == ORR_OK)
        status = orr_catalog_file_read_clusters(file, &scope, &shelf, NULL);
    if (status == ORR_OK)
        *ret = shelf.clusters.at[0];
    orr_catalog_builder_done(&shelf);
    return status;
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    size_t failed = 0;
    for (size_t limit = 1024; limit < 1 << 20; limit += 64, failed++) {
        const orr_cluster *c = NULL;
        orr_arena *small = orr_arena_new(64, limit);
        assert_non_null(small);
        const orr_status status = read_in(small, &c);
        assert_true(status == ORR_OK ? c->n_cuts == 3 : status == ORR_NO_MEMORY && c == NULL);
        orr_arena_free(small);
        if (status == ORR_OK)
            break;
    }
    assert_true(failed > 50 && failed < 10000);
}

static void what_is_wrong_is_told_where_it_stands(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"    sites: none\n", "t.yaml:15:12: sites: a list of two or more: {name: north, devices: "
                              "24576}"},
        {"    sites: [{name: a, devices: 4}]\n",
         "t.yaml:15:12: sites: a list of two or more: {name: north, devices: 24576}"},
        {"    sites: [a, b, c, d, e, f, g, h, i]\n", "t.yaml:15:12: sites: more than 8"},
        {"    sites: [{name: a}, {name: b, devices: 4}]\n",
         "t.yaml:15:13: a site does not say its devices"},
        {"    sites: [{name: a, devices: 4, regoin: x}, {name: b, devices: 4}]\n",
         "t.yaml:15:35: a site has no 'regoin'; did you mean 'region'?"},
        {"    sites: [{name: a, devices: 64}, {name: b, devices: 4}]\n",
         "t.yaml:15:32: devices: 64, where level 'hall', the last one, holds 60"},
        {"    sites: [{name: a, devices: 6}, {name: b, devices: 4}]\n",
         "t.yaml:15:32: devices: 6 is no multiple of 4, the devices of a unit of level 'host'"},
        {"    sites: [{name: a, devices: 0}, {name: b, devices: 4}]\n",
         "t.yaml:15:32: devices: a site has at least one"},
        {"    sites: [{name: a, devices: 4}, {name: a, devices: 4}]\n",
         "t.yaml:15:43: two sites are called 'a'"},
        {"    sites: [{name: a, devices: 4, device: crad}, {name: b, devices: 4}]\n",
         "t.yaml:15:43: 'crad' is no device of the catalogue; did you mean 'card'?"},
        {"    sites: [{name: a, devices: 4, price: free}, {name: b, devices: 4}]\n",
         "t.yaml:15:42: price: 'free' is not a number of 0 or more"},
        {"    sites: [{name: a, region: x, devices: 4}, {name: b, region: y, devices: 4},\n"
         "      {name: c, region: x, devices: 4}]\n",
         "t.yaml:16:7: site 'c' stands apart from 'a' of the same region 'x': put the sites of a "
         "region together"},
        {"    cuts: [{between: sites, latency: 1us}]\n",
         "t.yaml:15:11: cuts: between which sites? say sites, too"},
        {"    sites: [{name: a, devices: 4}, {name: b, devices: 4}]\n",
         "t.yaml:10:5: no cut joins sites 'a' and 'b': say {between: sites, ...}"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%s%s", SITE_PARTS, cases[i][0]);
        assert_refused(text, cases[i][1]);
    }
}

static void levels_for_sites_have_to_fit(void **state)
{
    (void)state;
    char text[2048] = "basis: published\nsource: a paper\n"
                      "devices: {card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}}\n"
                      "clusters:\n  c:\n    device: card\n    levels:\n";
    for (int l = 0; l < 7; l++)
        (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                       "      - {name: l%d, size: 2, bandwidth: 1GB/s}\n", l);
    (void)snprintf(text + strlen(text), sizeof text - strlen(text),
                   "    sites: [{name: a, devices: 128}, {name: b, devices: 64}]\n"
                   "    cuts: [{between: sites, latency: 1us}]\n");
    assert_refused(text, "t.yaml:8:7: levels: more than 6 inside of a site");
}

#define TREE                                                                                       \
    "basis: published\nsource: a paper\n"                                                          \
    "devices: {card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}}\n"                           \
    "clusters:\n  c:\n    device: card\n    levels:\n"                                             \
    "      - {name: host, size: 4, bandwidth: 1GB/s}\n"                                            \
    "      - {name: building, size: 3, bandwidth: 1GB/s}\n"

static void buildings_of_a_tree_are_sites(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(
        TREE
        "      - {name: region, size: 2, bandwidth: 2GB/s, latency: 7us, oversubscription: 3}\n"
        "      - {name: world, size: 2, bandwidth: 1GB/s, latency: 9ms, technology: sea}\n");
    assert_int_equal(c->n_devices, 48);
    assert_int_equal(c->n_levels, 4);
    assert_int_equal(c->n_sites, 4);
    assert_int_equal(c->site_level, 1);
    assert_null(c->levels[1].ends);
    static const char *const regions[] = {"region 1", "region 1", "region 2", "region 2"};
    for (uint32_t s = 0; s < 4; s++) {
        assert_string_equal(c->sites[s].name, "");
        assert_string_equal(c->sites[s].region, regions[s]);
        assert_int_equal(c->sites[s].devices, 12);
        assert_ptr_equal(c->sites[s].device, c->device);
    }
    assert_int_equal(c->n_cuts, 6);
    for (uint32_t i = 0, a = 0, b = 1; i < 6; i++) {
        const bool inside = a / 2 == b / 2;
        assert_int_equal(c->cuts[i].a, a);
        assert_int_equal(c->cuts[i].b, b);
        assert_true(c->cuts[i].latency_ns.value == (inside ? 7e3 : 9e6));
        assert_true(c->cuts[i].oversubscription.value == (inside ? 3 : 1));
        assert_string_equal(c->cuts[i].technology, inside ? "" : "sea");
        if (++b == 4)
            b = ++a + 1;
    }
}

static void too_many_or_too_few_buildings_are_no_sites(void **state)
{
    (void)state;
    assert_int_equal(cluster_of(TREE)->n_sites, 0);
    assert_int_equal(
        cluster_of(TREE "      - {name: region, size: 9, bandwidth: 1GB/s}\n")->n_sites, 0);
    assert_int_equal(
        cluster_of(TREE "      - {name: region, size: 1, bandwidth: 1GB/s}\n")->n_sites, 0);
    assert_int_equal(
        cluster_of(TREE "      - {name: region, size: 8, bandwidth: 1GB/s}\n")->n_sites, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sites_are_read),
        cmocka_unit_test(a_site_needs_no_region),
        cmocka_unit_test(the_device_is_one_that_a_site_has),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(what_is_wrong_is_told_where_it_stands),
        cmocka_unit_test(levels_for_sites_have_to_fit),
        cmocka_unit_test(buildings_of_a_tree_are_sites),
        cmocka_unit_test(too_many_or_too_few_buildings_are_no_sites),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
