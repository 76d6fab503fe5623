/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "store/file/file.h"

/* Requests to the device. After a write or a sync that failed nothing more is written: what the
 * device has of it is not known, and asking again would not tell. */
enum { MOST_AT_ONCE = 64, PIECE_BYTES = 1 << 18 };

void *orr_row_aligned(const orr_row_file *f, size_t bytes)
{
    const size_t to = f->device->alignment > 64 ? f->device->alignment : 64;
    size_t room;
    char *memory;
    if (!orr_add_size(bytes, to + sizeof(void *), &room) || (memory = orr_malloc(room)) == NULL)
        return NULL;
    char *const data = (char *)(((uintptr_t)memory + sizeof(void *) + to - 1) / to * to);
    memcpy(data - sizeof(void *), &memory, sizeof memory);
    return data;
}

void orr_row_aligned_free(void *data)
{
    void *memory = NULL;
    if (data != NULL)
        memcpy(&memory, (char *)data - sizeof(void *), sizeof memory);
    orr_free(memory);
}

void orr_row_poison(orr_row_file *f, const char *what, int error)
{
    if (f->failed)
        return;
    f->failed = true;
    (void)snprintf(f->why, sizeof f->why, "writing %s failed: %s", what,
                   error != 0 ? strerror(error) : "input/output error");
}

orr_status orr_row_fail_poisoned(const orr_row_file *f, orr_error *err)
{
    if (f->step < 0)
        return orr_fail(err, ORR_IO, "%s; nothing has been committed", f->why);
    return orr_fail(err, ORR_IO, "%s; the last commit stands, of step %lld", f->why,
                    (long long)f->step);
}

orr_status orr_row_fail_write(orr_row_file *f, int error, orr_error *err)
{
    orr_row_file_lock(f);
    orr_row_poison(f, "the log", error);
    orr_row_file_unlock(f);
    return orr_row_fail_poisoned(f, err);
}

uint64_t orr_row_tag(const void *of, uint32_t kind)
{
    return ORR_ROW_FILE_TAG | (uint64_t)(uintptr_t)of | kind;
}

void orr_row_complete(orr_row_file *f, const orr_block_completion *c)
{
    const uint32_t kind = (uint32_t)(c->tag % ORR_ROW_TAG_KINDS);
    void *const of = (void *)(uintptr_t)(c->tag & ~ORR_ROW_FILE_TAG & ~(uint64_t)kind);
    f->in_flight--;
    if (kind == ORR_ROW_TAG_RUN) {
        orr_row_file_lock(f);
        orr_row_run_written(f, of, c->error);
        orr_row_file_unlock(f);
    } else {
        orr_row_wait *const w = of;
        w->pending--;
        if (c->error != 0 && w->error == 0)
            w->error = c->error;
    }
}

orr_status orr_row_reap(orr_row_file *f, orr_row_others others, orr_error *err)
{
    orr_block_completion done[MOST_AT_ONCE];
    uint32_t n;
    ORR_TRY(f->device->reap(f->device, 1, done, MOST_AT_ONCE, &n, err));
    for (uint32_t i = 0; i < n; i++)
        if ((done[i].tag & ORR_ROW_FILE_TAG) != 0)
            orr_row_complete(f, &done[i]);
        else if (others.call != NULL)
            others.call(others.ctx, &done[i]);
    return ORR_OK;
}

static uint32_t next_runs(orr_row_file *f, orr_block_request *ret)
{
    uint32_t n = 0;
    orr_row_file_lock(f);
    for (orr_row_run *run = f->queue; run != NULL && n < MOST_AT_ONCE && !f->failed;
         run = run->next)
        ret[n++] = (orr_block_request){
            .operation = ORR_BLOCK_WRITE,
            .bytes = run->groups * f->layout.shapes[run->shape].group_sectors * f->layout.sector,
            .at = (f->layout.data_at + run->sector) * f->layout.sector,
            .data = run->data,
            .tag = orr_row_tag(run, ORR_ROW_TAG_RUN)};
    orr_row_file_unlock(f);
    return n;
}

