/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_SQLITE_H
#define ORR_TRACE_COMMON_SQLITE_H

#include "io/database/database.h"
#include "io/stream/stream.h"

/* Recordings that are SQLite files. */

/* The database that a stream is of, only to be read: the file itself, or, where the stream is
 * compressed or a member of an archive, its bytes in memory, which the stream holds until it is
 * consumed. Errors: as orr_database_open_readonly(), and PARSE: the file is shorter than its header
 * says. */
orr_status orr_stream_open_database(orr_stream *stream, orr_database **ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* The database's errors name its file, and so does the caller: takes the path away. */
void orr_drop_database_path(const orr_stream *stream, orr_error *err);

#endif /* ORR_TRACE_COMMON_SQLITE_H */
