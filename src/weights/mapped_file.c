/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/mapped_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static orr_status fail_errno(const char *what, orr_error *err)
{
    const int number = errno;
    const orr_status status = orr_fail(err, ORR_IO, "%s: %s", what, strerror(number));
    if (err != NULL)
        err->os_errno = number;
    return status;
}

static orr_status map(int fd, orr_mapped_file *ret, orr_error *err)
{
    struct stat about;
    if (fstat(fd, &about) != 0)
        return fail_errno("cannot be looked at", err);
    if (!S_ISREG(about.st_mode))
        return orr_fail(err, ORR_INVALID, "is no regular file, so it cannot be mapped");
    orr_mapped_file mapped = {.n = (uint64_t)about.st_size, .fd = fd};
    if (mapped.n > 0) {
        void *at = mmap(NULL, mapped.n, PROT_READ, MAP_SHARED, fd, 0);
        if (at == MAP_FAILED)
            return fail_errno("cannot be mapped", err);
        mapped.bytes = at;
    }
    *ret = mapped;
    return ORR_OK;
}

orr_status orr_mapped_file_open(const char *path, orr_mapped_file *ret, orr_error *err)
{
    /* Non-blocking, so that opening a pipe does not wait for a writer. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return fail_errno("cannot be opened", err);
    const orr_status status = map(fd, ret, err);
    if (status != ORR_OK)
        (void)close(fd);
    return status;
}

orr_status orr_mapped_file_read(const orr_mapped_file *mapped, uint64_t offset, void *ret, size_t n,
                                orr_error *err)
{
    char *to = ret;
    while (n > 0) {
        const ssize_t got = pread(mapped->fd, to, n, (off_t)offset);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return fail_errno("cannot be read", err);
        if (got == 0)
            return orr_fail_byte(err, ORR_PARSE, offset, "byte %llu: the file ends here",
                                 (unsigned long long)offset);
        to += got;
        offset += (uint64_t)got;
        n -= (size_t)got;
    }
    return ORR_OK;
}

void orr_mapped_file_close_descriptor(orr_mapped_file *mapped)
{
    if (mapped->fd >= 0)
        (void)close(mapped->fd);
    mapped->fd = -1;
}

void orr_mapped_file_close(orr_mapped_file *mapped)
{
    orr_mapped_file_close_descriptor(mapped);
    if (mapped->bytes != NULL)
        (void)munmap((void *)(uintptr_t)mapped->bytes, mapped->n);
    mapped->bytes = NULL;
}
