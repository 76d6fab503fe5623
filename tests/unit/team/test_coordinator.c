/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scripted_team.h"

/* A coordinator and members moved by hand. What torchft tests of its lighthouse and manager is
 * tested here where it applies; each such test names theirs. What does not apply: shrink_only,
 * join_during_shrink, fixed_world_size: no such modes; newcomers wait for a commit, all who are
 * whole contribute. heal_first_step, skip_init_sync: fresh replicas have the same state by the
 * job's seed, so nobody heals from another. state_dict_lock: tests of catch-up. process groups:
 * tests of the ring. local SGD, DiLoCo: each step is synchronous. Recovery end to end, soak:
 * tests/simulation. */

static hand_team team;
static hand_member *const a = &team.members[0], *const b = &team.members[1],
                          *const c = &team.members[2], *const d = &team.members[3];
static const orr_coordinator_settings THREE = {.replicas = 3}, TWO = {.replicas = 2};

static int teardown(void **state)
{
    (void)state;
    const bool broken = team.broken > 0;
    hand_done(&team);
    return broken ? -1 : 0;
}

static void run_steps(uint32_t n)
{
    const uint64_t before = a->step;
    for (uint32_t i = 0; i < n; i++)
        hand_step(&team);
    assert_int_equal(a->step, before + n);
}

static void test_first_epoch_waits_for_all_replicas(void **state)
{
    (void)state;
    assert_true(hand_open(&team, 3, &THREE));
    hand_hello(&team, a);
    hand_hello(&team, b);
    hand_run(&team, 3000);
    assert_int_equal(a->epochs + b->epochs, 0);
    hand_hello(&team, c);
    hand_run(&team, 5);
    for (uint32_t i = 0; i < 3; i++) {
        const orr_epoch *e = &team.members[i].epoch;
        assert_int_equal(team.members[i].epochs, 1);
        assert_int_equal(e->you, i);
        assert_int_equal(e->members[i].role, ORR_ROLE_CONTRIBUTOR);
        assert_int_equal(e->members[i].slot, i);
        assert_int_equal(e->step, 0);
    }
    assert_true(team.store.saves >= 1); /* remembered before it was told */
}

/* torchft: test_quorum_join_timeout (heartbeats, does not join) */
static void test_who_never_says_hello_is_not_waited_for_beyond_the_window(void **state)
{
    (void)state;
    const orr_coordinator_settings least = {
        .replicas = 2, .min_replicas = 1, .join_window_ns = 300 * HAND_MS};
    assert_true(hand_open(&team, 2, &least));
    hand_hello(&team, a);
    hand_connect(&team, b);
    hand_run(&team, 280);
    assert_int_equal(a->epochs, 0);
    assert_int_equal(b->closes, 1); /* and who says nothing at all is hung up on */
    hand_run(&team, 60);
    assert_int_equal(a->epochs, 1);
    assert_int_equal(a->epoch.n, 1);
}

static void test_a_heartbeat_before_hello_is_no_message(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "x", 1);
    hand_connect(&team, c);
    hand_woken(c);
    hand_run(&team, 5);
    assert_int_equal(c->closes, 1);
    run_steps(1);
    assert_int_equal(a->epochs, 1);
}

/* torchft: test_quorum_heartbeats (stale heartbeat) */
static void test_the_silent_are_left_out_within_the_bound(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(2);
    const int64_t from = orr_simnet_now_ns(team.world);
    c->mute = true;
    hand_run(&team, 150);
    assert_int_equal(a->epochs, 2);
    assert_int_equal(a->epoch.n, 2);
    assert_true(a->epoch_ns - from <= HAND_TIMEOUT + 5 * HAND_MS);
    assert_true(a->epoch_ns - from >= HAND_TIMEOUT * 7 / 10); /* one lost heartbeat is no death */
    assert_int_equal(hand_status(&team).lost[ORR_LOST_SILENCE], 1);
    run_steps(1);
    assert_int_equal(a->commit.n, 2);
    hand_close(c); /* it comes back, one step behind */
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_int_equal(c->epochs, 1);
    hand_ready(a, 1);
    hand_ready(b, 1);
    hand_run(&team, 5);
    assert_int_equal(c->epochs, 2);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
}

