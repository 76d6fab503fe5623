/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "team/store/store.h"

/* The file: records one behind another, each
 *
 *     mark 4, bytes 4, version 8, hash 8 (all little endian), the record itself
 *
 * The hash is seeded by the record's place, so that bytes inside a record are never taken for one.
 * The first record of a file, and each that would let it grow beyond COMPACT_BYTES, comes by a new
 * file that is synced and then renamed; the others are appended. So a process that dies while it
 * saves leaves a whole record before the torn one, always. Who dies before the sync may leave a
 * record that is whole and that nobody was told of: it is as good as the one before it. */
enum { HEADER_BYTES = 24, COMPACT_BYTES = 1 << 20, MOST_RECORD = 1 << 20, OPEN_TRIES = 100 };
static const uint64_t MARK = 0x4c72724f; /* "OrrL" */

typedef struct place {
    uint64_t at, bytes, version; /* bytes: of the record, without its header */
} place;

typedef struct log_store {
    orr_team_store store;
    char *path; /* links followed */
    int fd;     /* the file's lock goes with it */
    bool any;   /* `newest` is one */
    place newest;
    uint64_t size; /* behind `newest`: a torn tail */
    bool spoiled;  /* a write or sync failed, the system may hold anything: begin a new file */
} log_store;

static uint64_t end_of(place p)
{
    return p.at + HEADER_BYTES + p.bytes;
}

static uint64_t hash_of(const uint8_t header[16], const void *record, uint64_t bytes, uint64_t at)
{
    return XXH3_64bits_withSeed(record, bytes, XXH3_64bits_withSeed(header, 16, at));
}

static void put64(uint8_t *at, uint64_t value)
{
    value = htole64(value);
    memcpy(at, &value, sizeof value);
}

static uint64_t get64(const uint8_t *at)
{
    uint64_t value;
    memcpy(&value, at, sizeof value);
    return le64toh(value);
}

static bool read_all(int fd, void *ret, size_t bytes, uint64_t at)
{
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = pread(fd, (char *)ret + done, bytes - done, (off_t)(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            errno = n == 0 ? EIO : errno; /* the file is shorter than it was */
            return false;
        }
        done += (size_t)n;
    }
    return true;
}

static bool write_all(int fd, const void *bytes, size_t n, uint64_t at)
{
    for (size_t done = 0; done < n;) {
        const ssize_t wrote = pwrite(fd, (const char *)bytes + done, n - done, (off_t)(at + done));
        if (wrote < 0 && errno == EINTR)
            continue;
        if (wrote < 0)
            return false;
        done += (size_t)wrote;
    }
    return true;
}

static bool write_record(int fd, place p, const void *record)
{
    uint8_t header[HEADER_BYTES];
    put64(header, p.bytes << 32 | MARK);
    put64(header + 8, p.version);
    put64(header + 16, hash_of(header, record, p.bytes, p.at));
    return write_all(fd, header, sizeof header, p.at) &&
           write_all(fd, record, p.bytes, p.at + HEADER_BYTES) && fdatasync(fd) == 0;
}

static orr_status cannot(const char *verb, const log_store *log, orr_error *err)
{
    const int why = errno;
    const orr_status status =
        orr_fail(err, ORR_IO, "cannot %s the log %s: %s", verb, log->path, strerror(why));
    if (err != NULL)
        err->os_errno = why;
    return status;
}

/* A record that begins here and is whole. */
static bool is_record(const uint8_t *file, uint64_t size, uint64_t at, place *ret)
{
    if (size - at < HEADER_BYTES)
        return false;
    const uint8_t *header = file + at;
    const uint64_t bytes = get64(header) >> 32;
    if ((uint32_t)get64(header) != MARK || bytes > size - at - HEADER_BYTES ||
        get64(header + 16) != hash_of(header, header + HEADER_BYTES, bytes, at))
        return false;
    *ret = (place){.at = at, .bytes = bytes, .version = get64(header + 8)};
    return true;
}

/* The newest whole record. Where one is damaged, what is whole behind it is looked for byte by
 * byte: an older record than need be is an older epoch than need be. */
static void find_newest(log_store *log, const uint8_t *file)
{
    for (uint64_t at = 0; at < log->size;) {
        place p;
        if (!is_record(file, log->size, at, &p)) {
            at++;
            continue;
        }
        if (!log->any || p.version > log->newest.version)
            log->newest = p;
        log->any = true;
        at = end_of(p);
    }
}

