/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include <unistd.h>

#include "base/alloc.h"
#include "io/json/reader.h"

static test_bytes chrome_bytes(const orr_graph *g)
{
    const int64_t no_shift = 0;
    const orr_write_set set = {
        .graphs = &g, .shift_ns = &no_shift, .ranks = &g->rank, .n = 1, .base_ns = g->base_ns};
    orr_output *out;
    orr_error err;
    size_t n;
    assert_int_equal(orr_output_open_memory(&out, &err), ORR_OK);
    assert_int_equal(orr_chrome_write(&set, out, &err), ORR_OK);
    assert_int_equal(orr_output_finish(out, &err), ORR_OK);
    const void *memory = orr_output_memory(out, &n);
    test_bytes bytes = {malloc(n + 1), n};
    assert_non_null(bytes.at);
    memcpy(bytes.at, memory, n);
    bytes.at[n] = '\0';
    orr_output_close(out);
    return bytes;
}

static void check_comm(const orr_graph *a, const orr_graph *b, orr_node_id v)
{
    const orr_comm *x = orr_graph_comm(a, v), *y = orr_graph_comm(b, v);
    assert_int_equal(x != NULL, y != NULL);
    if (x == NULL)
        return;
    assert_int_equal(x->collective, y->collective);
    assert_int_equal(x->vector, y->vector);
    assert_int_equal(x->in_bytes, y->in_bytes);
    assert_int_equal(x->out_bytes, y->out_bytes);
    assert_int_equal(x->group_size, y->group_size);
    assert_int_equal(x->seq, y->seq);
    assert_int_equal(x->peer, y->peer);
    assert_int_equal(x->root, y->root);
    assert_int_equal(x->group == ORR_NONE, y->group == ORR_NONE);
    if (x->group != ORR_NONE)
        assert_string_equal(orr_graph_str(a, a->groups[x->group].name),
                            orr_graph_str(b, b->groups[y->group].name));
}

static void check_deps(const orr_graph *a, const orr_graph *b, orr_node_id v)
{
    assert_int_equal(a->dep_first[v + 1] - a->dep_first[v], b->dep_first[v + 1] - b->dep_first[v]);
    for (uint32_t d = a->dep_first[v]; d < a->dep_first[v + 1]; d++)
        assert_true(waits_for(b, v, a->dep[d], (orr_dep_kind)a->dep_kind[d]));
}

/* Arguments of CUDA's and MTIA's synchronisation records are not in the graph, only what they mean:
 * dependencies that come from them alone are lost on the way. */
static bool has_sync_records(const orr_graph *g)
{
    return count_kind(g, ORR_NODE_SYNC) > 0;
}

static void reads_back_as_the_same_graph(void **state)
{
    (void)state;
    size_t n;
    const char *const *names = all_kineto(&n);
    for (size_t i = 0; i < n; i++) {
        const orr_graph *a = read_data(names[i], NULL);
        const test_bytes json = chrome_bytes(a);
        const orr_graph *b = read_bytes(json.at, json.n, NULL);
        assert_int_equal(a->n_nodes, b->n_nodes);
        assert_int_equal(a->base_ns, b->base_ns);
        assert_int_equal(a->span_ns, b->span_ns);
        assert_int_equal(a->world_size, b->world_size);
        assert_string_equal(orr_graph_str(a, a->device_name), orr_graph_str(b, b->device_name));
        for (orr_node_id v = 0; v < a->n_nodes; v++) {
            assert_string_equal(name_of(a, v), name_of(b, v));
            assert_int_equal(a->kind[v], b->kind[v]);
            assert_int_equal(a->start_ns[v], b->start_ns[v]);
            assert_int_equal(a->duration_ns[v], b->duration_ns[v]);
            assert_int_equal(a->parent[v], b->parent[v]);
            assert_int_equal(a->source_id[v], b->source_id[v]);
            assert_int_equal(a->lanes[a->lane[v]].tid, b->lanes[b->lane[v]].tid);
            check_comm(a, b, v);
            if (!has_sync_records(a))
                check_deps(a, b, v);
        }
        free(json.at);
        orr_graph_free(a);
        orr_graph_free(b);
    }
}

