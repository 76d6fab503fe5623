/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/schedule/schedule.h"

/* Orders as the papers draw them. f, b, i, w: forward, backward, its halves; ' for each chunk but
 * the first; + between slots that run at once. */
static void must_be(orr_schedule_spec spec, uint32_t stage, const char *want)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_schedule_plan plan;
    orr_error err = {0};
    char text[600] = "";
    size_t n = 0;
    if (orr_schedule_make(&spec, arena, &plan, &err) != ORR_OK)
        fail_msg("%s", err.text);
    for (uint32_t i = plan.first[stage]; i < plan.first[stage + 1]; i++) {
        const orr_schedule_slot *t = &plan.slots[i];
        n += (size_t)snprintf(text + n, sizeof text - n, "%c%u%.*s%s", "fbiw"[t->phase],
                              t -> micro_batch, t -> chunk, "''''", t->paired ? "+" : "");
    }
    assert_string_equal(text, want);
    assert_int_equal(orr_schedule_check(&plan, NULL), ORR_OK);
    orr_arena_free(arena);
}

/* Narayanan et al., SC 2021, figure 4: 4 stages, 8 micro-batches; below, 2 chunks a stage. */
static void figures_of_1f1b(void **state)
{
    (void)state;
    const orr_schedule_spec plain = {ORR_SCHEDULE_1F1B, 4, 1, 8, 0, false};
    must_be(plain, 0, "f0f1f2f3b0f4b1f5b2f6b3f7b4b5b6b7");
    must_be(plain, 3, "f0b0f1b1f2b2f3b3f4b4f5b5f6b6f7b7");
    const orr_schedule_spec two = {ORR_SCHEDULE_INTERLEAVED, 4, 2, 8, 4, false};
    must_be(two, 0,
            "f0f1f2f3f0'f1'f2'f3'f4f5f6b0'f7b1'f4'b2'f5'b3'f6'b0f7'b1b2b3b4'b5'b6'b7'b4b5"
            "b6b7");
    must_be(two, 3,
            "f0f1f2f3f0'b0'f1'b1'f2'b2'f3'b3'f4b0f5b1f6b2f7b3f4'b4'f5'b5'f6'b6'f7'b7'b4b5"
            "b6b7");
}

/* A forward beside the backward after it, one forward further ahead. */
static void overlapped_slots_run_in_pairs(void **state)
{
    (void)state;
    const orr_schedule_spec one = {ORR_SCHEDULE_1F1B, 1, 1, 4, 0, true};
    must_be(one, 0, "f0f1+b0f2+b1f3+b2b3");
    const orr_schedule_spec two = {ORR_SCHEDULE_INTERLEAVED, 4, 2, 8, 4, true};
    must_be(
        two, 3,
        "f0f1f2f3f0'f1'+b0'f2'+b1'f3'+b2'f4+b3'f5+b0f6+b1f7+b2f4'+b3f5'+b4'f6'+b5'f7'+b6'b7'b4b5b6b7");
    orr_arena *arena = orr_arena_new(0, 0);
    for (uint32_t stages = 1; stages <= 8; stages *= 2)
        for (uint32_t chunks = 1 + (stages > 1); chunks <= 4; chunks++)
            for (uint32_t group = stages; group <= stages + 1; group++)
                for (uint32_t m = group; m <= 3 * stages; m++) {
                    const orr_schedule_spec spec = {
                        ORR_SCHEDULE_INTERLEAVED, stages, chunks, m, group, true};
                    orr_schedule_plan plan;
                    orr_error err = {0};
                    uint32_t pairs = 0;
                    if (orr_schedule_spec_check(&spec, &err) != ORR_OK)
                        continue;
                    assert_int_equal(orr_schedule_make(&spec, arena, &plan, &err), ORR_OK);
                    if (orr_schedule_check(&plan, &err) != ORR_OK)
                        fail_msg("%u stages, %u chunks, %u by %u: %s", stages, chunks, m, group,
                                 err.text);
                    for (uint32_t i = plan.first[stages - 1]; i < plan.first[stages]; i++)
                        pairs += plan.slots[i].paired;
                    const uint32_t ahead = (chunks - 1) * group + 1, all = m * chunks;
                    assert_int_equal(pairs, ahead < all ? all - ahead : 0);
                }
    orr_arena_free(arena);
}

