/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include "base/alloc.h"
#include "graph/builder.h"
#include "trace/pytorch/reader.h"

#define ROOT                                                                                       \
    "{\"id\":1,\"name\":\"[pytorch|profiler|execution_trace|process]\",\"ctrl_deps\":1," EMPTY_IO  \
        ATTRS("0", "0", "7")
#define EMPTY_IO                                                                                   \
    "\"inputs\":{\"values\":[],\"shapes\":[],\"types\":[]},"                                       \
    "\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[]},"
#define ATTRS(rf, tid, scope)                                                                      \
    "\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":" rf "},"                        \
    "{\"name\":\"scope\",\"type\":\"uint64\",\"value\":" scope "},"                                \
    "{\"name\":\"tid\",\"type\":\"uint64\",\"value\":" tid "}]}"
#define NODE(id, name, parent, rf)                                                                 \
    "{\"id\":" id ",\"name\":\"" name "\",\"ctrl_deps\":" parent "," EMPTY_IO ATTRS(rf, "1", "0")
#define TRACE(nodes) "{\"schema\":\"1.1.1-chakra.0.0.4\",\"pid\":7,\"nodes\":[" nodes "]}"
/* Values, shapes and types of one float tensor of 4 elements at the start of a storage. */
#define TENSOR_IO(tensor, storage)                                                                 \
    "{\"values\":[[" tensor "," storage ",0,4,4,\"cuda:0\"]],\"shapes\":[[2,2]],"                  \
    "\"types\":[\"Tensor(float)\"]}"
#define OP(id, parent, in, out)                                                                    \
    "{\"id\":" id ",\"name\":\"op" id "\",\"ctrl_deps\":" parent ",\"inputs\":" in                 \
    ",\"outputs\":" out "," ATTRS("0", "1", "0")
#define NOTHING "{\"values\":[],\"shapes\":[],\"types\":[]}"

static void reads_every_schema(void **state)
{
    (void)state;
    static const struct {
        const char *name, *member, *source;
        uint32_t nodes, comms, groups;
    } files[] = {
        {"pytorch_et/simple_add_a100.1.0.1.json.gz", NULL, "pytorch-et 1.0.1", 38, 0, 0},
        {"pytorch_et/small.1.0.2.tgz", "1.0.2-chakra.0.0.4.json", "pytorch-et 1.0.2-chakra.0.0.4",
         263, 10, 1},
        {"pytorch_et/resnet.1.0.3.json.gz", NULL, "pytorch-et 1.0.3-chakra.0.0.4", 14391, 21, 1},
        {"pytorch_et/resnet.1.1.0.json.gz", NULL, "pytorch-et 1.1.0-chakra.0.0.4", 14392, 21, 1},
        {"pytorch_et/pt2.1.1.1.tar.gz", "pt2_et.json", "pytorch-et 1.1.1-chakra.0.0.4", 20, 0, 0},
        {"dlrm_v100x8/rank0.host.json.gz", NULL, "pytorch-et 1.0.2-chakra.0.0.4", 1675, 8, 0},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        test_bytes file = slurp(data_path(files[i].name)), member = file;
        orr_read_report report;
        if (files[i].member != NULL)
            member = tar_member(file, files[i].member);
        const orr_graph *g = read_bytes(member.at, member.n, &report);
        assert_int_equal(report.format, ORR_FORMAT_PYTORCH_ET);
        assert_string_equal(orr_graph_str(g, g->source), files[i].source);
        assert_int_equal(g->n_nodes, files[i].nodes);
        assert_int_equal(g->n_comms, files[i].comms);
        assert_int_equal(g->n_groups, files[i].groups);
        /* One root; ids in the order of calls put parents first. */
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            assert_true(v == 0 ? g->parent[v] == ORR_NONE : g->parent[v] < v);
        orr_graph_free(g);
        free(file.at);
    }
}

/* The three generations of record_param_comms. */
static void reads_communications_of_1_0_2(void **state)
{
    (void)state;
    const orr_graph *g = read_data("dlrm_v100x8/rank3.host.json.gz", NULL);
    static const struct {
        orr_collective collective;
        bool vector;
        int64_t seq, in_bytes, out_bytes;
    } want[] = {
        {ORR_COLL_ALL_TO_ALL, true, 147, 24576, 24576},
        {ORR_COLL_ALL_TO_ALL, false, 148, 192, 192},
        {ORR_COLL_ALL_TO_ALL, true, 149, 1536, 1536},
    };
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes && n < 3; v++) {
        const orr_comm *comm = orr_graph_comm(g, v);
        if (comm == NULL)
            continue;
        assert_int_equal(g->kind[v], ORR_NODE_COLLECTIVE);
        assert_int_equal(comm->collective, want[n].collective);
        assert_int_equal(comm->vector, want[n].vector);
        assert_int_equal(comm->seq, want[n].seq);
        assert_int_equal(comm->in_bytes, want[n].in_bytes);
        assert_int_equal(comm->out_bytes, want[n].out_bytes);
        n++;
    }
    assert_int_equal(n, 3);
    assert_int_equal(g->rank, 3); /* its place in the group, as the arguments say */
    orr_graph_free(g);
}