/* A record that a process wrote and did not live to sync is synced now, before anybody acts on it.
 */
static orr_status scan(log_store *log, orr_error *err)
{
    struct stat about;
    if (fstat(log->fd, &about) != 0)
        return cannot("read", log, err);
    log->size = (uint64_t)about.st_size;
    if (log->size == 0)
        return ORR_OK;
    if (log->size > (uint64_t)COMPACT_BYTES + MOST_RECORD + HEADER_BYTES)
        return orr_fail(err, ORR_LIMIT, "%s is no log of a coordinator: it is too large",
                        log->path);
    uint8_t *file = orr_malloc(log->size);
    if (file == NULL)
        return orr_fail_memory(err);
    orr_status status = ORR_OK;
    if (!read_all(log->fd, file, log->size, 0))
        status = cannot("read", log, err);
    else
        find_newest(log, file);
    if (status == ORR_OK && fdatasync(log->fd) != 0)
        status = cannot("sync", log, err);
    orr_free(file);
    return status;
}

static orr_status load(orr_team_store *store, uint64_t *ret_version, void *ret, size_t room,
                       size_t *ret_bytes, orr_error *err)
{
    log_store *log = store->ctx;
    const place p = log->newest;
    if (!log->any && log->size == 0)
        return orr_fail(err, ORR_NOT_FOUND, "the log %s is empty", log->path);
    if (!log->any)
        return orr_fail(err, ORR_PARSE, "no record of the log %s can be read", log->path);
    if (p.bytes > room)
        return orr_fail(err, ORR_LIMIT, "the log %s holds %llu bytes where %zu are expected",
                        log->path, (unsigned long long)p.bytes, room);
    uint8_t header[HEADER_BYTES];
    if (!read_all(log->fd, header, sizeof header, p.at) ||
        !read_all(log->fd, ret, p.bytes, p.at + HEADER_BYTES))
        return cannot("read", log, err);
    if (get64(header + 16) != hash_of(header, ret, p.bytes, p.at))
        return orr_fail(err, ORR_PARSE, "the log %s was changed while it was held", log->path);
    *ret_version = p.version;
    *ret_bytes = p.bytes;
    return ORR_OK;
}

/* Names in the folder last only once the folder is synced. Some file systems cannot, and need not.
 */
static bool sync_folder(const char *path)
{
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL || slash == path ? 1 : (size_t)(slash - path);
    memcpy(folder, slash == NULL ? "." : path, n);
    folder[n] = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const bool synced = fsync(fd) == 0 || errno == EINVAL;
    const int why = errno;
    (void)close(fd);
    errno = why;
    return synced;
}

static bool beside(const log_store *log, const char *ending, char ret[PATH_MAX])
{
    const size_t n = strlen(log->path), m = strlen(ending) + 1;
    if (n + m > PATH_MAX) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(ret, log->path, n);
    memcpy(ret + n, ending, m);
    return true;
}

/* A new file that this process holds before anybody can see it. -1: errno says why. */
static int new_file(const log_store *log, const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    struct stat about;
    if (fd < 0)
        return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(log->fd, &about) == 0) {
        (void)fchmod(fd, about.st_mode & 07777);
        return fd;
    }
    const int why = errno;
    (void)close(fd);
    errno = why;
    return -1;
}

/* The log becomes this record alone. What was there and could not be read is kept beside it. */
static orr_status replace(log_store *log, place p, const void *record, orr_error *err)
{
    char path[PATH_MAX], aside[PATH_MAX];
    p.at = 0;
    if (!beside(log, ".new", path))
        return cannot("write", log, err);
    const int fd = new_file(log, path);
    if (fd < 0)
        return cannot("write", log, err);
    if (!log->any && log->size > 0 && beside(log, ".unreadable", aside))
        (void)link(log->path, aside);
    if (!write_record(fd, p, record) || rename(path, log->path) != 0) {
        const int why = errno;
        (void)close(fd);
        (void)unlink(path);
        errno = why;
        return cannot("write", log, err);
    }
    /* From here on this is the log, though a power cut may still bring the old one back. */
    (void)close(log->fd);
    log->fd = fd;
    log->newest = p;
    log->size = end_of(p);
    log->any = true;
    log->spoiled = !sync_folder(log->path);
    return log->spoiled ? cannot("sync", log, err) : ORR_OK;
}

