/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "member_lab.h"
#include "team/member/parts.h"

/* Members and their owners, over a real coordinator. */

static lab team;
static lab_owner *const a = &team.owners[0], *const b = &team.owners[1], *const c = &team.owners[2];

static int teardown(void **state)
{
    (void)state;
    lab_done(&team);
    return 0;
}

static void nothing_wrong(void)
{
    assert_string_equal(team.wrong, "");
    assert_int_equal(orr_simnet_changed_payloads(team.world), 0);
}

/* All who live are at the same step, or one apart, and go on. */
static void all_go_on(int64_t ms)
{
    const uint64_t before = lab_position(a);
    lab_run(&team, ms);
    nothing_wrong();
    for (uint32_t i = 0; i < team.n; i++) {
        if (team.owners[i].member == NULL)
            continue;
        const uint64_t step = lab_position(&team.owners[i]);
        assert_true(step > before);
        assert_true(step + 1 >= lab_position(a) && step <= lab_position(a) + 1);
        assert_int_equal(orr_team_member_isolated_ns(team.owners[i].member), 0);
    }
}

static void test_a_team_trains(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    assert_true(orr_team_member_isolated_ns(a->member) >= 0);
    all_go_on(100);
    assert_true(lab_position(a) > 40);
    for (uint32_t i = 0; i < 3; i++) {
        const lab_owner *o = &team.owners[i];
        uint64_t step = 0;
        for (uint32_t k = 0; k < o->n_log; k++) {
            assert_int_equal(o->log[k].kind, o->log[k].outcome ? (int)ORR_OUTCOME_COMMITTED
                                                               : (int)ORR_DIRECTIVE_COMPUTE);
            step += !o->log[k].outcome;
            assert_int_equal(o->log[k].step, step);
            if (o->log[k].outcome)
                assert_int_equal(o->log[k].contributors, 3);
        }
    }
    assert_int_equal(lab_status(&team).epochs, 1);
}

/* It hangs; the others go on; when it comes back it finds that nothing of its step counts. */
static void test_dropped_when_the_team_went_on(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    all_go_on(50);
    c->hold = true;
    lab_run(&team, 250);
    const uint64_t stuck = c->turn.step;
    assert_true(lab_position(a) > stuck + 20);
    const uint32_t from = c->n_log;
    c->hold = false;
    lab_run(&team, 20);
    assert_int_equal(c->n_log, from); /* it is in no team now: nobody knows */
    lab_run(&team, 800);
    assert_true(c->n_log > from);
    assert_true(c->log[from].outcome);
    assert_int_equal(c->log[from].kind, ORR_OUTCOME_DROPPED);
    assert_int_equal(c->log[from].step, stuck);
    all_go_on(50);
    assert_int_equal(lab_status(&team).contributors, 3);
    assert_true(c->counts[0][ORR_DIRECTIVE_ZEROS] > 0);
}

/* After a first ZEROS turn: sums are put aside in order, and applied in order, without a gap, once
 * the state is there. */
static uint32_t check_catching_up(const lab_owner *o, uint32_t from, uint32_t most)
{
    uint64_t deferred[256], first = 0;
    uint32_t n = 0, applied = 0, total = 0;
    for (uint32_t i = from; i < o->n_log; i++) {
        const lab_note *note = &o->log[i];
        if (note->outcome && note->kind == ORR_OUTCOME_DEFERRED) {
            assert_true(n < 256);
            assert_true(n == 0 || n == applied || note->step == deferred[n - 1] + 1);
            deferred[n++] = note->step;
            assert_true(n - applied <= most);
            total++;
        } else if (note->outcome && note->kind == ORR_OUTCOME_DROPPED) {
            applied = n; /* begins anew */
        } else if (!note->outcome && note->kind == ORR_DIRECTIVE_APPLY) {
            assert_true(applied < n);
            assert_int_equal(note->step, deferred[applied]);
            assert_true(note->contributors > 0);
            applied++;
        } else if (!note->outcome && note->kind == ORR_DIRECTIVE_COMPUTE && first == 0) {
            first = note->step;
            assert_int_equal(applied, n); /* only who is whole contributes */
        }
    }
    assert_true(first > 0);
    return total;
}

