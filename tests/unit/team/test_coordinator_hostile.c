/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/philox.h"
#include "scripted_team.h"

/* A coordinator, and those who should not be there: other jobs, earlier lives, noise; and a disk
 * that fails. */

static hand_team team;
static hand_member *const a = &team.members[0], *const b = &team.members[1],
                          *const c = &team.members[2];
static const orr_coordinator_settings TWO = {.replicas = 2};

static int teardown(void **state)
{
    (void)state;
    const bool broken = team.broken > 0;
    hand_done(&team);
    return broken ? -1 : 0;
}

static void goes_on(void)
{
    const uint64_t before = a->step;
    hand_step(&team);
    assert_int_equal(a->step, before + 1);
}

static void test_another_job_is_refused(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1)->fingerprint = 6;
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_true(c->refused);
    assert_non_null(strstr(c->why, "another job"));
    assert_int_equal(c->closes, 1);
    assert_int_equal(a->epochs, 1);
    goes_on();
    assert_int_equal(a->epochs, 1);
}

/* Also where it is the first to speak, and after a restart. */
static void test_the_first_to_speak_does_not_own_the_job(void **state)
{
    (void)state;
    assert_true(hand_open(&team, 3, &(orr_coordinator_settings){.replicas = 3}));
    a->fingerprint = 6;
    hand_hello(&team, a);
    hand_run(&team, 5);
    hand_hello(&team, b);
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_true(a->refused);
    assert_non_null(strstr(a->why, "another job"));
    assert_int_equal(b->epochs, 0); /* three are waited for */
    hand_member *d = hand_another(&team, "a", 2);
    d->fingerprint = 5;
    hand_hello(&team, d);
    hand_run(&team, 5);
    assert_int_equal(b->epochs, 1);
    assert_int_equal(b->epoch.n, 3);
    hand_kill(&team);
    assert_true(hand_start(&team));
    hand_member *e = hand_another(&team, "z", 1);
    e->fingerprint = 6;
    hand_hello(&team, e);
    hand_run(&team, 5);
    assert_true(e->refused);
}

static void test_two_jobs_of_half_each_wait(void **state)
{
    (void)state;
    assert_true(hand_open(&team, 2, &TWO));
    b->fingerprint = 6;
    hand_hello(&team, a);
    hand_hello(&team, b);
    hand_run(&team, 5);
    assert_true(!a->refused && !b->refused && a->epochs == 0);
    assert_non_null(strstr(hand_status(&team).why, "several jobs"));
    hand_member *d = hand_another(&team, "c", 1);
    d->fingerprint = 5;
    hand_hello(&team, d);
    hand_run(&team, 5);
    assert_true(b->refused && !a->refused);
    assert_int_equal(a->epochs, 1);
}

static void test_another_number_of_ranks_is_refused(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1)->ranks = 2;
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_true(c->refused);
    assert_non_null(strstr(c->why, "ranks"));
    goes_on();
}

static void test_one_rank_alone_is_refused(void **state)
{
    (void)state;
    orr_message_bytes payload = {0};
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1);
    const orr_hello hello = {
        .fingerprint = 5, .rank = 1, .ranks = 2, .report = c->report, .addresses = {"r\0s", 4, 1}};
    assert_true(orr_write_hello(&payload, &hello));
    hand_connect(&team, c);
    hand_say(c, ORR_MESSAGE_HELLO, 0, 0, &payload);
    hand_run(&team, 5);
    assert_true(c->refused);
    goes_on();
}

static void test_of_two_lives_the_later_one_stays(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    goes_on();
    hand_another(&team, "b", 2); /* b again */
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_true(b->refused);
    assert_false(c->refused);
    assert_non_null(strstr(b->why, "started later"));
    assert_int_equal(c->epochs, 1);
    assert_int_equal(c->epoch.step, 1);
    assert_int_equal(hand_role(&c->epoch, "b"), ORR_ROLE_HEALING);
    hand_hello(&team, b); /* the earlier one tries again */
    hand_run(&team, 5);
    assert_true(b->refused);
    assert_int_equal(c->epochs, 1);
    goes_on();
}

static void test_the_same_life_on_another_connection(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    goes_on();
    b->conn = 0; /* the old one stands: nobody has closed it */
    hand_hello(&team, b);
    hand_run(&team, 5);
    assert_false(b->refused);
    assert_int_equal(b->epochs, 2);
    assert_int_equal(b->epoch.n, 2);
    assert_int_equal(hand_role(&b->epoch, "b"), ORR_ROLE_CONTRIBUTOR);
    goes_on();
}

