/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "cli/search/explore.h"

static const char *const MODEL[] = {"llama3.1-8b"};
static const orr_settings USUAL = {
    .format = "table", .color = "auto", .cluster = "dgx_h100", .args = MODEL, .n_args = 1};

/* What was asked, as a search gets it. */
typedef struct asked {
    orr_explore_request request;
    orr_status status;
} asked;

static asked *ask(const orr_settings *settings)
{
    asked *a = test_calloc(1, sizeof *a);
    assert_int_equal(orr_session_init(&a->request.session, settings), ORR_OK);
    a->status = orr_explore_request_read(&a->request);
    return a;
}

static void done(asked *a)
{
    orr_session_done(&a->request.session);
    test_free(a);
}

static void must_refuse(orr_settings settings, const char *words)
{
    asked *a = ask(&settings);
    assert_int_equal(a->status, ORR_INVALID);
    if (strstr(a->request.session.err.text, words) == NULL)
        fail_msg("'%s' does not say '%s'", a->request.session.err.text, words);
    done(a);
}

static void a_batch_is_assumed_where_nobody_says_one(void **state)
{
    (void)state;
    asked *a = ask(&USUAL);
    assert_int_equal(a->status, ORR_OK);
    assert_true(a->request.batch_assumed);
    assert_string_equal(a->request.options.fix, "batch=2048");
    assert_int_equal(a->request.options.workload.seq, 8192);
    assert_int_equal(a->request.options.second, ORR_OBJECTIVES);
    assert_null(a->request.options.fleet);
    done(a);
}

static void a_batch_is_samples_or_tokens_or_in_the_plan(void **state)
{
    static const struct {
        const char *batch, *tokens, *seq, *fix, *want;
    } cases[] = {
        {"64", NULL, NULL, NULL, "batch=64"},
        {"2k", NULL, "4k", NULL, "seq=4096,batch=2048"},
        {NULL, "4M", "4k", NULL, "seq=4096,batch=1024"},
        {NULL, NULL, NULL, "tp=2,batch=16", "tp=2,batch=16"},
        {"64", NULL, NULL, "tp=2,schedule=zb_v", "tp=2,batch=64,schedule=zb_v"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_settings s = USUAL;
        s.batch = cases[i].batch;
        s.tokens_per_step = cases[i].tokens;
        s.seq = cases[i].seq;
        s.fix = cases[i].fix;
        asked *a = ask(&s);
        assert_int_equal(a->status, ORR_OK);
        assert_false(a->request.batch_assumed);
        assert_string_equal(a->request.options.fix, cases[i].want);
        done(a);
    }
}

static void two_batches_are_one_too_many(void **state)
{
    orr_settings s = USUAL;
    (void)state;
    s.batch = "64";
    s.fix = "batch=32";
    must_refuse(s, "is enough");
    s = USUAL;
    s.seq = "4k";
    s.fix = "seq=8k";
    must_refuse(s, "--seq says 4096");
    s = USUAL;
    s.tokens_per_step = "5";
    must_refuse(s, "no sample of 8192");
}

static void a_gap_is_a_share(void **state)
{
    static const struct {
        const char *text;
        double want;
    } cases[] = {{"2%", 0.02}, {"2 %", 0.02}, {"0.05", 0.05}, {"0", 0}};
    static const char *const wrong[] = {"x", "2x", "-1", "100%", "2%%", "", "nan"};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_settings s = USUAL;
        s.gap = cases[i].text;
        asked *a = ask(&s);
        assert_int_equal(a->status, ORR_OK);
        assert_true(fabs(a->request.options.gap_frac - cases[i].want) < 1e-12);
        done(a);
    }
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        orr_settings s = USUAL;
        s.gap = wrong[i];
        must_refuse(s, "--gap");
    }
}

static void objectives_need_what_they_are_of(void **state)
{
    orr_settings s = USUAL;
    (void)state;
    s.objective = "budget";
    must_refuse(s, "--tokens is needed");
    s.tokens = "15.6T";
    asked *a = ask(&s);
    assert_int_equal(a->status, ORR_OK);
    assert_true(a->request.options.tokens == 15.6e12);
    assert_non_null(a->request.options.fleet); /* a budget of months meets failures */
    done(a);
    s.failures = "none";
    a = ask(&s);
    assert_int_equal(a->status, ORR_OK);
    assert_null(a->request.options.fleet);
    done(a);
    s.front = "budget";
    must_refuse(s, "--pareto");
}

static void baselines_are_named_or_all(void **state)
{
    orr_settings s = USUAL;
    (void)state;
    s.baselines = "all";
    asked *a = ask(&s);
    assert_int_equal(a->request.n_baselines, ORR_BASELINES);
    done(a);
    s.baselines = "fsdp,atlas,fsdp";
    a = ask(&s);
    assert_int_equal(a->request.n_baselines, 2);
    assert_int_equal(a->request.baselines[1], ORR_BASELINE_ATLAS);
    done(a);
    s.baselines = "fsdb";
    must_refuse(s, "did you mean fsdp");
}

static void what_cannot_be_meant_is_refused(void **state)
{
    orr_settings s = USUAL;
    (void)state;
    s.cluster = NULL;
    must_refuse(s, "--cluster is needed");
    s = USUAL;
    s.fix = "tp=x";
    must_refuse(s, "--fix");
    s = USUAL;
    s.resume = true;
    must_refuse(s, "--store");
    s = USUAL;
    s.gpus = "4";
    s.min_gpus = "8";
    must_refuse(s, "--min-gpus 8 is more than --gpus 4");
    s = USUAL;
    s.gpus = "8,tp=4";
    must_refuse(s, "--gpus");
    s = USUAL;
    s.price = "0";
    must_refuse(s, "--price");
    s = USUAL;
    s.max_buildings = 99;
    must_refuse(s, "--max-sites");
}

static void progress_is_one_line_that_fits(void **state)
{
    const orr_explore_progress at = {.families = 1204,
                                     .families_done = 301,
                                     .plans = 1240000,
                                     .simulated = 17,
                                     .best = 8.21e9,
                                     .bound = 8.02e9,
                                     .phase = "searching",
                                     .family = "tp=8,cp=2"};
    const orr_explore_progress first = {.best = NAN, .bound = NAN};
    char line[200], brief[20];
    (void)state;
    orr_explore_progress_line(&at, ORR_OBJECTIVE_STEP, 4000000000, line, sizeof line);
    assert_string_equal(line,
                        "exploring (searching)  25 %  best 8.210 s  bound 8.020 s  gap 2.3 %  1.24 M plans  "
                        "310 k/s  17 simulated  301 of 1,204 sets  tp=8,cp=2");
    orr_explore_progress_line(&at, ORR_OBJECTIVE_STEP, 4000000000, brief, sizeof brief);
    assert_string_equal(brief, "exploring (searchin");
    orr_explore_progress_line(&first, ORR_OBJECTIVE_STEP, 0, line, sizeof line);
    assert_string_equal(line, "exploring  0 plans  0/s  0 simulated");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_batch_is_assumed_where_nobody_says_one),
        cmocka_unit_test(a_batch_is_samples_or_tokens_or_in_the_plan),
        cmocka_unit_test(two_batches_are_one_too_many),
        cmocka_unit_test(a_gap_is_a_share),
        cmocka_unit_test(objectives_need_what_they_are_of),
        cmocka_unit_test(baselines_are_named_or_all),
        cmocka_unit_test(what_cannot_be_meant_is_refused),
        cmocka_unit_test(progress_is_one_line_that_fits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
