/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include "explore/questions/questions.h"

/* Questions about jobs so small that every search ends: answers are held against simulations and
 * searches that are made here. */

typedef struct job {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_explore_options options;
    orr_exploration reference;
    orr_inquiry inquiry;
    orr_answer answer;
} job;

static void open_job(job *j, const char *model, const char *cluster, const char *fix)
{
    memset(j, 0, sizeof *j);
    world_open(&j->w);
    j->model = world_model(&j->w, model);
    j->cluster = world_cluster(&j->w, cluster);
    orr_explore_options_init(&j->options);
    j->options.fix = fix;
    j->options.threads = 1;
    j->options.exclude = "optimizer,activations,both";
}

static void search_reference(job *j)
{
    world_must(&j->w,
               orr_explore(j->model, j->cluster, &j->options, j->w.arena, &j->reference, &j->w.err),
               "reference");
    j->inquiry = (orr_inquiry){.model = j->model,
                               .cluster = j->cluster,
                               .options = &j->options,
                               .reference = &j->reference};
}

static const orr_probe *probe_of(const job *j, uint32_t i)
{
    assert_true(i < j->answer.n);
    return &j->answer.probes[i];
}

static void solve(job *j, const char *text, double limit, double within)
{
    orr_solve solve;
    world_must(&j->w, orr_solve_parse(text, j->cluster, &solve, &j->w.err), text);
    solve.limit = limit;
    solve.within_frac = within;
    world_must(&j->w, orr_explore_solve(&j->inquiry, &solve, j->w.arena, &j->answer, &j->w.err),
               text);
}

/* Hosts of 4 devices of two sites, and a plan that has one replica in each. */
static void open_sites(job *j)
{
    const uint32_t devices[ORR_SITES_MAX] = {8, 8};
    open_job(j, "llama3.2-1b", "gcp_a100_two_regions",
             "batch=16,seq=2048,dp=4,tp=4,pp=1,cp=1,micro_batch=1,zero=0,cross=dp,precision=bf16,"
             "recompute=none,schedule=1f1b");
    world_must(&j->w,
               orr_cluster_select_sites(j->cluster, devices, j->w.arena, &j->cluster, &j->w.err),
               "sites");
    search_reference(j);
    assert_true(j->reference.n > 0);
}

/* The step of the reference's plan with all cuts so much thinner, by the machine's own function. */
static double step_at(job *j, double bandwidth)
{
    const orr_cluster_factors f = {1, bandwidth, 1, 1};
    const orr_cluster *scaled;
    orr_job_options options;
    orr_outcome o;
    orr_job_options_init(&options);
    world_must(&j->w, orr_cluster_scaled(j->cluster, &f, j->w.arena, &scaled, &j->w.err), "scaled");
    world_must(&j->w,
               orr_outcome_of(j->model, &j->reference.best[0].plan, scaled, &options, j->w.arena,
                              &o, &j->w.err),
               "outcome");
    const double ns = (double)o.step_ns;
    orr_outcome_free(&o);
    return ns;
}

static void test_the_least_bandwidth_is_where_the_step_says(void **state)
{
    (void)state;
    job j;
    open_sites(&j);
    solve(&j, "cut", 0, 0.02);
    const double begin = orr_machine_bandwidth(j.cluster, false, ORR_NONE);
    const orr_probe *good = probe_of(&j, j.answer.answer), *bad = probe_of(&j, j.answer.beyond);
    assert_true(probe_of(&j, 0)->at == begin);
    assert_true(j.answer.limit == 1.02 * (double)j.reference.best[0].step_ns);
    assert_true(bad->at < good->at && good->at <= 1.05 * bad->at);
    assert_true(good->value <= j.answer.limit && bad->value > j.answer.limit);
    assert_int_equal(bad->verdict, ORR_VERDICT_FAILS);
    assert_int_equal(j.answer.contradictions, 0);
    assert_true(good->value <= step_at(&j, good->at / begin));
    assert_true(step_at(&j, bad->at / begin) > j.answer.limit);
    for (uint32_t i = 0; i < j.answer.n; i++) /* more bandwidth is never worse */
        for (uint32_t k = 0; k < j.answer.n; k++)
            if (probe_of(&j, i)->at > probe_of(&j, k)->at)
                assert_true(probe_of(&j, i)->value <= probe_of(&j, k)->value);
    world_close(&j.w);
}

