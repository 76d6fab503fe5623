/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include <orrery/trace.h>

#include "io/stream/output.h"
#include "trace/common/writer.h"

/* Chakra files: whatever reads can be written, and what was written is written the same again. */

static orr_output *write_again(const orr_graph *graph)
{
    orr_output *out;
    orr_error err;
    FUZZ_CHECK(orr_output_open_memory(&out, &err) == ORR_OK);
    FUZZ_CHECK(orr_chakra_write(graph, out, &err) == ORR_OK);
    FUZZ_CHECK(orr_output_finish(out, &err) == ORR_OK);
    return out;
}

static void check_rewriting(const orr_graph *graph)
{
    const orr_graph *again;
    orr_error err;
    orr_read_options options;
    size_t n, n_twice;
    orr_read_options_init(&options);
    options.format = ORR_FORMAT_CHAKRA;
    orr_output *once = write_again(graph);
    const void *bytes = orr_output_memory(once, &n);
    FUZZ_CHECK(orr_trace_read_memory(bytes, n, &options, &again, NULL, &err) == ORR_OK);
    FUZZ_CHECK(again->n_nodes == graph->n_nodes && again->n_deps == graph->n_deps);
    orr_output *twice = write_again(again);
    const void *bytes_twice = orr_output_memory(twice, &n_twice);
    FUZZ_CHECK(n == n_twice && memcmp(bytes, bytes_twice, n) == 0);
    orr_output_close(once);
    orr_output_close(twice);
    orr_graph_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const orr_graph *graph;
    orr_error err;
    orr_read_options options;
    orr_read_options_init(&options);
    options.format = len > 0 && bytes[0] == '{' ? ORR_FORMAT_CHAKRA_JSON : ORR_FORMAT_CHAKRA;
    options.tolerant = fuzz_choice(bytes, len) % 2 != 0;
    if (orr_trace_read_memory(bytes, len, &options, &graph, NULL, &err) != ORR_OK)
        return 0;
    check_rewriting(graph);
    orr_graph_free(graph);
    return 0;
}
