/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/explore.h>

#include "../../bench/jobs/job_judge.h"

#define assert_near(a, b, most) assert_true(fabs((a) - (b)) <= (most))

/* Published measurements of whole jobs against predictions with the built-in calibrations, which
 * were fitted on one side of a split by configuration (bench/jobs/job_tables.c). What is asserted
 * is what docs/accuracy.md says of the other side; `make accuracy` makes the table. */

static orr_arena *arena;
static job_cases cases;
static job_world world;
static job_prediction *predictions;
static bool there;

static const char *const FOLDERS[] = {"tables", "published"};

static int predict_all(void **state)
{
    (void)state;
    char folder[4096];
    orr_error err = {0};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL)
        return 0;
    arena = orr_arena_new(0, 0);
    if (arena == NULL || !job_cases_init(arena, &cases))
        return -1;
    for (size_t i = 0; i < sizeof FOLDERS / sizeof *FOLDERS; i++) {
        (void)snprintf(folder, sizeof folder, "%s/facts/%s", shared, FOLDERS[i]);
        job_cases_read(folder, &cases);
    }
    predictions = orr_arena_array(arena, job_prediction, cases.n + 1);
    there = cases.n_tables > 0;
    if (predictions == NULL || job_world_open(&cases, NULL, arena, &world, &err) != ORR_OK ||
        job_predict_all(&world, &cases, predictions, &err) != ORR_OK) {
        print_error("%s\n", err.text);
        return -1;
    }
    return 0;
}

