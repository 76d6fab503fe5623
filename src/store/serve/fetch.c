/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "store/serve/server.h"

/* Rows that are not in the cache: sorted by place, each read once, neighbours together, as many at
 * once as the device takes. A row goes to a slot where it is used more than another one, else to
 * memory of the reader, and counts as read in either case. */
enum {
    READ_BYTES = 32 << 10, /* of one request, at most; one row may need more */
    BATCH = 32,            /* requests that are submitted at once */
    RETRIES = 16,
};
#define PLACE_MASK ((UINT64_C(1) << 43) - 1)

static int by_place(const void *a, const void *b)
{
    const uint64_t x = ((const orr_row_miss *)a)->entry & PLACE_MASK,
                   y = ((const orr_row_miss *)b)->entry & PLACE_MASK;
    return (x > y) - (x < y);
}

static bool same_row(const orr_row_miss *a, const orr_row_miss *b)
{
    return a->row == b->row && a->table == b->table;
}

bool orr_server_slot(orr_row_snapshot *snapshot, orr_slot_stock *stocks, orr_epochs *epochs,
                     uint32_t pool, uint32_t frequency, uint32_t random, uint32_t *ret_slot)
{
    orr_slot_pool *p = &snapshot->pools[pool];
    orr_slot_stock *stock = &stocks[pool];
    if (atomic_load_explicit(&p->fresh, memory_order_relaxed) >= p->n &&
        !orr_slot_stock_is_full(stock) &&
        !orr_slot_evict(p, stock, epochs, &snapshot->entries, frequency, random))
        return false;
    /* There must be room to give it back. */
    if (stock->n_free == 0 && orr_slot_stock_is_full(stock))
        return false;
    return orr_slot_take(p, stock, ret_slot);
}

/* Where the numbers of a miss go. */
typedef struct destination {
    char *at;
    uint32_t slot;
    bool placed; /* in that slot */
} destination;

static destination destination_of(orr_row_reader *r, orr_row_snapshot *s, const orr_row_miss *m)
{
    const orr_served_table *t = &s->tables[m->table];
    orr_shared_entry *entry = &t->entries[m->row];
    destination d = {0};
    const uint32_t random = orr_next_random(&r->random);
    orr_entry_used(entry, atomic_load(entry), random);
    if (orr_server_slot(s, r->stocks, &r->server->epochs, t->pool, orr_entry_frequency(m->entry),
                        random, &d.slot)) {
        d.placed = true;
        d.at = orr_slot_at(&s->pools[t->pool], d.slot);
        return d;
    }
    d.at = r->unplaced + r->unplaced_used;
    r->unplaced_used += (t->slot_bytes + 63) / 64 * 64;
    return d;
}

/* The slot is not used after all; by this reader until it leaves the epoch. */
static void abandon(orr_row_reader *r, const orr_row_snapshot *s, const orr_row_miss *m,
                    destination d)
{
    if (d.placed)
        orr_slot_retire(&r->stocks[s->tables[m->table].pool], d.slot, &r->server->epochs);
}

/* The row is complete: others may see it, unless it has changed meanwhile. */
static void publish(orr_row_reader *r, orr_row_snapshot *s, const orr_row_miss *m, destination d)
{
    const orr_served_table *t = &s->tables[m->table];
    uint64_t entry = atomic_load(&t->entries[m->row]);
    if (!d.placed)
        return;
    orr_slot_own(&s->pools[t->pool], d.slot, m->table, m->row, m->entry);
    while ((entry & ORR_ROW_RESIDENT) == 0 && ((entry ^ m->entry) & ORR_ROW_HOME_MASK) == 0)
        if (atomic_compare_exchange_strong(&t->entries[m->row], &entry,
                                           orr_entry_resident(d.slot, orr_entry_frequency(entry))))
            return;
    abandon(r, s, m, d);
}

/* Takes the row out of its sectors. */
static orr_status take_row(orr_row_reader *r, orr_row_snapshot *s, const orr_row_miss *m,
                           const void *sectors, char *ret, orr_error *err)
{
    const orr_served_table *t = &s->tables[m->table];
    const bool as_stored = t->slot_format == t->stored_format;
    ORR_TRY(orr_row_file_check(s->file, m->table, m->row, m->entry & ORR_ROW_HOME_MASK, sectors,
                               as_stored ? ret : r->decoded, NULL, err));
    if (!as_stored)
        orr_served_decode(t, r->decoded, ret);
    return ORR_OK;
}