static void take_queue(orr_row_file *f, uint32_t n)
{
    orr_row_file_lock(f);
    for (uint32_t i = 0; i < n; i++) {
        orr_row_run *run = f->queue;
        f->queue = run->next;
        if (f->queue == NULL)
            f->queue_end = &f->queue;
        run->state = ORR_ROW_RUN_IN_FLIGHT;
    }
    f->in_flight += n;
    orr_row_file_unlock(f);
}

orr_status orr_row_submit_runs(orr_row_file *f, orr_error *err)
{
    for (;;) {
        orr_block_request requests[MOST_AT_ONCE];
        const uint32_t n = next_runs(f, requests);
        uint32_t begun;
        if (n == 0)
            return ORR_OK;
        const orr_status status = f->device->submit(f->device, requests, n, &begun, err);
        if (status != ORR_OK) {
            orr_row_file_lock(f);
            orr_row_poison(f, "rows", EIO);
            orr_row_file_unlock(f);
            return status;
        }
        take_queue(f, begun);
        if (begun < n)
            return ORR_OK;
    }
}

/* Requests of a transfer from byte `done` on. */
static uint32_t pieces(const orr_block_request *whole, uint64_t bytes, uint64_t done,
                       orr_block_request *ret)
{
    uint32_t n = 0;
    for (; n < MOST_AT_ONCE && done < bytes; n++) {
        ret[n] = *whole;
        ret[n].at += done;
        ret[n].data = (char *)whole->data + done;
        ret[n].bytes = (uint32_t)orr_min_size(PIECE_BYTES, bytes - done);
        done += ret[n].bytes;
    }
    return n;
}

static orr_status transfer(orr_row_file *f, const orr_block_request *whole, uint64_t bytes,
                           orr_row_wait *w, orr_row_others others, orr_error *err)
{
    orr_status status = ORR_OK;
    for (uint64_t done = 0;
         (done < bytes && w->error == 0 && status == ORR_OK) || w->pending > 0;) {
        orr_block_request requests[MOST_AT_ONCE];
        const uint32_t n =
            w->error == 0 && status == ORR_OK ? pieces(whole, bytes, done, requests) : 0;
        uint32_t begun = 0;
        if (n > 0)
            status = f->device->submit(f->device, requests, n, &begun, err);
        for (uint32_t i = 0; status == ORR_OK && i < begun; i++)
            done += requests[i].bytes;
        if (status != ORR_OK)
            begun = 0;
        w->pending += begun;
        f->in_flight += begun;
        if (w->pending > 0 || begun < n) {
            const orr_status reaped = orr_row_reap(f, others, err);
            if (reaped != ORR_OK)
                return reaped;
        }
    }
    return status;
}

orr_status orr_row_transfer(orr_row_file *f, orr_block_operation operation, uint64_t at,
                            uint64_t sectors, void *data, orr_row_others others, orr_error *err)
{
    const bool writes = operation == ORR_BLOCK_WRITE;
    orr_row_wait w = {0};
    if (writes && f->failed)
        return orr_row_fail_poisoned(f, err);
    const orr_block_request whole = {.operation = operation,
                                     .at = at * f->layout.sector,
                                     .data = data,
                                     .tag = orr_row_tag(&w, ORR_ROW_TAG_WAIT)};
    const orr_status status = transfer(f, &whole, sectors * f->layout.sector, &w, others, err);
    if (writes && (status != ORR_OK || w.error != 0)) {
        orr_error why;
        (void)orr_row_fail_write(f, w.error, &why);
    }
    ORR_TRY(status);
    if (w.error != 0)
        return orr_fail(err, ORR_IO, "%s sectors %llu to %llu failed: %s",
                        writes ? "writing" : "reading", (unsigned long long)at,
                        (unsigned long long)(at + sectors - 1), strerror(w.error));
    return ORR_OK;
}

orr_status orr_row_sync(orr_row_file *f, orr_error *err)
{
    if (f->failed)
        return orr_row_fail_poisoned(f, err);
    orr_status status = f->device->sync(f->device, err);
    if (status != ORR_OK && ORR_ROW_IS_BROKEN(FAILED_SYNC_TRIED_AGAIN))
        status = f->device->sync(f->device, err);
    orr_row_file_lock(f);
    f->stats.syncs++;
    if (status != ORR_OK)
        orr_row_poison(f, "to the device (sync)", 0);
    orr_row_file_unlock(f);
    return status;
}
