/* SPDX-License-Identifier: Apache-2.0 */
#include "csv.h"

#include <math.h>
#include <time.h>

#include <orrery/fleet.h>

/* What is published of failures at scale, and closed forms, held against lives that are simulated
 * event by event. No constant is tuned: rates and times are those of the sources, or the round ones
 * of the closed forms. */

#define SECOND_NS               1000000000
#define DAY_NS                  (86400 * (int64_t)SECOND_NS)
#define assert_near(a, b, most) assert_true(fabs((double)(a) - (double)(b)) <= (most))

static orr_arena *arena;
static orr_failure_catalog catalog;
static orr_error err;

static int open_catalog(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL || orr_failure_catalog_open(NULL, arena, &catalog, &err) != ORR_OK;
}

static int close_catalog(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static orr_fleet_options options_of(const char *failures, uint32_t gpus, const char *set)
{
    orr_fleet_options o;
    const orr_failures *f;
    const orr_fleet_timing *timing;
    assert_int_equal(orr_failures_find(&catalog, failures, &f, &err), ORR_OK);
    assert_int_equal(orr_fleet_timing_find(&catalog, "ft_hsdp", &timing, &err), ORR_OK);
    orr_fleet_options_init(&o, f, timing);
    o.gpus = gpus;
    if (orr_fleet_set(&o, set, arena, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return o;
}

static orr_fleet_outcome outcome_of(const orr_fleet_options *o, uint8_t way, uint32_t replicas)
{
    const orr_fleet_policy policy = {way, replicas, 0};
    orr_fleet fleet;
    if (orr_fleet_of(o, &policy, 1, false, arena, &fleet, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return fleet.outcomes[0];
}

/* --- one failure in 18 min, 12 replicas of 8,192 GPUs (FT-HSDP, arXiv:2602.00277) ------------ */

/* Its formula: a synchronous recovery is 10 min; with replicas all stand for 3 min and then 11 of
 * 12 go on for 7. Neither counts what is computed again, nor the stall of joining: steps are short
 * here (2 s), each is checkpointed for nothing, and joining is free. The parts are its own where it
 * names them. */
#define FORMULA                                                                                    \
    "detect=60s,schedule=120s,start=0s,init_16k=300s,init_98k=300s,load=120s,first_step=0s,"       \
    "regroup=120s,rebuild=120s,fetch=0s,rejoin=0s,save=0s,step=2s"
enum { GPUS = 98304, REPLICAS = 12, STALL_MIN = 3, BACK_MIN = 10, BETWEEN_MIN = 18 };

static void forty_four_and_eighty_percent(void **state)
{
    orr_fleet_options o = options_of("rsc1", GPUS, FORMULA ",interval=18min");
    (void)state;
    o.repetitions = 3;
    const double sync = outcome_of(&o, ORR_FLEET_SYNC, 1).effective.mean;
    const double ft = outcome_of(&o, ORR_FLEET_FT, REPLICAS).effective.mean;
    const double least = (BETWEEN_MIN - BACK_MIN) / (double)BETWEEN_MIN;
    const double most = (8 + 7 * 11 / 12.0) / 18;
    print_message("every 18 min exactly: sync %.4f (formula %.4f), ft12 %.4f (formula %.4f)\n",
                  sync, least, ft, most);
    assert_near(sync, least, 0.005);
    assert_near(ft, most, 0.005);
}

/* The same as a Poisson process, for which both have a closed form of their own, since all times
 * are constant and a failure while nothing runs begins the recovery again: sync  up at t if nothing
 * failed in the last D: exp(-D / T) ft    replica i is up at t if nothing of it failed in the last
 * B: u = exp(-B / T R); none of the other R - 1 has stalled all if it did not fail, while it was
 * up, in the last s: 1 - u s / T R (at most one such failure fits into s < B), so u (1 - u s / T
 * R)^(R-1) Left out there: half a step lost a failure, the wait for a commit, and the step of
 * zeros, each below 3 s in 18 min of a twelfth: 0.002 together. Six lives of 90 days: the standard
 * error is 0.0014. */
static void poisson_failures_meet_one_another(void **state)
{
    orr_fleet_options o = options_of("rsc1", GPUS, FORMULA ",rate=6.5104167");
    (void)state;
    o.repetitions = 6;
    const orr_fleet_outcome sync = outcome_of(&o, ORR_FLEET_SYNC, 1);
    const orr_fleet_outcome ft = outcome_of(&o, ORR_FLEET_FT, REPLICAS);
    const double t = BETWEEN_MIN, r = REPLICAS, u = exp(-BACK_MIN / t / r);
    const double least = exp(-BACK_MIN / t), most = u * pow(1 - u * STALL_MIN / t / r, r - 1);
    print_message(
        "Poisson, one in 18 min: sync %.4f (closed form %.4f), ft12 %.4f (closed form %.4f)\n",
        sync.effective.mean, least, ft.effective.mean, most);
    assert_near(sync.mtbf_ns.mean / 60e9, 18, 0.3);
    assert_near(sync.effective.mean, least, 0.005);
    assert_near(ft.effective.mean, most, 0.005);
    /* Replicas down at once: binomial, but for what waits for a stall to end. */
    print_message("no replica down %.3f of the time (binomial %.3f), two or more %.3f\n",
                  ft.down[0], pow(u, r), 1 - ft.down[0] - ft.down[1]);
    assert_near(ft.down[0], pow(u, r), 0.03);
    assert_true(1 - ft.down[0] - ft.down[1] > 0.1);
}

/* The paper's two rates do not go together: 2.3 a day of 1,000 servers is one in 51 min at 98K
 * GPUs. */
static void both_rates_of_one_paper(void **state)
{
    static const struct {
        const char *failures;
        double minutes;
    } rates[] = {{"ft_hsdp_32k", 51}, {"ft_hsdp_98k", 18}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        orr_fleet_options o = options_of(rates[i].failures, GPUS, "");
        o.repetitions = 6;
        const orr_fleet_outcome sync = outcome_of(&o, ORR_FLEET_SYNC, 1);
        const orr_fleet_outcome ft = outcome_of(&o, ORR_FLEET_FT, REPLICAS);
        print_message("%s: one in %.1f min; all its times: sync %.3f, ft12 %.3f\n",
                      rates[i].failures, sync.mtbf_ns.mean / 60e9, sync.effective.mean,
                      ft.effective.mean);
        assert_near(sync.mtbf_ns.mean / 60e9, rates[i].minutes, rates[i].minutes * 0.02);
        assert_true(ft.effective.low > sync.effective.high);
    }
}

/* --- Revisiting Reliability, HPCA 2025, arXiv:2410.21680 ------------------------------------- */

static void mean_times_to_failure_of_rsc1(void **state)
{
    static const struct {
        uint32_t gpus;
        double hours,
            slack; /* half of what the last printed digit counts, and the sampling error */
    } jobs[] = {{16384, 1.8, 0.05 + 0.02}, {131072, 0.23, 0.005 + 0.002}};
    (void)state;
    for (int i = 0; i < 2; i++) {
        orr_fleet_options o = options_of("rsc1", jobs[i].gpus, "");
        const orr_fleet_outcome sync = outcome_of(&o, ORR_FLEET_SYNC, 1);
        print_message("%u GPUs: one failure in %.3f h (projected: %.2f)\n", jobs[i].gpus,
                      sync.mtbf_ns.mean / 3600e9, jobs[i].hours);
        assert_near(sync.mtbf_ns.mean / 3600e9, jobs[i].hours, jobs[i].slack);
    }
}

/* E[ETTR] ~ (1 - N r (u + c/2)) / (1 + w/c): N nodes of rate r, restart u, checkpoints every c that
 * take w. It counts no failure during a recovery and takes 1 / (1 + x) for 1 - x, so that it is off
 * by x^2 where x = N r (u + c/2) is small; beyond that three standard errors are allowed. */
static void the_published_model_of_effective_time(void **state)
{
    static const uint32_t nodes[] = {32, 64, 128, 256, 512};
    const double u = 600, c = 3600, w = 60; /* s */
    (void)state;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        orr_fleet_options o =
            options_of("rsc1", 8 * nodes[i],
                       "detect=60s,schedule=120s,start=0s,init_16k=300s,init_98k=300s,"
                       "load=120s,first_step=0s,step=1s,save=60s,checkpoint=1h");
        o.horizon_ns = 365 * DAY_NS;
        o.repetitions = 30;
        const orr_fleet_outcome sync = outcome_of(&o, ORR_FLEET_SYNC, 1);
        const double x = (u + c / 2) * 1e9 / orr_fleet_mtbf_ns(6.5, nodes[i]);
        const double model = (1 - x) / (1 + w / c);
        const double error = (sync.effective.high - sync.effective.low) / 3.3 / sqrt(30);
        print_message("%u nodes: %.4f, model %.4f, x^2 %.4f\n", nodes[i], sync.effective.mean,
                      model, x * x);
        assert_true(x < 0.15);
        assert_near(sync.effective.mean, model, x * x + 3 * error + 1e-4);
    }
}

/* --- Llama 3 405B, arXiv:2407.21783: 54 days on 16,384 GPUs ---------------------------------- */

static void fifty_four_days_of_llama_3(void **state)
{
    orr_fleet_options o = options_of("llama3_405b", 16384, "");
    (void)state;
    o.horizon_ns = 54 * DAY_NS;
    o.repetitions = 40;
    const orr_fleet_outcome sync = outcome_of(&o, ORR_FLEET_SYNC, 1);
    double planned = 0;
    for (uint32_t i = 0; i < o.repetitions; i++)
        planned += (double)sync.runs[i].planned / o.repetitions;
    print_message(
        "%.0f unexpected and %.0f planned interruptions (419, 47): effective %.3f, %.3f to %.3f (over "
        "0.9)\n",
        sync.failures, planned, sync.effective.mean, sync.effective.low, sync.effective.high);
    assert_near(sync.failures, 419, 3 * sqrt(419.0 / o.repetitions));
    assert_near(planned, 47, 3 * sqrt(47.0 / o.repetitions));
    assert_true(sync.effective.low > 0.9);
}

/* --- a year of 100,000 GPUs ------------------------------------------------------------------ */

static double seconds_since(const struct timespec *begin)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - begin->tv_sec) + (double)(now.tv_nsec - begin->tv_nsec) / 1e9;
}

static void a_year_of_100000_gpus(void **state)
{
    static const orr_fleet_policy policies[] = {
        {ORR_FLEET_SYNC, 1, 0}, {ORR_FLEET_SPARES, 1, 100}, {ORR_FLEET_FT, 12, 0}};
    orr_fleet_options o = options_of("ft_hsdp_98k", 100000, "");
    orr_fleet one, two;
    (void)state;
    o.horizon_ns = 365 * DAY_NS;
    for (int i = 0; i < 3; i++) {
        struct timespec begin;
        orr_fleet_run run;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        assert_int_equal(orr_fleet_simulate(&o, &policies[i], 0, NULL, &run, &err), ORR_OK);
        print_message("%s: a year, %llu failures, in %.2f s on one core\n",
                      orr_fleet_recovery_name((orr_fleet_recovery)policies[i].recovery),
                      (unsigned long long)run.failures, seconds_since(&begin));
        int64_t sum = run.productive;
        for (int k = 0; k < ORR_FLEET_LOSSES; k++)
            sum += run.lost[k];
        assert_int_equal(run.wall_ns, 365 * DAY_NS);
        assert_int_equal(sum, run.wall_ns * run.replicas);
    }
    o.repetitions = 2;
    o.threads = 1;
    assert_int_equal(orr_fleet_of(&o, policies, 3, false, arena, &one, &err), ORR_OK);
    o.threads = 4;
    assert_int_equal(orr_fleet_of(&o, policies, 3, false, arena, &two, &err), ORR_OK);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(one.outcomes[i].runs, two.outcomes[i].runs, 2 * sizeof(orr_fleet_run));
}

/* --- the catalogue against the tables that it was made from ---------------------------------- */

static csv table_of(const char *name)
{
    char path[4096];
    csv table = {0};
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL) {
        print_message("ORRERY_SHARED is not set: %s is not compared\n", name);
        skip();
    }
    (void)snprintf(path, sizeof path, "%s/facts/fault_tolerance/%s", shared, name);
    if (!csv_open(path, arena, &table))
        fail_msg("%s is not there", path);
    return table;
}

static const orr_failure_category *category_of(const orr_failures *f, const char *name)
{
    for (uint32_t i = 0; i < f->n_categories; i++)
        if (strcmp(f->categories[i].name, name) == 0)
            return &f->categories[i];
    fail_msg("%s has no '%s'", f->name, name);
    return NULL;
}

static void every_category_is_in_the_catalogue(void **state)
{
    const csv table = table_of("failure_categories.csv");
    (void)state;
    assert_true(table.n_rows > 50);
    for (size_t i = 0; i < table.n_rows; i++) {
        const char *count = csv_text(&table, i, "count"), *name = csv_text(&table, i, "category");
        const orr_failures *f;
        assert_int_equal(orr_failures_find(&catalog, csv_text(&table, i, "dataset"), &f, &err),
                         ORR_OK);
        if (name[0] == '(') /* what did not fail */
            continue;
        const double said = csv_number(&table, i, count[0] != '\0' ? "count" : "share_pct");
        assert_near(category_of(f, name)->count.value, said, 0);
    }
}

/* The rates per 1,000 node-days that the table says or derives, to the digits that it prints. */
static void every_rate_is_in_the_catalogue(void **state)
{
    const csv table = table_of("failure_rates.csv");
    int n = 0;
    (void)state;
    for (size_t i = 0; i < table.n_rows; i++) {
        const char *metric = csv_text(&table, i, "metric");
        const orr_failures *f;
        if (strcmp(metric, "rate") != 0 && strcmp(metric, "rate, unexpected") != 0 &&
            strcmp(metric, "rate implied by 18 min at 12 x 8192 GPUs") != 0)
            continue;
        assert_int_equal(orr_failures_find(&catalog, csv_text(&table, i, "dataset"), &f, &err),
                         ORR_OK);
        assert_near(f->rate.value, csv_number(&table, i, "value"), 0);
        n++;
    }
    assert_int_equal(n, 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(forty_four_and_eighty_percent),
        cmocka_unit_test(poisson_failures_meet_one_another),
        cmocka_unit_test(both_rates_of_one_paper),
        cmocka_unit_test(mean_times_to_failure_of_rsc1),
        cmocka_unit_test(the_published_model_of_effective_time),
        cmocka_unit_test(fifty_four_days_of_llama_3),
        cmocka_unit_test(a_year_of_100000_gpus),
        cmocka_unit_test(every_category_is_in_the_catalogue),
        cmocka_unit_test(every_rate_is_in_the_catalogue),
    };
    return cmocka_run_group_tests(tests, open_catalog, close_catalog);
}