static void test_deferred_steps_are_applied_in_order(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 2 << 20,
                         1e9)); /* 8 MiB: 4 ms from two sources, of about 1 ms a step */
    c->catch_up_steps = 64;
    assert_true(lab_live_all(&team));
    all_go_on(50);
    lab_kill(c);
    lab_run(&team, 20);
    const uint32_t from = c->n_log;
    const uint64_t retries = lab_status(&team).retries;
    assert_true(lab_restart(c));
    lab_run(&team, 300);
    all_go_on(50);
    assert_int_equal(c->log[from].kind, ORR_DIRECTIVE_ZEROS);
    assert_true(check_catching_up(c, from, 64) >= 2);
    assert_true(c->counts[0][ORR_DIRECTIVE_APPLY] >= 2);
    assert_int_equal(lab_status(&team).contributors, 3);
    assert_int_equal(lab_status(&team).retries, retries); /* nobody was disturbed by the fetching */
}

/* Who heals has no state, and knows of commits all the same: a coordinator without memory must not
 * go back behind them for want of anybody who says so. */
static void test_who_heals_reports_the_commits_that_it_heard(void **state)
{
    uint64_t seen = 0;
    (void)state;
    assert_true(lab_open(&team, 3, 1, 4 << 20, 4e8)); /* 16 MiB: 20 ms */
    c->catch_up_steps = 64;
    assert_true(lab_live_all(&team));
    all_go_on(60);
    lab_kill(c);
    lab_run(&team, 20);
    assert_true(lab_restart(c));
    for (int i = 0; i < 300; i++) {
        lab_run(&team, 1);
        const orr_team_member *m = c->member;
        if (m->epoch.n == 0 || orr_team_member_self(m)->role != ORR_ROLE_HEALING)
            continue;
        assert_int_equal(m->report.known, m->epoch.step);
        assert_int_equal(m->report.known_epoch, m->epoch.data.epoch);
        assert_int_equal(m->report.step, ORR_TEAM_NONE);
        seen += m->epoch.step != c->step;
    }
    assert_true(seen > 1);
}

static void test_a_full_queue_makes_the_team_wait(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 4 << 20, 4e8)); /* 16 MiB: 20 ms */
    c->catch_up_steps = 2;
    assert_true(lab_live_all(&team));
    all_go_on(60);
    lab_kill(c);
    lab_run(&team, 20);
    const uint32_t from = c->n_log;
    assert_true(lab_restart(c));
    lab_run(&team, 600);
    all_go_on(100);
    assert_true(check_catching_up(c, from, 2) >= 1);
    assert_int_equal(lab_status(&team).contributors, 3);
}

static void test_one_drains(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    all_go_on(30);
    orr_team_member_drain(b->member, false);
    orr_team_member_drain(b->member, false); /* twice is once */
    lab_run(&team, 10);
    assert_true(b->left);
    assert_int_equal(b->counts[0][ORR_DIRECTIVE_LEAVE], 1);
    assert_int_equal(b->counts[1][ORR_OUTCOME_DROPPED], 0);
    assert_int_equal(a->counts[1][ORR_OUTCOME_DROPPED], 0);
    lab_die(b);
    all_go_on(30);
    assert_int_equal(lab_status(&team).retries, 0);
    assert_int_equal(lab_status(&team).lost[ORR_LOST_DEATH], 0);
    assert_int_equal(a->log[a->n_log - 1].outcome ? a->log[a->n_log - 1].contributors : 2, 2);
}

static void test_the_job_is_done(void **state)
{
    (void)state;
    const char *why;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    all_go_on(30);
    for (uint32_t i = 0; i < 3; i++)
        orr_team_member_drain(team.owners[i].member, true);
    lab_run(&team, 20);
    nothing_wrong();
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(team.owners[i].left);
        assert_int_equal(team.owners[i].step, a->step);
    }
    assert_true(orr_coordinator_has_ended(team.coordinator, &why));
    assert_false(orr_coordinator_awaits_late(team.coordinator));
    lab_kill(c); /* its next life comes late, and leaves as the others did */
    assert_true(lab_restart(c));
    assert_false(c->left);
    lab_run(&team, 20);
    assert_true(c->left);
    assert_string_equal(c->refused, "");
}

