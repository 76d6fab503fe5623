/* SPDX-License-Identifier: Apache-2.0 */
#include "astra_jobs.h"
#include "base/alloc.h"

static astra_job *open_job(const char *topology, uint32_t n)
{
    astra_job *job = malloc(sizeof *job);
    assert_non_null(job);
    astra_open(job);
    astra_one_dimension(job, topology, n);
    return job;
}

static void close_job(astra_job *job)
{
    astra_close(job);
    free(job);
}

/* Two computations in a row on one slot, one on the CPU beside them. */
static void test_one_of_each_in_flight(void **state)
{
    astra_job *job = open_job("Ring", 2);
    astra_graph g = astra_graph_new();
    (void)state;
    const orr_node_id a = astra_add(&g, ORR_NODE_COMPUTE, "a", 100);
    const orr_node_id b = astra_add(&g, ORR_NODE_COMPUTE, "b", 50);
    const orr_node_id host = astra_add(&g, ORR_NODE_HOST_OP, "host", 70);
    const orr_node_id none = astra_add(&g, ORR_NODE_COMPUTE, "none", 0); /* is replayed as 1 ns */
    astra_all_ranks(job, astra_graph_end(&g));
    const orr_astra_rank *rank = &astra_run(job, ORR_ASTRA_UNAWARE, true)->ranks[1];
    assert_int_equal(rank->start_ns[a], 0);
    assert_int_equal(rank->start_ns[b], 100);
    assert_int_equal(rank->start_ns[host], 0);
    assert_int_equal(rank->end_ns[none], 151);
    assert_int_equal(rank->finish_ns, 151);
    assert_int_equal(rank->compute_ns, 151);
    assert_int_equal(rank->exposed_ns, 0);
    close_job(job);
}

static void test_dependencies_and_skipped(void **state)
{
    astra_job *job = open_job("Ring", 2);
    astra_graph g = astra_graph_new();
    (void)state;
    const orr_node_id meta = astra_add(&g, ORR_NODE_META, "meta", 5);
    const orr_node_id first = astra_add(&g, ORR_NODE_COMPUTE, "first", 40);
    const orr_node_id second = astra_add(&g, ORR_NODE_COMPUTE, "second", 10);
    astra_wait(&g, first, meta);
    astra_wait(&g, second, first);
    astra_wait(&g, second, first); /* twice, as files have it */
    astra_all_ranks(job, astra_graph_end(&g));
    const orr_astra_rank *rank = &astra_run(job, ORR_ASTRA_UNAWARE, true)->ranks[0];
    assert_int_equal(rank->end_ns[meta], 0);
    assert_int_equal(rank->start_ns[second], 40);
    assert_int_equal(rank->finish_ns, 50);
    close_job(job);
}

/* 1 MiB in one chunk from the last arrival on; overlapped by the computation of rank 1. */
static void test_collective_waits_for_the_last(void **state)
{
    astra_job *job = open_job("Ring", 8);
    (void)state;
    for (uint32_t rank = 0; rank < 8; rank++) {
        astra_graph g = astra_graph_new();
        const orr_node_id compute = astra_add(&g, ORR_NODE_COMPUTE, "c", rank == 3 ? 9000 : 1000);
        const orr_node_id ar = astra_collective(&g, "ar", ORR_COLL_ALL_REDUCE, 1 << 20, NULL);
        astra_wait(&g, ar, compute);
        job->graphs[rank] = astra_graph_end(&g);
    }
    const orr_astra_result *result = astra_run(job, ORR_ASTRA_UNAWARE, true);
    assert_int_equal(result->n_simulated, 8);
    assert_int_equal(result->n_collectives, 1);
    assert_int_equal(result->collectives[0].first_ns, 1000);
    assert_int_equal(result->collectives[0].last_ns, 9000);
    assert_int_equal(result->collectives[0].end_ns, 9000 + 64440);
    assert_int_equal(result->ranks[3].finish_ns, 9000 + 64440);
    assert_int_equal(result->ranks[3].exposed_ns, 64440);
    close_job(job);
}

