/* SPDX-License-Identifier: Apache-2.0 */
#include "explore_scene.h"

#include "report/explore/svg.h"

/* --- words ----------------------------------------------------------------------------------- */

static void a_brief_plan_is_the_same_plan(void **state)
{
    static const char *const plans[] = {
        "tp=8,pp=16,dp=128,vp=2,batch=2048,zero=1", "dp=64,zero=3,batch=128",
        "tp=2,pp=4,micro_batches=8,recompute=full,precision=fp8,order=pp-tp-cp-dp",
        "tp=4,dp=12,batch=24,sites=6-6,cross=dp,dp_outer=2",
        "pp=12,batch=24,sections=8x6-4x12,sites=5-7,cross=pp"};
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        orr_plan plan, again;
        assert_int_equal(orr_plan_parse(plans[i], &plan, NULL), ORR_OK);
        const orr_plan completed = orr_plan_with_defaults(&plan);
        const char *brief = orr_plan_short_text(&completed, arena);
        assert_int_equal(orr_plan_parse(brief, &again, NULL), ORR_OK);
        again = orr_plan_with_defaults(&again);
        assert_true(orr_plan_equal(&again, &completed));
        assert_true(completed.batch == 0 || strstr(brief, "batch=") != NULL);
        assert_true(strlen(brief) <= strlen(orr_plan_text(&completed, arena)));
    }
    orr_arena_free(arena);
}

static void plans_differ_in_what_does_not_follow(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_plan a, b;
    (void)state;
    assert_int_equal(orr_plan_parse("tp=8,pp=16,dp=128,vp=2,batch=2048", &a, NULL), ORR_OK);
    assert_int_equal(orr_plan_parse("tp=8,pp=8,dp=256,batch=2048,schedule=zb_h1", &b, NULL),
                     ORR_OK);
    /* Micro-batches and groups follow from these. */
    assert_string_equal(orr_plan_differences(&a, &b, arena),
                        "dp 128 -> 256, pp 16 -> 8, vp 2 -> 1, schedule interleaved -> zb_h1");
    assert_string_equal(orr_plan_differences(&a, &a, arena), "nothing");
    orr_arena_free(arena);
}

static void values_are_told_in_their_units(void **state)
{
    char buf[ORR_HUMAN_MAX];
    (void)state;
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_STEP, 8.21e9, buf), "8.210 s");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_BUDGET, 54.25 * 86400e9, buf),
                        "54.25 days");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_BUDGET, 5 * 3600e9, buf), "5.00 hours");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_COST, 12.3e6, buf), "12.3 M USD");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_COST, 3.456, buf), "3.46 USD");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_ENERGY, 3.6e9, buf), "1 MWh");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_ENERGY, 3394, buf), "3.394 kJ");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_DEVICES, 16384, buf), "16,384");
    assert_string_equal(orr_objective_human(ORR_OBJECTIVE_COST, NAN, buf), "not known");
    assert_string_equal(orr_human_si(buf, 999), "999");
    assert_string_equal(orr_human_si(buf, 1234567), "1.23 M");
    assert_string_equal(orr_human_si(buf, 3.2e18), "3.20 E");
}

static void a_search_ends_in_one_of_six_ways(void **state)
{
    scene *s = make();
    (void)state;
    assert_string_equal(orr_explore_status(&s->report), "within the gap");
    s->exploration.gap_frac = 0;
    assert_string_equal(orr_explore_status(&s->report), "optimal");
    s->exploration.complete = false;
    assert_string_equal(orr_explore_status(&s->report), "stopped before the gap was reached");
    s->report.interrupted = true;
    assert_string_equal(orr_explore_status(&s->report), "interrupted");
    s->report.interrupted = false;
    s->exploration.n = 0;
    assert_string_equal(orr_explore_status(&s->report), "stopped before a plan was found");
    s->exploration.complete = true;
    assert_string_equal(orr_explore_status(&s->report), "no feasible plan");
    done(s);
}

/* --- tables ---------------------------------------------------------------------------------- */

static void plans_stand_best_first_beside_the_best(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "plans");
    (void)state;
    assert_int_equal(t->n_rows, PLANS);
    assert_true(number(t, 0, "excess_frac") == 0);
    assert_true(number(t, 2, "excess_frac") == 2);
    assert_true(number(t, 1, "devices") == s->outcomes[1].n_ranks);
    assert_int_equal(cell_of(t, 0, "budget_days").kind, ORR_CELL_NONE);
    assert_non_null(strstr(text(t, 2, "plan"), "cross=pp"));
    assert_int_equal(table_of(s, "pareto_front")->n_rows, 2);
    assert_int_equal(table_of(s, "relaxations")->n_rows, 0);
    done(s);
}