static void test_who_was_lost_is_awaited_after_the_end(void **state)
{
    (void)state;
    const char *why;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    all_go_on(30);
    lab_kill(c);
    lab_run(&team, 20);
    for (uint32_t i = 0; i < 2; i++)
        orr_team_member_drain(team.owners[i].member, true);
    lab_run(&team, 20);
    assert_true(orr_coordinator_has_ended(team.coordinator, &why));
    assert_true(orr_coordinator_awaits_late(team.coordinator));
    assert_true(lab_restart(c));
    lab_run(&team, 20);
    assert_true(c->left);
    assert_false(orr_coordinator_awaits_late(team.coordinator));
    nothing_wrong();
}

static void test_halted_and_back(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    assert_true(lab_live_all(&team));
    all_go_on(30);
    for (uint32_t i = 1; i < 3; i++) {
        orr_simnet_cut(team.world, team.owners[i].host, team.host, true);
        orr_simnet_cut(team.world, team.host, team.owners[i].host, true);
    }
    lab_run(&team, 300);
    const uint64_t step = lab_position(a);
    for (uint32_t i = 0; i < 3; i++)
        assert_true(orr_team_member_isolated_ns(team.owners[i].member) > 100 * LAB_MS);
    lab_run(&team, 300);
    assert_int_equal(lab_position(a), step); /* nobody of them goes on */
    assert_true(lab_position(b) <= step + 1 && lab_position(c) <= step + 1);
    for (uint32_t i = 1; i < 3; i++) {
        orr_simnet_cut(team.world, team.owners[i].host, team.host, false);
        orr_simnet_cut(team.world, team.host, team.owners[i].host, false);
    }
    lab_run(&team, 400);
    all_go_on(50);
    assert_int_equal(lab_status(&team).contributors, 3);
}

static void test_another_job_is_told(void **state)
{
    (void)state;
    orr_error err;
    assert_true(lab_open(&team, 3, 1, 64, 0));
    c->fingerprint = 6;
    assert_int_equal(lab_live(a, &err), ORR_OK);
    assert_int_equal(lab_live(b, &err), ORR_OK);
    lab_run(&team, 5);
    assert_int_equal(lab_live(c, &err), ORR_OK);
    lab_run(&team, 50);
    assert_non_null(strstr(c->refused, "another job"));
    assert_string_equal(a->refused, "");
    c->refused[0] = '\0';
    lab_run(&team, 300);
    assert_string_equal(c->refused, ""); /* it does not ask again */
}

static void test_two_ranks(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 2, 2, 64, 0));
    assert_true(lab_live_all(&team));
    lab_run(&team, 50);
    all_go_on(100);
    assert_true(lab_position(a) > 40);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(team.owners[i].counts[1][ORR_OUTCOME_DROPPED], 0);
    assert_int_equal(lab_status(&team).n, 2);
    assert_int_equal(lab_status(&team).members[0].ranks, 2);
}

static void test_a_hub_loses_a_rank(void **state)
{
    (void)state;
    lab_owner *const b0 = &team.owners[2], *const b1 = &team.owners[3];
    assert_true(lab_open(&team, 2, 2, 4096, 0));
    assert_true(lab_live_all(&team));
    lab_run(&team, 100);
    all_go_on(30);
    lab_kill(b1); /* rank 1 of the second replica: the whole of it is out */
    lab_run(&team, 200);
    nothing_wrong();
    const uint64_t step = lab_position(a);
    assert_true(step > lab_position(b0) + 20);
    assert_int_equal(lab_status(&team).n, 1);
    lab_kill(b0); /* a launcher starts both anew */
    assert_true(lab_restart(b0));
    assert_true(lab_restart(b1));
    lab_run(&team, 400);
    all_go_on(50);
    assert_int_equal(lab_status(&team).contributors, 2);
    assert_true(b1->step != ORR_TEAM_NONE && b1->step > step);
}

