/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/cost.h>

#include "model/plan/plan.h"

static void must_parse(const char *text, const orr_plan *want)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    assert_true(orr_plan_equal(&plan, want));
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
    must_parse(
        "sp=off,recompute=selective,precision=mxfp8,gradients=bf16,cp_kind=all_gather,zero=3,"
        "offload=both",
        &(orr_plan){.sp = ORR_SWITCH_OFF,
                    .recompute = ORR_RECOMPUTE_SELECTIVE,
                    .precision = ORR_PRECISION_MXFP8,
                    .gradients = ORR_PRECISION_BF16,
                    .cp_kind = ORR_CONTEXT_ALL_GATHER,
                    .zero = 3,
                    .offload = ORR_OFFLOAD_BOTH});
}

/* Axes that are not named lie outside. */
static void orders_are_read(void **state)
{
    (void)state;
    must_parse("order=tp-cp-pp-dp", &(orr_plan){.order = {ORR_AXIS_TP + 1, ORR_AXIS_CP + 1,
                                                          ORR_AXIS_PP + 1, ORR_AXIS_DP + 1}});
    must_parse("order=pp-tp,tp=2", &(orr_plan){.tp = 2,
                                               .order = {ORR_AXIS_PP + 1, ORR_AXIS_TP + 1,
                                                         ORR_AXIS_CP + 1, ORR_AXIS_DP + 1}});
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

/* Lists of parts, of at most eight. */
static void parts_are_read(void **state)
{
    (void)state;
    must_parse("sites=5-3", &(orr_plan){.sites = {5, 3}});
    must_parse("dp=12,sites=12-0", &(orr_plan){.dp = 12, .sites = {12}});
    must_parse("sites=0-4-0-4,cross=pp", &(orr_plan){.sites = {0, 4, 0, 4}, .cross = ORR_CROSS_PP});
    must_parse("site_micro_batches=12-8-0-4", &(orr_plan){.site_micro_batches = {12, 8, 0, 4}});
    must_parse("sections=balanced", &(orr_plan){.section_layers = {ORR_SECTIONS_BALANCED}});
    must_parse("sections=8x6-4x12",
               &(orr_plan){.section_stages = {8, 4}, .section_layers = {6, 12}});
    must_parse("sections=1x0-3x2", &(orr_plan){.section_stages = {1, 3}, .section_layers = {0, 2}});
    must_fail("sites=", "numbers, as in 5-3");
    must_fail("sites=0-0", "numbers, as in 5-3");
    must_fail("sites=5-", "numbers, as in 5-3");
    must_fail("sites=5-x", "numbers, as in 5-3");
    must_fail("sites=70000", "numbers, as in 5-3");
    must_fail("sites=1-1-1-1-1-1-1-1-1", "at most 8 of them");
    must_fail("sites=1-1,sites=1-1", "twice");
    must_fail("sections=8", "stages x layers, as in 8x6-4x12");
    must_fail("sections=8x", "stages x layers");
    must_fail("sections=8x6-4", "stages x layers");
    must_fail("sections=0x6", "stages x layers");
    must_fail("sections=0x6-4x1", "stages x layers");
    must_fail("sections=8x6,sections=8x6", "twice");
    must_fail("sections=8x6,sections=balanced", "twice");
    must_fail("sections=balanced,sections=8x6", "twice");
    must_fail("sections=balance", "balanced");
    must_fail("site_micro_batches=4,site_micro_batches=4", "twice");
    must_fail("site_micro_batch=4-2", "did you mean 'site_micro_batches'");
    must_fail("site=5-3", "did you mean 'sites'");
    must_fail("recompute_modules=moe_act-layer_norm", "did you mean 'layernorm'");
    must_fail("recompute_modules=moe,recompute_modules=mlp", "twice");
    must_fail("wire_dp=fast", "single, qp4");
    must_fail("compress=fp4", "none, bf16, fp8 or int8");
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
    static const char parts[] = "dp=12,pp=8,local_steps=50,cross=dp,dp_algorithm=hierarchical,"
                                "wire_ep=spray,sites=0-8-4,sections=4x1-2x8-1x0-1x5";
    assert_int_equal(orr_plan_parse(parts, &plan, NULL), ORR_OK);
    assert_string_equal(orr_plan_text(&plan, arena), parts);
    static const char saved[] = "recompute=modules,exp_avg_dtype=bf16,kv_cache_dtype=fp8,"
                                "recompute_modules=layernorm-moe_act-mla_up_proj";
    assert_int_equal(orr_plan_parse(saved, &plan, NULL), ORR_OK);
    assert_string_equal(orr_plan_text(&plan, arena), saved);
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
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        plan.sites[i] = plan.section_stages[i] = plan.section_layers[i] = UINT16_MAX;
    for (uint32_t i = 0; i < ORR_PLAN_CHOICES; i++)
        for (uint8_t k = 1; k < orr_plan_choice_at(i)->n; k++)
            if (*orr_plan_choice_field(&plan, i) == 0 ||
                strlen(orr_plan_choice_at(i)->words[k]) >
                    strlen(orr_plan_choice_at(i)->words[*orr_plan_choice_field(&plan, i)]))
                *orr_plan_choice_field(&plan, i) = k;
    assert_int_equal(orr_plan_parse(orr_plan_text(&plan, arena), &again, NULL), ORR_OK);
    assert_true(orr_plan_equal(&plan, &again));
    again.sites[7]--;
    assert_false(orr_plan_equal(&plan, &again));
    again = plan;
    again.section_layers[7]--;
    assert_false(orr_plan_equal(&plan, &again));
    again = plan;
    again.sp = ORR_SWITCH_UNKNOWN;
    assert_false(orr_plan_equal(&plan, &again));
    orr_arena_free(arena);
}

static void changes_leave_the_rest(void **state)
{
    (void)state;
    const orr_plan from = {.dp = 2, .tp = 4, .layers = 8, .schedule = ORR_SCHEDULE_GPIPE};
    const orr_plan plan = orr_plan_override(
        &from, &(orr_plan){.tp = 1, .seq = 7, .sp = ORR_SWITCH_OFF, .order = {1, 2, 4, 3}});
    const orr_plan want = {.dp = 2,
                           .tp = 1,
                           .layers = 8,
                           .seq = 7,
                           .sp = ORR_SWITCH_OFF,
                           .schedule = ORR_SCHEDULE_GPIPE,
                           .order = {1, 2, 4, 3}};
    assert_true(orr_plan_equal(&plan, &want));
    const orr_plan over =
        orr_plan_override(&(orr_plan){.dp = 4, .sites = {1, 3}},
                          &(orr_plan){.sites = {4}, .section_stages = {2}, .section_layers = {3}});
    const orr_plan merged = {.dp = 4, .sites = {4}, .section_stages = {2}, .section_layers = {3}};
    assert_true(orr_plan_equal(&over, &merged));
}

static orr_plan completed(const char *text)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    return orr_plan_with_defaults(&plan);
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

static void must_order(const char *text, orr_axis a, orr_axis b, orr_axis c, orr_axis d)
{
    const orr_plan plan = completed(text);
    const uint8_t want[] = {(uint8_t)(a + 1), (uint8_t)(b + 1), (uint8_t)(c + 1), (uint8_t)(d + 1)};
    assert_memory_equal(plan.order, want, sizeof want);
}

/* Replicas cross where nothing is said, and what crosses lies outside. */
static void what_crosses_is_filled_in(void **state)
{
    (void)state;
    must_order("dp=8", ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_DP, ORR_AXIS_PP);
    must_order("dp=8,sites=5-3", ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_PP, ORR_AXIS_DP);
    must_order("pp=8,batch=8,sites=5-3,cross=pp", ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_DP,
               ORR_AXIS_PP);
    must_order("dp=8,sites=5-3,order=dp-tp", ORR_AXIS_DP, ORR_AXIS_TP, ORR_AXIS_CP, ORR_AXIS_PP);
    orr_plan p = completed("dp=8,sites=5-3");
    assert_int_equal(p.cross, ORR_CROSS_DP);
    assert_int_equal(p.dp_outer + p.local_steps + p.dp_chunks + p.compress, 0); /* as if 1, none */
    assert_int_equal(completed("dp=8").cross, ORR_CROSS_UNKNOWN);
    assert_int_equal(completed("dp=8,dp_chunks=4").dp_algorithm, ORR_ALGORITHM_HIERARCHICAL);
    assert_int_equal(completed("dp=8").dp_algorithm, ORR_ALGORITHM_AUTO);
    p = completed("dp=9,sites=6-3,local_steps=100,zero=1");
    assert_int_equal(p.dp_outer, 3);
    assert_int_equal(p.shards, 3);
    assert_int_equal(completed("dp=9,sites=6-3,local_steps=100,dp_outer=9").dp_outer, 9);
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
    plan = orr_plan_with_defaults(&plan);
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
        plan = orr_plan_with_defaults(&plan);
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
    must_not_be("dp=4,ep=8", "ep=8 groups of experts do not divide the 4 ranks");
    must_not_be("tp=4,dp=4,ep=8,etp=4", "32 ranks");
    must_not_be("tp=8,ep=8", "give etp=1");
    must_not_be("dp=8,zero=4", "1, 2 and 3");
    must_not_be("dp=8,shards=4", "zero=1");
    must_not_be("dp=8,zero=2,shards=3", "3 shards");
    must_not_be("pp=4,vp=2,schedule=1f1b,micro_batches=8", "goes with interleaved");
    must_not_be("pp=4,group=4,micro_batches=8", "goes with schedule=interleaved");
    must_not_be("recompute=modules", "of which");
    must_not_be("recompute=full,recompute_modules=mlp", "goes with recompute=modules");
    must_not_be("pp=4,vp=2,group=9,micro_batches=8", "it is 1 to 8");
    must_not_be("pp=4,vp=2,group=6,micro_batches=8", "group=4 does not");
    must_not_be("pp=3,schedule=dualpipe,micro_batches=8", "even number of stages");
    must_not_be("pp=4,schedule=dualpipe,micro_batches=6", "twice as many");
    must_not_be("recompute=block", "recompute_layers=4");
    must_not_be("recompute=full,recompute_layers=4", "goes with recompute=block");
    must_not_be("dp=8,sites=5-4", "sites=5-4 are 9 replicas: there are 8");
    must_not_be("dp=2,pp=8,batch=8,sites=0-5-4,cross=pp", "sites=0-5-4 are 9 stages: there are 8");
    must_not_be("dp=2,dp_outer=2,pp=4,batch=8,sites=4,cross=pp", "8 (pp x dp_outer)");
    must_not_be("dp=8,pp=2,batch=8,sites=5-3,order=tp-dp-pp", "whole outer parts of dp (of 8)");
    must_not_be("dp=8,dp_outer=4,pp=2,batch=8,sites=5-3,order=tp-dp-pp", "(of 2)");
    must_not_be("pp=8,batch=8,sites=5-3,cross=pp,order=tp-pp-dp", "pp has to be the outermost");
    must_not_be("dp=8,dp_outer=3", "dp=8 does not divide into 3 outer parts");
    must_not_be("dp=2,dp_outer=4", "dp=2 does not divide into 4 outer parts");
    must_not_be("dp=8,local_steps=10", "of what parts that meet");
    must_not_be("dp=8,dp_outer=4,local_steps=10,ep=4",
                "do not divide the 2 of an outer part of dp");
    must_not_be("dp=8,dp_outer=4,local_steps=10,zero=1,shards=4",
                "dp / dp_outer x cp = 2 ranks do not divide into 4 shards");
    must_not_be("dp=8,dp_chunks=4,dp_algorithm=ring", "goes with dp_algorithm=hierarchical");
    must_not_be("pp=4,batch=8,sections=2x3-3x2", "sections of 5 stages: there are 4");
    must_not_be("pp=4,batch=8,layers=10,sections=2x3-2x3",
                "sections of 12 layers: the model has 10");
    must_not_be("pp=4,batch=8,sections=2x3-2x3,first_layers=2", "are too much");
    must_not_be("pp=4,batch=8,sections=4x3,schedule=dualpipe", "DualPipe");
    must_not_be("pp=4,vp=2,batch=8,sections=1x0-3x4", "0 layers cannot fill 2 chunks");
    must_not_be("pp=4,batch=8,sections=1x2-1x0-2x2", "0 layers cannot fill 1 chunks");
    orr_error err = {0};
    assert_int_equal(
        orr_plan_check(&(orr_plan){.section_layers = {0, 3}, .section_stages = {1}}, &err),
        ORR_INVALID);
    assert_non_null(strstr(err.text, "no stages of 3 layers"));
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
    must_be("dp=8,sites=5-3");
    must_be("dp=8,tp=2,pp=4,batch=32,sites=0-5-0-3");
    must_be("dp=8,dp_outer=4,pp=2,batch=8,sites=6-2,order=tp-dp-pp");
    must_be("dp=4,dp_outer=2,pp=4,batch=8,sites=3-1-2-2,cross=pp");
    must_be("dp=9,sites=6-3,local_steps=100,zero=3,ep=3");
    must_be("pp=4,batch=8,layers=10,sections=1x0-2x3-1x4");
    must_be("pp=4,vp=2,batch=8,layers=10,sections=1x1-3x3");
    must_be("dp=8,dp_chunks=4,dp_algorithm=hierarchical,compress=fp8,wire_dp=bounded");
}

/* zero=0 is said: it stands in the text, overrides another plan's, and means no sharding. */
static void no_sharding_can_be_said(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_plan sharded = {.dp = 8, .zero = 3};
    must_parse("dp=8,zero=0", &(orr_plan){.dp = 8, .zero = ORR_ZERO_NONE});
    must_parse("zero=1", &(orr_plan){.zero = 1});
    must_fail("zero=00", "above 0");
    must_fail("zero=0,zero=1", "twice");
    must_be("dp=8,zero=0");
    must_not_be("dp=8,zero=0,shards=4", "zero=1");
    must_not_be("dp=8,zero=255", "0, 1, 2 and 3");
    orr_plan plan = {.dp = 8, .zero = ORR_ZERO_NONE};
    assert_string_equal(orr_plan_text(&plan, arena), "dp=8,zero=0");
    plan = orr_plan_override(&sharded, &plan);
    assert_int_equal(orr_plan_with_defaults(&plan).zero, 0);
    assert_int_equal(orr_plan_with_defaults(&plan).shards, 0);
    orr_arena_free(arena);
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
        cmocka_unit_test(parts_are_read),
        cmocka_unit_test(text_and_plan_are_the_same),
        cmocka_unit_test(the_longest_plan_has_a_text),
        cmocka_unit_test(changes_leave_the_rest),
        cmocka_unit_test(what_is_not_said_is_filled_in),
        cmocka_unit_test(what_crosses_is_filled_in),
        cmocka_unit_test(groups_leave_no_bubbles_of_their_own),
        cmocka_unit_test(plans_that_cannot_be),
        cmocka_unit_test(plans_that_can_be),
        cmocka_unit_test(no_sharding_can_be_said),
        cmocka_unit_test(ranks_are_counted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
