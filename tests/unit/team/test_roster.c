/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "team/protocol/roster.h"

/* What a coordinator decides, one small situation at a time. The last epoch is 3, of "a", "b", "c"
 * (or as a test says), and has committed step 5; slots 15, 16, 17 are in work for step 6. An epoch
 * is written "4 after 5: a=15 b=16 c~"           contributors with their slots, ~ heals "4 after 5
 * carries 9 {15,16}: a b~" of the sums with digest 9 */
typedef struct situation {
    orr_membership memory;
    orr_member_report reports[ORR_TEAM_MAX_REPLICAS + 1];
    orr_epoch_candidate candidates[ORR_TEAM_MAX_REPLICAS + 1];
    uint32_t n;
    orr_epoch epoch;
    char why[ORR_TEAM_REASON_BYTES], text[400];
} situation;

enum { LAST = 3, STEP = 5, SUMS = 9 };

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

/* A coordinator that has committed step 5 itself. */
static void begin(situation *s, const char *names)
{
    memset(s, 0, sizeof *s);
    s->memory.record =
        (orr_epoch_record){.epoch = LAST, .members = roll_of(names), .base = roll_of(names)};
    s->memory.step = STEP;
    s->memory.epoch = s->memory.made = LAST;
    s->memory.jump = 1000;
}

/* One that has begun anew, with its record or without. */
static void begin_anew(situation *s, const char *names, bool lost)
{
    begin(s, names);
    s->memory.uncommitted = true;
    s->memory.lost = lost;
    s->memory.step = s->memory.epoch = s->memory.made = 0;
    if (lost)
        s->memory.record = (orr_epoch_record){.epoch = 0};
}

/* A member of the last epoch, as it stands after step 5. */
static orr_member_report *comes(situation *s, char name)
{
    orr_member_report *r = &s->reports[s->n];
    const orr_member_list *members = &s->memory.record.members;
    *r = (orr_member_report){.id = id_of(name, 1),
                             .step = STEP,
                             .known = STEP,
                             .known_epoch = LAST,
                             .known_made = LAST,
                             .data = {.next = 15, .epoch = LAST, .made = LAST},
                             .slot = 15 + (uint64_t)(name - 'a'),
                             .epoch = LAST,
                             .members = *members,
                             .base = s->memory.record.base};
    if (members->n == 0)
        r->members = r->base = roll_of("abc");
    s->candidates[s->n++].report = r;
    return r;
}

/* It has the sums of step 6, of a's, b's and c's data. */
static orr_member_report *prepared(orr_member_report *r, uint64_t digest)
{
    r->prepared = true;
    r->digest = digest;
    r->made = r->epoch;
    r->n_slots = 3;
    for (uint32_t i = 0; i < 3; i++)
        r->slots[i] = 15 + i;
    return r;
}

/* Without a state: it heals. */
static orr_member_report *heals(orr_member_report *r)
{
    r->step = r->slot = ORR_TEAM_NONE;
    return r;
}

/* As of a checkpoint: it was in no epoch. */
static orr_member_report *fresh(orr_member_report *r, uint64_t step, uint64_t life)
{
    *r = (orr_member_report){.id = r->id,
                             .step = step,
                             .known = step,
                             .slot = ORR_TEAM_NONE,
                             .data = {.next = 3 * step}};
    r->id.incarnation = life;
    return r;
}

static void describe(situation *s)
{
    const orr_epoch *e = &s->epoch;
    size_t at = (size_t)snprintf(s->text, sizeof s->text, "%u after %u", (unsigned)e->epoch,
                                 (unsigned)e->step);
    if (e->carried) {
        at += (size_t)snprintf(s->text + at, sizeof s->text - at, " carries %u {",
                               (unsigned)e->digest);
        for (uint32_t i = 0; i < e->n_slots; i++)
            at += (size_t)snprintf(s->text + at, sizeof s->text - at, i > 0 ? ",%u" : "%u",
                                   (unsigned)e->slots[i]);
        at += (size_t)snprintf(s->text + at, sizeof s->text - at, "}");
    }
    at += (size_t)snprintf(s->text + at, sizeof s->text - at, ":");
    for (uint32_t i = 0; i < e->n; i++) {
        const orr_epoch_member *m = &e->members[i];
        at += (size_t)snprintf(s->text + at, sizeof s->text - at, " %s", m->id.name);
        if (m->role == ORR_ROLE_HEALING)
            at += (size_t)snprintf(s->text + at, sizeof s->text - at, "~");
        else if (!e->carried)
            at += (size_t)snprintf(s->text + at, sizeof s->text - at, "=%u", (unsigned)m->slot);
    }
}