/* Unaware: 500 + 1,000,000 / 53.687 = 19,126 ns for one hop of the ring. */
static void test_send_and_receive(void **state)
{
    astra_job *job = open_job("Ring", 4);
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        astra_graph g = astra_graph_new();
        if (rank == 1)
            (void)astra_point_to_point(&g, true, 2, 5, 1000000);
        if (rank == 2) {
            const orr_node_id late = astra_add(&g, ORR_NODE_COMPUTE, "late", 50000);
            const orr_node_id recv = astra_point_to_point(&g, false, 1, 5, 1000000);
            const orr_node_id two = astra_point_to_point(&g, false, 1, 6, 10);
            astra_wait(&g, recv, late); /* the message is there before it is asked for */
            (void)two;
        }
        if (rank == 1) {
            (void)astra_point_to_point(&g, true, 2, 6, 10);
        }
        job->graphs[rank] = astra_graph_end(&g);
    }
    const orr_astra_result *result = astra_run(job, ORR_ASTRA_UNAWARE, true);
    assert_int_equal(result->ranks[1].end_ns[0], 19126);
    assert_int_equal(result->ranks[1].start_ns[1], 19126); /* one in flight */
    assert_int_equal(result->ranks[2].end_ns[1], 50000);
    assert_int_equal(result->ranks[2].end_ns[2], 19126 + 500); /* receives do not queue */
    assert_int_equal(result->ranks[0].finish_ns, 0);
    assert_int_equal(result->n_messages, 2);
    close_job(job);
}

/* Two messages over one link of a ring queue with congestion, and do not without. */
static void test_links_queue(void **state)
{
    astra_job *job = open_job("Ring", 6);
    (void)state;
    for (uint32_t rank = 0; rank < 6; rank++) {
        astra_graph g = astra_graph_new();
        if (rank < 2)
            (void)astra_point_to_point(&g, true, 2, 0, 1000000);
        if (rank == 2) {
            (void)astra_point_to_point(&g, false, 0, 0, 1000000);
            (void)astra_point_to_point(&g, false, 1, 0, 1000000);
        }
        job->graphs[rank] = astra_graph_end(&g);
    }
    const int64_t serial = 18626, one_link = 19126;
    const orr_astra_result *result = astra_run(job, ORR_ASTRA_UNAWARE, true);
    assert_int_equal(result->ranks[2].end_ns[0], 1000 + serial);
    assert_int_equal(result->ranks[2].end_ns[1], one_link);
    /* Store and forward: 0 -> 1 -> 2, the second link free again when it comes there. */
    result = astra_run(job, ORR_ASTRA_AWARE, true);
    assert_int_equal(result->ranks[2].end_ns[0], 2 * one_link);
    assert_int_equal(result->ranks[2].end_ns[1], one_link);
    close_job(job);
}

static void test_groups(void **state)
{
    static const uint32_t even[] = {0, 2}, odd[] = {3, 1};
    static const orr_astra_group groups[] = {{1, 2, even}, {2, 2, odd}};
    astra_job *job = open_job("FullyConnected", 4);
    (void)state;
    job->groups = (orr_astra_groups){2, groups};
    job->system.endpoint_delay_ns = 777; /* not that of a group: 10 */
    for (uint32_t rank = 0; rank < 4; rank++) {
        astra_graph g = astra_graph_new();
        (void)astra_collective(&g, "rs", ORR_COLL_REDUCE_SCATTER, 80000, rank % 2 ? "2" : "1");
        job->graphs[rank] = astra_graph_end(&g);
    }
    /* ring among 2, 4 chunks of 20,000: one message of 10,000, 2 endpoint delays, a reduction */
    const int64_t one = (int64_t)(500 + 10000 / (50.0 * (1 << 30) / 1e9)) + 20 + 3 * (10000 / 1600);
    const orr_astra_result *result = astra_run(job, ORR_ASTRA_UNAWARE, true);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(result->ranks[rank].finish_ns, 4 * one);
    assert_int_equal(result->n_collectives, 2);
    job->groups.n = 1;
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_INVALID);
    assert_non_null(strstr(job->err.text, "communication group 2, which the file"));
    close_job(job);
}