static void reads_communications_of_1_0_2_with_groups(void **state)
{
    (void)state;
    test_bytes tar = slurp(data_path("pytorch_et/small.1.0.2.tgz"));
    test_bytes file = tar_member(tar, "1.0.2-chakra.0.0.4.json");
    const orr_graph *g = read_bytes(file.at, file.n, NULL);
    const orr_comm *comm = &g->comms[0];
    assert_int_equal(comm->collective, ORR_COLL_ALL_GATHER);
    assert_int_equal(comm->seq, 12);
    assert_int_equal(comm->group, 0); /* known by its number, 82149104 */
    assert_int_equal(comm->group_size, 2);
    assert_int_equal(comm->in_bytes, 4);
    assert_int_equal(comm->out_bytes, 8);
    assert_string_equal(orr_graph_str(g, g->groups[0].name), "0");
    assert_string_equal(orr_graph_str(g, g->groups[0].backend), "cuda:nccl");
    assert_int_equal(g->groups[0].size, 2);
    assert_int_equal(g->world_size, 2);
    orr_graph_free(g);
    free(tar.at);
}

static void check_resnet_comm(const orr_graph *g, int64_t seq, const char *dtype)
{
    const orr_comm *comm = &g->comms[0];
    assert_int_equal(comm->collective, ORR_COLL_BROADCAST);
    assert_int_equal(comm->root, 0);
    assert_int_equal(comm->seq, seq);
    assert_int_equal(comm->in_bytes, 53120 * 4);
    assert_int_equal(comm->out_bytes, 53120 * 4);
    assert_string_equal(orr_graph_str(g, comm->dtype), dtype);
    assert_string_equal(orr_graph_str(g, g->groups[comm->group].name), "0");
    assert_string_equal(orr_graph_str(g, g->groups[comm->group].desc), "default_pg");
    for (uint32_t i = 0; i < g->n_comms; i++)
        assert_int_not_equal(g->comms[i].group, ORR_NONE); /* each of the 21 has one */
}

static void reads_communications_of_1_0_3_and_1_1_0(void **state)
{
    (void)state;
    const orr_graph *old = read_data("pytorch_et/resnet.1.0.3.json.gz", NULL);
    check_resnet_comm(old, 33, "float");
    orr_graph_free(old);
    const orr_graph *new = read_data("pytorch_et/resnet.1.1.0.json.gz", NULL);
    check_resnet_comm(new, 47, "Float");
    assert_int_equal(new->comms[0].group_size, 1);
    orr_graph_free(new);
}

static void keeps_triton_resources(void **state)
{
    (void)state;
    test_bytes tar = slurp(data_path("pytorch_et/pt2.1.1.1.tar.gz"));
    test_bytes file = tar_member(tar, "pt2_et.json");
    const orr_graph *g = read_bytes(file.at, file.n, NULL);
    uint32_t kernels = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_attr backend, path;
        if (!orr_graph_find_attr(g, v, "kernel_backend", &backend))
            continue;
        assert_string_equal(orr_graph_str(g, *(const orr_str *)backend.values), "triton");
        assert_true(orr_graph_find_attr(g, v, "kernel_file", &path));
        const char *text = orr_graph_str(g, *(const orr_str *)path.values);
        assert_string_equal(text + strlen(text) - 3, ".py");
        kernels++;
    }
    assert_true(kernels >= 2);
    orr_graph_free(g);
    free(tar.at);
}

