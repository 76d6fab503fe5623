/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

#include "fleet/team.h"

/* What the team's own code decides of the lives of replicas. */
typedef struct scene {
    orr_fleet_team team;
    bool here[ORR_TEAM_MAX_REPLICAS], leaving[ORR_TEAM_MAX_REPLICAS];
    uint64_t trained; /* as counted from outside: a slot a contributor and step */
} scene;

static scene *open_scene(uint32_t n)
{
    scene *s = test_calloc(1, sizeof *s);
    orr_fleet_team_init(&s->team, n);
    for (uint32_t i = 0; i < n; i++)
        s->here[i] = true;
    return s;
}

static uint32_t contributors(const scene *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->team.n; i++)
        n += orr_fleet_team_contributes(&s->team, i);
    return n;
}

/* All who have the state keep it; `healed` (or none) has it from the last of them on. */
static void commit(scene *s, uint64_t steps, uint32_t healed)
{
    bool whole[ORR_TEAM_MAX_REPLICAS] = {0};
    for (uint32_t i = 0; i < s->team.n; i++)
        whole[i] = orr_fleet_team_contributes(&s->team, i) || i == healed;
    s->trained += steps * contributors(s);
    orr_fleet_team_commit(&s->team, steps, whole);
}

static orr_formed form(scene *s)
{
    return orr_fleet_team_form(&s->team, s->here, s->leaving);
}

static void all_begin_together(void **state)
{
    scene *s = open_scene(12);
    (void)state;
    assert_int_equal(contributors(s), 12);
    assert_int_equal(s->team.epoch.epoch, 1);
    commit(s, 1000, UINT32_MAX);
    assert_int_equal(s->team.epoch.step, 1000);
    assert_int_equal(orr_fleet_team_trained(&s->team), 12000);
    test_free(s);
}

static void the_others_go_on_and_who_is_back_heals(void **state)
{
    scene *s = open_scene(4);
    (void)state;
    commit(s, 10, UINT32_MAX);
    orr_fleet_team_gone(&s->team, 2);
    s->here[2] = false;
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(s->team.epoch.epoch, 2);
    assert_int_equal(s->team.epoch.step, 10); /* nobody was prepared for step 11 */
    assert_int_equal(contributors(s), 3);
    assert_false(orr_fleet_team_has(&s->team, 2));
    commit(s, 5, UINT32_MAX);
    orr_fleet_team_arrive(&s->team, 2, false);
    s->here[2] = true;
    assert_int_equal(form(s), ORR_FORMED);
    assert_true(orr_fleet_team_has(&s->team, 2));
    assert_int_equal(contributors(s), 3); /* zeros, until it has the state */
    commit(s, 1, 2);
    assert_int_equal(contributors(s), 4);
    commit(s, 7, UINT32_MAX);
    assert_int_equal(s->team.epoch.step, 23);
    assert_int_equal(orr_fleet_team_trained(&s->team), s->trained);
    test_free(s);
}

static void half_of_them_may_go_on_and_fewer_may_not(void **state)
{
    scene *s = open_scene(4);
    (void)state;
    commit(s, 3, UINT32_MAX);
    s->here[0] = s->here[1] = s->here[2] = false; /* silent: they may live */
    assert_int_equal(form(s), ORR_FORMED_NO_QUORUM);
    s->here[2] = true;
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(contributors(s), 2);
    test_free(s);
}

static void who_is_known_to_be_gone_is_not_waited_for(void **state)
{
    scene *s = open_scene(4);
    (void)state;
    commit(s, 3, UINT32_MAX);
    for (uint32_t i = 0; i < 3; i++) {
        s->here[i] = false;
        orr_fleet_team_gone(&s->team, i);
    }
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(contributors(s), 1);
    test_free(s);
}

