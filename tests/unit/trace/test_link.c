/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include "base/alloc.h"

/* A trace of operators on threads, for both sides: "name" at `start` on thread `tid`. */
typedef struct op {
    const char *name;
    int64_t tid, start_us, duration_us;
    uint64_t id; /* record-function id */
} op;

static const orr_graph *make(const op *ops, size_t n, bool timed)
{
    orr_graph_builder *b = orr_graph_builder_new();
    const orr_graph *graph;
    orr_error err;
    assert_non_null(b);
    for (size_t i = 0; i < n; i++) {
        const orr_lane lane = {.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = ops[i].tid};
        orr_node node = {.kind = ORR_NODE_HOST_OP,
                         .parent = ORR_NONE,
                         .start_ns = timed ? ops[i].start_us * 1000 : ORR_TIME_NONE,
                         .duration_ns = timed ? ops[i].duration_us * 1000 : 0,
                         .source_id = ops[i].id};
        orr_node_id id;
        assert_int_equal(orr_builder_str(b, ops[i].name, strlen(ops[i].name), &node.name, &err), 0);
        assert_int_equal(orr_builder_lane(b, &lane, &node.lane, &err), 0);
        assert_int_equal(orr_builder_node(b, &node, &id, &err), 0);
    }
    if (orr_graph_build(b, &graph, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_graph_builder_free(b);
    return graph;
}

#define LINK(host_ops, device_ops, report)                                                         \
    link_made(host_ops, sizeof(host_ops) / sizeof *(host_ops), device_ops,                         \
              sizeof(device_ops) / sizeof *(device_ops), report)

static const orr_graph *link_made(const op *host_ops, size_t n_host, const op *device_ops,
                                  size_t n_device, orr_link_report *report)
{
    const orr_graph *host = make(host_ops, n_host, false);
    const orr_graph *device = make(device_ops, n_device, true);
    const orr_graph *graph = link_graphs(host, device, report);
    orr_graph_free(host);
    orr_graph_free(device);
    return graph;
}

static uint32_t missed(const orr_link_report *report)
{
    uint32_t n = 0;
    for (int i = 0; i < ORR_LINK_MISSES; i++)
        n += report->missed[i];
    return n;
}

static void links_every_operator_of_dlrm(void **state)
{
    (void)state;
    for (int rank = 0; rank < 8; rank++) {
        orr_link_report report;
        const orr_graph *g = linked_dlrm(rank, &report);
        assert_int_equal(report.host_ops, 1672);
        assert_int_equal(report.matched_by_id, 1672);
        assert_int_equal(missed(&report), 0);
        assert_int_equal(g->rank, rank);
        assert_int_equal(g->world_size, 8);
        orr_graph_free(g);
    }
}

/* The same without ids, as most recordings are: the order of names must do. */
static const orr_graph *without_ids(const char *name)
{
    test_bytes file = slurp(data_path(name));
    static const char *const keys[] = {"\"Record function id\": ",
                                       "\"name\": \"rf_id\", \"type\": \"uint64\", \"value\": "};
    for (size_t k = 0; k < 2; k++)
        for (char *at = (char *)file.at; (at = strstr(at, keys[k])) != NULL;) {
            at += strlen(keys[k]);
            for (bool first = true; *at >= '0' && *at <= '9'; at++, first = false)
                *at = first ? '0' : ' ';
        }
    const orr_graph *g = read_bytes(file.at, file.n, NULL);
    free(file.at);
    return g;
}

static void b11_links_dlrm_by_order_where_there_are_no_ids(void **state)
{
    (void)state;
    orr_link_report report;
    const orr_graph *host = without_ids("dlrm_v100x8/rank2.host.json.gz");
    const orr_graph *device = without_ids("dlrm_v100x8/rank2.device.json.gz");
    const orr_graph *by_order = link_graphs(host, device, &report);
    assert_int_equal(report.matched_by_id, 0);
    assert_int_equal(report.matched_by_order, 1672);
    assert_int_equal(missed(&report), 0);

    /* Each pair is the one that the ids say. */
    const orr_graph *by_id = linked_dlrm(2, NULL);
    assert_int_equal(by_order->n_nodes, by_id->n_nodes);
    for (orr_node_id v = 0; v < by_id->n_nodes; v++) {
        orr_attr a, b;
        const bool has = orr_graph_find_attr(by_id, v, "id", &a);
        assert_int_equal(orr_graph_find_attr(by_order, v, "id", &b), has);
        if (has)
            assert_int_equal(*(const uint64_t *)a.values, *(const uint64_t *)b.values);
    }
    orr_graph_free(by_id);
    orr_graph_free(by_order);
    orr_graph_free(host);
    orr_graph_free(device);
}

/* B11 of the faults found in other linkers: ids that are off by a constant, or not there. */
static void b11_links_by_ids_that_are_off_by_a_constant(void **state)
{
    (void)state;
    static const op host[] = {
        {"a", 1, 0, 0, 10}, {"b", 1, 0, 0, 11}, {"c", 1, 0, 0, 12}, {"b", 1, 0, 0, 13}};
    static const op device[] = {
        {"a", 9, 0, 1, 4}, {"b", 9, 2, 1, 5}, {"c", 9, 4, 1, 6}, {"b", 9, 6, 1, 7}};
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.matched_by_id, 4);
    assert_int_equal(g->n_nodes, 4);
    orr_graph_free(g);
}

/* Sequences that differ in the middle. */
static void finds_its_way_back_after_a_difference(void **state)
{
    (void)state;
    static const op host[] = {{"a", 1, 0, 0, 1}, {"b", 1, 0, 0, 2}, {"only here", 1, 0, 0, 3},
                              {"c", 1, 0, 0, 4}, {"d", 1, 0, 0, 5}, {"e", 1, 0, 0, 6}};
    static const op device[] = {{"a", 9, 0, 1, 0}, {"b", 9, 2, 1, 0}, {"only there", 9, 3, 1, 0},
                                {"x", 9, 4, 1, 0}, {"c", 9, 5, 1, 0}, {"d", 9, 6, 1, 0},
                                {"e", 9, 7, 1, 0}};
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.matched_by_order, 5);
    assert_int_equal(report.missed[ORR_LINK_MISS_ORDER], 1);
    assert_int_equal(g->n_nodes, 8); /* every node of both */
    const orr_node_id unmatched = node_named(g, "only here");
    assert_int_equal(g->start_ns[unmatched], ORR_TIME_NONE);
    orr_graph_free(g);
}

