/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <orrery/trace.h>

#include "io/stream/output.h"
#include "trace/common/writer.h"

/* PyTorch execution traces: whatever reads can be written as a Chakra file, which reads. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const orr_graph *graph, *again;
    orr_output *out;
    orr_error err;
    orr_read_options options;
    size_t n;
    const uint64_t choice = fuzz_choice(bytes, len);
    orr_read_options_init(&options);
    options.format = ORR_FORMAT_PYTORCH_ET;
    options.tolerant = choice % 2 != 0;
    options.attributes = choice % 8 != 0;
    if (orr_trace_read_memory(bytes, len, &options, &graph, NULL, &err) != ORR_OK)
        return 0;
    FUZZ_CHECK(orr_output_open_memory(&out, &err) == ORR_OK);
    FUZZ_CHECK(orr_chakra_write(graph, out, &err) == ORR_OK);
    FUZZ_CHECK(orr_output_finish(out, &err) == ORR_OK);
    const void *written = orr_output_memory(out, &n);
    options.format = ORR_FORMAT_CHAKRA;
    options.tolerant = false;
    FUZZ_CHECK(orr_trace_read_memory(written, n, &options, &again, NULL, &err) == ORR_OK);
    FUZZ_CHECK(again->n_nodes == graph->n_nodes);
    orr_output_close(out);
    orr_graph_free(graph);
    orr_graph_free(again);
    return 0;
}
