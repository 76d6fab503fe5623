/* SPDX-License-Identifier: Apache-2.0 */
/* Byte-addressable memory as a block device: transfers are copies, made when they are submitted.
 *
 * A mapped file is allocated when it is made, so that no store to it finds the disk full; a file
 * that others cut short, or a page that its medium cannot read, ends the process (SIGBUS), as with
 * any memory. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/block/parts.h"

enum { DEPTH = 128, SMALLEST_GRANULE = 64, LARGEST_GRANULE = 4096, LARGEST_NODE = 1023 };

typedef struct mapping {
    orr_block_device device;
    int fd; /* -1: memory of a node */
    bool read_only;
    char *path;
    uint8_t *memory;
    uint32_t n; /* completions that wait to be reaped */
    uint64_t tags[DEPTH];
} mapping;

static orr_status submit(orr_block_device *self, const orr_block_request *requests, uint32_t n,
                         uint32_t *ret_n, orr_error *err)
{
    mapping *map = self->ctx;
    const uint32_t room = DEPTH - map->n, begun = n < room ? n : room;
    ORR_TRY(orr_block_check_requests(self, requests, begun, err));
    for (uint32_t k = 0; k < begun; k++)
        if (map->read_only && requests[k].operation == ORR_BLOCK_WRITE)
            return orr_fail(err, ORR_INVALID, "%s: a write to a file that is only read", map->path);
    for (uint32_t k = 0; k < begun; k++) {
        const orr_block_request *request = &requests[k];
        if (request->operation == ORR_BLOCK_READ)
            memcpy(request->data, map->memory + request->at, request->bytes);
        else
            memcpy(map->memory + request->at, request->data, request->bytes);
        map->tags[map->n++] = request->tag;
    }
    *ret_n = begun;
    return ORR_OK;
}

static orr_status reap(orr_block_device *self, uint32_t least, orr_block_completion *ret,
                       uint32_t room, uint32_t *ret_n, orr_error *err)
{
    (void)least, (void)err;
    mapping *map = self->ctx;
    const uint32_t n = map->n < room ? map->n : room;
    for (uint32_t k = 0; k < n; k++)
        ret[k] = (orr_block_completion){.tag = map->tags[map->n - 1 - k]};
    map->n -= n;
    *ret_n = n;
    return ORR_OK;
}

static orr_status sync_mapping(orr_block_device *self, orr_error *err)
{
    mapping *map = self->ctx;
    if (map->fd >= 0 && !map->read_only && msync(map->memory, map->device.bytes, MS_SYNC) != 0)
        return orr_fail(err, ORR_IO, "%s: not synced: %s", map->path, strerror(errno));
    return ORR_OK;
}

static void close_mapping(orr_block_device *self)
{
    mapping *map = self->ctx;
    if (map->memory != NULL)
        munmap(map->memory, map->device.bytes);
    if (map->fd >= 0)
        close(map->fd);
    orr_free(map->path);
    orr_free(map);
}

/* By the system call: libnuma is not needed for one. Pages move to the node as they are touched. */
static orr_status bind_to_node(const mapping *map, int node, orr_error *err)
{
#ifdef SYS_mbind
    enum { POLICY_BIND = 2, WORD_BITS = 8 * (int)sizeof(unsigned long) }; /* linux/mempolicy.h */
    unsigned long nodes[(LARGEST_NODE + 1) / WORD_BITS + 1] = {0};
    nodes[node / WORD_BITS] = 1UL << (node % WORD_BITS);
    if (syscall(SYS_mbind, map->memory, map->device.bytes, POLICY_BIND, nodes,
                (unsigned long)LARGEST_NODE + 1, 0UL) == 0)
        return ORR_OK;
    if (errno == EINVAL)
        return orr_fail(err, ORR_INVALID, "NUMA node %d is not there, or has no memory", node);
    return orr_fail(err, ORR_UNSUPPORTED, "memory of NUMA node %d: %s", node, strerror(errno));
#else
    return orr_fail(err, ORR_UNSUPPORTED, "memory of NUMA node %d: not on this system", node);
#endif
}

