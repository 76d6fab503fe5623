/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include <orrery/outcome.h>

static orr_arena *arena;
static orr_error err;

static orr_status costs_of(const char *cluster, const char *model, uint32_t ranks,
                           orr_expert_costs *ret, uint32_t *ret_host)
{
    const orr_catalog *catalog;
    const orr_cluster *c;
    const orr_calibration *calibration;
    const orr_model *m = NULL;
    assert_int_equal(orr_catalog_open(arena, &catalog, &err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, cluster, arena, &c, &err), ORR_OK);
    assert_int_equal(orr_calibration_of(c->device, 0, arena, &calibration, &err), ORR_OK);
    if (model != NULL)
        assert_int_equal(orr_model_load(model, arena, &m, &err), ORR_OK);
    return orr_expert_costs_of_cluster(c, calibration, m, ranks, 4096, arena, ret, ret_host, &err);
}

/* The calibration reaches at most what the links are said to do, and not less than a third. */
static void rates_are_those_of_links(void **state)
{
    (void)state;
    orr_expert_costs c;
    uint32_t host;
    assert_int_equal(costs_of("h100_superpod", "deepseek-v3", 64, &c, &host), ORR_OK);
    assert_int_equal(host, 8);
    assert_in_range((uint64_t)c.host_bytes_per_s, 150e9, 450e9);
    assert_in_range((uint64_t)c.network_bytes_per_s, 50e9 / 3, 50e9);
    assert_int_equal((int64_t)c.dispatch_bytes, 2 * 7168);
    assert_int_equal((int64_t)c.expert_bytes, 2 * 3 * 7168 * 2048);
    assert_int_equal((int64_t)c.top_k, 8);
    /* 88 MFLOP at 400 to 989 TFLOP/s */
    assert_true(c.row_ns > 88.08e6 / 989e12 * 1e9 && c.row_ns < 88.08e6 / 300e12 * 1e9);
}

static void one_host_and_hosts_of_one(void **state)
{
    (void)state;
    orr_expert_costs c;
    uint32_t host;
    assert_int_equal(costs_of("dgx_h100", NULL, 4, &c, &host), ORR_OK);
    assert_int_equal(host, 4);
    assert_true(c.host_bytes_per_s > 0 && c.network_bytes_per_s == c.host_bytes_per_s);
    assert_non_null(strstr(c.source, "assumed"));
}

static void what_cannot_be(void **state)
{
    (void)state;
    orr_expert_costs c;
    uint32_t host;
    assert_int_equal(costs_of("dgx_h100", "deepseek-v3", 16, &c, &host), ORR_INVALID);
    assert_string_equal(err.text, "16 ranks of experts on the 8 devices of dgx_h100");
    assert_int_equal(costs_of("dgx_h100", "llama3-8b", 8, &c, &host), ORR_INVALID);
    assert_string_equal(err.text, "llama3-8b has no experts");
}

static int set_up(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_links),
        cmocka_unit_test(one_host_and_hosts_of_one),
        cmocka_unit_test(what_cannot_be),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
