/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FUZZ_RECORDING_H
#define ORR_FUZZ_RECORDING_H

#include <string.h>

#include <orrery/trace.h>

#include "fuzz.h"

/* A recording that is read is a graph in which no dependency goes back in time. */
static inline void fuzz_check_order(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++)
            if (g->dep_kind[e] == ORR_DEP_THREAD || g->dep_kind[e] == ORR_DEP_HANDOFF)
                FUZZ_CHECK(g->start_ns[g->dep[e]] + g->duration_ns[g->dep[e]] <=
                           g->start_ns[v] + 1000);
}

/* Reads the input as a recording of `format`, strictly and tolerantly: either `check` accepts the
 * graph, or one line says why there is none. */
static inline int fuzz_recording(const uint8_t *bytes, size_t len, orr_format format,
                                 void (*check)(const orr_graph *))
{
    enum { MOST_BYTES = 1 << 18 };
    for (int tolerant = 0; len <= MOST_BYTES && tolerant < 2; tolerant++) {
        orr_read_options options;
        orr_read_options_init(&options);
        options.tolerant = tolerant;
        options.format = format;
        options.attributes = fuzz_choice(bytes, len) % 8 != 0;
        const orr_graph *g = NULL;
        orr_read_report report;
        orr_error err = {0};
        if (orr_trace_read_memory(bytes, len, &options, &g, &report, &err) != ORR_OK) {
            FUZZ_CHECK(g == NULL && err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
            continue;
        }
        FUZZ_CHECK(g->n_nodes <= report.events);
        check(g);
        orr_graph_free(g);
    }
    return 0;
}

#endif /* ORR_FUZZ_RECORDING_H */
