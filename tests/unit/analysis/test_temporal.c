/* SPDX-License-Identifier: Apache-2.0 */
#include "comm_job.h"

static const orr_temporal *analyze(small *s, const orr_analysis_options *options, size_t *n)
{
    const orr_temporal *rows;
    assert_int_equal(orr_analyze_temporal(s->job, options, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

/* Computation [10,60) and [100,120); communication [40,90); memory [110,140); sync at the
 * end, which is not work. Span 130, idle 10 (90..100). */
static void add_device_work(small *s)
{
    const uint32_t a = small_stream(s, 0, 7), b = small_stream(s, 0, 20);
    small_work(s, ORR_NODE_COMPUTE, "gemm", a, 10, 50, ORR_NONE);
    small_work(s, ORR_NODE_COLLECTIVE, "ncclKernel_AllReduce", b, 40, 50, ORR_NONE);
    small_work(s, ORR_NODE_COMPUTE, "relu", a, 100, 20, ORR_NONE);
    small_work(s, ORR_NODE_COPY, "Memcpy DtoH", b, 110, 30, ORR_NONE);
    small_work(s, ORR_NODE_SYNC, "Stream Sync", a, 120, 80, ORR_NONE);
}

static void test_closed_form(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    add_device_work(&s);
    small_job(&s);
    const orr_temporal *row = analyze(&s, NULL, &n);
    assert_int_equal(n, 1);
    assert_false(row->host_only);
    assert_int_equal(row->span_ns, 130);
    assert_int_equal(row->idle_ns, 10);
    assert_int_equal(row->compute_ns, 70);
    assert_int_equal(row->non_compute_ns, 50);
    assert_int_equal(row->exposed_comm_ns, 30);
    assert_int_equal(row->exposed_memory_ns, 20);
    assert_float_equal(row->idle_frac, 10.0 / 130, 1e-12);
    small_end(&s);
}

/* Two threads; an operator that communicates computes in the operators inside it only. */
static void test_host_only(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    const uint32_t main_thread = small_thread(&s, 1), other = small_thread(&s, 2);
    const uint32_t op =
        small_node(&s, ORR_NODE_HOST_OP, "c10d::allreduce_", main_thread, 0, 100, ORR_NONE);
    small_node(&s, ORR_NODE_COLLECTIVE, "gloo:all_reduce", main_thread, 20, 60, op);
    small_node(&s, ORR_NODE_HOST_OP, "aten::add", main_thread, 85, 5, op); /* nested */
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", other, 50, 10, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "aten::mm", other, 150, 50, ORR_NONE);
    small_job(&s);
    const orr_temporal *row = analyze(&s, NULL, &n);
    assert_int_equal(n, 1);
    assert_true(row->host_only);
    assert_int_equal(row->span_ns, 180); /* from the collective on */
    assert_int_equal(row->idle_ns, 5 + 60);
    assert_int_equal(row->compute_ns, 5 + 10 + 50);
    assert_int_equal(row->exposed_comm_ns, 50);
    small_end(&s);
}

static void test_nothing_to_say(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n = 7;
    small_node(&s, ORR_NODE_ANNOTATION, "ProfilerStep#1", small_thread(&s, 1), 0, 10, ORR_NONE);
    small_job(&s);
    analyze(&s, NULL, &n);
    assert_int_equal(n, 0);
    small_end(&s);
}

static void test_one_row_a_rank(void **state)
{
    (void)state;
    small s = small_begin();
    size_t n;
    for (int rank = 0; rank < 3; rank++) {
        add_device_work(&s);
        small_rank(&s);
    }
    small_job(&s);
    const orr_temporal *rows = analyze(&s, NULL, &n);
    assert_int_equal(n, 3);
    for (uint32_t rank = 0; rank < 3; rank++)
        assert_int_equal(rows[rank].rank, rank);

    orr_analysis_options options = small_options();
    options.rank = 2;
    rows = analyze(&s, &options, &n);
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].rank, 2);
    options.rank = 99;
    analyze(&s, &options, &n);
    assert_int_equal(n, 0);
    small_end(&s);
}

/* Whatever runs when: the parts make the whole. */
static void test_parts_sum_to_span(void **state)
{
    (void)state;
    uint32_t seed = 4711;
    for (int round = 0; round < 200; round++) {
        small s = small_begin();
        uint32_t lanes[3];
        for (int i = 0; i < 3; i++)
            lanes[i] = small_stream(&s, 0, i);
        const orr_node_kind kinds[] = {ORR_NODE_COMPUTE, ORR_NODE_COLLECTIVE, ORR_NODE_SEND,
                                       ORR_NODE_COPY,    ORR_NODE_SET,        ORR_NODE_SYNC};
        const int n_work = 1 + round % 40;
        for (int i = 0; i < n_work; i++) {
            uint32_t r[4];
            for (int k = 0; k < 4; k++) {
                seed = seed * 1664525u + 1013904223u;
                r[k] = seed >> 10;
            }
            small_work(&s, kinds[r[0] % 6], "work", lanes[r[1] % 3], r[2] % 1000, r[3] % 50,
                       ORR_NONE);
        }
        small_job(&s);
        size_t n;
        const orr_temporal *row = analyze(&s, NULL, &n);
        if (n == 1) {
            assert_int_equal(row->idle_ns + row->compute_ns + row->non_compute_ns, row->span_ns);
            assert_int_equal(row->exposed_comm_ns + row->exposed_memory_ns, row->non_compute_ns);
            assert_true(row->idle_ns >= 0 && row->exposed_comm_ns >= 0 &&
                        row->exposed_memory_ns >= 0);
        }
        small_end(&s);
    }
}

static void test_allocation_failure(void **state)
{
    (void)state;
    small s = small_begin();
    add_device_work(&s);
    small_job(&s);
    const orr_temporal *rows = NULL;
    size_t n = 0;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_temporal(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 1);
    assert_int_equal(rows[0].span_ns, 130);
    small_end(&s);
}

/* Rank 0 is at the all-reduce at 100, rank 1 at 600, both leave at 1000: rank 0 computes until 300
 * of the 500 that it waits, and the other 300 are a bubble; 400 are transfer on both. */
static void test_a_wait_for_a_peer_is_a_bubble(void **state)
{
    static const int64_t arrival_ns[] = {100, 600}, compute_ns[] = {300, 600};
    (void)state;
    small s = small_begin();
    size_t n;
    for (int rank = 0; rank < 2; rank++) {
        const uint32_t compute = small_stream(&s, 0, 7), comm = small_stream(&s, 0, 20);
        const orr_group_id world = small_group(&s, "0", "", 2);
        small_work(&s, ORR_NODE_COMPUTE, "gemm", compute, 0, compute_ns[rank], ORR_NONE);
        small_comm(&s, ORR_COLL_ALL_REDUCE, world, 2, comm, arrival_ns[rank],
                   1000 - arrival_ns[rank], 8);
        small_rank(&s);
    }
    small_job(&s);
    const orr_temporal *row = analyze(&s, NULL, &n);
    assert_int_equal(n, 2);
    assert_int_equal(row[0].exposed_comm_ns, 700);
    assert_int_equal(row[0].bubble_ns, 300);
    assert_int_equal(row[1].exposed_comm_ns, 400);
    assert_int_equal(row[1].bubble_ns, 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wait_for_a_peer_is_a_bubble),
        cmocka_unit_test(test_closed_form),
        cmocka_unit_test(test_host_only),
        cmocka_unit_test(test_nothing_to_say),
        cmocka_unit_test(test_one_row_a_rank),
        cmocka_unit_test(test_parts_sum_to_span),
        cmocka_unit_test(test_allocation_failure),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