static void limits_add_up_to_the_step(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "bottlenecks");
    double sum = 0;
    (void)state;
    for (size_t i = 0; i + 1 < t->n_rows; i++) {
        assert_true(i == 0 || number(t, i, "exposed_ns") <= number(t, i - 1, "exposed_ns"));
        sum += number(t, i, "exposed_ns");
    }
    assert_true(fabs(sum - (double)s->outcomes[0].step_ns) < 1e-6 * sum + 100);
    assert_string_equal(text(t, t->n_rows - 1, "bottleneck"), "memory of a device");
    done(s);
}

static void gradients_are_held_up_at_the_cut_that_exposes_most(void **state)
{
    scene *s = make();
    orr_explore_bottleneck limits[ORR_EXPLORE_BOTTLENECKS];
    const uint32_t n = orr_explore_bottlenecks(&s->outcomes[0], s->arena, limits);
    bool found = false;
    (void)state;
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(limits[i].limit, "gradients and weights") == 0) {
            assert_string_equal(limits[i].where, "us-central1-a - us-west1-b");
            found = true;
        }
    assert_true(found);
    done(s);
}

static void cuts_are_told_with_what_they_are(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "cuts");
    const orr_site_link *cut = &s->outcomes[0].cluster->cuts[1];
    (void)state;
    assert_int_equal(t->n_rows, 3);
    assert_string_equal(text(t, 1, "from"), "us-central1-a");
    assert_string_equal(text(t, 1, "to"), "us-west1-b");
    assert_true(number(t, 0, "bytes_exposed") == 4e12 * 2 / 5);
    assert_true(number(t, 1, "bytes") == 1e12);
    assert_true(number(t, 1, "bytes_exposed") == 1e12); /* not more than there are */
    assert_true(number(t, 1, "latency_us") == orr_fact_or(&cut->latency_ns, -1) / 1e3);
    done(s);
}

static void an_alternative_says_what_it_pays_for_and_needs(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "alternatives");
    (void)state;
    memcpy(s->outcomes[1].waterfall_ns, s->outcomes[0].waterfall_ns,
           sizeof s->outcomes[0].waterfall_ns);
    s->outcomes[1].waterfall_ns[ORR_WATERFALL_IDEAL] += 7000;
    s->outcomes[1].waterfall_ns[ORR_WATERFALL_BUBBLE] += 6000;
    assert_int_equal(orr_explore_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
    assert_int_equal(t->n_rows, PLANS - 1);
    assert_true(number(t, 0, "penalty_ns") == 7000);
    assert_true(number(t, 0, "place") == 2);
    assert_non_null(strstr(text(t, 0, "differences"), "dp 32 -> 16"));
    assert_string_equal(text(t, 0, "largest_penalty"), "computation on fewer devices");
    assert_string_equal(text(t, 0, "break_even"), "bandwidth at most 0.71 x, or rtt at least 3 x");
    assert_string_equal(text(t, 1, "break_even"), "no factor alone, up to 16 either way");
    assert_int_equal(table_of(s, "break_even")->n_rows, 2);
    done(s);
}

static void a_column_of_a_waterfall_adds_up_to_its_step(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "waterfalls");
    (void)state;
    assert_int_equal(t->n_columns, 1 + PLANS);
    for (int i = 0; i < PLANS; i++) {
        char column[20];
        double sum = 0;
        snprintf(column, sizeof column, "plan%d_ns", i + 1);
        for (size_t row = 0; row + 1 < t->n_rows; row++)
            sum += number(t, row, column);
        assert_true(fabs(sum - number(t, t->n_rows - 1, column)) < 1e-6 * sum + 100);
    }
    done(s);
}

static void sensitivity_says_where_another_wins(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "sensitivity");
    (void)state;
    assert_int_equal(t->n_rows, 2 * ORR_FACTORS);
    assert_string_equal(text(t, 0, "change"), "rtt x 0.5");
    assert_true(fabs(number(t, 0, "plan1_frac") - 0.1) < 1e-12);
    assert_string_equal(text(t, 0, "wins"), "plan 1 stays");
    assert_string_equal(text(t, 2, "wins"), "plan 2, from x 0.71 on");
    done(s);
}