/* A record that failed is cut off again; that it once was there can no longer be seen. */
static orr_status append(log_store *log, place p, const void *record, orr_error *err)
{
    const uint64_t end = end_of(log->newest);
    if ((log->size > end && ftruncate(log->fd, (off_t)end) != 0) ||
        !write_record(log->fd, p, record)) {
        const int why = errno;
        log->spoiled = true;
        (void)!ftruncate(log->fd, (off_t)end);
        errno = why;
        return cannot("write", log, err);
    }
    log->newest = p;
    log->size = end_of(p);
    return ORR_OK;
}

static orr_status save(orr_team_store *store, uint64_t version, const void *record, size_t bytes,
                       orr_error *err)
{
    log_store *log = store->ctx;
    if (bytes > MOST_RECORD)
        return orr_fail(err, ORR_LIMIT, "%zu bytes are too many for a record of the log %s", bytes,
                        log->path);
    if (log->any &&
        (version < log->newest.version || (version == log->newest.version && !log->spoiled)))
        return orr_fail(err, ORR_INVALID, "version %llu follows version %llu in the log %s",
                        (unsigned long long)version, (unsigned long long)log->newest.version,
                        log->path);
    const place p = {.at = log->any ? end_of(log->newest) : 0, .bytes = bytes, .version = version};
    if (!log->any || log->spoiled || end_of(p) > COMPACT_BYTES)
        return replace(log, p, record, err);
    return append(log, p, record, err);
}

static void log_close(orr_team_store *store)
{
    log_store *log = store->ctx;
    if (log->fd >= 0)
        (void)close(log->fd);
    orr_free(log->path);
    orr_free(log);
}

/* Opens and locks one file. *ret_same: it still has that name, and no holder has renamed another
 * into its place in the meantime. */
static orr_status hold_once(log_store *log, bool *ret_same, orr_error *err)
{
    struct stat held, named;
    log->fd = open(log->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0666);
    if (log->fd < 0 || fstat(log->fd, &held) != 0)
        return cannot("open", log, err);
    if (!S_ISREG(held.st_mode))
        return orr_fail(err, ORR_IO, "cannot open the log %s: it is no regular file", log->path);
    if (flock(log->fd, LOCK_EX | LOCK_NB) != 0)
        return errno == EWOULDBLOCK ? orr_fail(err, ORR_LIMIT,
                                               "the log %s is held by another process: "
                                               "a team has one coordinator",
                                               log->path)
                                    : cannot("lock", log, err);
    *ret_same =
        stat(log->path, &named) == 0 && named.st_ino == held.st_ino && named.st_dev == held.st_dev;
    return ORR_OK;
}

static orr_status hold(log_store *log, orr_error *err)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        bool same = false;
        ORR_TRY(hold_once(log, &same, err));
        if (same)
            return ORR_OK;
        (void)close(log->fd);
        log->fd = -1;
    }
    return orr_fail(err, ORR_LIMIT, "the log %s is held by another process that keeps writing it",
                    log->path);
}

static char *copy_text(const char *text)
{
    const size_t bytes = strlen(text) + 1;
    char *copy = orr_malloc(bytes);
    return copy != NULL ? memcpy(copy, text, bytes) : NULL;
}

/* Renaming goes to the file itself, not to a link to it. */
static orr_status follow_links(log_store *log, orr_error *err)
{
    char real[PATH_MAX];
    if (realpath(log->path, real) == NULL)
        return cannot("open", log, err);
    char *path = copy_text(real);
    if (path == NULL)
        return orr_fail_memory(err);
    orr_free(log->path);
    log->path = path;
    return ORR_OK;
}

orr_status orr_team_store_log(const char *path, orr_team_store **ret, orr_error *err)
{
    orr_status status = ORR_OK;
    log_store *log = orr_calloc(1, sizeof *log);
    if (log == NULL)
        return orr_fail_memory(err);
    log->fd = -1;
    log->store =
        (orr_team_store){.name = "log", .ctx = log, .load = load, .save = save, .close = log_close};
    log->path = copy_text(path);
    if (log->path == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, hold(log, err));
    ORR_TRY_OUT(status, follow_links(log, err));
    if (!sync_folder(log->path)) {
        status = cannot("sync", log, err);
        goto out;
    }
    ORR_TRY_OUT(status, scan(log, err));
out:
    if (status == ORR_OK)
        *ret = &log->store;
    else
        log_close(&log->store);
    return status;
}