/* All ranks, in whatever order: as the system file says, with its endpoint delay. */
static void test_group_of_all(void **state)
{
    static const uint32_t all[] = {3, 1, 0, 2};
    static const orr_astra_group group = {7, 4, all};
    astra_job *job = open_job("Switch", 4);
    (void)state;
    job->groups = (orr_astra_groups){1, &group};
    job->system.endpoint_delay_ns = 777;
    astra_graph g = astra_graph_new();
    (void)astra_collective(&g, "ar", ORR_COLL_ALL_REDUCE, 80000, "7");
    astra_all_ranks(job, astra_graph_end(&g));
    const int64_t in_group = astra_finish_ns(job, ORR_ASTRA_UNAWARE, true);
    orr_graph_free(job->graphs[0]);
    astra_all_call(job, ORR_COLL_ALL_REDUCE, 80000);
    assert_int_equal(in_group, astra_finish_ns(job, ORR_ASTRA_UNAWARE, true));
    close_job(job);
}

static const char TWO_BY_TWO[] = "topology: [FullyConnected, FullyConnected]\nnpus_count: [2, 2]\n"
                                 "bandwidth: [50, 50]\nlatency: [500, 500]\n";

static int64_t hop_ns(int64_t bytes)
{
    return (int64_t)(500 + (double)bytes / (50.0 * (1 << 30) / 1e9));
}

/* "involved_dim" leaves a dimension out: two slices, each a ring of two. */
static void test_slices(void **state)
{
    static const uint8_t involved[] = {0, 1};
    astra_job *job = open_job("Ring", 2);
    (void)state;
    astra_network(job, TWO_BY_TWO);
    job->system.n_ways[ORR_ASTRA_ALL_REDUCE] = 2;
    astra_graph g = astra_graph_new();
    const orr_node_id ar = astra_collective(&g, "ar", ORR_COLL_ALL_REDUCE, 80000, NULL);
    const orr_attr attr = {.name = astra_str(&g, "involved_dim"),
                           .kind = ORR_ATTR_BOOL,
                           .list = true,
                           .count = 2,
                           .values = involved};
    assert_int_equal(orr_builder_attrs(g.builder, ar, &attr, 1, NULL), ORR_OK);
    astra_all_ranks(job, astra_graph_end(&g));
    const int64_t one = 2 * hop_ns(10000) + 3 * 10 + 3 * (10000 / 1600);
    for (int fold = 0; fold < 2; fold++) {
        assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, fold), 4 * one);
        assert_int_equal(job->result.n_messages, 2 * 4 * 2 * 2);
        assert_int_equal(job->result.n_simulated, fold ? 1 : 4);
    }
    close_job(job);
}

/* One ring through both dimensions; every neighbour is one hop away. */
static void test_one_ring(void **state)
{
    astra_job *job = open_job("Ring", 2);
    (void)state;
    astra_network(job, TWO_BY_TWO);
    job->system.ways[ORR_ASTRA_ALL_REDUCE][0].one = true;
    astra_all_call(job, ORR_COLL_ALL_REDUCE, 80000);
    const int64_t one = 6 * hop_ns(5000) + 7 * 10 + 3 * 3 * (5000 / 1600);
    assert_int_equal(astra_finish_ns(job, ORR_ASTRA_UNAWARE, true), 4 * one);
    close_job(job);
}

/* Rank 0 calls a, then b; rank 1 b, then a. */
static void test_crossed_collectives(void **state)
{
    static const uint32_t both[] = {0, 1};
    static const orr_astra_group groups[] = {{1, 2, both}, {2, 2, both}};
    astra_job *job = open_job("Ring", 4);
    (void)state;
    job->groups = (orr_astra_groups){2, groups};
    for (uint32_t rank = 0; rank < 4; rank++) {
        astra_graph g = astra_graph_new();
        if (rank < 2) {
            const orr_node_id first =
                astra_collective(&g, rank ? "b" : "a", ORR_COLL_ALL_REDUCE, 1000, rank ? "2" : "1");
            const orr_node_id second =
                astra_collective(&g, rank ? "a" : "b", ORR_COLL_ALL_REDUCE, 1000, rank ? "1" : "2");
            astra_wait(&g, second, first);
        }
        job->graphs[rank] = astra_graph_end(&g);
    }
    for (int mode = 0; mode <= ORR_ASTRA_MODEL; mode++) {
        assert_int_equal(astra_try(job, (orr_astra_mode)mode, true), ORR_CANCELED);
        assert_string_equal(job->err.text,
                            "deadlock: rank 0 'a' (node 1) waits for rank 1, which is in 'b' "
                            "(node 1) and waits for rank 0");
    }
    close_job(job);
}

