/* SPDX-License-Identifier: Apache-2.0 */
#include "machine_text.h"

#define PARTS                                                                                      \
    "basis: published\nsource: a paper\n"                                                          \
    "devices:\n  card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}\n"                          \
    "memory:\n  ram: {kind: dram}\n"                                                               \
    "links:\n"                                                                                     \
    "  wire: {kind: scale-out, bandwidth: 400Gbps, latency: 1us, source: of wire}\n"               \
    "  fibre: {kind: x, latency_by_distance: 5us/km}\n"                                            \
    "clusters:\n"

static void levels_multiply(void **state)
{
    (void)state;
    const orr_catalog *catalog = catalog_of(
        PARTS
        "  c:\n"
        "    device: card\n"
        "    tiers: [ram, {memory: ram, count: 4}]\n"
        "    notes: for a test\n"
        "    levels:\n"
        "      - {name: host, size: 8, topology: ring, bandwidth: 450GB/s,\n"
        "         in_network_reduction: true}\n"
        "      - {name: pod, size: 4, technology: wire}\n"
        "      - {name: site, size: 3, technology: wire, oversubscription: 1:7, latency: 9us}\n");
    const orr_cluster *c = orr_catalog_cluster(catalog, "c");
    assert_int_equal(c->n_levels, 3);
    assert_int_equal(c->n_devices, 96);
    assert_string_equal(c->device->name, "card");
    assert_string_equal(c->source, "a paper");
    assert_string_equal(c->notes, "for a test");
    assert_int_equal(c->n_tiers, 2);
    assert_string_equal(c->tiers[0]->name, "ram");
    assert_int_equal(c->tier_counts[0], 0); /* nobody said */
    assert_string_equal(c->tiers[1]->name, "ram");
    assert_int_equal(c->tier_counts[1], 4);
    const orr_level *l = c->levels;
    assert_int_equal(l[0].topology, ORR_TOPOLOGY_RING);
    assert_true(l[0].in_network_reduction);
    assert_true(isnan(l[0].latency_ns.value)); /* nobody said */
    assert_fact(&l[0].bytes_per_s, 450e9, ORR_FACT_PUBLISHED, "a paper");
    assert_fact(&l[0].oversubscription, 1, ORR_FACT_ASSUMED, "not said: none");
    assert_int_equal(l[1].devices, 32);
    assert_int_equal(l[1].topology, ORR_TOPOLOGY_SWITCH);
    assert_false(l[1].in_network_reduction);
    assert_fact(&l[1].bytes_per_s, 50e9, ORR_FACT_PUBLISHED, "of wire");
    assert_fact(&l[1].latency_ns, 1000, ORR_FACT_PUBLISHED, "of wire");
    assert_string_equal(l[1].technology, "wire");
    assert_fact(&l[2].latency_ns, 9000, ORR_FACT_PUBLISHED, "a paper");
    assert_true(l[2].oversubscription.value == 7);
    assert_int_equal(l[2].devices, 96);
}

/* Its own word, else that of its link, else its place; never its bandwidth. */
static void technology_decides_the_kind_of_a_level(void **state)
{
    (void)state;
    const orr_catalog *catalog = catalog_of(
        PARTS "  c:\n"
              "    device: card\n"
              "    levels:\n"
              "      - {name: host, size: 8, bandwidth: 1GB/s}\n"
              "      - {name: rack, size: 9, bandwidth: 1GB/s, technology: wire, kind: scale-up}\n"
              "      - {name: pod, size: 4, bandwidth: 90GB/s, technology: wire}\n"
              "      - {name: site, size: 3, bandwidth: 90GB/s}\n");
    const orr_cluster *c = orr_catalog_cluster(catalog, "c");
    static const bool UP[] = {true, true, false, false};
    for (uint32_t k = 0; k < 4; k++)
        assert_int_equal(orr_cluster_is_scale_up(c, k), UP[k]);
    assert_int_equal(c->levels[2].kind, ORR_LEVEL_SCALE_OUT); /* as the link says */
}

static void what_is_wrong_is_told_where_it_stands(void **state)
{
    (void)state;
#define LEVELS "  c: {device: card, levels: "
    static const char *const cases[][2] = {
        {"  c: {levels: []}\n", "t.yaml:11:6: cluster 'c' does not say its device"},
        {"  c: {device: card}\n", "t.yaml:11:6: cluster 'c' does not say its levels"},
        {"  c: {device: crad, levels: []}\n",
         "t.yaml:11:15: 'crad' is no device of the catalogue; did you mean 'card'?"},
        {LEVELS "[]}\n",
         "t.yaml:11:29: levels: a list, from the level that joins devices outwards"},
        {LEVELS "[{size: 8, bandwidth: 1GB/s}]}\n", "t.yaml:11:30: a level does not say its name"},
        {LEVELS "[{name: h, bandwidth: 1GB/s}]}\n", "t.yaml:11:30: a level does not say its size"},
        {LEVELS "[{name: h, size: 0, bandwidth: 1GB/s}]}\n",
         "t.yaml:11:46: size: a level holds at least one unit"},
        {LEVELS "[{name: h, size: 3G, bandwidth: 1GB/s}]}\n",
         "t.yaml:11:46: size: more than 2,147,483,647 devices"},
        {LEVELS "[{name: h, size: 8}]}\n",
         "t.yaml:11:30: level 'h' needs a bandwidth, or as its technology a link that has one"},
        {LEVELS "[{name: h, size: 8, technology: fibre}]}\n",
         "t.yaml:11:30: level 'h' needs a bandwidth, or as its technology a link that has one"},
        {LEVELS "[{name: h, size: 8, bandwidth: 0GB/s}]}\n",
         "t.yaml:11:30: level 'h' needs a bandwidth above 0"},
        {LEVELS "[{name: h, size: 8, bandwidth: 1GB}]}\n",
         "t.yaml:11:60: bandwidth: '1GB' is not a bandwidth: write for example 400Gbps or 50GB/s"},
        {LEVELS "[{name: h, size: 8, bandwidth: 1GB/s, topology: swich}]}\n",
         "t.yaml:11:77: 'swich' is no topology; did you mean 'switch'?"},
        {LEVELS "[{name: h, size: 8, bandwidth: 1GB/s, lateny: 1us}]}\n",
         "t.yaml:11:67: a level has no 'lateny'; did you mean 'latency'?"},
        {LEVELS "[{name: h, size: 8, bandwidth: 1GB/s, in_network_reduction: 1}]}\n",
         "t.yaml:11:89: '1' is neither true nor false"},
        {"  c: {device: card, tiers: [rma], levels: [{name: h, size: 8, bandwidth: 1GB/s}]}\n",
         "t.yaml:11:29: 'rma' is no memory of the catalogue; did you mean 'ram'?"},
        {"  c: {device: card, tiers: ram, levels: [{name: h, size: 8, bandwidth: 1GB/s}]}\n",
         "t.yaml:11:28: tiers: a list of names of memory, or {memory: NAME, count: N}"},
        {LEVELS "[a, b, c, d, e, f, g, h, i]}\n", "t.yaml:11:29: levels: more than 8"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[1024];
        (void)snprintf(text, sizeof text, "%s%s", PARTS, cases[i][0]);
        assert_refused(text, cases[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(levels_multiply),
        cmocka_unit_test(technology_decides_the_kind_of_a_level),
        cmocka_unit_test(what_is_wrong_is_told_where_it_stands),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