static void test_a_longer_fibre_is_slower(void **state)
{
    (void)state;
    job j;
    open_sites(&j);
    solve(&j, "distance:0", 0, 0.02);
    const orr_probe *good = probe_of(&j, j.answer.answer), *bad = probe_of(&j, j.answer.beyond);
    assert_true(probe_of(&j, 0)->at == 10); /* as the catalogue has it */
    assert_true(good->at > 10 && good->at < bad->at);
    assert_true(good->value <= j.answer.limit && bad->value > j.answer.limit);
    world_close(&j.w);
}

static void test_a_link_that_is_not_changed_changes_nothing(void **state)
{
    (void)state;
    job j;
    open_sites(&j);
    const orr_link_change none = {false, 0, 1, 1, 0};
    const orr_cluster *same;
    world_must(&j.w, orr_machine_with_link(j.cluster, &none, j.w.arena, &same, &j.w.err), "link");
    j.cluster = same;
    const int64_t before = j.reference.best[0].step_ns;
    search_reference(&j);
    assert_true(j.reference.best[0].step_ns == before);
    world_close(&j.w);
}

static void test_less_memory_is_judged_with_time(void **state)
{
    (void)state;
    job j;
    open_job(&j, "llama3.2-1b", "dgx_h100", "batch=16,seq=4096,precision=bf16,tp=2");
    search_reference(&j);
    solve(&j, "memory", 0, 0.10);
    const orr_probe *good = probe_of(&j, j.answer.answer), *bad = probe_of(&j, j.answer.beyond);
    assert_true(good->best.peak_bytes <= good->best.usable_bytes);
    assert_true((double)good->best.usable_bytes < good->at);
    assert_true(good->value <= 1.10 * (double)j.reference.best[0].step_ns);
    assert_true(bad->at < good->at && good->at <= 1.05 * bad->at);
    assert_int_not_equal(bad->verdict, ORR_VERDICT_MEETS);
    world_close(&j.w);
}

/* The fewest devices against a search for each number of them. */
static void test_the_fewest_devices_are_those_of_all_searches(void **state)
{
    (void)state;
    job j;
    double step[9];
    open_job(&j, "llama3.2-1b", "dgx_h100", "batch=16,seq=4096,precision=bf16");
    for (uint32_t n = 1; n <= 8; n++) {
        j.options.max_devices = n;
        search_reference(&j);
        step[n] = j.reference.n > 0 ? (double)j.reference.best[0].step_ns : INFINITY;
        assert_true(n == 1 || step[n] <= step[n - 1]);
    }
    j.options.max_devices = 0;
    for (uint32_t n = 2; n <= 8; n += 2) { /* each search may stop 2 % above what there is */
        const double limit = 1.03 * step[n];
        uint32_t least = 1, most = 1;
        while (0.98 * step[least] > limit)
            least++;
        while (step[most] > step[n])
            most++;
        solve(&j, "devices", limit, 0);
        const orr_probe *answer = probe_of(&j, j.answer.answer);
        assert_true(answer->value <= limit && answer->at >= least && answer->at <= most);
        assert_true(j.answer.beyond == ORR_NONE ||
                    probe_of(&j, j.answer.beyond)->at == answer->at - 1);
    }
    solve(&j, "devices", step[8] / 2, 0);
    assert_int_equal(j.answer.answer, ORR_NONE);
    world_close(&j.w);
}

static void test_a_deadline_has_a_cheapest_plan(void **state)
{
    (void)state;
    job j;
    orr_answer devices;
    open_job(&j, "llama3.2-1b", "dgx_h100", "batch=16,seq=4096,precision=bf16");
    j.options.objective = ORR_OBJECTIVE_BUDGET;
    j.options.tokens = 1e12;
    j.options.price_per_hour = 2;
    search_reference(&j);
    const double deadline = 2 * j.reference.best[0].value[ORR_OBJECTIVE_BUDGET];
    solve(&j, "devices", deadline, 0);
    devices = j.answer;
    world_must(&j.w, orr_explore_cheapest(&j.inquiry, &devices, j.w.arena, &j.answer, &j.w.err),
               "cheapest");
    const orr_probe *best = probe_of(&j, j.answer.answer);
    assert_true(best->best.value[ORR_OBJECTIVE_BUDGET] <= deadline);
    assert_true(best->bound <= best->value && best->bound >= 0.9 * best->value);
    for (uint32_t i = 0; i < devices.n; i++)
        if (devices.probes[i].verdict == ORR_VERDICT_MEETS)
            assert_true(best->value <= devices.probes[i].best.value[ORR_OBJECTIVE_COST]);
    world_close(&j.w);
}