/* The device trace goes on for three steps, the host trace saw the second one. */
static void finds_the_step_that_both_saw(void **state)
{
    (void)state;
    static char names[90][16];
    op device[90], host[30];
    for (int i = 0; i < 90; i++) {
        snprintf(names[i], sizeof names[i], i / 30 == 1 ? "op%d" : "op%d", i % 30 % 7 + i / 30 * 3);
        device[i] = (op){names[i], 9, 10 * i, 5, 0};
        if (i / 30 == 1)
            host[i - 30] = (op){names[i], 1, 0, 0, 0};
    }
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.matched_by_order, 30);
    assert_int_equal(g->n_nodes, 90);
    orr_graph_free(g);
}

static void pairs_threads_by_what_runs_in_them(void **state)
{
    (void)state;
    static const op host[] = {{"f1", 1, 0, 0, 0},
                              {"b1", 2, 0, 0, 0},
                              {"f2", 1, 0, 0, 0},
                              {"b2", 2, 0, 0, 0},
                              {"lonely", 3, 0, 0, 0}};
    static const op device[] = {
        {"b1", 77, 5, 1, 0}, {"b2", 77, 7, 1, 0}, {"f1", 78, 0, 1, 0}, {"f2", 78, 2, 1, 0}};
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.matched_by_order, 4);
    assert_int_equal(report.missed[ORR_LINK_MISS_NO_THREAD], 1);
    orr_graph_free(g);
}

