/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/validate.h"

#include "graphs.h"

static void refused(orr_graph_builder *b, const char *text)
{
    orr_error err;
    must_not_build(b, ORR_INVALID, &err);
    assert_string_equal(err.text, text);
}

static orr_graph_builder *nodes(int n)
{
    orr_graph_builder *b = new_builder();
    for (int i = 0; i < n; i++)
        node(b, (const char[]){(char)('a' + i), '\0'}, 0, 0, ORR_NONE);
    return b;
}

static void test_names_the_cycle(void **state)
{
    (void)state;
    orr_graph_builder *b = nodes(4);
    dep(b, 1, 0, ORR_DEP_DATA);
    dep(b, 2, 1, ORR_DEP_DATA);
    dep(b, 3, 2, ORR_DEP_THREAD);
    dep(b, 1, 3, ORR_DEP_STREAM);
    refused(b, "cycle: 1 'b' -> 2 'c' -> 3 'd' -> 1");
}

static void test_self(void **state)
{
    (void)state;
    static const orr_dep_kind kinds[] = {ORR_DEP_DATA, ORR_DEP_CONTROL, ORR_DEP_SYNC};
    for (size_t i = 0; i < 3; i++) {
        orr_graph_builder *b = nodes(1);
        dep(b, 0, 0, kinds[i]);
        refused(b, "cycle: 0 'a' -> 0");
    }
    orr_graph_builder *b = nodes(1);
    b->parent[0] = 0;
    refused(b, "cycle: 0 'a' -> 0");
}

static void test_parents(void **state)
{
    (void)state;
    orr_graph_builder *b = nodes(3);
    b->parent[0] = 2;
    b->parent[2] = 1;
    b->parent[1] = 0;
    refused(b, "cycle: 0 'a' -> 1 'b' -> 2 'c' -> 0");
}

static void test_cycle_of_control_only(void **state)
{
    (void)state;
    orr_graph_builder *b = nodes(2);
    dep(b, 1, 0, ORR_DEP_CONTROL);
    dep(b, 0, 1, ORR_DEP_CONTROL);
    refused(b, "cycle: 0 'a' -> 1 'b' -> 0");
}

static void test_child_may_wait_for_what_its_parent_began(void **state)
{
    (void)state;
    /* A call starts a kernel and, inside, waits for it: start to start, end to end. */
    orr_graph_builder *b = nodes(3);
    b->parent[1] = 0;
    dep(b, 2, 0, ORR_DEP_LAUNCH);
    dep(b, 1, 2, ORR_DEP_SYNC);
    dep(b, 0, 2, ORR_DEP_SYNC);
    orr_graph_free(built(b));
}

static void test_parent_cannot_wait_for_its_child(void **state)
{
    (void)state;
    orr_graph_builder *b = nodes(2);
    b->parent[1] = 0;
    dep(b, 0, 1, ORR_DEP_DATA); /* start(0) >= end(1) >= start(1) >= start(0) */
    refused(b, "cycle: 0 'a' -> 1 'b' -> 0");
    b = nodes(2);
    b->parent[1] = 0;
    dep(b, 1, 0, ORR_DEP_DATA); /* start(1) >= end(0) >= end(1) */
    refused(b, "cycle: 0 'a' -> 1 'b' -> 0");
    b = nodes(2);
    b->parent[1] = 0;
    dep(b, 1, 0, ORR_DEP_CONTROL);
    dep(b, 0, 1, ORR_DEP_SYNC);
    orr_graph_free(built(b));
}

static void test_cycle_through_nesting_of_others(void **state)
{
    (void)state;
    /* b is in a, d in c; c waits for a, and b for d, which cannot end before c began. */
    orr_graph_builder *b = nodes(4);
    b->parent[1] = 0;
    b->parent[3] = 2;
    dep(b, 2, 0, ORR_DEP_THREAD);
    dep(b, 1, 3, ORR_DEP_DATA);
    refused(b, "cycle: 0 'a' -> 2 'c' -> 3 'd' -> 1 'b' -> 0");
}

static void test_sync_ties_ends_only(void **state)
{
    (void)state;
    orr_graph_builder *b = nodes(2);
    dep(b, 0, 1, ORR_DEP_SYNC);
    dep(b, 1, 0, ORR_DEP_LAUNCH);
    orr_graph_free(built(b));
    b = nodes(2);
    dep(b, 0, 1, ORR_DEP_SYNC);
    dep(b, 1, 0, ORR_DEP_EVENT);
    refused(b, "cycle: 0 'a' -> 1 'b' -> 0");
}

static void test_long_cycles_and_names_are_cut(void **state)
{
    (void)state;
    orr_graph_builder *b = new_builder();
    char name[200];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    for (uint32_t i = 0; i < 1000; i++) {
        node(b, name, 0, 0, ORR_NONE);
        dep(b, i, (i + 999) % 1000, ORR_DEP_DATA);
    }
    orr_error err;
    must_not_build(b, ORR_INVALID, &err);
    assert_true(strlen(err.text) < sizeof err.text - 1);
    assert_non_null(strstr(err.text, "(992 more) -> 998 'nnn"));
    assert_non_null(strstr(err.text, "nnn...' -> 999 'nnn"));
    assert_string_equal(err.text + strlen(err.text) - 5, " -> 0");
}

static void test_deep_chains_either_way(void **state)
{
    (void)state;
    enum { N = 300000 };
    for (int backwards = 0; backwards < 2; backwards++) {
        orr_graph_builder *b = new_builder();
        for (uint32_t i = 0; i < N; i++)
            node(b, "x", 0, 0, i > 0 && !backwards ? i - 1 : ORR_NONE);
        for (uint32_t i = 0; i + 1 < N && backwards; i++)
            dep(b, i, i + 1, ORR_DEP_DATA);
        orr_graph_free(built(b));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names_the_cycle),
        cmocka_unit_test(test_self),
        cmocka_unit_test(test_parents),
        cmocka_unit_test(test_cycle_of_control_only),
        cmocka_unit_test(test_child_may_wait_for_what_its_parent_began),
        cmocka_unit_test(test_parent_cannot_wait_for_its_child),
        cmocka_unit_test(test_cycle_through_nesting_of_others),
        cmocka_unit_test(test_sync_ties_ends_only),
        cmocka_unit_test(test_long_cycles_and_names_are_cut),
        cmocka_unit_test(test_deep_chains_either_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
