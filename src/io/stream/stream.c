/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stream/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/stream/codec.h"
#include "io/stream/stream_test.h"

enum {
    TAIL_BYTES = ORR_STREAM_TAIL_BYTES,
    BUFFER_BYTES = 256 * 1024, /* window to begin with */
    SOURCE_BYTES = 64 * 1024,  /* of a compressed file at a time */
};
static const size_t default_limit_bytes = (size_t)1 << 30;

struct orr_stream {
    orr_raw_input source;
    const orr_decoder_ops *decoder; /* NULL: plain */
    void *decoder_state;
    bool tolerant, truncated, ended;

    orr_window window;
    uint64_t offset;     /* of window.bytes */
    uint8_t *buffer;     /* room + TAIL_BYTES; NULL while the window is plain memory */
    size_t buffer_bytes; /* room of it, without the tail */
    size_t limit_bytes;
    size_t step_bytes; /* most read at once; a test makes it tiny */
    uint64_t file_size;
    const char *path; /* of a regular file; NULL */
};

static size_t test_step_bytes;
static bool test_zlib;

void orr_stream_test_step(size_t bytes)
{
    test_step_bytes = bytes;
}

void orr_stream_test_zlib(bool only)
{
    test_zlib = only;
}

static orr_status read_some(const orr_raw_input *input, uint8_t *to, size_t room, size_t *ret_n,
                            orr_error *err)
{
    if (input->source != NULL)
        return input->source->read(input->source->ctx, to, room, ret_n, err);
    for (;;) {
        const ssize_t n = read(input->fd, to, room);
        if (n >= 0) {
            *ret_n = (size_t)n;
            return ORR_OK;
        }
        if (errno != EINTR)
            return orr_fail(err, ORR_IO, "cannot read: %s", strerror(errno));
    }
}

static bool is_memory(const orr_raw_input *input)
{
    return input->fd < 0 && input->source == NULL;
}

orr_status orr_raw_input_fill(orr_raw_input *source, orr_error *err)
{
    if (is_memory(source) || source->ended) {
        source->ended = true;
        return ORR_OK;
    }
    if (source->n > 0)
        memmove(source->buffer, source->at, source->n);
    source->at = source->buffer;
    size_t n = 0;
    ORR_TRY(
        read_some(source, source->buffer + source->n, source->buffer_bytes - source->n, &n, err));
    source->n += n;
    source->ended = n == 0;
    return ORR_OK;
}

static const orr_decoder_ops *gzip_decoder(void)
{
    const orr_decoder_ops *fast = test_zlib ? NULL : orr_gzip_fast_decoder();
    return fast != NULL ? fast : &orr_gzip_decoder;
}

/* What the first bytes say. Pipes may give them one by one. */
static orr_status detect_format(orr_stream *stream, orr_error *err)
{
    while (stream->source.n < 4 && !stream->source.ended)
        ORR_TRY(orr_raw_input_fill(&stream->source, err));
    if (orr_gzip_is(stream->source.at, stream->source.n))
        stream->decoder = gzip_decoder();
    else if (orr_zstd_is(stream->source.at, stream->source.n))
        stream->decoder = &orr_zstd_decoder;
    return stream->decoder != NULL ? stream->decoder->open(&stream->decoder_state, err) : ORR_OK;
}

static bool grow_buffer(orr_stream *stream, size_t bytes)
{
    size_t with_tail;
    if (!orr_add_size(bytes, TAIL_BYTES, &with_tail))
        return false;
    const bool window_at_front = stream->window.bytes == stream->buffer;
    uint8_t *grown = orr_realloc(stream->buffer, with_tail);
    if (grown == NULL)
        return false;
    if (window_at_front)
        stream->window.bytes = grown;
    stream->buffer = grown;
    stream->buffer_bytes = bytes;
    return true;
}

static orr_status check_limit(const orr_stream *stream, size_t window_n, orr_error *err)
{
    if (window_n < stream->limit_bytes)
        return ORR_OK;
    return orr_fail_byte(err, ORR_LIMIT, stream->offset,
                         "at byte %llu: a record or token is longer than the limit of %zu bytes",
                         (unsigned long long)stream->offset, stream->limit_bytes);
}

