/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <string.h>

#include <orrery/trace.h>

#include "io/stream/output.h"
#include "trace/common/writer.h"

/* A host trace and a device trace, with a byte 0x1e between them: whatever reads can be linked,
 * and what was linked can be written. */

static orr_status read_part(const uint8_t *bytes, size_t len, orr_format format,
                            const orr_graph **ret)
{
    orr_error err;
    orr_read_options options;
    orr_read_options_init(&options);
    options.format = format;
    options.tolerant = true;
    return orr_trace_read_memory(bytes, len, &options, ret, NULL, &err);
}

static void check_linked(const orr_graph *host, const orr_graph *device)
{
    const orr_graph *linked;
    orr_link_report report;
    orr_output *out;
    orr_error err;
    const orr_status status = orr_trace_link(host, device, &linked, &report, &err);
    FUZZ_CHECK(status == ORR_OK || status == ORR_INVALID);
    if (status != ORR_OK)
        return;
    uint32_t n = report.matched_by_id + report.matched_by_order;
    FUZZ_CHECK(linked->n_nodes == host->n_nodes + device->n_nodes - n);
    for (int i = 0; i < ORR_LINK_MISSES; i++)
        n += report.missed[i];
    FUZZ_CHECK(n == report.host_ops);
    FUZZ_CHECK(orr_output_open_memory(&out, &err) == ORR_OK);
    FUZZ_CHECK(orr_chakra_write(linked, out, &err) == ORR_OK);
    FUZZ_CHECK(orr_output_finish(out, &err) == ORR_OK);
    orr_output_close(out);
    orr_graph_free(linked);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const orr_graph *host = NULL, *device = NULL;
    const uint8_t *between = len == 0 ? NULL : memchr(bytes, 0x1e, len);
    if (between == NULL)
        return 0;
    const size_t n = (size_t)(between - bytes);
    if (read_part(bytes, n, ORR_FORMAT_PYTORCH_ET, &host) == ORR_OK &&
        read_part(between + 1, len - n - 1, ORR_FORMAT_KINETO, &device) == ORR_OK)
        check_linked(host, device);
    orr_graph_free(host);
    orr_graph_free(device);
    return 0;
}