static void keeps_copies_memory_and_attributes(void **state)
{
    (void)state;
    const orr_graph *a = read_data("kineto/qwen1.5-0.5b_h100.json.gz", NULL);
    const test_bytes json = chrome_bytes(a);
    const orr_graph *b = read_bytes(json.at, json.n, NULL);
    assert_int_equal(a->n_memories, b->n_memories);
    assert_int_equal(a->n_copies, b->n_copies);
    for (uint32_t i = 0; i < a->n_memories; i++) {
        assert_int_equal(a->memories[i].addr, b->memories[i].addr);
        assert_int_equal(a->memories[i].bytes, b->memories[i].bytes);
        assert_int_equal(a->memories[i].reserved_bytes, b->memories[i].reserved_bytes);
    }
    uint32_t n = 0;
    for (orr_node_id v = 0; v < a->n_nodes; v++) {
        orr_attr x, y;
        if (!orr_graph_find_attr(a, v, "grid", &x))
            continue;
        assert_true(orr_graph_find_attr(b, v, "grid", &y));
        assert_string_equal(orr_graph_str(a, *(const orr_str *)x.values),
                            orr_graph_str(b, *(const orr_str *)y.values));
        n++;
    }
    assert_true(n > 1000);
    free(json.at);
    orr_graph_free(a);
    orr_graph_free(b);
}

/* What a tolerant reader let pass is not passed on. */
static void writes_valid_json_from_a_faulty_recording(void **state)
{
    (void)state;
    static const char text[] =
        "{\"schemaVersion\":1,\"traceEvents\":[{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\\ud800\","
        "\"pid\":1,\"tid\":1,\"ts\":0,\"dur\":1,\"args\":{\"x\":[NaN 1],\"y\":[\"\x01\"]}}]}";
    orr_read_options options;
    orr_read_report report;
    const orr_graph *g;
    orr_error err;
    orr_attr x;
    orr_read_options_init(&options);
    options.tolerant = true;
    if (orr_trace_read_memory(text, sizeof text - 1, &options, &g, &report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const test_bytes json = chrome_bytes(g);
    const orr_graph *again = read_bytes(json.at, json.n, &report); /* strictly */
    assert_int_equal(again->n_nodes, 1);
    assert_true(orr_graph_find_attr(again, 0, "x", &x));
    free(json.at);
    orr_graph_free(g);
    orr_graph_free(again);
}

static void writes_the_ranks_of_a_job_side_by_side(void **state)
{
    (void)state;
    const orr_graph *graphs[2] = {read_data("dlrm_v100x8/rank0.device.json.gz", NULL),
                                  read_data("dlrm_v100x8/rank1.device.json.gz", NULL)};
    const uint32_t nodes = graphs[0]->n_nodes + graphs[1]->n_nodes;
    const orr_job *job = NULL;
    const orr_graph *all = NULL;
    orr_error err;
    char path[64];
    if (orr_job_build(graphs, 2, &job, &err) != ORR_OK)
        fail_msg("%s", err.text);
    snprintf(path, sizeof path, "/tmp/orrery_job_%d.json.gz", (int)getpid());
    if (orr_job_write(path, ORR_FORMAT_CHROME, job, &err) != ORR_OK ||
        orr_trace_read(path, NULL, &all, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    assert_int_equal(all->n_nodes, nodes);
    assert_int_equal(all->n_lanes, job->graphs[0]->n_lanes + job->graphs[1]->n_lanes);
    orr_graph_free(all);
    orr_job_free(job);
    remove(path);
}

static void says_when_there_is_no_timeline(void **state)
{
    (void)state;
    const orr_graph *g = read_text("{\"schema\":\"1.0.1\",\"nodes\":[{\"name\":\"a\",\"id\":1,"
                                   "\"parent\":1,\"tid\":1,\"inputs\":[],\"input_shapes\":[],"
                                   "\"input_types\":[]}]}");
    orr_error err;
    assert_int_equal(orr_trace_write("/tmp/orrery_none.json", ORR_FORMAT_CHROME, g, &err),
                     ORR_UNSUPPORTED);
    assert_non_null(strstr(err.text, "the recording has no times"));
    assert_int_not_equal(access("/tmp/orrery_none.json", F_OK), 0);
    static const orr_format input_only[] = {ORR_FORMAT_KINETO, ORR_FORMAT_NSIGHT, ORR_FORMAT_XPLANE,
                                            ORR_FORMAT_TORCH_MEMORY, ORR_FORMAT_ROCPD};
    for (size_t i = 0; i < sizeof input_only / sizeof *input_only; i++) {
        assert_int_equal(orr_trace_write("/tmp/orrery_none.json", input_only[i], g, &err),
                         ORR_UNSUPPORTED);
        assert_non_null(strstr(err.text, "recordings are not written as"));
    }
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_back_as_the_same_graph),
        cmocka_unit_test(keeps_copies_memory_and_attributes),
        cmocka_unit_test(writes_valid_json_from_a_faulty_recording),
        cmocka_unit_test(writes_the_ranks_of_a_job_side_by_side),
        cmocka_unit_test(says_when_there_is_no_timeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