/* In whatever order they came. */
static void decides(situation *s, const char *expected)
{
    orr_membership_refresh(&s->memory, s->candidates, s->n);
    for (uint32_t turn = 0; turn < s->n; turn++) {
        const orr_epoch_candidate first = s->candidates[0];
        if (orr_roster_next_epoch(&s->memory, s->candidates, s->n, &s->epoch, s->why))
            describe(s);
        else
            snprintf(s->text, sizeof s->text, "halt");
        assert_string_equal(s->text, expected);
        memmove(s->candidates, s->candidates + 1, (s->n - 1) * sizeof first);
        s->candidates[s->n - 1] = first;
    }
}

static void halts(situation *s, const char *reason)
{
    decides(s, "halt");
    assert_non_null(strstr(s->why, reason));
}

static situation s;

static void test_all_stay_and_keep_their_slots(void **state)
{
    (void)state;
    begin(&s, "abc");
    comes(&s, 'c');
    comes(&s, 'a');
    comes(&s, 'b');
    decides(&s, "4 after 5: a=15 b=16 c=17");
}

static void test_gradients_of_one_that_died_come_back(void **state)
{
    (void)state;
    const bool whole[] = {true, true};
    begin(&s, "abc");
    comes(&s, 'a');
    comes(&s, 'c');
    decides(&s, "4 after 5: a=15 c=17");
    assert_true(orr_roster_advance(&s.epoch, whole));
    describe(&s);
    assert_string_equal(s.text, "4 after 6: a=16 c=18");
}

static void test_the_smallest_that_came_back_is_given_first(void **state)
{
    (void)state;
    begin(&s, "abc");
    for (int i = 0; i < 3; i++) {
        orr_member_report *r = comes(&s, "abc"[i]);
        r->data = (orr_team_data_cursor){
            .next = 15, .returned = {4, 9}, .n = 2, .epoch = LAST, .made = LAST};
        r->slot = ORR_TEAM_NONE;
    }
    s.reports[1].slot = 9; /* holds it already */
    decides(&s, "4 after 5: a=4 b=9 c=15");
}

static void test_a_slot_that_was_trained_is_not_kept(void **state)
{
    (void)state;
    begin(&s, "ab");
    comes(&s, 'a')->slot = 12;
    comes(&s, 'b')->slot = 15;
    decides(&s, "4 after 5: a=16 b=15");
}

static void test_of_two_that_hold_a_slot_the_later_epoch_keeps_it(void **state)
{
    (void)state;
    begin(&s, "abc");
    comes(&s, 'a')->epoch = 2;
    comes(&s, 'b');
    comes(&s, 'c');
    s.reports[0].slot = s.reports[1].slot = 16;
    decides(&s, "4 after 5: a=15 b=16 c=17");
    s.reports[0].epoch = LAST; /* of equals, the first by name */
    decides(&s, "4 after 5: a=16 b=15 c=17");
}

static void test_who_is_behind_heals(void **state)
{
    (void)state;
    begin(&s, "ab");
    comes(&s, 'a');
    fresh(comes(&s, 'b'), 2, 7);
    heals(fresh(comes(&s, 'c'), 0, 1));
    decides(&s, "4 after 5: a=15 b~ c~");
}

static void test_the_same_step_of_another_branch_heals(void **state)
{
    (void)state;
    begin(&s, "abc");
    comes(&s, 'a');
    comes(&s, 'b');
    comes(&s, 'c')->data.made = 2;
    decides(&s, "4 after 5: a=15 b=16 c~");
}

/* A carried step may be committed in two epochs: the sums are the same. */
static void test_the_same_sums_committed_in_another_epoch_are_the_same_state(void **state)
{
    (void)state;
    begin(&s, "abc");
    comes(&s, 'a');
    comes(&s, 'b');
    comes(&s, 'c')->data.epoch = 2;
    decides(&s, "4 after 5: a=15 b=16 c=17");
}

static void test_a_later_step_that_was_never_committed_is_foreign(void **state)
{
    (void)state;
    begin(&s, "ab");
    comes(&s, 'a');
    comes(&s, 'b');
    fresh(comes(&s, 'c'), 8, 7);
    decides(&s, "4 after 5: a=15 b=16 c~");
}

static void test_of_two_branches_the_newer_epoch_is_gone_on_from(void **state)
{
    (void)state;
    begin_anew(&s, "abc", false);
    orr_member_report *a = comes(&s, 'a');
    a->data.epoch = a->data.made = 2;
    comes(&s, 'b');
    comes(&s, 'c');
    decides(&s, "4 after 5: a~ b=16 c=17");
}

