/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

static void test_nearest(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t t = small_thread(&s, 1);
    const uint32_t a = small_node(&s, ORR_NODE_ANNOTATION, "outer", t, 0, 100, ORR_NONE);
    const uint32_t b = small_node(&s, ORR_NODE_HOST_OP, "op", t, 1, 90, a);
    const uint32_t c = small_node(&s, ORR_NODE_ANNOTATION, "inner", t, 2, 80, b);
    const uint32_t d = small_node(&s, ORR_NODE_HOST_OP, "op", t, 3, 70, c);
    const uint32_t e = small_node(&s, ORR_NODE_RUNTIME, "call", t, 4, 60, d);
    small_job(&s);
    const orr_node_id *up;
    assert_int_equal(orr_nearest_ancestor(s.graphs[0], ORR_KIND(ANNOTATION), s.arena, &up, NULL),
                     ORR_OK);
    const orr_node_id want[] = {[0] = ORR_NONE, [1] = a, [2] = a, [3] = c, [4] = c};
    for (orr_node_id v = 0; v < 5; v++)
        assert_int_equal(up[v], want[v]);
    assert_int_equal(orr_nearest_ancestor(s.graphs[0], ORR_KIND(HOST_OP) | ORR_KIND(ANNOTATION),
                                          s.arena, &up, NULL),
                     ORR_OK);
    assert_int_equal(up[e], d);
    assert_int_equal(up[d], c);
    assert_int_equal(orr_nearest_ancestor(s.graphs[0], ORR_KIND(SEND), s.arena, &up, NULL), ORR_OK);
    assert_int_equal(up[e], ORR_NONE);
    small_end(&s);
}

/* A chain of a hundred thousand: linear, and no recursion. */
static void test_deep(void **state)
{
    (void)state;
    enum { DEPTH = 100000 };
    small s = small_begin();
    const uint32_t t = small_thread(&s, 1);
    for (uint32_t i = 0; i < DEPTH; i++)
        small_node(&s, i == 0 ? ORR_NODE_ANNOTATION : ORR_NODE_PYTHON, "f", t, i, 2 * DEPTH - 2 * i,
                   i == 0 ? ORR_NONE : i - 1);
    small_job(&s);
    const orr_node_id *up;
    assert_int_equal(orr_nearest_ancestor(s.graphs[0], ORR_KIND(ANNOTATION), s.arena, &up, NULL),
                     ORR_OK);
    for (uint32_t i = 1; i < DEPTH; i++)
        assert_int_equal(up[i], 0);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_deep),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
