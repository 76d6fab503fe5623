/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/astra/json.h"

static orr_status read_stream(orr_stream *stream, const char *file, orr_astra_json_reader *read,
                              void *ctx, orr_error *err)
{
    orr_json *json = NULL;
    orr_status status;
    ORR_TRY_OUT(status, orr_json_new(stream, false, &json, err));
    ORR_TRY_OUT(status, read(json, ctx, err));
    status = orr_json_end(json, err);
out:
    orr_json_free(json);
    if (status != ORR_OK && status != ORR_NO_MEMORY)
        orr_error_prefix(err, file);
    return status;
}

orr_status orr_astra_json_load(const char *path, orr_astra_json_reader *read, void *ctx,
                               orr_error *err)
{
    orr_stream *stream;
    const orr_status opened = orr_stream_open(path, &stream, err);
    if (opened != ORR_OK) {
        orr_error_prefix(err, path);
        return opened;
    }
    const orr_status status = read_stream(stream, path, read, ctx, err);
    orr_stream_close(stream);
    return status;
}

orr_status orr_astra_json_parse(const void *bytes, size_t len, const char *file,
                                orr_astra_json_reader *read, void *ctx, orr_error *err)
{
    orr_stream *stream;
    ORR_TRY(orr_stream_open_memory(bytes, len, &stream, err));
    const orr_status status = read_stream(stream, file, read, ctx, err);
    orr_stream_close(stream);
    return status;
}