static void test_receive_of_nothing(void **state)
{
    astra_job *job = open_job("Ring", 2);
    (void)state;
    for (uint32_t rank = 0; rank < 2; rank++) {
        astra_graph g = astra_graph_new();
        if (rank == 0)
            (void)astra_point_to_point(&g, false, 1, 3, 100);
        job->graphs[rank] = astra_graph_end(&g);
    }
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_CANCELED);
    assert_string_equal(job->err.text,
                        "deadlock: rank 0 'recv' (node 1) waits for rank 1, which has "
                        "finished without it");
    close_job(job);
}

/* Rank 1 calls another collective than all others where they meet. */
static void test_unlike_collectives(void **state)
{
    astra_job *job = open_job("Ring", 4);
    (void)state;
    for (uint32_t rank = 0; rank < 4; rank++) {
        astra_graph g = astra_graph_new();
        (void)astra_collective(&g, rank == 1 ? "gather" : "reduce",
                               rank == 1 ? ORR_COLL_ALL_GATHER : ORR_COLL_ALL_REDUCE, 4096, NULL);
        job->graphs[rank] = astra_graph_end(&g);
    }
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_CANCELED);
    assert_string_equal(job->err.text,
                        "deadlock: rank 0 'reduce' (node 1) waits for rank 1, which is in 'gather' "
                        "(node 1) and waits for rank 0");
    close_job(job);
}

static void test_roofline(void **state)
{
    astra_job *job = open_job("Ring", 2);
    const int64_t ops = 1000000000, size = 4000000, none = 0;
    (void)state;
    job->system.roofline = true;
    job->system.peak_flops = 100e12;
    job->system.local_bytes_per_ns = 1000;
    astra_graph g = astra_graph_new();
    const orr_node_id bound = astra_add(&g, ORR_NODE_COMPUTE, "bound", 77);
    const orr_node_id skipped = astra_add(&g, ORR_NODE_COMPUTE, "skipped", 77);
    const orr_attr attrs[] = {
        {.name = astra_str(&g, "num_ops"), .kind = ORR_ATTR_INT64, .count = 1, .values = &ops},
        {.name = astra_str(&g, "tensor_size"),
         .kind = ORR_ATTR_UINT64,
         .count = 1,
         .values = &size}};
    const orr_attr nothing[] = {
        attrs[0], {.name = attrs[1].name, .kind = ORR_ATTR_UINT64, .count = 1, .values = &none}};
    assert_int_equal(orr_builder_attrs(g.builder, bound, attrs, 2, NULL), ORR_OK);
    assert_int_equal(orr_builder_attrs(g.builder, skipped, nothing, 2, NULL), ORR_OK);
    astra_all_ranks(job, astra_graph_end(&g));
    /* 250 FLOP a byte x 1 TB/s is more than the peak: 10^9 / 10^14 s */
    const orr_astra_rank *rank = &astra_run(job, ORR_ASTRA_UNAWARE, true)->ranks[0];
    assert_int_equal(rank->end_ns[bound], 10000);
    assert_int_equal(rank->finish_ns, 10000);
    close_job(job);
    job = open_job("Ring", 2);
    job->system.roofline = true;
    job->system.peak_flops = 100e12;
    g = astra_graph_new();
    (void)astra_add(&g, ORR_NODE_COMPUTE, "unknown", 77);
    astra_all_ranks(job, astra_graph_end(&g));
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_INVALID);
    assert_non_null(strstr(job->err.text, "needs its num_ops and tensor_size"));
    close_job(job);
}

