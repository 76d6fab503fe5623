/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static const orr_cluster *scaled(const orr_cluster *cluster, orr_cluster_factors factors)
{
    const orr_cluster *ret = NULL;
    orr_error err = {0};
    if (orr_cluster_scaled(cluster, &factors, arena, &ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return ret;
}

static void only_what_is_between_sites_is_scaled(void **state)
{
    (void)state;
    const orr_cluster *all = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    const orr_cluster *c =
        scaled(all, (orr_cluster_factors){
                        .latency = 2, .bandwidth = 0.5, .oversubscription = 0.25, .compute = 1});
    for (uint32_t l = 0; l < 3; l++)
        assert_memory_equal(&c->levels[l], &all->levels[l], sizeof *all->levels);
    assert_true(c->levels[3].latency_ns.value == 40e3 && c->levels[3].bytes_per_s.value == 25e9);
    assert_true(c->levels[3].oversubscription.value == 1); /* not below 1:1 */
    assert_true(c->levels[4].oversubscription.value == 9. / 4);
    assert_ptr_equal(c->levels[3].ends, all->levels[3].ends);
    assert_true(c->cuts[1].latency_ns.value == 2 * all->cuts[1].latency_ns.value);
    assert_true(c->cuts[1].bytes_per_s.value == 12.5e9);
    assert_true(c->cuts[1].oversubscription.value == 9. / 4);
    assert_true(c->cuts[1].price_per_gb.value == 0.02);
    assert_ptr_equal(c->device, all->device);
    assert_true(all->levels[4].oversubscription.value == 9);
}

static void devices_are_scaled_with_their_memory(void **state)
{
    (void)state;
    const orr_cluster *all = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    const orr_cluster *c = scaled(
        all,
        (orr_cluster_factors){.latency = 1, .bandwidth = 1, .oversubscription = 1, .compute = 1.5});
    assert_true(c->device->memory_bytes_per_s.value == 1.5e12);
    assert_string_equal(c->device->name, "card");
    assert_ptr_equal(c->sites[0].device, c->device);
    assert_ptr_equal(c->sites[2].device, c->device);
    assert_true(c->sites[1].device->memory_bytes_per_s.value == 3e12);
    assert_true(isnan(c->device->memory_bytes.value));
    assert_true(all->device->memory_bytes_per_s.value == 1e12);
    assert_memory_equal(c->levels, all->levels, all->n_levels * sizeof *all->levels);
}

static void without_sites_the_highest_level_is_scaled(void **state)
{
    (void)state;
    const orr_cluster *one = PLACED(cluster_of(SITE_PARTS THREE_SITES THREE_CUTS), 60, 0, 0);
    const orr_cluster *c = scaled(
        one,
        (orr_cluster_factors){.latency = 3, .bandwidth = 1, .oversubscription = 2, .compute = 1});
    assert_true(c->levels[2].latency_ns.value == 30e3 && c->levels[2].oversubscription.value == 4);
    assert_true(c->levels[1].latency_ns.value == 2e3);
}

static void factors_that_cannot_be_are_refused(void **state)
{
    (void)state;
    const orr_cluster *all = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS), *c = NULL;
    static const orr_cluster_factors cases[] = {
        {0, 1, 1, 1}, {1, -1, 1, 1}, {1, 1, NAN, 1}, {1, 1, 1, INFINITY}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_error err = {0};
        assert_int_equal(orr_cluster_scaled(all, &cases[i], arena, &c, &err), ORR_INVALID);
        assert_string_equal(err.text, "factors of a cluster are above 0");
    }
    assert_null(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_is_between_sites_is_scaled),
        cmocka_unit_test(devices_are_scaled_with_their_memory),
        cmocka_unit_test(without_sites_the_highest_level_is_scaled),
        cmocka_unit_test(factors_that_cannot_be_are_refused),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
