/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/plan.h"

static void must_parse(const char *text, const orr_plan *want)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    assert_true(orr_plan_same(&plan, want));
}

static void must_fail(const char *text, const char *why)
{
    orr_plan plan;
    orr_error err = {0};
    assert_int_equal(orr_plan_parse(text, &plan, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
}

static void texts_are_read(void **state)
{
    (void)state;
    must_parse("", &(orr_plan){0});
    must_parse("dp=4,tp=2", &(orr_plan){.dp = 4, .tp = 2});
    must_parse("seq=4k,schedule=gpipe,vocab=1M,",
               &(orr_plan){.seq = 4096, .vocab = 1 << 20, .schedule = ORR_SCHEDULE_GPIPE});
    must_parse("sp=off,recompute=selective,precision=mxfp8,gradients=bf16,cp_kind=all_gather,zero=3,"
               "offload=both",
               &(orr_plan){.sp = ORR_SWITCH_OFF, .recompute = ORR_RECOMPUTE_SELECTIVE,
                           .precision = ORR_PRECISION_MXFP8, .gradients = ORR_PRECISION_BF16,
                           .cp_kind = ORR_CONTEXT_ALL_GATHER, .zero = 3,
                           .offload = ORR_OFFLOAD_BOTH});
}

/* Axes that are not named lie outside. */
static void orders_are_read(void **state)
{
    (void)state;
    must_parse("order=tp-cp-pp-dp",
               &(orr_plan){.order = {ORR_AXIS_TP + 1, ORR_AXIS_CP + 1, ORR_AXIS_PP + 1,
                                     ORR_AXIS_DP + 1}});
    must_parse("order=pp-tp,tp=2",
               &(orr_plan){.tp = 2, .order = {ORR_AXIS_PP + 1, ORR_AXIS_TP + 1, ORR_AXIS_CP + 1,
                                              ORR_AXIS_DP + 1}});
    must_fail("order=tp-tp", "twice");
    must_fail("order=tp-ep-dp", "'ep' is none of");
    must_fail("order=", "'' is none of");
    must_fail("order=tp-", "'' is none of");
    must_fail("order=tp-cp-dp-pp-tp", "more than four");
    must_fail("order=tp-cp-dp-pp-", "more than four");
    must_fail("order=dp,order=dp", "twice");
}

static void wrong_texts_are_told(void **state)
{
    (void)state;
    must_fail("dp", "no field");
    must_fail("dp=0", "above 0");
    must_fail("dp=-1", "above 0");
    must_fail("dp=4294967295", "above 0");
    must_fail("dp=99999999999999999999", "above 0");
    must_fail("dp=2,dp=2", "twice");
    must_fail("hiden=5", "did you mean 'hidden'");
    must_fail("zzzzzzzz=5", "a plan has no 'zzzzzzzz'");
    must_fail("overlap_td=on", "did you mean 'overlap_tp'");
    must_fail("schedule=zigzag", "1f1b, gpipe, interleaved, zb_h1, zb_v or dualpipe");
    must_fail("sp=yes", "there are off or on");
    must_fail("sp=unknown", "there are off or on");
    must_fail("sp=on,sp=off", "twice");
    must_fail("schedule=1f1b,schedule=1f1b", "twice");
}

static void text_and_plan_are_the_same(void **state)
{
    (void)state;
    static const char text[] = "dp=4,tp=2,pp=8,micro_batches=16,micro_batch=1,layers=32,"
                               "hidden=4096,ffn=11008,heads=32,seq=2048,vocab=32000,schedule=1f1b";
    orr_arena *arena = orr_arena_new(0, 0);
    orr_plan plan;
    assert_int_equal(orr_plan_parse(text, &plan, NULL), ORR_OK);
    assert_string_equal(orr_plan_text(&plan, arena), text);
    assert_string_equal(orr_plan_text(&(orr_plan){0}, arena), "");
    static const char more[] = "tp=8,cp=2,zero=1,recompute=full,sp=off,order=tp-cp-pp-dp";
    assert_int_equal(orr_plan_parse(more, &plan, NULL), ORR_OK);
    assert_string_equal(orr_plan_text(&plan, arena), more);
    orr_arena_free(arena);
}

/* All fields at once, each as long as it gets. */
static void the_longest_plan_has_a_text(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_plan plan = {.order = {4, 3, 2, 1}}, again;
    for (uint32_t i = 0; i < ORR_PLAN_NUMBERS; i++)
        *orr_plan_field(&plan, i) = UINT32_MAX - 1;
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        for (uint8_t k = 1; k < orr_plan_choice_at(i)->n; k++)
            if (*orr_plan_chosen(&plan, i) == 0 ||
                strlen(orr_plan_choice_at(i)->words[k]) >
                    strlen(orr_plan_choice_at(i)->words[*orr_plan_chosen(&plan, i)]))
                *orr_plan_chosen(&plan, i) = k;
    assert_int_equal(orr_plan_parse(orr_plan_text(&plan, arena), &again, NULL), ORR_OK);
    assert_true(orr_plan_same(&plan, &again));
    again.sp = ORR_SWITCH_UNKNOWN;
    assert_false(orr_plan_same(&plan, &again));
    orr_arena_free(arena);
}

static void changes_leave_the_rest(void **state)
{
    (void)state;
    const orr_plan from = {.dp = 2, .tp = 4, .layers = 8, .schedule = ORR_SCHEDULE_GPIPE};
    const orr_plan plan =
        orr_plan_changed(&from, &(orr_plan){.tp = 1, .seq = 7, .sp = ORR_SWITCH_OFF,
                                            .order = {1, 2, 4, 3}});
    const orr_plan want = {.dp = 2, .tp = 1, .layers = 8, .seq = 7, .sp = ORR_SWITCH_OFF,
                           .schedule = ORR_SCHEDULE_GPIPE, .order = {1, 2, 4, 3}};
    assert_true(orr_plan_same(&plan, &want));
}

static orr_plan completed(const char *text)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    return orr_plan_completed(&plan);
}

static void what_is_not_said_is_filled_in(void **state)
{
    (void)state;
    orr_plan p = completed("");
    assert_int_equal(p.dp * p.tp * p.pp * p.cp * p.ep * p.etp * p.vp * p.micro_batch, 1);
    assert_int_equal(p.micro_batches, 1);
    assert_int_equal(p.batch, 1);
    assert_int_equal(p.schedule, ORR_SCHEDULE_1F1B);
    assert_int_equal(p.precision, ORR_PRECISION_BF16);
    assert_int_equal(p.gradients, ORR_PRECISION_FP32);
    assert_int_equal(p.order[ORR_BASE_AXES - 1], ORR_AXIS_PP + 1);
    p = completed("tp=8,pp=16,dp=8,vp=4,batch=2k,zero=1");
    assert_int_equal(p.micro_batches, 256);
    assert_int_equal(p.schedule, ORR_SCHEDULE_INTERLEAVED);
    assert_int_equal(p.group, 16);
    assert_int_equal(p.etp, 8);
    assert_int_equal(p.shards, 8);
    p = completed("dp=4,cp=2,micro_batches=6,micro_batch=2,zero=3");
    assert_int_equal(p.batch, 48);
    assert_int_equal(p.shards, 8);
    assert_int_equal(p.prefetch, 1);
    assert_int_equal(p.gradients, ORR_PRECISION_BF16);
    assert_int_equal(completed("dp=4,micro_batches=6,batch=48").micro_batch, 2);
    assert_int_equal(completed("pp=4,micro_batches=8,schedule=zb_v").vp, 2);
    assert_int_equal(completed("recompute_layers=2").recompute, ORR_RECOMPUTE_BLOCK);
    assert_int_equal(completed("pp=8").micro_batches, 0);
}

/* The first that leaves a rest of no less than the stages. */
static void groups_leave_no_bubbles_of_their_own(void **state)
{
    (void)state;
    assert_int_equal(completed("pp=4,vp=2,micro_batches=12").group, 4);
    assert_int_equal(completed("pp=4,vp=2,micro_batches=10").group, 5);
    assert_int_equal(completed("pp=4,vp=2,micro_batches=13").group, 7);
    assert_int_equal(completed("pp=4,vp=2,micro_batches=6").group, 6);
    assert_int_equal(completed("pp=4,vp=2,micro_batches=2").group, 2);
}

static void must_be(const char *text)
{
    orr_error err = {0};
    orr_plan plan;
    assert_int_equal(orr_plan_parse(text, &plan, &err), ORR_OK);
    if (orr_plan_check(&plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    plan = orr_plan_completed(&plan);
    if (orr_plan_check(&plan, &err) != ORR_OK)
        fail_msg("%s, completed: %s", text, err.text);
}

/* Before and after what is not said is filled in. */
static void must_not_be(const char *text, const char *why)
{
    orr_error err = {0};
    orr_plan plan;
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    for (int i = 0; i < 2; i++) {
        if (orr_plan_check(&plan, &err) != ORR_INVALID)
            fail_msg("%s can be", text);
        if (strstr(err.text, why) == NULL)
            fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
        plan = orr_plan_completed(&plan);
    }
}

static void plans_that_cannot_be(void **state)
{
    (void)state;
    must_not_be("layers=5,pp=8,micro_batches=1", "5 layers cannot fill 8 stages");
    must_not_be("layers=29,pp=8,vp=4,micro_batches=8", "29 layers cannot fill 32 stages");
    must_not_be("layers=8,pp=4,first_layers=6,micro_batches=8", "leave 2 of 8");
    must_not_be("layers=8,pp=2,first_layers=2,last_layers=2,micro_batches=8", "leave 4 of 8");
    must_not_be("heads=12,tp=8", "12 attention heads");
    must_not_be("ffn=10,tp=4", "feed-forward");
    must_not_be("hidden=100,heads=3", "100 hidden");
    must_not_be("seq=4k,cp=3", "4096 tokens");
    must_not_be("pp=2", "micro-batches");
    must_not_be("dp=1M,tp=1k", "2^24");
    must_not_be("dp=3,batch=16", "3 replicas");
    must_not_be("dp=2,batch=16,micro_batch=3", "8 samples");
    must_not_be("dp=2,batch=16,micro_batch=2,micro_batches=8", "4 micro-batches of 2, not 8");
    must_not_be("dp=4,ep=8", "experts over 8 ranks");
    must_not_be("tp=4,dp=4,ep=8,etp=4", "32 ranks");
    must_not_be("dp=8,zero=4", "1, 2 and 3");
    must_not_be("dp=8,shards=4", "zero=1");
    must_not_be("dp=8,zero=2,shards=3", "3 shards");
    must_not_be("pp=4,vp=2,schedule=1f1b,micro_batches=8", "goes with interleaved");
    must_not_be("pp=4,group=4,micro_batches=8", "goes with schedule=interleaved");
    must_not_be("pp=4,vp=2,group=2,micro_batches=8", "it is 4 to 8");
    must_not_be("pp=4,vp=2,group=9,micro_batches=8", "it is 4 to 8");
    must_not_be("pp=4,vp=2,group=6,micro_batches=8", "group=4 does not");
    must_not_be("pp=3,schedule=dualpipe,micro_batches=8", "even number of stages");
    must_not_be("pp=4,schedule=dualpipe,micro_batches=6", "twice as many");
    must_not_be("recompute=block", "recompute_layers=4");
    must_not_be("recompute=full,recompute_layers=4", "goes with recompute=block");
    orr_error err = {0};
    assert_int_equal(orr_plan_check(&(orr_plan){.order = {1, 1, 2, 3}}, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "once each"));
}

static void plans_that_can_be(void **state)
{
    (void)state;
    must_be("");
    must_be("dp=100000,tp=8");
    must_be("layers=126,pp=16,vp=8,micro_batches=16"); /* Llama 3.1 405B */
    must_be("layers=126,pp=16,micro_batches=16,first_layers=7,last_layers=7");
    must_be("vocab=50257,tp=8"); /* is padded */
    must_be("pp=4,batch=12");
    must_be("tp=4,dp=4,ep=16,etp=1");
    must_be("dp=2,cp=4,zero=3,shards=4");
    must_be("pp=4,schedule=dualpipe,micro_batches=8,layers=6");
}

static void ranks_are_counted(void **state)
{
    (void)state;
    assert_int_equal(orr_plan_ranks(&(orr_plan){0}), 1);
    assert_int_equal(orr_plan_ranks(&(orr_plan){.dp = 12500, .tp = 8}), 100000);
    assert_int_equal(orr_plan_ranks(&(orr_plan){.dp = 2, .tp = 3, .cp = 5, .pp = 7, .ep = 2}), 210);
    assert_true(orr_plan_ranks(&(orr_plan){.dp = UINT32_MAX, .tp = UINT32_MAX, .pp = UINT32_MAX}) ==
                UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read),
        cmocka_unit_test(orders_are_read),
        cmocka_unit_test(wrong_texts_are_told),
        cmocka_unit_test(text_and_plan_are_the_same),
        cmocka_unit_test(the_longest_plan_has_a_text),
        cmocka_unit_test(changes_leave_the_rest),
        cmocka_unit_test(what_is_not_said_is_filled_in),
        cmocka_unit_test(groups_leave_no_bubbles_of_their_own),
        cmocka_unit_test(plans_that_cannot_be),
        cmocka_unit_test(plans_that_can_be),
        cmocka_unit_test(ranks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