static void test_infeasible(void **state)
{
    astra_job *job = open_job("Ring", 6);
    (void)state;
    job->system.ways[ORR_ASTRA_ALL_REDUCE][0].algorithm = ORR_ASTRA_HALVING_DOUBLING;
    astra_all_call(job, ORR_COLL_ALL_REDUCE, 1000);
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_INVALID);
    assert_non_null(strstr(job->err.text, "halvingDoubling among 6 ranks"));
    job->system.n_ways[ORR_ASTRA_ALL_REDUCE] = 0;
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_INVALID);
    assert_non_null(strstr(job->err.text, "no all-reduce-implementation"));
    close_job(job);
    job = open_job("Ring", 2);
    astra_graph g = astra_graph_new();
    (void)astra_collective(&g, "barrier", ORR_COLL_BARRIER, 0, NULL);
    astra_all_ranks(job, astra_graph_end(&g));
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_UNSUPPORTED);
    assert_non_null(strstr(job->err.text, "rank 0: node 1 'barrier'"));
    job->graphs[1] = NULL;
    assert_int_equal(astra_try(job, ORR_ASTRA_UNAWARE, true), ORR_INVALID);
    assert_non_null(strstr(job->err.text, "rank 1 has no trace"));
    close_job(job);
}

/* A tree: leaves to the root and back. Four ranks, root last: 0 and 2 are leaves, 1 between. */
static void test_tree(void **state)
{
    astra_job *job = open_job("FullyConnected", 4);
    (void)state;
    job->system.ways[ORR_ASTRA_ALL_REDUCE][0].algorithm = ORR_ASTRA_DOUBLE_BINARY_TREE;
    job->system.splits = 1;
    astra_all_call(job, ORR_COLL_ALL_REDUCE, 16000);
    const int64_t hop = (int64_t)(500 + 16000 / (50.0 * (1 << 30) / 1e9)), sum = 10 + 3 * 10;
    /* up: leaf packs, two hops, two reductions; down: two hops, one copy that is paid as a
     * reduction, and the leaf's own */
    const int64_t up = 10 + hop + sum + hop + sum;
    const orr_astra_result *result = astra_run(job, ORR_ASTRA_UNAWARE, true);
    assert_int_equal(result->ranks[3].finish_ns, up);
    assert_int_equal(result->ranks[1].finish_ns, up + hop + sum);
    assert_int_equal(result->ranks[0].finish_ns, up + hop + sum + hop + 10);
    assert_int_equal(result->n_messages, 6);
    assert_int_equal(result->n_simulated, 4);
    close_job(job);
}

/* Every allocation that fails is survived. */
static void test_no_memory(void **state)
{
    astra_job *job = open_job("Switch", 4);
    (void)state;
    job->system.splits = 2;
    for (uint32_t rank = 0; rank < 4; rank++) {
        astra_graph g = astra_graph_new();
        const orr_node_id c = astra_add(&g, ORR_NODE_COMPUTE, "c", 100 + rank);
        const orr_node_id ar = astra_collective(&g, "ar", ORR_COLL_ALL_REDUCE, 5000, NULL);
        astra_wait(&g, ar, c);
        (void)astra_point_to_point(&g, true, (rank + 1) % 4, 1, 100);
        (void)astra_point_to_point(&g, false, (rank + 3) % 4, 1, 100);
        job->graphs[rank] = astra_graph_end(&g);
    }
    for (int mode = 0; mode <= ORR_ASTRA_MODEL; mode++) {
        orr_status status = ORR_NO_MEMORY;
        for (uint64_t nth = 1; status == ORR_NO_MEMORY; nth++) {
            orr_alloc_fail_from(nth);
            status = astra_try(job, (orr_astra_mode)mode, true);
            orr_alloc_fail_from(0);
            assert_true(nth < 2000);
        }
        assert_int_equal(status, ORR_OK);
    }
    close_job(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_of_each_in_flight),
        cmocka_unit_test(test_dependencies_and_skipped),
        cmocka_unit_test(test_collective_waits_for_the_last),
        cmocka_unit_test(test_send_and_receive),
        cmocka_unit_test(test_links_queue),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_group_of_all),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_one_ring),
        cmocka_unit_test(test_crossed_collectives),
        cmocka_unit_test(test_receive_of_nothing),
        cmocka_unit_test(test_unlike_collectives),
        cmocka_unit_test(test_roofline),
        cmocka_unit_test(test_infeasible),
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
