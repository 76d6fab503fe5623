/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/sqlite.h"

#include <string.h>

static uint32_t big_endian(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* SQLite misses a page only where it looks for it. The header says how many pages there are, where
 * its two counters of changes agree (sqlite.org/fileformat.html, 1.3). */
static orr_status check_whole(const orr_stream *stream, orr_error *err)
{
    enum { HEADER_BYTES = 100, PAGE_AT = 16, CHANGES_AT = 24, PAGES_AT = 28, VALID_FOR_AT = 92 };
    const orr_window w = orr_stream_window(stream);
    const uint64_t bytes = orr_stream_path(stream) != NULL ? orr_stream_file_size(stream) : w.n;
    if (w.n < HEADER_BYTES)
        return orr_fail(err, ORR_PARSE, "the database ends in its header");
    uint64_t page = (uint64_t)w.bytes[PAGE_AT] << 8 | w.bytes[PAGE_AT + 1];
    if (page == 1)
        page = 65536;
    if (big_endian(w.bytes + CHANGES_AT) != big_endian(w.bytes + VALID_FOR_AT) ||
        page * big_endian(w.bytes + PAGES_AT) <= bytes)
        return ORR_OK;
    return orr_fail(err, ORR_PARSE, "the database ends too early: it has %llu of %llu bytes",
                    (unsigned long long)bytes,
                    (unsigned long long)(page * big_endian(w.bytes + PAGES_AT)));
}

/* SQLite reads files; what comes through a stream is taken into memory whole. */
orr_status orr_stream_open_database(orr_stream *stream, orr_database **ret, orr_error *err)
{
    const char *path = orr_stream_path(stream);
    for (bool end = false; !end && (path == NULL || orr_stream_window(stream).n == 0);)
        ORR_TRY(orr_stream_fill(stream, &end, err));
    ORR_TRY(check_whole(stream, err));
    if (path != NULL)
        return orr_database_open_readonly(path, ret, err);
    const orr_window all = orr_stream_window(stream);
    return orr_database_open_memory(all.bytes, all.n, ret, err);
}

void orr_drop_database_path(const orr_stream *stream, orr_error *err)
{
    const char *path = orr_stream_path(stream) != NULL ? orr_stream_path(stream) : ":memory:";
    const size_t len = strlen(path);
    if (err != NULL && strncmp(err->text, path, len) == 0 && strncmp(err->text + len, ": ", 2) == 0)
        memmove(err->text, err->text + len + 2, strlen(err->text + len + 2) + 1);
}