static void a_baseline_without_a_plan_says_why(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "baselines");
    (void)state;
    assert_int_equal(t->n_rows, 2);
    assert_true(number(t, 0, "excess_frac") == 2);
    assert_int_equal(cell_of(t, 1, "step_ns").kind, ORR_CELL_NONE);
    assert_string_equal(text(t, 1, "infeasible_reason"), "<does> not fit");
    done(s);
}

static void what_was_not_followed_is_counted(void **state)
{
    scene *s = make();
    const orr_table *t = table_of(s, "search");
    double pruned = 0;
    (void)state;
    for (size_t i = 0; i < t->n_rows; i++)
        if (strncmp(text(t, i, "stage"), "not followed", 12) == 0)
            pruned += number(t, i, "plans");
    assert_true(pruned == 950);
    done(s);
}

/* --- sites, document, page ------------------------------------------------------------------- */

static void sites_have_what_their_ranks_are(void **state)
{
    scene *s = make();
    uint32_t n;
    (void)state;
    const orr_explore_site *all = orr_explore_sites(s->cluster, &s->outcomes[0], s->arena, &n);
    assert_int_equal(n, 3);
    assert_int_equal(all[0].used, 64);
    assert_int_equal(all[0].replicas, 16);
    assert_int_equal(all[2].replicas, 8);
    assert_int_equal(all[1].stages, 1);
    /* Stage 0 in the first zone, stage 1 in the second, nothing in the third. */
    const orr_explore_site *stages = orr_explore_sites(s->cluster, &s->outcomes[2], s->arena, &n);
    assert_int_equal(stages[0].first_stage, 0);
    assert_int_equal(stages[0].last_stage, 0);
    assert_int_equal(stages[1].first_stage, 1);
    assert_int_equal(stages[1].replicas, 16);
    assert_int_equal(stages[2].used, 0);
    assert_int_equal(stages[2].number, ORR_NONE);
    done(s);
}

