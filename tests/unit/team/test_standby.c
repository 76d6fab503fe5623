/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "scripted_team.h"

/* Two coordinators of one team, A and B, which share a store that takes a record only from who has
 * seen the one before. Members call one or the other. */

typedef struct view { /* of the shared record, by one of them */
    orr_team_store store;
    uint64_t seen; /* the version that it read or wrote last */
    bool fails;
} view;

static hand_team team;
static view views[2];
static uint32_t other_host;
static orr_coordinator *other;
static char addresses[2][ORR_NET_ADDRESS_BYTES];
static char last_event[2 * ORR_TEAM_REASON_BYTES];
static hand_member *const a = &team.members[0], *const b = &team.members[1],
                          *const c = &team.members[2], *const d = &team.members[3];

static orr_status view_load(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                            size_t *ret_bytes, orr_error *err)
{
    view *v = store->ctx;
    if (v->fails)
        return orr_fail(err, ORR_IO, "nobody answers");
    v->seen = team.store.holds ? team.store.version : 0;
    return hand_load(&team.store.store, ret_version, ret, room, ret_bytes, err);
}

static orr_status view_save(orr_team_store *store, uint64_t version, const void *record,
                            size_t bytes, orr_error *err)
{
    view *v = store->ctx;
    if (team.store.holds && team.store.version != v->seen)
        return orr_fail(err, ORR_CANCELED, "another wrote");
    assert_true(version > v->seen);
    v->seen = version;
    return hand_save(&team.store.store, version, record, bytes, err);
}

static void note(void *ctx, const orr_team_event *event)
{
    (void)ctx;
    snprintf(last_event, sizeof last_event, "%s", event->text);
}

/* Both run; nobody has called. */
static void open_two(uint32_t members, orr_coordinator_settings settings)
{
    orr_error err;
    settings.on_event = note;
    assert_true(hand_open(&team, members, &settings));
    hand_kill(&team);
    settings.standby = team.settings.standby = true;
    assert_false(hand_start(&team)); /* its store is its own */
    for (int i = 0; i < 2; i++)
        views[i] = (view){.store = {.name = "view",
                                    .ctx = &views[i],
                                    .shared = true,
                                    .load = view_load,
                                    .save = view_save}};
    team.settings.store = &views[0].store;
    assert_true(hand_start(&team));
    settings = team.settings;
    settings.store = &views[1].store;
    settings.jump = 2000;
    assert_int_equal(orr_simnet_add_host(team.world, &other_host, &err), ORR_OK);
    assert_int_equal(
        orr_coordinator_new(orr_simnet_host_net(team.world, other_host), &settings, &other, &err),
        ORR_OK);
    memcpy(addresses[0], team.address, sizeof team.address);
    snprintf(addresses[1], sizeof addresses[1], "%s", orr_coordinator_address(other));
}

static int teardown(void **state)
{
    (void)state;
    const bool broken = team.broken > 0;
    orr_coordinator_free(other);
    other = NULL;
    hand_done(&team);
    return broken ? -1 : 0;
}

static void calls(hand_member *m, int which)
{
    if (m->conn != 0)
        hand_close(m);
    memcpy(team.address, addresses[which], sizeof team.address);
    m->call++;
    hand_hello(&team, m);
}

static uint8_t state_of(const orr_coordinator *of)
{
    orr_team_status status;
    orr_coordinator_status(of, &status);
    return status.state;
}

/* A leads members a, b and c, and they have committed a step. */
static void begin(void)
{
    open_two(3, (orr_coordinator_settings){.replicas = 3});
    for (uint32_t i = 0; i < 3; i++)
        calls(&team.members[i], 0);
    hand_run(&team, 5);
    hand_step(&team);
    assert_int_equal(a->step, 1);
    assert_int_equal(state_of(team.coordinator), ORR_STATE_RUNNING);
    assert_int_equal(state_of(other), ORR_STATE_STANDBY);
}

static void test_too_few_are_sent_on(void **state)
{
    (void)state;
    begin();
    const uint32_t saves = team.store.saves;
    hand_another(&team, "d", 1);
    calls(d, 1);
    hand_run(&team, 50);
    assert_int_equal(d->standbys, 0);
    hand_run(&team, 60);
    assert_int_equal(d->standbys, 1);
    assert_int_equal(d->epochs + d->halts, 0);
    assert_int_equal(team.store.saves, saves);
    calls(d, 0);
    hand_run(&team, 5);
    hand_step(&team); /* A leads as before */
    hand_run(&team, 5);
    assert_int_equal(a->step, 2);
    assert_int_equal(d->epochs, 1);
}

static void test_all_who_live_need_no_waiting(void **state)
{
    (void)state;
    begin();
    hand_kill(&team);
    const int64_t killed_ns = orr_simnet_now_ns(team.world);
    for (uint32_t i = 0; i < 3; i++)
        calls(&team.members[i], 1);
    hand_run(&team, 5);
    assert_int_equal(state_of(other), ORR_STATE_RUNNING);
    hand_step(&team);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(team.members[i].step, 2);
    assert_true(orr_simnet_now_ns(team.world) - killed_ns < HAND_TIMEOUT);
}