static void test_a_closed_connection_is_told_at_once(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(1);
    hand_close(b);
    hand_run(&team, 2);
    assert_int_equal(a->epochs, 2);
    assert_int_equal(a->epoch.n, 2);
    assert_int_equal(hand_index(&a->epoch, "b"), UINT32_MAX);
    assert_int_equal(hand_status(&team).lost[ORR_LOST_DEATH], 1);
    run_steps(1);
    const orr_team_status s = hand_status(&team);
    assert_int_equal(s.recoveries, 1);
    assert_true(s.recovery_last_ns > 0 && s.recovery_last_ns <= s.recovery_max_ns);
}

/* The likeliest moment: in the first step. */
static void test_one_of_two_dies_before_anything_was_committed(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    hand_close(b);
    hand_run(&team, 5);
    assert_int_equal(a->epoch.n, 1);
    b->report = (orr_member_report){.id = {.name = "b", .incarnation = 2}, .slot = ORR_TEAM_NONE};
    hand_hello(&team, b);
    hand_run(&team, 5);
    run_steps(1);
    assert_int_equal(a->epoch.n, 2);
    run_steps(1);
}

/* torchft: test_quorum_fast_prev_quorum (all of the last quorum are back) */
static void test_all_of_the_last_epoch_need_no_waiting(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(4);
    hand_kill(&team);
    assert_true(hand_start(&team));
    for (uint32_t i = 0; i < 3; i++)
        hand_hello(&team, &team.members[i]);
    const int64_t from = orr_simnet_now_ns(team.world);
    hand_run(&team, 5);
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(team.members[i].epochs, 2);
        assert_true(team.members[i].epoch_ns - from < 2 * HAND_MS);
        assert_int_equal(team.members[i].epoch.step, 4);
        assert_int_equal(team.members[i].report.slot, 12 + i); /* as they held them */
    }
    run_steps(2);
}

/* torchft: test_quorum_split_brain (a minority asks) */
static void test_a_minority_halts(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(2);
    orr_simnet_cut(team.world, b->host, team.host, true); /* they live, and are not heard */
    orr_simnet_cut(team.world, c->host, team.host, true);
    hand_run(&team, 200);
    assert_true(a->halts >= 1);
    assert_int_equal(hand_status(&team).state, ORR_STATE_HALTED);
    const uint32_t epochs = a->epochs;
    hand_run(&team, 400);
    assert_int_equal(a->epochs, epochs);
    orr_simnet_cut(team.world, b->host, team.host, false);
    b->conn = 0;
    hand_hello(&team, b);
    hand_run(&team, 20);
    assert_int_equal(a->epochs, epochs + 1); /* two of three */
    assert_int_equal(a->epoch.n, 2);
    assert_int_equal(a->epoch.step, 2);
    run_steps(1);
}

/* Of three one comes back after an outage of all, and the others never. */
static void only_one_is_back(const orr_coordinator_settings *settings)
{
    assert_true(hand_form(&team, 3, settings));
    run_steps(2);
    hand_kill(&team);
    hand_close(b);
    hand_close(c);
    assert_true(hand_start(&team));
    hand_hello(&team, a);
    hand_run(&team, 200);
    assert_int_equal(hand_status(&team).state, ORR_STATE_HALTED);
    assert_int_equal(a->epochs, 1);
}

static void test_an_outage_has_an_end(void **state)
{
    (void)state;
    only_one_is_back(&(orr_coordinator_settings){
        .replicas = 3, .failure_timeout_ns = HAND_TIMEOUT, .outage_timeout_ns = 3000 * HAND_MS});
    assert_non_null(strstr(a->why, "b and others are missing, waited for 3 s at most"));
    hand_run(&team, 2500);
    assert_int_equal(a->epochs, 1);
    hand_run(&team, 600);
    assert_int_equal(a->epochs, 2);
    assert_int_equal(a->epoch.n, 1);
    assert_int_equal(a->epoch.step, 2);
    hand_hello(&team, b); /* it had been thought gone, and is taken in */
    hand_run(&team, 5);
    run_steps(1);
    assert_int_equal(a->epoch.n, 2);
    run_steps(1);
}

static void forget(hand_member *operator_, const char *name)
{
    orr_fault_report of = {.about = UINT32_MAX};
    orr_message_bytes payload = {0};
    snprintf(of.why, sizeof of.why, "%s", name);
    operator_->refused = false;
    operator_->why[0] = '\0';
    if (operator_->conn == 0)
        hand_connect(&team, operator_);
    assert_true(orr_write_fault(&payload, &of));
    hand_say(operator_, ORR_MESSAGE_FORGET, 0, 0, &payload);
    hand_run(&team, 5);
}

