/* SPDX-License-Identifier: Apache-2.0 */
#include "../outcome/catalog_jobs.h"

#include <orrery/explore.h>

#include "cost/calibration/parameters.h"
#include "explore/decision/draws.h"
#include "explore/evaluate/evaluator.h"

/* Plans of one job, from the fastest: slices, context slices, replicas that wait for the network,
 * layers computed again. */
static const char *const PLANS[] = {
    "tp=4,pp=4,dp=4,batch=64,seq=8192,zero=1",
    "tp=8,pp=4,dp=2,batch=64,seq=8192,zero=1",
    "tp=4,cp=2,pp=4,dp=2,batch=64,seq=8192,zero=1",
    "tp=8,pp=4,dp=2,batch=64,seq=8192,zero=1,recompute=full",
    "tp=8,pp=8,dp=1,batch=64,seq=8192,zero=1,micro_batch=16",
};
enum { PLANS_N = 5, DRAWS = 40 };

typedef struct choice {
    plan_world w;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_explore_options options;
    orr_explored plans[PLANS_N];
    orr_decision_options how;
} choice;

static void open_choice(choice *c)
{
    orr_evaluator *evaluator;
    memset(c, 0, sizeof *c);
    world_open(&c->w);
    c->model = world_model(&c->w, "llama3.1-70b");
    c->cluster = world_cluster(&c->w, "h100_24k");
    orr_explore_options_init(&c->options);
    orr_decision_options_init(&c->how);
    c->how.draws = DRAWS;
    world_must(&c->w, orr_evaluator_new(c->model, c->cluster, &c->options, &evaluator, &c->w.err),
               "evaluator");
    for (int i = 0; i < PLANS_N; i++) {
        const orr_plan plan = world_plan(&c->w, PLANS[i]);
        world_must(&c->w, orr_evaluator_simulate(evaluator, &plan, &c->plans[i], &c->w.err),
                   PLANS[i]);
    }
    orr_evaluator_free(evaluator);
}

static orr_decision decide(choice *c, uint32_t n)
{
    orr_decision decision;
    world_must(&c->w,
               orr_explore_decide(c->model, c->cluster, &c->options, c->plans, n, &c->how,
                                  c->w.arena, &decision, &c->w.err),
               "decide");
    return decision;
}

static void one_plan_alone_has_no_regret(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    const orr_decision d = decide(&c, 1);
    assert_int_equal(d.n, 1);
    assert_int_equal(d.n_set, 1);
    assert_int_equal(d.draws, DRAWS);
    assert_true(d.parameters > 20);
    assert_true(d.plans[0].in_set && d.plans[0].odds_frac == 0.5);
    assert_near(d.plans[0].best_frac, 1, 1e-12);
    assert_true(d.plans[0].max_regret_frac == 0 && d.plans[0].spread_frac == 0);
    world_close(&c.w);
}

static void shares_sum_to_one_and_regrets_are_ordered(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    c.plans[4] = c.plans[0]; /* the best twice: they share */
    const orr_decision d = decide(&c, PLANS_N);
    double shares = 0;
    for (uint32_t i = 0; i < d.n; i++) {
        const orr_decision_plan *p = &d.plans[i];
        shares += p->best_frac;
        assert_true(p->mean_regret_frac >= 0 && p->mean_regret_frac <= p->max_regret_frac);
        assert_true(p->p95_regret_frac <= p->max_regret_frac);
        assert_true(!p->in_set || p->mean_regret_frac >= d.plans[d.recommended].mean_regret_frac);
        assert_true(p->odds_frac <= 0.5 && p->in_set == (p->odds_frac >= ORR_ORDER_ODDS));
    }
    assert_near(shares, 1, 1e-9);
    assert_memory_equal(&d.plans[0], &d.plans[4], sizeof d.plans[0]);
    assert_true(d.plans[d.recommended].in_set);
    /* The slowest is known to be slower: computing all again costs a quarter and more. */
    assert_true(c.plans[3].value[0] > 1.2 * c.plans[d.best].value[0]);
    assert_false(d.plans[3].in_set);
    world_close(&c.w);
}

