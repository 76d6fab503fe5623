/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/job.h"

#include "graphs.h"

#define MS INT64_C(1000000)

static orr_comm collective(int32_t group_size)
{
    orr_comm comm = no_comm;
    comm.collective = ORR_COLL_ALL_REDUCE;
    comm.group_size = group_size;
    return comm;
}

/* Ends of one collective after another, on this rank's clock. */
static const orr_graph *rank_graph(uint32_t rank, int64_t base_ns, const int64_t *ends, size_t n)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rank;
    b->recording.base_ns = base_ns;
    const orr_comm comm = collective(-1);
    for (size_t i = 0; i < n; i++)
        comm_node(b, ORR_NODE_COLLECTIVE, ends[i] - 9 * MS, 9 * MS, &comm);
    return built(b);
}

static void test_median_of_the_ends(void **state)
{
    (void)state;
    const int64_t a[5] = {10 * MS, 20 * MS, 30 * MS, 40 * MS, 50 * MS};
    /* Behind by 7 ms, but for two that were disturbed. */
    const int64_t b[5] = {3 * MS, 13 * MS + 2, 29 * MS, 33 * MS - 1, 49 * MS};
    const orr_graph *graphs[2] = {rank_graph(1, 0, b, 5), rank_graph(0, 0, a, 5)};
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    assert_int_equal(job->clock_offset_ns[0], 0);
    assert_int_equal(job->clock_offset_ns[1], 7 * MS - 2);
    orr_job_free(job);
}

/* Matches may be wrong while the clocks are found: three that agree outvote a median that has
 * no friends, and a shared clock as many that agree elsewhere. */
static void test_what_many_agree_on(void **state)
{
    (void)state;
    int64_t a[7], b[7];
    static const int64_t off_ms[2][7] = {{-90, 70, 70, 70, 30, -10, -50},
                                         {0, 0, 50, 50, 20, 90, 70}};
    static const int64_t want_ms[2] = {70, 0};
    for (size_t k = 0; k < 2; k++) {
        for (int i = 0; i < 7; i++) {
            a[i] = (i + 1) * 1000 * MS;
            b[i] = a[i] - off_ms[k][i] * MS;
        }
        const orr_graph *graphs[2] = {rank_graph(0, 0, a, 7), rank_graph(1, 0, b, 7)};
        const orr_job *job;
        OK(orr_job_build(graphs, 2, &job, NULL));
        assert_int_equal(job->clock_offset_ns[1], want_ms[k] * MS);
        orr_job_free(job);
    }
}

/* With the first match the median is -7 ms; but then the first cannot be, and without it, it is
 * the second of the others. */
static void test_again_without_what_cannot_be(void **state)
{
    (void)state;
    static const int64_t off_ms[4] = {-40, -7, -3, 2};
    int64_t a[4], b[4];
    for (int i = 0; i < 4; i++) {
        a[i] = (i + 1) * 1000 * MS;
        b[i] = a[i] - off_ms[i] * MS;
    }
    const orr_graph *graphs[2] = {rank_graph(0, 0, a, 4), rank_graph(1, 0, b, 4)};
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    assert_int_equal(job->n_matches, 3);
    assert_int_equal(job->clock_offset_ns[1], -3 * MS);
    orr_job_free(job);
}

static void test_shared_clocks_stay_as_they_are(void **state)
{
    (void)state;
    const int64_t a[3] = {10 * MS, 20 * MS, 30 * MS};
    for (int64_t off = MS - 1; off <= MS + 1; off++) {
        const int64_t b[3] = {a[0] + off, a[1] + off, a[2] + off};
        const orr_graph *graphs[2] = {rank_graph(0, 0, a, 3), rank_graph(1, 0, b, 3)};
        const orr_job *job;
        OK(orr_job_build(graphs, 2, &job, NULL));
        assert_int_equal(job->clock_offset_ns[1], off <= MS ? 0 : -off);
        orr_job_free(job);
    }
}

static void test_bases_far_apart(void **state)
{
    (void)state;
    const int64_t ends[3] = {10 * MS, 20 * MS, 30 * MS};
    const orr_graph *graphs[2] = {rank_graph(0, INT64_MAX / 2, ends, 3),
                                  rank_graph(1, INT64_MIN / 2, ends, 3)};
    const orr_job *job;
    OK(orr_job_build(graphs, 2, &job, NULL));
    for (orr_node_id v = 0; v < 3; v++) /* to the last ns, or the one that the range cut off */
        assert_in_range(orr_job_start_ns(job, 1, v) - orr_job_start_ns(job, 0, v) + 1, 0, 2);
    orr_job_free(job);
}