static void test_who_is_forgotten_is_not_waited_for(void **state)
{
    (void)state;
    only_one_is_back(&THREE);
    hand_member *o = hand_another(&team, "operator", 1);
    forget(o, "d");
    assert_true(o->refused && strstr(o->why, "nobody waits") != NULL);
    forget(o, "a");
    assert_true(o->refused && strstr(o->why, "a is here") != NULL);
    assert_int_equal(a->epochs, 1);
    forget(o, "b"); /* one of the two that may live is enough */
    assert_false(o->refused);
    assert_non_null(strstr(o->why, "any longer"));
    hand_run(&team, 150);
    assert_int_equal(a->epochs, 2);
    assert_int_equal(a->epoch.n, 1);
    assert_int_equal(a->epoch.step, 2);
    run_steps(1);
}

/* torchft: test_lighthouse_join_during_shrink, and upscale: a third joins late */
static void test_who_joins_during_a_step_disturbs_nobody(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    run_steps(3);
    hand_another(&team, "c", 9);
    hand_hello(&team, c);
    hand_run(&team, 60);
    assert_int_equal(a->epochs, 1);
    assert_int_equal(c->epochs, 0);
    assert_true(c->echoes > 0); /* it is heard while it waits */
    hand_ready(a, 1);
    hand_ready(b, 1);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 4); /* first the commit, then the epoch */
    assert_int_equal(a->epochs, 2);
    assert_int_equal(c->epochs, 1);
    assert_int_equal(c->epoch.step, 4);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
    assert_int_equal(hand_role(&c->epoch, "a"), ORR_ROLE_CONTRIBUTOR);
    assert_int_equal(a->report.slot, 8); /* nothing was given to one that heals */
    assert_int_equal(b->report.slot, 9);
    assert_int_equal(hand_status(&team).retries, 0);
}

/* torchft: test_lighthouse_commit_failures (unchanged members, another quorum),
 * test_streaming_diloco_commit_failure */
static void test_sums_that_differ_are_made_again_in_a_new_epoch(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    run_steps(1);
    const uint64_t epoch = a->epoch.epoch;
    hand_ready(a, 1);
    hand_ready(b, 2);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 1);
    assert_int_equal(a->epoch.epoch, epoch + 1);
    assert_int_equal(a->epoch.n, 2);
    assert_false(a->epoch.carried);
    assert_int_equal(a->epoch.step, 1);
    assert_int_equal(hand_status(&team).lost[ORR_LOST_DIGEST], 1);
    run_steps(1);
}

/* torchft: test_lighthouse_e2e, test_quorum_changed (unchanged members, no new quorum) */
static void test_an_epoch_lasts_as_long_as_its_members(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(20);
    assert_int_equal(a->epochs, 1);
    assert_int_equal(team.store.saves <= 2, true); /* nothing is synced for a step */
    assert_int_equal(c->report.slot, 62);
}

/* torchft: test_should_commit (one votes no): who is not ready is not overruled */
static void test_no_step_without_all_votes(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    hand_ready(a, 1);
    hand_ready(b, 1);
    hand_ready(a, 1); /* again is not another vote */
    hand_run(&team, 90);
    assert_int_equal(a->commits, 0);
    hand_ready(c, 1);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 1);
}

/* torchft: test_manager_wrap_future_timeout (a future never completes) */
static void test_one_that_never_hands_in_is_left_out(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(3);
    a->progress = b->progress = (orr_heartbeat){.posted = 4, .sent = 9, .received = 9};
    hand_run(&team, 150);
    assert_int_equal(a->epoch.n, 2);
    assert_int_equal(hand_index(&a->epoch, "c"), UINT32_MAX);
    assert_true(c->halts >= 1); /* it is told, and may come back later */
    assert_int_equal(hand_status(&team).lost[ORR_LOST_STALL], 1);
    run_steps(3);
    for (uint32_t i = 0; i < 12; i++) {
        hand_run(&team, 50);
        hand_step(&team);
    }
    assert_int_equal(a->epoch.n, 3);
}

