/* SPDX-License-Identifier: Apache-2.0 */
#include "../graph/graphs.h"

#include <orrery/trace.h>

#include "trace/common/attr_names.h"

enum { ANNOTATION, CALL, INNER, ELSEWHERE, KERNEL, LATER, CALLED, N };

/* An annotation over a call with an operator in it and the kernel that this launches; on another
 * thread, a node while the annotation is open; after it, a node, and one that the call called. */
static const orr_graph *annotated(const char *source)
{
    orr_graph_builder *b = new_builder();
    node(b, "phase", 0, 100, ORR_NONE);
    node(b, "call", 1, 50, ANNOTATION);
    node(b, "inner", 2, 40, CALL);
    node(b, "elsewhere", 99, 70, ORR_NONE);
    node(b, "kernel", 300, 10, ORR_NONE);
    node(b, "later", 100, 20, ORR_NONE);
    node(b, "called", 120, 20, ORR_NONE);
    b->kind[ANNOTATION] = ORR_NODE_ANNOTATION;
    b->kind[KERNEL] = ORR_NODE_COMPUTE;
    b->lane[KERNEL] = (uint16_t)lane(b, ORR_LANE_STREAM, 7);
    b->lane[ELSEWHERE] = (uint16_t)lane(b, ORR_LANE_HOST, 2);
    for (orr_node_id v = 0; v < N; v++)
        b->source_id[v] = 100 - v;
    dep(b, KERNEL, INNER, ORR_DEP_LAUNCH);
    dep(b, LATER, ANNOTATION, ORR_DEP_THREAD);
    dep(b, CALLED, CALL, ORR_DEP_CONTROL);
    const uint64_t dangling[] = {1, 0, 77};
    const orr_attr attrs[] = {{.name = str(b, ORR_NAME_CHAKRA_DANGLING),
                               .kind = ORR_ATTR_UINT64,
                               .list = true,
                               .count = 3,
                               .values = dangling},
                              {.name = str(b, "kept"), .kind = ORR_ATTR_NONE, .count = 1}};
    OK(orr_builder_attrs(b, ORR_NONE, attrs, 2, NULL));
    orr_builder_recording(b, &(orr_recording){.rank = ORR_NONE, .source = str(b, source)});
    return built(b);
}

static void assert_subtree(const char *source, const char *name, const char *want)
{
    const orr_graph *g = annotated(source);
    uint8_t keep[N] = {0};
    char got[N + 1] = "";
    OK(orr_trace_subtree(g, name, NULL, keep, NULL));
    for (orr_node_id v = 0; v < N; v++)
        got[v] = keep[v] ? '1' : '0';
    assert_string_equal(got, want);
    orr_graph_free(g);
}

static void test_what_a_subtree_holds(void **state)
{
    (void)state;
    assert_subtree("kineto 1", "phase", "1111101"); /* whatever began while it was open */
    assert_subtree("kineto 1", "call", "0110101");
    assert_subtree("kineto 1", "inner", "0010100");
    assert_subtree("kineto 1", "#2", "0010100");
    assert_subtree("chakra 1", "#98", "0010100"); /* the id in the file */
    const orr_graph *g = annotated("kineto 1");
    uint8_t keep[N];
    orr_error err;
    assert_int_equal(orr_trace_subtree(g, "nothing", NULL, keep, &err), ORR_NOT_FOUND);
    const uint8_t within[N] = {1};
    assert_int_equal(orr_trace_subtree(g, "call", within, keep, &err), ORR_NOT_FOUND);
    assert_int_equal(orr_trace_subtree(g, "#7", NULL, keep, &err), ORR_NOT_FOUND);
    orr_graph_free(g);
}

static void test_what_a_part_says_of_itself(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 2};
    static const uint8_t keep[N] = {1, 1};
    const orr_graph *g = annotated("kineto 1"), *part = NULL;
    orr_attr attr;
    OK(orr_trace_part(g, &(orr_part){keep, "step 3", ranks, 2, 2, 4}, &part, NULL));
    assert_int_equal(part->n_nodes, 2);
    assert_int_equal(part->rank, 2);
    assert_int_equal(part->world_size, 4);
    assert_true(orr_graph_find_attr(part, ORR_NONE, "kept", &attr));
    assert_false(orr_graph_find_attr(part, ORR_NONE, ORR_NAME_CHAKRA_DANGLING, &attr));
    assert_true(orr_graph_find_attr(part, ORR_NONE, ORR_NAME_PART, &attr));
    assert_string_equal(orr_graph_str(part, *(const orr_str *)attr.values), "step 3");
    assert_true(orr_graph_find_attr(part, ORR_NONE, ORR_NAME_SAMPLED_RANKS, &attr));
    assert_int_equal(attr.count, 2);
    assert_memory_equal(attr.values, ranks, sizeof ranks);
    orr_graph_free(part);
    OK(orr_trace_part(g, &(orr_part){0}, &part, NULL));
    assert_int_equal(part->n_nodes, N);
    assert_int_equal(part->rank, ORR_NONE);
    assert_false(orr_graph_find_attr(part, ORR_NONE, ORR_NAME_SAMPLED_RANKS, &attr));
    orr_graph_free(part);
    orr_graph_free(g);
}

