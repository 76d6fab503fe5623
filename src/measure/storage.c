/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the device under a folder is: a file there is read and written at random, by depth, and
 * in sequence, and synced. */
#include "measure/storage.h"

#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/philox.h"

#define LEAST_BYTES ((int64_t)64 << 20)
enum {
    ACCESSES_MAX = 32,
    PIECE_BYTES = 1 << 20, /* of transfers in sequence */
    PIECES = 8,            /* of them in flight */
    MOST_ALIGNMENT = 65536
};

const char *orr_storage_access_name(orr_storage_access access)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_STORAGE_ACCESS_MAP(NAME_)
#undef NAME_
    };
    return names[access];
}

/* Bytes for the file: as asked, or a quarter of what is free. */
static orr_status size_of_file(const char *folder, int64_t asked, bool quick, uint64_t *ret,
                               orr_error *err)
{
    struct statvfs facts;
    if (statvfs(folder, &facts) != 0)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    const uint64_t free_bytes = (uint64_t)facts.f_bavail * facts.f_frsize;
    uint64_t bytes = asked > 0 ? (uint64_t)asked : (uint64_t)(quick ? 1 : 4) << 30;
    if (asked == 0 && bytes > free_bytes / 4)
        bytes = free_bytes / 4;
    bytes -= bytes % PIECE_BYTES;
    if (bytes < (uint64_t)LEAST_BYTES)
        return orr_fail(err, ORR_LIMIT,
                        "%s: storage is measured with at least %lld MiB, and a quarter of what is "
                        "free is %llu MiB",
                        folder, (long long)LEAST_BYTES >> 20,
                        (unsigned long long)(free_bytes >> 22));
    *ret = bytes;
    return ORR_OK;
}

/* All of it once, so that no read is answered from what was never written; with noise, since
 * some devices compress. */
static orr_status fill(const orr_storage_probe *probe, orr_error *err)
{
    orr_block_device *device = probe->device;
    orr_random random = orr_random_of(2, 0);
    for (size_t k = 0; k < (size_t)PIECES * PIECE_BYTES; k += sizeof(uint64_t)) {
        const uint64_t word = orr_random_u64(&random);
        memcpy((char *)probe->memory + k, &word, sizeof word);
    }
    for (uint64_t at = 0; at < device->bytes;) {
        orr_block_request requests[PIECES];
        orr_block_completion done[PIECES];
        uint32_t n = 0, begun = 0, reaped = 0;
        for (; n < PIECES && at < device->bytes; at += PIECE_BYTES)
            requests[n] =
                (orr_block_request){.operation = ORR_BLOCK_WRITE,
                                    .at = at,
                                    .bytes = PIECE_BYTES,
                                    .data = (char *)probe->memory + (size_t)n * PIECE_BYTES,
                                    .tag = n},
            n++;
        ORR_TRY(device->submit(device, requests, n, &begun, err));
        ORR_TRY(device->reap(device, n, done, n, &reaped, err));
        for (uint32_t k = 0; k < reaped; k++)
            if (done[k].error != 0)
                return orr_fail(err, ORR_IO, "measuring storage: %s", strerror(done[k].error));
    }
    return device->sync(device, err);
}

static orr_status probe_all(const orr_storage_probe *probe, bool quick, orr_measured_access *ret,
                            uint32_t *ret_n, orr_error *err)
{
    static const uint32_t read_depths[] = {1, 4, 16, 32, 64, 128};
    static const uint32_t write_depths[] = {1, 32, 128};
    const uint32_t sizes[] = {probe->device->sector, 4096};
    uint32_t n = 0;
    for (int s = 0; s < (sizes[0] < sizes[1] ? 2 : 1); s++) {
        for (size_t d = quick ? 3 : 0; d < 6; d += quick ? 2 : 1)
            ORR_TRY(orr_probe_storage(probe, ORR_STORAGE_RANDOM_READ, sizes[s], read_depths[d],
                                      &ret[n++], err));
        for (size_t d = quick ? 1 : 0; d < 3; d++)
            ORR_TRY(orr_probe_storage(probe, ORR_STORAGE_RANDOM_WRITE, sizes[s], write_depths[d],
                                      &ret[n++], err));
    }
    ORR_TRY(orr_probe_storage(probe, ORR_STORAGE_READ, PIECE_BYTES, PIECES, &ret[n++], err));
    ORR_TRY(orr_probe_storage(probe, ORR_STORAGE_WRITE, PIECE_BYTES, PIECES, &ret[n++], err));
    ORR_TRY(orr_probe_storage(probe, ORR_STORAGE_SYNC, probe->device->sector, 1, &ret[n++], err));
    *ret_n = n;
    return ORR_OK;
}

static orr_status measure(orr_block_device *device, const char *folder, bool quick,
                          orr_arena *arena, orr_measured_storage *ret, orr_error *err)
{
    orr_measured_access *accesses = orr_arena_array(arena, orr_measured_access, ACCESSES_MAX);
    const size_t bytes = (size_t)PIECES * PIECE_BYTES;
    char *memory = orr_malloc(bytes + MOST_ALIGNMENT);
    orr_storage_probe probe = {.device = device,
                               .clock = &orr_clock_monotonic,
                               .least_ns = quick ? 150000000 : 1000000000};
    orr_status status = ORR_OK;
    if (accesses == NULL || memory == NULL || device->alignment > MOST_ALIGNMENT) {
        status = orr_fail_memory(err);
    } else {
        probe.memory = memory + (MOST_ALIGNMENT - (uintptr_t)memory % MOST_ALIGNMENT);
        if (device->use_memory != NULL)
            status = device->use_memory(device, probe.memory, bytes, err);
    }
    uint32_t n = 0;
    if (status == ORR_OK)
        status = fill(&probe, err);
    if (status == ORR_OK)
        status = probe_all(&probe, quick, accesses, &n, err);
    if (status == ORR_OK) {
        *ret = (orr_measured_storage){
            .path = orr_arena_strndup(arena, folder, strlen(folder)),
            .engine = orr_arena_strndup(arena, device->name, strlen(device->name)),
            .sector = device->sector,
            .bytes = (int64_t)device->bytes,
            .accesses = accesses,
            .n_accesses = n};
        if (ret->path == NULL || ret->engine == NULL)
            status = orr_fail_memory(err);
    }
    device->close(device);
    orr_free(memory); /* which the device knew */
    return status;
}

orr_status orr_measure_storage(const char *folder, int64_t bytes, bool quick, orr_arena *arena,
                               orr_measured_storage *ret, orr_error *err)
{
    uint64_t file_bytes = 0;
    ORR_TRY(size_of_file(folder, bytes, quick, &file_bytes, err));
    const char *path = orr_arena_printf(arena, "%s/orrery-bench-%d.rows", folder, (int)getpid());
    if (path == NULL)
        return orr_fail_memory(err);
    const orr_block_open how = {.path = path, .create = true, .bytes = file_bytes};
    orr_block_device *device = NULL;
    ORR_TRY(orr_block_device_open(&how, &device, err));
    (void)unlink(path); /* gone with this process, whatever becomes of it */
    return measure(device, folder, quick, arena, ret, err);
}
