/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_READER_H
#define ORR_TRACE_COMMON_READER_H

#include <orrery/graph.h>
#include <orrery/trace.h>

#include "io/stream/stream.h"

/* The interface of a format's reader: it consumes the whole stream and fills the builder with
 * nodes, lanes, groups, rank, base time, attributes, and every dependency that the recording states
 * or that can be recovered from it alone. It does not freeze the builder, close the stream, or set
 * report->format, bytes or link.
 *
 * The stream is at its first byte. `options` and `report` are never NULL; the report is zeroed
 * (first_fault_byte is UINT64_MAX). Errors as orr_trace_read(). */
typedef orr_status orr_format_reader(orr_stream *stream, const orr_read_options *options,
                                     orr_graph_builder *builder, orr_read_report *report,
                                     orr_error *err);
ORR_MUST_CHECK orr_format_reader orr_kineto_read, orr_pytorch_et_read, orr_chakra_read,
    orr_chakra_json_read, orr_nsight_read, orr_xplane_read, orr_torch_memory_read, orr_rocpd_read;

/* Detects the format from the front of the stream, which is buffered as far as needed and not
 * consumed. UNKNOWN: none of ours. */
orr_status orr_detect_stream(orr_stream *stream, orr_format *ret_format,
                             orr_error *err) ORR_MUST_CHECK;

/* orr_trace_read() of a stream that is open; `path` is for errors and the rank, and the report is
 * never NULL. */
orr_status orr_trace_read_stream(orr_stream *stream, const char *path,
                                 const orr_read_options *options, const orr_graph **ret_graph,
                                 orr_read_report *report, orr_error *err) ORR_MUST_CHECK;

/* The graph of a rank's trace with the memory events of its snapshot (ORR_FORMAT_TORCH_MEMORY),
 * both of which have the time of day. The inputs are borrowed. Errors: INVALID: clocks that are a
 * day or more apart; else as orr_trace_link(). */
orr_status orr_trace_add_memory(const orr_graph *snapshot, const orr_graph *trace,
                                const orr_graph **ret_graph, orr_error *err) ORR_MUST_CHECK;

/* The rank in a file name ("rank3.json", "rank-3...", "trace.3.et"), or ORR_NONE. */
uint32_t orr_rank_from_path(const char *path);

/* Reports the stream's position to the caller. Errors: CANCELED. */
orr_status orr_read_progress(const orr_read_options *options, const orr_stream *stream,
                             orr_error *err) ORR_MUST_CHECK;

/* Adds counts of orr_json_fault to the report's. */
struct orr_json;
void orr_report_json_faults(orr_read_report *report, const struct orr_json *json);

#endif /* ORR_TRACE_COMMON_READER_H */