static void point(orr_row_reader *r, const orr_row_miss *m, const char *at)
{
    r->rows[m->lookup].at = at;
}

/* Finds the sectors of a miss, unless another reader has brought the row meanwhile; those that are
 * still to be written are in memory, where `locked`; else they are read in vain, and read_again()
 * finds them. */
static orr_status locate(orr_row_reader *r, orr_row_snapshot *s, orr_row_miss *m, bool locked,
                         bool *ret_done, orr_error *err)
{
    const orr_served_table *t = &s->tables[m->table];
    m->entry = atomic_load(&t->entries[m->row]);
    *ret_done = (m->entry & ORR_ROW_RESIDENT) != 0;
    if (*ret_done) {
        point(r, m, orr_slot_at(&s->pools[t->pool], orr_entry_slot(m->entry)));
        return ORR_OK;
    }
    const uint64_t home = m->entry & ORR_ROW_HOME_MASK;
    if (home == 0)
        return orr_fail(err, ORR_PARSE, "table %s, row %lld: the file has no such row",
                        t->shard->table, (long long)m->row);
    const orr_row_read at = locked ? orr_row_file_locate(s->file, m->table, home)
                                   : orr_row_file_place(s->file, m->table, home);
    m->at = at.at;
    m->bytes = at.bytes;
    if (at.data == NULL)
        return ORR_OK;
    const destination d = destination_of(r, s, m);
    const orr_status status = take_row(r, s, m, at.data, d.at, err);
    if (status != ORR_OK) {
        abandon(r, s, m, d);
        return status;
    }
    publish(r, s, m, d);
    point(r, m, d.at);
    *ret_done = true;
    return ORR_OK;
}

/* Sorts the misses and finds their sectors. Those that were in memory are done, and those of one
 * row follow its first, whose `bytes` are not 0. Nobody waits for the writer: where it has the
 * file, its sectors in memory are not looked for. */
static orr_status locate_all(orr_row_reader *r, orr_row_snapshot *s, orr_error *err)
{
    orr_status status = ORR_OK;
    uint32_t kept = 0;
    bool done = false;
    qsort(r->misses, r->n_misses, sizeof *r->misses, by_place);
    const bool locked = !s->read_only && orr_row_file_try_lock(s->file);
    const char *last = NULL;
    for (uint32_t i = 0; i < r->n_misses && status == ORR_OK; i++) {
        orr_row_miss m = r->misses[i];
        m.bytes = 0;
        if (i > 0 && same_row(&m, &r->misses[i - 1])) {
            if (done)
                point(r, &m, last);
        } else {
            status = locate(r, s, &m, locked, &done, err);
            last = r->rows[m.lookup].at;
        }
        if (!done)
            r->misses[kept++] = m;
        else
            r->misses[i] = m; /* `same_row` looks at it */
    }
    if (locked)
        orr_row_file_unlock(s->file);
    r->n_misses = kept;
    return status;
}

/* The read that begins with a miss. */
static orr_served_read read_from(const orr_row_reader *r, uint32_t first)
{
    const orr_row_miss *m = r->misses;
    orr_served_read read = {.at = m[first].at, .bytes = m[first].bytes, .first = first};
    uint32_t i = first + 1;
    for (; i < r->n_misses; i++) {
        const uint64_t end = m[i].at + m[i].bytes;
        if (m[i].bytes == 0)
            continue;
        if (m[i].at < read.at || m[i].at > read.at + read.bytes || end - read.at > READ_BYTES)
            break;
        if (end > read.at + read.bytes)
            read.bytes = (uint32_t)(end - read.at);
    }
    read.n = i - first;
    return read;
}

/* A row whose sectors are not written yet, or that has another home by now, because it was updated
 * twice while it was read: alone. */
static orr_status read_again(orr_row_reader *r, orr_row_snapshot *s, orr_row_miss *m, char *ret,
                             char *buffer, orr_error *err)
{
    const orr_served_table *t = &s->tables[m->table];
    orr_block_device *device = r->device;
    orr_block_completion done = {0};
    uint32_t n = 0;
    const uint64_t entry = atomic_load(&t->entries[m->row]);
    if ((entry & ORR_ROW_RESIDENT) != 0) {
        memcpy(ret, orr_slot_at(&s->pools[t->pool], orr_entry_slot(entry)), t->slot_bytes);
        return ORR_OK;
    }
    m->entry = entry;
    orr_row_file_lock(s->file);
    const orr_row_read at = orr_row_file_locate(s->file, m->table, entry & ORR_ROW_HOME_MASK);
    orr_status status = ORR_OK;
    if (at.data != NULL)
        status = take_row(r, s, m, at.data, ret, err);
    orr_row_file_unlock(s->file);
    if (at.data != NULL)
        return status;
    const orr_block_request request = {
        .operation = ORR_BLOCK_READ, .bytes = at.bytes, .at = at.at, .data = buffer};
    while (n == 0)
        ORR_TRY(device->submit(device, &request, 1, &n, err));
    for (n = 0; n == 0;)
        ORR_TRY(device->reap(device, 1, &done, 1, &n, err));
    if (done.error != 0)
        return orr_fail(err, ORR_IO, "%s: table %s, row %lld: %s", s->path, t->shard->table,
                        (long long)m->row, strerror(done.error));
    return take_row(r, s, m, buffer, ret, err);
}

