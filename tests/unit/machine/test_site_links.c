/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static void each_pair_has_its_cut(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    static const uint32_t pairs[][2] = {{0, 1}, {0, 2}, {1, 2}};
    assert_int_equal(c->n_cuts, 3);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(c->cuts[i].a, pairs[i][0]);
        assert_int_equal(c->cuts[i].b, pairs[i][1]);
    }
    const orr_site_link *near = &c->cuts[0], *far = &c->cuts[2];
    assert_fact(&near->km, 2, ORR_FACT_PUBLISHED, "a paper");
    assert_fact(&near->latency_ns, 20e3, ORR_FACT_DERIVED, "a paper");
    assert_string_equal(near->latency_ns.note, "10 us of level hall, and 5 us/km of fibre");
    assert_fact(&near->bytes_per_s, 50e9, ORR_FACT_PUBLISHED, "a paper"); /* the hall's */
    assert_true(near->oversubscription.value == 3);
    assert_int_equal(near->price_per_gb.basis, ORR_FACT_UNKNOWN);
    assert_null(near->transport);
    assert_string_equal(near->technology, "");
    assert_fact(&far->latency_ns, 5010e3, ORR_FACT_DERIVED, "a paper");
    assert_fact(&far->bytes_per_s, 25e9, ORR_FACT_PUBLISHED, "a paper");
    assert_true(far->oversubscription.value == 9);
    assert_true(far->price_per_gb.value == 0.02);
    assert_int_equal(far->transport->paths, 8);
    assert_int_equal(far->transport->balance, ORR_BALANCE_ECMP);
}

static const orr_site_link *cut_with(const char *rules)
{
    char text[2048];
    (void)snprintf(text, sizeof text, "%s%s%s%s", SITE_PARTS, THREE_SITES, THREE_CUTS, rules);
    return cluster_of(text)->cuts;
}

static void later_rules_win_where_they_say_something(void **state)
{
    (void)state;
    const orr_site_link *cuts =
        cut_with("      - {between: [south, north], latency: 7us}\n"
                 "      - {between: [north, west], distance: 100km, basis: assumed,\n"
                 "         transport: {failed: 1}}\n"
                 "      - {between: [south, far], technology: cable}\n");
    assert_true(cuts[0].latency_ns.value == 7e3);
    assert_string_equal(cuts[0].latency_ns.note, "");
    assert_true(cuts[0].oversubscription.value == 3 && cuts[0].km.value == 2);
    assert_fact(&cuts[1].latency_ns, 510e3, ORR_FACT_ASSUMED, "a paper");
    assert_true(cuts[1].oversubscription.value == 9 && cuts[1].bytes_per_s.value == 25e9);
    assert_int_equal(cuts[1].transport->paths, 8);
    assert_int_equal(cuts[1].transport->failed, 1);
    assert_int_equal(cuts[2].transport->failed, 0);
    assert_string_equal(cuts[2].technology, "cable");
    assert_true(cuts[2].bytes_per_s.value == 10e9);  /* the cable's, not the earlier rule's */
    assert_true(cuts[2].latency_ns.value == 4010e3); /* 4 us/km, and the hall's             */
}

static void a_distance_takes_the_place_of_a_latency(void **state)
{
    (void)state;
    const orr_site_link *cuts =
        cut_with("      - {between: sites, latency: 1ms}\n"
                 "      - {between: sites, distance: 4km}\n"
                 "      - {between: regions, distance: 1km, latency: 1ms}\n");
    assert_true(cuts[0].latency_ns.value == 30e3);
    assert_true(cuts[1].latency_ns.value == 1e6 && cuts[1].km.value == 1);
}

static void a_capacity_is_shared_by_the_smaller_site(void **state)
{
    (void)state;
    const orr_site_link *cuts =
        cut_with("      - {between: [north, south], capacity: 700GB/s}\n"
                 "      - {between: [north, far], capacity: 1PB/s}\n"
                 "      - {between: [south, far], capacity: 5GB/s}\n"
                 "      - {between: [south, far], oversubscription: 1:4}\n");
    /* 28 devices, 50 GB/s each, through 700 GB/s */
    assert_fact(&cuts[0].oversubscription, 2, ORR_FACT_DERIVED, "a paper");
    assert_string_equal(cuts[0].oversubscription.note, "of a capacity of 5.6 Tbit/s");
    assert_true(cuts[1].oversubscription.value == 1);
    assert_true(cuts[2].oversubscription.value == 4);
}

