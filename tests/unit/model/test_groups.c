/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/plan/groups.h"
#include "model/plan/plan.h"

static void must_have(const orr_plan *plan, orr_axis axis, uint32_t rank, const uint32_t *want,
                      uint32_t n)
{
    uint32_t members[16];
    assert_int_equal(orr_plan_group_size(plan, axis), n);
    orr_plan_members_of(plan, axis, rank, members);
    assert_memory_equal(members, want, n * sizeof *want);
}
#define MUST_HAVE(plan, axis, rank, ...)                                                           \
    must_have((plan), ORR_AXIS_##axis, (rank), (const uint32_t[]){__VA_ARGS__},                    \
              sizeof((const uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t))

static void ranks_in_the_usual_order(void **state)
{
    (void)state;
    const orr_plan plan = {.tp = 2, .cp = 2, .dp = 2, .pp = 2};
    const orr_coordinates at = orr_plan_coordinates(&plan, 13);
    assert_int_equal(at.at[ORR_AXIS_TP], 1);
    assert_int_equal(at.at[ORR_AXIS_CP], 0);
    assert_int_equal(at.at[ORR_AXIS_DP], 1);
    assert_int_equal(at.at[ORR_AXIS_PP], 1);
    assert_int_equal(orr_plan_rank_at(&plan, &at), 13);
    MUST_HAVE(&plan, TP, 13, 12, 13);
    MUST_HAVE(&plan, CP, 13, 13, 15);
    MUST_HAVE(&plan, DP, 13, 9, 13);
    MUST_HAVE(&plan, PP, 13, 5, 13);
    MUST_HAVE(&plan, GRADIENT, 13, 9, 11, 13, 15);
    MUST_HAVE(&plan, TIED, 13, 5, 13);
}

/* Llama 3 (arXiv 2407.21783, section 3.3.2) lies as tp, cp, pp, dp. */
static void ranks_in_the_order_of_llama(void **state)
{
    (void)state;
    const orr_plan plan = {.tp = 2, .cp = 2, .pp = 2, .dp = 2, .order = {1, 2, 4, 3}};
    MUST_HAVE(&plan, PP, 13, 9, 13);
    MUST_HAVE(&plan, DP, 13, 5, 13);
    MUST_HAVE(&plan, GRADIENT, 0, 0, 2, 8, 10);
}

static void experts_take_the_innermost_ranks(void **state)
{
    (void)state;
    const orr_plan with_slices = {.tp = 2, .dp = 4, .pp = 2, .ep = 2};
    MUST_HAVE(&with_slices, ETP, 5, 4, 5);
    MUST_HAVE(&with_slices, EP, 5, 5, 7);
    MUST_HAVE(&with_slices, EDP, 5, 1, 5);
    const orr_plan whole = {.tp = 2, .dp = 4, .pp = 2, .ep = 4, .etp = 1, .order = {1, 4, 3, 2}};
    MUST_HAVE(&whole, EP, 0, 0, 1, 4, 5);
    MUST_HAVE(&whole, EDP, 0, 0, 8);
    MUST_HAVE(&whole, ETP, 7, 7);
}

static void shards_and_their_replicas(void **state)
{
    (void)state;
    orr_plan plan = {.tp = 2, .dp = 4, .zero = 3, .shards = 2};
    MUST_HAVE(&plan, SHARD, 6, 4, 6);
    MUST_HAVE(&plan, REPLICA, 6, 2, 6);
    plan.shards = 0;
    MUST_HAVE(&plan, SHARD, 6, 0, 2, 4, 6);
    MUST_HAVE(&plan, REPLICA, 6, 6);
    plan.zero = 0;
    MUST_HAVE(&plan, SHARD, 6, 6);
    MUST_HAVE(&plan, REPLICA, 6, 0, 2, 4, 6);
}

/* dp = inner x outer, and outer lies outside of the pipeline too. */
static void the_outer_part_lies_outside(void **state)
{
    (void)state;
    orr_plan plan = {.tp = 2, .dp = 4, .pp = 2, .dp_outer = 2, .zero = 1, .shards = 2};
    const orr_coordinates at = orr_plan_coordinates(&plan, 11);
    assert_int_equal(at.at[ORR_AXIS_TP], 1);
    assert_int_equal(at.at[ORR_AXIS_DP], 3);
    assert_int_equal(at.at[ORR_AXIS_PP], 0);
    assert_int_equal(orr_plan_rank_at(&plan, &at), 11);
    MUST_HAVE(&plan, PP, 11, 11, 15);
    MUST_HAVE(&plan, DP, 11, 1, 3, 9, 11);
    MUST_HAVE(&plan, GRADIENT, 4, 4, 6, 12, 14);
    MUST_HAVE(&plan, SHARD, 12, 12, 14);
    MUST_HAVE(&plan, REPLICA, 12, 4, 12);
    MUST_HAVE(&plan, OUTER, 12, 12);
    plan.ep = 4;
    MUST_HAVE(&plan, EP, 1, 1, 3, 9, 11);
    plan.ep = 2;
    MUST_HAVE(&plan, EDP, 1, 1, 9);
    plan.local_steps = 10; /* outer parts are jobs of their own, which meet */
    MUST_HAVE(&plan, GRADIENT, 4, 4, 6);
    MUST_HAVE(&plan, REPLICA, 12, 12);
    MUST_HAVE(&plan, EDP, 1, 1);
    MUST_HAVE(&plan, OUTER, 12, 4, 12);
}

static void only_the_ends_are_tied(void **state)
{
    (void)state;
    orr_plan plan = {.tp = 2, .pp = 4};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_grouping g;
    assert_int_equal(orr_plan_grouping(&plan, ORR_AXIS_TIED, arena, &g, NULL), ORR_OK);
    assert_string_equal(g.name, "tied");
    assert_int_equal(g.n_groups, 2);
    assert_int_equal(g.group_of[3], ORR_NONE);
    assert_int_equal(g.group_of[7], g.group_of[1]);
    MUST_HAVE(&plan, TIED, 3, 1, 7);
    plan.schedule = ORR_SCHEDULE_ZB_V;
    assert_int_equal(orr_plan_group_size(&plan, ORR_AXIS_TIED), 1);
    orr_arena_free(arena);
}

static void spans_on_a_cluster(void **state)
{
    (void)state;
    const orr_level levels[] = {{.size = 8, .devices = 8}, {.size = 4, .devices = 32}};
    const orr_cluster cluster = {.name = "toy", .levels = levels, .n_levels = 2, .n_devices = 32};
    orr_plan plan = {.tp = 4, .dp = 4, .pp = 2};
    orr_span span;
    orr_error err = {0};
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_DP, &cluster, &span, NULL), ORR_OK);
    assert_int_equal(span.n_ranks, 4);
    assert_int_equal(span.width[0], 2);
    assert_int_equal(span.width[1], 2);
    assert_int_equal(span.top, 1);
    assert_true(span.even);
    assert_int_equal(orr_plan_stage_span(&plan, 0, &cluster, &span, NULL), ORR_OK);
    assert_int_equal(span.width[0], 1);
    assert_int_equal(span.width[1], 2);
    plan.dp = 8;
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_PP, &cluster, &span, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "has 32 devices"));
}

