/* SPDX-License-Identifier: Apache-2.0 */
#include "path_check.h"

#include "analysis/path/graph.h"

static const orr_points_filter everything = {
    .kinds = ORR_PATH_EXECUTES | ORR_PATH_NAMES, .from_ns = INT64_MIN, .to_ns = INT64_MAX};

static orr_points points_of(small *s, const orr_points_filter *of)
{
    orr_points points;
    if (s->job == NULL)
        small_job(s);
    assert_int_equal(orr_points_build(s->job->graphs[0], of, s->arena, &points, &s->err), ORR_OK);
    return points;
}

static void check_points(const orr_points *points, const int64_t *time_ns, const uint32_t *node,
                         const uint32_t *inside, uint32_t n)
{
    assert_int_equal(points->n, n);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(points->time_ns[i], time_ns[i]);
        assert_int_equal(points->node[i], node[i]);
        assert_int_equal(points->inside[i], inside[i]);
    }
}

static void test_nesting(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_node(&s, ORR_NODE_HOST_OP, "a", cpu, 0, 50, ORR_NONE);
    const uint32_t b = small_node(&s, ORR_NODE_HOST_OP, "b", cpu, 10, 20, a);
    const uint32_t c = small_node(&s, ORR_NODE_HOST_OP, "c", cpu, 30, 20, a);
    const uint32_t d = small_node(&s, ORR_NODE_HOST_OP, "d", cpu, 60, 0, ORR_NONE);
    const orr_points points = points_of(&s, &everything);
    check_points(&points, (int64_t[]){0, 10, 30, 30, 50, 50, 60, 60},
                 (uint32_t[]){a, b, b, c, c, a, d, d},
                 (uint32_t[]){a, b, a, c, a, ORR_NONE, d, ORR_NONE}, 8);
    assert_int_equal(points.start_at[c], 3);
    assert_int_equal(points.end_at[c], 4);
    small_end(&s);
}

/* b begins in a and ends after it: it is cut, and what follows is outside of both. */
static void test_overlap_is_cut(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t a = small_node(&s, ORR_NODE_HOST_OP, "a", cpu, 0, 50, ORR_NONE);
    const uint32_t b = small_node(&s, ORR_NODE_HOST_OP, "b", cpu, 40, 30, ORR_NONE);
    const uint32_t c = small_node(&s, ORR_NODE_HOST_OP, "c", cpu, 60, 10, ORR_NONE);
    const orr_points points = points_of(&s, &everything);
    check_points(&points, (int64_t[]){0, 40, 50, 50, 60, 70}, (uint32_t[]){a, b, b, a, c, c},
                 (uint32_t[]){a, b, a, ORR_NONE, c, ORR_NONE}, 6);
    small_end(&s);
}

static void test_who_takes_part(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    small_node(&s, ORR_NODE_HOST_OP, "before", cpu, 0, 5, ORR_NONE);
    const uint32_t over = small_node(&s, ORR_NODE_HOST_OP, "over", cpu, 8, 10, ORR_NONE);
    small_node(&s, ORR_NODE_META, "meta", cpu, 20, 1, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "none", cpu, ORR_TIME_NONE, 0, ORR_NONE);
    const uint32_t in = small_node(&s, ORR_NODE_HOST_OP, "in", cpu, 22, 3, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "zero", cpu, 26, 0, ORR_NONE);
    small_node(&s, ORR_NODE_HOST_OP, "after", cpu, 30, 1, ORR_NONE);
    small_work(&s, ORR_NODE_COMPUTE, "kernel", gpu, 22, 3, ORR_NONE);
    const orr_points_filter of = {
        .kinds = ORR_PATH_EXECUTES, .from_ns = 10, .to_ns = 30, .duration_min_ns = 1};
    const orr_points touching = points_of(&s, &of);
    assert_int_equal(touching.n, 4);
    assert_int_equal(touching.node[0], over);
    orr_points_filter starting = of;
    starting.starts_inside = true;
    const orr_points inside = points_of(&s, &starting);
    assert_int_equal(inside.n, 2);
    assert_int_equal(inside.node[0], in);
    assert_int_equal(inside.start_at[over], ORR_NONE);
    small_end(&s);
}

static void test_bounds(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1), gpu = small_stream(&s, 0, 7);
    const uint32_t op = small_node(&s, ORR_NODE_HOST_OP, "op", cpu, 0, 1, ORR_NONE);
    const uint32_t gemm = small_work(&s, ORR_NODE_COMPUTE, "gemm", gpu, 0, 1, ORR_NONE);
    const uint32_t send = small_work(&s, ORR_NODE_SEND, "send", gpu, 1, 1, ORR_NONE);
    const uint32_t set = small_work(&s, ORR_NODE_SET, "set", gpu, 2, 1, ORR_NONE);
    const uint32_t host = small_node(&s, ORR_NODE_COMPUTE, "chakra", cpu, 2, 1, ORR_NONE);
    const orr_graph *g = small_job(&s)->graphs[0];
    assert_int_equal(orr_bound_of_node(g, op), ORR_BOUND_CPU);
    assert_int_equal(orr_bound_of_node(g, gemm), ORR_BOUND_COMPUTE);
    assert_int_equal(orr_bound_of_node(g, send), ORR_BOUND_COMMUNICATION);
    assert_int_equal(orr_bound_of_node(g, set), ORR_BOUND_MEMORY);
    assert_int_equal(orr_bound_of_node(g, host), ORR_BOUND_CPU);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nesting),
        cmocka_unit_test(test_overlap_is_cut),
        cmocka_unit_test(test_who_takes_part),
        cmocka_unit_test(test_bounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
