/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/feeder.h>

#include "trace_data.h"

#include "base/alloc.h"
#include "base/philox.h"
#include "io/protobuf/wire.h"
#include "trace/chakra/chakra.h"

/* A Chakra file under construction. */
typedef struct file {
    orr_proto_buffer bytes, message;
} file;

static void end_message(file *f)
{
    orr_proto_put_varint(&f->bytes, f->message.n);
    orr_proto_put_raw(&f->bytes, f->message.at, f->message.n);
    f->message.n = 0;
}

static file begin_file(void)
{
    file f = {0};
    orr_proto_put_bytes(&f.message, CHAKRA_METADATA_VERSION, "1", 1);
    end_message(&f);
    return f;
}

/* Dependencies one by one, not packed: both forms are read. */
static void put_node(file *f, uint64_t id, const uint64_t *data, size_t n)
{
    orr_proto_put_uint(&f->message, CHAKRA_NODE_ID, id);
    orr_proto_put_bytes(&f->message, CHAKRA_NODE_NAME, "node", 4);
    orr_proto_put_uint(&f->message, CHAKRA_NODE_TYPE, ORR_FEEDER_COMP);
    for (size_t i = 0; i < n; i++)
        orr_proto_put_uint(&f->message, CHAKRA_NODE_DATA_DEPS, data[i]);
    end_message(f);
}

static void drop(file *f)
{
    orr_proto_buffer_done(&f->bytes);
    orr_proto_buffer_done(&f->message);
}

