/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and alignments: what the device under a file demands of direct transfers, and whether
 * requests keep to it. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <linux/stat.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "io/block/parts.h"

/* The sector of the device that a file system is on, 0: sysfs does not have it (network and
 * stacked file systems). A partition has no queue of its own; its disk has. */
static uint32_t sector_in_sysfs(dev_t device)
{
    static const char *const forms[] = {
        "/sys/dev/block/%u:%u/queue/logical_block_size",
        "/sys/dev/block/%u:%u/../queue/logical_block_size",
    };
    for (size_t k = 0; k < 2; k++) {
        char path[96];
        unsigned sector = 0;
        snprintf(path, sizeof path, k == 0 ? forms[0] : forms[1], major(device), minor(device));
        FILE *file = fopen(path, "re");
        if (file == NULL)
            continue;
        const bool found = fscanf(file, "%u", &sector) == 1;
        fclose(file);
        if (found)
            return sector;
    }
    return 0;
}

/* Kernels since 6.1 tell the alignment of direct I/O for each file: the file system can ask for
 * more than the device (encryption, compression). */
static bool direct_alignment(int fd, uint32_t *ret_sector, uint32_t *ret_alignment)
{
#if defined(STATX_DIOALIGN) && defined(SYS_statx)
    /* By number, into the kernel's structure: that of the C library can be older. */
    struct {
        uint32_t mask, skipped[37], memory_align, offset_align;
        uint8_t rest[256 - 160];
    } found;
    _Static_assert(sizeof found == 256, "the kernel writes 256 bytes");
    memset(&found, 0, sizeof found);
    if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0)
        return false;
    if ((found.mask & STATX_DIOALIGN) == 0 || found.offset_align == 0)
        return false;
    *ret_sector = found.offset_align;
    *ret_alignment = found.memory_align;
    return true;
#else
    (void)fd, (void)ret_sector, (void)ret_alignment;
    return false;
#endif
}

orr_status orr_block_geometry_of(int fd, const char *path, orr_block_geometry *ret, orr_error *err)
{
    struct stat facts;
    if (fstat(fd, &facts) != 0)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    orr_block_geometry geometry = {.bytes = (uint64_t)facts.st_size, .sector = 512};
    if (S_ISBLK(facts.st_mode)) {
        int sector = 0;
        if (ioctl(fd, BLKSSZGET, &sector) != 0 || ioctl(fd, BLKGETSIZE64, &geometry.bytes) != 0)
            return orr_fail(err, ORR_IO, "%s: its size and sector: %s", path, strerror(errno));
        geometry.sector = geometry.alignment = (uint32_t)sector;
        geometry.raw = true;
    } else if (!S_ISREG(facts.st_mode)) {
        return orr_fail(err, ORR_INVALID, "%s: rows are kept in a file or on a block device", path);
    } else if (!direct_alignment(fd, &geometry.sector, &geometry.alignment)) {
        const uint32_t sector = sector_in_sysfs(facts.st_dev);
        geometry.sector = geometry.alignment = sector > 0 ? sector : 4096;
    }
    if (geometry.sector < 512)
        geometry.sector = 512;
    if (geometry.alignment < 64)
        geometry.alignment = 64; /* a cache line: nobody gains by less */
    *ret = geometry;
    return ORR_OK;
}

orr_status orr_block_check_requests(const orr_block_device *device,
                                    const orr_block_request *requests, uint32_t n, orr_error *err)
{
    const uint32_t in_sector = device->sector - 1, in_alignment = device->alignment - 1;
    for (uint32_t k = 0; k < n; k++) {
        const orr_block_request *request = &requests[k];
        if (((request->at | request->bytes) & in_sector) != 0 || request->bytes == 0)
            return orr_fail_byte(err, ORR_INVALID, request->at,
                                 "%" PRIu32 " bytes at %" PRIu64
                                 " are not whole sectors of %" PRIu32,
                                 request->bytes, request->at, device->sector);
        if (((uintptr_t)request->data & in_alignment) != 0)
            return orr_fail(err, ORR_INVALID, "memory at %p is not aligned to %" PRIu32 " bytes",
                            request->data, device->alignment);
        if (request->at > device->bytes || request->bytes > device->bytes - request->at)
            return orr_fail_byte(err, ORR_INVALID, request->at,
                                 "%" PRIu32 " bytes at %" PRIu64
                                 " lie beyond the end of the device at %" PRIu64,
                                 request->bytes, request->at, device->bytes);
    }
    return ORR_OK;
}
