/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

/* Two ranks of one group: each launches an all-reduce at `launch` that ends at 100.
 *
 *   rank 0   |call|   |-all_reduce------------|  launched at 0, starts 10
 *   rank 1      ...busy...|call|  |-all_reduce|  launched at 50, starts `late`
 */
static void one_rank(small *s, int64_t launch, int64_t start)
{
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    orr_group_id group;
    const uint32_t ranks[] = {0, 1};
    const orr_group world = {.name = small_str(s, "0"), .size = 2, .ranks = ranks};
    assert_int_equal(orr_builder_group(s->builder, &world, &group, &s->err), ORR_OK);
    if (launch > 0)
        small_node(s, ORR_NODE_HOST_OP, "busy", cpu, 0, launch, ORR_NONE);
    const uint32_t call = small_call(s, cpu, launch, 5, ORR_NONE);
    const uint32_t v =
        small_work(s, ORR_NODE_COLLECTIVE, "all_reduce", gpu, start, 100 - start, call);
    const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE,
                           .group = group,
                           .group_size = 2,
                           .seq = 1,
                           .peer = -1,
                           .root = -1,
                           .in_bytes = 1000,
                           .out_bytes = 1000};
    assert_int_equal(orr_builder_comm(s->builder, v, &comm, &s->err), ORR_OK);
    small_rank(s);
}

static void two_ranks(small *s)
{
    *s = small_begin();
    one_rank(s, 0, 10);
    one_rank(s, 50, 60);
    small_job(s);
    assert_int_equal(s->job->n_matches, 1);
}

static void test_last_arrival_is_the_cause(void **state)
{
    (void)state;
    small s;
    two_ranks(&s);
    orr_critical_path path;
    SMALL_SURVIVES_NO_MEMORY(orr_analyze_critical_path_job(s.job, NULL, s.arena, &path, &s.err));
    CHECK_PATH(&path, ON(1, "busy", CPU, false, 0, 50), ON(1, "all_reduce", LAUNCH, true, 50, 60),
               ON(0, "all_reduce", COMMUNICATION, false, 60, 100));
    small_end(&s);
}

/* On the rank that waited alone, the same time is a wait for its peer. */
static void test_peer_on_one_rank(void **state)
{
    (void)state;
    small s;
    two_ranks(&s);
    orr_critical_path path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("all_reduce", LAUNCH, true, 0, 10),
               PIECE("all_reduce", PEER, true, 10, 60),
               PIECE("all_reduce", COMMUNICATION, false, 60, 100));
    orr_analysis_options options = small_options();
    options.rank = 1;
    path = find_path(&s, &options);
    CHECK_PATH(&path, ON(1, "busy", CPU, false, 0, 50), ON(1, "all_reduce", LAUNCH, true, 50, 60),
               ON(1, "all_reduce", COMMUNICATION, false, 60, 100));
    small_end(&s);
}

/* Ranks recorded without a device: the operator on the thread is the collective. */
static void test_collective_on_threads(void **state)
{
    (void)state;
    small s = small_begin();
    for (int64_t rank = 0; rank < 2; rank++) {
        const uint32_t cpu = small_thread(&s, 1);
        small_node(&s, ORR_NODE_HOST_OP, "busy", cpu, 0, rank == 1 ? 50 : 10, ORR_NONE);
        const int64_t start = rank == 1 ? 60 : 20;
        const uint32_t v = small_node(&s, ORR_NODE_COLLECTIVE, "gloo:all_reduce", cpu, start,
                                      100 - start, ORR_NONE);
        const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE,
                               .group = ORR_NONE,
                               .group_size = 2,
                               .seq = -1,
                               .peer = -1,
                               .root = -1,
                               .in_bytes = -1,
                               .out_bytes = -1};
        assert_int_equal(orr_builder_comm(s.builder, v, &comm, &s.err), ORR_OK);
        small_rank(&s);
    }
    small_job(&s);
    assert_int_equal(s.job->n_matches, 1);
    orr_critical_path path;
    assert_int_equal(orr_analyze_critical_path_job(s.job, NULL, s.arena, &path, &s.err), ORR_OK);
    CHECK_PATH(&path, ON(1, "busy", CPU, false, 0, 50),
               ON(1, "gloo:all_reduce", HOST_GAP, true, 50, 60),
               ON(0, "gloo:all_reduce", COMMUNICATION, false, 60, 100));
    path = find_path(&s, NULL);
    CHECK_PATH(&path, PIECE("busy", CPU, false, 0, 10),
               PIECE("gloo:all_reduce", HOST_GAP, true, 10, 20),
               PIECE("gloo:all_reduce", PEER, true, 20, 60),
               PIECE("gloo:all_reduce", COMMUNICATION, false, 60, 100));
    small_end(&s);
}

static void test_no_such_step(void **state)
{
    (void)state;
    small s;
    two_ranks(&s);
    orr_analysis_options options = small_options();
    options.step_first = 3;
    orr_critical_path path;
    assert_int_equal(orr_analyze_critical_path_job(s.job, &options, s.arena, &path, &s.err),
                     ORR_NOT_FOUND);
    assert_non_null(strstr(s.err.text, "ProfilerStep"));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_arrival_is_the_cause),
        cmocka_unit_test(test_peer_on_one_rank),
        cmocka_unit_test(test_collective_on_threads),
        cmocka_unit_test(test_no_such_step),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