/* The last bytes of plain memory are copied, so that more can be read behind them. */
static orr_status copy_tail(orr_stream *stream, orr_error *err)
{
    orr_raw_input *source = &stream->source;
    const size_t n = stream->window.n + source->n;
    ORR_TRY(check_limit(stream, n, err));
    if (!grow_buffer(stream, n > 0 ? n : 1))
        return orr_fail_memory(err);
    if (n > 0)
        memcpy(stream->buffer, stream->window.n > 0 ? stream->window.bytes : source->at, n);
    memset(stream->buffer + n, 0, TAIL_BYTES);
    orr_raw_input_consume(source, source->n);
    source->ended = true;
    stream->window = (orr_window){.bytes = stream->buffer, .n = n};
    return ORR_OK;
}

/* Plain memory is its own window, all but the tail. */
static orr_status open_plain_memory(orr_stream *stream, orr_error *err)
{
    orr_raw_input *source = &stream->source;
    if (source->n <= TAIL_BYTES)
        return copy_tail(stream, err);
    stream->window = (orr_window){.bytes = source->at, .n = source->n - TAIL_BYTES};
    orr_raw_input_consume(source, stream->window.n);
    return ORR_OK;
}

static bool window_is_memory(const orr_stream *stream)
{
    return is_memory(&stream->source) && stream->decoder == NULL && stream->step_bytes == SIZE_MAX;
}

static orr_status open_source(orr_raw_input source, uint64_t file_size, orr_stream **ret,
                              orr_error *err)
{
    orr_status status = ORR_OK;
    orr_stream *stream = orr_calloc(1, sizeof *stream);
    if (stream == NULL) {
        if (source.owns_fd)
            close(source.fd);
        return orr_fail_memory(err);
    }
    stream->source = source;
    stream->file_size = file_size;
    stream->limit_bytes = default_limit_bytes;
    stream->step_bytes = test_step_bytes > 0 ? test_step_bytes : SIZE_MAX;
    if (!is_memory(&source)) {
        stream->source.buffer_bytes = SOURCE_BYTES;
        stream->source.buffer = orr_malloc(SOURCE_BYTES);
        if (stream->source.buffer == NULL) {
            status = orr_fail_memory(err);
            goto out;
        }
        stream->source.at = stream->source.buffer;
    }
    ORR_TRY_OUT(status, detect_format(stream, err));
    if (window_is_memory(stream)) {
        ORR_TRY_OUT(status, open_plain_memory(stream, err));
    } else {
        if (!grow_buffer(stream,
                         stream->step_bytes < BUFFER_BYTES ? stream->step_bytes : BUFFER_BYTES)) {
            status = orr_fail_memory(err);
            goto out;
        }
        memset(stream->buffer, 0, TAIL_BYTES);
        stream->window.bytes = stream->buffer;
    }
out:
    if (status == ORR_OK)
        *ret = stream;
    else
        orr_stream_close(stream);
    return status;
}