static void threads_do_not_change_it(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    c.how.threads = 1;
    const orr_decision one = decide(&c, PLANS_N);
    c.how.threads = 3;
    const orr_decision three = decide(&c, PLANS_N);
    assert_memory_equal(one.plans, three.plans, PLANS_N * sizeof *one.plans);
    c.how.seed = 2;
    const orr_decision other = decide(&c, PLANS_N);
    assert_memory_not_equal(one.plans, other.plans, PLANS_N * sizeof *one.plans);
    world_close(&c.w);
}

/* Without width all draws are the calibration itself; more width never makes the set smaller. */
static void wider_intervals_never_shrink_the_set(void **state)
{
    (void)state;
    static const double WIDTHS[] = {0, 0.5, 1, 2, 4};
    static choice c;
    open_choice(&c);
    orr_decision before = {0};
    for (size_t k = 0; k < sizeof WIDTHS / sizeof *WIDTHS; k++) {
        c.how.widening = WIDTHS[k];
        const orr_decision d = decide(&c, PLANS_N);
        for (uint32_t i = 0; i < PLANS_N; i++) {
            const double regret = c.plans[i].value[0] / c.plans[d.best].value[0] - 1;
            if (k == 0) {
                assert_near(d.plans[i].mean_regret_frac, regret, 1e-12);
                assert_near(d.plans[i].p95_regret_frac, regret, 1e-12);
                assert_near(d.plans[i].spread_frac, 0, 1e-12);
            } else {
                assert_true(d.plans[i].spread_frac >= before.plans[i].spread_frac);
                assert_true(d.plans[i].in_set >= before.plans[i].in_set);
            }
        }
        assert_true(k == 0 || d.n_set >= before.n_set);
        before = d;
    }
    assert_true(before.plans[1].spread_frac > 0.01);
    world_close(&c.w);
}

static void draws_lie_within_their_intervals(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    const orr_calibration *usual;
    orr_calibration_draws draws;
    orr_calibration drawn;
    world_must(&c.w, orr_calibration_of(c.cluster->device, 0, c.w.arena, &usual, &c.w.err), "of");
    world_must(&c.w, orr_calibration_draws_of(usual, c.cluster, c.w.arena, &draws, &c.w.err),
               "draws");
    orr_link_rates *links = orr_arena_array(c.w.arena, orr_link_rates, usual->n_links);
    assert_non_null(links);
    uint32_t below[ORR_CALIBRATION_FIELDS] = {0}, moved = 0;
    enum { MANY = 400 };
    for (uint32_t i = 0; i < MANY; i++) {
        orr_calibration_draw(&draws, i, links, &drawn);
        for (int k = 0; k < ORR_CALIBRATION_FIELDS; k++) {
            const orr_calibration_parameter *p = &usual->parameters[k];
            orr_calibration kept = *usual;
            const double before = *orr_calibration_number(&kept, k),
                         now = *orr_calibration_number(&drawn, k);
            below[k] += now < before;
            if (isnan(p->low) || !(p->low < p->high)) {
                assert_true(now == before);
                continue;
            }
            assert_true(now >= fmin(before, before * p->low / p->value) * (1 - 1e-12));
            assert_true(now <= fmax(before, before * p->high / p->value) * (1 + 1e-12));
        }
        for (uint32_t l = 0; l < usual->n_links; l++)
            moved += links[l].frac.value != usual->links[l].frac.value;
    }
    /* Half are below the value: of 400, five standard deviations are 50. */
    assert_in_range(below[ORR_CALIBRATION_attention], MANY / 2 - 50, MANY / 2 + 50);
    /* Technologies of the cluster's links alone are drawn: two of them. */
    assert_in_range(moved, MANY, 2 * MANY);
    world_close(&c.w);
}

static double simulated_ns(choice *c, int plan, const orr_calibration *calibration)
{
    orr_job_options options;
    orr_outcome o;
    const orr_plan p = world_plan(&c->w, PLANS[plan]);
    orr_job_options_init(&options);
    options.calibration = calibration;
    world_must(&c->w, orr_outcome_of(c->model, &p, c->cluster, &options, c->w.arena, &o, &c->w.err),
               "outcome");
    const double step = (double)o.step_ns;
    orr_outcome_free(&o);
    return step;
}

