/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include <unistd.h>

#include "base/alloc.h"
#include "io/protobuf/wire.h"
#include "trace/common/attr_names.h"
#include "trace/chakra/chakra.h"

static void check_round_trip(const void *bytes, size_t n, const char *what)
{
    orr_read_report report;
    const orr_graph *g = read_bytes(bytes, n, &report);
    assert_int_equal(report.format, ORR_FORMAT_CHAKRA);
    const test_bytes again = chakra_bytes(g);
    if (again.n != n || memcmp(again.at, bytes, n) != 0)
        fail_msg("%s: written again it is different", what);
    free(again.at);
    orr_graph_free(g);
}

static void writes_every_file_again_byte_by_byte(void **state)
{
    (void)state;
    static const char *const kinds[] = {
        "generator/ALL_GATHER.%d.et",
        "generator/ALL_REDUCE.%d.et",
        "generator/ALL_TO_ALL.%d.et",
        "generator/BARRIER.%d.et",
        "generator/BROADCAST.%d.et",
        "generator/REDUCE_SCATTER.%d.et",
        "generator/one_comm_recv_node.%d.et",
        "generator/one_comm_send_node.%d.et",
        "generator/one_comp_node.%d.et",
        "generator/one_metadata_node_all_types.%d.et",
        "generator/one_remote_mem_load_node.%d.et",
        "generator/one_remote_mem_store_node.%d.et",
        "generator/two_comp_nodes_dependent.%d.et",
        "generator/two_comp_nodes_independent.%d.et",
        "astra_all_reduce/all_reduce.%d.et",
    };
    char name[96];
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        for (int rank = 0; rank < (i == 14 ? 8 : 2); rank++) {
            char file[64];
            snprintf(file, sizeof file, kinds[i], rank);
            snprintf(name, sizeof name, "chakra/%s", file);
            test_bytes bytes = slurp(data_path(name));
            check_round_trip(bytes.at, bytes.n, name);
            free(bytes.at);
        }
    for (int rank = 0; rank < 4; rank++) {
        snprintf(name, sizeof name, "expected/dlrm_v100x8.rank%d.chakra_converter.et.gz", rank);
        test_bytes bytes = slurp(data_path(name));
        check_round_trip(bytes.at, bytes.n, name);
        free(bytes.at);
    }
    test_bytes tar = slurp(data_path("chakra/feeder_tests_trace.tar.gz"));
    const test_bytes old = tar_member(tar, "tests/data/chakra.0.et");
    check_round_trip(old.at, old.n, "chakra.0.et");
    free(tar.at);
}

/* A Chakra file made by hand. */
typedef struct file {
    orr_proto_buffer all, message;
} file;

static void end_message(file *f)
{
    orr_proto_put_varint(&f->all, f->message.n);
    orr_proto_put_raw(&f->all, f->message.at, f->message.n);
    f->message.n = 0;
}

static file new_file(void)
{
    file f = {.all = {0}};
    orr_proto_put_bytes(&f.message, CHAKRA_METADATA_VERSION, "1.0.0", 5);
    end_message(&f);
    return f;
}

static void begin_node(file *f, uint64_t id, const char *name, uint64_t type)
{
    if (id != 0)
        orr_proto_put_uint(&f->message, CHAKRA_NODE_ID, id);
    orr_proto_put_bytes(&f->message, CHAKRA_NODE_NAME, name, strlen(name));
    orr_proto_put_uint(&f->message, CHAKRA_NODE_TYPE, type);
}

static void put_ids(file *f, uint32_t field, const uint64_t *ids, size_t n, bool packed)
{
    if (!packed) {
        for (size_t i = 0; i < n; i++)
            orr_proto_put_uint(&f->message, field, ids[i]);
        return;
    }
    const size_t mark = orr_proto_begin(&f->message, field);
    for (size_t i = 0; i < n; i++)
        orr_proto_put_varint(&f->message, ids[i]);
    orr_proto_end(&f->message, mark);
}

static void put_number_attr(file *f, const char *name, orr_attr_kind kind, uint64_t value)
{
    const size_t mark = orr_proto_begin(&f->message, CHAKRA_NODE_ATTR);
    orr_proto_put_bytes(&f->message, CHAKRA_ATTR_NAME, name, strlen(name));
    orr_proto_put_uint(&f->message, CHAKRA_ATTR_FIRST_VALUE + 2 * kind, value);
    orr_proto_end(&f->message, mark);
}