static void says_why_an_operator_has_no_partner(void **state)
{
    (void)state;
    static const op host[] = {{"a", 1, 0, 0, 1},       {"b", 1, 0, 0, 2},     {"c", 1, 0, 0, 3},
                              {"d", 1, 0, 0, 4},       {"e", 1, 0, 0, 5},     {"f", 1, 0, 0, 6},
                              {"renamed", 1, 0, 0, 7}, {"gone", 1, 0, 0, 90}, {"bare", 1, 0, 0, 0}};
    static const op device[] = {{"a", 9, 0, 1, 1},     {"b", 9, 2, 1, 2}, {"c", 9, 4, 1, 3},
                                {"d", 9, 6, 1, 4},     {"e", 9, 8, 1, 5}, {"f", 9, 10, 1, 6},
                                {"other", 9, 12, 1, 7}};
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.host_ops, 9);
    assert_int_equal(report.device_ops, 7);
    assert_int_equal(report.matched_by_id, 6);
    assert_int_equal(report.missed[ORR_LINK_MISS_NAME_DIFFERS], 1);
    assert_int_equal(report.missed[ORR_LINK_MISS_ID_NOT_FOUND], 1);
    assert_int_equal(report.missed[ORR_LINK_MISS_NO_ID], 1);
    orr_graph_free(g);
}

static void linked_graph_has_what_both_know(void **state)
{
    (void)state;
    const orr_graph *device = read_data("dlrm_v100x8/rank0.device.json.gz", NULL);
    const orr_graph *host = read_data("dlrm_v100x8/rank0.host.json.gz", NULL);
    const orr_graph *g = link_graphs(host, device, NULL);
    assert_int_equal(g->n_nodes, device->n_nodes + 3); /* process and two threads */
    for (orr_node_id v = 0; v < device->n_nodes; v++) {
        assert_string_equal(name_of(g, v), name_of(device, v));
        assert_int_equal(g->kind[v], device->kind[v]);
        assert_int_equal(g->start_ns[v], device->start_ns[v]);
        assert_int_equal(g->duration_ns[v], device->duration_ns[v]);
        for (uint32_t d = device->dep_first[v]; d < device->dep_first[v + 1]; d++)
            if (device->dep_kind[d] != ORR_DEP_THREAD)
                assert_true(waits_for(g, v, device->dep[d], (orr_dep_kind)device->dep_kind[d]));
    }
    assert_int_equal(g->n_tensors, host->n_tensors);
    assert_true(count_deps(g, ORR_DEP_DATA) > 1000);
    const orr_node_id addmm = node_named(g, "aten::addmm");
    assert_int_equal(g->io_out[addmm] - g->io_first[addmm], 3);
    orr_attr schema;
    assert_true(orr_graph_find_attr(g, addmm, "op_schema", &schema));
    /* What the host trace calls a thread is above what runs in it. */
    const orr_node_id zero_grad = node_named(g, "## zero_grad ##");
    orr_node_id top = zero_grad;
    while (g->parent[top] != ORR_NONE)
        top = g->parent[top];
    assert_true(g->kind[top] == ORR_NODE_META || g->kind[top] == ORR_NODE_ANNOTATION);
    orr_graph_free(host);
    orr_graph_free(device);
    orr_graph_free(g);
}

/* The call tree is the host trace's, even where times of whole microseconds are equal. */
static void linked_call_tree_is_that_of_the_host_trace(void **state)
{
    (void)state;
    const orr_graph *host = read_data("dlrm_v100x8/rank1.host.json.gz", NULL);
    const orr_graph *g = linked_dlrm(1, NULL);
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_attr id, above, parent_id;
        if (g->start_ns[v] == ORR_TIME_NONE || !orr_graph_find_attr(g, v, "id", &id))
            continue;
        orr_node_id parent = g->parent[v];
        while (parent != ORR_NONE && !orr_graph_find_attr(g, parent, "id", &above))
            parent = g->parent[parent]; /* ProfilerStep, which only the device trace has */
        for (orr_node_id h = 0; h < host->n_nodes; h++) {
            if (!orr_graph_find_attr(host, h, "id", &parent_id) ||
                *(const uint64_t *)parent_id.values != *(const uint64_t *)id.values)
                continue;
            const orr_node_id wanted = host->parent[h];
            if (host->kind[wanted] == ORR_NODE_META)
                break;
            assert_int_not_equal(parent, ORR_NONE);
            assert_true(orr_graph_find_attr(host, wanted, "id", &parent_id));
            assert_int_equal(*(const uint64_t *)above.values, *(const uint64_t *)parent_id.values);
            n++;
            break;
        }
    }
    assert_true(n > 1500);
    orr_graph_free(host);
    orr_graph_free(g);
}