static int forget(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void need_tables(void)
{
    if (there)
        return;
    print_message("ORRERY_SHARED has no facts/tables: nothing is compared\n");
    skip();
}

static void every_row_is_read_or_told(void **state)
{
    (void)state;
    need_tables();
    size_t left_out = 0;
    for (size_t i = 0; i < cases.n_left_out; i++) {
        print_message("# %s: %zu rows left out: %s\n", cases.left_out[i].table,
                      cases.left_out[i].rows, cases.left_out[i].reason);
        left_out += cases.left_out[i].rows;
    }
    assert_int_equal(cases.n_tables, 18 + 4);
    assert_int_equal(cases.n + left_out, 1153 + 82 + 7 + 6 + 6 + 97 + 14 + 181 + 30 + 3 + 153 + 24 +
                                             4 + 24 + 30 + 4 + 7 + 136 + 371 + 76 + 1427 + 267);
    for (size_t i = 0; i < cases.n; i++)
        if (!(predictions[i].seconds > 0) && !(predictions[i].memory_gib > 0))
            fail_msg("%s, row %zu: %s", cases.at[i].table, cases.at[i].row, predictions[i].reason);
}

static void no_configuration_is_on_both_sides(void **state)
{
    (void)state;
    need_tables();
    size_t fitted = 0;
    for (size_t i = 0; i < cases.n; i++) {
        fitted += cases.at[i].fitted;
        for (size_t k = 0; k < i; k++)
            if (cases.at[i].configuration == cases.at[k].configuration)
                assert_int_equal(cases.at[i].fitted, cases.at[k].fitted);
    }
    assert_in_range(fitted, cases.n * 2 / 5, cases.n * 3 / 5);
}

/* Mean error that docs/accuracy.md claims of a group's judged rows, and Kendall's tau of plans
 * where it claims one. */
static const struct {
    const char *group;
    double mean, tau;
} CLAIMS[] = {
    {"vTrain, one host", 0.075, 0.78},
    {"vTrain, many hosts", 0.085, 0.5},
    {"MLPerf", 0.025, NAN},
    {"SimuMax", 0.03, NAN},
    {"LLM Foundry", 0.055, NAN},
    {"torchtitan", 0.055, NAN},
    {"DGXC recipes", 0.06, NAN},
    {"NeMo", 0.06, NAN},
    {"inference throughput", 0.15, NAN},
    {"inference first token", 0.14, NAN},
};

static void errors_are_as_claimed(void **state)
{
    (void)state;
    need_tables();
    for (size_t i = 0; i < sizeof CLAIMS / sizeof *CLAIMS; i++) {
        job_score s;
        job_score_of(&cases, predictions, CLAIMS[i].group, false, &s);
        print_message("# %s: %zu rows judged, mean %.1f %%, worst %.1f %%, tau %.2f\n", s.group,
                      s.n, 100 * s.mean, 100 * s.worst, s.tau);
        assert_true(s.n > 0 && s.mean <= CLAIMS[i].mean);
        assert_true(isnan(CLAIMS[i].tau) || s.tau >= CLAIMS[i].tau);
    }
}

static void intervals_cover_what_they_say(void **state)
{
    (void)state;
    need_tables();
    job_score s;
    job_score_of(&cases, predictions, NULL, false, &s);
    print_message("# all: %zu rows judged, %.1f %% within their 90 %% interval\n", s.n,
                  100 * s.covered);
    assert_true(s.covered >= 0.85 && s.covered <= 0.95);
}

static void memory_is_as_claimed(void **state)
{
    (void)state;
    need_tables();
    job_score s;
    job_score_of(&cases, predictions, "SimuMax", false, &s);
    print_message("# SimuMax: memory, mean %.1f %%, worst %.1f %%\n", 100 * s.memory_mean,
                  100 * s.memory_worst);
    assert_true(s.n_memory > 0 && s.memory_mean <= 0.02);
}

/* --- the order of plans of one job ----------------------------------------------------------- */

/* Rows of one model, batch, sequence and number of devices, in different plans. */
static bool are_one_job(const job_case *a, const job_case *b)
{
    return strncmp(a->table, "vtrain", 6) == 0 && strcmp(a->table, b->table) == 0 &&
           a->configuration != b->configuration && a->model->layers == b->model->layers &&
           a->model->hidden == b->model->hidden && a->plan.batch == b->plan.batch &&
           orr_plan_ranks(&a->plan) == orr_plan_ranks(&b->plan) &&
           a->workload.seq == b->workload.seq;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What ORR_ORDER_ERROR says of pairs: how far predicted ratios are off, and how often the order of
 * two is another than predicted, by how far apart they are predicted to be (steps of 3 %). */
static void orders_are_known_as_claimed(void **state)
{
    (void)state;
    need_tables();
    enum { PAIRS = 16384, BINS = 12 };
    static double off[PAIRS];
    size_t n = 0, pairs[BINS] = {0}, wrong[BINS] = {0};
    for (size_t i = 0; i < cases.n; i++)
        for (size_t k = 0; k < i; k++) {
            if (cases.at[i].model == NULL || cases.at[k].model == NULL ||
                !are_one_job(&cases.at[i], &cases.at[k]))
                continue;
            const double told = log(predictions[i].seconds / predictions[k].seconds),
                         measured = log(cases.at[i].seconds / cases.at[k].seconds);
            const size_t bin = (size_t)fmin(fabs(told) / 0.03, BINS - 1);
            assert_true(n < PAIRS);
            off[n++] = fabs(measured - told);
            pairs[bin]++;
            wrong[bin] += told * measured < 0;
        }
    qsort(off, n, sizeof *off, by_size);
    print_message("# %zu pairs: half within %.3f, 90 %% within %.3f\n", n, off[n / 2],
                  off[n * 9 / 10]);
    for (size_t bin = 0; bin < BINS; bin++)
        print_message("# %2zu %% apart and more: %zu of %zu in the other order\n", 3 * bin,
                      wrong[bin], pairs[bin]);
    assert_true(n > 7000);
    assert_near(off[n / 2], 0.674 * ORR_ORDER_ERROR, 0.01);
    /* Ties are ties; and what stands outside of the set is told right nine times in ten. */
    assert_true(wrong[0] + wrong[1] > (pairs[0] + pairs[1]) * 4 / 10);
    for (size_t bin = 5; bin < BINS; bin++)
        assert_true(wrong[bin] <= pairs[bin] / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_row_is_read_or_told),
        cmocka_unit_test(no_configuration_is_on_both_sides),
        cmocka_unit_test(errors_are_as_claimed),
        cmocka_unit_test(intervals_cover_what_they_say),
        cmocka_unit_test(memory_is_as_claimed),
        cmocka_unit_test(orders_are_known_as_claimed),
    };
    return cmocka_run_group_tests_name("published_jobs", tests, predict_all, forget);
}
