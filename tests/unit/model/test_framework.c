/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/machine.h>

#include "model/framework/framework.h"

typedef struct fixture {
    orr_arena *arena;
    const orr_model *dense, *mixture;
    orr_cluster cluster;
    orr_level host;
} fixture;

static int set_up(void **state)
{
    static fixture f;
    f.arena = orr_arena_new(0, 0);
    f.host = (orr_level){.name = "host", .size = 8, .devices = 8};
    f.cluster = (orr_cluster){.n_levels = 1, .levels = &f.host};
    assert_int_equal(orr_model_load("llama3.1-70b", f.arena, &f.dense, NULL), ORR_OK);
    assert_int_equal(orr_model_load("mixtral-8x7b", f.arena, &f.mixture, NULL), ORR_OK);
    *state = &f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    orr_arena_free(f->arena);
    return 0;
}

static orr_plan plan_of(const char *text)
{
    orr_plan plan;
    orr_error err = {0};
    if (orr_plan_parse(text, &plan, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    return plan;
}

static orr_status check(orr_framework framework, const orr_model *model, const char *text,
                        orr_error *err)
{
    const orr_plan given = plan_of(text), plan = orr_framework_defaults(framework, model, &given);
    return orr_framework_check(framework, model, &plan, err);
}

static void must_run(orr_framework framework, const orr_model *model, const char *text)
{
    orr_error err = {0};
    if (check(framework, model, text, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
}

static void must_refuse(orr_framework framework, const orr_model *model, const char *text,
                        const char *why)
{
    orr_error err = {0};
    assert_int_equal(check(framework, model, text, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("%s: '%s' does not say '%s'", text, err.text, why);
}

static void must_default(orr_framework framework, const orr_model *model, const char *text,
                         const char *want)
{
    const orr_plan given = plan_of(text), change = plan_of(want);
    const orr_plan plan = orr_framework_defaults(framework, model, &given);
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++)
        if (orr_plan_get(&change, i) != 0 && orr_plan_get(&change, i) != orr_plan_get(&plan, i))
            fail_msg("%s of %s: %s is %u", text, want, orr_quantity_name(i),
                     orr_plan_get(&plan, i));
}

static void tables_have_no_unknown_words(void **state)
{
    fixture *f = *state;
    for (int i = 1; i < ORR_FRAMEWORKS; i++) {
        orr_framework_rules rules;
        orr_error err = {0};
        const char *text;
        const orr_plan given = {0};
        const orr_plan plan = orr_framework_defaults((orr_framework)i, f->dense, &given);
        if (orr_framework_compile((orr_framework)i, &rules, &err) != ORR_OK ||
            orr_framework_emit((orr_framework)i, f->dense, &f->cluster, &plan, f->arena, &text,
                               &err) != ORR_OK)
            fail_msg("%s: %s", orr_framework_name((orr_framework)i), err.text);
        assert_int_equal(rules.n, rules.table->n_rules);
    }
}

/* As the frameworks' own parsers say: megatron/training/arguments.py, torchtitan's job_config.py,
 * DeepSpeed's pipe/engine.py, MaxText's types.py. */
static void plans_that_no_option_says_are_refused(void **state)
{
    fixture *f = *state;
    const orr_model *m = f->dense, *e = f->mixture;
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=4,batch=64,schedule=gpipe",
                "schedule=gpipe: Megatron-LM can run 1f1b, interleaved");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "dp=8,order=dp-tp-cp-pp,tp=2", "order=another");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=4,dp=2,batch=64,zero=3", "zero=3 with pp>1");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=3,batch=64", "multiples of chunks");
    must_refuse(ORR_FRAMEWORK_MEGATRON, e, "tp=2,ep=2,dp=2,sp=off", "sp=off with tp>1,experts>0");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=4,batch=64,overlap_pp=on", "overlap_pp=on");
    must_run(ORR_FRAMEWORK_MEGATRON, m, "pp=4,vp=5,batch=64,overlap_pp=on");
    must_run(ORR_FRAMEWORK_MEGATRON, m, "pp=4,batch=64,first_layers=19,last_layers=19");
    must_run(ORR_FRAMEWORK_MEGATRON, m, "tp=2,pp=4,dp=2,batch=64,order=tp-cp-pp-dp");
    must_run(ORR_FRAMEWORK_MEGATRON, m, "pp=4,batch=64,sections=1x19-2x21-1x19");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=4,vp=2,batch=64,sections=2x19-2x21", "sections=1");
    must_refuse(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,batch=64,sections=2x19-2x21", "sections=1");
    must_refuse(ORR_FRAMEWORK_MEGATRON, m, "pp=4,batch=64,sections=balanced",
                "balanced_sections=1");
    for (int framework = ORR_FRAMEWORK_NONE + 1; framework < ORR_FRAMEWORKS; framework++)
        must_refuse((orr_framework)framework, m, "dp=4,sites=2-2,cross=dp,site_micro_batches=6-4",
                    "site_micro_batches=1");
    must_refuse(ORR_FRAMEWORK_TORCHTITAN, m, "dp=8,zero=1", "zero=1: torchtitan can run 0, 3");
    must_refuse(ORR_FRAMEWORK_TORCHTITAN, m, "pp=4,batch=64,schedule=zb_h1", "zb_h1");
    must_refuse(ORR_FRAMEWORK_TORCHTITAN, m, "dp=8,precision=fp16", "precision=fp16");
    must_refuse(ORR_FRAMEWORK_TORCHTITAN, m, "tp=8,overlap_tp=on", "overlap_tp=on with fusion=off");
    must_run(ORR_FRAMEWORK_TORCHTITAN, m, "tp=8,overlap_tp=on,fusion=on");
    must_refuse(ORR_FRAMEWORK_DEEPSPEED, m, "pp=4,batch=64,vp=5", "DeepSpeed can run 1f1b");
    must_refuse(ORR_FRAMEWORK_DEEPSPEED, m, "pp=4,dp=4,batch=64,zero=2", "zero=2 with pp>1");
    must_refuse(ORR_FRAMEWORK_DEEPSPEED, m, "dp=64,zero=3,shards=8", "shards=8 with zero>0");
    must_refuse(ORR_FRAMEWORK_DEEPSPEED, m, "dp=8,offload=optimizer", "zero=0 with offload");
    must_run(ORR_FRAMEWORK_DEEPSPEED, m, "pp=4,dp=4,batch=64,zero=1");
    must_refuse(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,batch=64,schedule=1f1b", "can run gpipe");
    must_refuse(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,batch=63", "micro_batches=63 with pp>1");
    must_refuse(ORR_FRAMEWORK_MAXTEXT, e, "ep=8,dp=8,zero=1", "zero=1 with ep>1");
    must_run(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,batch=64,vp=5");
}

static void defaults_are_those_of_the_framework(void **state)
{
    fixture *f = *state;
    const orr_model *m = f->dense;
    must_default(ORR_FRAMEWORK_MEGATRON, m, "tp=8,pp=4,batch=64",
                 "sp=off,overlap_dp=off,overlap_pp=off,gradients=fp32");
    must_default(ORR_FRAMEWORK_MEGATRON, m, "pp=4,vp=5,batch=64", "group=4");
    must_default(ORR_FRAMEWORK_MEGATRON, f->mixture, "tp=2,ep=2,dp=2", "sp=on");
    must_default(ORR_FRAMEWORK_TORCHTITAN, m, "dp=8",
                 "zero=3,gradients=fp32,recompute=op,fusion=off");
    /* 82 layers with embedding and head, 41 a stage of two: 126 + 2 = 16 x 8. */
    const orr_model *large;
    assert_int_equal(orr_model_load("llama3.1-405b", f->arena, &large, NULL), ORR_OK);
    must_default(ORR_FRAMEWORK_TORCHTITAN, large, "pp=16,batch=64", "first_layers=7,last_layers=7");
    must_default(ORR_FRAMEWORK_DEEPSPEED, m, "tp=2,dp=8,zero=3",
                 "overlap_dp=on,gradients=bf16,sp=off,bucket_bytes=1000000000");
    must_default(ORR_FRAMEWORK_DEEPSPEED, m, "dp=8,zero=2", "overlap_dp=off");
    must_default(ORR_FRAMEWORK_MAXTEXT, m, "dp=8,batch=64",
                 "zero=3,recompute=full,micro_batches=1");
    must_default(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,batch=64", "schedule=gpipe");
    must_default(ORR_FRAMEWORK_MAXTEXT, m, "pp=4,vp=5,batch=64", "group=64");
}

static void what_is_given_stays(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < ORR_FRAMEWORKS; i++) {
        const orr_plan given = plan_of("tp=8,dp=4,sp=on,overlap_dp=on,gradients=bf16,zero=2,"
                                       "recompute=none,reshard=on,fusion=on,micro_batches=3");
        const orr_plan made = orr_framework_defaults((orr_framework)i, f->dense, &given),
                       both = orr_plan_override(&made, &given);
        assert_true(orr_plan_equal(&made, &both));
        if (i == ORR_FRAMEWORK_NONE)
            assert_true(orr_plan_equal(&made, &given));
    }
}

/* --- every value of every field is expressed or refused --------------------------------------- */

static const char *emit(const fixture *f, orr_framework framework, const orr_model *model,
                        const orr_plan *plan)
{
    const char *text = NULL;
    orr_error err = {0};
    if (orr_framework_emit(framework, model, &f->cluster, plan, f->arena, &text, &err) != ORR_OK)
        fail_msg("%s: %s", orr_framework_name(framework), err.text);
    return text;
}

/* Whether a value of the field changes anything in the plan: there is such a group at all. */
static bool has_effect(const orr_model *model, const orr_plan *whole, uint32_t field,
                       uint32_t value)
{
    static const struct {
        const char *field, *when;
    } EFFECTS[] = {{"first_layers", "pp>1,first_layers!middle_layers"},
                   {"last_layers", "pp>1,last_layers!middle_layers"},
                   {"schedule", "pp>1"},
                   {"overlap_pp", "pp>1"},
                   {"cp_kind", "cp>1"},
                   {"etp", "experts>0"},
                   {"prefetch", "zero=3"},
                   {"reshard", "zero=3"},
                   {"dispatcher", "ep>1"},
                   {"capacity", "experts>0"},
                   {"pad_experts", "experts>0"},
                   {"fp8_param_gather", "precision>bf16"},
                   {"keep_fp8_transpose_cache", "precision>bf16"},
                   {"activation_func_fp8_input_store", "activation_func_fp8_input_store=on"},
                   {"exp_avg_dtype", "exp_avg_dtype>fp32"},
                   {"exp_avg_sq_dtype", "exp_avg_sq_dtype>fp32"},
                   {"cross_entropy_loss_fusion", "cross_entropy_loss_fusion!fusion"}};
    double quantities[ORR_QUANTITIES];
    orr_framework_condition when;
    orr_quantities(model, whole, 8, quantities);
    for (size_t i = 0; i < sizeof EFFECTS / sizeof *EFFECTS; i++)
        if (strcmp(EFFECTS[i].field, orr_quantity_name(field)) == 0) {
            assert_int_equal(orr_framework_condition_parse(EFFECTS[i].when, &when, NULL), ORR_OK);
            return orr_framework_condition_holds(&when, quantities);
        }
    return value > 1 || (field != ORR_AT_dp_outer && field != ORR_AT_dp_chunks &&
                         field != ORR_AT_local_steps && field != ORR_AT_compress);
}

/* The plan with another value of one field is refused, or its text is another. */
static uint32_t change(const fixture *f, orr_framework framework, const orr_model *model,
                       const orr_plan *plan, uint32_t field, uint32_t value)
{
    orr_plan other = *plan;
    orr_plan_put(&other, field, value);
    if (field == ORR_AT_micro_batch || field == ORR_AT_micro_batches || field == ORR_AT_dp)
        other.batch = other.dp * other.micro_batch * other.micro_batches;
    if (field == ORR_AT_recompute_layers)
        other.recompute = ORR_RECOMPUTE_BLOCK;
    if (field == ORR_AT_vp && value > 1)
        other.schedule = ORR_SCHEDULE_INTERLEAVED;
    const orr_plan whole = orr_plan_with_defaults(&other), as_before = orr_plan_with_defaults(plan);
    if (orr_plan_equal(&whole, &as_before) || !has_effect(model, &whole, field, value) ||
        orr_plan_check(&other, NULL) != ORR_OK ||
        orr_framework_check(framework, model, &other, NULL) != ORR_OK)
        return 0;
    if (strcmp(emit(f, framework, model, plan), emit(f, framework, model, &other)) == 0)
        fail_msg("%s does not say %s=%u", orr_framework_name(framework), orr_quantity_name(field),
                 value);
    return 1;
}

static uint32_t change_all(const fixture *f, orr_framework framework, const orr_model *model,
                           const char *text)
{
    const orr_plan given = plan_of(text);
    orr_plan plan = orr_framework_defaults(framework, model, &given);
    plan = orr_plan_with_defaults(&plan);
    uint32_t n = 0;
    for (uint32_t i = 0; i < ORR_PLAN_FIELDS; i++) {
        const bool number = i < ORR_PLAN_NUMBERS;
        const uint32_t most = number ? 9 : (uint32_t)orr_plan_choice_at(i - ORR_PLAN_NUMBERS)->n;
        /* The shape is the model's: orr_model_override() has applied these. */
        const bool shape = i == ORR_AT_layers || i == ORR_AT_hidden || i == ORR_AT_ffn ||
                           i == ORR_AT_heads || i == ORR_AT_vocab || i == ORR_AT_batch;
        for (uint32_t value = 1; value < most && !shape; value++)
            n += change(f, framework, model, &plan, i, value);
    }
    return n;
}

static void every_field_is_expressed_or_refused(void **state)
{
    const fixture *f = *state;
    static const char *const PLANS[] = {
        "tp=2,dp=8,batch=64,zero=3", "tp=2,dp=8,batch=64,zero=1", "tp=2,pp=4,dp=8,batch=128,zero=1",
        "tp=2,pp=4,vp=4,dp=8,batch=128,zero=1", "tp=2,cp=2,dp=8,batch=64,zero=3,seq=8192"};
    for (int i = 1; i < ORR_FRAMEWORKS; i++) {
        uint32_t n = 0;
        for (size_t k = 0; k < sizeof PLANS / sizeof *PLANS; k++) {
            const orr_plan given = plan_of(PLANS[k]);
            const orr_plan plan = orr_framework_defaults((orr_framework)i, f->mixture, &given);
            if (orr_framework_check((orr_framework)i, f->mixture, &plan, NULL) == ORR_OK)
                n += change_all(f, (orr_framework)i, f->mixture, PLANS[k]);
            if (orr_framework_check((orr_framework)i, f->dense, &plan, NULL) == ORR_OK)
                n += change_all(f, (orr_framework)i, f->dense, PLANS[k]);
        }
        assert_true(n > 40);
    }
}

/* Choices that are defaults of any plan left out, as a search leaves them out. */
static orr_plan without_defaults(const orr_plan *plan)
{
    orr_plan p = *plan;
    const orr_plan whole = orr_plan_with_defaults(plan);
    for (uint32_t i = ORR_PLAN_NUMBERS; i < ORR_PLAN_FIELDS; i++) {
        orr_plan without = p;
        orr_plan_put(&without, i, 0);
        const orr_plan again = orr_plan_with_defaults(&without);
        p = orr_plan_equal(&again, &whole) ? without : p;
    }
    return p;
}

/* A plan that is made explicit means the same with the framework's defaults and without. */
static void explicit_plans_mean_the_same(void **state)
{
    const fixture *f = *state;
    for (int i = 1; i < ORR_FRAMEWORKS; i++) {
        orr_framework_rules rules;
        assert_int_equal(orr_framework_compile((orr_framework)i, &rules, NULL), ORR_OK);
        const orr_plan chosen = plan_of("tp=8,dp=8,batch=64,zero=3,recompute=full,sp=on,"
                                        "overlap_dp=on,fusion=on,gradients=bf16"),
                       full = orr_framework_fill(&rules, f->dense, &chosen);
        const orr_plan given = without_defaults(&full);
        const orr_plan made = orr_framework_explicit(&rules, f->dense, &given),
                       filled = orr_framework_fill(&rules, f->dense, &made);
        const orr_plan a = orr_plan_with_defaults(&given), b = orr_plan_with_defaults(&made),
                       c = orr_plan_with_defaults(&filled);
        assert_true(orr_plan_equal(&a, &b));
        assert_true(orr_plan_equal(&b, &c));
    }
}

static void conditions_are_read(void **state)
{
    orr_framework_condition c;
    double quantities[ORR_QUANTITIES] = {0};
    (void)state;
    quantities[ORR_AT_pp] = 4;
    quantities[ORR_AT_group] = 4;
    quantities[ORR_AT_schedule] = ORR_SCHEDULE_INTERLEAVED;
    static const struct {
        const char *text;
        bool holds;
    } cases[] = {{"pp>1,schedule=interleaved", true},
                 {"pp>1,schedule=1f1b", false},
                 {"group=pp", true},
                 {"group!pp", false},
                 {"pp<5,pp>3", true},
                 {"", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(orr_framework_condition_parse(cases[i].text, &c, NULL), ORR_OK);
        assert_true(orr_framework_condition_holds(&c, quantities) == cases[i].holds);
    }
    assert_int_equal(orr_framework_condition_parse("stages>1", &c, NULL), ORR_INVALID);
    assert_int_equal(orr_framework_condition_parse("schedule=gpip", &c, NULL), ORR_INVALID);
    assert_int_equal(orr_framework_condition_parse("pp", &c, NULL), ORR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_have_no_unknown_words),
        cmocka_unit_test(plans_that_no_option_says_are_refused),
        cmocka_unit_test(defaults_are_those_of_the_framework),
        cmocka_unit_test(what_is_given_stays),
        cmocka_unit_test(every_field_is_expressed_or_refused),
        cmocka_unit_test(explicit_plans_mean_the_same),
        cmocka_unit_test(conditions_are_read),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
