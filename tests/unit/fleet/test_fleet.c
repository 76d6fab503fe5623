/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

#include "base/alloc.h"

enum { POLICIES = 3 };
static const orr_fleet_policy POLICY[POLICIES] = {
    {ORR_FLEET_SYNC, 1, 0}, {ORR_FLEET_SPARES, 1, 5}, {ORR_FLEET_FT, 8, 0}};

static orr_fleet of(fleet_world *w, bool sensitivity)
{
    orr_fleet fleet;
    if (orr_fleet_of(&w->options, POLICY, POLICIES, sensitivity, w->arena, &fleet, &w->err) !=
        ORR_OK)
        fail_msg("%s", w->err.text);
    return fleet;
}

static void open_busy(fleet_world *w)
{
    world_open(w);
    world_set(w,
              "rate=1000,save=5s,checkpoint=0s,detect=exp(1min),schedule=lognormal(2min, 10min)");
    w->options.horizon_ns = 5 * DAY_NS;
    w->options.repetitions = 10;
}

static void threads_change_nothing(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    const orr_fleet one = of(&w, true);
    w.options.threads = 3;
    const orr_fleet three = of(&w, true);
    for (uint32_t p = 0; p < POLICIES; p++) {
        assert_memory_equal(one.outcomes[p].runs, three.outcomes[p].runs,
                            10 * sizeof(orr_fleet_run));
        assert_memory_equal(&one.outcomes[p].effective, &three.outcomes[p].effective,
                            sizeof(orr_fleet_band));
        assert_int_equal(one.outcomes[p].day.n, three.outcomes[p].day.n);
    }
    assert_int_equal(one.n_effects, three.n_effects);
    for (uint32_t i = 0; i < one.n_effects; i++)
        assert_true(one.effects[i].half == three.effects[i].half &&
                    one.effects[i].word == three.effects[i].word);
    world_close(&w);
}

static void means_are_those_of_the_lives(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    const orr_fleet fleet = of(&w, false);
    assert_int_equal(fleet.simulated_ns, POLICIES * 10 * 5 * DAY_NS);
    for (uint32_t p = 0; p < POLICIES; p++) {
        const orr_fleet_outcome *o = &fleet.outcomes[p];
        double mean = 0, least = 1, most = 0, sum = o->effective.mean, down = 0;
        for (uint32_t i = 0; i < 10; i++) {
            const orr_fleet_run again = world_run(&w, POLICY[p], i);
            assert_memory_equal(&again, &o->runs[i], sizeof again);
            mean += effective_of(&again) / 10;
            least = fmin(least, effective_of(&again));
            most = fmax(most, effective_of(&again));
        }
        for (int k = 0; k < ORR_FLEET_LOSSES; k++)
            sum += o->lost[k].mean;
        for (uint32_t k = 0; k <= POLICY[p].replicas; k++)
            down += o->down[k];
        assert_near(o->effective.mean, mean, 1e-12);
        assert_near(sum, 1, 1e-9);
        assert_near(down, 1, 1e-9);
        assert_true(o->effective.low >= least && o->effective.high <= most);
        assert_true(o->effective.low <= mean && mean <= o->effective.high);
    }
    world_close(&w);
}

static void policies_meet_the_same_failures(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    const orr_fleet fleet = of(&w, false);
    for (uint32_t i = 0; i < 10; i++)
        for (uint32_t p = 1; p < POLICIES; p++)
            assert_int_equal(fleet.outcomes[p].runs[i].failures,
                             fleet.outcomes[0].runs[i].failures);
    world_close(&w);
}

static void spares_help_and_replicas_help_more(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    const orr_fleet fleet = of(&w, false);
    assert_true(fleet.outcomes[0].effective.high < fleet.outcomes[1].effective.mean);
    assert_true(fleet.outcomes[1].effective.high < fleet.outcomes[2].effective.mean);
    assert_near(fleet.outcomes[1].effective_of_all, fleet.outcomes[1].effective.mean * 64 / 69,
                1e-12);
    world_close(&w);
}

