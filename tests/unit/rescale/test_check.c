/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rescale/plan/check.h"

static void must_be(const char *text)
{
    orr_plan plan;
    orr_error err = {0};
    assert_int_equal(orr_plan_parse(text, &plan, &err), ORR_OK);
    if (orr_rescale_check(&plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
}

static void must_not_be(const char *text, const char *why)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(orr_rescale_check(&plan, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
}

static void what_a_recording_can_be(void **state)
{
    (void)state;
    must_be("");
    must_be(
        "dp=4,tp=2,pp=8,micro_batches=16,micro_batch=1,layers=32,hidden=4096,ffn=11008,heads=32,"
        "seq=2048,vocab=32000,schedule=gpipe");
}

static void what_it_cannot_be_is_named(void **state)
{
    (void)state;
    must_not_be("cp=2", "cp (context-parallel slices) of a recorded job");
    must_not_be("ep=2", "ep (");
    must_not_be("pp=2,vp=2,micro_batches=4", "vp (");
    must_not_be("dp=2,zero=1", "zero (");
    must_not_be("sp=off", "sp (");
    must_not_be("recompute=full", "recompute (");
    must_not_be("order=tp-pp-dp", "order (");
    must_not_be("pp=4,micro_batches=8,schedule=zb_h1", "schedule=zb_h1");
    must_not_be("layers=6,pp=4,micro_batches=1", "6 layers");
    must_not_be("vocab=50257,tp=2", "50257");
    must_not_be("heads=12,tp=8", "12 attention heads");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_recording_can_be),
        cmocka_unit_test(what_it_cannot_be_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