typedef struct moved_row {
    uint32_t miss;
    char *to;
} moved_row;

typedef struct fetching {
    orr_row_reader *reader;
    orr_row_snapshot *snapshot;
    uint32_t next;   /* miss that the next read begins with */
    uint32_t n_free; /* buffers */
    uint32_t in_flight;
    orr_block_request requests[BATCH];
    uint32_t n_requests;
    orr_array(moved_row) moved; /* rows whose sectors were not theirs */
} fetching;

static bool has_moved(const orr_row_snapshot *s, const orr_row_miss *m)
{
    const uint64_t now = atomic_load(&s->tables[m->table].entries[m->row]);
    return (now & ORR_ROW_RESIDENT) != 0 || ((now ^ m->entry) & ORR_ROW_HOME_MASK) != 0;
}

static orr_status take_read(fetching *f, uint32_t buffer, orr_error *err)
{
    orr_row_reader *r = f->reader;
    const orr_served_read *read = &r->reads[buffer];
    const char *at = NULL;
    for (uint32_t i = read->first; i < read->first + read->n; i++) {
        const orr_row_miss *m = &r->misses[i];
        if (m->bytes == 0) {
            point(r, m, at);
            continue;
        }
        const destination d = destination_of(r, f->snapshot, m);
        const void *sectors = r->buffers + (size_t)buffer * r->buffer_bytes + (m->at - read->at);
        const orr_status status = take_row(r, f->snapshot, m, sectors, d.at, err);
        if (status == ORR_OK)
            publish(r, f->snapshot, m, d);
        else
            abandon(r, f->snapshot, m, d);
        if (status != ORR_OK && (status != ORR_PARSE || f->snapshot->read_only ||
                                 !orr_array_push(&f->moved, ((moved_row){i, d.at}))))
            return status;
        at = d.at;
        point(r, m, at);
    }
    return ORR_OK;
}

static orr_status submit(fetching *f, orr_error *err)
{
    orr_row_reader *r = f->reader;
    const int64_t now = orr_clock_now_ns(&orr_clock_monotonic);
    for (uint32_t done = 0, n; done < f->n_requests; done += n) {
        for (uint32_t i = done; i < f->n_requests; i++)
            r->reads[f->requests[i].tag].begun_ns = now;
        ORR_TRY(r->device->submit(r->device, f->requests + done, f->n_requests - done, &n, err));
        f->in_flight += n;
        if (n == 0)
            return orr_fail(err, ORR_IO, "%s: the device takes no reads", f->snapshot->path);
    }
    f->n_requests = 0;
    atomic_store_explicit(&r->in_flight, f->in_flight, memory_order_relaxed);
    return ORR_OK;
}

/* Waits until the caps let one more read begin. */
static orr_status wait_for_caps(fetching *f, uint32_t table, orr_error *err)
{
    orr_row_server *server = f->reader->server;
    if (server->device_cap.ns_each == 0 && server->table_caps[table].ns_each == 0)
        return ORR_OK;
    const int64_t now = orr_clock_now_ns(server->clock),
                  all = orr_rate_cap_take(&server->device_cap, 1, now),
                  one = orr_rate_cap_take(&server->table_caps[table], 1, now),
                  at = all > one ? all : one;
    if (at <= now)
        return ORR_OK;
    ORR_TRY(submit(f, err));
    orr_count(&f->reader->counts[table].throttled, 1);
    orr_clock_sleep_until_ns(server->clock, at);
    return ORR_OK;
}

