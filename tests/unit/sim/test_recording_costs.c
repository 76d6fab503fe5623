/* SPDX-License-Identifier: Apache-2.0 */
#include "replayed.h"

/* Recording costs 100 an operator: 50 before its start, 50 after its end. */
static replayed without_costs(small *s, double each_ns)
{
    orr_recording_costs costs = {.ns = {[ORR_RECORDING_COST_EVENT] = each_ns}};
    replayed r;
    small_rank(s);
    assert_int_equal(orr_sim_program_compile(s->graphs[0], NULL, &SMALL_CONSTANTS, &costs, 1024,
                                             s->arena, &r.program, &s->err),
                     ORR_OK);
    settle(&r, s->arena);
    return r;
}

static int64_t took(const replayed *r, orr_node_id v)
{
    return r->at_ns[r->program.end_point[v]] - r->at_ns[r->program.start_point[v]];
}

/* |-------------- up ---------------|
 *     |-a-|        |-b-|               what a and b cost is in what holds them, not in them */
static void test_nested(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t up = small_node(&s, ORR_NODE_HOST_OP, "up", cpu, 0, 1000, ORR_NONE);
    const uint32_t a = small_node(&s, ORR_NODE_HOST_OP, "a", cpu, 200, 100, up);
    const uint32_t b = small_node(&s, ORR_NODE_HOST_OP, "b", cpu, 500, 100, up);
    const replayed r = without_costs(&s, 100);
    assert_int_equal(took(&r, up), 800);
    assert_int_equal(took(&r, a), 100);
    assert_int_equal(took(&r, b), 100);
    assert_int_equal(r.at_ns[r.program.start_point[a]], 150);
    assert_int_equal(r.at_ns[r.program.start_point[b]], 350);
    small_drop(&s);
}

/* 20 between a and b cannot give 100: what is left of it comes out of b. */
static void test_carried_on(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_node(&s, ORR_NODE_HOST_OP, "a", cpu, 0, 100, ORR_NONE);
    const uint32_t b = small_node(&s, ORR_NODE_HOST_OP, "b", cpu, 120, 100, ORR_NONE);
    const replayed r = without_costs(&s, 100);
    assert_int_equal(took(&r, a), 100);
    assert_int_equal(r.at_ns[r.program.start_point[b]], 100);
    assert_int_equal(took(&r, b), 20);
    small_drop(&s);
}

/* However much recording costs, nothing takes less than no time, and the kernel as long as ever. */
static void test_never_negative(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t up = small_node(&s, ORR_NODE_HOST_OP, "up", cpu, 0, 100, ORR_NONE);
    const uint32_t call = small_call(&s, cpu, 20, 10, up);
    const uint32_t k = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 40, 500, call);
    const uint32_t sync =
        small_node(&s, ORR_NODE_RUNTIME, "cudaDeviceSynchronize", cpu, 110, 440, ORR_NONE);
    const uint32_t next = small_node(&s, ORR_NODE_HOST_OP, "next", cpu, 700, 10, ORR_NONE);
    small_dep(&s, sync, k, ORR_DEP_SYNC);
    const replayed r = without_costs(&s, 1e9);
    assert_int_equal(took(&r, up), 100); /* of itself, there is no cost within */
    assert_int_equal(took(&r, k), 500);
    assert_int_equal(r.at_ns[r.program.end_point[sync]],
                     r.at_ns[r.program.end_point[k]] + SMALL_CONSTANTS.sync_return_ns);
    assert_int_equal(took(&r, next), 0);
    small_drop(&s);
}

/* What was owed before a wait was paid while waiting: after it only what costs arise there. */
static void test_paid_while_waiting(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t call = small_call(&s, cpu, 0, 10, ORR_NONE);
    const uint32_t k = small_work(&s, ORR_NODE_COMPUTE, "k", gpu, 40, 5000, call);
    small_node(&s, ORR_NODE_HOST_OP, "short", cpu, 20, 10, ORR_NONE);
    const uint32_t sync =
        small_node(&s, ORR_NODE_RUNTIME, "cudaDeviceSynchronize", cpu, 40, 5010, ORR_NONE);
    const uint32_t next = small_node(&s, ORR_NODE_HOST_OP, "next", cpu, 6000, 400, ORR_NONE);
    small_dep(&s, sync, k, ORR_DEP_SYNC);
    const replayed r = without_costs(&s, 100);
    const int64_t end = r.at_ns[r.program.end_point[sync]];
    assert_int_equal(r.at_ns[r.program.start_point[next]] - end, 6000 - 5050 - 50);
    assert_int_equal(took(&r, next), 400);
    small_drop(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nested),
        cmocka_unit_test(test_carried_on),
        cmocka_unit_test(test_never_negative),
        cmocka_unit_test(test_paid_while_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