static void a_new_life_ends_the_one_before_it(void **state)
{
    scene *s = open_scene(5);
    (void)state;
    commit(s, 3, UINT32_MAX);
    s->here[0] = s->here[1] = s->here[2] = false;
    assert_int_equal(form(s), ORR_FORMED_NO_QUORUM);
    orr_fleet_team_arrive(&s->team, 0, false); /* now two of four that may live */
    s->here[0] = true;
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(contributors(s), 2);
    assert_true(orr_fleet_team_has(&s->team, 0));
    test_free(s);
}

static void who_leaves_takes_nothing_with_it(void **state)
{
    scene *s = open_scene(3);
    (void)state;
    commit(s, 4, UINT32_MAX);
    s->leaving[1] = true;
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(contributors(s), 2);
    assert_int_equal(s->team.epoch.step, 4);
    test_free(s);
}

static void all_gone_begin_from_the_checkpoint(void **state)
{
    scene *s = open_scene(3);
    (void)state;
    commit(s, 40, UINT32_MAX);
    orr_fleet_team_save(&s->team);
    commit(s, 60, UINT32_MAX);
    for (uint32_t i = 0; i < 3; i++)
        s->here[i] = i == 1;
    orr_fleet_team_dissolve(&s->team);
    orr_fleet_team_arrive(&s->team, 1, true);
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(s->team.epoch.step, 40);
    assert_int_equal(orr_fleet_team_trained(&s->team), 120);
    commit(s, 2, UINT32_MAX);
    orr_fleet_team_arrive(&s->team, 0, true); /* it has step 40 still, and the team is at 42 */
    s->here[0] = true;
    assert_int_equal(form(s), ORR_FORMED);
    assert_int_equal(contributors(s), 1);
    commit(s, 1, 0);
    assert_int_equal(contributors(s), 2);
    test_free(s);
}

/* One random event; the same on both sides. */
static void disturb(scene *s, orr_random *random)
{
    const uint32_t i = (uint32_t)orr_random_below(random, s->team.n);
    if (orr_fleet_team_contributes(&s->team, i) && contributors(s) > 1) {
        orr_fleet_team_gone(&s->team, i);
        s->here[i] = false;
    } else if (!s->here[i]) {
        orr_fleet_team_arrive(&s->team, i, false);
        s->here[i] = true;
    }
    assert_int_equal(form(s), ORR_FORMED);
}

static void a_jump_is_as_many_steps(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        scene *jumps = open_scene(7), *walks = open_scene(7);
        orr_random random = orr_random_of(seed, 0);
        for (int round = 0; round < 40; round++) {
            const uint64_t steps = 1 + orr_random_below(&random, 30);
            const uint32_t healed = (uint32_t)orr_random_below(&random, 7);
            const bool heals = jumps->here[healed] && orr_fleet_team_has(&jumps->team, healed);
            orr_random other = random;
            disturb(jumps, &random);
            disturb(walks, &other);
            commit(jumps, steps, UINT32_MAX);
            for (uint64_t i = 0; i < steps; i++)
                commit(walks, 1, UINT32_MAX);
            commit(jumps, 1,
                   heals && orr_fleet_team_has(&jumps->team, healed) ? healed : UINT32_MAX);
            commit(walks, 1,
                   heals && orr_fleet_team_has(&walks->team, healed) ? healed : UINT32_MAX);
            assert_memory_equal(&jumps->team.epoch, &walks->team.epoch, sizeof(orr_epoch));
            assert_int_equal(orr_fleet_team_trained(&jumps->team), jumps->trained);
        }
        test_free(jumps);
        test_free(walks);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_begin_together),
        cmocka_unit_test(the_others_go_on_and_who_is_back_heals),
        cmocka_unit_test(half_of_them_may_go_on_and_fewer_may_not),
        cmocka_unit_test(who_is_known_to_be_gone_is_not_waited_for),
        cmocka_unit_test(a_new_life_ends_the_one_before_it),
        cmocka_unit_test(who_leaves_takes_nothing_with_it),
        cmocka_unit_test(all_gone_begin_from_the_checkpoint),
        cmocka_unit_test(a_jump_is_as_many_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
