/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_ROUTES_LINES_H
#define ORR_EXPERTS_ROUTES_LINES_H

#include "io/json/reader.h"

/* Lines and fields of CSV (RFC 4180, but without line breaks inside of fields). */
typedef struct orr_csv_lines {
    orr_stream *stream;
    const char *path;
    uint64_t line; /* number of the last one, from 1 */
} orr_csv_lines;

/* The next line, without its end, of *ret_used bytes, which the caller consumes. False at the end
 * of the file. A byte order mark in front of the first is passed over. */
bool orr_csv_next_line(orr_csv_lines *lines, orr_text *ret, size_t *ret_used, orr_status *status,
                       orr_error *err);
/* The next field of a line, without its quotes, doubled quotes within as they are; *rest moves past
 * its comma, and becomes NULL after the last field. */
bool orr_csv_next_field(orr_text *rest, orr_text *ret);
/* Doubled quotes made single, in place of `room`, which has text.n bytes. */
orr_text orr_csv_unquoted(orr_text text, char *room);
/* Puts "PATH:LINE:COLUMN: " before the text of an error; returns `status`. */
orr_status orr_csv_at(const orr_csv_lines *lines, size_t column, orr_status status, orr_error *err);

#endif /* ORR_EXPERTS_ROUTES_LINES_H */
