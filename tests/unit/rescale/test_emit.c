/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "rescale/emit/emit.h"

static orr_node_id kernel(orr_emit *e, uint32_t stream, const char *name)
{
    const orr_node_id call = orr_emit_call(e, "cudaLaunchKernel", 5);
    const orr_node node = {.name = orr_emit_str(e, name), .kind = ORR_NODE_COMPUTE};
    return orr_emit_work(e, stream, call, &node);
}

static bool waits(const orr_graph *g, orr_node_id v, orr_node_id u, orr_dep_kind kind)
{
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (g->dep[d] == u && g->dep_kind[d] == kind)
            return true;
    return false;
}

/* A stream that waits for an event waits for what was there when it was recorded, not for later. */
static void events_are_as_they_were_recorded(void **state)
{
    (void)state;
    orr_emit e;
    const orr_graph *g;
    assert_true(orr_emit_open(&e, true, NULL));
    orr_emit_thread(&e, "python", 1);
    const uint32_t a = orr_emit_stream_of(&e, 7), b = orr_emit_stream_of(&e, 20);
    assert_int_equal(orr_emit_stream_of(&e, 20), b);
    orr_emit_begin(&e, ORR_NODE_ANNOTATION, "step");
    const orr_node_id first = kernel(&e, a, "first");
    orr_emit_wait_calls(&e, b, a, 1, 1);
    const orr_node_id later = kernel(&e, a, "later");
    const orr_node_id other = kernel(&e, b, "other");
    const orr_node_id next = kernel(&e, b, "next");
    orr_emit_sync_calls(&e, "cudaDeviceSynchronize", 3, a);
    orr_emit_end(&e);
    assert_int_equal(orr_emit_build(&e, &g, NULL), ORR_OK);
    assert_true(waits(g, later, first, ORR_DEP_STREAM));
    assert_true(waits(g, other, first, ORR_DEP_EVENT));
    assert_false(waits(g, other, later, ORR_DEP_EVENT));
    assert_true(waits(g, next, other, ORR_DEP_STREAM));
    assert_false(waits(g, next, first, ORR_DEP_EVENT)); /* waited for once */
    orr_node_id sync = 0;
    while (strcmp(orr_graph_str(g, g->name[sync]), "cudaDeviceSynchronize") != 0)
        sync++;
    assert_true(waits(g, sync, later, ORR_DEP_SYNC));
    assert_true(waits(g, sync, next, ORR_DEP_SYNC));
    assert_int_equal(g->parent[sync], 0);
    assert_int_equal(g->duration_ns[0], g->start_ns[sync] + 3);
    orr_graph_free(g);
    orr_emit_done(&e);
}

static void threads_hand_over(void **state)
{
    (void)state;
    orr_emit e;
    const orr_graph *g;
    assert_true(orr_emit_open(&e, true, NULL));
    const uint32_t main = orr_emit_thread(&e, "main", 1);
    const uint32_t autograd = orr_emit_thread(&e, "engine", 2);
    const orr_node_id forward = orr_emit_call(&e, "forward", 10);
    orr_emit_switch_thread(&e, autograd);
    orr_emit_advance(&e, 4);
    const orr_node_id backward = orr_emit_call(&e, "backward", 10);
    orr_emit_switch_thread(&e, main);
    const orr_node_id after = orr_emit_call(&e, "after", 10);
    assert_int_equal(orr_emit_build(&e, &g, NULL), ORR_OK);
    assert_true(waits(g, backward, forward, ORR_DEP_HANDOFF));
    assert_true(waits(g, after, backward, ORR_DEP_HANDOFF));
    assert_int_equal(g->start_ns[backward], 14);
    assert_int_equal(g->start_ns[after], 24);
    orr_graph_free(g);
    orr_emit_done(&e);
}

/* Past a limit the first failure stays, and nothing more is written. */
static void limits_are_told_at_the_end(void **state)
{
    (void)state;
    orr_emit e;
    orr_error err = {0};
    const orr_graph *g = NULL;
    assert_true(orr_emit_open(&e, true, &err));
    orr_emit_thread(&e, "python", 1);
    for (int i = 0; i < ORR_EMIT_STREAMS + 1; i++)
        orr_emit_stream_of(&e, i);
    orr_emit_begin(&e, ORR_NODE_ANNOTATION, "never");
    orr_emit_end(&e);
    assert_int_equal(orr_emit_build(&e, &g, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "streams"));
    assert_null(g);
    orr_emit_done(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_are_as_they_were_recorded),
        cmocka_unit_test(threads_hand_over),
        cmocka_unit_test(limits_are_told_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
