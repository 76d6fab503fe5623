/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "team/member/proxy_parts.h"

/* What the reports of two ranks become. */

static orr_member_report merged(const orr_member_report *a, const orr_member_report *b)
{
    static const char ADDRESSES[] = "ring:1\0state:1";
    orr_replica_proxy_rank ranks[2] = {{.report = *a}, {.report = *b}};
    orr_replica_proxy proxy = {.n = 2, .ranks = ranks};
    orr_message_bytes payload = {0};
    orr_hello hello;
    for (int i = 0; i < 2; i++) {
        memcpy(ranks[i].addresses, ADDRESSES, sizeof ADDRESSES);
        ranks[i].address_bytes = sizeof ADDRESSES;
    }
    assert_true(orr_replica_proxy_write_hello(&proxy, &payload));
    assert_true(orr_read_hello(payload.at, payload.n, &hello));
    orr_array_done(&payload);
    return hello.report;
}

static orr_member_report at_step(uint64_t step, uint64_t epoch)
{
    return (orr_member_report){.id = {.name = "r", .incarnation = 1},
                               .step = step,
                               .known = step,
                               .epoch = epoch,
                               .prepared = true,
                               .made = epoch,
                               .n_slots = 1};
}

static void test_without_the_state_of_one_rank_there_is_none(void **state)
{
    const orr_member_report whole = at_step(5, 3), none = at_step(ORR_TEAM_NONE, 4);
    (void)state;
    for (int turn = 0; turn < 2; turn++) {
        const orr_member_report r = turn == 0 ? merged(&whole, &none) : merged(&none, &whole);
        assert_int_equal(r.step, ORR_TEAM_NONE);
        assert_int_equal(r.epoch, 4); /* the later one, which one of them was in */
    }
}

static void test_a_rank_ahead_has_heard_of_the_commit_first(void **state)
{
    const orr_member_report ahead = at_step(6, 3), behind = at_step(5, 3);
    orr_member_report other = behind;
    (void)state;
    const orr_member_report r = merged(&ahead, &behind);
    assert_int_equal(r.step, 5);
    assert_true(r.prepared && r.carried);
    other.made = 2; /* it is prepared with other sums */
    assert_false(merged(&behind, &other).prepared);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_without_the_state_of_one_rank_there_is_none),
        cmocka_unit_test(test_a_rank_ahead_has_heard_of_the_commit_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
