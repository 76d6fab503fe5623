/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "team/protocol/roster.h"

/* What a coordinator remembers, and whether those who are here are enough to go on. */

static orr_member_id id_of(char name, uint64_t life)
{
    return (orr_member_id){.name = {name}, .incarnation = life};
}

static orr_member_list roll_of(const char *names)
{
    orr_member_list roll = {.n = (uint32_t)strlen(names)};
    for (uint32_t i = 0; i < roll.n; i++)
        roll.ids[i] = id_of(names[i], 1);
    return roll;
}

static orr_membership memory_of(const char *members, const char *base)
{
    return (orr_membership){
        .record = {.epoch = 3, .members = roll_of(members), .base = roll_of(base)},
        .step = 5,
        .epoch = 3};
}

/* Lower case: in the life that the rolls have; upper case: in the next one. */
static uint32_t come(orr_member_report reports[8], orr_epoch_candidate candidates[8],
                     const char *names)
{
    uint32_t n = 0;
    for (; names[n] != '\0'; n++) {
        const bool later = names[n] < 'a';
        reports[n] = (orr_member_report){
            .id = id_of(later ? (char)(names[n] + 32) : names[n], later ? 2 : 1)};
        candidates[n] = (orr_epoch_candidate){.report = &reports[n]};
    }
    return n;
}

static orr_quorum quorum_of(orr_membership *memory, const char *gone, const char *here)
{
    orr_member_report reports[8];
    orr_epoch_candidate candidates[8];
    const uint32_t n = come(reports, candidates, here);
    for (; *gone != '\0'; gone++)
        orr_membership_gone(memory, &(orr_member_id){.name = {*gone}, .incarnation = 1});
    orr_membership_refresh(memory, candidates, n);
    return orr_roster_quorum(memory, candidates, n);
}

typedef struct quorum_case {
    const char *rule, *members, *base, *gone, *here;
    bool lost, enough, all, all_heard;
} quorum_case;

static const quorum_case QUORA[] = {
    {"everyone", "abc", "abc", "", "abc", false, true, true, true},
    {"two of three", "abc", "abc", "", "ab", false, true, false, false},
    {"one of three", "abc", "abc", "", "a", false, false, false, false},
    {"half is enough for one that remembers", "abcd", "abcd", "", "ab", false, true, false, false},
    {"half is not for one that does not", "abcd", "abcd", "", "ab", true, false, false, false},
    {"more than half is", "abcd", "abcd", "", "abc", true, true, false, false},
    {"one of two", "ab", "ab", "", "a", false, true, false, false},
    {"one of two, without memory", "ab", "ab", "", "a", true, false, false, false},
    {"who is gone is not counted", "abc", "abc", "bc", "a", false, true, true, false},
    {"but may know something", "abc", "abc", "c", "ab", false, true, true, false},
    {"a later life knows nothing more", "abc", "abc", "", "aBC", false, true, true, true},
    {"a later life is no vote", "abc", "abc", "", "BC", false, false, false, false},
    {"deaths do not help without memory", "abc", "abc", "", "aBC", true, false, true, true},
    {"newcomers are no votes", "abc", "abc", "", "axyz", false, false, false, false},
    {"the base counts, not who was only announced", "a", "abc", "", "a", false, false, false,
     false},
    {"the base counts, though the last epoch is not here", "abcd", "ab", "", "a", false, true,
     false, false},
    {"without memory both do: members", "abc", "a", "", "a", true, false, false, false},
    {"without memory both do: base", "a", "abc", "", "a", true, false, false, false},
    {"without memory both do: enough", "ab", "abc", "", "ab", true, true, false, false},
    {"nobody", "abc", "abc", "", "", false, false, false, false},
};

static void test_quorum(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof QUORA / sizeof QUORA[0]; i++) {
        const quorum_case *q = &QUORA[i];
        orr_membership memory = memory_of(q->members, q->base);
        memory.lost = memory.uncommitted = q->lost;
        const orr_quorum got = quorum_of(&memory, q->gone, q->here);
        if (got.enough != q->enough || got.all != q->all || got.all_heard != q->all_heard)
            fail_msg("%s: enough %d, all %d, told %d", q->rule, got.enough, got.all, got.all_heard);
    }
}

