/* SPDX-License-Identifier: Apache-2.0 */
#include "sites_text.h"

static void assert_unit(const orr_cluster *c, uint32_t level, uint32_t device, uint32_t first,
                        uint32_t end)
{
    const orr_device_range unit = orr_cluster_unit(c, level, device);
    assert_int_equal(unit.first, first);
    assert_int_equal(unit.end, end);
}

static void units_of_a_tree_are_all_alike(void **state)
{
    (void)state;
    static const orr_level levels[] = {
        {.name = "host", .size = 4, .devices = 4},
        {.name = "rack", .size = 3, .devices = 12},
        {.name = "hall", .size = 2, .devices = 24},
    };
    const orr_cluster c = {.name = "c", .n_devices = 24, .n_levels = 3, .levels = levels};
    assert_unit(&c, 0, 7, 4, 8);
    assert_unit(&c, 1, 11, 0, 12);
    assert_unit(&c, 1, 12, 12, 24);
    assert_unit(&c, 2, 23, 0, 24);
    assert_int_equal(orr_cluster_site(&c, 23), 0);
}

/* 60, 28 and 12 devices. */
static void units_begin_anew_in_each_site(void **state)
{
    (void)state;
    const orr_cluster *c = cluster_of(SITE_PARTS THREE_SITES THREE_CUTS);
    assert_unit(c, 1, 59, 48, 60);
    assert_unit(c, 1, 60, 60, 72);
    assert_unit(c, 1, 87, 84, 88); /* a host of a rack */
    assert_unit(c, 0, 87, 84, 88);
    assert_unit(c, 1, 88, 88, 100);
    assert_unit(c, 2, 0, 0, 60);
    assert_unit(c, 2, 87, 60, 88);
    assert_unit(c, 3, 59, 0, 88);
    assert_unit(c, 3, 99, 88, 100);
    assert_unit(c, 4, 50, 0, 100);
    static const uint32_t of[][2] = {{0, 0}, {59, 0}, {60, 1}, {87, 1}, {88, 2}, {99, 2}};
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        assert_int_equal(orr_cluster_site(c, of[i][0]), of[i][1]);
}

static void sites_of_equal_size_are_found_too(void **state)
{
    (void)state;
    const orr_cluster *c = PLACED(cluster_of(SITE_PARTS THREE_SITES THREE_CUTS), 24, 24, 0);
    assert_int_equal(orr_cluster_site(c, 23), 0);
    assert_int_equal(orr_cluster_site(c, 24), 1);
    assert_unit(c, 2, 24, 24, 48);
    c = PLACED(c, 0, 10);
    assert_int_equal(orr_cluster_site(c, 9), 0);
    assert_unit(c, 0, 9, 8, 10); /* a host that is not all used */
    assert_unit(c, 1, 9, 0, 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(units_of_a_tree_are_all_alike),
        cmocka_unit_test(units_begin_anew_in_each_site),
        cmocka_unit_test(sites_of_equal_size_are_found_too),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
