/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "oracle.h"

/* That the oracle finds what the protocol must not do. */
typedef struct team {
    model_shape shape;
    oracle oracle;
    model a, b;
    oracle_part part;
    const oracle_part *parts[1];
    oracle_now now;
    orr_team_data_cursor data;
    uint32_t which;
} team;

static void begin(team *t)
{
    memset(t, 0, sizeof *t);
    t->shape =
        (model_shape){.n_ops = 2, .n = {3, 5}, .dtype = {ORR_TEAM_FP32, ORR_TEAM_FP64}, .words = 9};
    oracle_init(&t->oracle, &t->shape, 1);
    model_init(&t->a, &t->shape, 0);
    model_init(&t->b, &t->shape, 0);
    t->part = oracle_no_part(1);
    t->parts[0] = &t->part;
    t->now = (oracle_now){.parts = t->parts, .n = 1, .at = 10};
}

static void end(team *t)
{
    oracle_done(&t->oracle);
    model_done(&t->a);
    model_done(&t->b);
}

/* Sums over slots, as a flawless ring gives them. */
static void reduce(model *m, const uint64_t *slots, uint32_t n)
{
    for (uint32_t op = 0; op < m->shape->n_ops; op++)
        model_sum(m, op, slots, n);
}

static bool commit(team *t, const model *m, uint64_t step, uint64_t contributors)
{
    const orr_team_outcome outcome = {.step = step, .epoch = 1, .contributors = contributors};
    t->now.at++;
    return oracle_commit(&t->oracle, m, &outcome, &t->data, &t->now, &t->which);
}

static void update(model *m, uint64_t step, uint64_t contributors)
{
    model_update(m, step, contributors, 0);
    model_update(m, step, contributors, 1);
}

/* A step of both members that is as it should be. */
static void good_step(team *t, uint64_t step)
{
    const uint64_t slots[] = {t->data.next, t->data.next + 1};
    t->data.next += 2;
    reduce(&t->a, slots, 2);
    reduce(&t->b, slots, 2);
    assert_true(commit(t, &t->a, step, 2));
    assert_true(commit(t, &t->b, step, 2));
    update(&t->a, step, 2);
    update(&t->b, step, 2);
    assert_true(oracle_state(&t->oracle, &t->a, t->which));
    assert_true(oracle_state(&t->oracle, &t->b, t->which));
}

static void good_steps_hold(void **state)
{
    team t;
    (void)state;
    begin(&t);
    for (uint64_t step = 1; step < 6; step++)
        good_step(&t, step);
    assert_int_equal(oracle_last(&t.oracle), 5);
    end(&t);
}

static void wrong_sums_are_found(void **state)
{
    team t;
    (void)state;
    begin(&t);
    good_step(&t, 1);
    const uint64_t slots[] = {2, 3}, others[] = {2, 4};
    t.data.next = 4;
    reduce(&t.a, others, 2); /* of another slot */
    assert_false(commit(&t, &t.a, 2, 2));
    reduce(&t.a, slots, 2);
    ((float *)t.a.out[0])[1] += 1; /* one number */
    assert_false(commit(&t, &t.a, 2, 2));
    t.b.state[1]++; /* of another state */
    reduce(&t.b, slots, 2);
    assert_false(commit(&t, &t.b, 2, 2));
    end(&t);
}

static void wrong_contributors_are_found(void **state)
{
    team t;
    (void)state;
    begin(&t);
    const uint64_t slots[] = {0, 1};
    t.data.next = 2;
    reduce(&t.a, slots, 2);
    assert_false(commit(&t, &t.a, 1, 1));
    assert_true(strstr(t.oracle.why, "S2") != NULL);
    assert_true(commit(&t, &t.a, 1, 2));
    end(&t);
}

static void slots_are_trained_once(void **state)
{
    team t;
    (void)state;
    begin(&t);
    good_step(&t, 1);
    const uint64_t slots[] = {1, 2};
    t.data = (orr_team_data_cursor){
        .next = 3, .returned = {1}, .n = 1}; /* 1 was trained, and comes back */
    reduce(&t.a, slots + 1, 1);
    assert_false(commit(&t, &t.a, 2, 1));
    assert_true(strstr(t.oracle.why, "S3") != NULL);
    t.data = (orr_team_data_cursor){.next = 1};
    assert_false(commit(&t, &t.a, 2, 1));
    end(&t);
}

static void a_wrong_state_is_found(void **state)
{
    team t;
    (void)state;
    begin(&t);
    good_step(&t, 1);
    t.a.state[3] ^= 1;
    assert_false(oracle_state(&t.oracle, &t.a, t.which));
    assert_false(oracle_state_before(&t.oracle, &t.b, t.which));
    end(&t);
}

/* Another step 2, of another member. */
static bool other_step(team *t, model *m)
{
    const uint64_t slots[] = {7};
    t->data = (orr_team_data_cursor){.next = 8, .returned = {2, 3, 4, 5, 6}, .n = 5};
    reduce(m, slots, 1);
    return commit(t, m, 2, 1);
}

static void two_teams_are_found(void **state)
{
    (void)state;
    for (int dead = 0; dead < 2; dead++) {
        team t;
        begin(&t);
        good_step(&t, 1);
        const orr_team_data_cursor data = t.data;
        const uint64_t slots[] = {2, 3};
        t.data.next = 4;
        reduce(&t.a, slots, 2);
        assert_true(commit(&t, &t.a, 2, 2));
        t.part.committed = t.which;
        t.data = data;
        t.now.n = dead ? 0 : 1;
        assert_int_equal(other_step(&t, &t.b), dead);
        assert_int_equal(t.oracle.undone, dead);
        end(&t);
    }
}

/* Whose gradients are in a step was prepared for it: it is not made without them while it lives. */
static void the_prepared_count(void **state)
{
    (void)state;
    for (int before = 0; before < 2; before++) {
        team t;
        begin(&t);
        good_step(&t, 1);
        const orr_team_data_cursor data = t.data;
        const uint64_t slots[] = {2, 3};
        t.data.next = 4;
        reduce(&t.a, slots, 2);
        t.part = (oracle_part){
            .step = 2, .slot = 3, .at = before ? 0 : 1000, .epoch = 1, .committed = UINT32_MAX};
        assert_true(commit(&t, &t.a, 2, 2));
        t.data = data;
        assert_int_equal(other_step(&t, &t.b), !before);
        end(&t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_steps_hold),
        cmocka_unit_test(wrong_sums_are_found),
        cmocka_unit_test(wrong_contributors_are_found),
        cmocka_unit_test(slots_are_trained_once),
        cmocka_unit_test(a_wrong_state_is_found),
        cmocka_unit_test(two_teams_are_found),
        cmocka_unit_test(the_prepared_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