/* Two groups that share nobody are never both enough, whoever has died, if memory is not what it
 * was: an exhaustive look at six replicas. */
static void test_no_two_quorums_without_memory(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 6; n++)
        for (uint32_t one = 0; one < 1u << n; one++)
            for (uint32_t other = 0; other < 1u << n; other++) {
                char names[2][8] = {"", ""};
                bool enough[2];
                if ((one & other) != 0)
                    continue;
                for (uint32_t i = 0; i < n; i++)
                    for (uint32_t k = 0; k < 2; k++) /* who is of the other group is seen dead */
                        names[k][i] =
                            (char)(((k == 0 ? one : other) >> i & 1 ? 'a' : 'A') + (int)i);
                for (uint32_t k = 0; k < 2; k++) {
                    orr_membership memory = memory_of(&"fedcba"[6 - n], &"fedcba"[6 - n]);
                    memory.lost = memory.uncommitted = true;
                    enough[k] = quorum_of(&memory, "", names[k]).enough;
                }
                assert_false(enough[0] && enough[1]);
            }
}

static void test_gone_is_not_dead(void **state)
{
    (void)state;
    orr_membership memory = memory_of("ab", "abc");
    const orr_member_id now = id_of('b', 1), later = id_of('b', 2);
    orr_membership_gone(&memory, &now);
    assert_true(memory.gone[0][1] && memory.gone[1][1]);
    assert_false(memory.dead[0][1] || memory.dead[1][1]);
    orr_membership_arrived(&memory, &now); /* it had only lost its connection */
    assert_false(memory.gone[0][1] || memory.gone[1][1]);
    orr_membership_arrived(&memory, &later);
    assert_true(memory.gone[0][1] && memory.dead[0][1] && memory.gone[1][1] && memory.dead[1][1]);
    assert_false(memory.gone[0][0] || memory.gone[1][2]);
    const orr_member_id stranger = id_of('x', 1);
    const orr_membership before = memory;
    orr_membership_gone(&memory, &stranger);
    orr_membership_arrived(&memory, &stranger);
    assert_memory_equal(&memory, &before, sizeof memory);
}

static void test_who_left_is_not_waited_for(void **state)
{
    (void)state;
    orr_membership memory = memory_of("abc", "abc");
    const orr_member_id c = id_of('c', 1), b = id_of('b', 1);
    orr_membership_gone(&memory, &c);
    orr_membership_left(&memory, &b);
    assert_int_equal(memory.record.base.n, 2);
    assert_string_equal(memory.record.base.ids[1].name, "c");
    assert_true(memory.gone[1][1]); /* c's, at its new place */
    assert_false(memory.gone[1][0]);
    assert_true(memory.gone[0][1]);
    const orr_quorum q = quorum_of(&memory, "", "a");
    assert_true(q.enough && q.all);
    assert_false(q.all_heard);
}

static orr_epoch epoch_of(uint64_t epoch, uint64_t step, const char *names)
{
    orr_epoch e = {.epoch = epoch, .step = step, .data = {.epoch = epoch - 1}};
    for (; names[e.n] != '\0'; e.n++)
        e.members[e.n].id = id_of(names[e.n], 1);
    return e;
}

/* The base is who was in an epoch that committed: an epoch that was only formed is none. */
static void test_the_base_follows_commits(void **state)
{
    (void)state;
    orr_membership memory = {.uncommitted = true};
    orr_epoch first = epoch_of(1, 0, "abc"), second = epoch_of(2, 0, "ab"),
              third = epoch_of(3, 0, "a");
    orr_membership_formed(&memory, &first);
    assert_int_equal(memory.record.epoch, 1);
    assert_int_equal(memory.record.base.n, 3); /* of the first epoch: itself */
    orr_membership_formed(&memory, &second);
    assert_int_equal(memory.record.members.n, 2);
    assert_int_equal(memory.record.base.n, 3);
    second.step = 1;
    second.data.epoch = 2;
    orr_membership_committed(&memory, &second);
    assert_int_equal(memory.record.base.n, 2);
    assert_int_equal(memory.step, 1);
    assert_int_equal(memory.epoch, 2);
    assert_false(memory.uncommitted);
    orr_membership_formed(&memory, &third);
    assert_int_equal(memory.record.base.n, 2);
    assert_int_equal(memory.record.members.n, 1);
}

