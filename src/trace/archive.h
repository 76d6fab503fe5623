/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_ARCHIVE_H
#define ORR_TRACE_ARCHIVE_H

#include "io/archive/archive.h"
#include "io/stream/stream.h"

/* An input that was opened by its path: a file, or a member of an archive. Zero-initialized is
 * closed. Its source is borrowed by its stream, so it does not move while it is open. */
typedef struct orr_input {
    orr_stream *stream;
    orr_archive *archive; /* NULL: a file */
    orr_stream_source source;
} orr_input;

/* Where no file is, and one that is an archive stands before the path's end, the rest of the path
 * is the name of a member: "job.tgz/rank1.json". Errors: as orr_stream_open(), orr_archive_open();
 * NOT_FOUND (no such member). */
orr_status orr_input_open(const char *path, orr_input *ret, orr_error *err) ORR_MUST_CHECK;
void orr_input_close(orr_input *input);

/* A stream over the member at hand, which orr_input_close() closes without the archive if `archive`
 * is taken out of the input before. */
orr_status orr_input_open_member(orr_archive *archive, const orr_archive_member *member,
                                 orr_input *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_ARCHIVE_H */
