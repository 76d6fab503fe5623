/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "team/protocol/timeouts.h"

#define MS INT64_C(1000000)

static void test_two_seconds_unless_said(void **state)
{
    (void)state;
    orr_team_timeouts said, not_said;
    orr_error err;
    assert_int_equal(orr_team_timeouts_of(0, &not_said, &err), ORR_OK);
    assert_int_equal(orr_team_timeouts_of(2000 * MS, &said, &err), ORR_OK);
    assert_memory_equal(&said, &not_said, sizeof said);
    assert_int_equal(said.failure_ns, 2000 * MS);
    assert_int_equal(said.heartbeat_ns, 200 * MS);
    assert_int_equal(said.silent_ns, 1600 * MS);
    assert_int_equal(said.fenced_ns, 2000 * MS);
    assert_int_equal(said.grace_ns, 40 * MS);
    assert_int_equal(said.reconnect_ns, 50 * MS);
    assert_int_equal(said.call_ns, 800 * MS);
}

/* A member is lost to its coordinator before it leaves it by itself, after several heartbeats that
 * did not come; and a connection that broke waits for less than a heartbeat. */
static void test_in_this_order_at_any_bound(void **state)
{
    (void)state;
    static const int64_t bounds[] = {50 * MS,   51 * MS + 7, 100 * MS,
                                     1999 * MS, 60000 * MS,  INT64_C(86400000) * MS};
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        orr_team_timeouts t;
        orr_error err;
        assert_int_equal(orr_team_timeouts_of(bounds[i], &t, &err), ORR_OK);
        assert_true(t.grace_ns > 0 && t.grace_ns < t.reconnect_ns);
        assert_true(t.reconnect_ns < t.heartbeat_ns);
        assert_true(3 * t.heartbeat_ns < t.silent_ns);
        assert_true(t.call_ns < t.silent_ns && t.silent_ns < t.fenced_ns);
        assert_true(t.fenced_ns <= t.failure_ns);
        /* Silence, a heartbeat's lateness in looking for it, and forming anew: within the bound. */
        assert_true(t.silent_ns + t.heartbeat_ns / 2 + t.heartbeat_ns <= t.failure_ns);
    }
}

static void test_bounds_that_cannot_be(void **state)
{
    (void)state;
    static const int64_t wrong[] = {
        -1, 1, 10 * MS, 50 * MS - 1, INT64_C(86400000) * MS + 1, INT64_MAX, INT64_MIN};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        orr_team_timeouts t = {.failure_ns = 77};
        orr_error err = {0};
        assert_int_equal(orr_team_timeouts_of(wrong[i], &t, &err), ORR_INVALID);
        assert_true(err.text[0] != '\0');
        assert_int_equal(t.failure_ns, 77);
    }
}

static void test_stall(void **state)
{
    (void)state;
    orr_team_timeouts t;
    orr_error err;
    assert_int_equal(orr_team_timeouts_of(100 * MS, &t, &err), ORR_OK);
    assert_int_equal(orr_team_stall_timeout_ns(&t, 1 * MS), 100 * MS);  /* never below the bound */
    assert_int_equal(orr_team_stall_timeout_ns(&t, 70 * MS), 210 * MS); /* three steps */
    assert_true(orr_team_stall_timeout_ns(&t, 0) >=
                60000 * MS); /* a first step takes as long as it takes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_seconds_unless_said),
        cmocka_unit_test(test_in_this_order_at_any_bound),
        cmocka_unit_test(test_bounds_that_cannot_be),
        cmocka_unit_test(test_stall),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
