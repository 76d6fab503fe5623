/* SPDX-License-Identifier: Apache-2.0 */
#include "replayed.h"

#include "sim/program/streams.h"

static orr_streams find(small *s)
{
    orr_streams streams;
    const orr_graph *g = small_rank(s);
    assert_int_equal(orr_streams_find(g, s->arena, &streams, &s->err), ORR_OK);
    return streams;
}

static uint32_t count_before(const orr_streams *s, orr_node_id v)
{
    const uint32_t row = s->row_of[v];
    return s->first[row + 1] - s->first[row];
}

/* Each waits for the one before it; the start that counts is never before the launch. */
static void test_a_plain_stream(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t call = small_call(&s, cpu, 20, 5, ORR_NONE);
    const uint32_t a = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 18, 10, call);
    const uint32_t b = small_work(&s, ORR_NODE_COPY, "b", gpu, 19, 20, ORR_NONE);
    const orr_streams streams = find(&s);
    assert_int_equal(streams.n, 2);
    assert_int_equal(streams.row_of[call], ORR_NONE);
    assert_int_equal(streams.launch[0], call);
    assert_int_equal(streams.launch[1], ORR_NONE);
    assert_int_equal(count_before(&streams, a), 0);
    assert_int_equal(count_before(&streams, b), 1);
    assert_int_equal(streams.before[0], a);
    assert_int_equal(streams.start_ns[0], 2); /* from the first start */
    assert_int_equal(streams.start_ns[1], 2);
    assert_false(streams.inner[0] || streams.inner[1]);
    small_drop(&s);
}

/* A CUDA graph: b and c run beside a and wait for what a waits for; what follows waits for all. */
static void test_side_by_side(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t first =
        small_work(&s, ORR_NODE_COMPUTE, "first", gpu, 10, 10, small_call(&s, cpu, 0, 1, ORR_NONE));
    const uint32_t launch =
        small_node(&s, ORR_NODE_RUNTIME, "cudaGraphLaunch", cpu, 2, 1, ORR_NONE);
    const uint32_t a = small_work(&s, ORR_NODE_COMPUTE, "a", gpu, 30, 50, launch);
    const uint32_t b = small_work(&s, ORR_NODE_COMPUTE, "b", gpu, 31, 50, launch);
    const uint32_t c = small_work(&s, ORR_NODE_COMPUTE, "c", gpu, 32, 50, launch);
    const uint32_t last =
        small_work(&s, ORR_NODE_COMPUTE, "last", gpu, 70, 50, small_call(&s, cpu, 4, 1, ORR_NONE));
    const orr_streams streams = find(&s);
    const uint32_t graph[] = {a, b, c};
    for (int i = 0; i < 3; i++) {
        const uint32_t row = streams.row_of[graph[i]];
        assert_int_equal(count_before(&streams, graph[i]), 1);
        assert_int_equal(streams.before[streams.first[row]], first);
        assert_true(streams.inner[row]);
    }
    /* It overlaps them, but was launched by another call: a stream runs in order. */
    assert_int_equal(count_before(&streams, last), 3);
    assert_false(streams.inner[streams.row_of[last]]);
    small_drop(&s);
}

static void test_what_does_not_occupy_a_stream(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t gpu = small_stream(&s, 0, 7);
    small_work(&s, ORR_NODE_SYNC, "Stream Sync", gpu, 0, 10, ORR_NONE);
    small_work(&s, ORR_NODE_DEVICE_ANNOTATION, "step", gpu, 0, 10, ORR_NONE);
    small_work(&s, ORR_NODE_SYNC, "event_wait", gpu, 0, 10, ORR_NONE);
    small_work(&s, ORR_NODE_SET, "Memset (Device)", gpu, 12, 10, ORR_NONE);
    small_node(&s, ORR_NODE_COMPUTE, "on a thread", small_thread(&s, 1), 0, 10, ORR_NONE);
    const orr_streams streams = find(&s);
    assert_int_equal(streams.n, 2);
    assert_int_equal(streams.node[0], 2);
    assert_int_equal(streams.node[1], 3);
    small_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_stream),
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_what_does_not_occupy_a_stream),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
