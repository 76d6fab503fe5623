/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/trace.h>

#include "fuzz.h"

enum { MOST_BYTES = 1 << 18 };

/* Tables that are read, strictly or not, are a graph in which no dependency goes back in time; or
 * there is one line why not. */
static void read_as(const uint8_t *bytes, size_t len, bool tolerant)
{
    orr_read_options options;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    options.format = ORR_FORMAT_ROCPD;
    options.attributes = fuzz_choice(bytes, len) % 8 != 0;
    const orr_graph *g = NULL;
    orr_read_report report;
    orr_error err = {0};
    if (orr_trace_read_memory(bytes, len, &options, &g, &report, &err) != ORR_OK) {
        FUZZ_CHECK(g == NULL && err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        return;
    }
    FUZZ_CHECK(g->n_nodes <= report.events);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++)
            if (g->dep_kind[e] == ORR_DEP_THREAD || g->dep_kind[e] == ORR_DEP_HANDOFF)
                FUZZ_CHECK(g->start_ns[g->dep[e]] + g->duration_ns[g->dep[e]] <=
                           g->start_ns[v] + 1000);
    orr_graph_free(g);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    if (len > MOST_BYTES)
        return 0;
    read_as(bytes, len, false);
    read_as(bytes, len, true);
    return 0;
}