static void test_sums_that_all_have_are_carried(void **state)
{
    (void)state;
    begin(&s, "abc");
    prepared(comes(&s, 'a'), SUMS);
    prepared(comes(&s, 'b'), SUMS);
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b"); /* c died; its data are in */
}

static void test_one_without_the_sums_makes_the_step_again(void **state)
{
    (void)state;
    begin(&s, "abc");
    prepared(comes(&s, 'a'), SUMS);
    prepared(comes(&s, 'b'), SUMS);
    comes(&s, 'c');
    decides(&s, "4 after 5: a=15 b=16 c=17");
}

static void test_sums_that_differ_make_the_step_again(void **state)
{
    (void)state;
    begin(&s, "abc");
    prepared(comes(&s, 'a'), SUMS);
    prepared(comes(&s, 'b'), SUMS + 1);
    decides(&s, "4 after 5: a=15 b=16");
}

static void test_who_heals_does_not_hinder_carrying(void **state)
{
    (void)state;
    begin(&s, "abc");
    prepared(comes(&s, 'a'), SUMS);
    heals(comes(&s, 'b'));
    fresh(comes(&s, 'c'), 0, 7);
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b~ c~");
}

/* A coordinator that has begun anew does not know whether the step was committed. */
static void test_begun_anew_it_carries_what_anyone_has(void **state)
{
    (void)state;
    begin_anew(&s, "abc", false);
    prepared(comes(&s, 'a'), SUMS);
    comes(&s, 'b');
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b~");
}

static void test_begun_anew_with_everybody_it_makes_again_what_one_has_not(void **state)
{
    (void)state;
    begin_anew(&s, "abc", false);
    prepared(comes(&s, 'a'), SUMS);
    comes(&s, 'b');
    prepared(comes(&s, 'c'), SUMS);
    decides(&s, "4 after 5: a=15 b=16 c=17");
}

/* b committed, perhaps, before it died; its later life says nothing of that. */
static void test_begun_anew_a_later_life_disproves_no_commit(void **state)
{
    (void)state;
    begin_anew(&s, "ab", false);
    prepared(comes(&s, 'a'), SUMS);
    orr_member_report *b = fresh(comes(&s, 'b'), STEP, 2); /* from a checkpoint of step 5 */
    b->data = (orr_team_data_cursor){.next = 15, .epoch = LAST, .made = LAST};
    orr_membership_arrived(&s.memory, &b->id);
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b~");
}

static void test_begun_anew_sums_without_a_state_are_waited_for(void **state)
{
    (void)state;
    begin_anew(&s, "abc", false);
    comes(&s, 'a');
    heals(prepared(comes(&s, 'b'), SUMS)); /* c had both, perhaps */
    halts(&s, "step 6 is not here");
}

static void test_of_sums_of_two_epochs_the_later_are_carried(void **state)
{
    (void)state;
    begin_anew(&s, "abcd", false);
    orr_member_report *a = prepared(comes(&s, 'a'), 8);
    a->epoch = a->made = 2;
    prepared(comes(&s, 'b'), SUMS);
    comes(&s, 'c');
    decides(&s, "4 after 5 carries 9 {15,16,17}: a~ b c~");
}

/* Who has entered an epoch that carries may have committed there. */
static void test_what_is_carried_is_carried_on(void **state)
{
    (void)state;
    begin(&s, "abc");
    orr_member_report *r = prepared(comes(&s, 'a'), SUMS);
    r->carried = true;
    comes(&s, 'b');
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b~");
    r->prepared = false; /* it heals in it: who holds the sums is away */
    halts(&s, "step 6 is not here");
}

/* Step 5 was committed, and all who come are after 4. */
static void test_behind_only_sums_of_the_committing_epoch_count(void **state)
{
    (void)state;
    begin(&s, "abc");
    orr_member_report *r = prepared(comes(&s, 'a'), SUMS);
    r->step = r->known = STEP - 1;
    r->data.epoch = r->data.made = 2;
    decides(&s, "4 after 4 carries 9 {15,16,17}: a");
    r->made = 2; /* of an attempt before: not what was committed */
    halts(&s, "step 5 is not here");
}

static void test_behind_by_two_steps_it_halts(void **state)
{
    (void)state;
    begin(&s, "abc");
    orr_member_report *r = prepared(comes(&s, 'a'), SUMS);
    r->step = r->known = STEP - 2;
    halts(&s, "is not here");
}