static orr_status begin_reads(fetching *f, orr_error *err)
{
    orr_row_reader *r = f->reader;
    while (f->n_free > 0 && f->next < r->n_misses) {
        const uint32_t table = r->misses[f->next].table;
        ORR_TRY(wait_for_caps(f, table, err));
        const orr_served_read read = read_from(r, f->next);
        const uint32_t buffer = r->free_buffers[--f->n_free];
        r->reads[buffer] = read;
        f->next += read.n;
        f->requests[f->n_requests] =
            (orr_block_request){.operation = ORR_BLOCK_READ,
                                .bytes = read.bytes,
                                .at = read.at,
                                .data = r->buffers + (size_t)buffer * r->buffer_bytes,
                                .tag = buffer};
        f->n_requests++;
        orr_count(&r->counts[table].reads, 1);
        orr_count(&r->counts[table].read_bytes, read.bytes);
        if (f->n_requests == BATCH)
            ORR_TRY(submit(f, err));
    }
    return submit(f, err);
}

static orr_status end_reads(fetching *f, orr_error *err)
{
    orr_row_reader *r = f->reader;
    orr_block_completion done[BATCH];
    uint32_t n;
    orr_status status = ORR_OK;
    ORR_TRY(r->device->reap(r->device, 1, done, BATCH, &n, err));
    const int64_t now = orr_clock_now_ns(&orr_clock_monotonic);
    f->in_flight -= n;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t buffer = (uint32_t)done[i].tag;
        const orr_served_read *read = &r->reads[buffer];
        const orr_row_miss *m = &r->misses[read->first];
        const int64_t took = now - read->begun_ns;
        orr_count(&r->read_ns[63 - __builtin_clzll((uint64_t)took | 1)], 1);
        if (status == ORR_OK && done[i].error != 0)
            status = orr_fail(err, ORR_IO, "%s: table %s, row %lld: %s", f->snapshot->path,
                              f->snapshot->tables[m->table].shard->table, (long long)m->row,
                              strerror(done[i].error));
        if (status == ORR_OK)
            status = take_read(f, buffer, err);
        r->free_buffers[f->n_free++] = buffer;
    }
    return status;
}

static orr_status read_moved(fetching *f, orr_error *err)
{
    orr_row_reader *r = f->reader;
    for (size_t i = 0; i < f->moved.n; i++) {
        orr_row_miss *m = &r->misses[f->moved.at[i].miss];
        orr_status status = ORR_PARSE;
        for (int k = 0; k < RETRIES && status == ORR_PARSE; k++) {
            status = read_again(r, f->snapshot, m, f->moved.at[i].to, r->buffers, err);
            if (status == ORR_PARSE && !has_moved(f->snapshot, m))
                return status; /* it was written, at the latest, when it was looked for again */
        }
        ORR_TRY(status);
    }
    return ORR_OK;
}

static orr_status make_room(orr_row_reader *r, const orr_row_snapshot *s, orr_error *err)
{
    size_t most = 0;
    for (uint32_t i = 0; i < r->n_misses; i++)
        most += (s->tables[r->misses[i].table].slot_bytes + 63) / 64 * 64;
    r->unplaced_used = 0;
    if (most <= r->unplaced_room)
        return ORR_OK;
    orr_free(r->unplaced);
    r->unplaced_room = 0;
    r->unplaced = orr_malloc_aligned(most);
    if (r->unplaced == NULL)
        return orr_fail_memory(err);
    r->unplaced_room = most;
    return ORR_OK;
}

orr_status orr_reader_fetch(orr_row_reader *r, orr_row_snapshot *s, orr_error *err)
{
    fetching f = {.reader = r, .snapshot = s, .n_free = r->depth};
    if (r->n_misses == 0)
        return ORR_OK;
    ORR_TRY(make_room(r, s, err));
    ORR_TRY(locate_all(r, s, err));
    for (uint32_t i = 0; i < r->depth; i++)
        r->free_buffers[i] = i;
    orr_status status = ORR_OK;
    while (status == ORR_OK && (f.next < r->n_misses || f.in_flight > 0)) {
        status = begin_reads(&f, err);
        if (status == ORR_OK && f.in_flight > 0)
            status = end_reads(&f, err);
    }
    /* Buffers belong to the device until their reads have ended. */
    while (f.in_flight > 0) {
        orr_block_completion done[BATCH];
        uint32_t n = 0;
        orr_error unused;
        if (r->device->reap(r->device, 1, done, BATCH, &n, &unused) != ORR_OK)
            break;
        f.in_flight -= n;
    }
    atomic_store_explicit(&r->in_flight, 0, memory_order_relaxed);
    if (status == ORR_OK)
        status = read_moved(&f, err);
    orr_array_done(&f.moved);
    return status;
}