/* torchft: test_allreduce_error, test_pg_errored, test_max_retries */
static void test_a_broken_ring_is_formed_again_and_then_without_the_worst(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(1);
    for (uint32_t i = 0; i < 3; i++) {
        hand_fault(a, 2, "the peer closed the connection");
        hand_run(&team, 10);
        assert_int_equal(a->epochs, 2 + i);
        assert_int_equal(a->epoch.n, 3);
        assert_int_equal(a->epoch.step, 1);
        assert_int_equal(a->report.slot, 3); /* its gradients are still good */
    }
    hand_fault(a, 2, "the peer closed the connection");
    hand_run(&team, 10);
    assert_int_equal(a->epoch.n, 2);
    assert_int_equal(hand_index(&a->epoch, "c"), UINT32_MAX);
    run_steps(1);
}

/* torchft: test_quorum_checkpoint_errors (the state cannot be fetched) */
static void test_a_state_that_does_not_come_is_asked_for_anew(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    run_steps(3);
    hand_another(&team, "c", 9);
    hand_hello(&team, c);
    hand_run(&team, 5);
    run_steps(1);
    assert_int_equal(c->epochs, 1);
    hand_fault(c, UINT32_MAX, "no source has it");
    hand_run(&team, 10);
    assert_int_equal(c->epochs, 2);
    assert_int_equal(a->epochs, 3);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
}

/* torchft: test_compute_quorum_results_recovery (mixed steps) */
static void test_who_is_behind_may_fetch_from_all_who_are_not(void **state)
{
    (void)state;
    const orr_coordinator_settings four = {.replicas = 4};
    assert_true(hand_open(&team, 4, &four));
    static const uint64_t steps[] = {0, 7, 5, 7};
    for (uint32_t i = 0; i < 4; i++) {
        team.members[i].report.step = steps[i]; /* of checkpoints: no epoch is known */
        team.members[i].report.data.next = 4 * steps[i];
        hand_hello(&team, &team.members[i]);
    }
    hand_run(&team, 5);
    assert_int_equal(a->epoch.step, 7);
    assert_int_equal(hand_role(&a->epoch, "a"), ORR_ROLE_HEALING);
    assert_int_equal(hand_role(&a->epoch, "b"), ORR_ROLE_CONTRIBUTOR);
    assert_int_equal(hand_role(&a->epoch, "c"), ORR_ROLE_HEALING);
    assert_int_equal(hand_role(&a->epoch, "d"), ORR_ROLE_CONTRIBUTOR);
    for (uint32_t i = 0; i < 4; i++) {
        const char *ring, *where;
        assert_true(orr_addresses_of(&a->epoch.members[i].addresses, 0, &ring, &where));
        assert_string_equal(ring, "ring:1");
        assert_string_equal(where, "state:1");
    }
    assert_int_equal(b->report.slot, 28);
    assert_int_equal(d->report.slot, 29);
}

/* torchft: test_quorum_heal_async_zero_grad (zeros, divisor of those who contribute) */
static void test_who_heals_votes_and_contributes_after_it_is_whole(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    run_steps(2);
    hand_another(&team, "c", 9);
    hand_hello(&team, c);
    hand_run(&team, 5);
    run_steps(1);
    assert_int_equal(c->epoch.step, 3);
    hand_ready(a, 1);
    hand_ready(b, 1);
    hand_run(&team, 10);
    assert_int_equal(a->commits, 3); /* its zeros are in the ring: it is waited for */
    hand_ready(c, 1);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 4);
    assert_int_equal(c->commit.role[2], ORR_ROLE_HEALING);
    hand_ready(a, 2);
    hand_ready(b, 2);
    hand_ready_for(c, c->epoch.epoch, 5, 2, true); /* now the state is here */
    hand_run(&team, 5);
    assert_int_equal(c->commit.role[2], ORR_ROLE_CONTRIBUTOR);
    assert_int_equal(c->commit.slot[2], 12);
    assert_int_equal(a->epochs, 2); /* no new epoch for this */
}

/* torchft: test_quorum_heal_async_not_enough_participants */
/* One comes back in a later life, with the state after this step. */
static void comes_back(hand_member *m, uint64_t step)
{
    const orr_member_report before = m->report;
    hand_close(m);
    hand_run(&team, 5);
    m->report = (orr_member_report){.id = before.id, .step = step, .slot = ORR_TEAM_NONE};
    m->report.id.incarnation++;
    m->epoch.n = 0;
    hand_hello(&team, m);
    hand_run(&team, 5);
}

