/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/small_job.h"

#include "graph/pollers.h"

/* A thread that asks, and otherwise starts nothing, only polls; one with an operator or a launch,
 * or one that never asks, does not; nor does a stream. */
static void test_which_threads_poll(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t watchdog = small_thread(&s, 1), main = small_thread(&s, 2);
    const uint32_t asks = small_thread(&s, 3), silent = small_thread(&s, 4);
    const uint32_t stream = small_stream(&s, 0, 7);
    small_node(&s, ORR_NODE_RUNTIME, "cudaThreadExchangeStreamCaptureMode", watchdog, 0, 5,
               ORR_NONE);
    small_node(&s, ORR_NODE_RUNTIME, "cudaEventQuery", watchdog, 10, 5, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "aten::item", main, 0, 20, ORR_NONE);
    small_node(&s, ORR_NODE_RUNTIME, "hipEventQuery", main, 30, 5, ORR_NONE);
    small_node(&s, ORR_NODE_RUNTIME, "hipStreamQuery", asks, 0, 5, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "k", stream, 40, 10, small_call(&s, asks, 10, 5, ORR_NONE));
    small_node(&s, ORR_NODE_RUNTIME, "cudaPointerGetAttributes", silent, 0, 5, ORR_NONE);
    small_rank(&s);
    const bool *polls = orr_lanes_that_poll(s.graphs[0], s.arena);
    assert_non_null(polls);
    assert_true(polls[watchdog]);
    assert_false(polls[main] || polls[asks] || polls[silent] || polls[stream]);
    orr_graph_free(s.graphs[0]);
    small_end(&s);
}

static void test_names_of_queries(void **state)
{
    (void)state;
    assert_true(orr_is_query("cudaEventQuery") && orr_is_query("hipStreamQuery"));
    assert_false(orr_is_query("cudaEventQueryX") || orr_is_query("EventQuery") ||
                 orr_is_query("cudaEventSynchronize") || orr_is_query(""));
    assert_true(orr_is_synchronisation("hipStreamSynchronize") &&
                orr_is_synchronisation("synchronizeStream"));
    assert_false(orr_is_synchronisation("cudaMemcpy") || orr_is_synchronisation("cuda"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_which_threads_poll),
        cmocka_unit_test(test_names_of_queries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
