/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include <orrery/trace.h>

#include "base/cpu_level.h"

/* A recording that is read, strictly or not, is one that the graph accepts: what was recovered
 * from it is no cycle and contradicts no time by more than rounding and clocks explain. */
static void check_times(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++) {
            const orr_node_id u = g->dep[e];
            const int64_t u_end = g->start_ns[u] + g->duration_ns[u];
            const int64_t v_end = g->start_ns[v] + g->duration_ns[v];
            if (g->dep_kind[e] == ORR_DEP_SYNC)
                FUZZ_CHECK(u_end <= v_end + 2000);
            else if (g->dep_kind[e] == ORR_DEP_THREAD || g->dep_kind[e] == ORR_DEP_HANDOFF)
                FUZZ_CHECK(u_end <= g->start_ns[v] + 1000);
        }
}

/* The reader says the same without the vectors of this CPU. */
static void check_plain(const uint8_t *bytes, size_t len, const orr_read_options *options,
                        orr_status status, uint32_t n_nodes, const orr_error *err)
{
    const orr_graph *graph = NULL;
    orr_error other = {0};
    orr_cpu_level_limit(ORR_CPU_PLAIN);
    FUZZ_CHECK(orr_trace_read_memory(bytes, len, options, &graph, NULL, &other) == status);
    orr_cpu_level_limit(ORR_CPU_LEVELS);
    FUZZ_CHECK(status == ORR_OK ? graph->n_nodes == n_nodes : strcmp(err->text, other.text) == 0);
    if (status == ORR_OK)
        orr_graph_free(graph);
}

static void read_as(const uint8_t *bytes, size_t len, bool tolerant, orr_format format)
{
    orr_read_options options;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    options.format = format;
    options.attributes = fuzz_choice(bytes, len) % 8 != 0;
    const orr_graph *graph = NULL;
    orr_read_report report;
    orr_error err = {0};
    const orr_status status = orr_trace_read_memory(bytes, len, &options, &graph, &report, &err);
    check_plain(bytes, len, &options, status, status == ORR_OK ? graph->n_nodes : 0, &err);
    if (status == ORR_OK) {
        check_times(graph);
        orr_graph_free(graph);
        return;
    }
    FUZZ_CHECK(graph == NULL);
    FUZZ_CHECK(err.text[0] != '\0');
    FUZZ_CHECK(status == ORR_PARSE || status == ORR_LIMIT);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    read_as(bytes, len, false, ORR_FORMAT_KINETO);
    read_as(bytes, len, true, ORR_FORMAT_KINETO);
    return 0;
}
