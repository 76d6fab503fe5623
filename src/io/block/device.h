/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_BLOCK_DEVICE_H
#define ORR_IO_BLOCK_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

/* Block devices: sectors that are read and written without waiting. Behind the interface io_uring
 * (uring.c), pread and pwrite where that is forbidden or missing (file.c), memory that a file is
 * mapped to (mapped.c), any of them slowed down to an entry of the catalogue (throttled.c), and a
 * simulated disk that crashes, tears and rots (tests/support/simulated/block_device.h).
 *
 * A write is durable when a sync that began after its completion has succeeded. After a sync that
 * failed, what was written before it may be lost although later syncs succeed; who keeps data on a
 * device must not go on as if it was there.
 *
 * Threads: one at a time, and always the same one between submit and reap. */
typedef enum orr_block_operation { ORR_BLOCK_READ, ORR_BLOCK_WRITE } orr_block_operation;

typedef struct orr_block_request {
    orr_block_operation operation;
    uint32_t bytes; /* a multiple of the sector */
    uint64_t at;    /* of the device, a multiple of the sector */
    void *data;   /* aligned to the device's `alignment`; untouched by others until it is reaped */
    uint64_t tag; /* the caller's */
} orr_block_request;

typedef struct orr_block_completion {
    uint64_t tag;
    int error; /* 0, or errno; a transfer that was cut short is completed or EIO */
} orr_block_completion;

typedef struct orr_block_device orr_block_device;
struct orr_block_device {
    const char *name; /* "io_uring", "pread", "mapped", "simulated" */
    uint64_t bytes;
    uint32_t sector;    /* bytes: the smallest transfer, never torn by a crash */
    uint32_t alignment; /* of memory */
    uint32_t depth;     /* requests in flight, at most */
    const char *remark; /* for a person, see orr_block_device_remark(); NULL: nothing to say */
    void *ctx;
    /* Begins the first *ret_n of n requests, as many as there is room for. */
    orr_status (*submit)(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err);
    /* Waits until `least` of the requests in flight have completed (0: does not wait) and gives up
     * to `room` completions, in any order. */
    orr_status (*reap)(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err);
    /* Makes all writes that have completed durable. IO: it failed, see above. */
    orr_status (*sync)(orr_block_device *self, orr_error *err);
    /* Memory that requests will point into, registered where that helps; NULL: there is no use.
     * It stays where it is until the device is closed. No request is in flight. */
    orr_status (*use_memory)(orr_block_device *self, void *memory, size_t bytes, orr_error *err);
    void (*close)(orr_block_device *self); /* after all requests have been reaped */
};

/* How a file or a raw device is opened. */
typedef struct orr_block_open {
    const char *path;
    bool create;     /* else it must be there */
    bool read_only;  /* others may have it open, too; else it is locked against other processes */
    uint64_t bytes;  /* on creation: allocated at once */
    uint32_t sector; /* 0: what the device says; else at least that */
    uint32_t depth;  /* 0: 128 */
    bool plain;      /* pread and pwrite, not io_uring */
    bool cached;     /* through the page cache (no O_DIRECT) */
} orr_block_open;
/* io_uring with O_DIRECT, else pread and pwrite, whose reason orr_block_device_remark() gives.
 * Errors: IO with the path ("no space left" when it cannot be allocated); LIMIT: another process
 * has it; INVALID: the size is no multiple of the sector, or the sector not what the device can. */
orr_status orr_block_device_open(const orr_block_open *how, orr_block_device **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* "io_uring is forbidden (EPERM): rows are read with pread"; NULL: nothing to say. */
const char *orr_block_device_remark(const orr_block_device *device);

/* Byte-addressable memory as a device: a file that is mapped (DAX, or any file), or memory of a
 * NUMA node. `sector`: the granule, 64 to 4096 bytes. Completes in submit. UNSUPPORTED: a NUMA node
 * without libnuma. */
typedef struct orr_block_map {
    const char *path; /* NULL: memory of a node, which nothing outlives */
    int node;         /* -1: any */
    bool create;
    bool read_only; /* a file: others may have it open, too; else it is locked against them */
    uint64_t bytes;
    uint32_t sector;
} orr_block_map;
orr_status orr_block_device_map(const orr_block_map *how, orr_block_device **ret,
                                orr_error *err) ORR_MUST_CHECK;

/* Slows a device down to these figures; 0: not limited. Takes the device over: close() closes
 * it. */
typedef struct orr_block_limits {
    int64_t read_ns, write_ns;                             /* latency of one request */
    double read_iops, write_iops, read_bytes, write_bytes; /* a second */
} orr_block_limits;
orr_status orr_block_device_throttle(orr_block_device *device, const orr_block_limits *limits,
                                     orr_block_device **ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_IO_BLOCK_DEVICE_H */
