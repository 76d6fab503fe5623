/* SPDX-License-Identifier: Apache-2.0 */
/* Opens the file or the raw device that rows are on: lock, allocation, sector, engine. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "io/block/parts.h"

enum { DEFAULT_DEPTH = 128, LARGEST_DEPTH = 4096, LARGEST_SECTOR = 65536 };

const char *orr_block_device_remark(const orr_block_device *device)
{
    return device->remark;
}

static orr_status fail_with_path(orr_error *err, const char *path, const char *what, int error)
{
    const orr_status status = orr_fail(err, ORR_IO, "%s: %s: %s", path, what,
                                       error == ENOSPC ? "no space left" : strerror(error));
    if (err != NULL)
        err->os_errno = error;
    return status;
}

void orr_block_file_close(orr_block_device *self)
{
    orr_block_file *file = self->ctx;
    if (file->engine != NULL)
        file->engine_free(file->engine);
    if (file->fd >= 0)
        close(file->fd);
    if (file->lock_fd >= 0)
        close(file->lock_fd);
    orr_free(file->path);
    orr_free(file);
}

orr_status orr_block_file_sync(orr_block_device *self, orr_error *err)
{
    orr_block_file *file = self->ctx;
    /* Not again after EIO: the kernel has marked what it could not write as clean, so that a
     * second call would succeed. EINTR comes before anything was tried. */
    int failed;
    do
        failed = fdatasync(file->fd);
    while (failed != 0 && errno == EINTR);
    return failed == 0 ? ORR_OK : fail_with_path(err, file->path, "not synced", errno);
}

/* A raw device is opened exclusively: EBUSY where it is mounted, or part of a volume. */
orr_status orr_block_open_and_lock(const orr_block_open *how, int *ret_fd, bool *ret_made,
                                   orr_error *err)
{
    struct stat facts;
    const bool there = stat(how->path, &facts) == 0;
    int flags = O_CLOEXEC | (how->read_only ? O_RDONLY : O_RDWR);
    if (there && S_ISBLK(facts.st_mode) && !how->read_only)
        flags |= O_EXCL;
    else if (how->create)
        flags |= O_CREAT;
    const int fd = open(how->path, flags, 0666);
    if (fd < 0 && errno == EBUSY)
        return orr_fail(err, ORR_LIMIT, "%s: the device is mounted, or another process has it",
                        how->path);
    if (fd < 0)
        return fail_with_path(err, how->path, "not opened", errno);
    if (!how->read_only && flock(fd, LOCK_EX | LOCK_NB) != 0) {
        const int error = errno;
        close(fd);
        if (error == EWOULDBLOCK)
            return orr_fail(err, ORR_LIMIT, "%s: another process has it open", how->path);
        return fail_with_path(err, how->path, "not locked", error);
    }
    *ret_fd = fd;
    *ret_made = !there;
    return ORR_OK;
}

/* The name of a new file is durable once its folder is. */
static orr_status sync_folder(const char *path, orr_error *err)
{
    size_t unused;
    const size_t length = (size_t)(orr_path_basename(path, &unused) - path);
    char *folder = orr_malloc(length + 2);
    if (folder == NULL)
        return orr_fail_memory(err);
    memcpy(folder, length > 0 ? path : ".", length > 0 ? length : 1);
    folder[length > 0 ? length : 1] = '\0';
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    orr_status status = ORR_OK;
    if (fd < 0 || (fsync(fd) != 0 && errno != EINVAL))
        status = fail_with_path(err, folder, "not synced", errno);
    if (fd >= 0)
        close(fd);
    orr_free(folder);
    return status;
}

/* Zeros, allocated on the spot: a full disk is found now and not in the middle of a run. */
orr_status orr_block_allocate(int fd, const char *path, uint64_t bytes, orr_error *err)
{
    if (bytes > INT64_MAX)
        return orr_fail(err, ORR_INVALID, "%s: %" PRIu64 " bytes are no size of a file", path,
                        bytes);
    if (ftruncate(fd, 0) != 0)
        return fail_with_path(err, path, "not emptied", errno);
    const int error = posix_fallocate(fd, 0, (off_t)bytes);
    if (error != 0) {
        char what[64];
        snprintf(what, sizeof what, "%.3f GiB could not be allocated", (double)bytes / (1 << 30));
        return fail_with_path(err, path, what, error);
    }
    if (fsync(fd) != 0)
        return fail_with_path(err, path, "not synced", errno);
    return sync_folder(path, err);
}