static void rules_name_levels(void **state)
{
    (void)state;
    const orr_cluster *c =
        cluster_of(SITE_PARTS THREE_SITES "    cuts:\n"
                                          "      - {between: sites, name: campus, latency: 5us}\n"
                                          "      - {between: regions, name: sea, latency: 5ms}\n");
    assert_string_equal(c->levels[3].name, "campus");
    assert_string_equal(c->levels[4].name, "sea");
    assert_fact(&c->cuts[0].oversubscription, 1, ORR_FACT_ASSUMED, "not said: none");
}

static void what_is_wrong_is_told_where_it_stands(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"    cuts: 5\n", "t.yaml:19:11: cuts: a list: [{between: sites, distance: 3km}, ...]"},
        {"    cuts: []\n",
         "t.yaml:19:11: no cut joins sites 'north' and 'south': say {between: sites, ...}"},
        {"    cuts: [{between: sites, latency: 1us}]\n",
         "t.yaml:19:11: no cut joins sites 'north' and 'far': say {between: regions, ...}"},
        {"    cuts: [{distance: 1km}]\n", "t.yaml:19:12: a cut does not say its between"},
        {"    cuts: [{between: site}]\n",
         "t.yaml:19:22: between: sites (of one region), regions, or two names: [north, south]"},
        {"    cuts: [{between: [north]}]\n",
         "t.yaml:19:22: between: sites (of one region), regions, or two names: [north, south]"},
        {"    cuts: [{between: [north, soth]}]\n",
         "t.yaml:19:30: 'soth' is no site or region; did you mean 'south'?"},
        {"    cuts: [{between: [north, east]}]\n",
         "t.yaml:19:22: between: two sites, or regions, that are not the same"},
        {"    cuts: [{between: sites, distnace: 1km}]\n",
         "t.yaml:19:29: a cut has no 'distnace'; did you mean 'distance'?"},
        {"    cuts: [{between: sites, distance: 3}]\n",
         "t.yaml:19:39: distance: '3' is not a distance: write for example 3km or 500m"},
        {"    cuts: [{between: sites, bandwidth: 0GB/s}]\n",
         "t.yaml:19:40: bandwidth: has to be above 0"},
        {"    cuts: [{between: sites, capacity: 0GB/s}]\n",
         "t.yaml:19:39: capacity: has to be above 0"},
        {"    cuts: [{between: sites, capacity: 1GB/s, oversubscription: 1:2}]\n",
         "t.yaml:19:39: a capacity of the whole cut says its oversubscription: leave one of them "
         "out"},
        {"    cuts: [{between: [north, south], name: x, latency: 1us}]\n",
         "t.yaml:19:44: name: the level that all cuts between sites, or regions, make has one; a "
         "single cut has none"},
        {"    cuts: [{between: sites, name: rack, latency: 1us}, "
         "{between: regions, latency: 1us}]\n",
         "t.yaml:13:9: level 'rack' is called as what cuts make: give one of them another name"},
        {"    cuts: [{between: sites}, {between: regions, latency: 1us}]\n",
         "t.yaml:19:12: a cut needs a latency or a distance"},
        {"    cuts: [{between: sites, transport: {balance: emcp}}]\n",
         "t.yaml:19:50: 'emcp' is no balance; did you mean 'ecmp'?"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[2048];
        (void)snprintf(text, sizeof text, "%s%s%s", SITE_PARTS, THREE_SITES, cases[i][0]);
        assert_refused(text, cases[i][1]);
    }
}

static void a_name_that_means_two_things_is_refused(void **state)
{
    (void)state;
    assert_refused(SITE_PARTS "    sites: [{name: a, region: b, devices: 4}, {name: b, region: c, "
                              "devices: 4}]\n    cuts: [{between: [a, b], latency: 1us}]\n",
                   "t.yaml:16:26: 'b' is both a site and a region: give one of them another name");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_pair_has_its_cut),
        cmocka_unit_test(later_rules_win_where_they_say_something),
        cmocka_unit_test(a_distance_takes_the_place_of_a_latency),
        cmocka_unit_test(a_capacity_is_shared_by_the_smaller_site),
        cmocka_unit_test(rules_name_levels),
        cmocka_unit_test(what_is_wrong_is_told_where_it_stands),
        cmocka_unit_test(a_name_that_means_two_things_is_refused),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