/* What it says was true before its later call: no epoch may rest on that. */
static void test_a_hello_that_comes_late_is_dropped(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    b->conn = 0;
    b->call = 2;
    hand_hello(&team, b);
    hand_run(&team, 5);
    goes_on();
    const uint32_t epochs = a->epochs;
    hand_another(&team, "b", 1)->call = 1;
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_int_equal(c->closes, 1);
    assert_int_equal(a->epochs, epochs);
    goes_on();
    c->call = 3;
    hand_hello(&team, c);
    hand_run(&team, 5);
    assert_int_equal(c->closes, 1);
    assert_int_equal(a->epochs, epochs + 1);
}

static void test_hello_twice_is_no_message(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    goes_on();
    hand_hello(&team, b);
    hand_run(&team, 5);
    assert_int_equal(b->closes, 1);
    assert_int_equal(a->epoch.n, 1);
    goes_on();
}

/* Every kind of message, whole, cut and of random bytes, before hello and after it. */
static void test_noise(void **state)
{
    (void)state;
    orr_random random = orr_random_of(3, 0);
    uint32_t steps = 0;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1);
    hand_member *x = hand_another(&team, "x", 1);
    for (uint32_t i = 0; i < 600; i++) {
        uint8_t noise[300];
        const uint32_t bytes = (uint32_t)orr_random_below(&random, i % 3 == 0 ? 3 : sizeof noise);
        for (uint32_t k = 0; k < bytes; k++)
            noise[k] = i % 2 == 0 ? (uint8_t)orr_random_u32(&random) : 0;
        const orr_net_frame frame = {.kind = (uint16_t)orr_random_below(&random, 20),
                                     .bytes = bytes,
                                     .epoch = orr_random_below(&random, 4),
                                     .step = orr_random_below(&random, 4)};
        if (frame.kind == ORR_MESSAGE_LEAVE) /* would be one */
            continue;
        hand_member *from = i % 4 < 2 ? c : x;
        if (from->conn == 0)
            hand_connect(&team, from);
        from->net->send(from->net, from->conn, &frame, noise, false);
        hand_run(&team, 1);
        if (i % 16 == 0) {
            hand_ready(a, i);
            hand_ready(b, i);
            steps++;
        }
    }
    hand_run(&team, 5);
    assert_true(c->closes > 50);
    assert_int_equal(a->epochs, 1); /* nobody was disturbed */
    assert_int_equal(a->commits, steps);
}

/* From a member, who then is out. */
static void test_noise_of_a_member(void **state)
{
    (void)state;
    static const uint16_t kinds[] = {ORR_MESSAGE_HEARTBEAT,
                                     ORR_MESSAGE_READY,
                                     ORR_MESSAGE_FAULT,
                                     ORR_MESSAGE_EPOCH,
                                     ORR_MESSAGE_COMMIT,
                                     0,
                                     9999};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        assert_true(hand_form(&team, 2, &TWO));
        goes_on();
        const orr_net_frame frame = {.kind = kinds[i], .bytes = 3, .epoch = a->epoch.epoch};
        b->net->send(b->net, b->conn, &frame, "abc", false);
        hand_run(&team, 5);
        assert_int_equal(b->closes, 1);
        assert_int_equal(a->epoch.n, 1);
        goes_on();
        if (i + 1 < sizeof kinds / sizeof kinds[0])
            hand_done(&team);
    }
}

static void test_payloads_that_are_too_long(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1);
    static const uint32_t sizes[] = {ORR_NET_BUFFER_BYTES - 1, ORR_NET_BUFFER_BYTES + 1, 1 << 20};
    uint8_t *noise = orr_calloc(1, 1 << 20);
    assert_non_null(noise);
    for (size_t i = 0; i < 3; i++) {
        const orr_net_frame frame = {.kind = ORR_MESSAGE_HELLO, .bytes = sizes[i]};
        hand_connect(&team, c);
        c->net->send(c->net, c->conn, &frame, noise, false);
        hand_run(&team, 20);
        assert_int_equal(c->closes, i + 1);
    }
    orr_free(noise);
    goes_on();
    assert_int_equal(a->epochs, 1);
}