/* Three hosts in a building of five, two in the other: what crosses the cut crosses with its widest
 * group, and what stays inside does not. */
static void spans_on_sites(void **state)
{
    (void)state;
    static const uint32_t ends[] = {20, 28};
    static const orr_site sites[] = {{.name = "", .region = "", .devices = 20},
                                     {.name = "", .region = "", .devices = 8}};
    static const orr_site_link cut = {.a = 0, .b = 1};
    const orr_level levels[] = {{.size = 4, .devices = 4},
                                {.size = 5, .devices = 20, .ends = ends},
                                {.size = 2, .devices = 28}};
    const orr_cluster cluster = {.name = "toy",
                                 .levels = levels,
                                 .n_levels = 3,
                                 .n_devices = 28,
                                 .n_sites = 2,
                                 .site_level = 1,
                                 .sites = sites,
                                 .n_cuts = 1,
                                 .cuts = &cut};
    const orr_plan plan = orr_plan_with_defaults(
        &(orr_plan){.tp = 4, .dp = 7, .sites = {5, 2}, .zero = 1, .shards = 1});
    orr_span span;
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_GRADIENT, &cluster, &span, NULL), ORR_OK);
    assert_int_equal(span.width[0], 1);
    assert_int_equal(span.width[1], 5);
    assert_int_equal(span.width[2], 2);
    assert_int_equal(span.top, 2);
    assert_false(span.even);
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_TP, &cluster, &span, NULL), ORR_OK);
    assert_int_equal(span.top, 0);
    span = orr_plan_world_span(&plan, &cluster);
    assert_int_equal(span.n_ranks, 28);
    assert_int_equal(span.width[0], 4);
    assert_int_equal(span.width[1], 5);
    assert_int_equal(span.width[2], 2);
    /* Stages 0 to 4 in the first building: only the fifth hop leaves it. */
    const orr_plan stages = orr_plan_with_defaults(
        &(orr_plan){.tp = 4, .pp = 7, .sites = {5, 2}, .cross = ORR_CROSS_PP, .micro_batches = 7});
    for (uint32_t s = 0; s < 7; s++) {
        assert_int_equal(orr_plan_stage_span(&stages, s, &cluster, &span, NULL), ORR_OK);
        assert_int_equal(span.top, s == 4 || s == 6 ? 2 : 1);
    }
    assert_int_equal(orr_plan_stage_ranks(&stages, 5, 22), 2);
    assert_int_equal(orr_plan_stage_ranks(&stages, 5, 28), 4);
    assert_int_equal(orr_plan_stage_ranks(&stages, 0, 3), 3);
}