static orr_feeder *feeder_of(const void *bytes, size_t n, uint32_t window)
{
    orr_feeder_options options;
    orr_feeder *feeder;
    orr_error err;
    orr_feeder_options_init(&options);
    options.window = window;
    if (orr_feeder_open_memory(bytes, n, &options, &feeder, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return feeder;
}

static const orr_feeder_node *next_of(orr_feeder *feeder)
{
    const orr_feeder_node *node;
    orr_error err;
    if (orr_feeder_next(feeder, &node, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return node;
}

static uint64_t next_id(orr_feeder *feeder)
{
    const orr_feeder_node *node = next_of(feeder);
    return node == NULL ? 0 : node->id;
}

static void done(orr_feeder *feeder, uint64_t id)
{
    orr_error err;
    if (orr_feeder_done(feeder, id, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

/*   1 -> 2 -> 4,  1 -> 3 -> 4   */
static void gives_nodes_as_they_are_free(void **state)
{
    (void)state;
    const uint64_t one[] = {1}, both[] = {2, 3};
    file f = begin_file();
    orr_error err;
    put_node(&f, 1, NULL, 0);
    put_node(&f, 3, one, 1);
    put_node(&f, 2, one, 1);
    put_node(&f, 4, both, 2);
    orr_feeder *feeder = feeder_of(f.bytes.at, f.bytes.n, 100);
    assert_int_equal(next_id(feeder), 1);
    assert_int_equal(next_id(feeder), 0); /* nothing until it is done */
    assert_int_equal(orr_feeder_n_held(feeder), 4);
    done(feeder, 1);
    assert_null(orr_feeder_find(feeder, 1));
    assert_int_equal(orr_feeder_n_ready(feeder), 2);
    assert_int_equal(next_id(feeder), 2); /* the lowest id first */
    assert_int_equal(next_id(feeder), 3);
    assert_int_equal(orr_feeder_push_back(feeder, 2, &err), ORR_OK);
    assert_int_equal(orr_feeder_push_back(feeder, 2, &err), ORR_INVALID);
    assert_int_equal(next_id(feeder), 2);
    done(feeder, 3);
    assert_int_equal(next_id(feeder), 0);
    assert_int_equal(orr_feeder_done(feeder, 4, &err), ORR_INVALID); /* was not issued */
    done(feeder, 2);
    assert_false(orr_feeder_is_finished(feeder));
    const orr_feeder_node *last = next_of(feeder);
    assert_int_equal(last->id, 4);
    assert_int_equal(last->type, ORR_FEEDER_COMP);
    assert_memory_equal(last->name.at, "node", last->name.n);
    done(feeder, 4);
    assert_int_equal(next_id(feeder), 0);
    assert_true(orr_feeder_is_finished(feeder));
    assert_int_equal(orr_feeder_n_ranges(feeder), 1);
    orr_feeder_close(feeder);
    drop(&f);
}

static void reads_on_for_what_stands_behind(void **state)
{
    (void)state;
    const uint64_t last[] = {9};
    file f = begin_file();
    for (uint64_t id = 1; id < 9; id++)
        put_node(&f, id, last, 1);
    put_node(&f, 9, NULL, 0);
    orr_feeder *feeder = feeder_of(f.bytes.at, f.bytes.n, 2);
    assert_int_equal(next_id(feeder), 9);
    done(feeder, 9);
    for (uint64_t id = 1; id < 9; id++) {
        assert_int_equal(next_id(feeder), id);
        done(feeder, id);
    }
    assert_true(orr_feeder_is_finished(feeder));
    orr_feeder_close(feeder);
    drop(&f);
}

static void names_what_cannot_run(void **state)
{
    (void)state;
    static const struct {
        uint64_t id[3], on[3];
        const char *text;
    } cases[] = {
        {{1, 2, 0}, {2, 1, 0}, "node 1 waits for itself, in a circle"},
        {{1, 2, 0}, {0, 7, 0}, "node 2 waits for node 7, which is not in the file"},
        {{1, 2, 2}, {0, 0, 0}, "two nodes of id 2"},
        {{3, 0, 0}, {3, 0, 0}, "node 3 waits for itself, in a circle"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        file f = begin_file();
        orr_status status;
        orr_error err;
        for (size_t k = 0; k < 3 && cases[i].id[k] != 0; k++)
            put_node(&f, cases[i].id[k], &cases[i].on[k], cases[i].on[k] != 0);
        orr_feeder *feeder = feeder_of(f.bytes.at, f.bytes.n, 1);
        const orr_feeder_node *node = NULL;
        while ((status = orr_feeder_next(feeder, &node, &err)) == ORR_OK && node != NULL)
            done(feeder, node->id);
        assert_int_equal(status, ORR_INVALID);
        assert_string_equal(err.text, cases[i].text);
        orr_feeder_close(feeder);
        drop(&f);
    }
}

/* A long chain through a small window takes no more room at its end than at its beginning. */
static void memory_does_not_grow_with_the_file(void **state)
{
    (void)state;
    enum { N = 200000, WINDOW = 64 };
    file f = begin_file();
    for (uint64_t id = 1; id <= N; id++) {
        const uint64_t on[] = {id - 1, id > 40 ? id - 40 : 1};
        put_node(&f, id, on, id == 1 ? 0 : id == 2 ? 1 : 2);
    }
    orr_feeder *feeder = feeder_of(f.bytes.at, f.bytes.n, WINDOW);
    for (uint64_t id = 1; id <= N; id++) {
        assert_int_equal(next_id(feeder), id);
        assert_true(orr_feeder_n_held(feeder) <= WINDOW);
        done(feeder, id);
        assert_true(orr_feeder_n_ranges(feeder) <= 1);
    }
    assert_true(orr_feeder_is_finished(feeder));
    orr_feeder_close(feeder);
    drop(&f);
}

/* Any window, any order of ends, ids in any order in the file: each node once, and never before
 * what it waits for. */
static void every_order_keeps_dependencies(void **state)
{
    (void)state;
    enum { N = 400 };
    for (uint64_t seed = 0; seed < 60; seed++) {
        orr_random random = orr_random_of(seed, 0);
        static uint64_t on[N + 1][3], running[N], order[N + 1];
        bool is_done[N + 1] = {false};
        size_t n_on[N + 1] = {0}, n_running = 0, n_done = 0;
        file f = begin_file();
        for (uint64_t id = 1; id <= N; id++) {
            order[id] = id;
            n_on[id] = id == 1 ? 0 : (size_t)orr_random_below(&random, 4);
            for (size_t k = 0; k < n_on[id]; k++)
                on[id][k] = 1 + orr_random_below(&random, id - 1);
        }
        for (uint64_t id = N; id > 1 && seed % 2 != 0; id--) {
            const uint64_t other = 1 + orr_random_below(&random, id), was = order[id];
            order[id] = order[other];
            order[other] = was;
        }
        for (uint64_t i = 1; i <= N; i++)
            put_node(&f, order[i], on[order[i]], n_on[order[i]]);
        orr_feeder *feeder =
            feeder_of(f.bytes.at, f.bytes.n, 1 + (uint32_t)orr_random_below(&random, 50));
        while (!orr_feeder_is_finished(feeder)) {
            const uint64_t id = orr_random_below(&random, 3) == 0 ? 0 : next_id(feeder);
            if (id != 0) {
                for (size_t k = 0; k < n_on[id]; k++)
                    if (!is_done[on[id][k]])
                        fail_msg("seed %u: node %u comes too early", (unsigned)seed, (unsigned)id);
                running[n_running++] = id;
            } else if (n_running > 0) {
                const size_t at = (size_t)orr_random_below(&random, n_running);
                done(feeder, running[at]);
                assert_false(is_done[running[at]]);
                is_done[running[at]] = true;
                running[at] = running[--n_running];
                n_done++;
            }
        }
        assert_int_equal(n_done, N);
        orr_feeder_close(feeder);
        drop(&f);
    }
}

static uint32_t same_attrs(const orr_graph *g, orr_node_id v, const orr_feeder_node *node)
{
    uint32_t n = 0;
    orr_attr_iter it = orr_graph_attrs(g, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);) {
        orr_feeder_value value;
        int64_t number;
        const char *name = orr_graph_str(g, attr.name);
        if (orr_chakra_is_reserved(name, strlen(name)))
            continue;
        assert_false(orr_feeder_attr(node, name, 1, &value));
        assert_true(orr_feeder_attr(node, name, 0, &value));
        assert_int_equal(value.kind, attr.kind);
        if (attr.kind == ORR_ATTR_STRING)
            assert_memory_equal(value.text.at, orr_graph_str(g, *(const orr_str *)attr.values),
                                value.text.n);
        else if (orr_attr_int(&attr, &number))
            assert_int_equal(value.number, number);
        n++;
    }
    return n;
}

/* Of every node of a file that Chakra's converter wrote. */
static void values_are_those_of_the_graph(void **state)
{
    (void)state;
    const test_bytes tar = slurp(data_path("chakra/feeder_tests_trace.tar.gz"));
    const test_bytes et = tar_member(tar, "tests/data/chakra.0.et");
    const orr_graph *g = read_bytes(et.at, et.n, NULL);
    orr_feeder *feeder = feeder_of(et.at, et.n, 4096);
    uint32_t n_seen = 0, n_attrs = 0;
    for (const orr_feeder_node *node; (node = next_of(feeder)) != NULL; n_seen++) {
        orr_node_id v = 0;
        while (g->source_id[v] != node->id)
            v++;
        assert_int_equal(node->name.n, strlen(name_of(g, v)));
        assert_memory_equal(node->name.at, name_of(g, v), node->name.n);
        n_attrs += same_attrs(g, v, node);
        assert_false(orr_feeder_attr(node, "no such attribute", 0, &(orr_feeder_value){0}));
        assert_int_equal(orr_feeder_number(node, "no such attribute", -7), -7);
        done(feeder, node->id);
    }
    assert_int_equal(n_seen, g->n_nodes);
    assert_true(n_attrs > 10000);
    orr_feeder_close(feeder);
    orr_graph_free(g);
    free(tar.at);
}

/* Runs a file to its end, or to the first error. */
static orr_status run(const void *bytes, size_t n)
{
    orr_feeder *feeder = NULL;
    const orr_feeder_node *node;
    orr_error err;
    orr_status status = orr_feeder_open_memory(bytes, n, NULL, &feeder, &err);
    while (status == ORR_OK && (status = orr_feeder_next(feeder, &node, &err)) == ORR_OK &&
           node != NULL)
        status = orr_feeder_done(feeder, node->id, &err);
    orr_feeder_close(feeder);
    return status;
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    orr_status status = ORR_NO_MEMORY;
    file f = begin_file();
    for (uint64_t id = 1; id <= 100; id++)
        put_node(&f, id, (const uint64_t[]){id % 7 == 0 ? 100 : 1}, id > 1 && id < 100);
    for (uint64_t nth = 1; status == ORR_NO_MEMORY; nth++) {
        orr_alloc_fail_from(nth);
        status = run(f.bytes.at, f.bytes.n);
        orr_alloc_fail_from(0);
    }
    assert_int_equal(status, ORR_OK);
    drop(&f);
}

static void cut_files_end_in_errors(void **state)
{
    (void)state;
    unsigned n_errors = 0;
    file f = begin_file();
    for (uint64_t id = 1; id <= 20; id++)
        put_node(&f, id, (const uint64_t[]){id - 1}, id > 1);
    for (size_t n = 0; n < f.bytes.n; n++) {
        const orr_status status = run(f.bytes.at, n);
        assert_true(status == ORR_OK || status == ORR_PARSE);
        n_errors += status == ORR_PARSE;
    }
    assert_int_equal(n_errors, f.bytes.n - 20); /* all but those between two messages */
    drop(&f);
}

static const char workload[] =
    "{\"workload_graph\": ["
    "{\"Id\": 3, \"Name\": \"mm\", \"NodeType\": 4, \"ctrlDeps\": [], \"data_deps\": [],"
    " \"runtime\": 318, \"is_cpu_op\": false, \"num_ops\": 77},"
    "{\"Id\": 9, \"Name\": \"reduce\", \"NodeType\": 7, \"data_deps\": [3], \"comm_type\": 0,"
    " \"comm_size\": 4096, \"pg_name\": \"1\"}],"
    " \"workload_name\": \"two\"}";

/* Waits and attributes are those of the protobuf file that says the same. */
static void feeds_a_json_workload(void **state)
{
    (void)state;
    orr_feeder_value value;
    orr_feeder *feeder = feeder_of(workload, sizeof workload - 1, 1);
    const orr_feeder_node *node = next_of(feeder);
    assert_int_equal(node->id, 3);
    assert_int_equal(node->type, ORR_FEEDER_COMP);
    assert_int_equal(node->duration_us, 318);
    assert_int_equal(orr_feeder_number(node, "num_ops", 0), 77);
    assert_null(next_of(feeder));
    done(feeder, 3);
    node = next_of(feeder);
    assert_int_equal(node->id, 9);
    assert_int_equal(node->type, ORR_FEEDER_COLLECTIVE);
    assert_int_equal(orr_feeder_number(node, "comm_size", 0), 4096);
    assert_true(orr_feeder_attr(node, "pg_name", 0, &value));
    assert_memory_equal(value.text.at, "1", value.text.n);
    done(feeder, 9);
    assert_true(orr_feeder_recording(feeder, "workload_name", 0, &value));
    assert_memory_equal(value.text.at, "two", value.text.n);
    assert_null(next_of(feeder));
    assert_true(orr_feeder_is_finished(feeder));
    orr_feeder_close(feeder);
}

static void json_that_cannot_run_is_refused(void **state)
{
    (void)state;
    static const char circle[] = "{\"workload_graph\": [{\"Id\": 1, \"data_deps\": [2]},"
                                 "{\"Id\": 2, \"data_deps\": [1]}]}",
                      missing[] = "{\"workload_graph\": [{\"Id\": 1, \"data_deps\": [2]}]}",
                      twice[] = "{\"workload_graph\": [{\"Id\": 1}, {\"Id\": 1}]}";
    assert_int_equal(run(circle, sizeof circle - 1), ORR_INVALID);
    assert_int_equal(run(missing, sizeof missing - 1), ORR_INVALID);
    assert_int_equal(run(twice, sizeof twice - 1), ORR_INVALID);
    for (size_t n = 0; n < sizeof workload - 1; n++)
        assert_int_equal(run(workload, n), ORR_PARSE);
}

static void json_survives_each_failing_allocation(void **state)
{
    (void)state;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 0;
    while (status == ORR_NO_MEMORY) {
        orr_alloc_fail_from(++nth);
        status = run(workload, sizeof workload - 1);
        orr_alloc_fail_from(0);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 20);
}

/* All of a workload of Chakra's own tests, each node after what it waits for. */
static void feeds_chakras_json_workload(void **state)
{
    (void)state;
    const test_bytes tar = slurp(data_path("chakra/json_trace.tar.gz"));
    const test_bytes json = tar_member(tar, "jsonData/chakra.0.json");
    const orr_graph *g = read_bytes(json.at, json.n, NULL);
    orr_feeder *feeder = feeder_of(json.at, json.n, 64);
    uint32_t n_seen = 0, n_attrs = 0;
    for (const orr_feeder_node *node; (node = next_of(feeder)) != NULL; n_seen++) {
        orr_node_id v = 0;
        while (g->source_id[v] != node->id)
            v++;
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
            if (g->dep_kind[d] == ORR_DEP_DATA)
                assert_null(orr_feeder_find(feeder, g->source_id[g->dep[d]]));
        n_attrs += same_attrs(g, v, node);
        done(feeder, node->id);
    }
    assert_int_equal(n_seen, g->n_nodes);
    assert_true(n_seen > 1000 && n_attrs >= n_seen);
    orr_feeder_close(feeder);
    orr_graph_free(g);
    free(tar.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gives_nodes_as_they_are_free),
        cmocka_unit_test(reads_on_for_what_stands_behind),
        cmocka_unit_test(names_what_cannot_run),
        cmocka_unit_test(memory_does_not_grow_with_the_file),
        cmocka_unit_test(every_order_keeps_dependencies),
        cmocka_unit_test(values_are_those_of_the_graph),
        cmocka_unit_test(survives_each_failing_allocation),
        cmocka_unit_test(cut_files_end_in_errors),
        cmocka_unit_test(feeds_a_json_workload),
        cmocka_unit_test(json_that_cannot_run_is_refused),
        cmocka_unit_test(json_survives_each_failing_allocation),
        cmocka_unit_test(feeds_chakras_json_workload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
