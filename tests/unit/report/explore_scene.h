/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EXPLORE_SCENE_H
#define EXPLORE_SCENE_H

#include "fixture.h"

#include <math.h>

#include "report/explore/describe.h"
#include "report/table/cell.h"

/* Three plans of a small model over three zones in two regions, whose outcomes are real; what a
 * search would say of them, and what crosses, is made up, so that a test knows it. */
enum { PLANS = 3 };
typedef struct scene {
    orr_arena *arena;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_explore_options options;
    orr_exploration exploration;
    orr_explored best[PLANS], front[2];
    orr_outcome outcomes[PLANS];
    orr_site_link_use cuts[3];
    orr_explore_change changes[2 * ORR_FACTORS];
    double values[2 * ORR_FACTORS][PLANS];
    orr_explore_need needs[3];
    orr_sensitivity sensitivity;
    orr_explore_baseline_plan baseline_plans[2];
    orr_explore_report report;
    orr_named_table tables[ORR_EXPLORE_TABLES];
} scene;

static inline orr_explored explored_of(const orr_outcome *o)
{
    const orr_stage_memory *worst = &o->memory.stages[o->memory.worst];
    return (orr_explored){
        .plan = o->plan,
        .n_devices = o->n_ranks,
        .bound_ns = o->step_ns / 10 * 9,
        .estimate_ns = o->step_ns,
        .step_ns = o->step_ns,
        .peak_bytes = worst->peak_bytes,
        .usable_bytes = o->memory.capacity_bytes,
        .tokens_per_s = o->tokens_per_s,
        .mfu_frac = o->mfu_frac,
        .effective_frac = NAN,
        .value = {(double)o->step_ns, NAN, 12.5, o->energy_j, o->n_ranks},
    };
}

static inline void simulate(scene *s)
{
    static const char *const plans[PLANS] = {"tp=4,dp=32,batch=64,sites=16-8-8,cross=dp",
                                             "tp=4,dp=16,batch=64,sites=8-4-4,cross=dp",
                                             "tp=4,pp=2,dp=16,batch=64,sites=1-1-0,cross=pp"};
    orr_job_options options;
    orr_job_options_init(&options);
    for (int i = 0; i < PLANS; i++) {
        orr_plan plan;
        assert_int_equal(orr_plan_parse(plans[i], &plan, NULL), ORR_OK);
        assert_int_equal(
            orr_outcome_of(s->model, &plan, s->cluster, &options, s->arena, &s->outcomes[i], NULL),
            ORR_OK);
        s->best[i] = explored_of(&s->outcomes[i]);
        s->best[i].value[ORR_OBJECTIVE_STEP] = 1e9 * (i + 1); /* a known order */
    }
}

static inline void ask_what_if(scene *s)
{
    for (int i = 0; i < 2 * ORR_FACTORS; i++) {
        for (int k = 0; k < PLANS; k++)
            s->values[i][k] = s->best[k].value[0] * (i % 2 ? 0.9 : 1.1);
        s->changes[i] = (orr_explore_change){.factor = (uint8_t)(i / 2),
                                             .by = i % 2 ? 1.5 : 0.5,
                                             .value = s->values[i],
                                             .flips_at = NAN};
    }
    s->values[2][1] = 1e8; /* with half the bandwidth the second wins */
    s->changes[2].winner = 1;
    s->changes[2].flips_at = 0.71;
    s->needs[0] = (orr_explore_need){1, ORR_FACTOR_BANDWIDTH, 0.71};
    s->needs[1] = (orr_explore_need){1, ORR_FACTOR_LATENCY, 3};
    s->needs[2] = (orr_explore_need){2, ORR_FACTOR_COMPUTE, NAN};
    s->sensitivity = (orr_sensitivity){2 * ORR_FACTORS, 3, s->changes, s->needs};
}

static inline scene *make(void)
{
    const orr_catalog *catalog;
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->arena = orr_arena_new(0, 0);
    assert_int_equal(orr_catalog_open(s->arena, &catalog, NULL), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "gcp_a100_two_regions", s->arena, &s->cluster, NULL),
                     ORR_OK);
    assert_int_equal(orr_model_load("llama3.2-1b", s->arena, &s->model, NULL), ORR_OK);
    orr_explore_options_init(&s->options);
    s->options.fix = "batch=64";
    s->options.second = ORR_OBJECTIVE_DEVICES;
    simulate(s);
    s->cuts[0] = (orr_site_link_use){0, 1, ORR_AXIS_GRADIENT, 4e12, 5000000, 2000000, 0.3};
    s->cuts[1] = (orr_site_link_use){0, 2, ORR_AXIS_GRADIENT, 1e12, 5000000, 9000000, 0.95};
    s->cuts[2] = (orr_site_link_use){0, 2, ORR_AXIS_EDP, 1e12, 5000000, 1000000, 0.01};
    s->outcomes[0].cuts = s->cuts;
    s->outcomes[0].n_cuts = 3;
    s->front[0] = s->best[0];
    s->front[1] = s->best[2];
    s->front[1].value[ORR_OBJECTIVE_DEVICES] = 64;
    ask_what_if(s);
    s->baseline_plans[0] = (orr_explore_baseline_plan){ORR_BASELINE_PRODUCTION, NULL, s->best[2]};
    s->baseline_plans[1] =
        (orr_explore_baseline_plan){.baseline = ORR_BASELINE_FSDP, .why_not = "<does> not fit"};
    s->exploration =
        (orr_exploration){.n = PLANS,
                          .best = s->best,
                          .n_front = 2,
                          .front = s->front,
                          .bound = 0.98e9,
                          .gap_frac = 0.02,
                          .complete = true,
                          .space = 1000,
                          .families = 7,
                          .plans = 400,
                          .simulated = 12,
                          .resumed = 3,
                          .pruned = {[ORR_PRUNE_MEMORY] = 250, [ORR_PRUNE_BOUND] = 700},
                          .wall_ns = 1500000000};
    s->report = (orr_explore_report){.model = s->model,
                                     .cluster = s->cluster,
                                     .options = &s->options,
                                     .exploration = &s->exploration,
                                     .outcomes = s->outcomes,
                                     .n_outcomes = PLANS,
                                     .sensitivity = &s->sensitivity,
                                     .baseline_plans = s->baseline_plans,
                                     .n_baseline_plans = 2};
    assert_int_equal(orr_explore_tables(&s->report, s->arena, s->tables, NULL), ORR_OK);
    return s;
}

static inline void done(scene *s)
{
    for (int i = 0; i < PLANS; i++)
        orr_outcome_free(&s->outcomes[i]);
    orr_arena_free(s->arena);
    free(s);
}

static inline const orr_table *table_of(const scene *s, const char *name)
{
    for (int i = 0; i < ORR_EXPLORE_TABLES; i++)
        if (strcmp(s->tables[i].name, name) == 0)
            return &s->tables[i].table;
    fail_msg("no table %s", name);
    return NULL;
}

static inline double number(const orr_table *t, size_t row, const char *column)
{
    return orr_cell_number(cell_of(t, row, column));
}
static inline const char *text(const orr_table *t, size_t row, const char *column)
{
    return cell_of(t, row, column).as.text;
}

static inline size_t count(const char *in, const char *what)
{
    size_t n = 0;
    for (const char *at = in; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

#endif /* EXPLORE_SCENE_H */
