/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/read.h"

#include <string.h>

#include "experts/routes/ranges.h"

/* Files that hold routes or loads for other programs, by their first bytes. */
static const struct {
    const char *bytes;
    uint8_t n;
    const char *what;
} refused[] = {
    {"\x80\x02", 2, "a Python pickle"},    {"\x80\x03", 2, "a Python pickle"},
    {"\x80\x04", 2, "a Python pickle"},    {"\x80\x05", 2, "a Python pickle"},
    {"(lp", 3, "a Python pickle"},         {"(dp", 3, "a Python pickle"},
    {"\x93NUMPY", 6, "a NumPy array"},     {"PK\x03\x04", 4, "a zip archive (.npz, .pt)"},
    {"PAR1", 4, "a Parquet file"},         {"\x89HDF", 4, "an HDF5 file"},
    {"SQLite format 3", 15, "a database"},
};

void orr_routes_options_init(orr_routes_options *options)
{
    *options = (orr_routes_options){.struct_bytes = sizeof *options, .phase = -1};
}

/* The first bytes of the file, as many as there are up to the longest of `refused`. */
static orr_status look(orr_stream *stream, orr_window *ret, orr_error *err)
{
    bool end = false;
    while (!end && orr_stream_window(stream).n < 16)
        ORR_TRY(orr_stream_fill(stream, &end, err));
    *ret = orr_stream_window(stream);
    return ORR_OK;
}

static orr_status refuse(orr_window first, orr_error *err)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (first.n >= refused[i].n && memcmp(first.bytes, refused[i].bytes, refused[i].n) == 0)
            return orr_fail(err, ORR_UNSUPPORTED,
                            "%s; routes are read as CSV or JSON lines, loads as CSV or JSON",
                            refused[i].what);
    return ORR_OK;
}

/* An object or a list comes first, which no line of CSV begins with. */
static bool is_json(orr_window first)
{
    size_t at = first.n >= 3 && memcmp(first.bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    while (at < first.n && strchr(" \t\r\n", first.bytes[at]) != NULL && first.bytes[at] != 0)
        at++;
    return at < first.n && (first.bytes[at] == '{' || first.bytes[at] == '[');
}

orr_status orr_route_look(orr_stream *stream, bool *ret_json, orr_error *err)
{
    orr_window first;
    ORR_TRY(look(stream, &first, err));
    ORR_TRY(refuse(first, err));
    *ret_json = is_json(first);
    return ORR_OK;
}

orr_status orr_route_reading_push(orr_route_reading *r, const orr_routes_row *row, orr_error *err)
{
    if (r->options->phase >= 0 && row->phase != r->options->phase)
        return ORR_OK;
    return orr_routes_builder_push(&r->builder, row, err);
}

orr_status orr_route_reading_progress(const orr_route_reading *r, orr_error *err)
{
    const orr_routes_options *o = r->options;
    return o->progress == NULL || o->progress(o->ctx, orr_stream_file_offset(r->stream),
                                              orr_stream_file_size(r->stream))
               ? ORR_OK
               : orr_fail(err, ORR_CANCELED, "stopped");
}

static orr_status finish(orr_route_reading *r, orr_arena *arena, const orr_routes **ret,
                         orr_error *err)
{
    orr_routes_names names;
    orr_routes_builder *b = &r->builder;
    uint64_t warm_up = 0;
    if (b->request.n == 0)
        return orr_fail(err, ORR_PARSE, "%s: no rows%s", r->path,
                        r->options->phase < 0                    ? ""
                        : r->options->phase == ORR_ROUTE_PREFILL ? " of phase p"
                                                                 : " of phase d");
    if (!r->options->keep_warm_up)
        ORR_TRY(orr_routes_builder_drop_warm_up(b, &warm_up, err));
    if (b->request.n == 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: all %llu tokens are warm-up: runs of %d tokens of "
                        "a request that chose the same experts",
                        r->path, (unsigned long long)warm_up, ORR_ROUTES_WARM_UP);
    ORR_TRY(orr_route_names_finish(&r->names, b->request.at, b->request.n, arena, &names, err));
    names.warm_up = warm_up;
    names.experts = r->options->experts;
    names.source = orr_arena_strndup(arena, r->path, strlen(r->path));
    if (names.source == NULL)
        return orr_fail_memory(err);
    return orr_routes_builder_finish(b, &names, arena, ret, err);
}

orr_status orr_routes_read_stream(orr_stream *stream, const char *path,
                                  const orr_routes_options *options, orr_arena *arena,
                                  const orr_routes **ret, orr_error *err)
{
    orr_route_reading r = {.path = path, .options = options, .stream = stream};
    bool json;
    ORR_TRY(orr_route_look(stream, &json, err));
    ORR_TRY(orr_route_names_init(&r.names, err));
    orr_status status = json ? orr_routes_read_json(&r, err) : orr_routes_read_csv(&r, err);
    if (status == ORR_OK)
        status = finish(&r, arena, ret, err);
    orr_routes_builder_done(&r.builder);
    orr_route_names_done(&r.names);
    return status;
}

orr_status orr_route_name_file(const char *path, orr_status status, orr_error *err)
{
    if (status != ORR_OK && status != ORR_NO_MEMORY && err != NULL &&
        strncmp(err->text, path, strlen(path)) != 0)
        orr_error_prefix(err, path);
    return status;
}

orr_status orr_routes_read(const char *path, const orr_routes_options *options, orr_arena *arena,
                           const orr_routes **ret, orr_error *err)
{
    orr_routes_options defaults;
    orr_stream *stream;
    orr_routes_options_init(&defaults);
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK) {
        status = orr_routes_read_stream(stream, path, options != NULL ? options : &defaults, arena,
                                        ret, err);
        orr_stream_close(stream);
    }
    return orr_route_name_file(path, status, err);
}