static void test_each_failing_allocation(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {0, 2};
    const orr_graph *g = annotated("kineto 1"), *part = NULL;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 0;
    for (; status == ORR_NO_MEMORY; nth++) {
        uint8_t keep[N] = {0};
        orr_alloc_fail_from(nth + 1);
        status = orr_trace_subtree(g, "call", NULL, keep, NULL);
        if (status == ORR_OK)
            status = orr_trace_part(g, &(orr_part){keep, "call", ranks, 2, 0, 4}, &part, NULL);
        orr_alloc_fail_from(0);
    }
    OK(status);
    assert_true(nth > 20);
    orr_graph_free(part);
    orr_graph_free(g);
}

/* A rank of a job of four, with a collective of its pair, one of ranks 0 and 2, and a send. */
static const orr_graph *sampled_rank(uint32_t rank, int64_t seq, const uint32_t *sample, uint32_t n)
{
    static const uint32_t wide[] = {0, 2};
    const uint32_t near[] = {rank, rank + 1};
    orr_graph_builder *b = new_builder();
    const orr_group groups[] = {{.name = str(b, "near"), .size = 2, .ranks = near},
                                {.name = str(b, "wide"), .size = 2, .ranks = wide}};
    orr_comm comm = no_comm;
    comm.collective = ORR_COLL_ALL_REDUCE;
    comm.seq = seq;
    for (uint32_t i = 0; i < 2; i++) {
        OK(orr_builder_group(b, &groups[i], &comm.group, NULL));
        comm_node(b, ORR_NODE_COLLECTIVE, 10 * i, 5, &comm);
    }
    comm.collective = ORR_COLL_SEND;
    comm.peer = 1;
    comm_node(b, ORR_NODE_SEND, 20, 5, &comm); /* to rank 2 */
    const orr_attr attr = {.name = str(b, ORR_NAME_SAMPLED_RANKS),
                           .kind = ORR_ATTR_UINT32,
                           .list = true,
                           .count = n,
                           .values = sample};
    if (n > 0)
        OK(orr_builder_attrs(b, ORR_NONE, &attr, 1, NULL));
    orr_builder_recording(b, &(orr_recording){.rank = rank, .world_size = 4});
    return built(b);
}

static orr_job_sample sample_of(const orr_graph *const *graphs, uint32_t n, uint32_t *ret_unmatched)
{
    const orr_job *job;
    orr_job_sample sample;
    orr_arena *arena = orr_arena_new(0, 0);
    OK(orr_job_build(graphs, n, &job, NULL));
    OK(orr_job_sample_of(job, arena, &sample, NULL));
    *ret_unmatched = job->unmatched;
    orr_job_free(job);
    orr_arena_free(arena);
    return sample;
}

static void test_a_sample_of_ranks(void **state)
{
    (void)state;
    static const uint32_t pair[] = {0, 2}, all[] = {0, 1, 2, 3};
    uint32_t unmatched;
    const orr_graph *graphs[2] = {sampled_rank(0, 1, pair, 2), sampled_rank(2, 1, pair, 2)};
    orr_job_sample s = sample_of(graphs, 2, &unmatched);
    assert_non_null(s.sampled);
    assert_int_equal(s.n_sampled, 2);
    assert_int_equal(s.outside, 2); /* those of the group {0, 1}; the sends to rank 2 are faults */
    assert_int_equal(unmatched, 4);

    graphs[0] = sampled_rank(0, 1, pair, 2);
    graphs[1] = sampled_rank(2, 1, NULL, 0); /* says nothing of a sample */
    s = sample_of(graphs, 2, &unmatched);
    assert_null(s.sampled);
    assert_int_equal(s.outside, 0);

    graphs[0] = sampled_rank(0, 1, all, 4); /* everyone is no sample */
    s = sample_of(graphs, 1, &unmatched);
    assert_null(s.sampled);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_subtree_holds),
        cmocka_unit_test(test_what_a_part_says_of_itself),
        cmocka_unit_test(test_each_failing_allocation),
        cmocka_unit_test(test_a_sample_of_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