static const orr_fleet_effect *effect_of(const orr_fleet *fleet, uint32_t policy, const char *word)
{
    for (uint32_t i = 0; i < fleet->n_effects; i++)
        if (fleet->effects[i].policy == policy && strcmp(fleet->effects[i].word, word) == 0)
            return &fleet->effects[i];
    return NULL;
}

static void what_matters_most_stands_first(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    const orr_fleet fleet = of(&w, true);
    for (uint32_t i = 1; i < fleet.n_effects; i++) {
        const orr_fleet_effect *a = &fleet.effects[i - 1], *b = &fleet.effects[i];
        assert_true(a->policy <= b->policy);
        if (a->policy == b->policy)
            assert_true(fmax(fabs(a->half), fabs(a->twice)) >= fmax(fabs(b->half), fabs(b->twice)));
    }
    for (uint32_t p = 0; p < POLICIES; p++) {
        const orr_fleet_effect *rate = effect_of(&fleet, p, "rate");
        assert_non_null(rate);
        assert_true(rate->half > 0 && rate->twice < 0);
        assert_non_null(effect_of(&fleet, p, "detect"));
    }
    assert_string_equal(effect_of(&fleet, 0, "detect")->value, "exp(1min)");
    /* What a policy does not have does not move it. */
    assert_null(effect_of(&fleet, 0, "regroup"));
    assert_null(effect_of(&fleet, 2, "first_step"));
    world_close(&w);
}

static void count_up(void *ctx, uint64_t lives, uint64_t of)
{
    uint64_t *last = ctx;
    assert_int_equal(lives, *last + 1);
    assert_true(lives <= of);
    *last = lives == of ? UINT64_MAX : lives;
}

static void progress_reaches_its_end(void **state)
{
    fleet_world w;
    (void)state;
    open_busy(&w);
    w.options.horizon_ns = 2 * HOUR_NS;
    w.options.threads = 3;
    for (int sensitivity = 0; sensitivity < 2; sensitivity++) {
        uint64_t last = 0;
        w.options.progress = count_up;
        w.options.progress_ctx = &last;
        of(&w, sensitivity);
        assert_true(last == UINT64_MAX);
    }
    world_close(&w);
}

static void what_cannot_be_is_refused(void **state)
{
    fleet_world w;
    orr_fleet fleet;
    const orr_fleet_policy wrong = {ORR_FLEET_FT, 1, 0};
    (void)state;
    open_busy(&w);
    assert_int_equal(orr_fleet_of(&w.options, &wrong, 1, false, w.arena, &fleet, &w.err),
                     ORR_INVALID);
    assert_int_equal(orr_fleet_of(&w.options, POLICY, 0, false, w.arena, &fleet, &w.err),
                     ORR_INVALID);
    w.options.repetitions = 0;
    assert_int_equal(orr_fleet_of(&w.options, POLICY, 1, false, w.arena, &fleet, &w.err),
                     ORR_INVALID);
    world_close(&w);
}

static void any_allocation_may_fail(void **state)
{
    fleet_world w;
    uint64_t nth = 1;
    orr_status status = ORR_NO_MEMORY;
    (void)state;
    open_busy(&w);
    w.options.horizon_ns = HOUR_NS;
    w.options.repetitions = 2;
    for (; status != ORR_OK; nth += 1 + nth / 8) { /* each of the first, then fewer */
        orr_arena *arena = orr_arena_new(0, 0);
        orr_failure_catalog catalog;
        orr_fleet fleet;
        assert_non_null(arena);
        orr_alloc_fail_from(nth);
        status = orr_failure_catalog_open(NULL, arena, &catalog, &w.err);
        if (status == ORR_OK)
            status = orr_fleet_of(&w.options, POLICY, POLICIES, true, arena, &fleet, &w.err);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
    assert_true(nth > 20);
    world_close(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_change_nothing),
        cmocka_unit_test(means_are_those_of_the_lives),
        cmocka_unit_test(policies_meet_the_same_failures),
        cmocka_unit_test(spares_help_and_replicas_help_more),
        cmocka_unit_test(what_matters_most_stands_first),
        cmocka_unit_test(progress_reaches_its_end),
        cmocka_unit_test(what_cannot_be_is_refused),
        cmocka_unit_test(any_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