/* Without a clock, and without a communication that would tell: it begins with the others. */
static void test_a_clock_of_another_origin(void **state)
{
    (void)state;
    const int64_t epoch_ns = INT64_C(1700000000) * 1000000000;
    const int64_t base_ns[4] = {epoch_ns + 5 * MS, 0, epoch_ns, 3 * MS};
    const orr_graph *graphs[4];
    const orr_job *job;
    for (uint32_t r = 0; r < 4; r++) {
        orr_graph_builder *b = new_builder();
        b->recording.rank = r;
        b->recording.base_ns = base_ns[r];
        node(b, "work", 0, MS, ORR_NONE);
        graphs[r] = built(b);
    }
    OK(orr_job_build(graphs, 4, &job, NULL));
    const int64_t want[4] = {5 * MS, 0, 0, 3 * MS};
    for (uint32_t d = 0; d < 4; d++)
        assert_int_equal(orr_job_start_ns(job, d, 0), want[d]);
    orr_job_free(job);
}

static const orr_graph *graph_of(uint32_t rank, int64_t base_ns, const orr_comm *comms,
                                 const orr_node_kind *kinds, size_t n)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = rank;
    b->recording.base_ns = base_ns;
    for (size_t i = 0; i < n; i++)
        comm_node(b, kinds[i], (int64_t)i * 10 * MS, MS, &comms[i]);
    return built(b);
}

/* 0 and 1 share a collective, 1 and 2 share a send; 3 and 4 share one with nobody else. */
static void test_along_a_chain_and_islands(void **state)
{
    (void)state;
    orr_comm send = no_comm, recv = no_comm;
    send.collective = ORR_COLL_SEND;
    send.peer = 2;
    recv.collective = ORR_COLL_RECV;
    recv.peer = 1;
    const orr_comm first[1] = {collective(2)}, middle[2] = {collective(2), send};
    const orr_comm last[2] = {recv, no_comm}, island[1] = {collective(5)};
    const orr_node_kind one[1] = {ORR_NODE_COLLECTIVE};
    const orr_node_kind mixed[2] = {ORR_NODE_COLLECTIVE, ORR_NODE_SEND};
    const orr_node_kind receives[1] = {ORR_NODE_RECV};
    const orr_graph *graphs[5] = {
        graph_of(0, 0, first, one, 1),
        graph_of(1, 100 * MS, middle, mixed, 2),
        graph_of(2, 300 * MS, last, receives, 1),
        graph_of(3, 500 * MS, island, one, 1),
        graph_of(4, 700 * MS, island, one, 1),
    };
    const orr_job *job;
    OK(orr_job_build(graphs, 5, &job, NULL));
    /* base of 2 is when its recv starts: it ends with the send, 10 ms after the base of 1. */
    const int64_t want[5] = {0, -100 * MS, -290 * MS, 0, -200 * MS};
    assert_memory_equal(job->clock_offset_ns, want, sizeof want);
    assert_int_equal(job->base_ns, 0);
    orr_job_free(job);
}

static void test_median(void **state)
{
    (void)state;
    int64_t odd[5] = {9, -4, INT64_MIN, INT64_MAX, 2}, even[4] = {4, 1, 3, 2};
    assert_int_equal(orr_ns_median(odd, 5), 2);
    assert_int_equal(orr_ns_median(even, 4), 2);
    assert_int_equal(orr_ns_median(even, 1), 1);
}

static void test_sums_stop_at_the_ends_of_time(void **state)
{
    (void)state;
    assert_int_equal(orr_ns_add_saturating(INT64_MAX, 1), INT64_MAX);
    assert_int_equal(orr_ns_add_saturating(INT64_MIN + 1, -5), INT64_MIN + 1);
    assert_int_equal(orr_ns_sub_saturating(INT64_MAX, -1), INT64_MAX);
    assert_int_equal(orr_ns_sub_saturating(INT64_MIN + 1, 5), INT64_MIN + 1);
    assert_int_equal(orr_ns_sub_saturating(3, 5), -2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_median_of_the_ends),
        cmocka_unit_test(test_what_many_agree_on),
        cmocka_unit_test(test_again_without_what_cannot_be),
        cmocka_unit_test(test_shared_clocks_stay_as_they_are),
        cmocka_unit_test(test_bases_far_apart),
        cmocka_unit_test(test_a_clock_of_another_origin),
        cmocka_unit_test(test_along_a_chain_and_islands),
        cmocka_unit_test(test_median),
        cmocka_unit_test(test_sums_stop_at_the_ends_of_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
