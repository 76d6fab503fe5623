/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/ensemble.h>

#include "rows.h"

/* Rank 0 and 1 meet twice in one group of three, all three once; rank 1 waited for rank 0. */
static const orr_job *three_ranks(void)
{
    const orr_graph *graphs[3];
    for (uint32_t rank = 0; rank < 3; rank++) {
        orr_graph_builder *b = new_builder();
        b->recording.rank = rank;
        b->recording.base_ns = 1000 + 10 * rank;
        for (int64_t seq = 0; seq < 3; seq++) {
            if (rank == 2 && seq == 1)
                continue;
            orr_comm comm = no_comm;
            comm.collective = ORR_COLL_ALL_REDUCE;
            comm.group_size = 3;
            comm.seq = seq;
            comm_node(b, ORR_NODE_COLLECTIVE, seq * MS, 500 + 100 * rank + seq, &comm);
        }
        graphs[rank] = built(b);
    }
    const orr_job *job;
    OK(orr_job_build(graphs, 3, &job, NULL));
    return job;
}

static orr_rendezvous_id meeting_of(const orr_ensemble *e, uint32_t d, uint32_t c)
{
    return e->rendezvous[d][c];
}

static void test_recorded_job(void **state)
{
    (void)state;
    const orr_job *job = three_ranks();
    assert_int_equal(job->n_matches, 3);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_ensemble *e;
    OK(orr_ensemble_of_job(job, arena, &e, NULL));
    assert_int_equal(e->n_ranks, 3);
    assert_int_equal(e->n_graphs, 3);
    assert_int_equal(e->n_groupings, 2);
    const int64_t starts[3] = {0, 10, 20};
    assert_memory_equal(e->start_ns, starts, sizeof starts);

    /* all three meet with numbers 0 and 2, two of them with number 1 */
    const orr_rendezvous_id pair = meeting_of(e, 0, 1), all = meeting_of(e, 0, 0);
    assert_int_not_equal(pair.grouping, all.grouping);
    assert_int_equal(meeting_of(e, 1, 1).grouping, pair.grouping);
    assert_int_equal(meeting_of(e, 1, 1).ordinal, pair.ordinal);
    assert_int_equal(meeting_of(e, 2, 1).grouping, all.grouping);
    assert_int_equal(meeting_of(e, 2, 1).ordinal, meeting_of(e, 0, 2).ordinal);
    assert_int_not_equal(meeting_of(e, 0, 2).ordinal, all.ordinal);
    const orr_grouping *of_pair = &e->groupings[pair.grouping];
    assert_int_equal(of_pair->first[1], 2);
    assert_int_equal(of_pair->group_of[2], ORR_NONE);
    assert_int_equal(e->groupings[all.grouping].first[1], 3);

    /* the member that waited for nobody tells how long it takes */
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t v = 0; v < job->graphs[d]->n_nodes; v++)
            assert_int_equal(e->duration_ns[d][v], 500 + (d == 2 && v == 1 ? 2 : (int)v));
    orr_arena_free(arena);
    orr_job_free(job);
}

static void test_nobody_to_meet(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    orr_comm comm = no_comm;
    comm.collective = ORR_COLL_ALL_REDUCE;
    comm_node(b, ORR_NODE_COLLECTIVE, 0, 5, &comm);
    const orr_graph *graph = built(b);
    const orr_job *job;
    OK(orr_job_build(&graph, 1, &job, NULL));
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_ensemble *e;
    OK(orr_ensemble_of_job(job, arena, &e, NULL));
    assert_int_equal(e->n_groupings, 0);
    assert_int_equal(meeting_of(e, 0, 0).grouping, ORR_NONE);
    assert_null(e->duration_ns[0]);
    orr_arena_free(arena);
    orr_job_free(job);
}

static void test_grouping(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const uint32_t group_of[7] = {1, 0, ORR_NONE, 1, 0, 2, 1};
    orr_grouping g;
    OK(orr_grouping_of("dp", group_of, 7, 3, arena, &g, NULL));
    const uint32_t first[4] = {0, 2, 5, 6}, members[6] = {1, 4, 0, 3, 6, 5};
    assert_memory_equal(g.first, first, sizeof first);
    assert_memory_equal(g.members, members, sizeof members);
    orr_arena_free(arena);
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    const orr_job *job = three_ranks();
    for (uint64_t nth = 1;; nth++) {
        orr_arena *arena = orr_arena_new(64, 0);
        const orr_ensemble *e = NULL;
        orr_alloc_fail_from(nth);
        const orr_status status = orr_ensemble_of_job(job, arena, &e, NULL);
        orr_alloc_fail_from(0);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_null(e);
        assert_true(nth < 1000);
    }
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_recorded_job),
        cmocka_unit_test(test_nobody_to_meet),
        cmocka_unit_test(test_grouping),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