/* All who had the state are dead; one was fetching it, and may have it by now. */
static void test_before_a_step_is_given_up_who_fetches_is_asked(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(2);
    comes_back(c, ORR_TEAM_NONE);
    run_steps(2);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
    const uint64_t step = c->step;
    const uint32_t closes = c->closes;
    comes_back(a, 0);
    assert_int_equal(c->closes, closes);
    comes_back(b, 0);
    assert_int_equal(c->closes, closes + 1);
    c->report.step = step;
    c->report.data = c->epoch.data;
    hand_hello(&team, c);
    hand_run(&team, 20);
    assert_int_equal(c->epoch.step, step);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_CONTRIBUTOR);
    assert_int_equal(hand_role(&c->epoch, "a"), ORR_ROLE_HEALING);
}

static void test_fewer_than_the_least_halt(void **state)
{
    (void)state;
    const orr_coordinator_settings least = {.replicas = 3, .min_replicas = 2};
    assert_true(hand_form(&team, 3, &least));
    run_steps(1);
    hand_close(b);
    hand_run(&team, 5);
    run_steps(1);
    hand_close(c);
    hand_run(&team, 50);
    assert_int_equal(hand_status(&team).state, ORR_STATE_HALTED);
    assert_non_null(strstr(a->why, "2 are wanted"));
    c->report.id.incarnation = 2;
    c->report.step = 0;
    c->report.data = (orr_team_data_cursor){0};
    c->report.epoch = 0;
    c->report.members.n = c->report.base.n = 0;
    hand_hello(&team, c);
    hand_run(&team, 150);
    assert_int_equal(hand_status(&team).state, ORR_STATE_RUNNING);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
}

/* torchft: test_get_quorum_when_lighthouse_down */
static void test_a_coordinator_that_comes_back_goes_on(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(3);
    hand_ready(a, 9); /* all are prepared, and nobody knows whether it was committed */
    hand_ready(b, 9);
    hand_ready(c, 9);
    hand_kill(&team);
    const uint64_t epoch = a->epoch.epoch, step = a->step;
    const uint32_t commits = a->commits;
    assert_true(hand_start(&team));
    hand_hello(&team, a);
    hand_hello(&team, b);
    hand_run(&team, 150);
    assert_true(a->epoch.epoch > epoch);
    assert_int_equal(a->epoch.step, step);
    if (commits == 3) { /* what they are prepared for is not made again */
        assert_true(a->epoch.carried);
        assert_int_equal(a->epoch.digest, 9);
        assert_int_equal(a->epoch.n_slots, 3);
    }
    hand_step(&team);
    assert_int_equal(a->step, step + 1);
}

static void test_a_coordinator_that_remembers_nothing_jumps(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(3);
    const uint64_t epoch = a->epoch.epoch;
    hand_kill(&team);
    team.store.holds = false;
    assert_true(hand_start(&team));
    hand_hello(&team, a);
    hand_run(&team, 400);
    assert_int_equal(a->epochs, 1); /* one of three may be the wrong one */
    hand_hello(&team, b);
    hand_run(&team, 200);
    assert_int_equal(a->epochs, 1); /* and c may have gone on alone */
    hand_run(&team, 600);
    assert_int_equal(a->epochs, 2);
    assert_true(a->epoch.epoch > epoch + 999);
    assert_int_equal(a->epoch.step, 3);
    run_steps(1);
    hand_hello(&team, c); /* it was away for a step */
    hand_run(&team, 5);
    run_steps(1);
    assert_int_equal(hand_role(&c->epoch, "c"), ORR_ROLE_HEALING);
}

/* Frames of an epoch that is over count for nothing. */
static void test_what_was_said_in_an_older_epoch_is_moot(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(1);
    const uint64_t old = a->epoch.epoch;
    hand_close(c);
    hand_run(&team, 5);
    assert_int_equal(a->epochs, 2);
    hand_ready_for(a, old, 2, 5, true);
    hand_ready_for(b, old, 2, 5, true);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 1);
    hand_ready_for(a, old + 1, 3, 5, true); /* nor does a step that is not under way */
    hand_ready_for(b, old + 1, 1, 5, true);
    hand_ready_for(a, old + 2, 2, 5, true); /* nor an epoch that is yet to come */
    hand_ready_for(b, old + 2, 2, 5, true);
    hand_run(&team, 5);
    assert_int_equal(a->commits, 1);
    a->epoch.epoch--; /* its complaint is about the ring of before */
    hand_fault(a, 1, "the peer closed the connection");
    a->epoch.epoch++;
    hand_run(&team, 20);
    assert_int_equal(a->epochs, 2);
    run_steps(1);
}

