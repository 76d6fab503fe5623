/* SPDX-License-Identifier: Apache-2.0 */
#include "io/stream/output.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/array.h"
#include "io/stream/codec.h"

enum { BUFFER_BYTES = 256 * 1024, MOST_TEMPORARIES = 64, NAME_TRIES = 100 };

struct orr_output {
    char *path;      /* NULL: standard output or memory */
    char *temporary; /* NULL once renamed or removed */
    int fd;          /* -1: memory */
    bool in_memory, finished;
    const orr_encoder_ops *encoder; /* NULL: plain */
    void *encoder_state;

    orr_status status; /* of the first failure */
    orr_error error;

    uint8_t *buffer;
    size_t buffered;
    orr_array(uint8_t) memory;
};

/* Temporary files that exist now, for the signal handler. A slot is taken and left by one
 * atomic exchange; the handler only reads and unlinks. */
static _Atomic(const char *) temporaries[MOST_TEMPORARIES];

static void register_temporary(const char *path)
{
    for (int i = 0; i < MOST_TEMPORARIES; i++) {
        const char *empty = NULL;
        if (atomic_compare_exchange_strong(&temporaries[i], &empty, path))
            return;
    }
}

static void forget_temporary(const char *path)
{
    for (int i = 0; i < MOST_TEMPORARIES; i++) {
        const char *mine = path;
        if (atomic_compare_exchange_strong(&temporaries[i], &mine, NULL))
            return;
    }
}

void orr_output_remove_temporaries(void)
{
    const int saved_errno = errno;
    for (int i = 0; i < MOST_TEMPORARIES; i++) {
        const char *path = atomic_load(&temporaries[i]);
        if (path != NULL)
            (void)unlink(path);
    }
    errno = saved_errno;
}

static bool ends_in(const char *path, const char *ending)
{
    const size_t n = strlen(path), m = strlen(ending);
    return n > m && strcmp(path + n - m, ending) == 0;
}

static char *copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = orr_malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* A link is followed, so that the file it points to is replaced and not the link. What is
 * not a regular file (a terminal, /dev/null, a pipe) is written to as it is. */
