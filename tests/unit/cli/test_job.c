/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/arguments/factor.h"
#include "cli/arguments/job.h"

static const orr_job_spec none = {0};

static orr_job_spec parse(const char *text, orr_arena *arena)
{
    orr_job_spec words;
    assert_int_equal(orr_job_spec_parse(text, &none, arena, &words, NULL), ORR_OK);
    return words;
}

static void a_job_is_a_model_a_cluster_and_a_plan(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    const orr_job_spec all = parse("llama3.1-8b@dgx_h100:tp=8,dp=1", arena);
    assert_string_equal(all.model, "llama3.1-8b");
    assert_string_equal(all.cluster, "dgx_h100");
    assert_string_equal(all.plan, "tp=8,dp=1");
    const orr_job_spec no_plan = parse("m@c", arena);
    assert_string_equal(no_plan.cluster, "c");
    assert_null(no_plan.plan);
    orr_arena_free(arena);
}

static void what_a_job_leaves_out_is_as_given(void **state)
{
    static const orr_job_spec given = {"model", "cluster", "tp=2"};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_job_spec words;
    (void)state;
    assert_int_equal(orr_job_spec_parse("tp=4,pp=2", &given, arena, &words, NULL), ORR_OK);
    assert_string_equal(words.model, "model");
    assert_string_equal(words.plan, "tp=4,pp=2");
    assert_int_equal(orr_job_spec_parse("@other", &given, arena, &words, NULL), ORR_OK);
    assert_string_equal(words.cluster, "other");
    assert_string_equal(words.plan, "tp=2");
    assert_int_equal(orr_job_spec_parse("gpt3-175b", &given, arena, &words, NULL), ORR_OK);
    assert_string_equal(words.model, "gpt3-175b");
    orr_arena_free(arena);
}

static void a_job_without_a_model_is_refused(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_job_spec words;
    orr_error err;
    (void)state;
    assert_int_equal(orr_job_spec_parse("tp=4", &none, arena, &words, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "names no model"));
    assert_int_equal(orr_job_spec_parse("m:tp=4", &none, arena, &words, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "names no cluster"));
    orr_arena_free(arena);
}

static void stragglers_are_ranks_and_factors(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_rank_factor *slow;
    uint32_t n;
    (void)state;
    assert_int_equal(orr_parse_stragglers("3:1.5x,7:2", arena, &slow, &n, NULL), ORR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(slow[0].rank, 3);
    assert_true(slow[0].factor == 1.5 && slow[1].factor == 2);
    assert_int_equal(orr_parse_stragglers(NULL, arena, &slow, &n, NULL), ORR_OK);
    assert_int_equal(n, 0);
    static const char *const wrong[] = {"3", "3:", "x:1", "3:-1", "3:1.5y", ":2"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(orr_parse_stragglers(wrong[i], arena, &slow, &n, NULL), ORR_INVALID);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_is_a_model_a_cluster_and_a_plan),
        cmocka_unit_test(what_a_job_leaves_out_is_as_given),
        cmocka_unit_test(a_job_without_a_model_is_refused),
        cmocka_unit_test(stragglers_are_ranks_and_factors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
