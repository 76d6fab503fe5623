/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_FILES_H
#define ORR_TESTS_FILES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/stream/stream.h"

#include "folder.h"

static inline void write_file(const char *path, const void *bytes, size_t len)
{
    FILE *f = fopen(path, "wb");
    if (f == NULL || fwrite(bytes, 1, len, f) != len || fclose(f) != 0)
        abort();
}

/* All bytes of a stream from here, NUL behind them; NULL on failure, which is in *err. */
static inline char *drain(orr_stream *stream, size_t *ret_n, orr_error *err)
{
    for (;;) {
        bool ended;
        if (orr_stream_fill(stream, &ended, err) != ORR_OK)
            return NULL;
        if (ended)
            break;
    }
    const orr_window window = orr_stream_window(stream);
    char *all = malloc(window.n + 1);
    memcpy(all, window.bytes, window.n);
    all[window.n] = '\0';
    *ret_n = window.n;
    return all;
}

static inline char *read_all(const char *path, size_t *ret_n, orr_error *err)
{
    orr_stream *stream;
    if (orr_stream_open(path, &stream, err) != ORR_OK)
        return NULL;
    char *all = drain(stream, ret_n, err);
    orr_stream_close(stream);
    return all;
}

static inline char *unpack(const void *bytes, size_t len, bool tolerant, size_t *ret_n,
                           orr_error *err)
{
    orr_stream *stream;
    if (orr_stream_open_memory(bytes, len, &stream, err) != ORR_OK)
        return NULL;
    orr_stream_set_tolerant(stream, tolerant);
    char *all = drain(stream, ret_n, err);
    orr_stream_close(stream);
    return all;
}

#endif /* ORR_TESTS_FILES_H */
