/* SPDX-License-Identifier: Apache-2.0 */
#include "explore_scene.h"

#include "report/explore/summary.h"

/* Two plans that cannot be told apart, of which the second is to be taken; the third was published
 * and does not fit. */
typedef struct meaning {
    orr_decision_plan plans[PLANS];
    double shares[PLANS];
    orr_record record;
    orr_published_plan published;
    orr_published_result result;
    orr_explore_answer answer;
} meaning;

static void make_meaning(scene *s, meaning *m)
{
    *m = (meaning){
        .plans = {{true, 0.5, 0, 0.4, 0.02, 0.05, 0.06}, {true, 0.3, 0.05, 0.6, 0.01, 0.03, 0.04}},
        .shares = {0.9, 0.9, 0.9},
        .record = {.device = "a100",
                   .precision = "bf16",
                   .model = "mpt-7b",
                   .source = "its <page>"},
        .published = {.name = "of_a_paper", .source = "a paper", .notes = ""}};
    m->result = (orr_published_result){
        .published = &m->published, .explored = s->best[2], .measured_step_ns = 2.5e9};
    m->result.explored.peak_bytes = 2 * m->result.explored.usable_bytes;
    m->answer = (orr_explore_answer){
        .decision = {3, 2, m->plans, 0, 1, 200, 30},
        .plans = s->best,
        .record_mfu_frac = m->shares,
        .record = &m->record,
        .published = &m->result,
        .n_published = 1,
        .has_fp8 = true,
        .fp8_fits = true,
        .fp8 = s->best[0],
    };
    m->answer.fp8.value[ORR_OBJECTIVE_STEP] = 0.75e9;
    s->report.answer = &m->answer;
    assert_int_equal(orr_explore_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
}

static void the_set_is_told_with_what_its_plans_lose(void **state)
{
    scene *s = make();
    meaning m;
    (void)state;
    assert_int_equal(table_of(s, "decision")->n_rows, 0);
    make_meaning(s, &m);
    const orr_table *t = table_of(s, "decision");
    assert_int_equal(t->n_rows, 2);
    assert_true(number(t, 1, "place") == 2 && number(t, 1, "mean_regret_frac") == 0.01);
    assert_true(number(t, 0, "odds_of_better_frac") == 0.5 && number(t, 1, "excess_frac") == 1);
    t = table_of(s, "published");
    assert_int_equal(t->n_rows, 1);
    assert_string_equal(text(t, 0, "source"), "a paper");
    assert_true(number(t, 0, "measured_step_ns") == 2.5e9 && number(t, 0, "excess_frac") == 2);
    char *told = WRITTEN(
        out, assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(strstr(told, "answer: 2 plans are within the model's error of the best; least "
                                 "regret over 200 draws of the calibration: plan 2 of the set, 1.0 "
                                 "% on average, 3.0 % or more in 5 of 100\n"));
    assert_non_null(strstr(told, "(+200.0 %), does not fit by our account (200.0 % of the memory); "
                                 "measured 2.500 s\n"));
    assert_non_null(
        strstr(told, "fp8: this plan would take 750.0 ms with products in fp8 (-25.0 %)"));
    assert_null(strstr(told, "warning"));
    free(told);
    done(s);
}

static void what_nobody_has_reported_is_marked(void **state)
{
    scene *s = make();
    meaning m;
    (void)state;
    make_meaning(s, &m);
    assert_true(number(table_of(s, "plans"), 0, "record_mfu_frac") == 0.9);
    m.shares[0] = s->best[0].mfu_frac / 2;
    char *told = WRITTEN(
        out, assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(
        strstr(told, "is above all that was published of dense training on a100 in bf16"));
    assert_non_null(strstr(told, "mpt-7b (its <page>)\n"));
    free(told);
    char *json =
        WRITTEN(out, assert_int_equal(orr_explore_json(&s->report, s->tables, s->arena, out, NULL),
                                      ORR_OK));
    assert_non_null(strstr(json, "\"set_plans\":2,\"draws\":200,"));
    assert_non_null(strstr(json, "\"above_records\":true,"));
    free(json);
    assert_int_equal(orr_explore_html("/dev/null", &s->report, NULL), ORR_OK);
    done(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_set_is_told_with_what_its_plans_lose),
        cmocka_unit_test(what_nobody_has_reported_is_marked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