static void reads_tensors(void **state)
{
    (void)state;
    const orr_graph *g = read_data("pytorch_et/simple_add_a100.1.0.1.json.gz", NULL);
    const orr_node_id v = node_named(g, "aten::uniform_");
    assert_int_equal(g->io_out[v] - g->io_first[v], 1);
    assert_int_equal(g->io_first[v + 1] - g->io_out[v], 1);
    const orr_tensor *t = &g->tensors[g->io[g->io_first[v]]];
    assert_int_equal(t->source_id, 6);
    assert_int_equal(t->storage, 7);
    assert_int_equal(t->elements, 65536);
    assert_int_equal(t->element_bytes, 4);
    assert_string_equal(orr_graph_str(g, t->device), "cuda:0");
    assert_string_equal(orr_graph_str(g, t->dtype), "Tensor(float)");
    assert_string_equal(orr_graph_str(g, t->shape), "[256,256]");
    orr_graph_free(g);
}

/* Tensors in lists, and lists in lists; a device is missing in old files. */
static void finds_tensors_in_lists(void **state)
{
    (void)state;
    const orr_graph *g = read_text(
        TRACE(ROOT "," OP("2", "1",
                          "{\"values\":[[[3,4,0,8,2],[5,6,16,8,2]],7,[[[8,9,0,1,4,\"x\"]]]],"
                          "\"shapes\":[[[8],[2,4]],[],[[[1]]]],"
                          "\"types\":[\"GenericList[Tensor(c10::Half),Tensor(c10::Half)]\",\"Int\","
                          "\"GenericList[GenericList[Tensor(float)]]\"]}",
                          NOTHING)));
    assert_int_equal(g->io_out[1] - g->io_first[1], 3);
    const orr_tensor *second = &g->tensors[g->io[g->io_first[1] + 1]];
    assert_int_equal(second->storage, 6);
    assert_int_equal(second->offset_bytes, 16);
    assert_string_equal(orr_graph_str(g, second->shape), "[2,4]");
    assert_string_equal(orr_graph_str(g, second->device), "");
    orr_graph_free(g);
}

/* A key that comes twice: the last one counts, whatever layout the first one had. */
static void reads_inputs_that_come_twice(void **state)
{
    (void)state;
    static const char *const first[] = {"[]", TENSOR_IO("77", "78")};
    for (size_t i = 0; i < 2; i++) {
        char text[1024];
        snprintf(text, sizeof text,
                 "{\"schema\":\"1.1.1\",\"nodes\":[{\"id\":1,\"name\":\"x\",\"inputs\":%s,"
                 "\"inputs\":{\"values\":[[5,6,0,4,4,\"a rather long name of a device\"]],"
                 "\"shapes\":[[4]],\"types\":[\"Tensor(float)\"]}}]}",
                 first[i]);
        const orr_graph *g = read_text(text);
        assert_int_equal(g->io_out[0] - g->io_first[0], 1);
        assert_int_equal(g->tensors[g->io[0]].storage, 6);
        orr_graph_free(g);
    }
}

static void program_order_follows_ids_not_the_file(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(TRACE(NODE("4", "child", "3", "2") "," NODE("5", "last", "2", "3") "," NODE(
            "3", "first", "2", "1") "," NODE("2", "t", "1", "0") "," ROOT));
    const orr_node_id first = node_named(g, "first"), child = node_named(g, "child");
    const orr_node_id last = node_named(g, "last");
    assert_true(first < child && child < last);
    assert_int_equal(g->parent[child], first);
    assert_true(waits_for(g, last, first, ORR_DEP_THREAD));
    assert_false(waits_for(g, last, child, ORR_DEP_THREAD));
    assert_int_equal(g->source_id[last], 3);
    assert_int_equal(g->start_ns[last], ORR_TIME_NONE);
    orr_graph_free(g);
}

/* op2 writes storage 11 (through its child op3); op4 reads it. A node never waits for one that
 * it is inside of. */
static void readers_wait_for_the_last_writer(void **state)
{
    (void)state;
    const orr_graph *g =
        read_text(TRACE(ROOT "," OP("2", "1", NOTHING, TENSOR_IO("10", "11")) "," OP(
            "3", "2", NOTHING, TENSOR_IO("10", "11")) "," OP("4", "2", TENSOR_IO("10", "11"),
                                                             NOTHING) "," OP("5", "1",
                                                                             TENSOR_IO("10", "11"),
                                                                             NOTHING)));
    const orr_node_id op2 = node_named(g, "op2"), op3 = node_named(g, "op3");
    assert_true(waits_for(g, node_named(g, "op4"), op3, ORR_DEP_DATA));
    assert_false(waits_for(g, node_named(g, "op4"), op2, ORR_DEP_DATA));
    assert_true(waits_for(g, node_named(g, "op5"), op2, ORR_DEP_DATA));
    assert_int_equal(count_deps(g, ORR_DEP_DATA), 2);
    orr_graph_free(g);
}

