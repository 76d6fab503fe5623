/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/parallel.h"

static void must_have(const orr_plan *plan, orr_axis axis, uint32_t rank, const uint32_t *want,
                      uint32_t n)
{
    uint32_t members[16];
    assert_int_equal(orr_plan_group_size(plan, axis), n);
    orr_plan_members_of(plan, axis, rank, members);
    assert_memory_equal(members, want, n * sizeof *want);
}
#define MUST_HAVE(plan, axis, rank, ...)                                     \
    must_have((plan), ORR_AXIS_##axis, (rank), (const uint32_t[]){__VA_ARGS__}, \
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
        cmocka_unit_test(only_the_ends_are_tied),
        cmocka_unit_test(spans_on_a_cluster),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
