/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_file.h"

/* Reader of files of embedding tables. Files are read, not mapped: one that is truncated meanwhile
 * is then an error, not a signal. */

static orr_status read_at(const orr_table_file *f, uint64_t at, void *ret, size_t n, orr_error *err)
{
    for (size_t done = 0; done < n;) {
        const ssize_t got = pread(f->fd, (char *)ret + done, n - done, (off_t)(at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return orr_fail(err, ORR_IO, "%s: %s", f->path, strerror(errno));
        if (got == 0)
            return orr_fail_byte(err, ORR_PARSE, at + done, "%s: byte %llu: the file ends here",
                                 f->path, (unsigned long long)(at + done));
        done += (size_t)got;
    }
    return ORR_OK;
}

static orr_status fail_header(const orr_table_file *f, uint64_t at, const char *what,
                              orr_error *err)
{
    return orr_fail_byte(err, ORR_PARSE, at, "%s: byte %llu: %s", f->path, (unsigned long long)at,
                         what);
}

/* `size`: of the file. */
static orr_status read_piece(const orr_table_file *f, uint64_t at, uint64_t size,
                             orr_table_piece *ret, orr_error *err)
{
    orr_table_header *h = &ret->header;
    ret->at = at;
    ORR_TRY(read_at(f, at, h, sizeof *h, err));
    if (memcmp(h->magic, ORR_TABLE_MAGIC, sizeof ORR_TABLE_MAGIC) != 0)
        return fail_header(f, at, "no embedding table begins here", err);
    if (h->hash != XXH3_64bits(h, offsetof(orr_table_header, hash)))
        return fail_header(f, at, "the header of a table is damaged: its hash differs", err);
    if (h->name[0] == '\0' || memchr(h->name, '\0', sizeof h->name) == NULL)
        return fail_header(f, at, "the table has no name", err);
    const orr_status status = orr_table_layout_of(h, &ret->layout, err);
    if (status != ORR_OK) {
        orr_error_prefix(err, f->path);
        return status;
    }
    if (h->bytes != (uint64_t)ret->layout.piece_bytes)
        return fail_header(f, at, "the size of a table does not follow from its shape", err);
    if (h->bytes > size - at)
        return orr_fail_byte(err, ORR_PARSE, size,
                             "%s: byte %llu: the file ends within table %s, which has %llu bytes",
                             f->path, (unsigned long long)size, h->name,
                             (unsigned long long)h->bytes);
    return ORR_OK;
}

static orr_status read_pieces(orr_table_file *f, orr_error *err)
{
    struct stat about;
    uint32_t room = 0;
    if (fstat(f->fd, &about) != 0)
        return orr_fail(err, ORR_IO, "%s: %s", f->path, strerror(errno));
    if (!S_ISREG(about.st_mode))
        return orr_fail(err, ORR_INVALID, "%s is no regular file", f->path);
    const uint64_t size = (uint64_t)about.st_size;
    for (uint64_t at = 0; at < size; at += f->pieces[f->n++].header.bytes) {
        if (f->n == room) {
            room = room + room / 2 + 4;
            orr_table_piece *larger = orr_realloc(f->pieces, room * sizeof *larger);
            if (larger == NULL)
                return orr_fail_memory(err);
            f->pieces = larger;
        }
        ORR_TRY(read_piece(f, at, size, &f->pieces[f->n], err));
    }
    return ORR_OK;
}

orr_status orr_table_file_open(const char *path, orr_table_file **ret, orr_error *err)
{
    orr_table_file *f = orr_calloc(1, sizeof *f);
    const size_t n = strlen(path) + 1;
    if (f == NULL)
        return orr_fail_memory(err);
    f->fd = -1;
    f->path = orr_malloc(n);
    orr_status status = f->path != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK) {
        memcpy(f->path, path, n);
        f->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        status = f->fd >= 0 ? read_pieces(f, err)
                            : orr_fail(err, errno == ENOENT ? ORR_NOT_FOUND : ORR_IO, "%s: %s",
                                       path, strerror(errno));
    }
    if (status == ORR_OK)
        *ret = f;
    else
        orr_table_file_close(f);
    return status;
}

void orr_table_file_close(orr_table_file *f)
{
    if (f == NULL)
        return;
    if (f->fd >= 0)
        (void)close(f->fd);
    orr_free(f->pieces);
    orr_free(f->path);
    orr_free(f);
}

static orr_status fail_hash(const orr_table_reader *r, int64_t at, orr_error *err)
{
    const uint64_t byte = r->piece->at + ORR_TABLE_PAGE + (uint64_t)at;
    return orr_fail_byte(err, ORR_PARSE, byte, "%s: byte %llu: table %s is damaged: a hash differs",
                         r->file->path, (unsigned long long)byte, r->piece->header.name);
}

/* What follows the hashes has none, and is zero. */
static orr_status check_end(const orr_table_reader *r, orr_error *err)
{
    uint8_t end[ORR_TABLE_PAGE];
    const orr_table_layout *l = &r->piece->layout;
    const int64_t at = l->bytes + (l->chunks + 1) * (int64_t)sizeof *r->hashes;
    const size_t n = (size_t)(l->piece_bytes - ORR_TABLE_PAGE - at);
    ORR_TRY(read_at(r->file, r->piece->at + ORR_TABLE_PAGE + (uint64_t)at, end, n, err));
    for (size_t i = 0; i < n; i++)
        if (end[i] != 0)
            return fail_hash(r, at, err);
    return ORR_OK;
}

orr_status orr_table_reader_open(const orr_table_file *file, const orr_table_piece *piece,
                                 orr_table_reader *ret, orr_error *err)
{
    const size_t chunks = (size_t)piece->layout.chunks;
    orr_table_reader r = {.file = file, .piece = piece, .number = -1};
    r.hashes = orr_malloc((chunks + 1) * sizeof *r.hashes);
    r.chunk = orr_malloc(ORR_TABLE_CHUNK);
    orr_status status = r.hashes != NULL && r.chunk != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = read_at(file, piece->at + ORR_TABLE_PAGE + (uint64_t)piece->layout.bytes, r.hashes,
                         (chunks + 1) * sizeof *r.hashes, err);
    if (status == ORR_OK && r.hashes[chunks] != XXH3_64bits(r.hashes, chunks * sizeof *r.hashes))
        status = fail_hash(&r, piece->layout.bytes, err);
    if (status == ORR_OK)
        status = check_end(&r, err);
    if (status == ORR_OK)
        *ret = r;
    else
        orr_table_reader_close(&r);
    return status;
}

void orr_table_reader_close(orr_table_reader *r)
{
    orr_free(r->hashes);
    orr_free(r->chunk);
}

static orr_status read_chunk(orr_table_reader *r, int64_t number, orr_error *err)
{
    const int64_t at = number * ORR_TABLE_CHUNK, left = r->piece->layout.bytes - at;
    const size_t n = (size_t)(left < ORR_TABLE_CHUNK ? left : ORR_TABLE_CHUNK);
    r->number = -1;
    ORR_TRY(read_at(r->file, r->piece->at + ORR_TABLE_PAGE + (uint64_t)at, r->chunk, n, err));
    if (r->hashes[number] != XXH3_64bits(r->chunk, n))
        return fail_hash(r, at, err);
    r->number = number;
    return ORR_OK;
}

orr_status orr_table_read(orr_table_reader *r, int64_t at, int64_t n, void *ret, orr_error *err)
{
    char *to = ret;
    while (n > 0) {
        const int64_t number = at / ORR_TABLE_CHUNK, within = at % ORR_TABLE_CHUNK;
        const int64_t room = ORR_TABLE_CHUNK - within, part = n < room ? n : room;
        if (number != r->number)
            ORR_TRY(read_chunk(r, number, err));
        memcpy(to, r->chunk + within, (size_t)part);
        to += part;
        at += part;
        n -= part;
    }
    return ORR_OK;
}
