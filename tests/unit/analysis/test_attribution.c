/* SPDX-License-Identifier: Apache-2.0 */
#include "small_job.h"

#include "analysis/launch/attribution.h"
#include "base/strtab.h"

/* Operators x (calls 1, 2) and y (call 3); call 2 starts its work before call 1. */
enum { X, Y, CALL_1, CALL_2, CALL_3, WORK_1, WORK_2, WORK_3, COPY_1 };
static void add_nodes(small *s)
{
    const uint32_t cpu = small_thread(s, 1), a = small_stream(s, 0, 7), b = small_stream(s, 0, 8);
    small_node(s, ORR_NODE_HOST_OP, "x", cpu, 0, 50, ORR_NONE);
    small_node(s, ORR_NODE_HOST_OP, "y", cpu, 60, 50, ORR_NONE);
    small_call(s, cpu, 10, 5, X);
    small_call(s, cpu, 20, 5, X);
    small_call(s, cpu, 70, 5, Y);
    small_work(s, ORR_NODE_COMPUTE, "k1", a, 100, 10, CALL_1);
    small_work(s, ORR_NODE_COMPUTE, "k2", b, 90, 10, CALL_2);
    small_work(s, ORR_NODE_COMPUTE, "k1", a, 120, 10, CALL_3);
    small_work(s, ORR_NODE_COPY, "copy", a, 140, 10, CALL_3);
    small_job(s);
}

static size_t group(small *s, unsigned classes, orr_attributed_order order,
                    const orr_attributed_work **ret)
{
    const orr_view *views;
    const orr_node_id *op_of;
    orr_work_list work;
    size_t n;
    const orr_analysis_options options = small_options();
    assert_int_equal(orr_find_views(s->job, &options, s->arena, &views, &n, NULL), ORR_OK);
    assert_int_equal(orr_view_work(views, s->arena, &work, NULL), ORR_OK);
    assert_int_equal(orr_nearest_ancestor(s->graphs[0], ORR_KIND(HOST_OP), s->arena, &op_of, NULL),
                     ORR_OK);
    assert_int_equal(
        orr_attribute_work(views, &work, classes, op_of, order, s->arena, ret, &n, NULL), ORR_OK);
    return n;
}

static void test_orders(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_attributed_work *owned;
    add_nodes(&s);
    assert_int_equal(group(&s, ORR_CLASS_ANY, ORR_ATTRIBUTED_BY_LAUNCH, &owned), 2);
    assert_int_equal(owned[0].owner, X);
    assert_int_equal(owned[0].n, 2);
    assert_int_equal(owned[0].work[0], WORK_1);
    assert_int_equal(owned[0].work[1], WORK_2);
    assert_int_equal(group(&s, ORR_CLASS_ANY, ORR_ATTRIBUTED_BY_START, &owned), 2);
    assert_int_equal(owned[0].work[0], WORK_2);
    assert_int_equal(owned[1].owner, Y);
    assert_int_equal(owned[1].n, 2);
    assert_int_equal(group(&s, ORR_CLASS_MEMORY, ORR_ATTRIBUTED_BY_START, &owned), 1);
    assert_int_equal(owned[0].work[0], COPY_1);
    small_end(&s);
}

static void test_text_and_number(void **state)
{
    (void)state;
    small s = small_begin();
    const orr_attributed_work *owned;
    orr_strtab *tab = orr_strtab_new();
    add_nodes(&s);
    const orr_graph *g = s.graphs[0];
    assert_int_equal(group(&s, ORR_CLASS_ANY, ORR_ATTRIBUTED_BY_LAUNCH, &owned), 2);
    assert_string_equal(orr_attributed_text(g, &owned[0], false, " -> ", s.arena), "k1 -> k2");
    assert_string_equal(orr_attributed_text(g, &owned[1], true, "|", s.arena), "y|k1|copy");
    const uint32_t first = orr_attributed_sequence(g, &owned[0], tab, s.arena);
    assert_int_not_equal(first, orr_attributed_sequence(g, &owned[1], tab, s.arena));
    assert_int_equal(first, orr_attributed_sequence(g, &owned[0], tab, s.arena));
    orr_strtab_free(tab);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_text_and_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