/* Numbers at their ends, from one of the right job: each alone is refused, and none is remembered.
 */
static void test_a_report_that_cannot_be_true(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    goes_on();
    hand_another(&team, "c", 1);
    orr_member_report *r = &c->report;
    uint64_t *const numbers[] = {&r->epoch,     &r->known_epoch, &r->known_made, &r->data.epoch,
                                 &r->data.made, &r->made,        &r->step,       &r->known,
                                 &r->slot,      &r->data.next,   &r->slots[0]};
    const orr_member_report true_report = *r;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        *r = true_report;
        r->n_slots = 1;
        *numbers[i] = UINT64_C(1) << 62;
        c->refused = false;
        hand_hello(&team, c);
        hand_run(&team, 5);
        assert_true(c->refused);
        assert_non_null(strstr(c->why, "cannot be true"));
        goes_on();
    }
    assert_int_equal(a->epochs, 1);
    *r = true_report;
    hand_hello(&team, c); /* of an epoch that goes on from the one there was */
    hand_run(&team, 5);
    goes_on();
    assert_true(a->epoch.epoch > 1 && a->epoch.epoch < UINT64_C(1) << 33);
    assert_int_equal(a->epoch.n, 3);
}

/* A 65th replica, of a job of 64, is not worth the other 64. */
static void test_more_replicas_than_there_can_be(void **state)
{
    (void)state;
    const orr_coordinator_settings most = {.replicas = ORR_TEAM_MAX_REPLICAS};
    assert_true(hand_open(&team, 0, &most));
    for (uint32_t i = 0; i < ORR_TEAM_MAX_REPLICAS; i++) {
        char name[8];
        snprintf(name, sizeof name, "r%02u", i);
        hand_hello(&team, hand_another(&team, name, 1));
    }
    hand_run(&team, 5);
    assert_int_equal(a->epoch.n, ORR_TEAM_MAX_REPLICAS);
    goes_on();
    hand_member *late = hand_another(&team, "z", 1);
    hand_hello(&team, late);
    hand_run(&team, 5);
    goes_on();
    goes_on();
    assert_int_equal(hand_status(&team).state, ORR_STATE_RUNNING);
    assert_int_equal(late->epochs, 0);
}

static void test_more_connections_than_there_can_be(void **state)
{
    (void)state;
    orr_conn conns[200];
    orr_error err;
    assert_true(hand_form(&team, 2, &TWO));
    hand_another(&team, "c", 1);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(c->net->connect(c->net, &c->user, team.address, &conns[i], &err), ORR_OK);
    hand_run(&team, 5);
    goes_on();
    hand_run(&team, 110); /* who says nothing is hung up on, and there is room again */
    hand_another(&team, "d", 1);
    hand_hello(&team, &team.members[3]);
    hand_run(&team, 5);
    goes_on();
    hand_run(&team, 5);
    assert_int_equal(team.members[3].epochs, 1);
}

static void test_a_disk_that_fails_halts_the_team_until_it_does_not(void **state)
{
    (void)state;
    const orr_coordinator_settings three = {.replicas = 3};
    assert_true(hand_form(&team, 3, &three));
    goes_on();
    team.store.fails = ORR_IO;
    hand_close(c);
    hand_run(&team, 20);
    assert_int_equal(a->epochs, 1); /* what is not durable is not told */
    assert_true(a->halts >= 1);
    assert_non_null(strstr(a->why, "disk is full"));
    assert_int_equal(hand_status(&team).state, ORR_STATE_HALTED);
    hand_run(&team, 500);
    assert_int_equal(a->epochs, 1);
    team.store.fails = ORR_OK;
    hand_run(&team, 150);
    assert_int_equal(hand_status(&team).state, ORR_STATE_RUNNING);
    assert_int_equal(a->epoch.n, 2);
    goes_on();
}

/* A store that takes its time, and fails: nobody is heard meanwhile. */
static int64_t stalled_ns;
static orr_net stalling;
static int64_t late_now(orr_net *net)
{
    return stalling.now_ns(net) + stalled_ns;
}
static void late_wake(orr_net *net, const orr_net_callbacks *user, int64_t at_ns)
{
    stalling.wake_at(net, user, at_ns == INT64_MAX ? at_ns : at_ns - stalled_ns);
}
static orr_status save_late(orr_team_store *store, uint64_t version, const void *record,
                            size_t bytes, orr_error *err)
{
    stalled_ns += HAND_TIMEOUT / 4;
    return hand_save(store, version, record, bytes, err);
}

