/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_READ_H
#define ORR_EXPERTS_ROUTES_READ_H

#include "experts/routes/builder.h"
#include "experts/routes/names.h"
#include "io/stream/stream.h"

/* What the readers of all forms fill: tokens and their names. */
typedef struct orr_route_reading {
    const char *path;
    const orr_routes_options *options;
    orr_stream *stream;
    orr_routes_builder builder; /* begun by the reader, once it knows layers and K */
    orr_route_names names;
} orr_route_reading;

/* orr_routes_read() from a stream, which is borrowed; messages call it `path`. */
orr_status orr_routes_read_stream(orr_stream *stream, const char *path,
                                  const orr_routes_options *options, orr_arena *arena,
                                  const orr_routes **ret, orr_error *err) ORR_MUST_CHECK;
/* Whether a file is JSON, else CSV, by its first bytes. UNSUPPORTED: those of another format. */
orr_status orr_route_look(orr_stream *stream, bool *ret_json, orr_error *err) ORR_MUST_CHECK;
/* Puts the path before the text of an error that does not have it yet; returns `status`. */
orr_status orr_route_name_file(const char *path, orr_status status, orr_error *err);

/* Adds a token, unless its phase is not asked for. */
orr_status orr_route_reading_push(orr_route_reading *r, const orr_routes_row *row,
                                  orr_error *err) ORR_MUST_CHECK;
/* For long files, every now and then. CANCELED. */
orr_status orr_route_reading_progress(const orr_route_reading *r, orr_error *err) ORR_MUST_CHECK;

/* A reader of each form. */
orr_status orr_routes_read_csv(orr_route_reading *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_routes_read_json(orr_route_reading *r, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_ROUTES_READ_H */