orr_status orr_stream_open(const char *path, orr_stream **ret, orr_error *err)
{
    const bool is_stdin = strcmp(path, "-") == 0;
    const int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return orr_fail(err, ORR_IO, "cannot open: %s", strerror(errno));
    struct stat about;
    uint64_t size = 0;
    if (fstat(fd, &about) == 0 && S_ISREG(about.st_mode)) {
        size = (uint64_t)about.st_size;
        (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    }
    ORR_TRY(open_source((orr_raw_input){.fd = fd, .owns_fd = !is_stdin}, size, ret, err));
    (*ret)->path = size > 0 && !is_stdin ? path : NULL;
    return ORR_OK;
}

orr_status orr_stream_open_memory(const void *bytes, size_t len, orr_stream **ret, orr_error *err)
{
    return open_source((orr_raw_input){.fd = -1, .at = bytes, .n = len}, len, ret, err);
}

orr_status orr_stream_open_source(const orr_stream_source *source, orr_stream **ret, orr_error *err)
{
    return open_source((orr_raw_input){.fd = -1, .source = source}, source->bytes, ret, err);
}

void orr_stream_close(orr_stream *stream)
{
    if (stream == NULL)
        return;
    if (stream->decoder != NULL)
        stream->decoder->close(stream->decoder_state);
    if (stream->source.owns_fd)
        close(stream->source.fd);
    orr_free(stream->source.buffer);
    orr_free(stream->buffer);
    orr_free(stream);
}

orr_window orr_stream_window(const orr_stream *stream)
{
    return stream->window;
}

/* Behind the window: what stands before it is dropped, or the buffer doubled when
 * that alone would give little. */
static orr_status make_room(orr_stream *stream, orr_error *err)
{
    const size_t n = stream->window.n;
    ORR_TRY(check_limit(stream, n, err));
    if (n > 0 && stream->window.bytes != stream->buffer)
        memmove(stream->buffer, stream->window.bytes, n);
    stream->window.bytes = stream->buffer;
    if (n <= stream->buffer_bytes / 2)
        return ORR_OK;
    const size_t next = stream->buffer_bytes < stream->limit_bytes / 2 ? stream->buffer_bytes * 2
                                                                       : stream->limit_bytes;
    return next <= stream->buffer_bytes || grow_buffer(stream, next) ? ORR_OK
                                                                     : orr_fail_memory(err);
}

/* Plain bytes: first what was read to look at the format, then straight from the file. */
static orr_status read_plain(orr_stream *stream, uint8_t *to, size_t room, size_t *ret_n,
                             orr_error *err)
{
    orr_raw_input *source = &stream->source;
    if (source->n > 0) {
        *ret_n = room < source->n ? room : source->n;
        memcpy(to, source->at, *ret_n);
        orr_raw_input_consume(source, *ret_n);
        return ORR_OK;
    }
    *ret_n = 0;
    if (is_memory(source) || source->ended)
        return ORR_OK;
    ORR_TRY(read_some(source, to, room, ret_n, err));
    source->offset += *ret_n;
    source->ended = *ret_n == 0;
    return ORR_OK;
}

static orr_status read_decoded(orr_stream *stream, uint8_t *to, size_t room, size_t *ret_n,
                               orr_error *err)
{
    if (stream->decoder == NULL)
        return read_plain(stream, to, room, ret_n, err);
    bool truncated = false;
    ORR_TRY(stream->decoder->read(stream->decoder_state, &stream->source, to, room, ret_n,
                                  &truncated, err));
    if (!truncated)
        return ORR_OK;
    stream->truncated = true;
    return stream->tolerant ? ORR_OK
                            : orr_fail_byte(err, ORR_PARSE, stream->source.offset,
                                            "the compressed file ends too early, at its byte %llu",
                                            (unsigned long long)stream->source.offset);
}

orr_status orr_stream_fill(orr_stream *stream, bool *ret_end, orr_error *err)
{
    if (stream->buffer == NULL) {
        ORR_TRY(copy_tail(stream, err));
        stream->ended = true;
        *ret_end = false;
        return ORR_OK;
    }
    if (stream->ended || window_is_memory(stream)) {
        *ret_end = true;
        return ORR_OK;
    }
    ORR_TRY(make_room(stream, err));
    /* A token that is begun again with every fill must see the window grow by a
     * share, not by whatever a pipe holds, or a long one would take quadratic time. */
    const size_t before = stream->window.n;
    const size_t enough = stream->step_bytes == SIZE_MAX ? before + before / 2 + 1 : before + 1;
    while (stream->window.n < enough && stream->window.n < stream->buffer_bytes) {
        size_t room = stream->buffer_bytes - stream->window.n;
        if (room > stream->step_bytes)
            room = stream->step_bytes;
        size_t n = 0;
        ORR_TRY(read_decoded(stream, stream->buffer + stream->window.n, room, &n, err));
        stream->window.n += n;
        memset(stream->buffer + stream->window.n, 0, TAIL_BYTES);
        if (n == 0) {
            stream->ended = true;
            break;
        }
    }
    *ret_end = stream->window.n == before;
    return ORR_OK;
}

void orr_stream_consume(orr_stream *stream, size_t n)
{
    stream->window.bytes += n;
    stream->window.n -= n;
    stream->offset += n;
}

void orr_stream_set_limit(orr_stream *stream, size_t limit_bytes)
{
    if (limit_bytes > 0)
        stream->limit_bytes = limit_bytes;
}

void orr_stream_set_tolerant(orr_stream *stream, bool tolerant)
{
    stream->tolerant = tolerant;
}

bool orr_stream_truncated(const orr_stream *stream)
{
    return stream->truncated;
}

const char *orr_stream_path(const orr_stream *stream)
{
    return stream->decoder == NULL ? stream->path : NULL;
}

uint64_t orr_stream_offset(const orr_stream *stream)
{
    return stream->offset;
}

uint64_t orr_stream_file_offset(const orr_stream *stream)
{
    return stream->source.offset;
}

uint64_t orr_stream_file_size(const orr_stream *stream)
{
    return stream->file_size;
}