static void test_a_hub_loses_the_coordinator_for_a_while(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 2, 2, 64, 0));
    assert_true(lab_live_all(&team));
    lab_run(&team, 100);
    orr_simnet_reset(team.world, team.host, team.owners[2].host);
    lab_run(&team, 500);
    all_go_on(50);
    assert_int_equal(lab_status(&team).contributors, 2);
}

/* It calls again each fortieth of the failure timeout, and says once that nobody answers. */
static void test_a_lost_coordinator_is_reported_once(void **state)
{
    (void)state;
    assert_true(lab_open(&team, 1, 1, 64, 0));
    assert_true(lab_live_all(&team));
    lab_run(&team, 50);
    assert_int_equal(a->coordinator_losses, 0);
    orr_simnet_kill(team.world, team.host, false);
    lab_run(&team, 1000);
    assert_int_equal(a->coordinator_losses, 1);
}

static void test_settings_that_contradict_each_other(void **state)
{
    (void)state;
    static const char LONG[] = "0123456789012345678901234567890123456789";
    assert_true(lab_open(&team, 2, 1, 64, 0));
    const orr_team_member_callbacks user = {
        .ctx = a, .directive = lab_turn, .outcome = lab_outcome, .refused = lab_refused};
    const orr_team_member_settings wrong[] = {
        {.coordinator = "h1:1", .name = "", .ranks = 1, .where = "any:0"},
        {.coordinator = "h1:1", .ranks = 1, .where = "any:0"},
        {.coordinator = "h1:1", .name = LONG, .ranks = 1, .where = "any:0"},
        {.coordinator = "h1:1", .name = "a", .ranks = 0, .where = "any:0"},
        {.coordinator = "h1:1", .name = "a", .rank = 2, .ranks = 2, .where = "any:0"},
        {.name = "a", .ranks = 1, .where = "any:0"},
        {.coordinator = "h1:1", .name = "a", .ranks = 1, .where = "any:0", .failure_timeout_ns = 5},
        {.coordinator = "h1:1", .name = "a", .ranks = 1, .where = "nowhere"},
        {.coordinator = "h1:1",
         .name = "a",
         .ranks = 1,
         .where = "any:0",
         .ring = {.window = 9999}},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_team_member *none = NULL;
        orr_error err = {0};
        assert_int_equal(orr_team_member_new(a->net, &wrong[i], &user, &none, &err), ORR_INVALID);
        assert_null(none);
        assert_true(err.text[0] != '\0');
    }
    orr_team_member_free(NULL);
    orr_replica_proxy_free(NULL);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    orr_error err;
    bool ok = false;
    assert_true(lab_open(&team, 2, 2, 64, 0));
    for (uint64_t nth = 1; !ok && nth < 200; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = lab_live(a, &err);
        orr_alloc_fail_from(0);
        ok = status == ORR_OK;
        assert_true(ok || status == ORR_NO_MEMORY);
        assert_true(ok == (a->member != NULL));
        if (!ok)
            lab_die(a);
    }
    assert_true(ok);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_a_team_trains),
        TEST(test_dropped_when_the_team_went_on),
        TEST(test_deferred_steps_are_applied_in_order),
        TEST(test_who_heals_reports_the_commits_that_it_heard),
        TEST(test_a_full_queue_makes_the_team_wait),
        TEST(test_one_drains),
        TEST(test_the_job_is_done),
        TEST(test_who_was_lost_is_awaited_after_the_end),
        TEST(test_halted_and_back),
        TEST(test_another_job_is_told),
        TEST(test_two_ranks),
        TEST(test_a_hub_loses_a_rank),
        TEST(test_a_hub_loses_the_coordinator_for_a_while),
        TEST(test_a_lost_coordinator_is_reported_once),
        TEST(test_settings_that_contradict_each_other),
        TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
