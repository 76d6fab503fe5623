/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "store/file/header.h"
#include "store/serve/row_server.h"

/* Snapshots are written as training writes its rows: appended in order, committed as step 0. The
 * file has room for half of its rows once more, so that updates cost little cleaning (README.md of
 * store/file/). That room and the logs are filled with zeros: a file system writes into room that
 * it has only reserved under a lock that keeps all readers of the file out (ext4, XFS: of parts of
 * blocks). */
#define SPARE_FRAC 0.5
enum { BLOCK_ROWS = 4096, PROBE_BYTES = 1 << 20, REAPED = 64, ZEROS = 1 << 20 };

static orr_status sector_of(const char *path, uint32_t *ret, orr_error *err)
{
    const orr_block_open how = {.path = path, .create = true, .bytes = PROBE_BYTES};
    orr_block_device *device;
    ORR_TRY(orr_block_device_open(&how, &device, err));
    *ret = device->sector;
    device->close(device);
    return ORR_OK;
}

/* Starts writes of what was appended; waits for some where the file has no place for more. */
static orr_status pump(orr_row_file *file, orr_block_device *device, orr_error *err)
{
    orr_block_completion done[REAPED];
    uint32_t n = 0;
    ORR_TRY(orr_row_file_pump(file, NULL, 0, err));
    do {
        ORR_TRY(device->reap(device, 0, done, REAPED, &n, err));
        if (n > 0)
            ORR_TRY(orr_row_file_pump(file, done, n, err));
    } while (n == REAPED);
    return ORR_OK;
}

static orr_status fill(orr_block_device *device, uint64_t at, uint64_t end, void *zeros,
                       orr_error *err)
{
    while (at < end) {
        orr_block_completion done;
        uint32_t n = 0;
        const orr_block_request request = {.operation = ORR_BLOCK_WRITE,
                                           .bytes = (uint32_t)orr_min_size(ZEROS, end - at),
                                           .at = at,
                                           .data = zeros};
        ORR_TRY(device->submit(device, &request, 1, &n, err));
        ORR_TRY(device->reap(device, n, &done, 1, &n, err));
        if (n == 1 && done.error != 0)
            return orr_fail(err, ORR_IO, "byte %llu of a snapshot: %s", (unsigned long long)at,
                            strerror(done.error));
        at += n == 1 ? request.bytes : 0;
    }
    return ORR_OK;
}

/* Zeros where a new file has its logs, and behind the extents that the rows will fill. */
static orr_status fill_room(orr_block_device *device, const orr_row_file_facts *facts,
                            orr_error *err)
{
    orr_row_layout l;
    orr_status status = ORR_OK;
    const size_t alignment = device->alignment > 64 ? device->alignment : 64;
    orr_arena *arena = orr_arena_new(0, 0);
    char *memory = orr_calloc(ZEROS + alignment, 1);
    if (arena == NULL || memory == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    void *zeros = (void *)(((uintptr_t)memory + alignment - 1) / alignment * alignment);
    ORR_TRY_OUT(status, orr_row_layout_of(facts, device->sector, arena, &l, err));
    const uint64_t data = l.data_at * l.sector, extent = (uint64_t)l.extent_sectors * l.sector,
                   rows = (orr_row_layout_extents(&l, facts, 0) -
                           (uint64_t)l.n_shapes * ORR_ROW_FILLING) *
                          extent;
    ORR_TRY_OUT(status, fill(device, 0, data, zeros, err));
    ORR_TRY_OUT(status, fill(device, data + rows, device->bytes, zeros, err));
out:
    orr_free(memory);
    orr_arena_free(arena);
    return status;
}

static orr_status append_rows(orr_row_file *file, uint32_t shard, int64_t first, int64_t n,
                              const char *rows, orr_error *err)
{
    const uint32_t bytes = orr_row_file_facts_of(file)->shards[shard].row_bytes;
    orr_row_entry *entries = orr_row_file_entries(file, shard);
    orr_status status = ORR_OK;
    orr_row_file_lock(file);
    for (int64_t i = 0; i < n && status == ORR_OK; i++) {
        orr_row_entry home;
        status =
            orr_row_file_append(file, shard, first + i, rows + i * bytes, NULL, false, &home, err);
        if (status == ORR_OK)
            entries[first + i] = home;
    }
    orr_row_file_unlock(file);
    return status;
}

static orr_status pack_rows(orr_row_file *file, orr_block_device *device, orr_row_source *rows,
                            void *ctx, char *block, orr_error *err)
{
    const orr_row_file_facts *facts = orr_row_file_facts_of(file);
    for (uint32_t t = 0; t < facts->n_shards; t++)
        for (int64_t at = 0; at < facts->shards[t].rows; at += BLOCK_ROWS) {
            const int64_t left = facts->shards[t].rows - at,
                          n = left < BLOCK_ROWS ? left : BLOCK_ROWS;
            ORR_TRY(rows(ctx, t, at, n, block, err));
            ORR_TRY(append_rows(file, t, at, n, block, err));
            ORR_TRY(pump(file, device, err));
        }
    orr_row_file_lock(file);
    const orr_status status = orr_row_file_begin_commit(file, 0, err);
    orr_row_file_unlock(file);
    ORR_TRY(status);
    return orr_row_file_finish_commit(file, NULL, NULL, err);
}

static orr_status pack_file(const char *path, const orr_row_file_facts *facts, orr_row_source *rows,
                            void *ctx, char *block, orr_error *err)
{
    const orr_row_file_options options = {.durable = true};
    orr_block_open how = {.path = path, .create = true};
    orr_block_device *device;
    orr_row_file *file;
    uint32_t sector;
    ORR_TRY(sector_of(path, &sector, err));
    ORR_TRY(orr_row_file_bytes(facts, sector, SPARE_FRAC, &how.bytes, err));
    ORR_TRY(orr_block_device_open(&how, &device, err));
    orr_status status = fill_room(device, facts, err);
    if (status == ORR_OK)
        status = orr_row_file_create(device, facts, &options, &file, err);
    if (status != ORR_OK) {
        device->close(device);
        return status;
    }
    status = pack_rows(file, device, rows, ctx, block, err);
    orr_row_file_close(file);
    return status;
}

orr_status orr_row_snapshot_pack(const char *path, const orr_row_file_facts *facts,
                                 orr_row_source *rows, void *ctx, orr_error *err)
{
    uint32_t row_bytes = 1;
    for (uint32_t t = 0; t < facts->n_shards; t++) {
        const orr_row_shard *s = &facts->shards[t];
        if (s->first_row != 0 || s->rows != s->table_rows || s->column_begin != 0 ||
            s->column_end != s->table_columns || s->state_bytes != 0)
            return orr_fail(err, ORR_INVALID, "table %s: a shard, or with optimizer state",
                            s->table);
        row_bytes = s->row_bytes > row_bytes ? s->row_bytes : row_bytes;
    }
    const size_t chars = strlen(path) + sizeof ".packing";
    char *temporary = orr_malloc(chars), *block = orr_malloc((size_t)row_bytes * BLOCK_ROWS);
    orr_status status = ORR_OK;
    if (temporary == NULL || block == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    snprintf(temporary, chars, "%s.packing", path);
    status = pack_file(temporary, facts, rows, ctx, block, err);
    if (status == ORR_OK && rename(temporary, path) != 0)
        status = orr_fail(err, ORR_IO, "%s: not renamed: %s", path, strerror(errno));
    if (status != ORR_OK)
        (void)unlink(temporary);
out:
    orr_free(temporary);
    orr_free(block);
    return status;
}
