/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_BLOCK_PARTS_H
#define ORR_IO_BLOCK_PARTS_H

#include "io/block/device.h"

/* What the devices on a file have in common: the file (open.c), opened and locked. The engine that
 * moves the bytes is io_uring (uring.c) or pread and pwrite (file.c). */
typedef struct orr_block_file {
    orr_block_device device; /* first; its ctx is this */
    int fd;
    /* The lock is on an opening of its own: a ring that has the file registered is taken apart by
     * the kernel some time after its process has died, and would hold the lock until then. */
    int lock_fd;
    char *path;
    char remark[256];
    void *engine;
    void (*engine_free)(void *engine);
} orr_block_file;

/* Puts an engine under the file: sets its name and functions. Each uses at most device.depth. */
orr_status orr_block_use_pread(orr_block_file *file, orr_error *err) ORR_MUST_CHECK;
/* False with the reason where io_uring cannot be used: it is not built in, forbidden, or too old.
 */
bool orr_block_use_uring(orr_block_file *file, const char **ret_reason);

/* Opens and locks the file of `how`; made: it was not there. LIMIT: another process has it. */
orr_status orr_block_open_and_lock(const orr_block_open *how, int *ret_fd, bool *ret_made,
                                   orr_error *err) ORR_MUST_CHECK;
/* Makes it `bytes` of zeros, allocated, and durable with its name. IO: "no space left". */
orr_status orr_block_allocate(int fd, const char *path, uint64_t bytes,
                              orr_error *err) ORR_MUST_CHECK;
void orr_block_file_close(orr_block_device *self);
orr_status orr_block_file_sync(orr_block_device *self, orr_error *err) ORR_MUST_CHECK;

/* What transfers to a file must be aligned to, in bytes. 512 for files through the page cache. */
typedef struct orr_block_geometry {
    uint64_t bytes;
    uint32_t sector, alignment;
    bool raw; /* a block device */
} orr_block_geometry;
orr_status orr_block_geometry_of(int fd, const char *path, orr_block_geometry *ret,
                                 orr_error *err) ORR_MUST_CHECK;

/* INVALID: a request beyond the device, or not aligned to its sector or alignment. */
orr_status orr_block_check_requests(const orr_block_device *device,
                                    const orr_block_request *requests, uint32_t n,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_BLOCK_PARTS_H */