static void schema_tells_what_is_written_in_place(void **state)
{
    (void)state;
    assert_int_equal(orr_et_written_args("aten::copy_(Tensor(a!) self, Tensor src) -> Tensor(a!)"),
                     1);
    assert_int_equal(orr_et_written_args("aten::f(Tensor x, int[2] d=[1, 2], *, Tensor(b!)[] y) "
                                         "-> ()"),
                     4);
    assert_int_equal(orr_et_written_args("aten::add(Tensor self, Tensor other) -> Tensor"), 0);
    assert_int_equal(orr_et_written_args(""), 0);
    const orr_graph *g = read_text("{\"schema\":\"1.0.1\",\"nodes\":["
                                   "{\"name\":\"add_\",\"id\":2,\"parent\":2,\"tid\":1,"
                                   "\"op_schema\":\"aten::_foreach_add_(Tensor(a!)[] self) -> ()\","
                                   "\"inputs\":[[[5,6,0,4,4,\"cpu\"]]],\"input_shapes\":[[[4]]],"
                                   "\"input_types\":[\"GenericList[Tensor(float)]\"],"
                                   "\"outputs\":[],\"output_shapes\":[],\"output_types\":[]},"
                                   "{\"name\":\"read\",\"id\":7,\"parent\":7,\"tid\":1,"
                                   "\"inputs\":[[5,6,0,4,4,\"cpu\"]],\"input_shapes\":[[4]],"
                                   "\"input_types\":[\"Tensor(float)\"]}]}");
    assert_true(waits_for(g, node_named(g, "read"), node_named(g, "add_"), ORR_DEP_DATA));
    orr_graph_free(g);
}

/* Backward operators run in a thread of their own, called from "## backward ##". */
static void backward_waits_for_its_caller(void **state)
{
    (void)state;
    const orr_graph *g = read_data("dlrm_v100x8/rank0.host.json.gz", NULL);
    const orr_node_id caller = node_named(g, "## backward ##");
    const orr_node_id called = node_named(g, "autograd::engine::evaluate_function: SumBackward1");
    assert_true(waits_for(g, called, caller, ORR_DEP_CONTROL));
    assert_true(g->lane[called] != g->lane[caller]);
    orr_graph_free(g);
}

static void both_layouts_say_the_same(void **state)
{
    (void)state;
    const orr_graph *flat = read_text(
        "{\"schema\":\"1.0.1\",\"pid\":7,\"nodes\":["
        "{\"name\":\"aten::mm\",\"id\":5,\"rf_id\":3,\"parent\":5,\"fw_parent\":0,\"seq_id\":-1,"
        "\"scope\":0,\"tid\":1,\"fw_tid\":0,\"op_schema\":\"s\","
        "\"inputs\":[[6,7,0,4,4,\"cpu\"]],\"input_shapes\":[[4]],"
        "\"input_types\":[\"Tensor(float)\"],"
        "\"outputs\":[],\"output_shapes\":[],\"output_types\":[]}]}");
    const orr_graph *nested = read_text(
        "{\"schema\":\"1.0.2-chakra.0.0.4\",\"pid\":7,\"nodes\":["
        "{\"id\":5,\"name\":\"aten::mm\",\"ctrl_deps\":5,"
        "\"inputs\":{\"values\":[[6,7,0,4,4,\"cpu\"]],\"shapes\":[[4]],"
        "\"types\":[\"Tensor(float)\"]},\"outputs\":{\"values\":[],\"shapes\":[],\"types\":[]},"
        "\"attrs\":[{\"name\":\"rf_id\",\"type\":\"uint64\",\"value\":3},"
        "{\"value\":-1,\"type\":\"int64\",\"name\":\"seq_id\"},"
        "{\"name\":\"fw_parent\",\"type\":\"uint64\",\"value\":0},"
        "{\"name\":\"scope\",\"type\":\"uint64\",\"value\":0},"
        "{\"name\":\"tid\",\"type\":\"uint64\",\"value\":1},"
        "{\"name\":\"fw_tid\",\"type\":\"uint64\",\"value\":0},"
        "{\"name\":\"op_schema\",\"type\":\"string\",\"value\":\"s\"}]}]}");
    static const char *const names[] = {"id",     "fw_parent", "seq_id",        "scope",
                                        "fw_tid", "op_schema", "inputs.values", "inputs.types"};
    assert_int_equal(flat->source_id[0], nested->source_id[0]);
    assert_int_equal(flat->lanes[0].tid, 1);
    assert_int_equal(nested->lanes[0].tid, 1);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        orr_attr a, b;
        assert_true(orr_graph_find_attr(flat, 0, names[i], &a));
        assert_true(orr_graph_find_attr(nested, 0, names[i], &b));
        assert_int_equal(a.kind, b.kind);
        if (a.kind == ORR_ATTR_STRING || a.kind == ORR_ATTR_JSON)
            assert_string_equal(orr_graph_str(flat, *(const orr_str *)a.values),
                                orr_graph_str(nested, *(const orr_str *)b.values));
        else
            assert_memory_equal(a.values, b.values, 8);
    }
    orr_graph_free(flat);
    orr_graph_free(nested);
}