static void test_one_leaves_after_the_step_under_way(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 3, &THREE));
    run_steps(1);
    hand_leave(b, false);
    hand_run(&team, 30);
    assert_int_equal(a->epochs, 1);
    hand_step(&team);
    assert_int_equal(b->commits, 2);
    assert_int_equal(b->dismissals, 1);
    assert_int_equal(a->epoch.n, 2);
    assert_int_equal(hand_status(&team).lost[ORR_LOST_DEATH], 0);
    assert_int_equal(hand_status(&team).retries, 0);
    b->conn = 0;
    run_steps(1);
}

static void test_the_job_ends_when_all_have_left(void **state)
{
    (void)state;
    const char *why;
    assert_true(hand_form(&team, 2, &TWO));
    run_steps(2);
    hand_leave(a, true);
    hand_leave(b, true);
    hand_run(&team, 5);
    assert_false(orr_coordinator_has_ended(team.coordinator, &why)); /* a step is under way */
    hand_step(&team);
    assert_int_equal(a->dismissals + b->dismissals, 2);
    assert_true(orr_coordinator_has_ended(team.coordinator, &why));
    assert_true(why[0] != '\0');
    hand_another(&team, "c", 9);
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_int_equal(c->dismissals, 1); /* it comes late, which is no error */
    assert_false(c->refused);
}

static void test_small_timeouts(void **state)
{
    (void)state;
    const orr_coordinator_settings small = {.replicas = 2, .failure_timeout_ns = 50 * HAND_MS};
    orr_coordinator_settings too_small = {.listen = "any:9", .failure_timeout_ns = 10 * HAND_MS};
    orr_coordinator *none = NULL;
    orr_error err = {0};
    assert_true(hand_form(&team, 2, &small));
    /* torchft: test_quorum_timeout (10 ms): refused, rather than everybody looking dead */
    assert_int_equal(
        orr_coordinator_new(orr_simnet_host_net(team.world, team.host), &too_small, &none, &err),
        ORR_INVALID);
    assert_null(none);
    run_steps(1);
    const int64_t from = orr_simnet_now_ns(team.world);
    b->mute = true;
    hand_run(&team, 60);
    assert_int_equal(a->epoch.n, 1);
    assert_true(a->epoch_ns - from <= 50 * HAND_MS);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_first_epoch_waits_for_all_replicas),
        TEST(test_who_never_says_hello_is_not_waited_for_beyond_the_window),
        TEST(test_a_heartbeat_before_hello_is_no_message),
        TEST(test_the_silent_are_left_out_within_the_bound),
        TEST(test_a_closed_connection_is_told_at_once),
        TEST(test_one_of_two_dies_before_anything_was_committed),
        TEST(test_all_of_the_last_epoch_need_no_waiting),
        TEST(test_an_outage_has_an_end),
        TEST(test_who_is_forgotten_is_not_waited_for),
        TEST(test_a_minority_halts),
        TEST(test_who_joins_during_a_step_disturbs_nobody),
        TEST(test_sums_that_differ_are_made_again_in_a_new_epoch),
        TEST(test_an_epoch_lasts_as_long_as_its_members),
        TEST(test_no_step_without_all_votes),
        TEST(test_one_that_never_hands_in_is_left_out),
        TEST(test_a_broken_ring_is_formed_again_and_then_without_the_worst),
        TEST(test_a_state_that_does_not_come_is_asked_for_anew),
        TEST(test_who_is_behind_may_fetch_from_all_who_are_not),
        TEST(test_who_heals_votes_and_contributes_after_it_is_whole),
        TEST(test_before_a_step_is_given_up_who_fetches_is_asked),
        TEST(test_fewer_than_the_least_halt),
        TEST(test_a_coordinator_that_comes_back_goes_on),
        TEST(test_a_coordinator_that_remembers_nothing_jumps),
        TEST(test_what_was_said_in_an_older_epoch_is_moot),
        TEST(test_one_leaves_after_the_step_under_way),
        TEST(test_the_job_ends_when_all_have_left),
        TEST(test_small_timeouts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
