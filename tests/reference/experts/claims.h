/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_EXPERT_CLAIMS_H
#define TESTS_EXPERT_CLAIMS_H

#include "../../unit/outcome/catalog_jobs.h"

#include <orrery/experts.h>

#include "base/philox.h"
#include "experts/placement/build.h"

/* Steps of a served mixture of experts whose loads are drawn: published gains of placements beside
 * ours. Loads fall as a power of the rank of an expert (Zipf), drawn for each layer. */
typedef struct claim_lab {
    plan_world w;
    orr_model model;
    const orr_cluster *cluster;
    orr_plan plan;
    uint32_t ranks, layers, experts, prompt;
    uint32_t *number;          /* shape (layers) */
    double *share;             /* shape (layers, experts) */
    orr_expert_load load;      /* of `share` */
    orr_expert_windows window; /* the same */
} claim_lab;

/* lab->model, plan and prompt are set. */
static inline void claim_open(claim_lab *lab, const char *cluster)
{
    const uint32_t first = lab->model.moe.first_dense;
    lab->cluster = world_cluster(&lab->w, cluster);
    lab->ranks = lab->plan.ep;
    lab->experts = lab->model.moe.experts;
    lab->layers = lab->model.layers - first;
    lab->share = orr_arena_array(lab->w.arena, double, (size_t)lab->layers * lab->experts);
    lab->number = orr_arena_array(lab->w.arena, uint32_t, lab->layers);
    assert_true(lab->share != NULL && lab->number != NULL);
    for (uint32_t l = 0; l < lab->layers; l++)
        lab->number[l] = first + l;
    lab->load = (orr_expert_load){.layers = lab->layers,
                                  .experts = lab->experts,
                                  .share = lab->share,
                                  .number = lab->number,
                                  .tokens = 1,
                                  .source = "drawn"};
    lab->window =
        (orr_expert_windows){1, lab->layers, lab->experts, lab->number, lab->share, "drawn"};
}

static inline void claim_draw(claim_lab *lab, double exponent, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0);
    for (uint32_t l = 0; l < lab->layers; l++) {
        double *row = lab->share + (size_t)l * lab->experts, sum = 0;
        for (uint32_t e = 0; e < lab->experts; e++) {
            const uint32_t other = (uint32_t)orr_random_below(&random, e + 1);
            row[e] = row[other];
            row[other] = pow(e + 1, -exponent);
            sum += pow(e + 1, -exponent);
        }
        for (uint32_t e = 0; e < lab->experts; e++)
            row[e] /= sum;
    }
}

/* Step of prefill, ns. NULL: even loads; neighbouring experts. */
static inline double claim_step(claim_lab *lab, const orr_expert_load *load,
                                const orr_expert_placement *placement)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_job_options options;
    orr_outcome outcome;
    orr_job_options_init(&options);
    options.workload = (orr_workload){
        .task = ORR_TASK_PREFILL, .prompt = lab->prompt, .load = load, .placement = placement};
    world_must(&lab->w,
               orr_outcome_of(&lab->model, &lab->plan, lab->cluster, &options, arena, &outcome,
                              &lab->w.err),
               "step");
    const double ret = (double)outcome.step_ns;
    orr_outcome_free(&outcome);
    orr_arena_free(arena);
    return ret;
}

/* A placement of the drawn loads with `spare` slots a rank. */
static inline orr_expert_result claim_place(claim_lab *lab, orr_expert_policy policy,
                                            uint32_t spare, orr_arena *arena)
{
    orr_expert_options options;
    orr_expert_result result;
    orr_expert_options_init(&options);
    options.policy = (uint8_t)policy;
    options.windows = &lab->window;
    options.ranks = lab->ranks;
    options.slots = lab->experts + spare * lab->ranks;
    options.even_layers = true;
    world_must(&lab->w, orr_experts_place(&options, arena, &result, &lab->w.err), "placement");
    if (policy == ORR_EXPERT_POLICY_BEST) /* as simulate does */
        world_must(&lab->w, orr_placement_level(&result.placement, lab->share, arena, &lab->w.err),
                   "shares");
    return result;
}

/* The same with links of `factor` times the rate. */
static inline void claim_scale_links(claim_lab *lab, double factor)
{
    orr_cluster *cluster = orr_arena_one(lab->w.arena, orr_cluster);
    orr_level *level = orr_arena_array(lab->w.arena, orr_level, lab->cluster->n_levels);
    assert_true(cluster != NULL && level != NULL);
    *cluster = *lab->cluster;
    for (uint32_t i = 0; i < cluster->n_levels; i++) {
        level[i] = lab->cluster->levels[i];
        level[i].bytes_per_s.value *= factor;
    }
    cluster->levels = level;
    lab->cluster = cluster;
}

/* The least exponent at which a figure, which is 0 of even loads, is `want`. */
static inline double claim_fit(claim_lab *lab, double (*figure)(claim_lab *, double exponent),
                               double want)
{
    double low = 0, high = 0.0625;
    for (; figure(lab, high) < want; high += 0.0625) {
        assert_true(high < 4);
        low = high;
    }
    for (int i = 0; i < 8; i++) {
        const double middle = (low + high) / 2;
        *(figure(lab, middle) < want ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

#endif /* TESTS_EXPERT_CLAIMS_H */