static void test_a_store_that_stalls_loses_nobody(void **state)
{
    (void)state;
    const orr_coordinator_settings three = {.replicas = 3};
    assert_true(hand_form(&team, 3, &three));
    goes_on();
    orr_net *net = orr_simnet_host_net(team.world, team.host);
    stalling = *net;
    net->now_ns = late_now;
    net->wake_at = late_wake;
    team.store.store.save = save_late;
    team.store.fails = ORR_IO;
    hand_close(c);
    hand_run(&team, 500);
    assert_true(stalled_ns > 2 * HAND_TIMEOUT);
    assert_int_equal(a->closes + b->closes, 0);
    assert_int_equal(a->halts, 1);
    team.store.fails = ORR_OK;
    hand_run(&team, 50);
    assert_int_equal(a->closes + b->closes, 0);
    assert_int_equal(a->epoch.n, 2);
    goes_on();
}

static void test_another_coordinator_took_the_store(void **state)
{
    (void)state;
    const char *why;
    const orr_coordinator_settings three = {.replicas = 3};
    assert_true(hand_form(&team, 3, &three));
    goes_on();
    team.store.fails = ORR_CANCELED;
    hand_close(c);
    hand_run(&team, 20);
    assert_true(orr_coordinator_has_ended(team.coordinator, &why));
    assert_non_null(strstr(why, "another coordinator"));
    assert_int_equal(a->epochs, 1);
    hand_ready(a, 1);
    hand_ready(b, 1);
    hand_run(&team, 20);
    assert_int_equal(a->commits, 1); /* it decides nothing any more */
}

static void test_settings_that_contradict_each_other(void **state)
{
    (void)state;
    assert_true(hand_form(&team, 2, &TWO));
    const orr_coordinator_settings wrong[] = {
        {.listen = "any:7", .replicas = ORR_TEAM_MAX_REPLICAS + 1},
        {.listen = "any:7", .min_replicas = ORR_TEAM_MAX_REPLICAS + 1},
        {.listen = "any:7", .replicas = 2, .min_replicas = 3},
        {.listen = "any:7", .failure_timeout_ns = -1},
        {.listen = "no address"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_coordinator *none = NULL;
        orr_error err = {0};
        assert_int_equal(
            orr_coordinator_new(orr_simnet_host_net(team.world, a->host), &wrong[i], &none, &err),
            ORR_INVALID);
        assert_null(none);
        assert_true(err.text[0] != '\0');
    }
    orr_coordinator_free(NULL);
}

/* Memory runs out in the coordinator, at each place in turn: some member may be lost, the team is
 * not. */
static void test_out_of_memory(void **state)
{
    (void)state;
    const orr_coordinator_settings settings = {.listen = "any:8"};
    assert_true(hand_form(&team, 2, &TWO));
    for (uint64_t nth = 1; nth < 20; nth++) {
        orr_coordinator *other = NULL;
        orr_error err;
        orr_alloc_fail_from(nth);
        const orr_status status =
            orr_coordinator_new(orr_simnet_host_net(team.world, a->host), &settings, &other, &err);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        assert_true((status == ORR_OK) == (other != NULL));
        orr_coordinator_free(other);
    }
}

#define TEST(name) cmocka_unit_test_teardown(name, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_another_job_is_refused),
        TEST(test_the_first_to_speak_does_not_own_the_job),
        TEST(test_two_jobs_of_half_each_wait),
        TEST(test_another_number_of_ranks_is_refused),
        TEST(test_one_rank_alone_is_refused),
        TEST(test_of_two_lives_the_later_one_stays),
        TEST(test_the_same_life_on_another_connection),
        TEST(test_a_hello_that_comes_late_is_dropped),
        TEST(test_hello_twice_is_no_message),
        TEST(test_noise),
        TEST(test_noise_of_a_member),
        TEST(test_payloads_that_are_too_long),
        TEST(test_a_report_that_cannot_be_true),
        TEST(test_more_replicas_than_there_can_be),
        TEST(test_more_connections_than_there_can_be),
        TEST(test_a_disk_that_fails_halts_the_team_until_it_does_not),
        TEST(test_a_store_that_stalls_loses_nobody),
        TEST(test_another_coordinator_took_the_store),
        TEST(test_settings_that_contradict_each_other),
        TEST(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
