/* SPDX-License-Identifier: Apache-2.0 */
/* Times what a search over parallel plans asks.
 *
 *   bench_plans estimate MODEL CLUSTER   closed forms over a grid of plans on 512 to 16,384 devices
 *   bench_plans simulate MODEL CLUSTER   full simulations of 16 stages and 32 micro-batches
 *   bench_plans floor MODEL CLUSTER      floors of families of plans: sets of modules, built and
 * priced
 *
 * One JSON line. Of estimates: the first pass over the grid, which builds what plans have in
 * common, and the median of those after it; beside them the floor, pricing two dozen kernels, about
 * as many as a layer has, for each plan. Of simulations: the median, beside the engine alone on the
 * same graphs. One thread; rates by processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <orrery/outcome.h>

#include "base/array.h"
#include "estimate/estimate.h"

enum { PASSES = 5, SIMULATIONS = 9, KERNELS = 24, BATCH = 2048 };

static orr_error err;

static void check(orr_status status)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static double cpu_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

typedef orr_array(orr_plan) plans;

static void add_plan(plans *all, orr_estimator *estimator, const orr_plan *plan)
{
    orr_estimate estimate;
    if (orr_estimate_of(estimator, plan, &estimate, &err) == ORR_OK && !orr_array_push(all, *plan))
        check(orr_fail_memory(&err));
}

/* The choices that do not change the number of devices. */
static void add_choices(plans *all, orr_estimator *estimator, orr_plan plan)
{
    static const uint32_t micro_batch[] = {1, 2, 4}, chunks[] = {1, 2, 4}, zero[] = {0, 1};
    static const uint8_t recompute[] = {ORR_RECOMPUTE_NONE, ORR_RECOMPUTE_SELECTIVE,
                                        ORR_RECOMPUTE_FULL};
    for (uint32_t i = 0; i < 3 * 3 * 3 * 2; i++) {
        plan.micro_batch = micro_batch[i % 3];
        plan.vp = chunks[i / 3 % 3];
        plan.recompute = recompute[i / 9 % 3];
        plan.zero = zero[i / 27];
        if (plan.vp == 1 || plan.pp > 1)
            add_plan(all, estimator, &plan);
    }
}

static void add_grid(plans *all, orr_estimator *estimator)
{
    for (uint32_t devices = 512; devices <= 16384; devices *= 2)
        for (uint32_t tp = 1; tp <= 8; tp *= 2)
            for (uint32_t pp = 1; pp <= 16; pp *= 2)
                for (uint32_t cp = 1; cp <= 2; cp *= 2) {
                    const orr_plan plan = {.tp = tp,
                                           .pp = pp,
                                           .cp = cp,
                                           .dp = devices / (tp * pp * cp),
                                           .batch = BATCH};
                    add_choices(all, estimator, plan);
                }
}

static double pass_s(orr_estimator *estimator, const plans *all)
{
    const double start_s = cpu_s();
    for (size_t i = 0; i < all->n; i++) {
        orr_estimate estimate;
        check(orr_estimate_of(estimator, &all->at[i], &estimate, &err));
    }
    return cpu_s() - start_s;
}

/* How far bounds are below the estimates: the median. */
static double bound_share(orr_estimator *estimator, const plans *all)
{
    double *shares = calloc(all->n, sizeof *shares);
    if (shares == NULL)
        check(orr_fail_memory(&err));
    for (size_t i = 0; i < all->n; i++) {
        orr_estimate estimate;
        check(orr_estimate_of(estimator, &all->at[i], &estimate, &err));
        shares[i] = (double)estimate.bound_ns / (double)estimate.step_ns;
    }
    const double share = median(shares, all->n);
    free(shares);
    return share;
}

/* Products of growing size, so that none is like the one before. */
static double floor_s(const orr_job_rates *rates, size_t n_plans)
{
    int64_t sum = 0;
    const double start_s = cpu_s();
    for (size_t i = 0; i < n_plans; i++)
        for (int64_t k = 0; k < KERNELS; k++) {
            const int64_t m = 1024 + (int64_t)(i % 64) * 128, n = 512 + 256 * k;
            const orr_work work = {.family = ORR_FAMILY_GEMM,
                                   .dtype = ORR_DTYPE_BF16,
                                   .n_dims = 4,
                                   .dims = {1, m, n, 8192},
                                   .flops = 2e0 * (double)(m * n) * 8192,
                                   .op = "",
                                   .kernel = ""};
            sum += orr_job_rates_kernel(rates, &work, false).ns;
        }
    const double spent_s = cpu_s() - start_s;
    if (sum == 0)
        fputs("bench: kernels without a price\n", stderr);
    return spent_s;
}

static void time_estimates(const orr_model *model, const orr_cluster *cluster, orr_arena *arena)
{
    orr_estimator *estimator;
    const orr_calibration *calibration;
    orr_job_rates rates;
    plans all = {0};
    double spent_s[PASSES];
    check(orr_estimator_new(model, cluster, NULL, &estimator, &err));
    add_grid(&all, estimator);
    orr_estimator_free(estimator);
    if (all.n == 0)
        check(orr_fail(&err, ORR_INVALID, "no plan of the grid fits %s on %s", model->name,
                       cluster->name));
    check(orr_estimator_new(model, cluster, NULL, &estimator, &err));
    const double first_s = pass_s(estimator, &all);
    for (int i = 0; i < PASSES; i++)
        spent_s[i] = pass_s(estimator, &all);
    check(orr_calibration_of(cluster->device, 0, arena, &calibration, &err));
    orr_job_rates_init(cluster, calibration, ORR_ALGORITHM_AUTO, &rates);
    const double priced_s = floor_s(&rates, all.n), s = median(spent_s, PASSES);
    printf(
        "{\"bench\": \"estimate\", \"model\": \"%s\", \"cluster\": \"%s\", \"plans\": %zu, "
        "\"first_plans_per_s\": %.0f, \"plans_per_s\": %.0f, \"us_per_plan\": %.2f, "
        "\"floor_us_per_plan\": %.2f, \"times_the_floor\": %.2f, \"bound_over_estimate\": %.4f}\n",
        model->name, cluster->name, all.n, (double)all.n / first_s, (double)all.n / s,
        1e6 * s / (double)all.n, 1e6 * priced_s / (double)all.n, s / priced_s,
        bound_share(estimator, &all));
    orr_estimator_free(estimator);
    orr_array_done(&all);
}

