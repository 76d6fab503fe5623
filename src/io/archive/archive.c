/* SPDX-License-Identifier: Apache-2.0 */
#include "io/archive/archive.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>

#include <archive.h>
#include <archive_entry.h>

#include "base/alloc.h"
#include "base/library.h"

/* The functions that are used; the library is opened when the first archive is. */
#define FUNCTION_MAP(X)                                                                            \
    X(archive_read_new)                                                                            \
    X(archive_read_free)                                                                           \
    X(archive_read_support_filter_gzip)                                                            \
    X(archive_read_support_filter_zstd)                                                            \
    X(archive_read_support_format_tar)                                                             \
    X(archive_read_support_format_zip_seekable)                                                    \
    X(archive_read_open_filename)                                                                  \
    X(archive_read_next_header)                                                                    \
    X(archive_read_data)                                                                           \
    X(archive_error_string)                                                                        \
    X(archive_errno)                                                                               \
    X(archive_filter_code)                                                                         \
    X(archive_entry_pathname)                                                                      \
    X(archive_entry_pathname_utf8)                                                                 \
    X(archive_entry_filetype)                                                                      \
    X(archive_entry_hardlink)                                                                      \
    X(archive_entry_size)                                                                          \
    X(archive_entry_is_encrypted)

ORR_LIBRARY_API(FUNCTION_MAP, "libarchive.so.13")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api();
}

/* Recordings shrink 10 to 100 times. gzip reaches 1,032 with zeros alone, zstd far more. */
enum { BLOCK_BYTES = 128 << 10, MOST_MEMBERS = 1 << 20, MOST_RATIO = 500 };
static const uint64_t always_allowed_bytes = UINT64_C(64) << 20;

struct orr_archive {
    struct archive *handle;
    uint64_t file_bytes;
    uint64_t declared_bytes; /* of the members so far */
    uint64_t read_bytes;
    uint32_t n;
    char *name; /* of the member at hand, NULL before the first */
};

static orr_status failed(const orr_archive *a, const char *what, orr_error *err)
{
    const int code = api.archive_errno(a->handle);
    const char *why = api.archive_error_string(a->handle);
    if (code == ENOMEM)
        return orr_fail_memory(err);
    return orr_fail(err, code > 0 && code != EINVAL && code != EILSEQ ? ORR_IO : ORR_PARSE,
                    "%s%s%s: %s", what, a->name != NULL ? " " : "", a->name != NULL ? a->name : "",
                    why != NULL ? why : "it is damaged");
}

static orr_status check_bomb(const orr_archive *a, uint64_t unpacked, orr_error *err)
{
    if (unpacked <= always_allowed_bytes || unpacked / MOST_RATIO <= a->file_bytes)
        return ORR_OK;
    return orr_fail(err, ORR_LIMIT,
                    "it unpacks to more than %d times its size, which no recording does: unpack it "
                    "yourself if you trust it",
                    (int)MOST_RATIO);
}

static orr_status open_handle(orr_archive *a, const char *path, orr_error *err)
{
    a->handle = api.archive_read_new();
    if (a->handle == NULL)
        return orr_fail_memory(err);
    api.archive_read_support_filter_gzip(a->handle);
    api.archive_read_support_filter_zstd(a->handle);
    api.archive_read_support_format_tar(a->handle);
    api.archive_read_support_format_zip_seekable(a->handle);
    return api.archive_read_open_filename(a->handle, path, BLOCK_BYTES) == ARCHIVE_OK
               ? ORR_OK
               : failed(a, "it cannot be read", err);
}

orr_status orr_archive_open(const char *path, orr_archive **ret, orr_error *err)
{
    struct stat st;
    pthread_once(&opened, open_library);
    if (!available)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "archives need libarchive (libarchive13), which is not installed: install "
                        "it, or unpack the archive and name the folder");
    if (stat(path, &st) != 0)
        return orr_fail(err, ORR_IO, "cannot open: %s", strerror(errno));
    orr_archive *a = orr_calloc(1, sizeof *a);
    if (a == NULL)
        return orr_fail_memory(err);
    a->file_bytes = (uint64_t)st.st_size;
    const orr_status status = open_handle(a, path, err);
    if (status == ORR_OK)
        *ret = a;
    else
        orr_archive_close(a);
    return status;
}

void orr_archive_close(orr_archive *archive)
{
    if (archive == NULL)
        return;
    if (archive->handle != NULL)
        api.archive_read_free(archive->handle);
    orr_free(archive->name);
    orr_free(archive);
}

static orr_status keep_name(orr_archive *a, const char *name, orr_error *err)
{
    while (name[0] == '.' && name[1] == '/')
        name += 2;
    const size_t n = strlen(name) + 1;
    char *copy = orr_malloc(n);
    if (copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, name, n);
    orr_free(a->name);
    a->name = copy;
    return ORR_OK;
}

orr_status orr_archive_next(orr_archive *archive, orr_archive_member *ret, bool *ret_end,
                            orr_error *err)
{
    struct archive_entry *entry;
    const int code = api.archive_read_next_header(archive->handle, &entry);
    if (code == ARCHIVE_EOF) {
        *ret_end = true;
        return ORR_OK;
    }
    if (code < ARCHIVE_WARN)
        return failed(archive, archive->name != NULL ? "damaged behind" : "it cannot be read", err);
    const char *name = api.archive_entry_pathname_utf8(entry);
    if (name == NULL)
        name = api.archive_entry_pathname(entry);
    ORR_TRY(keep_name(archive, name != NULL ? name : "", err));
    if (archive->n == MOST_MEMBERS)
        return orr_fail(err, ORR_LIMIT, "it has more than %d members", (int)MOST_MEMBERS);
    const int64_t bytes = api.archive_entry_size(entry);
    if (bytes > 0 &&
        __builtin_add_overflow(archive->declared_bytes, (uint64_t)bytes, &archive->declared_bytes))
        archive->declared_bytes = UINT64_MAX;
    ORR_TRY(check_bomb(archive, archive->declared_bytes, err));
    *ret = (orr_archive_member){.name = archive->name,
                                .bytes = bytes > 0 ? (uint64_t)bytes : 0,
                                .place = archive->n++,
                                .regular = api.archive_entry_filetype(entry) == AE_IFREG &&
                                           api.archive_entry_hardlink(entry) == NULL,
                                .encrypted = api.archive_entry_is_encrypted(entry) != 0};
    *ret_end = false;
    return ORR_OK;
}

orr_status orr_archive_read(orr_archive *archive, void *to, size_t room, size_t *ret_n,
                            orr_error *err)
{
    const la_ssize_t n = api.archive_read_data(archive->handle, to, room);
    if (n < 0)
        return failed(archive, "cannot unpack", err);
    archive->read_bytes += (uint64_t)n;
    ORR_TRY(check_bomb(archive, archive->read_bytes, err));
    *ret_n = (size_t)n;
    return ORR_OK;
}

bool orr_archive_is_sequential(const orr_archive *archive)
{
    return api.archive_filter_code(archive->handle, 0) != ARCHIVE_FILTER_NONE;
}