/* The larger of what the device has and what is asked for. */
static orr_status fit(orr_block_file *file, const orr_block_open *how,
                      const orr_block_geometry *geometry, orr_error *err)
{
    orr_block_device *device = &file->device;
    const uint32_t asked = how->sector;
    if (asked != 0 && (asked < 512 || asked > LARGEST_SECTOR || (asked & (asked - 1)) != 0))
        return orr_fail(err, ORR_INVALID,
                        "%s: a sector of %" PRIu32 " bytes is no power of two from 512 to %d",
                        file->path, asked, LARGEST_SECTOR);
    device->sector = asked > geometry->sector ? asked : geometry->sector;
    device->alignment = geometry->alignment;
    device->bytes = geometry->bytes;
    if (geometry->raw && how->create && how->bytes > 0) {
        if (how->bytes > geometry->bytes)
            return orr_fail(err, ORR_IO,
                            "%s: no space left: the device has %" PRIu64 " of %" PRIu64 " bytes",
                            file->path, geometry->bytes, how->bytes);
        device->bytes = how->bytes;
    }
    if (device->bytes == 0 || device->bytes % device->sector != 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: %" PRIu64 " bytes are not whole sectors of %" PRIu32
                        ": it is cut short, or of another kind",
                        file->path, device->bytes, device->sector);
    device->depth = how->depth == 0              ? DEFAULT_DEPTH
                    : how->depth > LARGEST_DEPTH ? LARGEST_DEPTH
                                                 : how->depth;
    return ORR_OK;
}

static void add_remark(orr_block_file *file, const char *what, const char *why)
{
    const size_t used = strlen(file->remark);
    snprintf(file->remark + used, sizeof file->remark - used, "%s%s%s", used > 0 ? "; " : "", what,
             why);
    file->device.remark = file->remark;
}

/* Past the page cache where the file system can do that (tmpfs and some others cannot). */
static orr_status go_direct(orr_block_file *file, const orr_block_open *how, orr_error *err)
{
    if (how->cached)
        return ORR_OK;
    const int flags = fcntl(file->fd, F_GETFL);
    if (flags >= 0 && fcntl(file->fd, F_SETFL, flags | O_DIRECT) == 0)
        return ORR_OK;
    if (errno != EINVAL && errno != EOPNOTSUPP)
        return fail_with_path(err, file->path, "no direct transfers", errno);
    add_remark(file, "the file system has no direct transfers: the page cache is between", "");
    return ORR_OK;
}

static orr_status start(orr_block_file *file, const orr_block_open *how, bool *ret_made,
                        orr_error *err)
{
    ORR_TRY(orr_block_open_and_lock(how, &file->lock_fd, ret_made, err));
    file->fd = open(how->path, O_CLOEXEC | (how->read_only ? O_RDONLY : O_RDWR));
    if (file->fd < 0)
        return fail_with_path(err, how->path, "not opened", errno);
    orr_block_geometry geometry;
    ORR_TRY(orr_block_geometry_of(file->fd, file->path, &geometry, err));
    if (how->create && !geometry.raw) {
        geometry.bytes = how->bytes;
        ORR_TRY(fit(file, how, &geometry, err)); /* before anything is changed */
        ORR_TRY(orr_block_allocate(file->fd, file->path, how->bytes, err));
    }
    ORR_TRY(fit(file, how, &geometry, err));
    ORR_TRY(go_direct(file, how, err));
    file->device.sync = orr_block_file_sync;
    file->device.close = orr_block_file_close;
    const char *reason = NULL;
    if (!how->plain && orr_block_use_uring(file, &reason))
        return ORR_OK;
    if (reason != NULL)
        add_remark(file, reason, ": rows are read with pread");
    return orr_block_use_pread(file, err);
}

orr_status orr_block_device_open(const orr_block_open *how, orr_block_device **ret, orr_error *err)
{
    orr_block_file *file = orr_calloc(1, sizeof *file);
    if (file == NULL)
        return orr_fail_memory(err);
    file->fd = file->lock_fd = -1;
    file->device.ctx = file;
    const size_t length = strlen(how->path) + 1;
    file->path = orr_malloc(length);
    bool made = false;
    orr_status status = ORR_OK;
    if (file->path == NULL)
        status = orr_fail_memory(err);
    else
        memcpy(file->path, how->path, length);
    if (status == ORR_OK && how->create && how->read_only)
        status = orr_fail(err, ORR_INVALID, "%s: a new file that is only read", how->path);
    if (status == ORR_OK)
        status = start(file, how, &made, err);
    if (status == ORR_OK) {
        *ret = &file->device;
        return ORR_OK;
    }
    if (made)
        unlink(how->path);
    orr_block_file_close(&file->device);
    return status;
}
