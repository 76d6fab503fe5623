/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "model/plan/plan.h"

static void must_be(orr_schedule schedule, uint32_t stage, uint32_t stages, uint32_t n,
                    const char *want)
{
    orr_schedule_slot slots[32];
    char text[200];
    size_t len = 0;
    orr_schedule_stage_slots(schedule, stage, stages, n, slots);
    for (uint32_t i = 0; i < 2 * n; i++)
        len +=
            (size_t)snprintf(text + len, sizeof text - len, "%s%u",
                             slots[i].phase == ORR_SLOT_BACKWARD ? "b" : "f", slots[i].micro_batch);
    assert_string_equal(text, want);
}

/* Figure 4 of Narayanan et al., SC 2021: 4 stages, 8 micro-batches. */
static void one_forward_one_backward(void **state)
{
    (void)state;
    must_be(ORR_SCHEDULE_1F1B, 0, 4, 8, "f0f1f2f3b0f4b1f5b2f6b3f7b4b5b6b7");
    must_be(ORR_SCHEDULE_1F1B, 1, 4, 8, "f0f1f2b0f3b1f4b2f5b3f6b4f7b5b6b7");
    must_be(ORR_SCHEDULE_1F1B, 3, 4, 8, "f0b0f1b1f2b2f3b3f4b4f5b5f6b6f7b7");
    must_be(ORR_SCHEDULE_1F1B, 0, 4, 2, "f0f1b0b1");
    must_be(ORR_SCHEDULE_1F1B, 0, 1, 1, "f0b0");
}

static void all_forwards_first(void **state)
{
    (void)state;
    must_be(ORR_SCHEDULE_GPIPE, 0, 4, 3, "f0f1f2b0b1b2");
    must_be(ORR_SCHEDULE_GPIPE, 3, 4, 3, "f0f1f2b0b1b2");
}

static void places_and_ranks_are_inverse(void **state)
{
    (void)state;
    const orr_plan plan = {.dp = 3, .tp = 2, .pp = 4};
    for (uint32_t r = 0; r < 24; r++)
        assert_int_equal(orr_recorded_rank_at(&plan, orr_recorded_position_of(&plan, r)), r);
    const orr_recorded_position at = orr_recorded_position_of(&plan, 9);
    assert_int_equal(at.stage, 1);
    assert_int_equal(at.replica, 1);
    assert_int_equal(at.slice, 1);
}

/* Each grouping is a partition; two ranks are together where only its own coordinate differs. */
static void groupings_partition_the_ranks(void **state)
{
    (void)state;
    const orr_plan plan = {.dp = 3, .tp = 2, .pp = 4};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_grouping *g;
    assert_int_equal(orr_plan_groupings(&plan, arena, &g, NULL), ORR_OK);
    for (uint32_t i = 0; i < ORR_PLAN_GROUPINGS; i++) {
        assert_int_equal(g[i].first[g[i].n_groups], 24);
        for (uint32_t a = 0; a < 24; a++)
            for (uint32_t b = 0; b < 24; b++) {
                const orr_recorded_position x = orr_recorded_position_of(&plan, a),
                                            y = orr_recorded_position_of(&plan, b);
                const bool together = (i == ORR_GROUPING_TP || x.slice == y.slice) &&
                                      (i == ORR_GROUPING_DP || x.replica == y.replica) &&
                                      (i == ORR_GROUPING_PP || x.stage == y.stage);
                assert_int_equal(g[i].group_of[a] == g[i].group_of[b], together);
            }
        for (uint32_t r = 0; r < 24; r++) {
            const orr_strided_group s = orr_plan_group(&plan, i, r);
            const uint32_t first = g[i].first[g[i].group_of[r]];
            for (uint32_t k = 0; k < s.size; k++)
                assert_int_equal(g[i].members[first + k], s.first + k * s.stride);
        }
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_forward_one_backward),
        cmocka_unit_test(all_forwards_first),
        cmocka_unit_test(places_and_ranks_are_inverse),
        cmocka_unit_test(groupings_partition_the_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