static const orr_graph *read_file(file *f)
{
    return read_bytes(f->all.at, f->all.n, NULL);
}

static void done(file *f)
{
    orr_proto_buffer_done(&f->all);
    orr_proto_buffer_done(&f->message);
}

static orr_status try_file(const file *f, bool tolerant, orr_read_report *report, orr_error *err)
{
    orr_read_options options;
    const orr_graph *g = NULL;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    options.format = ORR_FORMAT_CHAKRA;
    const orr_status status = orr_trace_read_memory(f->all.at, f->all.n, &options, &g, report, err);
    if (status == ORR_OK)
        orr_graph_free(g);
    return status;
}

static void reads_every_kind_of_attribute(void **state)
{
    (void)state;
    const orr_graph *g = read_data("chakra/generator/one_metadata_node_all_types.0.et", NULL);
    orr_attr a;
    assert_int_equal(g->kind[0], ORR_NODE_META);
    static const char *const names[] = {"double",   "float",    "int32",  "int64",   "uint32",
                                        "uint64",   "sint32",   "sint64", "fixed32", "fixed64",
                                        "sfixed32", "sfixed64", "bool",   "string",  "bytes"};
    for (int kind = ORR_ATTR_DOUBLE; kind <= ORR_ATTR_BYTES; kind++) {
        char list[32];
        snprintf(list, sizeof list, "%s_list", names[kind]);
        assert_true(orr_graph_find_attr(g, 0, names[kind], &a));
        assert_int_equal(a.kind, kind);
        assert_false(a.list);
        assert_true(orr_graph_find_attr(g, 0, list, &a));
        assert_int_equal(a.kind, kind);
        assert_true(a.list);
        assert_true(a.count >= 2);
    }
    assert_true(orr_graph_find_attr(g, 0, "sint64", &a));
    assert_int_equal(*(const int64_t *)a.values, -9876543210);
    assert_true(orr_graph_find_attr(g, 0, "sfixed32", &a));
    assert_int_equal(*(const int32_t *)a.values, -12345);
    assert_true(orr_graph_find_attr(g, 0, "double", &a));
    assert_true(*(const double *)a.values == 1.2345);
    assert_string_equal(orr_graph_str(g, a.doc), "double");
    assert_true(orr_graph_find_attr(g, 0, "bool_list", &a));
    assert_int_equal(a.count, 10);
    assert_int_equal(((const uint8_t *)a.values)[2], 1);
    orr_graph_free(g);
}

static void reads_what_nodes_mean(void **state)
{
    (void)state;
    const orr_graph *g = read_data("chakra/astra_all_reduce/all_reduce.3.et", NULL);
    const orr_comm *comm = orr_graph_comm(g, 0);
    assert_string_equal(orr_graph_str(g, g->source), "chakra 0.0.4");
    assert_int_equal(g->kind[0], ORR_NODE_COLLECTIVE);
    assert_non_null(comm);
    assert_int_equal(comm->collective, ORR_COLL_ALL_REDUCE);
    assert_int_equal(comm->in_bytes, 1048576);
    assert_int_equal(g->lanes[g->lane[0]].kind, ORR_LANE_STREAM);
    assert_int_equal(g->rank, 3);
    orr_graph_free(g);

    test_bytes tar = slurp(data_path("chakra/feeder_tests_trace.tar.gz"));
    const test_bytes old = tar_member(tar, "tests/data/chakra.0.et");
    g = read_bytes(old.at, old.n, NULL);
    assert_int_equal(g->n_nodes, 3664);
    assert_int_equal(count_deps(g, ORR_DEP_DATA), 181878);
    assert_int_equal(count_kind(g, ORR_NODE_COLLECTIVE), 7);
    assert_int_equal(g->source_id[0], 216);
    assert_int_equal(g->duration_ns[0], 318000);
    assert_int_equal(g->start_ns[0], ORR_TIME_NONE);
    orr_graph_free(g);
    free(tar.at);
}