static void test_one_place_is_itself(void **state)
{
    (void)state;
    job j;
    open_job(&j, "llama3.2-1b", "dgx_h100", "batch=16,seq=4096,precision=bf16,tp=2");
    search_reference(&j);
    world_must(&j.w, orr_explore_against(&j.inquiry, NULL, j.w.arena, &j.answer, &j.w.err), "own");
    assert_int_equal(j.answer.n, 2);
    assert_true(probe_of(&j, 0)->value / probe_of(&j, 1)->value == 1);
    world_close(&j.w);
}

static void test_one_place_is_no_slower_than_sites(void **state)
{
    (void)state;
    job j;
    open_job(&j, "llama3.2-1b", "gcp_a100_two_regions", "batch=16,seq=2048,tp=4,precision=bf16");
    const uint32_t sizes[ORR_SITES_MAX] = {8, 0, 8};
    world_must(&j.w, orr_cluster_select_sites(j.cluster, sizes, j.w.arena, &j.cluster, &j.w.err),
               "sites");
    j.options.min_devices = 16;
    search_reference(&j);
    world_must(&j.w, orr_explore_against(&j.inquiry, NULL, j.w.arena, &j.answer, &j.w.err), "one");
    assert_true(probe_of(&j, 1)->found);
    assert_true(probe_of(&j, 1)->value <= probe_of(&j, 0)->value);
    assert_int_equal(probe_of(&j, 1)->best.n_devices, 16);
    assert_int_equal(j.answer.answer, 1);
    world_close(&j.w);
}

static void test_half_a_link_is_never_better(void **state)
{
    (void)state;
    job j;
    open_sites(&j);
    world_must(
        &j.w,
        orr_explore_what_if(&j.inquiry, ORR_WHAT_IF_LINK, NULL, 0, j.w.arena, &j.answer, &j.w.err),
        "what if");
    assert_int_equal(j.answer.n, 1 + 4); /* one cut: bandwidth and latency at half and twice */
    const double own = probe_of(&j, 0)->value;
    assert_true(probe_of(&j, 1)->value > own && probe_of(&j, 2)->value < own);
    assert_true(probe_of(&j, 3)->value <= own && probe_of(&j, 4)->value >= own);
    for (uint32_t i = 1; i < j.answer.n; i++)
        assert_true(probe_of(&j, i)->value <= probe_of(&j, i)->kept_value);
    world_close(&j.w);
}

static void test_another_device_stands_in_place_of_all(void **state)
{
    (void)state;
    job j;
    open_job(&j, "llama3.2-1b", "dgx_h100", "batch=16,seq=4096,precision=bf16,tp=2");
    search_reference(&j);
    const orr_device *devices[] = {orr_catalog_device(j.w.catalog, "a100_sxm_80g")};
    assert_non_null(devices[0]);
    world_must(&j.w,
               orr_explore_what_if(&j.inquiry, ORR_WHAT_IF_DEVICE, devices, 1, j.w.arena, &j.answer,
                                   &j.w.err),
               "what if");
    assert_true(probe_of(&j, 1)->value > 1.5 * probe_of(&j, 0)->value);
    assert_int_equal(orr_explore_what_if(&j.inquiry, ORR_WHAT_IF_FAILURE, NULL, 0, j.w.arena,
                                         &j.answer, &j.w.err),
                     ORR_INVALID);
    world_close(&j.w);
}

/* 70B in bf16 with Adam's states needs 1.1 TB: more than 8 devices, and no more than 32. */
static void test_enough_devices_fit_the_states(void **state)
{
    (void)state;
    job j;
    open_job(&j, "llama3.1-70b", "dgx_h100", "batch=64,seq=4096,precision=bf16");
    search_reference(&j);
    assert_int_equal(j.reference.n, 0);
    world_must(&j.w, orr_explore_enough(&j.inquiry, 0, j.w.arena, &j.answer, &j.w.err), "enough");
    const orr_probe *good = probe_of(&j, j.answer.answer);
    const orr_cluster *grown;
    orr_job_options options;
    orr_outcome outcome;
    assert_true(good->at > 8 && good->at <= 32);
    assert_true(good->best.n_devices == good->at);
    assert_true(j.answer.beyond == ORR_NONE || probe_of(&j, j.answer.beyond)->at < good->at);
    orr_job_options_init(&options);
    world_must(&j.w, orr_machine_grown(j.cluster, 4, j.w.arena, &grown, &j.w.err), "grown");
    world_must(
        &j.w,
        orr_outcome_of(j.model, &good->best.plan, grown, &options, j.w.arena, &outcome, &j.w.err),
        "outcome");
    assert_true(outcome.memory.fits);
    orr_outcome_free(&outcome);
    world_close(&j.w);
}

