/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/arguments/sharding.h"

static void tables_are_taken_out_of_the_words_of_a_plan(void **state)
{
    static const char *const cases[][3] = {
        {"dp=2,batch=64", "dp=2,batch=64", NULL},
        {"dp=2,tables=plan.yaml,batch=64", "dp=2,batch=64", "plan.yaml"},
        {"tables=auto", "", "auto"},
        {"dp=2,tables=runs/a=b.yaml", "dp=2,", "runs/a=b.yaml"},
        {"", "", NULL},
        {"mytables=3", "mytables=3", NULL},
    };
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *plan, *tables;
        assert_int_equal(orr_sharding_split(cases[i][0], arena, &plan, &tables, NULL), ORR_OK);
        assert_string_equal(plan, cases[i][1]);
        if (cases[i][2] == NULL)
            assert_null(tables);
        else
            assert_string_equal(tables, cases[i][2]);
    }
    orr_arena_free(arena);
}

static void tables_are_said_once_and_say_something(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const char *plan, *tables;
    orr_error err;
    (void)state;
    assert_int_equal(orr_sharding_split("tables=a,dp=2,tables=b", arena, &plan, &tables, &err),
                     ORR_INVALID);
    assert_non_null(strstr(err.text, "given twice"));
    assert_int_equal(orr_sharding_split("tables=,dp=2", arena, &plan, &tables, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "a file"));
    orr_arena_free(arena);
}

static void what_was_split_is_joined_again(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_plan some = {.dp = 2, .batch = 64}, none = {0};
    (void)state;
    const char *joined = orr_sharding_join(&some, "plan.yaml", arena), *plan, *tables;
    assert_int_equal(orr_sharding_split(joined, arena, &plan, &tables, NULL), ORR_OK);
    assert_string_equal(tables, "plan.yaml");
    orr_plan again;
    assert_int_equal(orr_plan_parse(plan, &again, NULL), ORR_OK);
    assert_true(orr_plan_equal(&some, &again));
    assert_string_equal(orr_sharding_join(&none, "auto", arena), "tables=auto");
    assert_string_equal(orr_sharding_join(&some, NULL, arena), orr_plan_text(&some, arena));
    orr_arena_free(arena);
}

static orr_sharding_question question_of(const char *model, const char *cluster, orr_arena *arena)
{
    orr_sharding_question q = {.ranks = 8, .batch = 1000};
    const orr_catalog *catalog;
    assert_int_equal(orr_catalog_open(arena, &catalog, NULL), ORR_OK);
    assert_int_equal(orr_model_load(model, arena, &q.model, NULL), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, cluster, arena, &q.cluster, NULL), ORR_OK);
    return q;
}

static void the_planner_is_asked_of_a_model_on_a_cluster(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_sharding_question q = question_of("dlrm-dcnv2", "dgx_a100", arena);
    orr_table_planner_options o, alike;
    orr_error err;
    (void)state;
    assert_int_equal(orr_sharding_ask(&q, arena, &o, NULL), ORR_OK);
    assert_int_equal(o.n_tables, 26);
    assert_int_equal(o.samples, 125);
    assert_int_equal(o.host_ranks, 8);
    assert_true(o.memory_bytes > INT64_C(70) << 30 && o.memory_bytes < INT64_C(80) << 30);
    q.popularity = ORR_POPULARITY_UNIFORM;
    q.memory_bytes = 1 << 30;
    q.batch = 1001;
    assert_int_equal(orr_sharding_ask(&q, arena, &alike, NULL), ORR_OK);
    assert_int_equal(alike.memory_bytes, 1 << 30);
    assert_int_equal(alike.samples, 126);
    for (uint32_t t = 0; t < o.n_tables; t++) {
        const double lookups = 1000 * o.tables[t].pooling;
        double sum = 0;
        for (uint32_t r = 0; r < ORR_EMBEDDING_RANGES; r++)
            sum += (double)o.range_share[t * ORR_EMBEDDING_RANGES + r];
        assert_true(fabs(sum - 1) < 1e-4);
        assert_true(o.distinct[t] > 0 && o.distinct[t] <= lookups * (1 + 1e-9));
        assert_true(o.distinct[t] <= alike.distinct[t] * (1 + 1e-9)); /* popular rows come again */
    }
    q = question_of("gpt2", "dgx_a100", arena);
    assert_int_equal(orr_sharding_ask(&q, arena, &o, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "no embedding tables"));
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables_are_taken_out_of_the_words_of_a_plan),
        cmocka_unit_test(tables_are_said_once_and_say_something),
        cmocka_unit_test(what_was_split_is_joined_again),
        cmocka_unit_test(the_planner_is_asked_of_a_model_on_a_cluster),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