/* A commit makes those who died in its epoch no part of what is asked for later. */
/* It may have the state after the committed step alone: the others die before the next. */
static void test_who_contributes_is_of_the_base(void **state)
{
    (void)state;
    orr_membership memory = memory_of("a", "ad");
    orr_epoch epoch = {.epoch = 4,
                       .step = 5,
                       .n = 3,
                       .members = {{.id = id_of('a', 1)},
                                   {.id = id_of('b', 1)},
                                   {.id = id_of('c', 1), .role = ORR_ROLE_HEALING}}};
    orr_membership_arrived(&memory, &(orr_member_id){.name = "d", .incarnation = 2});
    orr_membership_formed(&memory, &epoch);
    assert_int_equal(memory.record.base.n, 2); /* b has the place of d, who is dead */
    assert_string_equal(memory.record.base.ids[1].name, "b");
    assert_false(memory.gone[1][1] || memory.dead[1][1]);
    const orr_quorum q = quorum_of(&memory, "a", "A");
    assert_false(q.all_heard);
    epoch.carried = true; /* b may never hear of its commit */
    memory = memory_of("a", "a");
    orr_membership_formed(&memory, &epoch);
    assert_int_equal(memory.record.base.n, 1);
}

static void test_who_died_before_the_commit_stays_gone(void **state)
{
    (void)state;
    orr_membership memory = {.uncommitted = true};
    orr_epoch first = epoch_of(1, 0, "abc");
    const orr_member_id c = id_of('c', 1);
    orr_membership_formed(&memory, &first);
    first.step = 1;
    orr_membership_committed(&memory, &first);
    orr_membership_gone(&memory, &c);
    const orr_quorum q = quorum_of(&memory, "", "a");
    assert_int_equal(q.living, 2);
    assert_true(q.enough);
}

static void test_members_know_better_than_a_record(void **state)
{
    (void)state;
    orr_membership memory = memory_of("abc", "abc");
    memory.uncommitted = true;
    orr_member_report report = {.id = id_of('a', 1),
                                .epoch = 7,
                                .members = roll_of("ad"),
                                .base = roll_of("acd"),
                                .known = 9,
                                .known_epoch = 6};
    const orr_epoch_candidate one = {.report = &report};
    const orr_member_id b = id_of('b', 1);
    orr_membership_gone(&memory, &b);
    orr_membership_refresh(&memory, &one, 1);
    assert_int_equal(memory.record.epoch, 7);
    assert_int_equal(memory.record.members.n, 2);
    assert_int_equal(memory.record.base.n, 3);
    assert_true(memory.lost && memory.uncommitted);
    assert_false(memory.gone[1][1]); /* it was another's place */
    assert_int_equal(memory.step, 9);
    assert_int_equal(memory.epoch, 6);
    report.epoch = 5; /* older ones say nothing new */
    report.members = roll_of("x");
    orr_membership_refresh(&memory, &one, 1);
    assert_int_equal(memory.record.members.n, 2);
}

/* It has committed itself: a team that it never heard of gives its epoch's number, so that none is
 * given twice. */
static void test_but_not_than_one_that_has_committed(void **state)
{
    (void)state;
    orr_membership memory = memory_of("abc", "abc");
    orr_member_report report = {.id = id_of('x', 1),
                                .epoch = 7,
                                .members = roll_of("xy"),
                                .base = roll_of("xy"),
                                .known = 9};
    const orr_epoch_candidate one = {.report = &report};
    orr_membership_refresh(&memory, &one, 1);
    assert_int_equal(memory.record.epoch, 7);
    assert_int_equal(memory.record.members.n, 3);
    assert_int_equal(memory.record.base.n, 3);
    assert_int_equal(memory.step, 5);
    assert_false(memory.lost || memory.uncommitted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quorum),
        cmocka_unit_test(test_no_two_quorums_without_memory),
        cmocka_unit_test(test_gone_is_not_dead),
        cmocka_unit_test(test_who_left_is_not_waited_for),
        cmocka_unit_test(test_the_base_follows_commits),
        cmocka_unit_test(test_who_contributes_is_of_the_base),
        cmocka_unit_test(test_who_died_before_the_commit_stays_gone),
        cmocka_unit_test(test_members_know_better_than_a_record),
        cmocka_unit_test(test_but_not_than_one_that_has_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