/* A is cut off from a and b, cannot commit with c alone, and finds at its next epoch that B leads.
 */
static void test_of_two_that_live_one_leads(void **state)
{
    (void)state;
    begin();
    a->conn = b->conn = 0; /* nobody closes these */
    calls(a, 1);
    calls(b, 1);
    hand_run(&team, 5);
    assert_int_equal(state_of(other), ORR_STATE_STANDBY);
    hand_run(&team, 110);
    assert_int_equal(state_of(team.coordinator), ORR_STATE_HALTED);
    assert_int_equal(state_of(other), ORR_STATE_RUNNING);
    hand_step(&team);
    assert_int_equal(a->step, 2);
    assert_int_equal(c->step, 1);
    calls(a, 0); /* two of three are with A again */
    hand_run(&team, 110);
    const char *why;
    assert_false(orr_coordinator_has_ended(team.coordinator, &why));
    assert_int_equal(state_of(team.coordinator), ORR_STATE_STANDBY);
    assert_int_equal(a->standbys, 1);
    assert_int_equal(c->standbys, 1);
    calls(a, 1);
    calls(c, 1);
    hand_run(&team, 5);
    hand_step(&team);
    hand_run(&team, 5);
    hand_step(&team);
    assert_true(a->step >= 3);
    assert_int_equal(a->step, c->step);
}

/* Nobody has called A since B leads: it finds that all the same, and sends on who comes. */
static void test_who_halts_looks_whether_it_leads(void **state)
{
    (void)state;
    begin();
    for (uint32_t i = 0; i < 3; i++) {
        team.members[i].conn = 0;
        calls(&team.members[i], 1);
    }
    hand_run(&team, 350);
    assert_int_equal(state_of(other), ORR_STATE_RUNNING);
    assert_int_equal(state_of(team.coordinator), ORR_STATE_STANDBY);
    hand_step(&team);
    assert_int_equal(a->step, 2);
}

static void test_the_end_of_the_job_is_that_of_all(void **state)
{
    (void)state;
    const char *why;
    begin();
    hand_run(&team, 250); /* B has seen the job */
    for (uint32_t i = 0; i < 3; i++)
        hand_leave(&team.members[i], true);
    hand_step(&team);
    assert_true(orr_coordinator_has_ended(team.coordinator, &why));
    hand_run(&team, 250);
    assert_true(orr_coordinator_has_ended(other, &why));
    assert_false(orr_coordinator_is_superseded(other));
}

/* One that leaves at a standby is not the last of the team. */
static void test_no_end_without_a_quorum(void **state)
{
    (void)state;
    begin();
    const uint32_t saves = team.store.saves;
    calls(c, 1);
    hand_leave(c, true);
    hand_run(&team, 200);
    assert_int_equal(c->dismissals, 0);
    assert_int_equal(c->standbys, 1);
    assert_int_equal(team.store.saves, saves + 1); /* A's epoch of two */
}

static void test_a_new_job_meets_at_one(void **state)
{
    (void)state;
    open_two(3, (orr_coordinator_settings){.replicas = 3});
    calls(a, 0);
    calls(b, 1);
    calls(c, 1);
    hand_run(&team, 110);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(team.members[i].standbys, 1);
    for (uint32_t i = 0; i < 3; i++)
        calls(&team.members[i], 1);
    hand_run(&team, 5);
    assert_int_equal(state_of(other), ORR_STATE_RUNNING);
}

static void test_a_store_that_does_not_answer(void **state)
{
    (void)state;
    begin();
    hand_kill(&team);
    views[1].fails = true;
    calls(a, 1);
    hand_run(&team, 5);
    assert_int_equal(a->conn, 0); /* it calls again, or the next */
    assert_string_equal(last_event, "nobody answers");
    views[1].fails = false;
    for (uint32_t i = 0; i < 3; i++)
        calls(&team.members[i], 1);
    hand_run(&team, 5);
    assert_int_equal(state_of(other), ORR_STATE_RUNNING);
}

/* However long it waits: the team may be going on elsewhere. */
static void test_a_standby_does_not_go_on_after_an_outage(void **state)
{
    (void)state;
    begin();
    hand_another(&team, "d", 1);
    for (int i = 0; i < 60; i++) {
        calls(d, 1);
        hand_run(&team, 110);
    }
    assert_int_equal(d->standbys, 60);
    assert_int_equal(state_of(other), ORR_STATE_STANDBY);
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)
int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_too_few_are_sent_on),
        TEST(test_all_who_live_need_no_waiting),
        TEST(test_of_two_that_live_one_leads),
        TEST(test_who_halts_looks_whether_it_leads),
        TEST(test_the_end_of_the_job_is_that_of_all),
        TEST(test_no_end_without_a_quorum),
        TEST(test_a_new_job_meets_at_one),
        TEST(test_a_store_that_does_not_answer),
        TEST(test_a_standby_does_not_go_on_after_an_outage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
