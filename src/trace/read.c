/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/trace.h>

#include <string.h>

#include "graph/builder.h"
#include "io/json/reader.h"
#include "trace/archive.h"
#include "trace/common/reader.h"

void orr_read_options_init(orr_read_options *options)
{
    *options = (orr_read_options){.struct_bytes = sizeof *options, .attributes = true};
}

/* The caller's options, completed with defaults. */
static orr_read_options complete(const orr_read_options *options)
{
    orr_read_options full;
    orr_read_options_init(&full);
    if (options != NULL) {
        const size_t n = options->struct_bytes;
        memcpy(&full, options, n < sizeof full ? n : sizeof full);
        full.struct_bytes = sizeof full;
    }
    return full;
}

orr_status orr_read_progress(const orr_read_options *options, const orr_stream *stream,
                             orr_error *err)
{
    if (options->progress == NULL ||
        options->progress(options->progress_ctx, orr_stream_file_offset(stream),
                          orr_stream_file_size(stream)))
        return ORR_OK;
    return orr_fail(err, ORR_CANCELED, "stopped while reading");
}

void orr_report_json_faults(orr_read_report *report, const orr_json *json)
{
    static const uint8_t fault_of[ORR_JSON_FAULTS] = {
        [ORR_JSON_FAULT_TRUNCATED] = ORR_TRACE_FAULT_TRUNCATED,
        [ORR_JSON_FAULT_CONTROL_CHARACTER] = ORR_TRACE_FAULT_CONTROL_CHARACTER,
        [ORR_JSON_FAULT_MISSING_COMMA] = ORR_TRACE_FAULT_MISSING_COMMA,
        [ORR_JSON_FAULT_NOT_A_NUMBER] = ORR_TRACE_FAULT_NOT_A_NUMBER,
        [ORR_JSON_FAULT_LONE_SURROGATE] = ORR_TRACE_FAULT_LONE_SURROGATE,
    };
    for (unsigned i = 0; i < ORR_JSON_FAULTS; i++)
        report->faults[fault_of[i]] += orr_json_faults(json, (orr_json_fault)i);
    const uint64_t first = orr_json_first_fault_byte(json);
    if (first < report->first_fault_byte)
        report->first_fault_byte = first;
}

static orr_status read_format(orr_stream *stream, orr_format format,
                              const orr_read_options *options, orr_graph_builder *builder,
                              orr_read_report *report, orr_error *err)
{
    switch (format) {
    case ORR_FORMAT_KINETO:
    case ORR_FORMAT_CHROME:
        return orr_kineto_read(stream, options, builder, report, err);
    case ORR_FORMAT_PYTORCH_ET:
        return orr_pytorch_et_read(stream, options, builder, report, err);
    case ORR_FORMAT_CHAKRA:
        return orr_chakra_read(stream, options, builder, report, err);
    case ORR_FORMAT_CHAKRA_JSON:
        return orr_chakra_json_read(stream, options, builder, report, err);
    case ORR_FORMAT_NSIGHT:
        return orr_nsight_read(stream, options, builder, report, err);
    case ORR_FORMAT_XPLANE:
        return orr_xplane_read(stream, options, builder, report, err);
    case ORR_FORMAT_TORCH_MEMORY:
        return orr_torch_memory_read(stream, options, builder, report, err);
    case ORR_FORMAT_ROCPD:
        return orr_rocpd_read(stream, options, builder, report, err);
    case ORR_FORMAT_PERFETTO:
    case ORR_FORMAT_JSON:
    case ORR_FORMAT_TEXT:
    case ORR_FORMAT_DOT:
    case ORR_FORMAT_GRAPHML:
        return orr_fail(err, ORR_UNSUPPORTED, "%s is written, not read", orr_format_name(format));
    case ORR_FORMAT_UNKNOWN:
        break;
    }
    return orr_fail_byte(
        err, ORR_PARSE, 0,
        orr_stream_window(stream).n == 0
            ? "the file is empty"
            : "no recording of a known format (Kineto, PyTorch execution "
              "trace, Chakra, Nsight Systems, XPlane, PyTorch memory snapshot, rocprofv3)");
}

