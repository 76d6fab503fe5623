/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/comm/collectives.h"

#include "comm_job.h"

static const orr_collective_row *analyze(small *s, const orr_analysis_options *options, size_t *n)
{
    const orr_collective_row *rows;
    assert_int_equal(orr_analyze_collectives(s->job, options, s->arena, &rows, n, &s->err), ORR_OK);
    return rows;
}

/* Four ranks arrive at 0, 100, 300, 200 and end together at 1300: the last one moved 4000 bytes in
 * 1000 ns. */
static void four_ranks(small *s)
{
    static const int64_t arrival_ns[] = {0, 100, 300, 200};
    *s = small_begin();
    for (int rank = 0; rank < 4; rank++) {
        const uint32_t gpu = small_stream(s, 0, 7);
        const orr_group_id world = small_group(s, "0", "default_pg", 4);
        small_comm(s, ORR_COLL_ALL_REDUCE, world, 4, gpu, arrival_ns[rank], 1300 - arrival_ns[rank],
                   4000);
        small_comm(s, ORR_COLL_BARRIER, ORR_NONE, -1, gpu, 2000, 50, -1); /* no group: by order */
        /* the graph's first start is 0 on its own axis; a mark keeps the axes of all alike */
        small_node(s, ORR_NODE_HOST_OP, "mark", small_thread(s, 1), 0, 1, ORR_NONE);
        small_rank(s);
    }
    small_job(s);
}

static void test_matched(void **state)
{
    (void)state;
    small s;
    four_ranks(&s);
    const orr_collective_row *rows;
    size_t n;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_collectives(s.job, NULL, s.arena, &rows, &n, &s.err));
    assert_int_equal(n, 2);
    const orr_collective_row *r = &rows[0];
    assert_string_equal(r->collective, "all_reduce");
    assert_string_equal(r->group, "default_pg");
    assert_string_equal(r->name, "all_reduce");
    assert_int_equal(r->members, 4);
    assert_int_equal(r->group_size, 4);
    assert_int_equal(r->start_ns, 0);
    assert_int_equal(r->duration_ns, 1300);
    assert_int_equal(r->skew_ns, 300);
    assert_int_equal(r->transfer_ns, 1000);
    assert_int_equal(r->last_rank, 2);
    assert_int_equal(r->bytes, 4000);
    assert_float_equal(r->algbw_bytes_per_s, 4e9, 1);
    assert_float_equal(r->busbw_bytes_per_s, 6e9, 1); /* 2 (n - 1) / n = 1.5 */

    r = &rows[1];
    assert_string_equal(r->collective, "barrier");
    assert_string_equal(r->group, "");
    assert_int_equal(r->members, 4);
    assert_int_equal(r->skew_ns, 0);
    assert_int_equal(r->bytes, -1);
    assert_true(r->algbw_bytes_per_s == 0 && r->busbw_bytes_per_s == 0);
    small_end(&s);
}

static void test_one_recorded_rank(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    const orr_group_id tp = small_group(&s, "12", "undefined", 8);
    small_comm(&s, ORR_COLL_REDUCE_SCATTER, tp, 8, gpu, 100, 1000, 8000);
    small_comm(&s, ORR_COLL_ALL_REDUCE, ORR_NONE, -1, gpu, 2000, 1000, 8000);
    small_work(&s, ORR_NODE_COLLECTIVE, "ncclKernel", gpu, 4000, 10, ORR_NONE); /* nothing known */
    small_work(&s, ORR_NODE_COMPUTE, "gemm", gpu, 5000, 10, ORR_NONE);
    small_job(&s);
    size_t n;
    const orr_collective_row *rows = analyze(&s, NULL, &n);
    assert_int_equal(n, 3);
    assert_string_equal(rows[0].group, "12"); /* PyTorch's "undefined" says nothing */
    assert_int_equal(rows[0].members, 1);
    assert_int_equal(rows[0].group_size, 8);
    assert_int_equal(rows[0].skew_ns, 0);
    assert_int_equal(rows[0].transfer_ns, 1000);
    assert_float_equal(rows[0].algbw_bytes_per_s, 8e9, 1);
    assert_float_equal(rows[0].busbw_bytes_per_s, 7e9, 1);
    /* of how many ranks is not known, so neither is the bus bandwidth of a ring */
    assert_int_equal(rows[1].group_size, 0);
    assert_float_equal(rows[1].algbw_bytes_per_s, 8e9, 1);
    assert_true(rows[1].busbw_bytes_per_s == 0);
    assert_string_equal(rows[2].collective, "unknown");
    assert_string_equal(rows[2].name, "ncclKernel");
    small_end(&s);
}

static void test_rank_and_step(void **state)
{
    (void)state;
    small s;
    four_ranks(&s);
    orr_analysis_options options = small_options();
    size_t n;
    options.rank = 1; /* it took part in both */
    assert_int_equal((analyze(&s, &options, &n), n), 2);
    options.step_first = 0; /* and recorded no step */
    assert_int_equal((analyze(&s, &options, &n), n), 0);
    small_end(&s);
}

/* The closed forms of "Performance reported by NCCL tests". */
static void test_busbw_factors(void **state)
{
    (void)state;
    static const struct {
        orr_collective collective;
        double of_8;
    } want[] = {
        {ORR_COLL_ALL_REDUCE, 14.0 / 8},
        {ORR_COLL_ALL_GATHER, 7.0 / 8},
        {ORR_COLL_REDUCE_SCATTER, 7.0 / 8},
        {ORR_COLL_ALL_TO_ALL, 7.0 / 8},
        {ORR_COLL_GATHER, 7.0 / 8},
        {ORR_COLL_SCATTER, 7.0 / 8},
        {ORR_COLL_BROADCAST, 1},
        {ORR_COLL_REDUCE, 1},
        {ORR_COLL_SEND, 1},
        {ORR_COLL_RECV, 1},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        assert_float_equal(orr_busbw_factor(want[i].collective, 8), want[i].of_8, 1e-12);
    assert_true(orr_busbw_factor(ORR_COLL_ALL_REDUCE, 1) == 0);
    assert_true(orr_busbw_factor(ORR_COLL_ALL_REDUCE, 0) == 0);
    assert_float_equal(orr_busbw_factor(ORR_COLL_ALL_REDUCE, 2), 1, 1e-12);
}

static void test_larger_of_both_ways(void **state)
{
    (void)state;
    assert_int_equal(orr_comm_bytes(&(orr_comm){.in_bytes = 5, .out_bytes = 40}), 40);
    assert_int_equal(orr_comm_bytes(&(orr_comm){.in_bytes = 50, .out_bytes = -1}), 50);
    assert_int_equal(orr_comm_bytes(&(orr_comm){.in_bytes = -1, .out_bytes = -1}), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matched),
        cmocka_unit_test(test_one_recorded_rank),
        cmocka_unit_test(test_rank_and_step),
        cmocka_unit_test(test_busbw_factors),
        cmocka_unit_test(test_larger_of_both_ways),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