/* The largest regret of one draw is that of simulations with its calibration. */
static void regrets_are_those_of_simulations(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    const orr_calibration *usual;
    orr_calibration_draws draws;
    orr_calibration drawn;
    world_must(&c.w, orr_calibration_of(c.cluster->device, 0, c.w.arena, &usual, &c.w.err), "of");
    world_must(&c.w, orr_calibration_draws_of(usual, c.cluster, c.w.arena, &draws, &c.w.err),
               "draws");
    draws.seed = c.how.seed;
    orr_link_rates *links = orr_arena_array(c.w.arena, orr_link_rates, usual->n_links);
    orr_calibration_draw(&draws, 0, links, &drawn);
    c.how.draws = 1;
    const orr_decision d = decide(&c, 4);
    double step[4], least = INFINITY;
    for (int i = 0; i < 4; i++) {
        step[i] = simulated_ns(&c, i, &drawn);
        least = fmin(least, step[i]);
        assert_true(simulated_ns(&c, i, NULL) == c.plans[i].value[0]);
    }
    for (int i = 0; i < 4; i++)
        assert_near(d.plans[i].max_regret_frac, step[i] / least - 1, 0.01);
    world_close(&c.w);
}

static void without_intervals_values_decide(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    const orr_calibration *usual;
    world_must(&c.w, orr_calibration_of(c.cluster->device, 0, c.w.arena, &usual, &c.w.err), "of");
    orr_calibration plain = *usual;
    plain.parameters = NULL;
    plain.n_links = 0;
    c.options.calibration = &plain;
    const orr_decision d = decide(&c, PLANS_N);
    assert_int_equal(d.draws, 0);
    assert_int_equal(d.parameters, 0);
    assert_int_equal(d.recommended, d.best);
    for (uint32_t i = 0; i < PLANS_N; i++)
        assert_near(d.plans[i].mean_regret_frac, c.plans[i].value[0] / c.plans[d.best].value[0] - 1,
                    1e-12);
    world_close(&c.w);
}

/* The number of devices is no prediction. */
static void devices_are_counted_not_drawn(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    c.options.objective = ORR_OBJECTIVE_DEVICES;
    c.plans[1].value[ORR_OBJECTIVE_DEVICES] += 8;
    const orr_decision d = decide(&c, 3);
    assert_int_equal(d.n_set, 2);
    assert_true(d.plans[0].in_set && !d.plans[1].in_set && d.plans[2].in_set);
    assert_near(d.plans[0].best_frac, 0.5, 1e-12);
    world_close(&c.w);
}

static void what_cannot_be_decided_is_refused(void **state)
{
    (void)state;
    static choice c;
    open_choice(&c);
    orr_decision d;
    assert_int_equal(orr_explore_decide(c.model, c.cluster, &c.options, c.plans, 0, NULL, c.w.arena,
                                        &d, &c.w.err),
                     ORR_INVALID);
    c.plans[1].value[0] = NAN;
    assert_int_equal(orr_explore_decide(c.model, c.cluster, &c.options, c.plans, 2, NULL, c.w.arena,
                                        &d, &c.w.err),
                     ORR_INVALID);
    assert_string_equal(c.w.err.text, "plan 2 was not simulated");
    world_close(&c.w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_plan_alone_has_no_regret),
        cmocka_unit_test(shares_sum_to_one_and_regrets_are_ordered),
        cmocka_unit_test(threads_do_not_change_it),
        cmocka_unit_test(wider_intervals_never_shrink_the_set),
        cmocka_unit_test(draws_lie_within_their_intervals),
        cmocka_unit_test(regrets_are_those_of_simulations),
        cmocka_unit_test(without_intervals_values_decide),
        cmocka_unit_test(devices_are_counted_not_drawn),
        cmocka_unit_test(what_cannot_be_decided_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
