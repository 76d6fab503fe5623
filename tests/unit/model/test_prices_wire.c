/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/step/module_cost.h"

typedef struct scene {
    orr_arena *arena;
    const orr_cluster *cluster;
    const orr_calibration *calibration;
    orr_job_rates rates;
    orr_error err;
} scene;

static void open_scene(scene *s, const char *cluster)
{
    const orr_catalog *catalog;
    s->arena = orr_arena_new(0, 0);
    assert_int_equal(orr_catalog_open(s->arena, &catalog, &s->err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, cluster, s->arena, &s->cluster, &s->err), ORR_OK);
    assert_int_equal(orr_calibration_of(s->cluster->device, 0, s->arena, &s->calibration, &s->err),
                     ORR_OK);
    orr_job_rates_init(s->cluster, s->calibration, ORR_ALGORITHM_AUTO, &s->rates);
}

static orr_step_prices prices_of(scene *s, orr_plan plan)
{
    orr_step_prices prices = {.kernels = &s->rates};
    plan = orr_plan_with_defaults(&plan);
    assert_int_equal(orr_step_prices_wire(&plan, &s->rates, s->arena, &prices, &s->err), ORR_OK);
    return prices;
}

/* Where nothing is said all rates are the job's own. */
static void nothing_said_changes_nothing(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    const orr_step_prices prices = prices_of(&s, (orr_plan){.dp = 8});
    for (int axis = 0; axis < ORR_AXES; axis++) {
        assert_ptr_equal(prices.transfers[axis], &s.rates);
        assert_ptr_equal(orr_step_rates(&prices, (orr_axis)axis, ORR_COLL_ALL_REDUCE), &s.rates);
    }
    orr_arena_free(s.arena);
}

/* Gradients and weights are one class; stages, context and experts are each their own. */
static void classes_have_wires_of_their_own(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    const orr_step_prices prices =
        prices_of(&s, (orr_plan){.wire_dp = ORR_RDMA_SINGLE,
                                 .wire_ep = ORR_RDMA_QP4,
                                 .dp_algorithm = ORR_ALGORITHM_HIERARCHICAL,
                                 .dp_chunks = 3});
    static const orr_axis of_dp[] = {ORR_AXIS_DP,    ORR_AXIS_EDP,     ORR_AXIS_GRADIENT,
                                     ORR_AXIS_SHARD, ORR_AXIS_REPLICA, ORR_AXIS_TIED,
                                     ORR_AXIS_OUTER};
    for (size_t i = 0; i < sizeof of_dp / sizeof *of_dp; i++) {
        const orr_job_rates *rates = prices.transfers[of_dp[i]];
        assert_ptr_equal(rates, prices.transfers[ORR_AXIS_DP]);
        assert_int_equal(rates->algorithm, ORR_ALGORITHM_HIERARCHICAL);
        assert_int_equal(rates->network.chunks, 3);
    }
    assert_ptr_not_equal(prices.transfers[ORR_AXIS_EP], &s.rates);
    assert_ptr_not_equal(prices.transfers[ORR_AXIS_EP], prices.transfers[ORR_AXIS_DP]);
    assert_int_equal(prices.transfers[ORR_AXIS_EP]->algorithm, ORR_ALGORITHM_AUTO);
    assert_ptr_equal(prices.transfers[ORR_AXIS_PP], &s.rates);
    assert_ptr_equal(prices.transfers[ORR_AXIS_CP], &s.rates);
    assert_ptr_equal(prices.transfers[ORR_AXIS_TP], &s.rates);
    const uint32_t top = s.cluster->n_levels - 1;
    assert_true(
        prices.transfers[ORR_AXIS_DP]->network.levels[top].bytes_per_s[ORR_PROTOCOL_BANDWIDTH] <
        s.rates.network.levels[top].bytes_per_s[ORR_PROTOCOL_BANDWIDTH]);
    orr_arena_free(s.arena);
}

static double frac_of(scene *s, orr_plan plan, orr_axis axis, orr_collective collective)
{
    const orr_step_prices prices = prices_of(s, plan);
    const orr_job_rates *rates = orr_step_rates(&prices, axis, collective);
    for (uint32_t l = 0; l <= s->cluster->site_level; l++)
        assert_true(rates->network.bytes_frac[l] == 0);
    return rates->network.bytes_frac[s->cluster->site_level + 1];
}

/* Sums of gradients above the level of sites, against what they are summed in; a meeting's are
 * fp32; weights that are gathered stay as they are. */
static void sums_are_compressed_between_sites(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    const orr_plan fp8 = {.dp = 8, .zero = 1, .compress = ORR_COMPRESS_FP8};
    orr_plan bf16 = fp8, low = fp8;
    bf16.compress = ORR_COMPRESS_BF16;
    low.gradients = ORR_PRECISION_BF16;
    assert_true(frac_of(&s, fp8, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER) == 0.25);
    assert_true(frac_of(&s, fp8, ORR_AXIS_GRADIENT, ORR_COLL_ALL_REDUCE) == 0.25);
    assert_true(frac_of(&s, fp8, ORR_AXIS_SHARD, ORR_COLL_ALL_GATHER) == 0);
    assert_true(frac_of(&s, fp8, ORR_AXIS_CP, ORR_COLL_ALL_REDUCE) == 0);
    assert_true(frac_of(&s, bf16, ORR_AXIS_EDP, ORR_COLL_REDUCE_SCATTER) == 0.5);
    assert_true(frac_of(&s, low, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER) == 0.5);
    assert_true(frac_of(&s, low, ORR_AXIS_OUTER, ORR_COLL_ALL_REDUCE) == 0.25);
    low.compress = ORR_COMPRESS_BF16; /* what they are summed in already */
    assert_true(frac_of(&s, low, ORR_AXIS_SHARD, ORR_COLL_REDUCE_SCATTER) == 0);
    orr_arena_free(s.arena);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, "three_buildings");
    const orr_plan plan = orr_plan_with_defaults(
        &(orr_plan){.wire_dp = ORR_RDMA_QP16, .compress = ORR_COMPRESS_INT8});
    orr_arena *small = orr_arena_new(0, 64);
    orr_step_prices prices = {.kernels = &s.rates};
    assert_int_equal(orr_step_prices_wire(&plan, &s.rates, small, &prices, NULL), ORR_NO_MEMORY);
    orr_arena_free(small);
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_said_changes_nothing),
        cmocka_unit_test(classes_have_wires_of_their_own),
        cmocka_unit_test(sums_are_compressed_between_sites),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