static double floor_of_s(orr_estimator *estimator, const orr_cluster *cluster, const orr_plan *plan,
                         double *ret_n)
{
    double ns;
    const double start_s = cpu_s();
    *ret_n += orr_estimate_family_bound(estimator, plan, cluster->n_devices, &ns, &err) == ORR_OK;
    return cpu_s() - start_s;
}

static void time_floors(const orr_model *model, const orr_cluster *cluster)
{
    static const uint8_t recompute[] = {ORR_RECOMPUTE_NONE, ORR_RECOMPUTE_SELECTIVE,
                                        ORR_RECOMPUTE_FULL};
    const bool sparse = model->moe.experts > 0;
    double built_s = 0, built = 0, priced_s = 0, priced = 0;
    orr_estimator *estimator;
    check(orr_estimator_new(model, cluster, NULL, &estimator, &err));
    for (uint32_t tp = 1; tp <= 8; tp *= 2)
        for (uint32_t cp = 1; cp <= 4; cp *= 2)
            for (uint32_t ep = 1; ep <= (sparse ? 16 : 1); ep *= 4)
                for (uint32_t i = 0; i < 9; i++) {
                    orr_plan plan = {.tp = tp,
                                     .cp = cp,
                                     .ep = ep,
                                     .etp = sparse ? 1 : 0,
                                     .micro_batch = 1U << i % 3,
                                     .recompute = recompute[i / 3],
                                     .batch = BATCH};
                    built_s += floor_of_s(estimator, cluster, &plan, &built);
                    plan.graphs = ORR_SWITCH_ON;
                    priced_s += floor_of_s(estimator, cluster, &plan, &priced);
                }
    orr_estimator_free(estimator);
    if (built == 0 || priced == 0)
        check(orr_fail(&err, ORR_INVALID, "no floor of %s on %s", model->name, cluster->name));
    printf("{\"bench\": \"floor\", \"model\": \"%s\", \"cluster\": \"%s\", \"families\": %.0f, "
           "\"built_us\": %.1f, \"priced_us\": %.1f}\n",
           model->name, cluster->name, built + priced, 1e6 * built_s / built,
           1e6 * priced_s / priced);
}

/* The engine on graphs that are there already. */
static double engine_s(const orr_ensemble *ensemble, const orr_cluster *cluster)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_sim_options options;
    orr_simulation simulation;
    orr_sim_options_init(&options);
    options.constants = (orr_sim_latencies){0};
    options.cluster = cluster;
    options.threads = 1;
    const double start_s = cpu_s();
    check(orr_simulate(ensemble, &options, arena, &simulation, &err));
    const double spent_s = cpu_s() - start_s;
    orr_arena_free(arena);
    return spent_s;
}

static void time_simulations(const orr_model *model, const orr_cluster *cluster)
{
    static const orr_plan plan = {.tp = 8, .pp = 16, .dp = 8, .micro_batches = 32, .zero = 1};
    double spent_s[SIMULATIONS], alone_s[SIMULATIONS];
    uint64_t n_nodes = 0;
    for (int i = 0; i < SIMULATIONS; i++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_outcome outcome;
        const double start_s = cpu_s();
        check(orr_outcome_of(model, &plan, cluster, NULL, arena, &outcome, &err));
        spent_s[i] = cpu_s() - start_s;
        alone_s[i] = engine_s(outcome.ensemble, outcome.cluster);
        n_nodes = outcome.n_nodes;
        orr_outcome_free(&outcome);
        orr_arena_free(arena);
    }
    const double s = median(spent_s, SIMULATIONS), alone = median(alone_s, SIMULATIONS);
    printf("{\"bench\": \"simulate\", \"model\": \"%s\", \"cluster\": \"%s\", \"ranks\": 1024, "
           "\"stages\": 16, \"micro_batches\": 32, \"nodes\": %llu, \"plans_per_s\": %.1f, "
           "\"ms_per_plan\": %.2f, \"engine_ms\": %.2f, \"times_the_engine\": %.2f}\n",
           model->name, cluster->name, (unsigned long long)n_nodes, 1 / s, 1e3 * s, 1e3 * alone,
           s / alone);
}

int main(int argc, char **argv)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    const orr_model *model;
    const orr_cluster *cluster;
    if (argc != 4 || (strcmp(argv[1], "estimate") != 0 && strcmp(argv[1], "simulate") != 0 &&
                      strcmp(argv[1], "floor") != 0)) {
        fputs("usage: bench_plans estimate|simulate|floor MODEL CLUSTER\n", stderr);
        return 2;
    }
    check(orr_catalog_open(arena, &catalog, &err));
    check(orr_model_load(argv[2], arena, &model, &err));
    check(orr_cluster_load(catalog, argv[3], arena, &cluster, &err));
    if (strcmp(argv[1], "estimate") == 0)
        time_estimates(model, cluster, arena);
    else if (strcmp(argv[1], "floor") == 0)
        time_floors(model, cluster);
    else
        time_simulations(model, cluster);
    orr_arena_free(arena);
    return 0;
}