/* What sites get is what the plan says, site by site. */
static void plans_lie_on_sites(void **state)
{
    (void)state;
    static const uint32_t ends[] = {16, 24, 40};
    static const orr_site sites[] = {{.name = "north", .region = "", .devices = 16},
                                     {.name = "middle", .region = "", .devices = 8},
                                     {.name = "south", .region = "", .devices = 16}};
    static const orr_site_link cuts[] = {{.a = 0, .b = 1}, {.a = 0, .b = 2}, {.a = 1, .b = 2}};
    const orr_level levels[] = {{.name = "host", .size = 4, .devices = 4},
                                {.name = "site", .size = 4, .devices = 16, .ends = ends},
                                {.name = "region", .size = 3, .devices = 40}};
    const orr_cluster cluster = {.name = "toy",
                                 .levels = levels,
                                 .n_levels = 3,
                                 .n_devices = 40,
                                 .n_sites = 3,
                                 .site_level = 1,
                                 .sites = sites,
                                 .n_cuts = 3,
                                 .cuts = cuts};
    const orr_cluster *lies,
        plain = {.name = "plain", .levels = levels, .n_levels = 1, .n_devices = 4};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_plan plan = orr_plan_with_defaults(&(orr_plan){.tp = 2, .dp = 6, .sites = {4, 0, 2}});
    assert_int_equal(orr_plan_cluster(&plan, &cluster, arena, &lies, &err), ORR_OK);
    assert_int_equal(lies->n_devices, 12);
    assert_int_equal(lies->n_sites, 2);
    assert_string_equal(lies->sites[1].name, "south");
    assert_int_equal(orr_cluster_site(lies, 7), 0);
    assert_int_equal(orr_cluster_site(lies, 8), 1);
    plan = orr_plan_with_defaults(&(orr_plan){.tp = 2,
                                              .dp = 2,
                                              .dp_outer = 2,
                                              .pp = 3,
                                              .sites = {2, 1, 3},
                                              .cross = ORR_CROSS_PP,
                                              .micro_batches = 3});
    assert_int_equal(orr_plan_cluster(&plan, &cluster, arena, &lies, &err), ORR_OK);
    assert_int_equal(lies->sites[0].devices, 4);
    assert_int_equal(lies->sites[2].devices, 6);
    plan = orr_plan_with_defaults(&(orr_plan){.tp = 4, .dp = 6, .sites = {3, 3}});
    assert_int_equal(orr_plan_cluster(&plan, &cluster, arena, &lies, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "3 replicas of 4 ranks each on site 2, middle: it has 8"));
    plan = orr_plan_with_defaults(&(orr_plan){.dp = 2, .sites = {1, 0, 0, 1}});
    assert_int_equal(orr_plan_cluster(&plan, &cluster, arena, &lies, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "a plan over 4 sites: cluster 'toy' has 3"));
    plan = orr_plan_with_defaults(&(orr_plan){.dp = 2, .sites = {2}});
    assert_int_equal(orr_plan_cluster(&plan, &plain, arena, &lies, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "cluster 'plain' has none"));
    /* What is not said follows from where the ranks lie. */
    plan = orr_plan_with_defaults(&(orr_plan){.tp = 4, .dp = 9, .order = {1, 2, 4, 3}});
    plan = orr_plan_on_sites(&plan, &cluster);
    assert_int_equal(plan.cross, ORR_CROSS_DP);
    assert_int_equal(plan.sites[0], 4);
    assert_int_equal(plan.sites[1], 2);
    assert_int_equal(plan.sites[2], 3);
    assert_int_equal(orr_plan_check(&plan, NULL), ORR_OK);
    plan = orr_plan_with_defaults(&(orr_plan){.tp = 2, .dp = 2, .pp = 10, .micro_batches = 10});
    plan = orr_plan_on_sites(&plan, &cluster);
    assert_int_equal(plan.cross, ORR_CROSS_PP);
    assert_int_equal(plan.sites[0], 4);
    assert_int_equal(plan.sites[2], 4);
    plan = orr_plan_with_defaults(&(orr_plan){.tp = 3, .dp = 9, .order = {1, 2, 4, 3}});
    plan = orr_plan_on_sites(&plan, &cluster);
    assert_int_equal(plan.cross, ORR_CROSS_UNKNOWN);
    assert_int_equal(plan.sites[0], 0);
    plan = orr_plan_with_defaults(&(orr_plan){.dp = 3});
    assert_int_equal(orr_plan_cluster(&plan, &plain, arena, &lies, &err), ORR_OK);
    assert_int_equal(lies->n_devices, 3);
    orr_arena_free(arena);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    const orr_level levels[] = {{.size = 5, .devices = 5}, {.size = 7, .devices = 35}};
    const orr_cluster cluster = {.name = "odd", .levels = levels, .n_levels = 2, .n_devices = 35};
    const orr_plan plan = {.tp = 4, .dp = 8};
    orr_arena *arena = orr_arena_new(0, 64);
    orr_grouping grouping;
    orr_span span;
    assert_int_equal(orr_plan_grouping(&plan, ORR_AXIS_DP, arena, &grouping, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(1);
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_TP, &cluster, &span, NULL), ORR_OK);
    assert_int_equal(orr_plan_span(&plan, ORR_AXIS_DP, &cluster, &span, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(0);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranks_in_the_usual_order),
        cmocka_unit_test(ranks_in_the_order_of_llama),
        cmocka_unit_test(experts_take_the_innermost_ranks),
        cmocka_unit_test(shards_and_their_replicas),
        cmocka_unit_test(the_outer_part_lies_outside),
        cmocka_unit_test(only_the_ends_are_tied),
        cmocka_unit_test(spans_on_a_cluster),
        cmocka_unit_test(spans_on_sites),
        cmocka_unit_test(plans_lie_on_sites),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
