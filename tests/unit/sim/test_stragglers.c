/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/comm_job.h"

#include "sim/stragglers.h"

enum { RANKS = 6, STEPS = 3, KERNEL_NS = 100000 };

static void transfer(small *s, orr_group_id group, bool sends, uint32_t peer, uint32_t gpu,
                     int64_t at_ns)
{
    const uint32_t v = small_node(s, sends ? ORR_NODE_SEND : ORR_NODE_RECV,
                                  sends ? "ncclSend" : "ncclRecv", gpu, at_ns, 1000, ORR_NONE);
    const orr_comm comm = {.collective = sends ? ORR_COLL_SEND : ORR_COLL_RECV,
                           .group = group,
                           .group_size = RANKS,
                           .seq = -1,
                           .peer = (int32_t)peer,
                           .root = -1,
                           .tag = -1,
                           .in_bytes = 8,
                           .out_bytes = 8};
    assert_int_equal(orr_builder_comm(s->builder, v, &comm, &s->err), ORR_OK);
}

/* A pipeline of three stages, two replicas of each: the rank that does the work of position p is
 * at[p], stage p / 2, and hands on to position p + 2. A kernel of a position takes slow[p] x 100
 * us. */
static void pipeline(small *s, const uint32_t at[RANKS], const int64_t slow[RANKS])
{
    *s = small_begin();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        uint32_t p = 0;
        while (at[p] != rank)
            p++;
        const uint32_t gpu = small_stream(s, 0, 7);
        const uint32_t cpu = small_thread(s, 1);
        const orr_group_id world = small_group(s, "0", "", RANKS);
        for (int64_t step = 0; step < STEPS; step++) {
            const int64_t from = step * 10000000 + p / 2 * 2000000;
            const uint32_t call =
                small_node(s, ORR_NODE_RUNTIME, "cudaLaunchKernel", cpu, from, 1000, ORR_NONE);
            if (p >= 2)
                transfer(s, world, false, at[p - 2], gpu, from - 500000);
            small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, from + 2000, KERNEL_NS * slow[p], call);
            if (p + 2 < RANKS)
                transfer(s, world, true, at[p + 2], gpu, from + 1500000);
        }
        small_rank(s);
    }
    small_job(s);
}

static const orr_slow_part *find(small *s, size_t *n)
{
    const orr_slow_part *parts;
    assert_int_equal(orr_slow_parts_find(s->job, RANKS, s->arena, &parts, n, &s->err), ORR_OK);
    return parts;
}

static const uint32_t ORDERS[][RANKS] = {{0, 1, 2, 3, 4, 5}, {5, 3, 1, 0, 2, 4}};

static void test_stages_follow_the_transfers(void **state)
{
    (void)state;
    for (int o = 0; o < 2; o++) {
        small s;
        uint32_t *stage, n;
        pipeline(&s, ORDERS[o], (int64_t[RANKS]){1, 1, 1, 1, 1, 1});
        assert_int_equal(orr_stages_by_transfers(s.job, s.arena, &stage, &n, &s.err), ORR_OK);
        assert_int_equal(n, 3);
        for (uint32_t p = 0; p < RANKS; p++)
            assert_int_equal(stage[ORDERS[o][p]], p / 2);
        size_t none;
        find(&s, &none); /* all alike */
        assert_int_equal(none, 0);
        small_end(&s);
    }
}

/* The slow rank is found whatever its number, with what it takes longer. */
static void test_slow_rank(void **state)
{
    (void)state;
    for (int o = 0; o < 2; o++)
        for (uint32_t p = 0; p < RANKS; p++) {
            small s;
            size_t n;
            int64_t slow[RANKS] = {1, 1, 1, 1, 1, 1};
            slow[p] = 3;
            pipeline(&s, ORDERS[o], slow);
            const orr_slow_part *parts = find(&s, &n);
            assert_int_equal(n, 3); /* the rank, its stage, all */
            assert_int_equal(parts[0].kind, ORR_SLOW_RANK);
            assert_int_equal(parts[0].number, ORDERS[o][p]);
            assert_int_equal(parts[0].excess.ns, STEPS * 2 * KERNEL_NS);
            assert_int_equal(parts[0].excess.operations, STEPS);
            assert_int_equal(parts[0].excess.worst_ns[2], 2 * KERNEL_NS);
            assert_int_equal(parts[1].kind, ORR_SLOW_STAGE);
            assert_int_equal(parts[1].number, p / 2);
            assert_int_equal(parts[2].kind, ORR_SLOW_ALL);
            small_end(&s);
        }
}

static void test_slow_stage(void **state)
{
    (void)state;
    for (int o = 0; o < 2; o++) {
        small s;
        size_t n;
        pipeline(&s, ORDERS[o], (int64_t[RANKS]){1, 1, 2, 2, 1, 1});
        const orr_slow_part *parts = find(&s, &n);
        assert_int_equal(n, 4); /* both ranks, the stage, all */
        assert_int_equal(parts[2].kind, ORR_SLOW_STAGE);
        assert_int_equal(parts[2].number, 1);
        assert_int_equal(parts[2].n_ranks, 2);
        assert_int_equal(parts[2].ranks[0] + parts[2].ranks[1], ORDERS[o][2] + ORDERS[o][3]);
        assert_int_equal(parts[2].excess.ns, STEPS * KERNEL_NS);
        small_end(&s);
    }
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    small s;
    const orr_slow_part *parts;
    size_t n;
    pipeline(&s, ORDERS[0], (int64_t[RANKS]){1, 1, 2, 2, 1, 1});
    SMALL_SURVIVES_NO_MEMORY(orr_slow_parts_find(s.job, RANKS, s.arena, &parts, &n, &s.err));
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stages_follow_the_transfers),
        cmocka_unit_test(test_slow_rank),
        cmocka_unit_test(test_slow_stage),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