static orr_status open_temporary(orr_output *out, orr_error *err)
{
    static _Atomic unsigned counter;
    const size_t room = strlen(out->path) + 64;
    out->temporary = orr_malloc(room);
    if (out->temporary == NULL)
        return orr_fail_memory(err);
    for (int i = 0; i < NAME_TRIES && out->fd < 0; i++) {
        (void)snprintf(out->temporary, room, "%s.tmp.%ld.%u", out->path, (long)getpid(),
                       atomic_fetch_add(&counter, 1));
        out->fd = open(out->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (out->fd < 0 && errno != EEXIST)
            break;
    }
    if (out->fd < 0) {
        const int why = errno;
        orr_free(out->temporary);
        out->temporary = NULL;
        return orr_fail(err, ORR_IO, "cannot write %s: %s", out->path, strerror(why));
    }
    register_temporary(out->temporary);
    return ORR_OK;
}

static orr_status open_file(orr_output *out, const char *path, orr_error *err)
{
    if (strcmp(path, "-") == 0) {
        out->fd = STDOUT_FILENO;
        return ORR_OK;
    }
    struct stat about;
    const bool exists = stat(path, &about) == 0;
    if (exists && S_ISDIR(about.st_mode))
        return orr_fail(err, ORR_IO, "cannot write %s: it is a directory", path);
    if (exists && !S_ISREG(about.st_mode)) {
        out->fd = open(path, O_WRONLY | O_CLOEXEC);
        if (out->fd < 0)
            return orr_fail(err, ORR_IO, "cannot write %s: %s", path, strerror(errno));
        return ORR_OK;
    }
    if (exists && access(path, W_OK) != 0)
        return orr_fail(err, ORR_IO, "cannot write %s: %s", path, strerror(errno));
    char target[PATH_MAX];
    const bool resolved = exists && realpath(path, target) != NULL;
    out->path = copy_text(resolved ? target : path);
    if (out->path == NULL)
        return orr_fail_memory(err);
    ORR_TRY(open_temporary(out, err));
    if (exists)
        (void)fchmod(out->fd, about.st_mode & 07777);
    return ORR_OK;
}

orr_status orr_output_open(const char *path, orr_output **ret, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_output *out = orr_calloc(1, sizeof *out);
    if (out == NULL)
        return orr_fail_memory(err);
    out->fd = -1;
    out->buffer = orr_malloc(BUFFER_BYTES);
    if (out->buffer == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (ends_in(path, ".gz"))
        out->encoder = &orr_gzip_encoder;
    else if (ends_in(path, ".zst"))
        out->encoder = &orr_zstd_encoder;
    if (out->encoder != NULL)
        ORR_TRY_OUT(status, out->encoder->open(&out->encoder_state, err));
    ORR_TRY_OUT(status, open_file(out, path, err));
out:
    if (status == ORR_OK)
        *ret = out;
    else
        orr_output_close(out);
    return status;
}

orr_status orr_output_open_memory(orr_output **ret, orr_error *err)
{
    orr_output *out = orr_calloc(1, sizeof *out);
    if (out == NULL)
        return orr_fail_memory(err);
    out->fd = -1;
    out->in_memory = true;
    *ret = out;
    return ORR_OK;
}

/* Sink of the encoders, and the way of plain bytes. */
static orr_status write_file(void *ctx, const void *bytes, size_t len, orr_error *err)
{
    orr_output *out = ctx;
    const uint8_t *at = bytes;
    while (len > 0) {
        const ssize_t n = write(out->fd, at, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return orr_fail(err, ORR_IO, "cannot write %s: %s",
                            out->path != NULL ? out->path : "the output", strerror(errno));
        at += n;
        len -= (size_t)n;
    }
    return ORR_OK;
}

static void encode(orr_output *out, const void *bytes, size_t len, bool last)
{
    if (out->status != ORR_OK)
        return;
    if (out->encoder == NULL)
        out->status = write_file(out, bytes, len, &out->error);
    else
        out->status =
            out->encoder->write(out->encoder_state, bytes, len, last, write_file, out, &out->error);
}

static void append_memory(orr_output *out, const void *bytes, size_t len)
{
    if (out->status != ORR_OK)
        return;
    if (!orr_array_reserve(&out->memory, len)) {
        out->status = orr_fail_memory(&out->error);
        return;
    }
    memcpy(out->memory.at + out->memory.n, bytes, len);
    out->memory.n += len;
}

void orr_output_write(orr_output *out, const void *bytes, size_t len)
{
    if (len == 0)
        return;
    if (out->in_memory) {
        append_memory(out, bytes, len);
        return;
    }
    if (len > BUFFER_BYTES - out->buffered) {
        encode(out, out->buffer, out->buffered, false);
        out->buffered = 0;
    }
    if (len >= BUFFER_BYTES) {
        encode(out, bytes, len, false);
        return;
    }
    memcpy(out->buffer + out->buffered, bytes, len);
    out->buffered += len;
}

void orr_output_flush(orr_output *out)
{
    if (out->in_memory || out->buffered == 0)
        return;
    encode(out, out->buffer, out->buffered, false);
    out->buffered = 0;
}

void orr_output_text(orr_output *out, const char *text)
{
    orr_output_write(out, text, strlen(text));
}

void orr_output_printf(orr_output *out, const char *format, ...)
{
    char small[512];
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int len = vsnprintf(small, sizeof small, format, args);
    if (len >= 0 && (size_t)len < sizeof small) {
        orr_output_write(out, small, (size_t)len);
    } else if (len >= 0) {
        char *large = orr_malloc((size_t)len + 1);
        if (large != NULL) {
            (void)vsnprintf(large, (size_t)len + 1, format, again);
            orr_output_write(out, large, (size_t)len);
            orr_free(large);
        } else if (out->status == ORR_OK) {
            out->status = orr_fail_memory(&out->error);
        }
    }
    va_end(again);
    va_end(args);
}

static orr_status rename_into_place(orr_output *out, orr_error *err)
{
    if (fsync(out->fd) != 0 && errno != EINVAL && errno != EROFS)
        return orr_fail(err, ORR_IO, "cannot write %s: %s", out->path, strerror(errno));
    if (close(out->fd) != 0) {
        out->fd = -1;
        return orr_fail(err, ORR_IO, "cannot write %s: %s", out->path, strerror(errno));
    }
    out->fd = -1;
    if (rename(out->temporary, out->path) != 0)
        return orr_fail(err, ORR_IO, "cannot rename %s to %s: %s", out->temporary, out->path,
                        strerror(errno));
    forget_temporary(out->temporary);
    orr_free(out->temporary);
    out->temporary = NULL;
    return ORR_OK;
}

orr_status orr_output_finish(orr_output *out, orr_error *err)
{
    if (!out->in_memory && !out->finished) {
        encode(out, out->buffer, out->buffered, true);
        out->buffered = 0;
        out->finished = true;
        if (out->status == ORR_OK && out->temporary != NULL)
            out->status = rename_into_place(out, &out->error);
    }
    if (out->status != ORR_OK && err != NULL)
        *err = out->error;
    return out->status;
}

const void *orr_output_memory(const orr_output *out, size_t *ret_len)
{
    *ret_len = out->memory.n;
    return out->memory.n > 0 ? (const void *)out->memory.at : "";
}

void orr_output_close(orr_output *out)
{
    if (out == NULL)
        return;
    if (out->temporary != NULL) {
        (void)unlink(out->temporary);
        forget_temporary(out->temporary);
    }
    if (out->fd >= 0 && out->fd != STDOUT_FILENO)
        close(out->fd);
    if (out->encoder_state != NULL)
        out->encoder->close(out->encoder_state);
    orr_array_done(&out->memory);
    orr_free(out->temporary);
    orr_free(out->path);
    orr_free(out->buffer);
    orr_free(out);
}