static void reads_the_json_workload_as_the_same(void **state)
{
    (void)state;
    test_bytes json_tar = slurp(data_path("chakra/json_trace.tar.gz"));
    test_bytes tar = slurp(data_path("chakra/feeder_tests_trace.tar.gz"));
    const test_bytes json = tar_member(json_tar, "jsonData/chakra.0.json");
    const test_bytes et = tar_member(tar, "tests/data/chakra.0.et");
    orr_read_report report;
    const orr_graph *a = read_bytes(json.at, json.n, &report);
    const orr_graph *b = read_bytes(et.at, et.n, NULL);
    assert_int_equal(report.format, ORR_FORMAT_CHAKRA_JSON);
    assert_int_equal(a->n_nodes, b->n_nodes);
    for (orr_node_id v = 0; v < a->n_nodes; v++) {
        assert_int_equal(a->source_id[v], b->source_id[v]);
        assert_int_equal(a->kind[v], b->kind[v]);
        assert_int_equal(a->duration_ns[v], b->duration_ns[v]);
    }
    assert_int_equal(count_deps(a, ORR_DEP_DATA), count_deps(b, ORR_DEP_DATA));
    /* As protobuf it reads as what it was. */
    const test_bytes written = chakra_bytes(a);
    const orr_graph *c = read_bytes(written.at, written.n, &report);
    assert_int_equal(report.format, ORR_FORMAT_CHAKRA);
    assert_int_equal(c->n_deps, a->n_deps);
    orr_attr cpu;
    assert_true(orr_graph_find_attr(c, 0, "is_cpu_op", &cpu));
    assert_int_equal(cpu.kind, ORR_ATTR_BOOL);
    orr_graph_free(a);
    orr_graph_free(b);
    orr_graph_free(c);
    free(written.at);
    free(json_tar.at);
    free(tar.at);
}

static void accepts_lists_that_are_not_packed(void **state)
{
    (void)state;
    static const uint64_t one[] = {1};
    file packed = new_file(), loose = new_file();
    for (int i = 0; i < 2; i++) {
        file *f = i == 0 ? &packed : &loose;
        begin_node(f, 1, "a", CHAKRA_COMP);
        end_message(f);
        begin_node(f, 2, "b", CHAKRA_COMP);
        put_ids(f, CHAKRA_NODE_CTRL_DEPS, one, 1, i == 0);
        put_ids(f, CHAKRA_NODE_DATA_DEPS, one, 1, i == 0);
        const size_t attr = orr_proto_begin(&f->message, CHAKRA_NODE_ATTR);
        orr_proto_put_bytes(&f->message, CHAKRA_ATTR_NAME, "x", 1);
        const size_t list = orr_proto_begin(&f->message, 10); /* int64_list */
        put_ids(f, 1, one, 1, i == 0);
        orr_proto_end(&f->message, list);
        orr_proto_end(&f->message, attr);
        end_message(f);
    }
    const orr_graph *g = read_file(&loose);
    assert_true(waits_for(g, 1, 0, ORR_DEP_CONTROL));
    assert_true(waits_for(g, 1, 0, ORR_DEP_DATA));
    const test_bytes written = chakra_bytes(g);
    assert_int_equal(written.n, packed.all.n);
    assert_memory_equal(written.at, packed.all.at, written.n);
    free(written.at);
    orr_graph_free(g);
    done(&packed);
    done(&loose);
}

static void keeps_what_it_does_not_know(void **state)
{
    (void)state;
    file f = new_file();
    begin_node(&f, 0, "storage", 8); /* STORAGE, a type of a version to come; id 0 is an id */
    orr_proto_put_bytes(&f.message, CHAKRA_NODE_INPUTS, "", 0); /* there, but empty */
    size_t mark = orr_proto_begin(&f.message, CHAKRA_NODE_ATTR);
    orr_proto_put_bytes(&f.message, CHAKRA_ATTR_NAME, "any", 3);
    orr_proto_put_bytes(&f.message, 33, "\012\001x", 3); /* a kind of a version to come */
    orr_proto_end(&f.message, mark);
    mark = orr_proto_begin(&f.message, CHAKRA_NODE_ATTR);
    orr_proto_put_bytes(&f.message, CHAKRA_ATTR_NAME, "bare", 4);
    orr_proto_put_bytes(&f.message, CHAKRA_ATTR_DOC, "no value", 8);
    orr_proto_end(&f.message, mark);
    put_number_attr(&f, "inputs.values", ORR_ATTR_INT64, 7); /* a name that we use ourselves */
    orr_proto_put_bytes(&f.message, 11, "\010\001", 2);      /* StorageInfo */
    end_message(&f);
    const orr_graph *g = read_file(&f);
    orr_attr a;
    assert_int_equal(g->kind[0], ORR_NODE_OTHER);
    assert_int_equal(g->source_id[0], 0);
    assert_true(orr_graph_find_attr(g, 0, "any", &a));
    assert_int_equal(a.kind, ORR_ATTR_UNKNOWN);
    assert_true(orr_graph_find_attr(g, 0, "bare", &a));
    assert_int_equal(a.kind, ORR_ATTR_NONE);
    assert_string_equal(orr_graph_str(g, a.doc), "no value");
    orr_graph_free(g);
    check_round_trip(f.all.at, f.all.n, "unknown fields");
    done(&f);
}