static void reads_versions_to_come_and_says_so(void **state)
{
    (void)state;
    const orr_graph *known = read_text("{\"schema\":\"1.1.1-chakra.1.0.0\",\"nodes\":[" ROOT "]}");
    assert_string_equal(orr_graph_str(known, known->source), "pytorch-et 1.1.1-chakra.1.0.0");
    const orr_graph *newer = read_text("{\"schema\":\"1.7.0\",\"nodes\":[" ROOT "]}");
    assert_string_equal(orr_graph_str(newer, newer->source),
                        "pytorch-et 1.7.0 (not known, read as 1.1.1)");
    orr_graph_free(known);
    orr_graph_free(newer);
}

#define INIT(text)                                                                                    \
    "{\"id\":3,\"name\":\"## process_group:init ##\",\"ctrl_deps\":1,\"inputs\":{\"values\":[\"" text \
    "\"],\"shapes\":[[]],\"types\":[\"String\"]},\"outputs\":" NOTHING "," ATTRS("1", "1", "7")

static void reads_process_groups(void **state)
{
    (void)state;
    orr_read_report report;
    const char *text = TRACE(ROOT "," INIT(
        "[{\\\"pg_name\\\": \\\"0\\\", \\\"pg_desc\\\": \\\"world\\\", \\\"backend_config\\\": "
        "\\\"cuda:nccl\\\", \\\"ranks\\\": [], \\\"group_size\\\": 8}, {\\\"pg_name\\\": \\\"1\\\", "
        "\\\"ranks\\\": [1, 3, 5], \\\"group_size\\\": 3}, {\\\"pg_name\\\": \\\"2\\\", "
        "\\\"ranks\\\": [1, 3, 4]}]"));
    const orr_graph *g = read_bytes(text, strlen(text), &report);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_BAD_EVENT], 0);
    assert_int_equal(g->n_groups, 3);
    assert_int_equal(g->groups[0].size, 8);
    assert_int_equal(g->groups[0].start, 0);
    assert_int_equal(g->groups[1].start, 1);
    assert_int_equal(g->groups[1].stride, 2);
    assert_null(g->groups[1].ranks);
    assert_non_null(g->groups[2].ranks);
    assert_int_equal(orr_group_rank(&g->groups[2], 2), 4);
    assert_int_equal(g->world_size, 8);
    assert_int_equal(g->kind[1], ORR_NODE_META);
    orr_graph_free(g);
}

/* PyTorch cuts long strings: what is whole counts, and the cut is counted. */
static void counts_truncated_process_groups(void **state)
{
    (void)state;
    orr_read_report report;
    const char *text = TRACE(ROOT "," INIT("[{\\\"pg_name\\\": \\\"0\\\", \\\"group_size\\\": 4}, "
                                           "{\\\"pg_name\\\": \\\"1\\\", \\\"ranks\\\": [1, 2"));
    const orr_graph *g = read_bytes(text, strlen(text), &report);
    assert_int_equal(g->n_groups, 1);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_BAD_EVENT], 1);
    orr_graph_free(g);
}