static orr_status map_node(mapping *map, const orr_block_map *how, orr_error *err)
{
    if (how->node < -1 || how->node > LARGEST_NODE)
        return orr_fail(err, ORR_INVALID, "%d is no number of a NUMA node", how->node);
    void *memory = mmap(NULL, map->device.bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        return orr_fail_memory(err);
    map->memory = memory;
    (void)madvise(memory, map->device.bytes, MADV_HUGEPAGE);
    return how->node >= 0 ? bind_to_node(map, how->node, err) : ORR_OK;
}

static orr_status map_file(mapping *map, const orr_block_map *how, bool *ret_made, orr_error *err)
{
    const orr_block_open open_how = {
        .path = how->path, .create = how->create, .read_only = how->read_only};
    if (how->create && how->read_only)
        return orr_fail(err, ORR_INVALID, "%s: a new file that is only read", how->path);
    map->read_only = how->read_only;
    ORR_TRY(orr_block_open_and_lock(&open_how, &map->fd, ret_made, err));
    orr_block_geometry geometry;
    ORR_TRY(orr_block_geometry_of(map->fd, how->path, &geometry, err));
    if (how->create && !geometry.raw)
        ORR_TRY(orr_block_allocate(map->fd, how->path, how->bytes, err));
    const uint64_t bytes = how->create ? how->bytes : geometry.bytes;
    if (bytes == 0 || bytes % how->sector != 0 || (geometry.raw && bytes > geometry.bytes))
        return orr_fail(err, ORR_INVALID,
                        "%s: %" PRIu64 " bytes are not whole granules of %" PRIu32 " in it",
                        how->path, bytes, how->sector);
    void *memory = MAP_FAILED;
    const int access = how->read_only ? PROT_READ : PROT_READ | PROT_WRITE;
#if defined(MAP_SHARED_VALIDATE) && defined(MAP_SYNC)
    /* On persistent memory stores are durable without the file system (DAX). */
    memory = mmap(NULL, bytes, access, MAP_SHARED_VALIDATE | MAP_SYNC, map->fd, 0);
#endif
    if (memory == MAP_FAILED)
        memory = mmap(NULL, bytes, access, MAP_SHARED, map->fd, 0);
    if (memory == MAP_FAILED)
        return orr_fail(err, ORR_IO, "%s: not mapped: %s", how->path, strerror(errno));
    map->memory = memory;
    map->device.bytes = bytes;
    return ORR_OK;
}

orr_status orr_block_device_map(const orr_block_map *how, orr_block_device **ret, orr_error *err)
{
    const uint32_t granule = how->sector;
    if (granule < SMALLEST_GRANULE || granule > LARGEST_GRANULE || (granule & (granule - 1)) != 0)
        return orr_fail(err, ORR_INVALID,
                        "a granule of %" PRIu32 " bytes is no power of two from %d to %d", granule,
                        SMALLEST_GRANULE, LARGEST_GRANULE);
    if ((how->create || how->path == NULL) && (how->bytes == 0 || how->bytes % granule != 0))
        return orr_fail(err, ORR_INVALID, "%" PRIu64 " bytes are not whole granules of %" PRIu32,
                        how->bytes, granule);
    mapping *map = orr_calloc(1, sizeof *map);
    if (map == NULL)
        return orr_fail_memory(err);
    *map = (mapping){.fd = -1,
                     .device = {.name = "mapped",
                                .bytes = how->bytes,
                                .sector = granule,
                                .alignment = 8,
                                .depth = DEPTH,
                                .ctx = map,
                                .submit = submit,
                                .reap = reap,
                                .sync = sync_mapping,
                                .close = close_mapping}};
    bool made = false;
    orr_status status = ORR_OK;
    if (how->path == NULL) {
        status = map_node(map, how, err);
    } else {
        const size_t length = strlen(how->path) + 1;
        map->path = orr_malloc(length);
        if (map->path != NULL)
            memcpy(map->path, how->path, length);
        status = map->path != NULL ? map_file(map, how, &made, err) : orr_fail_memory(err);
    }
    if (status == ORR_OK) {
        *ret = &map->device;
        return ORR_OK;
    }
    if (made)
        unlink(how->path);
    close_mapping(&map->device);
    return status;
}