static void names_faulty_ids(void **state)
{
    (void)state;
    static const uint64_t nine[] = {9};
    orr_read_report report;
    orr_error err;
    file f = new_file();
    begin_node(&f, 7, "a", CHAKRA_COMP);
    end_message(&f);
    begin_node(&f, 7, "b", CHAKRA_COMP);
    end_message(&f);
    assert_int_equal(try_file(&f, false, &report, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "two nodes of id 7: 'a' and 'b'"));
    done(&f);

    f = new_file();
    begin_node(&f, 7, "a", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_DATA_DEPS, nine, 1, true);
    end_message(&f);
    assert_int_equal(try_file(&f, false, &report, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "node 7 'a' waits for the data of node 9, which is not in the file");
    assert_int_equal(try_file(&f, true, &report, &err), ORR_OK);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_BAD_EVENT], 1);
    done(&f);
}

static void names_a_cycle(void **state)
{
    (void)state;
    static const uint64_t one[] = {1}, two[] = {2};
    orr_read_report report;
    orr_error err;
    file f = new_file();
    begin_node(&f, 1, "a", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_DATA_DEPS, two, 1, true);
    end_message(&f);
    begin_node(&f, 2, "b", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_DATA_DEPS, one, 1, true);
    end_message(&f);
    assert_int_equal(try_file(&f, false, &report, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "cycle: "));
    assert_non_null(strstr(err.text, "'a'"));
    done(&f);
}

/* Control dependencies on nodes that a converter left out, or against the data: Chakra's own
 * feeder never looks at them. They are not the graph's, but written again. */
static void keeps_control_dependencies_that_cannot_hold(void **state)
{
    (void)state;
    static const uint64_t lists[][3] = {{2, 5, 2}, {1, 6, 1}}, one[] = {1};
    file f = new_file();
    begin_node(&f, 1, "a", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_CTRL_DEPS, lists[0], 3, true);
    end_message(&f);
    begin_node(&f, 2, "b", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_CTRL_DEPS, lists[1], 3, true);
    put_ids(&f, CHAKRA_NODE_DATA_DEPS, one, 1, true);
    end_message(&f);
    begin_node(&f, 3, "c", CHAKRA_COMP);
    put_ids(&f, CHAKRA_NODE_CTRL_DEPS, one, 1, true);
    end_message(&f);
    orr_read_report report;
    const orr_graph *g = read_bytes(f.all.at, f.all.n, &report);
    assert_int_equal(report.ignored, 6);
    assert_int_equal(count_deps(g, ORR_DEP_CONTROL), 1);
    assert_true(waits_for(g, 2, 0, ORR_DEP_CONTROL));
    orr_graph_free(g);
    check_round_trip(f.all.at, f.all.n, "dangling control dependencies");
    done(&f);
}

static void times_are_nanoseconds(void **state)
{
    (void)state;
    orr_read_report report;
    orr_error err;
    file f = new_file();
    begin_node(&f, 1, "early", CHAKRA_COMP);
    orr_proto_put_uint(&f.message, CHAKRA_NODE_START, 1000);
    orr_proto_put_uint(&f.message, CHAKRA_NODE_DURATION, 7);
    end_message(&f);
    begin_node(&f, 2, "late", CHAKRA_COMP);
    orr_proto_put_uint(&f.message, CHAKRA_NODE_START, 1500);
    put_number_attr(&f, "start_ns", ORR_ATTR_INT64, 1500499); /* exact, and it agrees */
    put_number_attr(&f, "duration_ns", ORR_ATTR_INT64, 499);
    end_message(&f);
    begin_node(&f, 3, "strange", CHAKRA_COMP);
    orr_proto_put_uint(&f.message, CHAKRA_NODE_START, 2000);
    put_number_attr(&f, "start_ns", ORR_ATTR_INT64, 77); /* it does not agree */
    end_message(&f);
    const orr_graph *g = read_file(&f);
    assert_int_equal(g->base_ns, 1000000);
    assert_int_equal(g->start_ns[0], 0);
    assert_int_equal(g->duration_ns[0], 7000);
    assert_int_equal(g->start_ns[1], 500499);
    assert_int_equal(g->duration_ns[1], 499);
    assert_int_equal(g->start_ns[2], 1000000);
    orr_graph_free(g);
    check_round_trip(f.all.at, f.all.n, "times");
    done(&f);

    f = new_file();
    begin_node(&f, 5, "x", CHAKRA_COMP);
    orr_proto_put_uint(&f.message, CHAKRA_NODE_DURATION, UINT64_MAX / 2);
    end_message(&f);
    assert_int_equal(try_file(&f, false, &report, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "node 5: start or duration is over"));
    done(&f);
}

