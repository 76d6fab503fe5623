/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include "explore/evaluate/evaluator.h"

/* Two plans: one that waits for the network between pods of 256, one that computes longer. */
static const char *const PLANS[] = {"tp=8,pp=8,dp=16,batch=256,seq=4096,zero=1",
                                    "tp=8,pp=8,dp=16,batch=256,seq=4096,zero=1,overlap_dp=off",
                                    "tp=8,pp=8,dp=16,batch=256,seq=4096,recompute=full,zero=1"};
enum { PLANS_N = 3 };

typedef struct sensitive {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_explore_options options;
    orr_explored plans[PLANS_N];
    orr_exploration exploration;
} sensitive;

static void judge_plans(sensitive *s)
{
    orr_evaluator *evaluator;
    world_must(&s->w, orr_evaluator_new(s->model, s->cluster, &s->options, &evaluator, &s->w.err),
               "evaluator");
    for (int i = 0; i < PLANS_N; i++) {
        const orr_plan plan = world_plan(&s->w, PLANS[i]);
        world_must(&s->w, orr_evaluator_simulate(evaluator, &plan, &s->plans[i], &s->w.err),
                   PLANS[i]);
    }
    orr_evaluator_free(evaluator);
}

static void open_world(sensitive *s)
{
    memset(s, 0, sizeof *s);
    world_open(&s->w);
    s->model = world_model(&s->w, "llama3.1-70b");
    s->cluster = world_cluster(&s->w, "h100_24k");
    s->options = (orr_explore_options){.struct_bytes = sizeof s->options, .second = ORR_OBJECTIVES};
    judge_plans(s);
    s->exploration = (orr_exploration){.n = PLANS_N, .best = s->plans};
}

static double step_at(sensitive *s, int plan, orr_factor factor, double by)
{
    orr_cluster_factors f = {1, 1, 1, 1};
    const orr_cluster *scaled;
    if (factor == ORR_FACTOR_LATENCY)
        f.latency = by;
    if (factor == ORR_FACTOR_BANDWIDTH)
        f.bandwidth = by;
    if (factor == ORR_FACTOR_OVERSUBSCRIPTION)
        f.oversubscription = by;
    if (factor == ORR_FACTOR_COMPUTE)
        f.compute = by;
    world_must(&s->w, orr_cluster_scaled(s->cluster, &f, s->w.arena, &scaled, &s->w.err), "scaled");
    return (double)world_step_ns(&s->w, s->model, PLANS[plan], scaled, NULL);
}

static void test_values_are_those_of_the_changed_machine(void **state)
{
    (void)state;
    sensitive s;
    orr_sensitivity got;
    open_world(&s);
    world_must(&s.w,
               orr_explore_sensitivity(s.model, s.cluster, &s.options, &s.exploration, true,
                                       s.w.arena, &got, &s.w.err),
               "sensitivity");
    assert_int_equal(got.n_changes, 2 * ORR_FACTORS);
    for (uint32_t c = 0; c < got.n_changes; c++) {
        const orr_explore_change *change = &got.changes[c];
        uint32_t best = 0;
        for (int i = 0; i < PLANS_N; i++) {
            const double step = step_at(&s, i, (orr_factor)change->factor, change->by);
            assert_true(change->value[i] == step);
            best = change->value[i] < change->value[best] ? (uint32_t)i : best;
        }
        assert_int_equal(change->winner, best);
        assert_true(isnan(change->flips_at) == (best == 0));
    }
    /* Half the FLOP/s: longer; half as much again: shorter. */
    const orr_explore_change *slow = &got.changes[2 * ORR_FACTOR_COMPUTE];
    assert_true(slow[0].value[0] > s.plans[0].value[0]);
    assert_true(slow[1].value[0] < s.plans[0].value[0]);
    world_close(&s.w);
}

static void test_what_an_alternative_needs_lets_it_win(void **state)
{
    (void)state;
    sensitive s;
    orr_sensitivity got;
    open_world(&s);
    world_must(&s.w,
               orr_explore_sensitivity(s.model, s.cluster, &s.options, &s.exploration, true,
                                       s.w.arena, &got, &s.w.err),
               "sensitivity");
    assert_int_equal(got.n_needs, (PLANS_N - 1) * ORR_FACTORS);
    for (uint32_t i = 0; i < got.n_needs; i++) {
        const orr_explore_need *need = &got.needs[i];
        assert_in_range(need->plan, 1, PLANS_N - 1);
        if (isnan(need->at))
            continue;
        /* closed forms say so: the simulation agrees within what they are off */
        const double mine = step_at(&s, (int)need->plan, (orr_factor)need->factor, need->at);
        const double first = step_at(&s, 0, (orr_factor)need->factor, need->at);
        assert_true(mine < 1.05 * first);
    }
    world_close(&s.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_are_those_of_the_changed_machine),
        cmocka_unit_test(test_what_an_alternative_needs_lets_it_win),
    };
    return cmocka_run_group_tests_name("sensitivity", tests, NULL, NULL);
}