/* Reads the whole stream and freezes the graph. */
static orr_status read_stream(orr_stream *stream, const char *path, const orr_read_options *options,
                              const orr_graph **ret_graph, orr_read_report *report, orr_error *err)
{
    orr_status status;
    orr_graph_builder *builder = orr_graph_builder_new();
    if (builder == NULL)
        return orr_fail_memory(err);
    *report = (orr_read_report){.format = options->format, .first_fault_byte = UINT64_MAX};
    orr_stream_set_tolerant(stream, options->tolerant);
    if (report->format == ORR_FORMAT_UNKNOWN)
        ORR_TRY_OUT(status, orr_detect_stream(stream, &report->format, err));
    ORR_TRY_OUT(status, read_format(stream, report->format, options, builder, report, err));
    const bool is_database =
        report->format == ORR_FORMAT_NSIGHT || report->format == ORR_FORMAT_ROCPD;
    report->bytes = is_database && orr_stream_path(stream) != NULL ? orr_stream_file_size(stream)
                                                                   : orr_stream_offset(stream);
    if (builder->recording.rank == ORR_NONE && path != NULL)
        builder->recording.rank = orr_rank_from_path(path);
    status = orr_graph_build(builder, ret_graph, err);
out:
    orr_graph_builder_free(builder);
    return status;
}

orr_status orr_trace_read_stream(orr_stream *stream, const char *path,
                                 const orr_read_options *options, const orr_graph **ret_graph,
                                 orr_read_report *report, orr_error *err)
{
    const orr_read_options full = complete(options);
    const orr_status status = read_stream(stream, path, &full, ret_graph, report, err);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status;
}

orr_status orr_trace_read(const char *path, const orr_read_options *options,
                          const orr_graph **ret_graph, orr_read_report *report, orr_error *err)
{
    orr_read_report own;
    orr_input input;
    orr_status status = orr_input_open(path, &input, err);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    else
        status = orr_trace_read_stream(input.stream, path, options, ret_graph,
                                       report != NULL ? report : &own, err);
    orr_input_close(&input);
    return status;
}

orr_status orr_trace_read_memory(const void *bytes, size_t len, const orr_read_options *options,
                                 const orr_graph **ret_graph, orr_read_report *report,
                                 orr_error *err)
{
    const orr_read_options full = complete(options);
    orr_read_report own;
    orr_stream *stream;
    ORR_TRY(orr_stream_open_memory(bytes, len, &stream, err));
    const orr_status status =
        read_stream(stream, NULL, &full, ret_graph, report != NULL ? report : &own, err);
    orr_stream_close(stream);
    return status;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Digits at `at`, as a rank; `ret_after` is behind them. */
static uint32_t rank_at(const char *at, const char **ret_after)
{
    uint64_t rank = 0;
    const char *p = at;
    for (; is_digit(*p) && p - at < 10; p++)
        rank = rank * 10 + (uint64_t)(*p - '0');
    *ret_after = p;
    return p == at || is_digit(*p) || rank >= ORR_NONE ? ORR_NONE : (uint32_t)rank;
}

uint32_t orr_rank_from_path(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path, *after;
    uint32_t found = ORR_NONE;
    for (const char *at = name; (at = strcasestr(at, "rank")) != NULL; at += 4) {
        const char *digits = at + 4;
        if (*digits != '\0' && strchr("-_=. ", *digits) != NULL)
            digits++;
        const uint32_t rank = rank_at(digits, &after);
        if (rank != ORR_NONE)
            found = rank;
    }
    /* Chakra's own: "trace.3.et". */
    for (const char *at = name; found == ORR_NONE && (at = strchr(at, '.')) != NULL; at++) {
        const uint32_t rank = rank_at(at + 1, &after);
        if (rank != ORR_NONE && strncmp(after, ".et", 3) == 0)
            return rank;
    }
    return found;
}