static void people_are_told_plan_proof_and_limits(void **state)
{
    scene *s = make();
    (void)state;
    char *told = WRITTEN(
        out, assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(strstr(told, "\nplan: dp=32,tp=4,"));
    assert_non_null(strstr(told, "no plan of the space is better than 980.0 ms: the gap is 2.0 %"));
    assert_non_null(strstr(told, "us-west1-b: 32 of 128 devices, stages 0 to 0, 8 replicas"));
    assert_non_null(strstr(told, "limited by: "));
    assert_non_null(strstr(told, "12 simulated and 3 by an earlier run, in 1.500 s"));
    free(told);
    s->report.interrupted = true;
    told = WRITTEN(out,
                   assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(strstr(told, "interrupted: this is the best so far\n"));
    free(told);
    done(s);
}

static void nothing_feasible_says_what_would_be(void **state)
{
    scene *s = make();
    orr_relaxation relaxation = {
        .what = "tp=8 instead of 7", .plan = s->best[0].plan, .step_ns = NAN};
    (void)state;
    s->exploration = (orr_exploration){.complete = true,
                                       .infeasible = "device memory: 93 GiB of 79 GiB",
                                       .n_relaxations = 1,
                                       .relaxations = &relaxation};
    s->report.n_outcomes = s->report.n_baseline_plans = 0;
    assert_int_equal(orr_explore_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
    assert_int_equal(table_of(s, "plans")->n_rows, 0);
    assert_string_equal(text(table_of(s, "relaxations"), 0, "change"), "tp=8 instead of 7");
    char *told = WRITTEN(
        out, assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(strstr(told, "no feasible plan: device memory: 93 GiB of 79 GiB\n"));
    free(told);
    char *json =
        WRITTEN(out, assert_int_equal(orr_explore_json(&s->report, s->tables, s->arena, out, NULL),
                                      ORR_OK));
    assert_non_null(strstr(json, "\"status\":\"no feasible plan\""));
    assert_non_null(strstr(json, "\"plan\":null"));
    free(json);
    assert_int_equal(orr_explore_html("/dev/null", &s->report, NULL), ORR_OK);
    /* A search that ended early knows of nothing that it cannot be. */
    s->exploration.complete = false;
    assert_int_equal(orr_explore_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
    assert_int_equal(table_of(s, "relaxations")->n_rows, 0);
    told = WRITTEN(out,
                   assert_int_equal(orr_explore_summary(&s->report, s->arena, out, NULL), ORR_OK));
    assert_non_null(strstr(told, "stopped before a plan was found: device memory: 93 GiB of 79"));
    assert_null(strstr(told, "no feasible plan"));
    free(told);
    done(s);
}

static void the_document_has_the_answer_and_every_table(void **state)
{
    scene *s = make();
    (void)state;
    char *json =
        WRITTEN(out, assert_int_equal(orr_explore_json(&s->report, s->tables, s->arena, out, NULL),
                                      ORR_OK));
    assert_int_equal(strncmp(json, "{\"schema\":\"orrery.explore/1\"", 27), 0);
    assert_int_equal(strcmp(json + strlen(json) - 3, "}}\n"), 0);
    assert_int_equal(count(json, "\"columns\":"), ORR_EXPLORE_TABLES + 3); /* old names */
    assert_non_null(strstr(json, "\"second\":\"devices\""));
    assert_non_null(strstr(json, "\"gap_frac\":0.02"));
    free(json);
    done(s);
}

static void the_picture_has_every_site_and_every_cut_once(void **state)
{
    scene *s = make();
    (void)state;
    char *svg = WRITTEN(
        out, assert_int_equal(orr_svg_explore_sites(out, &s->report, s->arena, NULL), ORR_OK));
    assert_int_equal(count(svg, "class=\"site\""), 3);
    assert_int_equal(count(svg, "class=\"region\""), 2);
    assert_int_equal(count(svg, "class=\"cut "), 2);     /* axes of a cut together */
    assert_int_equal(count(svg, "class=\"cut u3\""), 1); /* the one that is full */
    assert_non_null(
        strstr(svg, "dp_cp + edp: 1.819 TiB a step, 96.0 % of the cut, 10.00 ms exposed"));
    free(svg);
    done(s);
}

static void pictures_show_what_there_is(void **state)
{
    scene *s = make();
    (void)state;
    char *front = WRITTEN(out, orr_svg_explore_front(out, &s->report));
    assert_int_equal(count(front, "<circle class=\"good"), 2);
    assert_int_equal(count(front, "<path class=\"other"), 1);
    assert_non_null(strstr(front, "proven: nothing below 980.0 ms"));
    assert_null(strstr(front, "nan"));
    char *tornado = WRITTEN(out, orr_svg_explore_tornado(out, &s->report));
    assert_int_equal(count(tornado, "<rect"), 2 * ORR_FACTORS);
    assert_int_equal(count(tornado, "class=\"flip\""), 1);
    assert_non_null(strstr(tornado, "from x 0.71 on plan 2 wins: -90.0 %"));
    char *bars = WRITTEN(out, orr_svg_explore_baselines(out, &s->report));
    assert_int_equal(count(bars, "<rect"), 2); /* this search, and the one that found a plan */
    assert_non_null(strstr(bars, "finds none: &lt;does&gt; not fit"));
    free(front);
    free(tornado);
    free(bars);
    done(s);
}

static void a_page_is_whole(void **state)
{
    scene *s = make();
    char path[] = "/tmp/orrery-explore-XXXXXX", end[16] = "";
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(orr_explore_html(path, &s->report, NULL), ORR_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, -8, SEEK_END);
    assert_int_equal(fread(end, 1, 8, file), 8);
    assert_string_equal(end, "</html>\n");
    fclose(file);
    remove(path);
    assert_int_equal(orr_explore_html("/nowhere/at/all.html", &s->report, NULL), ORR_IO);
    done(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_brief_plan_is_the_same_plan),
        cmocka_unit_test(plans_differ_in_what_does_not_follow),
        cmocka_unit_test(values_are_told_in_their_units),
        cmocka_unit_test(a_search_ends_in_one_of_six_ways),
        cmocka_unit_test(plans_stand_best_first_beside_the_best),
        cmocka_unit_test(limits_add_up_to_the_step),
        cmocka_unit_test(gradients_are_held_up_at_the_cut_that_exposes_most),
        cmocka_unit_test(cuts_are_told_with_what_they_are),
        cmocka_unit_test(an_alternative_says_what_it_pays_for_and_needs),
        cmocka_unit_test(a_column_of_a_waterfall_adds_up_to_its_step),
        cmocka_unit_test(sensitivity_says_where_another_wins),
        cmocka_unit_test(a_baseline_without_a_plan_says_why),
        cmocka_unit_test(what_was_not_followed_is_counted),
        cmocka_unit_test(sites_have_what_their_ranks_are),
        cmocka_unit_test(people_are_told_plan_proof_and_limits),
        cmocka_unit_test(nothing_feasible_says_what_would_be),
        cmocka_unit_test(the_document_has_the_answer_and_every_table),
        cmocka_unit_test(the_picture_has_every_site_and_every_cut_once),
        cmocka_unit_test(pictures_show_what_there_is),
        cmocka_unit_test(a_page_is_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
