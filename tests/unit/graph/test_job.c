/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/job.h"

#include "graphs.h"

static const orr_graph *rank_graph(uint32_t rank, uint32_t world_size, int64_t base_ns)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rank;
    b->recording.world_size = world_size;
    b->recording.base_ns = base_ns;
    node(b, "x", 0, 5, ORR_NONE);
    node(b, "y", ORR_TIME_NONE, 0, ORR_NONE);
    return built(b);
}

static void test_ranks(void **state)
{
    (void)state;
    const orr_graph *graphs[3] = {rank_graph(5, 8, 0), rank_graph(ORR_NONE, 0, 0),
                                  rank_graph(0, 8, 0)};
    const orr_job *job;
    OK(orr_job_build(graphs, 3, &job, NULL));
    assert_int_equal(job->n_ranks, 8);
    assert_int_equal(job->n_graphs, 3);
    assert_ptr_equal(job->graphs[0], graphs[2]);
    assert_ptr_equal(job->graphs[1], graphs[1]); /* took rank 1 */
    assert_ptr_equal(job->graphs[2], graphs[0]);
    const uint32_t graph_of[8] = {0, 1, ORR_NONE, ORR_NONE, ORR_NONE, 2, ORR_NONE, ORR_NONE};
    const uint32_t rank_of[3] = {0, 1, 5};
    assert_memory_equal(job->graph_of_rank, graph_of, sizeof graph_of);
    assert_memory_equal(job->rank_of_graph, rank_of, sizeof rank_of);
    assert_int_equal(job->n_matches, 0);
    assert_int_equal(job->unmatched, 0);
    assert_null(job->match_of[1]);
    orr_job_free(job);
    orr_job_free(NULL);
}

static void test_refuses(void **state)
{
    (void)state;
    orr_error err;
    const orr_job *job = NULL;
    const orr_graph *graphs[2] = {rank_graph(3, 0, 0), rank_graph(3, 0, 0)};
    assert_int_equal(orr_job_build(graphs, 2, &job, &err), ORR_INVALID);
    assert_string_equal(err.text, "two graphs of rank 3");
    assert_int_equal(orr_job_build(graphs, 0, &job, &err), ORR_INVALID);
    orr_graph_free(graphs[1]);
    graphs[1] = rank_graph(ORR_NONE - 1, 0, 0);
    assert_int_equal(orr_job_build(graphs, 2, &job, &err), ORR_LIMIT);
    assert_null(job);
    orr_graph_free(graphs[0]); /* still ours */
    orr_graph_free(graphs[1]);
}

static void test_axis(void **state)
{
    (void)state;
    const orr_graph *graphs[2] = {rank_graph(0, 2, 1000), rank_graph(1, 2, 400)};
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    assert_int_equal(job->base_ns, 400);
    assert_int_equal(orr_job_start_ns(job, 0, 0), 600);
    assert_int_equal(orr_job_start_ns(job, 1, 0), 0);
    assert_int_equal(orr_job_start_ns(job, 1, 1), ORR_TIME_NONE);
    orr_job_free(job);
}

/* Two all-reduces of two ranks; the second graph says the later one first. */
static void test_matches_by_first_start(void **state)
{
    (void)state;
    orr_comm barrier = no_comm, reduce = no_comm;
    barrier.collective = ORR_COLL_BARRIER;
    reduce.collective = ORR_COLL_ALL_REDUCE;
    const orr_graph *graphs[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_graph_builder *b = new_builder();
        b->recording.rank = rank;
        comm_node(b, ORR_NODE_COLLECTIVE, 50, 10, &reduce);
        comm_node(b, ORR_NODE_COLLECTIVE, 0, 10, &barrier);
        comm_node(b, ORR_NODE_HOST_OP, 0, 10, &barrier); /* above it: does not run itself */
        graphs[rank] = built(b);
    }
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    assert_int_equal(job->n_matches, 2);
    assert_int_equal(job->unmatched, 0);
    assert_int_equal(job->matches[0].collective, ORR_COLL_BARRIER);
    assert_int_equal(job->matches[0].group, ORR_NONE);
    assert_int_equal(job->matches[1].collective, ORR_COLL_ALL_REDUCE);
    for (uint32_t d = 0; d < 2; d++) {
        const uint32_t match_of[3] = {1, 0, ORR_NONE};
        assert_memory_equal(job->match_of[d], match_of, sizeof match_of);
        for (uint32_t m = 0; m < 2; m++) {
            const orr_member *member = &job->members[job->matches[m].first + d];
            assert_int_equal(member->graph, d);
            assert_int_equal(member->node, m == 0);
        }
    }
    orr_job_free(job);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    orr_comm comm = no_comm;
    const orr_graph *graphs[2];
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_graph_builder *b = new_builder();
        b->recording.rank = rank;
        const orr_group group = {.name = str(b, "dp"), .size = rank ? 2 : 0, .start = -1};
        OK(orr_builder_group(b, &group, &comm.group, NULL));
        comm.collective = ORR_COLL_ALL_REDUCE;
        for (int64_t i = 0; i < 5 + rank; i++)
            comm_node(b, ORR_NODE_COLLECTIVE, i * 10, 3, &comm);
        comm.group = ORR_NONE; /* and some that do not fit by order */
        comm.collective = ORR_COLL_BARRIER;
        for (int64_t i = 0; i < 3; i++)
            comm_node(b, ORR_NODE_COLLECTIVE, (1 + i + (i == 1 && rank)) * 100000000, 3, &comm);
        graphs[rank] = built(b);
    }
    const orr_job *job = NULL;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK; nth++) {
        orr_alloc_fail_from(nth);
        status = orr_job_build(graphs, 2, &job, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
    }
    assert_true(nth > 10);
    assert_int_equal(job->n_matches, 5 + 2);
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_axis),
        cmocka_unit_test(test_matches_by_first_start),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
