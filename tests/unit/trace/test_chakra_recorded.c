/* SPDX-License-Identifier: Apache-2.0 */
#include "trace_data.h"

#include "base/alloc.h"
#include "trace/chakra/recorded.h"
#include "trace/common/attr_names.h"

/* A call that launches a kernel within an operator, a copy that the host waits for, and what the
 * allocator did. tests/reference/test_chakra_round_trip.c has the real recordings. */
static const char RECORDING[] =
    "{\"schemaVersion\":1,\"distributedInfo\":{\"rank\":1,\"world_size\":2},\"traceEvents\":["
    "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":0,"
    "\"dur\":20.125,\"args\":{\"Record function id\":3,\"Sequence number\":7,\"tid\":9,"
    "\"Input Dims\":[[2,3],[3,4]],\"Input type\":[\"float\",\"float\"],\"recorded\":\"x\"}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaLaunchKernel\",\"pid\":1,\"tid\":1,"
    "\"ts\":2,\"dur\":3,\"args\":{\"correlation\":5}},"
    "{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"gemm\",\"pid\":0,\"tid\":7,\"ts\":6,\"dur\":30,"
    "\"args\":{\"correlation\":5,\"device\":0,\"stream\":7,\"grid\":[1,2,3]}},"
    "{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"cudaMemcpy\",\"pid\":1,\"tid\":1,"
    "\"ts\":21,\"dur\":30,\"args\":{\"correlation\":6}},"
    "{\"ph\":\"X\",\"cat\":\"gpu_memcpy\",\"name\":\"Memcpy DtoH (Device -> Pageable)\","
    "\"pid\":0,\"tid\":7,\"ts\":36,\"dur\":10,\"args\":{\"correlation\":6,\"device\":0,"
    "\"stream\":7,\"bytes\":64,\"memory bandwidth (GB/s)\":6.4}},"
    "{\"ph\":\"i\",\"cat\":\"cpu_instant_event\",\"name\":\"[memory]\",\"pid\":1,\"tid\":1,"
    "\"ts\":1,\"s\":\"t\",\"args\":{\"Bytes\":512,\"Addr\":94,\"Device Id\":0,\"Device Type\":1,"
    "\"Total Allocated\":512,\"Total Reserved\":1024}}]}";

static test_bytes recorded_bytes(void)
{
    const orr_graph *g = read_text(RECORDING);
    const test_bytes bytes = chakra_bytes(g);
    orr_graph_free(g);
    return bytes;
}

static void the_graph_comes_back(void **state)
{
    (void)state;
    const orr_graph *g = read_text(RECORDING);
    const test_bytes bytes = chakra_bytes(g);
    const orr_graph *again = read_bytes(bytes.at, bytes.n, NULL);
    const test_bytes twice = chakra_bytes(again);
    orr_attr attr;
    assert_int_equal(again->n_nodes, g->n_nodes);
    assert_int_equal(again->n_deps, g->n_deps);
    assert_memory_equal(again->dep, g->dep, g->n_deps * sizeof *g->dep);
    assert_memory_equal(again->dep_kind, g->dep_kind, g->n_deps);
    assert_memory_equal(again->parent, g->parent, g->n_nodes * sizeof *g->parent);
    assert_memory_equal(again->kind, g->kind, g->n_nodes);
    assert_int_equal(count_deps(again, ORR_DEP_LAUNCH), 2);
    assert_int_equal(count_deps(again, ORR_DEP_SYNC), 1);
    const orr_node_id mm = node_named(again, "aten::mm");
    assert_int_equal(again->duration_ns[mm], 20125);
    assert_true(orr_graph_find_attr(again, mm, "Sequence number", &attr));
    assert_true(orr_graph_find_attr(again, mm, "recorded", &attr)); /* a name of the file's own */
    assert_true(orr_graph_find_attr(again, mm, "Input Dims", &attr) && attr.kind == ORR_ATTR_JSON);
    assert_string_equal(orr_graph_str(again, *(const orr_str *)attr.values), "[[2,3],[3,4]]");
    assert_false(orr_graph_find_attr(again, mm, ORR_NAME_ORDER, &attr));
    const orr_node_id copy = node_named(again, "Memcpy DtoH (Device -> Pageable)");
    assert_int_equal(orr_graph_copy(again, copy)->bytes, 64);
    assert_true(orr_graph_copy(again, copy)->bandwidth_bytes_per_s == 6.4e9);
    const orr_memory *memory = orr_graph_memory(again, node_named(again, "[memory]"));
    assert_int_equal(memory->reserved_bytes, 1024);
    assert_int_equal(bytes.n, twice.n);
    assert_memory_equal(bytes.at, twice.at, bytes.n);
    free(bytes.at);
    free(twice.at);
    orr_graph_free(g);
    orr_graph_free(again);
}

