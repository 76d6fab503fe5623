/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/feeder_node.h"
#include "trace/common/reader.h"
#include "trace/common/writer.h"

static orr_status convert(orr_stream *stream, orr_output *out, orr_error *err)
{
    orr_read_options options;
    orr_read_report report = {0};
    const orr_graph *graph = NULL;
    orr_graph_builder *builder = orr_graph_builder_new();
    orr_read_options_init(&options);
    orr_status status = builder ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_chakra_json_read(stream, &options, builder, &report, err));
    ORR_TRY_OUT(status, orr_graph_build(builder, &graph, err));
    ORR_TRY_OUT(status, orr_chakra_write(graph, out, err));
    status = orr_output_finish(out, err);
out:
    orr_graph_free(graph);
    orr_graph_builder_free(builder);
    return status;
}

orr_status orr_feeder_convert_json(orr_stream *stream, orr_output **ret, orr_error *err)
{
    orr_format format;
    orr_error unimportant;
    orr_output *out;
    *ret = NULL;
    /* what cannot be told is read as protobuf, whose errors say more */
    if (orr_detect_stream(stream, &format, &unimportant) != ORR_OK ||
        format != ORR_FORMAT_CHAKRA_JSON)
        return ORR_OK;
    ORR_TRY(orr_output_open_memory(&out, err));
    const orr_status status = convert(stream, out, err);
    if (status == ORR_OK)
        *ret = out;
    else
        orr_output_close(out);
    return status;
}