static void test_it_goes_back_when_nobody_lives_who_was_further(void **state)
{
    (void)state;
    begin(&s, "ab");
    fresh(comes(&s, 'a'), 2, 7);
    fresh(comes(&s, 'b'), 2, 8); /* both in later lives */
    decides(&s, "4 after 2: a=6 b=7");
    begin(&s, "abc");
    fresh(comes(&s, 'a'), 2, 7);
    fresh(comes(&s, 'b'), 2, 8);
    halts(&s, "is not here"); /* c may live */
    orr_membership_gone(&s.memory, &(orr_member_id){"c", 1});
    halts(&s, "is not here"); /* and may call again */
    s.memory.waited_for_absent = true;
    decides(&s, "4 after 2: a=6 b=7");
}

/* One of its ranks has committed step 4, so that its state is of no use without those sums. */
static void test_going_back_keeps_what_a_rank_has_committed(void **state)
{
    (void)state;
    begin(&s, "ab");
    orr_member_report *r = prepared(comes(&s, 'a'), SUMS);
    r->step = r->known = STEP - 2;
    r->data = (orr_team_data_cursor){.next = 15, .epoch = 0, .made = 0};
    r->carried = true;
    fresh(comes(&s, 'b'), STEP - 2, 7);
    decides(&s, "4 after 3 carries 9 {15,16,17}: a b~");
    s.n = 1;
    memset(s.memory.dead, 0, sizeof s.memory.dead);
    halts(&s, "is not here"); /* b may have its state, or the sums of step 5 */
}

/* All of the lists are here, and one shows that not all were prepared; but the lists are what was
 * reported: there may have been others. */
static void test_without_memory_nobody_is_sure_that_all_are_here(void **state)
{
    (void)state;
    begin_anew(&s, "", true);
    prepared(comes(&s, 'a'), SUMS);
    comes(&s, 'b');
    comes(&s, 'c');
    decides(&s, "1004 after 5 carries 9 {15,16,17}: a b~ c~");
}

/* All memory is lost, and who comes has but a checkpoint: the epochs before it are over. */
static void test_epochs_follow_that_of_a_checkpoint(void **state)
{
    (void)state;
    begin_anew(&s, "", true);
    fresh(comes(&s, 'a'), STEP, 7)->known_epoch = 50;
    decides(&s, "1051 after 5: a=15");
}

static void test_without_any_state_it_halts(void **state)
{
    (void)state;
    begin(&s, "ab");
    heals(comes(&s, 'a'));
    heals(comes(&s, 'b'));
    halts(&s, "checkpoint");
}

/* The COMMIT was lost on the way to one: it was prepared in the epoch that committed. */
static void test_who_is_prepared_for_what_was_committed_contributes(void **state)
{
    (void)state;
    begin(&s, "ab");
    comes(&s, 'a');
    orr_member_report *r = prepared(comes(&s, 'b'), SUMS);
    r->step = r->known = STEP - 1;
    r->data.epoch = r->data.made = 2;
    decides(&s, "4 after 5: a=15 b=16");
    r->made = 2; /* other sums */
    decides(&s, "4 after 5: a=15 b~");
    r->made = LAST;
    r->prepared = false; /* none */
    decides(&s, "4 after 5: a=15 b~");
}

static void test_who_leaves_is_not_taken_unless_it_alone_has_the_state(void **state)
{
    (void)state;
    begin(&s, "abc");
    comes(&s, 'a');
    comes(&s, 'b');
    heals(comes(&s, 'c'));
    s.candidates[0].leaving = true;
    decides(&s, "4 after 5: b=16 c~");
    begin(&s, "abc");
    comes(&s, 'a');
    heals(comes(&s, 'b'));
    heals(comes(&s, 'c'));
    s.candidates[0].leaving = s.candidates[1].leaving = true;
    decides(&s, "4 after 5: a=15 c~");
}

static void test_a_first_epoch(void **state)
{
    (void)state;
    memset(&s, 0, sizeof s);
    s.memory = (orr_membership){.lost = true, .uncommitted = true};
    for (int i = 2; i >= 0; i--)
        fresh(comes(&s, "abc"[i]), 0, 1);
    decides(&s, "1 after 0: a=0 b=1 c=2");
}

static void test_with_lost_memory_epochs_jump(void **state)
{
    (void)state;
    begin_anew(&s, "abc", true);
    comes(&s, 'a');
    comes(&s, 'b');
    decides(&s, "1004 after 5: a=15 b=16");
}

