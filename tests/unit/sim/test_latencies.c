/* SPDX-License-Identifier: Apache-2.0 */
#include "replayed.h"

static orr_sim_latencies seen;

static orr_sim_latencies measure(small *s)
{
    orr_sim_latencies c;
    orr_sim_latencies_init(&c);
    if (s->n_graphs == 0)
        small_rank(s);
    assert_int_equal(orr_sim_latencies_measure(s->graphs, s->n_graphs, &c, &seen, &s->err), ORR_OK);
    return c;
}

static void launch(small *s, uint32_t cpu, uint32_t gpu, int64_t called, int64_t start, int64_t ns)
{
    small_work(s, ORR_NODE_COMPUTE, "k", gpu, start, ns,
               small_node(s, ORR_NODE_RUNTIME, "cudaLaunchKernel", cpu, called, 1, ORR_NONE));
}

/* Only launches into an idle stream tell a launch's latency, only work queued behind other tells a
 * gap. The median, so that one that was held up does not matter. */
static void test_launches_and_gaps(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    launch(&s, cpu, gpu, 0, 6, 20);
    launch(&s, cpu, gpu, 100, 108, 20);
    launch(&s, cpu, gpu, 200, 900, 100); /* held up */
    launch(&s, cpu, gpu, 901, 1003, 20); /* queued */
    launch(&s, cpu, gpu, 903, 1024, 20);
    launch(&s, cpu, gpu, 905, 1046, 20);
    launch(&s, cpu, gpu, 1065, 1067, 20); /* neither: the stream fell idle meanwhile */
    const orr_sim_latencies c = measure(&s);
    assert_int_equal(c.launch_latency_ns, 8);
    assert_int_equal(seen.launch_latency_ns, 3);
    assert_int_equal(c.kernel_gap_ns, 2);
    assert_int_equal(seen.kernel_gap_ns, 3);
    small_drop(&s);
}

static void test_events(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_stream(&s, 0, 7), b = small_stream(&s, 0, 20);
    const uint32_t first =
        small_work(&s, ORR_NODE_COMPUTE, "k", a, 5, 100, small_call(&s, cpu, 0, 1, ORR_NONE));
    const uint32_t then =
        small_work(&s, ORR_NODE_COMPUTE, "k", b, 109, 10, small_call(&s, cpu, 2, 1, ORR_NONE));
    small_dep(&s, then, first, ORR_DEP_EVENT);
    const orr_sim_latencies c = measure(&s);
    assert_int_equal(c.event_latency_ns, 4);
    assert_int_equal(seen.event_latency_ns, 1);
    assert_int_equal(c.launch_latency_ns, 5);
    assert_int_equal(seen.launch_latency_ns, 1);
    small_drop(&s);
}

/* A call that began after all was done tells nothing of returning from a wait. */
static void test_waits_and_hand_offs(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t main = small_thread(&s, 1), other = small_thread(&s, 2);
    const uint32_t gpu = small_stream(&s, 0, 7);
    const uint32_t k =
        small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 5, 100, small_call(&s, main, 0, 1, ORR_NONE));
    const uint32_t waits =
        small_node(&s, ORR_NODE_RUNTIME, "cudaStreamSynchronize", main, 10, 98, ORR_NONE);
    const uint32_t does_not =
        small_node(&s, ORR_NODE_RUNTIME, "cudaStreamSynchronize", main, 110, 50, ORR_NONE);
    small_dep(&s, waits, k, ORR_DEP_SYNC);
    small_dep(&s, does_not, k, ORR_DEP_SYNC);
    const uint32_t woken = small_node(&s, ORR_NODE_HOST_OP, "back", other, 177, 20, ORR_NONE);
    const uint32_t busy = small_node(&s, ORR_NODE_HOST_OP, "more", other, 197, 20, ORR_NONE);
    small_dep(&s, woken, does_not, ORR_DEP_HANDOFF);
    small_dep(&s, busy, does_not, ORR_DEP_HANDOFF);
    const orr_sim_latencies c = measure(&s);
    assert_int_equal(c.sync_return_ns, 3);
    assert_int_equal(seen.sync_return_ns, 1);
    assert_int_equal(c.handoff_ns, 17);
    assert_int_equal(seen.handoff_ns, 1);
    small_drop(&s);
}

/* What is given stays; what no recording shows is assumed, and is known to be. */
static void test_given_and_assumed(void **state)
{
    (void)state;
    small s = small_begin();
    small_node(&s, ORR_NODE_HOST_OP, "op", small_thread(&s, 1), 0, 10, ORR_NONE);
    small_rank(&s);
    orr_sim_latencies c;
    orr_sim_latencies_init(&c);
    c.handoff_ns = 0;
    assert_int_equal(orr_sim_latencies_measure(s.graphs, 1, &c, &seen, &s.err), ORR_OK);
    assert_int_equal(c.handoff_ns, 0);
    assert_true(c.launch_latency_ns > 0 && c.kernel_gap_ns > 0 && c.sync_return_ns > 0 &&
                c.event_latency_ns > 0);
    assert_int_equal(seen.launch_latency_ns + seen.kernel_gap_ns + seen.sync_return_ns +
                         seen.event_latency_ns + seen.handoff_ns,
                     0);
    assert_int_equal(orr_sim_latencies_measure(NULL, 0, &c, NULL, &s.err), ORR_OK);
    small_drop(&s);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    launch(&s, cpu, gpu, 0, 6, 20);
    launch(&s, cpu, gpu, 7, 28, 20);
    small_rank(&s);
    for (uint64_t nth = 1;; nth++) {
        orr_sim_latencies c;
        orr_sim_latencies_init(&c);
        orr_alloc_fail_from(nth);
        const orr_status status = orr_sim_latencies_measure(s.graphs, 1, &c, NULL, &s.err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK) {
            assert_true(nth > 3);
            break;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
        assert_int_equal(c.launch_latency_ns, -1);
    }
    small_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launches_and_gaps),   cmocka_unit_test(test_events),
        cmocka_unit_test(test_waits_and_hand_offs), cmocka_unit_test(test_given_and_assumed),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