/* Breadth first: all micro-batches of a chunk in a row. */
static void groups_are_tunable(void **state)
{
    (void)state;
    must_be((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 2, 2, 3, 3, false}, 1,
            "f0f1f2f0'b0'f1'b1'f2'b2'b0b1b2");
    must_be((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 2, 2, 5, 3, false}, 1,
            "f0f1f2f0'b0'f1'b1'f2'b2'f3b0f4b1f3'b2f4'b3'b4'b3b4");
    must_be((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 2, 1, 2, 0, false}, 0, "f0f1b0b1");
    /* Fewer than stages, as in Llama 3: all forwards come before all backwards. */
    must_be((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 3, 2, 3, 2, false}, 0,
            "f0f1f0'f1'f2f2'b0'b1'b0b1b2'b2");
}

/* Qi et al., arXiv 2401.10241, figure 3: 4 stages, 8 micro-batches. */
static void figure_of_zb_h1(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_ZB_H1, 4, 1, 8, 0, false};
    must_be(spec, 0, "f0f1f2f3i0w0f4i1w1f5i2w2f6i3w3f7i4w4i5w5i6w6i7w7");
    must_be(spec, 3, "f0i0f1i1f2i2f3i3w0f4i4w1f5i5w2f6i6w3f7i7w4w5w6w7");
}

static void the_v_turns_at_the_last_stage(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_ZB_V, 2, 2, 3, 0, false};
    must_be(spec, 0, "f0f1f2f0'i0'w0'f1'i1'w1'i0w0f2'i2'w2'i1w1i2w2");
    must_be(spec, 1, "f0f0'f1f1'i0'w0'f2i0w0f2'i1'w1'i1i2'i2w1w2'w2");
}

/* DeepSeek-V3, figure 5: 8 stages, 20 micro-batches of which 10 come from each end. */
static void figure_of_dualpipe(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_DUALPIPE, 8, 2, 20, 0, false};
    must_be(spec, 0,
            "f0f1f2f3f4f5f6f10'i10'w10'f11'i11'w11'f12'i12'w12'f13'f7+b13'f14'+b0f8+b14'f15'+b1"
            "f9+b15'f16'+b2b16'f17'+b3b17'f18'+b4b18'f19'+b5b19'i6w6i7w7i8w8i9w9");
}