/* Where somebody changed dependencies, the file is believed, and launches are found by their
 * correlations. */
static void an_edited_file_says_what_it_says(void **state)
{
    (void)state;
    const test_bytes bytes = recorded_bytes();
    const orr_graph *lowered = read_lowered(bytes.at, bytes.n);
    uint8_t *digest = memmem(bytes.at, bytes.n, ORR_NAME_DEPS_DIGEST, strlen(ORR_NAME_DEPS_DIGEST));
    assert_non_null(digest);
    digest[strlen(ORR_NAME_DEPS_DIGEST) + 4] ^= 1;
    const orr_graph *edited = read_bytes(bytes.at, bytes.n, NULL);
    assert_int_equal(count_deps(lowered, ORR_DEP_LAUNCH), 2);
    for (int kind = ORR_DEP_DATA; kind <= ORR_DEP_SYNC; kind++)
        assert_int_equal(count_deps(edited, (orr_dep_kind)kind),
                         count_deps(lowered, (orr_dep_kind)kind));
    const orr_node_id mm = node_named(edited, "aten::mm"), call = node_named(edited, "cudaMemcpy");
    assert_int_equal(edited->kind[call], ORR_NODE_RUNTIME);
    assert_int_equal(lowered->kind[node_named(lowered, "cudaMemcpy")], ORR_NODE_RUNTIME);
    assert_true(waits_for(edited, node_named(edited, "gemm"),
                          node_named(edited, "cudaLaunchKernel"), ORR_DEP_LAUNCH));
    assert_int_equal(edited->parent[call], ORR_NONE);
    assert_int_equal(edited->duration_ns[mm], 17125); /* without the call inside of it */
    free(bytes.at);
    orr_graph_free(lowered);
    orr_graph_free(edited);
}

/* A kernel with the correlation of a call, in a file without any of our attributes. */
static void correlations_tell_launches(void **state)
{
    (void)state;
    const test_bytes bytes = recorded_bytes();
    uint8_t *form =
        memmem(bytes.at, bytes.n, ORR_NAME_RECORDED_FORM, strlen(ORR_NAME_RECORDED_FORM));
    assert_non_null(form);
    form[0] = 'R';
    const orr_graph *g = read_bytes(bytes.at, bytes.n, NULL);
    const test_bytes again = chakra_bytes(g);
    assert_int_equal(count_deps(g, ORR_DEP_LAUNCH), 2);
    assert_int_equal(bytes.n, again.n); /* and is written as it was */
    assert_memory_equal(bytes.at, again.at, bytes.n);
    free(bytes.at);
    free(again.at);
    orr_graph_free(g);
}

/* A changed byte gives an error or a graph that can be written, never more than that. */
static void changed_bytes_do_no_harm(void **state)
{
    (void)state;
    const test_bytes bytes = recorded_bytes();
    uint32_t n_read = 0;
    for (size_t at = 0; at < bytes.n; at++) {
        const uint8_t was = bytes.at[at];
        for (int change = 0; change < 3; change++) {
            const orr_graph *g;
            orr_error err;
            bytes.at[at] = (uint8_t)(change == 0 ? was ^ 1 : change == 1 ? was ^ 0x80 : 0);
            if (orr_trace_read_memory(bytes.at, bytes.n, NULL, &g, NULL, &err) != ORR_OK)
                continue;
            free(chakra_bytes(g).at);
            orr_graph_free(g);
            n_read++;
        }
        bytes.at[at] = was;
    }
    assert_true(n_read > bytes.n);
    free(bytes.at);
}

static void survives_each_failing_allocation(void **state)
{
    (void)state;
    const test_bytes bytes = recorded_bytes();
    for (uint64_t nth = 1;; nth++) {
        const orr_graph *g = NULL;
        orr_error err;
        orr_alloc_fail_from(nth);
        const orr_status status = orr_trace_read_memory(bytes.at, bytes.n, NULL, &g, NULL, &err);
        orr_alloc_fail_from(0);
        if (status == ORR_OK) {
            orr_graph_free(g);
            break;
        }
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    free(bytes.at);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_graph_comes_back),
        cmocka_unit_test(an_edited_file_says_what_it_says),
        cmocka_unit_test(correlations_tell_launches),
        cmocka_unit_test(changed_bytes_do_no_harm),
        cmocka_unit_test(survives_each_failing_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
