/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_STREAM_STREAM_H
#define ORR_IO_STREAM_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Byte stream for reading: a file, standard input or memory; plain, gzip (all
 * members) or zstd (all frames), told by the content.
 *
 * The caller looks at a window of contiguous bytes, consumes from its front, and
 * asks for more. Plain memory is its own window and is never copied; else the window
 * is a buffer that moves and grows only as far as asked. Threads: one. */
typedef struct orr_stream orr_stream;

/* `path`: "-" is standard input. Errors: IO, NO_MEMORY. Close with orr_stream_close(). */
orr_status orr_stream_open(const char *path, orr_stream **ret, orr_error *err) ORR_MUST_CHECK;
/* Bytes are borrowed until close. */
orr_status orr_stream_open_memory(const void *bytes, size_t len, orr_stream **ret,
                                  orr_error *err) ORR_MUST_CHECK;
/* Bytes that somebody else reads: of a member of an archive. *ret_n is 0 at the end. */
typedef struct orr_stream_source {
    void *ctx;
    orr_status (*read)(void *ctx, void *to, size_t room, size_t *ret_n, orr_error *err);
    uint64_t bytes; /* all of them; 0: not known */
} orr_stream_source;
/* The source is borrowed until close. */
orr_status orr_stream_open_source(const orr_stream_source *source, orr_stream **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_stream_close(orr_stream *stream); /* NULL is allowed */

/* The window: bytes[0..n) not yet consumed. Invalidated by fill. */
typedef struct orr_window {
    const uint8_t *bytes;
    size_t n;
} orr_window;
orr_window orr_stream_window(const orr_stream *stream);

enum { ORR_STREAM_TAIL_BYTES = 64 }; /* readable behind every window */

/* Make the window longer than it is. At the end of the input it stays as it is
 * and *ret_end is true. 64 bytes after the window are always readable (and are zero or
 * later input), except over plain memory, which is copied in its tail to make it so.
 * Errors: IO, NO_MEMORY, PARSE (broken compression: says the byte of the file),
 * LIMIT (window over limit_bytes; default 1 GiB). */
orr_status orr_stream_fill(orr_stream *stream, bool *ret_end, orr_error *err) ORR_MUST_CHECK;
void orr_stream_consume(orr_stream *stream, size_t n); /* n <= window.n */

/* Largest window allowed, i.e. the longest token or record; 0 keeps it. */
void orr_stream_set_limit(orr_stream *stream, size_t limit_bytes);
/* A truncated compressed stream then reads as one that just ends. */
void orr_stream_set_tolerant(orr_stream *stream, bool tolerant);
/* True once the compressed input turned out truncated. */
bool orr_stream_truncated(const orr_stream *stream);

/* The path of the file whose bytes these are, for what reads files itself; NULL: none, or it is
 * compressed. Borrowed from who opened the stream. */
const char *orr_stream_path(const orr_stream *stream);
uint64_t orr_stream_offset(const orr_stream *stream);      /* of window.bytes, decompressed */
uint64_t orr_stream_file_offset(const orr_stream *stream); /* bytes read of the file */
uint64_t orr_stream_file_size(const orr_stream *stream);   /* 0: not known (a pipe) */

#endif /* ORR_IO_STREAM_STREAM_H */
