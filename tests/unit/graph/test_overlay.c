/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/ensemble.h>

#include "rows.h"

/* A thread that launches a kernel, and both at other times. */
static const orr_job *small_job(int64_t base_ns, int64_t kernel_start_ns, int64_t clock_ns)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = 2;
    b->recording.base_ns = clock_ns;
    const orr_node_id call = node(b, "launch", base_ns, 10, ORR_NONE);
    const orr_node_id kernel = node(b, "kernel", kernel_start_ns, 100, ORR_NONE);
    const orr_lane stream = {.kind = ORR_LANE_STREAM, .device = 0, .pid = 0, .tid = 7};
    orr_lane_id lane_id;
    OK(orr_builder_lane(b, &stream, &lane_id, NULL));
    b->lane[kernel] = (uint16_t)lane_id;
    b->kind[kernel] = ORR_NODE_COMPUTE;
    dep(b, kernel, call, ORR_DEP_LAUNCH);
    const orr_graph *graph = built(b);
    const orr_job *job;
    OK(orr_job_build(&graph, 1, &job, NULL));
    return job;
}

static void test_lanes_stand_together(void **state)
{
    (void)state;
    const orr_job *simulated = small_job(0, 50, 0), *recorded = small_job(5, 300, 1000000);
    const orr_job *both;
    OK(orr_job_overlay(simulated, "simulated", recorded, "recorded", &both, NULL));
    assert_int_equal(both->n_graphs, 1);
    const orr_graph *g = both->graphs[0];
    assert_int_equal(g->rank, 2);
    assert_int_equal(g->n_nodes, 4);
    assert_int_equal(g->n_lanes, 4);
    assert_int_equal(g->n_deps, 2);
    assert_int_equal(g->dep[g->dep_first[3]], 2);

    /* each on the axis of its own job, the simulated under their ids */
    const int64_t starts[4] = {0, 50, 0, 295};
    for (uint32_t v = 0; v < 4; v++)
        assert_int_equal(orr_job_start_ns(both, 0, v), starts[v]);
    const char *names[4] = {"thread 1, recorded", "thread 1, simulated", "stream 7, recorded",
                            "stream 7, simulated"};
    for (uint32_t l = 0; l < 4; l++)
        assert_string_equal(orr_graph_str(g, g->lanes[l].name), names[l]);
    assert_int_equal(g->lane[1], 3);
    assert_int_equal(g->lane[3], 2);
    orr_job_free(both);
    orr_job_free(simulated);
    orr_job_free(recorded);
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    const orr_job *job = small_job(0, 50, 0);
    for (uint64_t nth = 1;; nth++) {
        const orr_job *both = NULL;
        orr_alloc_fail_from(nth);
        const orr_status status = orr_job_overlay(job, "a", job, "b", &both, NULL);
        orr_alloc_fail_from(0);
        orr_job_free(both);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(nth < 1000);
    }
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lanes_stand_together),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
