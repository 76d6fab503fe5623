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
    assert_memory_equal(&plan, want, sizeof plan);
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
    must_fail("schedule=zigzag", "neither");
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
    orr_arena_free(arena);
}

static void changes_leave_the_rest(void **state)
{
    (void)state;
    const orr_plan from = {.dp = 2, .tp = 4, .layers = 8, .schedule = ORR_SCHEDULE_GPIPE};
    const orr_plan plan = orr_plan_changed(&from, &(orr_plan){.tp = 1, .seq = 7});
    const orr_plan want = {.dp = 2, .tp = 1, .layers = 8, .seq = 7, .schedule = ORR_SCHEDULE_GPIPE};
    assert_memory_equal(&plan, &want, sizeof plan);
}

static void must_not_divide(orr_plan plan, const char *why)
{
    orr_error err = {0};
    assert_int_equal(orr_plan_check(&plan, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void plans_that_do_not_divide(void **state)
{
    (void)state;
    must_not_divide((orr_plan){.layers = 6, .pp = 4, .micro_batches = 1}, "6 layers");
    must_not_divide((orr_plan){.heads = 12, .tp = 8}, "12 attention heads");
    must_not_divide((orr_plan){.ffn = 10, .tp = 4}, "feed-forward");
    must_not_divide((orr_plan){.vocab = 50257, .tp = 2}, "50257");
    must_not_divide((orr_plan){.hidden = 100, .heads = 3}, "100 hidden");
    must_not_divide((orr_plan){.pp = 2}, "micro-batches");
    must_not_divide((orr_plan){.dp = 1 << 20, .tp = 1 << 10}, "2^24");
    assert_int_equal(orr_plan_check(&(orr_plan){.dp = 100000, .tp = 8}, NULL), ORR_OK);
    assert_int_equal(orr_plan_check(&(orr_plan){0}, NULL), ORR_OK);
}

static void ranks_are_counted(void **state)
{
    (void)state;
    assert_int_equal(orr_plan_ranks(&(orr_plan){0}), 1);
    assert_int_equal(orr_plan_ranks(&(orr_plan){.dp = 12500, .tp = 8}), 100000);
    assert_true(orr_plan_ranks(&(orr_plan){.dp = UINT32_MAX, .tp = UINT32_MAX, .pp = UINT32_MAX}) ==
                UINT64_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_are_read),
        cmocka_unit_test(wrong_texts_are_told),
        cmocka_unit_test(text_and_plan_are_the_same),
        cmocka_unit_test(changes_leave_the_rest),
        cmocka_unit_test(plans_that_do_not_divide),
        cmocka_unit_test(ranks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