static void refused(orr_schedule_spec spec, const char *why)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_schedule_plan plan;
    orr_error err = {0};
    assert_int_equal(orr_schedule_make(&spec, arena, &plan, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
    orr_arena_free(arena);
}

static void numbers_that_do_not_go_together(void **state)
{
    (void)state;
    refused((orr_schedule_spec){ORR_SCHEDULE_UNKNOWN, 1, 1, 1, 0, false}, "no such");
    refused((orr_schedule_spec){99, 1, 1, 1, 0, false}, "no such");
    refused((orr_schedule_spec){ORR_SCHEDULE_1F1B, 4, 1, 0, 0, false}, "0 micro-batches");
    refused((orr_schedule_spec){ORR_SCHEDULE_1F1B, 4, 2, 8, 0, false}, "vp=2");
    refused((orr_schedule_spec){ORR_SCHEDULE_ZB_V, 4, 1, 8, 0, false}, "2 chunks");
    refused((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 4, 2, 8, 9, false}, "1 to 8");
    refused((orr_schedule_spec){ORR_SCHEDULE_DUALPIPE, 5, 2, 20, 0, false}, "even");
    refused((orr_schedule_spec){ORR_SCHEDULE_GPIPE, UINT32_MAX, 1, UINT32_MAX, 0, false}, "2^18");
    refused((orr_schedule_spec){ORR_SCHEDULE_INTERLEAVED, 4096, 4096, UINT32_MAX, 4096, false},
            "2^18");
    refused((orr_schedule_spec){ORR_SCHEDULE_1F1B, 4, 1, 1 << 17, 0, false}, "2^18");
}

static void faults_are_named(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_schedule_plan plan;
    orr_error err = {0};
    const orr_schedule_spec spec = {ORR_SCHEDULE_1F1B, 2, 1, 2, 0, false};
    assert_int_equal(orr_schedule_make(&spec, arena, &plan, NULL), ORR_OK);
    orr_schedule_slot *slots = (orr_schedule_slot *)plan.slots; /* f0f1b0b1 f0b0f1b1 */
    slots[0].chunk = 1;
    assert_int_equal(orr_schedule_check(&plan, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "stage 0: forward of micro-batch 0 in chunk 1 does not belong there");
    slots[0].chunk = 0;
    slots[7].micro_batch = 0;
    assert_int_equal(orr_schedule_check(&plan, &err), ORR_INVALID);
    assert_string_equal(err.text, "stage 1: backward of micro-batch 0 in chunk 0 is there twice");
    slots[7] = (orr_schedule_slot){.phase = ORR_SLOT_INPUT, .micro_batch = 1};
    assert_int_equal(orr_schedule_check(&plan, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "stage 1: weight gradient of micro-batch 1 in chunk 0 is missing");
    slots[7].phase = ORR_SLOT_BACKWARD;
    slots[0].micro_batch = 1; /* f1f0b0b1: no fault, stage 1 waits a little */
    slots[1].micro_batch = 0;
    assert_int_equal(orr_schedule_check(&plan, &err), ORR_OK);
    slots[1] = (orr_schedule_slot){.phase = ORR_SLOT_BACKWARD, .micro_batch = 1};
    slots[3] = (orr_schedule_slot){.phase = ORR_SLOT_FORWARD, .micro_batch = 0};
    assert_int_equal(orr_schedule_check(&plan, &err), ORR_INVALID);
    assert_string_equal(err.text, "stage 0: backward of micro-batch 1 in chunk 0 waits for ever");
    orr_arena_free(arena);
}

static void bubbles_without_a_formula_have_none(void **state)
{
    (void)state;
    const orr_slot_times alike = {1, 1, 1}, uneven = {1, 2, 1};
    const orr_schedule_spec early = {ORR_SCHEDULE_INTERLEAVED, 4, 2, 3, 3, false};
    const orr_schedule_spec short_h1 = {ORR_SCHEDULE_ZB_H1, 4, 1, 3, 0, false};
    const orr_schedule_spec vee = {ORR_SCHEDULE_ZB_V, 4, 2, 8, 0, false};
    const orr_schedule_spec deepseek = {ORR_SCHEDULE_DUALPIPE, 8, 2, 20, 0, false};
    assert_true(isnan(orr_schedule_bubble(&early, &alike)));
    assert_true(isnan(orr_schedule_bubble(&short_h1, &alike)));
    assert_true(isnan(orr_schedule_bubble(&vee, &uneven)));
    assert_true(orr_schedule_bubble(&vee, &alike) == 0);
    assert_true(fabs(orr_schedule_bubble(&deepseek, &uneven) - 3 * (4 + 3 - 3) / 80.0) < 1e-12);
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    const orr_schedule_spec spec = {ORR_SCHEDULE_INTERLEAVED, 4, 2, 8, 4, false};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_schedule_plan plan;
    assert_int_equal(orr_schedule_make(&spec, arena, &plan, NULL), ORR_OK);
    for (uint64_t nth = 1; nth <= 4; nth++) {
        orr_alloc_fail_from(nth);
        assert_int_equal(orr_schedule_check(&plan, NULL), ORR_NO_MEMORY);
        orr_alloc_fail_from(0);
    }
    orr_arena_free(arena);
    arena = orr_arena_new(0, 200);
    assert_int_equal(orr_schedule_make(&spec, arena, &plan, NULL), ORR_NO_MEMORY);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_1f1b),
        cmocka_unit_test(overlapped_slots_run_in_pairs),
        cmocka_unit_test(groups_are_tunable),
        cmocka_unit_test(figure_of_zb_h1),
        cmocka_unit_test(the_v_turns_at_the_last_stage),
        cmocka_unit_test(figure_of_dualpipe),
        cmocka_unit_test(numbers_that_do_not_go_together),
        cmocka_unit_test(faults_are_named),
        cmocka_unit_test(bubbles_without_a_formula_have_none),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
