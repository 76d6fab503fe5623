/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/comm_events.h"

#include "graphs.h"

static orr_comm comm_of(orr_collective collective, int32_t size, int32_t peer, int64_t seq)
{
    orr_comm comm = no_comm;
    comm.collective = (uint8_t)collective;
    comm.group_size = size;
    comm.peer = peer;
    comm.seq = seq;
    return comm;
}

/* Rank 0 reduces twice (the later node first) and sends to 1; rank 1 receives and reduces. */
static const orr_job *small_job(void)
{
    const orr_graph *graphs[2];
    const orr_comm reduce = comm_of(ORR_COLL_ALL_REDUCE, 2, -1, 5);
    const orr_comm send = comm_of(ORR_COLL_SEND, 2, 1, 5), recv = comm_of(ORR_COLL_RECV, 2, 0, 6);
    const orr_comm nobody = comm_of(ORR_COLL_RECV, -1, -1, -1);
    orr_graph_builder *b = new_builder();
    b->recording.rank = 0;
    b->recording.base_ns = 1000;
    comm_node(b, ORR_NODE_COLLECTIVE, 50, 10, &reduce);
    comm_node(b, ORR_NODE_COLLECTIVE, 0, 10, &reduce);
    comm_node(b, ORR_NODE_SEND, 20, 5, &send);
    comm_node(b, ORR_NODE_HOST_OP, 0, 80, &reduce);
    graphs[0] = built(b);
    b = new_builder();
    b->recording.rank = 1;
    comm_node(b, ORR_NODE_RECV, ORR_TIME_NONE, 5, &recv);
    comm_node(b, ORR_NODE_COLLECTIVE, 7, 10, &reduce);
    comm_node(b, ORR_NODE_RECV, 9, 1, &nobody);
    graphs[1] = built(b);
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    return job;
}

static void same_call(const orr_comm_event *got, uint32_t line, orr_member at, int64_t start_ns,
                      int64_t end_ns, int64_t seq)
{
    assert_int_equal(got->line, line);
    assert_int_equal(got->at.graph, at.graph);
    assert_int_equal(got->at.node, at.node);
    assert_int_equal(got->start_ns, start_ns);
    assert_int_equal(got->end_ns, end_ns);
    assert_int_equal(got->seq, seq);
}

static void same_key(const orr_match_bucket_key *key, orr_collective collective, int32_t size,
                     uint32_t from, uint32_t to)
{
    assert_int_equal(key->group, ORR_NONE);
    assert_int_equal(key->collective, collective);
    assert_int_equal(key->size, size);
    assert_int_equal(key->from, from);
    assert_int_equal(key->to, to);
}

static void test_buckets_and_lines(void **state)
{
    (void)state;
    const orr_job *job = small_job();
    orr_comm_events calls;
    OK(orr_comm_events_collect(job, &calls, NULL));
    assert_int_equal(calls.n, 6);
    assert_int_equal(calls.buckets.n, 3);
    const orr_match_bucket *b = calls.buckets.at;
    same_key(&b[0].key, ORR_COLL_ALL_REDUCE, 2, ORR_NONE, ORR_NONE);
    assert_int_equal(b[0].n, 3);
    same_call(&calls.at[b[0].first], 0, (orr_member){0, 1}, 1000, 1010, 5);
    same_call(&calls.at[b[0].first + 1], 0, (orr_member){0, 0}, 1050, 1060, 5);
    same_call(&calls.at[b[0].first + 2], 1, (orr_member){1, 1}, 7, 17, 5);
    assert_int_equal(orr_comm_line_end(calls.at + b[0].first, 0, b[0].n), 2);
    assert_int_equal(orr_comm_line_end(calls.at + b[0].first, 2, b[0].n), 3);
    same_key(&b[1].key, ORR_COLL_SEND, -1, 0, 1);
    assert_int_equal(b[1].n, 2);
    same_call(&calls.at[b[1].first], 0, (orr_member){0, 2}, 1020, 1025, -1);
    same_call(&calls.at[b[1].first + 1], 1, (orr_member){1, 0}, ORR_TIME_NONE, ORR_TIME_NONE, -1);
    same_key(&b[2].key, ORR_COLL_SEND, -1, ORR_NONE, 1);
    orr_comm_events_done(&calls);
    orr_job_free(job);
}

static void test_failed_allocations(void **state)
{
    (void)state;
    const orr_job *job = small_job();
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 1;
    for (; status != ORR_OK; nth++) {
        orr_comm_events calls;
        orr_alloc_fail_from(nth);
        status = orr_comm_events_collect(job, &calls, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_comm_events_done(&calls);
    }
    assert_true(nth > 4);
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets_and_lines),
        cmocka_unit_test(test_failed_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
