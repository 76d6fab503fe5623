/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "base/alloc.h"
#include "store/file/log.h"

static_assert(sizeof(orr_row_region) <= 64 - ORR_ROW_HASH_BYTES, "fits the smallest sector");
static_assert(sizeof(orr_row_mark) <= 64 - ORR_ROW_HASH_BYTES, "fits the smallest sector");

/* Bytes that go to consecutive sectors of a region. */
typedef struct log_writer {
    orr_row_file *file;
    orr_row_others others;
    uint32_t region;
    uint64_t sequence, at; /* sector of the region where the buffer goes */
    uint64_t payload;      /* bytes in the buffer */
    uint64_t hash;
} log_writer;

static uint64_t buffer_payload(const orr_row_file *f)
{
    return ORR_ROW_LOG_BUFFER / f->layout.sector * (f->layout.sector - ORR_ROW_HASH_BYTES);
}

static void count_bytes(orr_row_file *f, uint64_t n)
{
    orr_row_file_lock(f);
    f->stats.log_bytes += n;
    orr_row_file_unlock(f);
}

static orr_status flush(log_writer *w, orr_error *err)
{
    orr_row_file *f = w->file;
    const uint32_t sector = f->layout.sector;
    const uint64_t n = orr_row_log_sectors(f, w->payload);
    const uint64_t at = orr_row_log_sector(f, w->region, w->at);
    if (n == 0)
        return ORR_OK;
    assert(w->at + n <= f->layout.log_sectors);
    for (uint64_t i = 0; i < n; i++) {
        char *const bytes = f->log_buffer + i * sector;
        orr_sector_seal(bytes, sector, (orr_sector_key){f->header.file_id, at + i, w->sequence});
        w->hash = orr_row_log_hash(w->hash, bytes, sector);
    }
    ORR_TRY(orr_row_transfer(f, ORR_BLOCK_WRITE, at, n, f->log_buffer, w->others, err));
    count_bytes(f, n * sector);
    memset(f->log_buffer, 0, n * sector);
    w->at += n;
    w->payload = 0;
    return ORR_OK;
}

/* Sectors are full but for the last, so that their number follows from that of the bytes. */
static orr_status put(log_writer *w, const void *bytes, size_t n, orr_error *err)
{
    const char *from = bytes;
    while (n > 0) {
        const size_t part = orr_min_size(n, buffer_payload(w->file) - w->payload);
        orr_sector_put(w->file->log_buffer, w->file->layout.sector, w->payload, from, part);
        w->payload += part;
        from += part;
        n -= part;
        if (w->payload == buffer_payload(w->file))
            ORR_TRY(flush(w, err));
    }
    return ORR_OK;
}

static log_writer writer_at(orr_row_file *f, orr_row_others others, uint32_t region,
                            uint64_t sequence, uint64_t at)
{
    memset(f->log_buffer, 0, ORR_ROW_LOG_BUFFER);
    return (log_writer){f, others, region, sequence, at, 0, 0};
}

orr_status orr_row_log_put(orr_row_file *f, uint32_t region, uint64_t at, uint64_t generation,
                           const void *bytes, size_t n, orr_row_others others, orr_error *err)
{
    const uint64_t sector = orr_row_log_sector(f, region, at);
    memset(f->log_buffer, 0, f->layout.sector);
    if (n > 0) {
        memcpy(f->log_buffer, bytes, n);
        orr_sector_seal(f->log_buffer, f->layout.sector,
                        (orr_sector_key){f->header.file_id, sector, generation});
    }
    count_bytes(f, f->layout.sector);
    return orr_row_transfer(f, ORR_BLOCK_WRITE, sector, 1, f->log_buffer, others, err);
}

static orr_status put_changes(log_writer *w, uint32_t shard, orr_error *err)
{
    orr_row_file *f = w->file;
    const size_t words = ((size_t)f->header.facts.shards[shard].rows + 63) / 64;
    for (size_t i = 0; i < words; i++) {
        orr_row_change changes[64];
        uint32_t n = 0;
        if (f->now[shard][i] == 0)
            continue;
        orr_row_file_lock(f);
        for (uint64_t bits = f->now[shard][i]; bits != 0; bits &= bits - 1) {
            const int64_t row = (int64_t)(i * 64) + __builtin_ctzll(bits);
            changes[n++] =
                (orr_row_change){orr_row_id(shard, row), orr_row_home_committing(f, shard, row)};
        }
        orr_row_file_unlock(f);
        for (uint32_t k = 0; k < n; k++)
            ORR_TRY(put(w, &changes[k], sizeof changes[k], err));
    }
    return ORR_OK;
}

static int64_t settled_now(orr_row_file *f)
{
    orr_row_file_lock(f);
    const int64_t settled = f->settled;
    orr_row_file_unlock(f);
    return settled;
}

static orr_status commit_record(orr_row_file *f, uint64_t sectors, orr_row_others others,
                                orr_error *err)
{
    orr_row_log *log = &f->log;
    log_writer w = writer_at(f, others, log->region, log->sequence, log->at + 1);
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++)
        ORR_TRY(put_changes(&w, i, err));
    ORR_TRY(flush(&w, err));
    const uint64_t next = log->at + 1 + sectors;
    assert(w.at == next);
    if (!ORR_ROW_IS_BROKEN(NO_ZEROS))
        ORR_TRY(orr_row_log_put(f, log->region, next, 0, NULL, 0, others, err));
    if (!ORR_ROW_IS_BROKEN(NO_SYNC_BEFORE_MARK))
        ORR_TRY(orr_row_sync(f, err));
    const orr_row_mark mark = {ORR_ROW_MARK_MAGIC, log->number, f->committing_step,
                               settled_now(f),     f->n_now,    w.hash};
    ORR_TRY(
        orr_row_log_put(f, log->region, log->at, log->sequence, &mark, sizeof mark, others, err));
    if (!ORR_ROW_IS_BROKEN(NO_SYNC_AFTER_MARK))
        ORR_TRY(orr_row_sync(f, err));
    log->at = next;
    log->number++;
    return ORR_OK;
}

