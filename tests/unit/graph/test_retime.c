/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/retime.h"

#include <orrery/ensemble.h>

#include "rows.h"

static const orr_graph *three_nodes(void)
{
    orr_graph_builder *b = new_builder();
    b->recording.rank = 4;
    node(b, "a", 0, 10, ORR_NONE);
    node(b, "b", 10, 10, ORR_NONE);
    node(b, "c", ORR_TIME_NONE, 0, ORR_NONE);
    return built(b);
}

static void test_other_times(void **state)
{
    (void)state;
    const orr_graph *graph = three_nodes(), *other;
    const int64_t start_ns[3] = {70, 50, ORR_TIME_NONE}, duration_ns[3] = {5, 20, 3};
    OK(orr_graph_retime(graph, &(orr_retiming){start_ns, duration_ns, 1000, 9}, &other, NULL));
    const int64_t want_ns[3] = {20, 0, ORR_TIME_NONE};
    assert_memory_equal(other->start_ns, want_ns, sizeof want_ns);
    assert_memory_equal(other->duration_ns, duration_ns, sizeof duration_ns);
    assert_int_equal(other->base_ns, 1050);
    assert_int_equal(other->span_ns, 25);
    assert_int_equal(other->rank, 9);
    const orr_node_id order[3] = {2, 1, 0};
    assert_memory_equal(other->lane_node, order, sizeof order);
    assert_string_equal(orr_graph_str(other, other->name[0]), "a");
    assert_int_equal(graph->start_ns[0], 0);
    assert_int_equal(graph->rank, 4);
    orr_graph_free(other);

    OK(orr_graph_retime(graph, &(orr_retiming){graph->start_ns, duration_ns, 0, ORR_NONE}, &other,
                        NULL));
    assert_int_equal(other->rank, 4);
    orr_graph_free(other);
    orr_graph_free(graph);
}

static void test_refuses(void **state)
{
    (void)state;
    const orr_graph *graph = three_nodes(), *other = NULL;
    const int64_t negative[3] = {0, -1, 0};
    const orr_retiming backward = {graph->start_ns, negative, 0, ORR_NONE};
    assert_int_equal(orr_graph_retime(graph, &backward, &other, NULL), ORR_INVALID);
    const int64_t far[3] = {INT64_MIN + 1, INT64_MAX, 0};
    const orr_retiming apart = {far, graph->duration_ns, 0, ORR_NONE};
    assert_int_equal(orr_graph_retime(graph, &apart, &other, NULL), ORR_INVALID);
    assert_null(other);
    orr_graph_free(graph);
}

/* The second communication of the recording comes first in the retimed job. */
static void test_job(void **state)
{
    (void)state;
    const row rows[] = {{0, 0, REDUCE, 2, 0, -1, 0}, {0, 9, REDUCE, 2, 1, -1, 1}};
    const row mates[] = {{1, 0, REDUCE, 2, 0, -1, 0}, {1, 9, REDUCE, 2, 1, -1, 1}};
    const setting plain = {.lasts_ms = 5};
    const orr_graph *graphs[2] = {graph_of(rows, 2, &plain), graph_of(mates, 2, &plain)};
    const orr_job *job, *other;
    OK(orr_job_build(graphs, 2, &job, NULL));
    const orr_graph *retimed[2];
    const int64_t start_ns[2] = {900, 100};
    for (int d = 0; d < 2; d++)
        OK(orr_graph_retime(graphs[d],
                            &(orr_retiming){start_ns, graphs[d]->duration_ns, 50, ORR_NONE},
                            &retimed[d], NULL));
    OK(orr_job_retime(job, retimed, &other, NULL));
    assert_int_equal(other->n_matches, 2);
    assert_int_equal(other->match_of[0][1], 0);
    assert_int_equal(other->match_of[1][0], 1);
    assert_int_equal(other->members[other->matches[0].first].node, 1);
    assert_int_equal(orr_job_start_ns(other, 1, 0), 800);
    orr_job_free(other);

    const orr_graph *strange[2] = {graphs[0], three_nodes()};
    assert_int_equal(orr_job_retime(job, strange, &other, NULL), ORR_INVALID);
    orr_graph_free(strange[1]);
    orr_job_free(job);
}

static void test_survives_no_memory(void **state)
{
    (void)state;
    const orr_graph *graph = three_nodes();
    const orr_retiming same = {graph->start_ns, graph->duration_ns, 0, ORR_NONE};
    for (uint64_t nth = 1;; nth++) {
        const orr_graph *other = NULL;
        orr_alloc_fail_from(nth);
        const orr_status status = orr_graph_retime(graph, &same, &other, NULL);
        orr_alloc_fail_from(0);
        orr_graph_free(other);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_true(nth < 100);
    }
    orr_graph_free(graph);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_other_times),
        cmocka_unit_test(test_refuses),
        cmocka_unit_test(test_job),
        cmocka_unit_test(test_survives_no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
