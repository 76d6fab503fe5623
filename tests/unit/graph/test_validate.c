/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/validate.h"

#include "graphs.h"

/* Two good nodes; each test breaks one thing. */
static orr_graph_builder *good(void)
{
    orr_graph_builder *b = new_builder();
    node(b, "first", 0, 1, ORR_NONE);
    node(b, "second", 1, 1, ORR_NONE);
    dep(b, 1, 0, ORR_DEP_DATA);
    return b;
}

static void refused(orr_graph_builder *b, const char *text)
{
    orr_error err;
    must_not_build(b, ORR_INVALID, &err);
    if (strstr(err.text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err.text, text);
}

static void test_good(void **state)
{
    (void)state;
    orr_graph_free(built(good()));
}

static void test_dependencies_of_nobody(void **state)
{
    (void)state;
    orr_graph_builder *b = good();
    dep(b, 1, 2, ORR_DEP_DATA);
    refused(b, "node 1 'second' depends on node 2, which does not exist; there are 2 nodes");
    b = good();
    dep(b, 2, 1, ORR_DEP_DATA);
    refused(b, "node 2 depends on node 1, but does not exist");
    b = good();
    dep(b, ORR_NONE, 1, ORR_DEP_DATA);
    refused(b, "does not exist");
    b = good();
    dep(b, 1, 0, (orr_dep_kind)(ORR_DEP_SYNC + 1));
    refused(b, "dependency of kind 8");
    b = good();
    dep(b, 1, 0, (orr_dep_kind)256); /* must not become 0 */
    refused(b, "dependency of kind 255");
}

static void test_columns(void **state)
{
    (void)state;
    orr_graph_builder *b = good();
    b->name[1] = 99;
    refused(b, "node 1: its name");
    b = good();
    b->kind[0] = ORR_NODE_OVERHEAD + 1;
    refused(b, "node 0: kind 18");
    b = good();
    b->duration_ns[1] = -3;
    refused(b, "node 1 'second': it lasts -3 ns");
    b = good();
    b->parent[1] = 2;
    refused(b, "node 1 'second': its parent 2");
    b = good();
    b->attrs[1] = 1;
    refused(b, "node 1: attributes");
    for (uint8_t flag = ORR_FLAG_COMM; flag <= ORR_FLAG_MEMORY; flag *= 2) {
        b = good();
        b->flags[0] = flag;
        refused(b, "node 0: a communication, copy or memory event");
    }
    b = good();
    OK(orr_builder_copy(b, 0, &(orr_copy){.bytes = 1}, NULL));
    b->flags[0] |= ORR_FLAG_COMM;
    refused(b, "node 0: a communication, copy or memory event");
    b = good();
    b->recording.device_name = 50;
    refused(b, "string");
    b = good();
    b->lanes.at[0].name = 50;
    refused(b, "string");
}

static void test_values_that_do_not_fit_their_column(void **state)
{
    (void)state;
    orr_node_id id;
    orr_graph_builder *b = good();
    orr_node n = {.kind = (orr_node_kind)(256 + ORR_NODE_HOST_OP), .parent = ORR_NONE};
    OK(orr_builder_node(b, &n, &id, NULL));
    refused(b, "node 2: kind 255");
    b = good();
    n = (orr_node){.lane = UINT32_C(1) << 16, .parent = ORR_NONE};
    OK(orr_builder_node(b, &n, &id, NULL));
    refused(b, "node 2: lane 65535");
}

static void test_tensors_twice(void **state)
{
    (void)state;
    orr_graph_builder *b = good();
    orr_tensor_id t;
    OK(orr_builder_tensor(b, &(orr_tensor){.storage = 1}, &t, NULL));
    OK(orr_builder_io(b, 1, &t, 1, NULL, 0, NULL));
    OK(orr_builder_io(b, 1, &t, 1, NULL, 0, NULL));
    refused(b, "node 1: its tensors were given twice");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),
        cmocka_unit_test(test_dependencies_of_nobody),
        cmocka_unit_test(test_columns),
        cmocka_unit_test(test_values_that_do_not_fit_their_column),
        cmocka_unit_test(test_tensors_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