static orr_status put_homes(log_writer *w, uint32_t shard, orr_error *err)
{
    enum { AT_ONCE = 256 };
    orr_row_file *f = w->file;
    const int64_t rows = f->header.facts.shards[shard].rows;
    for (int64_t row = 0; row < rows; row += AT_ONCE) {
        orr_row_entry homes[AT_ONCE];
        const int64_t n = rows - row < AT_ONCE ? rows - row : AT_ONCE;
        orr_row_file_lock(f);
        for (int64_t i = 0; i < n; i++)
            homes[i] = orr_row_home_committing(f, shard, row + i);
        orr_row_file_unlock(f);
        ORR_TRY(put(w, homes, (size_t)n * sizeof *homes, err));
    }
    return ORR_OK;
}

/* The commit as a snapshot in the other region, which has nothing that may still be opened. */
static orr_status commit_snapshot(orr_row_file *f, orr_row_others others, orr_error *err)
{
    const orr_row_log old = f->log;
    const uint32_t region = 1 - old.region;
    if (settled_now(f) < old.base && !ORR_ROW_IS_BROKEN(LOG_REUSED))
        return orr_fail(err, ORR_LIMIT, "the log is full: commits since step %lld must be settled",
                        (long long)settled_now(f));
    log_writer w = writer_at(f, others, region, old.sequence + 1, 1);
    for (uint32_t i = 0; i < f->header.facts.n_shards; i++)
        ORR_TRY(put_homes(&w, i, err));
    ORR_TRY(flush(&w, err));
    ORR_TRY(orr_row_log_put(f, region, w.at, 0, NULL, 0, others, err));
    if (!ORR_ROW_IS_BROKEN(HEAD_BEFORE_SNAPSHOT))
        ORR_TRY(orr_row_sync(f, err));
    const orr_row_region head = {ORR_ROW_REGION_MAGIC, old.sequence + 1, f->committing_step,
                                 settled_now(f),       f->layout.rows,   w.hash};
    ORR_TRY(orr_row_log_put(f, region, 0, 0, &head, sizeof head, others, err));
    ORR_TRY(orr_row_sync(f, err));
    f->log = (orr_row_log){region, old.sequence + 1, w.at, 0, f->committing_step};
    return ORR_OK;
}

orr_status orr_row_log_commit(orr_row_file *f, orr_row_others others, orr_error *err)
{
    const uint64_t sectors = orr_row_log_sectors(f, f->n_now * sizeof(orr_row_change));
    if (f->log.at + 1 + sectors < f->layout.log_sectors)
        return commit_record(f, sectors, others, err);
    return commit_snapshot(f, others, err);
}

orr_status orr_row_log_create(orr_row_file *f, orr_error *err)
{
    const orr_row_others none = {0};
    const orr_row_region head = {ORR_ROW_REGION_MAGIC, 1, -1, -1, 0, 0};
    const size_t n = f->options.durable ? sizeof head : 0;
    ORR_TRY(orr_row_log_put(f, 0, 0, 0, &head, n, none, err));
    ORR_TRY(orr_row_log_put(f, 0, 1, 0, NULL, 0, none, err));
    ORR_TRY(orr_row_log_put(f, 1, 0, 0, NULL, 0, none, err));
    f->log = (orr_row_log){0, 1, 1, 0, -1};
    f->voiding = f->options.durable ? ORR_ROW_VOID_NOT : ORR_ROW_VOID_DONE;
    return ORR_OK;
}

/* What is written without commits overwrites rows of the last one, so that is made void first. */
orr_status orr_row_log_void(orr_row_file *f, bool *ret_done, orr_error *err)
{
    const uint32_t sector = f->layout.sector;
    orr_row_file_lock(f);
    const bool needed = f->queue != NULL;
    orr_row_file_unlock(f);
    *ret_done = f->voiding == ORR_ROW_VOID_DONE;
    if (*ret_done || !needed)
        return ORR_OK;
    if (f->voiding == ORR_ROW_VOID_NOT) {
        f->voiding = ORR_ROW_VOID_WRITING;
        memset(f->log_buffer, 0, sector);
        f->void_wait = (orr_row_wait){0};
        f->void_left = 2;
    }
    while (f->void_left > 0) {
        const orr_block_request request = {.operation = ORR_BLOCK_WRITE,
                                           .bytes = sector,
                                           .at =
                                               orr_row_log_sector(f, f->void_left - 1, 0) * sector,
                                           .data = f->log_buffer,
                                           .tag = orr_row_tag(&f->void_wait, ORR_ROW_TAG_WAIT)};
        uint32_t begun;
        ORR_TRY(f->device->submit(f->device, &request, 1, &begun, err));
        if (begun == 0)
            return ORR_OK;
        f->in_flight++;
        f->void_wait.pending++;
        f->void_left--;
    }
    if (f->void_wait.pending > 0)
        return ORR_OK;
    if (f->void_wait.error != 0)
        return orr_row_fail_write(f, f->void_wait.error, err);
    ORR_TRY(orr_row_sync(f, err));
    f->voiding = ORR_ROW_VOID_DONE;
    *ret_done = true;
    return ORR_OK;
}
