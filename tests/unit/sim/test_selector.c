/* SPDX-License-Identifier: Apache-2.0 */
#include "../analysis/comm_job.h"

#include "sim/selector.h"

enum { NODES = 6 };

/* A step in which an operator calls and launches; then a collective of a group, and a kernel that
 * is called like the operator. */
static const orr_graph *rank_of(small *s)
{
    *s = small_begin();
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    const uint32_t step = small_node(s, ORR_NODE_ANNOTATION, "step", cpu, 0, 100, ORR_NONE);
    const uint32_t op = small_node(s, ORR_NODE_HOST_OP, "aten::mm", cpu, 10, 50, step);
    const uint32_t call = small_node(s, ORR_NODE_RUNTIME, "launch", cpu, 20, 10, op);
    small_comm(s, ORR_COLL_ALL_REDUCE, small_group(s, "0", "dp", 2), 2, gpu, 200, 50, 8);
    small_comm(s, ORR_COLL_ALL_GATHER, ORR_NONE, 2, gpu, 300, 50, 8);
    small_work(s, ORR_NODE_COMPUTE, "aten::mm kernel", gpu, 400, 50, call);
    return small_rank(s);
}

static void check(const orr_graph *g, const char *text, const char *want)
{
    const orr_selector selector = orr_selector_of(text);
    uint8_t marks[NODES];
    uint32_t n = 0;
    assert_int_equal(g->n_nodes, NODES);
    const uint32_t marked = orr_selector_mark(&selector, g, marks);
    for (uint32_t v = 0; v < NODES; v++) {
        n += want[v] == 'x';
        if (marks[v] != (want[v] == 'x'))
            fail_msg("%s: node %u", text, v);
    }
    assert_int_equal(marked, n);
}

static void test_what_is_meant(void **state)
{
    (void)state;
    small s;
    const orr_graph *g = rank_of(&s);
    check(g, "aten::mm", ".....x"); /* of the device alone */
    check(g, "all_", "...xx.");
    check(g, "host:aten::mm", ".xx...");
    check(g, "host:step", "xxx...");
    check(g, "host:launch", "..x...");
    check(g, "host:all_reduce", "......"); /* communication is no time of a thread */
    check(g, "comm:all_reduce", "...x..");
    check(g, "comm:all_reduce@dp", "...x..");
    check(g, "comm:all_reduce@0", "...x..");
    check(g, "comm:all_reduce@tp", "......");
    check(g, "comm:all_gather@", "....x.");
    check(g, "comm:all_reduce@", "......"); /* without a group */
    check(g, "comm:all", "......");
    check(g, "nothing", "......");
    small_job(&s);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_what_is_meant)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
