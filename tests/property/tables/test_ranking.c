/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <orrery/outcome.h>

#include "../support/random_tables.h"
#include "../support/seeds.h"

/* The planner's prices rank plans as simulated steps do: Kendall's rank correlation over random
 * plans of all kinds, on one and on several hosts. */

enum { PLANS = 60 };

typedef struct world {
    orr_arena *arena;
    const orr_cluster *cluster;
    const orr_model *model;
    orr_table_planner_options options;
} world;

/* Distinct rows, and shares of ranges of rows, as the simulation has them. */
static void draw_skew(world *w)
{
    orr_table_planner_options *o = &w->options;
    double *distinct = orr_arena_array(w->arena, double, o->n_tables);
    float *share = orr_arena_array(w->arena, float, o->n_tables *ORR_EMBEDDING_RANGES);
    for (uint32_t t = 0; t < o->n_tables; t++) {
        const int64_t rows = o->tables[t].rows;
        const orr_popularity p = orr_popularity_of(ORR_POPULARITY_META_2021, rows);
        int64_t begin[ORR_EMBEDDING_RANGES + 1];
        double shares[ORR_EMBEDDING_RANGES];
        for (uint32_t k = 0; k <= ORR_EMBEDDING_RANGES; k++)
            begin[k] = orr_embedding_range_begin(rows, k);
        orr_popularity_shares(&p, begin, ORR_EMBEDDING_RANGES, shares);
        for (uint32_t k = 0; k < ORR_EMBEDDING_RANGES; k++)
            share[t * ORR_EMBEDDING_RANGES + k] = (float)shares[k];
        distinct[t] = orr_popularity_distinct(
            &p, (int64_t)((double)o->samples * o->ranks * o->tables[t].pooling));
    }
    o->distinct = distinct;
    o->range_share = share;
}

static void open_world(world *w, const char *model, uint32_t ranks)
{
    const orr_catalog *catalog;
    const orr_cluster *pod;
    const orr_calibration *calibration;
    orr_error err = {0};
    w->arena = orr_arena_new(0, 0);
    assert_int_equal(orr_catalog_open(w->arena, &catalog, &err), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "dgx_h100_pod", w->arena, &pod, &err), ORR_OK);
    assert_int_equal(orr_cluster_resize(pod, ranks, w->arena, &w->cluster, &err), ORR_OK);
    assert_int_equal(orr_model_load(model, w->arena, &w->model, &err), ORR_OK);
    orr_table_planner_options_init(&w->options);
    orr_table_planner_options *o = &w->options;
    o->tables = w->model->dlrm.tables;
    o->n_tables = w->model->dlrm.n_tables;
    o->ranks = ranks;
    o->samples = 2048;
    assert_int_equal(orr_calibration_of(w->cluster->device, 0, w->arena, &calibration, &err),
                     ORR_OK);
    if (orr_table_costs_of_cluster(w->cluster, calibration, ranks, w->arena, &o->costs,
                                   &o->host_ranks, &err) != ORR_OK)
        fail_msg("%s", err.text);
    draw_skew(w);
}

static double simulated_ns(const world *w, const orr_embedding_plan *tables)
{
    orr_plan plan = {.dp = w->options.ranks,
                     .batch = (uint32_t)w->options.samples * w->options.ranks};
    orr_job_options options;
    orr_outcome outcome;
    orr_error err = {0};
    orr_job_options_init(&options);
    options.workload.tables = tables;
    options.workload.popularity = ORR_POPULARITY_META_2021;
    if (orr_outcome_of(w->model, &plan, w->cluster, &options, w->arena, &outcome, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const double ns = (double)outcome.step_ns;
    orr_outcome_free(&outcome);
    return ns;
}

/* Kendall's tau-b. */
static double rank_correlation(const double *a, const double *b, uint32_t n)
{
    double agree = 0, ties_a = 0, ties_b = 0, pairs = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < i; k++) {
            const int x = (a[i] > a[k]) - (a[i] < a[k]), y = (b[i] > b[k]) - (b[i] < b[k]);
            agree += x * y;
            ties_a += x == 0;
            ties_b += y == 0;
            pairs++;
        }
    return agree / sqrt((pairs - ties_a) * (pairs - ties_b));
}

static double ranking(const char *model, uint32_t ranks, uint64_t seed)
{
    world w;
    double priced[PLANS], simulated[PLANS];
    open_world(&w, model, ranks);
    orr_random random = orr_random_of(seed, ranks);
    for (uint32_t i = 0; i < PLANS; i++) {
        orr_embedding_plan plan;
        orr_table_planning planning;
        orr_error err = {0};
        if (draw_table_plan(&w.options, &random, w.arena, &plan, &err) != ORR_OK ||
            orr_price_table_plan(&w.options, &plan, w.arena, &planning, &err) != ORR_OK)
            seed_fail(seed, "%s", err.text);
        priced[i] = planning.synchronous_ns;
        simulated[i] = simulated_ns(&w, &plan);
    }
    orr_arena_free(w.arena);
    return rank_correlation(priced, simulated, PLANS);
}

static void prices_rank_plans_as_simulation_does(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {8, 16, 64};
    const seed_range range = seeds(4);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        for (int i = 0; i < 3; i++) {
            const double tau = ranking("dlrm-dcnv2", ranks[i], seed);
            print_message("seed %llu, %u ranks: tau %.3f\n", (unsigned long long)seed, ranks[i],
                          tau);
            if (!(tau >= 0.9))
                seed_fail(seed, "%u ranks: Kendall's tau is %.3f", ranks[i], tau);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(prices_rank_plans_as_simulation_does)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
