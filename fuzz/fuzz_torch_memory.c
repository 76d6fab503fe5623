/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/trace.h>

#include "fuzz.h"

enum { MOST_BYTES = 1 << 18 };

/* A snapshot that is read, strictly or not, is memory events whose totals follow from one another;
 * or there is one line why not. */
static void read_as(const uint8_t *bytes, size_t len, bool tolerant)
{
    orr_read_options options;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    options.format = ORR_FORMAT_TORCH_MEMORY;
    const orr_graph *g = NULL;
    orr_read_report report;
    orr_error err = {0};
    if (orr_trace_read_memory(bytes, len, &options, &g, &report, &err) != ORR_OK) {
        FUZZ_CHECK(g == NULL && err.text[0] != '\0' && strchr(err.text, '\n') == NULL);
        return;
    }
    FUZZ_CHECK(g->n_nodes <= report.events && g->n_nodes > 0);
    for (uint32_t i = 0; i < g->n_memories; i++) {
        const orr_memory *m = &g->memories[i];
        FUZZ_CHECK((m->allocated_bytes < 0) == (m->reserved_bytes < 0));
        FUZZ_CHECK(m->allocated_bytes < 0 || m->bytes <= m->allocated_bytes);
    }
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