static void test_more_than_64(void **state)
{
    (void)state;
    begin(&s, "a");
    for (uint32_t i = 0; i <= ORR_TEAM_MAX_REPLICAS; i++)
        comes(&s, 'a')->id.incarnation = i + 1;
    assert_false(orr_roster_next_epoch(&s.memory, s.candidates, s.n, &s.epoch, s.why));
    assert_true(s.why[0] != '\0');
}

static void test_advance_counts_whose_data_are_in(void **state)
{
    (void)state;
    const bool whole[] = {true, false, true};
    begin(&s, "abc");
    comes(&s, 'a');
    comes(&s, 'b');
    heals(comes(&s, 'c'));
    decides(&s, "4 after 5: a=15 b=16 c~");
    assert_int_equal(orr_epoch_contributors(&s.epoch), 2);
    assert_true(orr_roster_advance(&s.epoch, whole));
    describe(&s);
    assert_string_equal(s.text, "4 after 6: a=17 b~ c=18");
    assert_int_equal(s.epoch.data.epoch, 4);
    assert_int_equal(s.epoch.data.next, 17);
    s.epoch.members[2].slot = 17; /* two with the same: it does not add up, and nothing changes */
    const orr_epoch before = s.epoch;
    assert_false(orr_roster_advance(&s.epoch, whole));
    assert_memory_equal(&before, &s.epoch, sizeof before);
}

static void test_advance_of_what_was_carried(void **state)
{
    (void)state;
    const bool whole[] = {true, false};
    begin(&s, "abc");
    prepared(comes(&s, 'a'), SUMS);
    heals(comes(&s, 'b'));
    decides(&s, "4 after 5 carries 9 {15,16,17}: a b~");
    assert_int_equal(orr_epoch_contributors(&s.epoch), 3);
    assert_true(orr_roster_advance(&s.epoch, whole));
    describe(&s);
    assert_string_equal(s.text, "4 after 6: a=18 b~");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_stay_and_keep_their_slots),
        cmocka_unit_test(test_gradients_of_one_that_died_come_back),
        cmocka_unit_test(test_the_smallest_that_came_back_is_given_first),
        cmocka_unit_test(test_a_slot_that_was_trained_is_not_kept),
        cmocka_unit_test(test_of_two_that_hold_a_slot_the_later_epoch_keeps_it),
        cmocka_unit_test(test_who_is_behind_heals),
        cmocka_unit_test(test_the_same_step_of_another_branch_heals),
        cmocka_unit_test(test_the_same_sums_committed_in_another_epoch_are_the_same_state),
        cmocka_unit_test(test_a_later_step_that_was_never_committed_is_foreign),
        cmocka_unit_test(test_of_two_branches_the_newer_epoch_is_gone_on_from),
        cmocka_unit_test(test_sums_that_all_have_are_carried),
        cmocka_unit_test(test_one_without_the_sums_makes_the_step_again),
        cmocka_unit_test(test_sums_that_differ_make_the_step_again),
        cmocka_unit_test(test_who_heals_does_not_hinder_carrying),
        cmocka_unit_test(test_begun_anew_it_carries_what_anyone_has),
        cmocka_unit_test(test_begun_anew_with_everybody_it_makes_again_what_one_has_not),
        cmocka_unit_test(test_begun_anew_a_later_life_disproves_no_commit),
        cmocka_unit_test(test_begun_anew_sums_without_a_state_are_waited_for),
        cmocka_unit_test(test_of_sums_of_two_epochs_the_later_are_carried),
        cmocka_unit_test(test_what_is_carried_is_carried_on),
        cmocka_unit_test(test_behind_only_sums_of_the_committing_epoch_count),
        cmocka_unit_test(test_behind_by_two_steps_it_halts),
        cmocka_unit_test(test_it_goes_back_when_nobody_lives_who_was_further),
        cmocka_unit_test(test_going_back_keeps_what_a_rank_has_committed),
        cmocka_unit_test(test_without_memory_nobody_is_sure_that_all_are_here),
        cmocka_unit_test(test_epochs_follow_that_of_a_checkpoint),
        cmocka_unit_test(test_without_any_state_it_halts),
        cmocka_unit_test(test_who_is_prepared_for_what_was_committed_contributes),
        cmocka_unit_test(test_who_leaves_is_not_taken_unless_it_alone_has_the_state),
        cmocka_unit_test(test_a_first_epoch),
        cmocka_unit_test(test_with_lost_memory_epochs_jump),
        cmocka_unit_test(test_more_than_64),
        cmocka_unit_test(test_advance_counts_whose_data_are_in),
        cmocka_unit_test(test_advance_of_what_was_carried),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