/* Kernels that serve several collectives get theirs, with sizes and sequence, from the host trace.
 */
static void kernels_learn_what_they_were_used_for(void **state)
{
    (void)state;
    const orr_graph *g = linked_dlrm(0, NULL);
    uint32_t all_to_all = 0, all_reduce = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_comm *comm = orr_graph_comm(g, v);
        if (comm == NULL || !orr_graph_on_device(g, v))
            continue;
        assert_int_equal(g->kind[v], ORR_NODE_COLLECTIVE);
        assert_true(comm->in_bytes > 0 && comm->out_bytes > 0 && comm->seq >= 147);
        all_to_all += comm->collective == ORR_COLL_ALL_TO_ALL;
        all_reduce += comm->collective == ORR_COLL_ALL_REDUCE;
    }
    assert_int_equal(all_to_all, 5);
    assert_int_equal(all_reduce, 3);
    orr_graph_free(g);
}

static void refuses_traces_of_different_ranks(void **state)
{
    (void)state;
    const orr_graph *host = read_data("dlrm_v100x8/rank1.host.json.gz", NULL);
    const orr_graph *device = read_data("dlrm_v100x8/rank2.device.json.gz", NULL);
    const orr_graph *g;
    orr_error err;
    assert_int_equal(orr_trace_link(host, device, &g, NULL, &err), ORR_INVALID);
    assert_string_equal(err.text, "the host trace is of rank 1, the device trace of rank 2");
    orr_graph_free(host);
    orr_graph_free(device);
}

/* A host trace whose order contradicts the recorded times gives a graph all the same. */
static void survives_ids_that_run_against_the_clock(void **state)
{
    (void)state;
    static const op host[] = {{"a", 1, 0, 0, 1}, {"b", 1, 0, 0, 2}, {"c", 1, 0, 0, 3}};
    static const op device[] = {{"a", 9, 20, 1, 1}, {"b", 9, 10, 1, 2}, {"c", 9, 0, 1, 3}};
    orr_link_report report;
    const orr_graph *g = LINK(host, device, &report);
    assert_int_equal(report.matched_by_id, 3);
    orr_graph_free(g);
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    static const op host_ops[] = {{"a", 1, 0, 0, 1}, {"b", 1, 0, 0, 0}, {"x", 2, 0, 0, 0}};
    static const op device_ops[] = {{"a", 9, 0, 1, 1}, {"b", 9, 2, 1, 0}, {"x", 8, 4, 1, 0}};
    const orr_graph *host = make(host_ops, 3, false), *device = make(device_ops, 3, true);
    const orr_graph *g = NULL;
    orr_error err;
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_trace_link(host, device, &g, NULL, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    orr_graph_free(g);
    orr_graph_free(host);
    orr_graph_free(device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(links_every_operator_of_dlrm),
        cmocka_unit_test(b11_links_dlrm_by_order_where_there_are_no_ids),
        cmocka_unit_test(b11_links_by_ids_that_are_off_by_a_constant),
        cmocka_unit_test(finds_its_way_back_after_a_difference),
        cmocka_unit_test(finds_the_step_that_both_saw),
        cmocka_unit_test(pairs_threads_by_what_runs_in_them),
        cmocka_unit_test(says_why_an_operator_has_no_partner),
        cmocka_unit_test(linked_graph_has_what_both_know),
        cmocka_unit_test(linked_call_tree_is_that_of_the_host_trace),
        cmocka_unit_test(kernels_learn_what_they_were_used_for),
        cmocka_unit_test(refuses_traces_of_different_ranks),
        cmocka_unit_test(survives_ids_that_run_against_the_clock),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
