/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/groups.h"
#include "toy.h"

static orr_node_id transfer_of(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (orr_synthesis_communicates(g, v))
            return v;
    fail_msg("no communication");
    return ORR_NONE;
}

typedef struct scaled {
    orr_arena *arena;
    const orr_job *job;
    orr_source source;
    orr_membership membership;
} scaled;

static scaled scale(toy t)
{
    scaled s = {.arena = orr_arena_new(0, 0), .job = toy_job(t)};
    orr_error err = {0};
    toy_must(orr_source_learn(s.job, "ProfilerStep", s.arena, &s.source, &err), &err);
    s.membership = orr_membership_of(&s.source, 0, transfer_of(s.job->graphs[0]));
    return s;
}

static orr_group group_of(scaled *s, uint32_t rank, uint32_t n)
{
    orr_group group;
    const char *name;
    orr_error err = {0};
    toy_must(
        orr_membership_group(&s->source, &s->membership, rank, n, s->arena, &group, &name, &err),
        &err);
    return group;
}

static bool allows(scaled *s, uint32_t n)
{
    orr_error err = {0};
    return orr_membership_check(&s->source, n, &err) == ORR_OK;
}

static void drop(scaled *s)
{
    orr_job_free(s->job);
    orr_arena_free(s->arena);
}

static void groups_of_all_ranks_are_of_all(void **state)
{
    (void)state;
    scaled s = scale((toy){.ranks = 4, .steps = 1, .operators = 8});
    assert_int_equal(s.membership.kind, ORR_MEMBERS_ALL);
    for (uint32_t n = 1; n <= 64; n++)
        assert_true(allows(&s, n));
    assert_int_equal(group_of(&s, 5, 30).size, 30);
    drop(&s);
}

static void groups_spread_over_all_ranks_widen(void **state)
{
    (void)state;
    scaled s = scale((toy){.ranks = 4, .steps = 1, .operators = 8, .stride = 2});
    assert_int_equal(s.membership.kind, ORR_MEMBERS_STRIDED);
    assert_true(allows(&s, 64) && allows(&s, 4) && !allows(&s, 2) && !allows(&s, 7));
    const orr_group group = group_of(&s, 5, 64);
    assert_int_equal(group.size, 32);
    assert_int_equal(group.start, 1);
    assert_int_equal(group.stride, 2);
    drop(&s);
}

static void other_groups_stay_in_their_copy(void **state)
{
    (void)state;
    scaled s = scale((toy){.ranks = 4, .steps = 1, .operators = 8, .row = 2});
    assert_int_equal(s.membership.kind, ORR_MEMBERS_OF_COPY);
    assert_true(allows(&s, 64) && allows(&s, 8) && !allows(&s, 6));
    const orr_group group = group_of(&s, 9, 64);
    assert_int_equal(group.size, 2);
    assert_int_equal(group.ranks[0], 8);
    assert_int_equal(group.ranks[1], 9);
    drop(&s);
}

static void sends_stay_in_their_copy(void **state)
{
    (void)state;
    scaled s = scale((toy){.ranks = 4, .steps = 1, .operators = 8, .pairs = true});
    assert_int_equal(s.membership.kind, ORR_MEMBERS_PAIR);
    assert_int_equal(orr_membership_peer(&s.source, &s.membership, 8), 9);
    assert_true(allows(&s, 12) && !allows(&s, 6));
    drop(&s);
}

static void one_recorded_rank_stands_for_all(void **state)
{
    (void)state;
    scaled row = scale((toy){.ranks = 8, .steps = 1, .operators = 8, .row = 4, .recorded = 1});
    assert_int_equal(row.membership.kind, ORR_MEMBERS_IN_A_ROW);
    assert_true(allows(&row, 12) && !allows(&row, 6));
    assert_int_equal(group_of(&row, 9, 12).start, 8);
    drop(&row);
    scaled strided =
        scale((toy){.ranks = 8, .steps = 1, .operators = 8, .stride = 2, .recorded = 1});
    assert_int_equal(strided.membership.kind, ORR_MEMBERS_STRIDED);
    assert_int_equal(group_of(&strided, 9, 12).size, 6);
    drop(&strided);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_all_ranks_are_of_all),
        cmocka_unit_test(groups_spread_over_all_ranks_widen),
        cmocka_unit_test(other_groups_stay_in_their_copy),
        cmocka_unit_test(sends_stay_in_their_copy),
        cmocka_unit_test(one_recorded_rank_stands_for_all),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