/* gloo's threads race the observer: node 4 hangs under 5, which was called later, by 3. */
static void takes_the_caller_of_a_parent_called_later(void **state)
{
    (void)state;
    orr_read_report report;
    const char *late = TRACE(ROOT "," NODE("3", "c10d::allreduce_", "1", "1") "," NODE(
        "4", "gloo:all_reduce", "5", "2") "," NODE("5", "b", "3", "3"));
    const orr_graph *g = read_bytes(late, strlen(late), &report);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_BAD_EVENT], 0);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (strcmp(orr_graph_str(g, g->name[v]), "gloo:all_reduce") == 0)
            assert_string_equal(orr_graph_str(g, g->name[g->parent[v]]), "c10d::allreduce_");
    orr_graph_free(g);
}

static void names_faulty_ids(void **state)
{
    (void)state;
    orr_error err;
    orr_read_report report;
    const char *twice =
        TRACE(ROOT "," NODE("2", "aten::a", "1", "1") "," NODE("2", "aten::b", "1", "2"));
    assert_int_equal(try_text(twice, false, &report, &err), ORR_INVALID);
    assert_string_equal(err.text, "two nodes of id 2: 'aten::a' and 'aten::b'");
    const char *orphan = TRACE(ROOT "," NODE("4", "aten::a", "3", "1"));
    assert_int_equal(try_text(orphan, false, &report, &err), ORR_INVALID);
    assert_string_equal(err.text, "node 4 'aten::a': its parent 3 is not in the file");
    assert_int_equal(try_text(orphan, true, &report, &err), ORR_OK);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_LOST_PARENT], 1);
    const char *late = TRACE(ROOT "," NODE("4", "a", "5", "1") "," NODE("5", "b", "4", "1"));
    assert_int_equal(try_text(late, false, &report, &err), ORR_INVALID);
    assert_string_equal(err.text, "node 4 'a': its parent 5 is called by it");
    const char *nameless = TRACE(ROOT ",{\"name\":\"x\",\"ctrl_deps\":1}");
    assert_int_equal(try_text(nameless, false, &report, &err), ORR_PARSE);
    assert_non_null(strstr(err.text, "a node without an id"));
    assert_int_equal(try_text(nameless, true, &report, &err), ORR_OK);
}

static void tolerates_what_the_observer_gets_wrong(void **state)
{
    (void)state;
    orr_error err;
    orr_read_report report;
    const char *no_comma = TRACE(ROOT " " NODE("2", "a", "1", "1"));
    assert_int_equal(try_text(no_comma, false, &report, &err), ORR_PARSE);
    assert_int_equal(try_text(no_comma, true, &report, &err), ORR_OK);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_MISSING_COMMA], 1);
    const char *cut =
        "{\"schema\":\"1.0.2\",\"nodes\":[" ROOT "," NODE("2", "a", "1", "1") ",{\"id\":";
    assert_int_equal(try_text(cut, false, &report, &err), ORR_PARSE);
    assert_int_equal(try_text(cut, true, &report, &err), ORR_OK);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_TRUNCATED], 1);
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    const char *text =
        TRACE(NODE("4", "child", "3", "2") "," INIT("[{\\\"pg_name\\\": \\\"0\\\"}]") "," OP(
            "5", "1", TENSOR_IO("10", "11"), TENSOR_IO("10", "11")) "," ROOT);
    const orr_graph *g;
    orr_error err;
    for (uint64_t nth = 1;; nth++) {
        orr_alloc_fail_from(nth);
        const orr_status status = orr_trace_read_memory(text, strlen(text), NULL, &g, NULL, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    orr_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_schema),
        cmocka_unit_test(reads_communications_of_1_0_2),
        cmocka_unit_test(reads_communications_of_1_0_2_with_groups),
        cmocka_unit_test(reads_communications_of_1_0_3_and_1_1_0),
        cmocka_unit_test(keeps_triton_resources),
        cmocka_unit_test(reads_tensors),
        cmocka_unit_test(finds_tensors_in_lists),
        cmocka_unit_test(reads_inputs_that_come_twice),
        cmocka_unit_test(program_order_follows_ids_not_the_file),
        cmocka_unit_test(readers_wait_for_the_last_writer),
        cmocka_unit_test(schema_tells_what_is_written_in_place),
        cmocka_unit_test(backward_waits_for_its_caller),
        cmocka_unit_test(both_layouts_say_the_same),
        cmocka_unit_test(reads_versions_to_come_and_says_so),
        cmocka_unit_test(reads_process_groups),
        cmocka_unit_test(counts_truncated_process_groups),
        cmocka_unit_test(takes_the_caller_of_a_parent_called_later),
        cmocka_unit_test(names_faulty_ids),
        cmocka_unit_test(tolerates_what_the_observer_gets_wrong),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
