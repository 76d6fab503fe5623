/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/comm_job.h"

#include <orrery/sim.h>

/* Two ranks, one all-reduce; rank 1 is late. */
static const orr_job *recorded(small *s)
{
    for (uint32_t rank = 0; rank < 2; rank++) {
        orr_builder_recording(s->builder, &(orr_recording){.rank = rank, .world_size = 2});
        const uint32_t gpu = small_stream(s, 0, 7);
        const orr_group_id world = small_group(s, "0", "world", 2);
        small_node(s, ORR_NODE_COMPUTE, "gemm", gpu, 0, rank ? 900 : 500, ORR_NONE);
        small_comm(s, ORR_COLL_ALL_REDUCE, world, 2, gpu, rank ? 900 : 500, rank ? 100 : 500, 4096);
        small_rank(s);
    }
    return small_job(s);
}

static void simulate(small *s, orr_ensemble *ensemble, orr_simulation *sim)
{
    assert_int_equal(orr_simulate(ensemble, NULL, s->arena, sim, &s->err), ORR_OK);
}

static void check(const orr_job *job)
{
    assert_int_equal(job->n_graphs, 2);
    assert_int_equal(job->n_matches, 1);
    assert_int_equal(orr_job_start_ns(job, 0, 1) + job->graphs[0]->duration_ns[1],
                     orr_job_start_ns(job, 1, 1) + job->graphs[1]->duration_ns[1]);
    assert_int_equal(job->graphs[1]->duration_ns[0], 900);
}

/* With the recorded job, its matches and groups stay; without, they are found again. */
static void test_of_a_recorded_job(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    const orr_ensemble *ensemble;
    const orr_job *retimed, *built;
    recorded(&s);
    assert_int_equal(orr_ensemble_of_job(s.job, s.arena, &ensemble, &s.err), ORR_OK);
    orr_ensemble copy = *ensemble;
    simulate(&s, &copy, &sim);
    assert_int_equal(orr_simulation_job(&sim, s.job, &retimed, &s.err), ORR_OK);
    assert_int_equal(orr_simulation_job(&sim, NULL, &built, &s.err), ORR_OK);
    check(retimed);
    check(built);
    for (uint32_t d = 0; d < 2; d++) {
        const orr_graph *g = retimed->graphs[d];
        assert_memory_equal(g->duration_ns, sim.timelines[d].duration_ns, 2 * sizeof(int64_t));
        assert_int_equal(g->base_ns + g->start_ns[1], sim.timelines[d].start_ns[1]);
        assert_int_equal(built->graphs[d]->rank, d);
    }
    orr_job_free(retimed);
    orr_job_free(built);
    small_end(&s);
}

/* Six ranks of the two graphs: a graph a class, with the rank of the class. */
static void test_of_an_ensemble(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    const orr_ensemble *two;
    const orr_job *job = NULL;
    recorded(&s);
    assert_int_equal(orr_ensemble_of_job(s.job, s.arena, &two, &s.err), ORR_OK);
    const uint32_t graph_of_rank[6] = {0, 0, 0, 1, 1, 1}, group_of[6] = {0, 1, 2, 0, 1, 2};
    orr_grouping grouping;
    assert_int_equal(orr_grouping_of("0", group_of, 6, 3, s.arena, &grouping, &s.err), ORR_OK);
    orr_ensemble six = *two;
    six.n_ranks = 6;
    six.graph_of_rank = graph_of_rank;
    six.start_ns = NULL;
    six.groupings = &grouping;
    simulate(&s, &six, &sim);
    assert_int_equal(sim.n_classes, 2);
    assert_int_equal(orr_simulation_job(&sim, s.job, &job, &s.err), ORR_INVALID);
    assert_string_equal(s.err.text, "rank 1: the simulation is not one of this job");
    assert_null(job);
    assert_int_equal(orr_simulation_job(&sim, NULL, &job, &s.err), ORR_OK);
    assert_int_equal(job->n_graphs, 2);
    assert_int_equal(job->rank_of_graph[1], 3);
    assert_int_equal(job->graphs[1]->rank, 3);
    assert_int_equal(job->graphs[1]->duration_ns[0], 900);
    orr_job_free(job);
    small_end(&s);
}

static void test_every_failed_allocation_is_survived(void **state)
{
    (void)state;
    small s = small_begin();
    orr_simulation sim;
    const orr_ensemble *ensemble;
    recorded(&s);
    assert_int_equal(orr_ensemble_of_job(s.job, s.arena, &ensemble, &s.err), ORR_OK);
    orr_ensemble copy = *ensemble;
    simulate(&s, &copy, &sim);
    for (int with = 0; with < 2; with++) {
        const orr_job *job = NULL;
        orr_status status = ORR_NO_MEMORY;
        uint64_t nth = 1;
        for (; status != ORR_OK; nth++) {
            orr_alloc_fail_from(nth);
            status = orr_simulation_job(&sim, with ? s.job : NULL, &job, NULL);
            orr_alloc_fail_from(0);
            assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        }
        assert_true(nth > 5);
        orr_job_free(job);
    }
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_of_a_recorded_job),
        cmocka_unit_test(test_of_an_ensemble),
        cmocka_unit_test(test_every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
