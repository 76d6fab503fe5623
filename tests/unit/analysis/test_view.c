/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/common.h"

/* Two steps on thread 1, with a call in the first, one between, one in the second, and
 * their work; and work that nobody launched. */
enum { STEP_1, STEP_2, CALL_1, CALL_GAP, CALL_2, WORK_1, WORK_GAP, WORK_2, ORPHAN, NODES };
static void two_steps(small *s)
{
    const uint32_t cpu = small_thread(s, 1), gpu = small_stream(s, 0, 7);
    small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#9", cpu, 0, 100, ORR_NONE);
    small_node(s, ORR_NODE_ANNOTATION, "ProfilerStep#10", cpu, 110, 100, ORR_NONE);
    small_call(s, cpu, 10, 1, STEP_1);
    small_call(s, cpu, 105, 1, ORR_NONE);
    small_call(s, cpu, 120, 1, STEP_2);
    small_work(s, ORR_NODE_COMPUTE, "a", gpu, 500, 10, CALL_1); /* long after its step */
    small_work(s, ORR_NODE_COMPUTE, "b", gpu, 510, 10, CALL_GAP);
    small_work(s, ORR_NODE_COMPUTE, "c", gpu, 520, 10, CALL_2);
    assert_int_equal(small_work(s, ORR_NODE_COMPUTE, "d", gpu, 50, 10, ORR_NONE), ORPHAN);
}

static size_t views_of(small *s, int32_t first, int32_t last, const orr_view **ret)
{
    orr_analysis_options options = small_options();
    size_t n;
    options.step_first = first;
    options.step_last = last;
    assert_int_equal(orr_find_views(s->job, &options, s->arena, ret, &n, NULL), ORR_OK);
    return n;
}

static void assert_held(const orr_view *view, const bool want[NODES])
{
    for (orr_node_id v = WORK_1; v < NODES; v++)
        if (orr_view_holds(view, v) != want[v])
            fail_msg("node %u: held is %d", v, orr_view_holds(view, v));
}

static void test_window(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_view *views;
    two_steps(&s);
    small_job(&s);
    assert_int_equal(views_of(&s, -1, -1, &views), 1);
    assert_false(views[0].windowed);
    assert_held(views, (bool[NODES]){[WORK_1] = 1, [WORK_GAP] = 1, [WORK_2] = 1, [ORPHAN] = 1});
    assert_int_equal(views_of(&s, 0, 0, &views), 1);
    assert_held(views, (bool[NODES]){[WORK_1] = 1});
    assert_int_equal(views_of(&s, 1, -1, &views), 1);
    assert_held(views, (bool[NODES]){[WORK_2] = 1});
    assert_int_equal(views_of(&s, 0, 1, &views), 1);
    assert_held(views, (bool[NODES]){[WORK_1] = 1, [WORK_GAP] = 1, [WORK_2] = 1});
    assert_int_equal(views_of(&s, 2, 2, &views), 0);
    small_end(&s);
}

static void test_instances(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_instance *found;
    size_t n;
    two_steps(&s);
    small_job(&s);
    const orr_graph *g = s.graphs[0];
    assert_int_equal(orr_find_instances(g, "ProfilerStep", s.arena, &found, &n, NULL), ORR_OK);
    assert_int_equal(n, 2);
    assert_int_equal(found[0].number, 9);
    assert_int_equal(found[0].node, STEP_1);
    assert_int_equal(found[1].number, 10);
    assert_int_equal(found[1].from_ns, 110);
    assert_int_equal(found[1].to_ns, 210);
    assert_int_equal(orr_find_instances(g, "ProfilerStep#9", s.arena, &found, &n, NULL), ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(orr_find_instances(g, "Profiler", s.arena, &found, &n, NULL), ORR_OK);
    assert_int_equal(n, 0);
    small_end(&s);
}

static void test_launch(void **state)
{
    (void)state;
    small s = small_begin();
    two_steps(&s);
    small_job(&s);
    assert_int_equal(orr_launch_of(s.graphs[0], WORK_2), CALL_2);
    assert_int_equal(orr_launch_of(s.graphs[0], ORPHAN), ORR_NONE);
    assert_int_equal(orr_launch_of(s.graphs[0], CALL_1), ORR_NONE);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_window),
        cmocka_unit_test(test_instances),
        cmocka_unit_test(test_launch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
