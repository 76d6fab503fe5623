/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/plan/svg.h"

/* Llama 2 7B in four stages on a host of eight: small, and everything of the page is there. */
typedef struct scene {
    orr_arena *arena;
    orr_outcome outcome;
} scene;

static scene make(const char *plan_text)
{
    scene s = {.arena = orr_arena_new(0, 0)};
    orr_job_options options;
    orr_plan plan;
    const orr_catalog *catalog;
    const orr_cluster *cluster;
    const orr_model *model;
    orr_job_options_init(&options);
    assert_int_equal(orr_catalog_open(s.arena, &catalog, NULL), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "dgx_h100", s.arena, &cluster, NULL), ORR_OK);
    assert_int_equal(orr_model_load("llama2-7b", s.arena, &model, NULL), ORR_OK);
    assert_int_equal(orr_plan_parse(plan_text, &plan, NULL), ORR_OK);
    assert_int_equal(orr_outcome_of(model, &plan, cluster, &options, s.arena, &s.outcome, NULL),
                     ORR_OK);
    return s;
}

static void done(scene *s)
{
    orr_outcome_free(&s->outcome);
    orr_arena_free(s->arena);
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

static void a_waterfall_has_a_bar_for_each_part_and_the_step(void **state)
{
    scene s = make("tp=2,pp=4,micro_batches=8");
    size_t parts = 1;
    (void)state;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        parts += s.outcome.waterfall_ns[i] > 0;
    char *text = WRITTEN(out, orr_svg_waterfall(out, &s.outcome, s.outcome.step_ns));
    assert_int_equal(count(text, "<rect"), parts);
    assert_non_null(strstr(text, ">pipeline bubble</text>"));
    assert_non_null(strstr(text, "100.0 %"));
    free(text);
    done(&s);
}

static void a_pipeline_has_a_row_for_each_stage_and_a_number_for_each_micro_batch(void **state)
{
    scene s = make("tp=2,pp=4,micro_batches=8");
    orr_status status = ORR_INVALID;
    (void)state;
    char *text = WRITTEN(out, status = orr_svg_gantt(out, &s.outcome, s.arena, NULL));
    assert_int_equal(status, ORR_OK);
    assert_int_equal(count(text, ">stage "), 4);
    assert_int_equal(count(text, "<rect class=\"hatch\""), 4);
    /* Forward and backward of eight micro-batches on four stages, each named when pointed at. */
    assert_int_equal(count(text, "<rect class=\"compute\""), 32);
    assert_int_equal(count(text, "<rect class=\"memory\""), 32);
    assert_true(count(text, "<title>micro-batch 7, chunk 0</title>") >= 8);
    free(text);
    done(&s);
}

static void memory_over_time_names_the_peak(void **state)
{
    scene s = make("tp=2,pp=4,micro_batches=8");
    orr_status status = ORR_INVALID;
    (void)state;
    char *text = WRITTEN(out, status = orr_svg_memory(out, &s.outcome, s.arena, NULL));
    assert_int_equal(status, ORR_OK);
    assert_non_null(strstr(text, ">peak "));
    assert_non_null(strstr(text, ">room "));
    assert_non_null(strstr(text, ">weights "));
    free(text);
    done(&s);
}

static void the_machine_shows_each_device_of_a_host(void **state)
{
    scene s = make("tp=2,pp=4,micro_batches=8");
    (void)state;
    char *text = WRITTEN(out, orr_svg_machine(out, &s.outcome));
    assert_int_equal(count(text, "<title>rank "), 8);
    assert_non_null(strstr(text, "rank 7: tp 1, cp 0, dp 0, pp 3"));
    free(text);
    done(&s);
}

static void a_page_of_one_plan_and_of_two(void **state)
{
    scene a = make("tp=2,pp=4,micro_batches=8"), b = make("tp=8,micro_batches=8");
    char path[] = "/tmp/orrery-plan-XXXXXX", text[65536] = "";
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(orr_plan_html(path, &a.outcome, &b.outcome, NULL), ORR_OK);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    fseek(file, -8, SEEK_END);
    assert_int_equal(fread(text, 1, 8, file), 8);
    assert_string_equal(text, "</html>\n");
    fclose(file);
    remove(path);
    assert_int_equal(orr_plan_html("/nowhere/at/all.html", &a.outcome, NULL, NULL), ORR_IO);
    done(&a);
    done(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waterfall_has_a_bar_for_each_part_and_the_step),
        cmocka_unit_test(a_pipeline_has_a_row_for_each_stage_and_a_number_for_each_micro_batch),
        cmocka_unit_test(memory_over_time_names_the_peak),
        cmocka_unit_test(the_machine_shows_each_device_of_a_host),
        cmocka_unit_test(a_page_of_one_plan_and_of_two),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
