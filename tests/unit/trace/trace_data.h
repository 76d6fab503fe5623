/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TEST_TRACE_DATA_H
#define TEST_TRACE_DATA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants the four above first */
#include <cmocka.h>

#include <orrery/trace.h>

#include "io/stream/output.h"
#include "io/stream/stream.h"
#include "trace/common/writer.h"

/* Real traces lie beside the repository; without them the test that asks is skipped. */
static inline const char *data_path(const char *name)
{
    static char path[4][512];
    static unsigned turn;
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL)
        skip();
    char *to = path[turn++ % 4];
    snprintf(to, sizeof path[0], "%s/data/traces/%s", shared, name);
    return to;
}

typedef struct test_bytes {
    uint8_t *at;
    size_t n;
} test_bytes;

/* A whole file, decompressed. Free `at`. */
static inline test_bytes slurp(const char *path)
{
    orr_stream *stream;
    orr_error err;
    bool end = false;
    if (orr_stream_open(path, &stream, &err) != ORR_OK)
        fail_msg("%s", err.text);
    while (!end)
        if (orr_stream_fill(stream, &end, &err) != ORR_OK)
            fail_msg("%s", err.text);
    const orr_window window = orr_stream_window(stream);
    test_bytes all = {malloc(window.n + 1), window.n};
    assert_non_null(all.at);
    memcpy(all.at, window.bytes, window.n);
    all.at[window.n] = '\0';
    orr_stream_close(stream);
    return all;
}

/* The file of that name in a tar archive: bytes inside of the archive. */
static inline test_bytes tar_member(test_bytes tar, const char *name)
{
    for (size_t at = 0; at + 512 <= tar.n && tar.at[at] != '\0';) {
        const char *header = (const char *)tar.at + at;
        const size_t size = strtoul(header + 124, NULL, 8);
        if (strcmp(header, name) == 0 && at + 512 + size <= tar.n)
            return (test_bytes){tar.at + at + 512, size};
        at += 512 + (size + 511) / 512 * 512;
    }
    fail_msg("%s is not in the archive", name);
    return (test_bytes){NULL, 0};
}

static inline const orr_graph *read_bytes(const void *bytes, size_t n, orr_read_report *report)
{
    const orr_graph *graph;
    orr_error err;
    if (orr_trace_read_memory(bytes, n, NULL, &graph, report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return graph;
}

/* A Chakra file of Orrery's as other readers see it. */
static inline const orr_graph *read_lowered(const void *bytes, size_t n)
{
    const orr_graph *graph;
    orr_error err;
    orr_read_options options;
    orr_read_options_init(&options);
    options.lowered = true;
    if (orr_trace_read_memory(bytes, n, &options, &graph, NULL, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return graph;
}

static inline const orr_graph *read_text(const char *text)
{
    return read_bytes(text, strlen(text), NULL);
}

static inline const orr_graph *read_data(const char *name, orr_read_report *report)
{
    const orr_graph *graph;
    orr_error err;
    if (orr_trace_read(data_path(name), NULL, &graph, report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return graph;
}

/* What reading the text says: its status, and its error in `err`. */
static inline orr_status try_text(const char *text, bool tolerant, orr_read_report *report,
                                  orr_error *err)
{
    orr_read_options options;
    const orr_graph *graph = NULL;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    const orr_status status =
        orr_trace_read_memory(text, strlen(text), &options, &graph, report, err);
    if (status == ORR_OK)
        orr_graph_free(graph);
    return status;
}

/* The graph as the bytes of a Chakra file. Free `at`. */
static inline test_bytes chakra_bytes(const orr_graph *graph)
{
    orr_output *out;
    orr_error err;
    size_t n;
    if (orr_output_open_memory(&out, &err) != ORR_OK ||
        orr_chakra_write(graph, out, &err) != ORR_OK || orr_output_finish(out, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const void *memory = orr_output_memory(out, &n);
    test_bytes bytes = {malloc(n + 1), n};
    assert_non_null(bytes.at);
    memcpy(bytes.at, memory, n);
    orr_output_close(out);
    return bytes;
}

static inline const orr_graph *link_graphs(const orr_graph *host, const orr_graph *device,
                                           orr_link_report *report)
{
    const orr_graph *graph;
    orr_error err;
    if (orr_trace_link(host, device, &graph, report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return graph;
}

/* One rank of the DLRM run, host and device trace linked. */
static inline const orr_graph *linked_dlrm(int rank, orr_link_report *report)
{
    char name[64];
    snprintf(name, sizeof name, "dlrm_v100x8/rank%d.host.json.gz", rank);
    const orr_graph *host = read_data(name, NULL);
    snprintf(name, sizeof name, "dlrm_v100x8/rank%d.device.json.gz", rank);
    const orr_graph *device = read_data(name, NULL);
    const orr_graph *graph = link_graphs(host, device, report);
    orr_graph_free(host);
    orr_graph_free(device);
    return graph;
}

static inline const char *name_of(const orr_graph *g, orr_node_id v)
{
    return orr_graph_str(g, g->name[v]);
}

/* The first node of that name; fails the test when there is none. */
static inline orr_node_id node_named(const orr_graph *g, const char *name)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (strcmp(name_of(g, v), name) == 0)
            return v;
    fail_msg("no node '%s'", name);
    return ORR_NONE;
}

static inline bool waits_for(const orr_graph *g, orr_node_id v, orr_node_id u, orr_dep_kind kind)
{
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (g->dep[d] == u && g->dep_kind[d] == kind)
            return true;
    return false;
}

static inline uint32_t count_deps(const orr_graph *g, orr_dep_kind kind)
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < g->n_deps; d++)
        n += g->dep_kind[d] == kind;
    return n;
}

static inline uint32_t count_kind(const orr_graph *g, orr_node_kind kind)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += g->kind[v] == kind;
    return n;
}

static inline const char *const *all_kineto(size_t *ret_n)
{
    static const char *const names[] = {
        "kineto/a100_w16_missing_launches.json.gz",
        "kineto/bert-small_h100.json.gz",
        "kineto/cpu_only.json.gz",
        "kineto/ddp_a100_w8_rank3.json.gz",
        "kineto/event_sync_a100.json.gz",
        "kineto/mi250_minitoy.json.gz",
        "kineto/mtia_inference.json.gz",
        "kineto/ns_v100.json.gz",
        "kineto/nsfw-vit_h100.json.gz",
        "kineto/qwen1.5-0.5b_h100.json.gz",
        "kineto/rank_non_gpu.json.gz",
        "kineto/resnet50_v100_2020_old_categories.json.gz",
        "kineto/simple_add_a100.json.gz",
        "kineto/simple_add_a100_sync.json.gz",
        "kineto/triton.json.gz",
        "kineto/w128_rank0_noflows.json.gz",
    };
    *ret_n = sizeof names / sizeof *names;
    return names;
}

#endif /* TEST_TRACE_DATA_H */