static void test_spares_are_as_few_as_the_fleet_says(void **state)
{
    (void)state;
    job j;
    orr_failure_catalog catalog;
    const orr_failures *failures;
    const orr_fleet_timing *timing;
    orr_fleet_options fleet;
    open_job(&j, "llama3.1-70b", "dgx_h100_pod",
             "batch=64,seq=4096,precision=bf16,tp=8,pp=2,dp=4,micro_batch=1,zero=1");
    world_must(&j.w, orr_failure_catalog_open(NULL, j.w.arena, &catalog, &j.w.err), "catalog");
    world_must(&j.w, orr_failures_find(&catalog, "ft_hsdp_98k", &failures, &j.w.err), "failures");
    world_must(&j.w, orr_fleet_timing_find(&catalog, "ft_hsdp", &timing, &j.w.err), "timing");
    orr_fleet_options_init(&fleet, failures, timing);
    fleet.repetitions = 4;
    fleet.numbers[ORR_FLEET_RATE].value *= 200; /* so that a few nodes need spares */
    j.options.objective = ORR_OBJECTIVE_BUDGET;
    j.options.tokens = 1e12;
    j.options.fleet = &fleet;
    search_reference(&j);
    assert_true(j.reference.n > 0);
    solve(&j, "spares", 0, 0.02);
    const orr_probe *good = probe_of(&j, j.answer.answer);
    assert_true(good->value <= 1.02 * probe_of(&j, 0)->value);
    assert_true(good->at < probe_of(&j, 0)->at);
    if (j.answer.beyond != ORR_NONE) {
        assert_true(probe_of(&j, j.answer.beyond)->at == good->at - 1);
        assert_true(probe_of(&j, j.answer.beyond)->value > j.answer.limit);
    }
    world_close(&j.w);
}

static void test_prices_are_of_devices_by_name(void **state)
{
    (void)state;
    plan_world w;
    const char *names[] = {"h100"};
    const double prices[] = {1.25};
    const orr_cluster *priced;
    world_open(&w);
    const orr_cluster *mixed = world_cluster(&w, "mixed_buildings");
    world_must(&w, orr_cluster_with_prices(mixed, names, prices, 1, w.arena, &priced, &w.err),
               "prices");
    for (uint32_t s = 0; s < mixed->n_sites; s++) {
        const bool named = strncmp(mixed->sites[s].device->name, "h100", 4) == 0;
        assert_true(priced->sites[s].price_per_hour.value ==
                    (named ? 1.25 : mixed->sites[s].price_per_hour.value));
    }
    world_close(&w);
}

static void test_words_that_mean_nothing_are_refused(void **state)
{
    (void)state;
    static const char *const wrong[] = {"cut:7",  "cut:us-central1", "rope",       "memory:3",
                                        "level:", "level:attic",     "distance:x", "cut:"};
    plan_world w;
    orr_solve solve;
    world_open(&w);
    const orr_cluster *sites = world_cluster(&w, "three_buildings");
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_int_equal(orr_solve_parse(wrong[i], sites, &solve, &w.err), ORR_INVALID);
    world_must(&w, orr_solve_parse("cut:south-north", sites, &solve, &w.err), "cut");
    assert_true(!solve.level && sites->cuts[solve.link].a == 0 && sites->cuts[solve.link].b == 2);
    assert_int_equal(orr_solve_parse("cut:0", world_cluster(&w, "dgx_h100"), &solve, &w.err),
                     ORR_INVALID);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_least_bandwidth_is_where_the_step_says),
        cmocka_unit_test(test_a_longer_fibre_is_slower),
        cmocka_unit_test(test_a_link_that_is_not_changed_changes_nothing),
        cmocka_unit_test(test_less_memory_is_judged_with_time),
        cmocka_unit_test(test_the_fewest_devices_are_those_of_all_searches),
        cmocka_unit_test(test_a_deadline_has_a_cheapest_plan),
        cmocka_unit_test(test_one_place_is_itself),
        cmocka_unit_test(test_one_place_is_no_slower_than_sites),
        cmocka_unit_test(test_half_a_link_is_never_better),
        cmocka_unit_test(test_another_device_stands_in_place_of_all),
        cmocka_unit_test(test_enough_devices_fit_the_states),
        cmocka_unit_test(test_spares_are_as_few_as_the_fleet_says),
        cmocka_unit_test(test_prices_are_of_devices_by_name),
        cmocka_unit_test(test_words_that_mean_nothing_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
