/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/comm_job.h"

#include <orrery/whatif.h>

#include "sim/peer_durations.h"

enum { RANKS = 4, STEPS = 3 };

/* Each step an operator of 10 us of its own with another of 20 us in it, a kernel of 100 us, and an
 * all-reduce; times of `slow` are `factor` times as long. */
static void ranks(small *s, uint32_t slow, int64_t factor)
{
    *s = small_begin();
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const int64_t f = rank == slow ? factor : 1;
        const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
        const uint32_t world = small_group(s, "0", "", RANKS);
        for (int64_t step = 0; step < STEPS; step++) {
            const int64_t at = step * 1000000;
            const uint32_t op =
                small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, at, 30000 * f, ORR_NONE);
            small_node(s, ORR_NODE_HOST_OP, "inner", cpu, at + 1000, 20000 * f, op);
            const uint32_t call = small_node(s, ORR_NODE_RUNTIME, "cudaLaunchKernel", cpu,
                                             at + 30000 * f, 1000, ORR_NONE);
            small_work(s, ORR_NODE_COMPUTE, "gemm", gpu, at + 130000, 100000 * f, call);
            small_comm(s, ORR_COLL_ALL_REDUCE, world, RANKS, gpu, at + 130000 + 100000 * f,
                       700000 - 100000 * f, 8);
        }
        small_rank(s);
    }
    small_job(s);
}

static const orr_ensemble *without(small *s, const uint32_t *list, uint32_t n, uint64_t *ret_evened)
{
    const orr_ensemble *recorded, *changed;
    orr_whatif what;
    orr_whatif_report report;
    orr_whatif_init(&what);
    what.without_stragglers = list;
    what.n_without_stragglers = n;
    assert_int_equal(orr_ensemble_of_job(s->job, s->arena, &recorded, &s->err), ORR_OK);
    assert_int_equal(orr_whatif_apply(recorded, &what, s->arena, &changed, &report, &s->err),
                     ORR_OK);
    *ret_evened = report.evened;
    return changed;
}

static void test_slow_rank_takes_what_others_do(void **state)
{
    (void)state;
    for (uint32_t slow = 0; slow < RANKS; slow++) {
        small s;
        uint64_t evened;
        ranks(&s, slow, 3);
        const orr_ensemble *e = without(&s, &slow, 1, &evened);
        assert_int_equal(evened, 3 * STEPS);
        for (uint32_t d = 0; d < RANKS; d++) {
            const orr_graph *g = e->graphs[d];
            for (orr_node_id v = 0; v < g->n_nodes; v++)
                if (g->kind[v] == ORR_NODE_COMPUTE)
                    assert_int_equal(e->duration_ns[d][v], 100000);
                else if (g->kind[v] == ORR_NODE_HOST_OP)
                    /* of what is its own, by the ratio */
                    assert_int_equal(e->duration_ns[d][v] * (d == slow ? 3 : 1), g->duration_ns[v]);
        }
        const uint32_t other = (slow + 1) % RANKS; /* the median of the rest is its own */
        without(&s, &other, 1, &evened);
        assert_int_equal(evened, 0);
        small_end(&s);
    }
}

static void test_nobody_is_slow(void **state)
{
    (void)state;
    small s;
    uint64_t evened;
    ranks(&s, ORR_NONE, 1);
    const uint32_t all[RANKS] = {0, 1, 2, 3};
    without(&s, all, RANKS, &evened);
    assert_int_equal(evened, 0);
    small_end(&s);
}

static void test_all_take_the_median(void **state)
{
    (void)state;
    small s;
    uint64_t evened;
    ranks(&s, 2, 5);
    const uint32_t all[RANKS] = {0, 1, 2, 3};
    const orr_ensemble *e = without(&s, all, RANKS, &evened);
    assert_int_equal(evened, 3 * STEPS);
    for (orr_node_id v = 0; v < e->graphs[2]->n_nodes; v++)
        if (e->graphs[2]->kind[v] == ORR_NODE_COMPUTE)
            assert_int_equal(e->duration_ns[2][v], 100000);
    small_end(&s);
}

static void test_refuses_and_survives(void **state)
{
    (void)state;
    small s;
    const orr_ensemble *recorded, *changed;
    orr_whatif what;
    orr_whatif_report report;
    ranks(&s, 1, 2);
    orr_whatif_init(&what);
    const uint32_t list[] = {1, RANKS};
    what.without_stragglers = list;
    what.n_without_stragglers = 2;
    orr_arena *kept = orr_arena_new(0, 0);
    assert_int_equal(orr_ensemble_of_job(s.job, kept, &recorded, &s.err), ORR_OK);
    assert_int_equal(orr_whatif_apply(recorded, &what, s.arena, &changed, &report, &s.err),
                     ORR_INVALID);
    what.n_without_stragglers = 1;
    SMALL_SURVIVES_NO_MEMORY(orr_whatif_apply(recorded, &what, s.arena, &changed, &report, &s.err));
    orr_arena_free(kept);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slow_rank_takes_what_others_do),
        cmocka_unit_test(test_nobody_is_slow),
        cmocka_unit_test(test_all_take_the_median),
        cmocka_unit_test(test_refuses_and_survives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