static void says_where_a_file_is_broken(void **state)
{
    (void)state;
    orr_read_report report;
    orr_error err;
    file f = new_file();
    const size_t behind_metadata = f.all.n;
    begin_node(&f, 1, "a", CHAKRA_COMP);
    end_message(&f);
    begin_node(&f, 2, "b", CHAKRA_COMP);
    end_message(&f);
    const size_t whole = f.all.n;
    f.all.n -= 2;
    assert_int_equal(try_file(&f, false, &report, &err), ORR_PARSE);
    assert_int_not_equal(err.byte_pos, UINT64_MAX);
    assert_int_equal(try_file(&f, true, &report, &err), ORR_OK);
    assert_int_equal(report.faults[ORR_TRACE_FAULT_TRUNCATED], 1);
    f.all.n = whole;
    f.all.at[behind_metadata + 1] = 0x0f; /* field 1 of a wire type that means nothing */
    assert_int_equal(try_file(&f, false, &report, &err), ORR_PARSE);
    assert_int_equal(err.byte_pos, behind_metadata);
    done(&f);
}

static void writes_compressed_files(void **state)
{
    (void)state;
    static const char *const endings[] = {"et", "et.gz", "et.zst"};
    const orr_graph *g = read_data("chakra/generator/two_comp_nodes_dependent.1.et", NULL);
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char path[64];
        orr_error err;
        orr_read_report report;
        const orr_graph *again;
        snprintf(path, sizeof path, "/tmp/orrery_test_%d.%s", (int)getpid(), endings[i]);
        assert_int_equal(orr_trace_write(path, ORR_FORMAT_CHAKRA, g, &err), ORR_OK);
        assert_int_equal(orr_trace_read(path, NULL, &again, &report, &err), ORR_OK);
        assert_int_equal(report.bytes, 82);
        assert_int_equal(again->n_nodes, 2);
        orr_graph_free(again);
        remove(path);
    }
    orr_graph_free(g);
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    const test_bytes bytes = slurp(data_path("chakra/generator/one_metadata_node_all_types.1.et"));
    const orr_graph *g;
    orr_error err;
    for (uint64_t nth = 1;; nth++) {
        orr_output *out = NULL;
        g = NULL;
        orr_alloc_fail_from(nth);
        orr_status status = orr_trace_read_memory(bytes.at, bytes.n, NULL, &g, NULL, &err);
        if (status == ORR_OK)
            status = orr_output_open_memory(&out, &err);
        if (status == ORR_OK)
            status = orr_chakra_write(g, out, &err);
        if (status == ORR_OK)
            status = orr_output_finish(out, &err);
        orr_alloc_fail_from(0);
        orr_output_close(out);
        orr_graph_free(g);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    free(bytes.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_every_file_again_byte_by_byte),
        cmocka_unit_test(reads_every_kind_of_attribute),
        cmocka_unit_test(reads_what_nodes_mean),
        cmocka_unit_test(reads_the_json_workload_as_the_same),
        cmocka_unit_test(accepts_lists_that_are_not_packed),
        cmocka_unit_test(keeps_what_it_does_not_know),
        cmocka_unit_test(names_faulty_ids),
        cmocka_unit_test(names_a_cycle),
        cmocka_unit_test(keeps_control_dependencies_that_cannot_hold),
        cmocka_unit_test(times_are_nanoseconds),
        cmocka_unit_test(says_where_a_file_is_broken),
        cmocka_unit_test(writes_compressed_files),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
