/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "store/serve/server.h"

/* The writer of a server. A row that changes gets a new place in the file and, where it is cached,
 * a new slot; one compare-and-swap of its entry shows readers both. Its old place is given to other
 * rows only when the readers of that time have passed. */
enum {
    BLOCK = 64, /* rows that are shown at once */
    REAPED = 64,
    MOST_FREQUENT = 255,
    TRIES = 20000,
    COMMITS = 4,          /* that may make room, one after the other */
    RUN_BYTES = 64 << 10, /* readers wait behind these in the device */
    CLEANINGS = 2,        /* of RUN_BYTES, for a block of rows: as many as half a file needs */
};

orr_row_entry orr_served_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry)
{
    const orr_row_server *server = ctx;
    const orr_row_snapshot *s = atomic_load(&server->snapshot);
    const orr_slot_pool *pool = &s->pools[s->tables[shard].pool];
    (void)row;
    return atomic_load(&pool->home[orr_entry_slot(entry)]);
}

/* Cleaning has moved a row, whose numbers are the same. */
void orr_served_set_home(void *ctx, uint32_t shard, int64_t row, orr_row_entry entry,
                         orr_row_entry home)
{
    const orr_row_server *server = ctx;
    const orr_row_snapshot *s = atomic_load(&server->snapshot);
    const orr_slot_pool *pool = &s->pools[s->tables[shard].pool];
    orr_shared_entry *at = &s->tables[shard].entries[row];
    uint64_t now = atomic_load(at), next;
    (void)entry;
    do {
        if ((now & ORR_ROW_RESIDENT) == 0)
            next = orr_entry_at_home(home, orr_entry_frequency(now));
        else {
            /* Another version, so that nobody evicts the row to the home that it had. */
            const uint64_t version = UINT64_C(255) << ORR_SLOT_VERSION_SHIFT;
            atomic_store(&pool->home[orr_entry_slot(now)], home & ORR_ROW_HOME_MASK);
            next = (now & ~version) | ((now + (UINT64_C(1) << ORR_SLOT_VERSION_SHIFT)) & version);
        }
    } while (!atomic_compare_exchange_strong(at, &now, next));
}

/* Cleaning and writes are small, since readers wait behind them in the device. */
orr_row_file_options orr_served_file_options(orr_row_server *server)
{
    return (orr_row_file_options){.durable = true,
                                  .run_bytes = RUN_BYTES,
                                  .clean_jobs = 1,
                                  .home = orr_served_home,
                                  .set_home = orr_served_set_home,
                                  .ctx = server};
}

static orr_status fail_read_only(const orr_row_snapshot *s, orr_error *err)
{
    return orr_fail(err, ORR_INVALID, "%s is only read", s->path);
}

static void count_bytes(orr_row_server *server, const orr_row_snapshot *s, uint64_t before)
{
    const orr_row_file_stats stats = orr_row_file_stats_of(s->file);
    atomic_fetch_add(&server->bytes_written, stats.bytes_written + stats.log_bytes - before);
}

static uint64_t bytes_of(const orr_row_snapshot *s)
{
    const orr_row_file_stats stats = orr_row_file_stats_of(s->file);
    return stats.bytes_written + stats.log_bytes;
}

void orr_server_wait(orr_row_server *server, uint64_t stamp)
{
    const struct timespec pause = {.tv_nsec = 20 * 1000};
    while (orr_epochs_passed(&server->epochs) <= stamp)
        (void)nanosleep(&pause, NULL);
}

/* Places that nobody needs any more become free. */
static void settle(orr_row_server *server, orr_row_snapshot *s, bool wait)
{
    if (server->settle_step < 0)
        return;
    if (wait)
        orr_server_wait(server, server->settle_stamp);
    if (orr_epochs_passed(&server->epochs) <= server->settle_stamp)
        return;
    orr_row_file_lock(s->file);
    orr_row_file_settle(s->file, server->settle_step);
    orr_row_file_unlock(s->file);
    server->settle_step = -1;
}

static orr_status pump_file(orr_row_snapshot *s, uint32_t least, orr_error *err)
{
    orr_block_completion done[REAPED];
    uint32_t n = 0;
    ORR_TRY(orr_row_file_pump(s->file, NULL, 0, err));
    least = orr_row_file_in_flight(s->file) > 0 ? least : 0;
    ORR_TRY(s->device->reap(s->device, least, done, REAPED, &n, err));
    return n > 0 ? orr_row_file_pump(s->file, done, n, err) : ORR_OK;
}

/* In an epoch, since the file looks at slots that entries name. */
static orr_status pump(orr_row_server *server, orr_row_snapshot *s, uint32_t least, orr_error *err)
{
    orr_epoch_enter(&server->epochs, server->participant);
    const orr_status status = pump_file(s, least, err);
    orr_epoch_exit(&server->epochs, server->participant);
    return status;
}

static orr_status commit(orr_row_server *server, orr_row_snapshot *s, orr_error *err)
{
    const int64_t step = orr_row_file_step(s->file) + 1;
    settle(server, s, true);
    orr_epoch_enter(&server->epochs, server->participant);
    orr_row_file_lock(s->file);
    orr_status status = orr_row_file_begin_commit(s->file, step, err);
    orr_row_file_unlock(s->file);
    if (status == ORR_OK)
        status = orr_row_file_finish_commit(s->file, NULL, NULL, err);
    orr_epoch_exit(&server->epochs, server->participant);
    ORR_TRY(status);
    server->settle_step = step;
    server->settle_stamp = orr_epoch_stamp(&server->epochs);
    return ORR_OK;
}

/* Shows readers the new numbers of a row, which are in the file at `home`. In an epoch. */
static void show(orr_row_server *server, orr_row_snapshot *s, uint32_t table, int64_t row,
                 uint64_t home, const void *stored)
{
    const orr_served_table *t = &s->tables[table];
    orr_slot_pool *pool = &s->pools[t->pool];
    orr_slot_stock *stock = &server->stocks[t->pool];
    uint64_t entry = atomic_load(&t->entries[row]), next;
    uint32_t slot = 0;
    bool placed = false;
    do {
        const uint32_t frequency = orr_entry_frequency(entry);
        if ((entry & ORR_ROW_RESIDENT) != 0 && !placed &&
            orr_server_slot(s, server->stocks, &server->epochs, t->pool, MOST_FREQUENT,
                            orr_next_random(&server->random), &slot)) {
            placed = true;
            orr_served_decode(t, stored, orr_slot_at(pool, slot));
            orr_slot_own(pool, slot, table, row, home);
            entry = atomic_load(&t->entries[row]); /* it may have been the victim */
        }
        next = (entry & ORR_ROW_RESIDENT) != 0 && placed ? orr_entry_resident(slot, frequency)
                                                         : orr_entry_at_home(home, frequency);
    } while (!atomic_compare_exchange_strong(&t->entries[row], &entry, next));
    if ((entry & ORR_ROW_RESIDENT) != 0)
        orr_slot_retire(stock, orr_entry_slot(entry), &server->epochs);
    if (placed && (next & ORR_ROW_RESIDENT) == 0)
        orr_slot_retire(stock, slot, &server->epochs);
}

/* Appends and shows rows until the file is full: *ret_n of them. */
static orr_status update_some(orr_row_server *server, orr_row_snapshot *s, uint32_t table,
                              const int64_t *rows, int64_t n, const char *records, int64_t *ret_n,
                              orr_error *err)
{
    orr_status status = ORR_OK;
    int64_t i = 0;
    orr_epoch_enter(&server->epochs, server->participant);
    orr_row_file_lock(s->file);
    for (; i < n && status == ORR_OK; i++) {
        const char *record = records + i * s->tables[table].row_bytes;
        orr_row_entry home;
        status = orr_row_file_append(s->file, table, rows[i], record, NULL, false, &home, err);
        if (status != ORR_OK)
            break;
        show(server, s, table, rows[i], home, record);
    }
    orr_row_file_unlock(s->file);
    orr_epoch_exit(&server->epochs, server->participant);
    *ret_n = i;
    orr_pooled_updated(&s->pooled, table, rows, i);
    orr_count(&server->updates[table], (uint64_t)i);
    return status;
}

static bool is_cleaning(orr_row_snapshot *s)
{
    orr_row_file_lock(s->file);
    const bool cleaning = orr_row_file_cleaning(s->file);
    orr_row_file_unlock(s->file);
    return cleaning;
}

/* The file is full: what it holds for the last commits is given up, then rows are moved. Where that
 * waits for a commit, another one is made. */
static orr_status make_room(orr_row_server *server, orr_row_snapshot *s, int tries, orr_error *err)
{
    const bool idle = !is_cleaning(s) && orr_row_file_in_flight(s->file) == 0;
    if (tries > TRIES || (idle && tries >= COMMITS))
        return orr_fail(err, ORR_LIMIT, "%s has no place for more changed rows", s->path);
    if (tries > 0 && !idle)
        return pump(server, s, 1, err);
    ORR_TRY(commit(server, s, err));
    settle(server, s, true);
    return pump(server, s, 0, err);
}

/* What has been appended is written, and where space is short as much is cleaned as so many rows
 * need: a little at a time, rather than much when there is no place left. */
static orr_status keep_up(orr_row_server *server, orr_row_snapshot *s, orr_error *err)
{
    ORR_TRY(pump(server, s, 0, err));
    for (int i = 0; i < CLEANINGS && is_cleaning(s); i++)
        ORR_TRY(pump(server, s, 1, err));
    return ORR_OK;
}

orr_status orr_row_server_update(orr_row_server *server, uint32_t table, const int64_t *rows,
                                 int64_t n, const void *records, orr_error *err)
{
    orr_row_snapshot *s = atomic_load(&server->snapshot);
    if (s->read_only)
        return fail_read_only(s, err);
    if (table >= s->n_tables)
        return orr_fail(err, ORR_INVALID, "table %u of %u", table, s->n_tables);
    const orr_served_table *t = &s->tables[table];
    for (int64_t i = 0; i < n; i++)
        if ((uint64_t)rows[i] >= (uint64_t)t->rows)
            return orr_fail(err, ORR_INVALID, "table %s: row %lld of %lld", t->shard->table,
                            (long long)rows[i], (long long)t->rows);
    const uint64_t before = bytes_of(s);
    orr_status status = ORR_OK;
    int tries = 0;
    for (uint32_t p = 0; p < s->n_pools; p++)
        orr_slot_stock_recycle(&server->stocks[p], &server->epochs);
    settle(server, s, false);
    for (int64_t at = 0, some; at < n && status == ORR_OK; at += some) {
        const int64_t most = n - at < BLOCK ? n - at : BLOCK;
        status = update_some(server, s, table, rows + at, most,
                             (const char *)records + at * t->row_bytes, &some, err);
        tries = some > 0 ? 0 : tries;
        if (status == ORR_LIMIT)
            status = make_room(server, s, tries++, err);
        else if (status == ORR_OK)
            status = keep_up(server, s, err);
    }
    count_bytes(server, s, before);
    return status;
}

orr_status orr_row_server_sync(orr_row_server *server, orr_error *err)
{
    orr_row_snapshot *s = atomic_load(&server->snapshot);
    if (s->read_only)
        return fail_read_only(s, err);
    const uint64_t before = bytes_of(s);
    const orr_status status = commit(server, s, err);
    count_bytes(server, s, before);
    return status;
}

static orr_status check_same_tables(const orr_row_snapshot *old, const orr_row_snapshot *new,
                                    orr_error *err)
{
    if (old->n_tables != new->n_tables)
        return orr_fail(err, ORR_INVALID, "%s has %u tables, expected %u", new->path, new->n_tables,
                        old->n_tables);
    for (uint32_t i = 0; i < new->n_tables; i++) {
        const orr_served_table *a = &old->tables[i], *b = &new->tables[i];
        if (strcmp(a->shard->table, b->shard->table) != 0 || a->columns != b->columns)
            return orr_fail(err, ORR_INVALID, "%s: table %s of %u columns, expected %s of %u",
                            new->path, b->shard->table, b->columns, a->shard->table, a->columns);
    }
    return ORR_OK;
}

orr_status orr_row_server_prepare(orr_row_server *server, const char *path, orr_error *err)
{
    const orr_row_file_options file_options = orr_served_file_options(server);
    orr_row_snapshot *old = atomic_load(&server->snapshot), *new;
    orr_slot_stock *stocks;
    orr_server_forget_next(server);
    settle(server, old, true);
    ORR_TRY(orr_row_snapshot_open(path, NULL, &server->options, &file_options, &server->epochs,
                                  &new, err));
    new->number = old->number + 1;
    orr_status status = check_same_tables(old, new, err);
    if (status == ORR_OK)
        status = orr_stocks_open(new, &stocks, err);
    if (status != ORR_OK) {
        orr_row_snapshot_close(new);
        return status;
    }
    server->next = new;
    server->next_stocks = stocks;
    return ORR_OK;
}

void orr_row_server_show(orr_row_server *server)
{
    orr_row_snapshot *old = atomic_load(&server->snapshot);
    atomic_store(&server->snapshot, server->next);
    orr_server_wait(server, orr_epoch_stamp(&server->epochs));
    orr_stocks_close(server->stocks, old->n_pools);
    server->stocks = server->next_stocks;
    server->next = NULL;
    server->next_stocks = NULL;
    orr_row_snapshot_close(old);
    orr_count(&server->swaps, 1);
}

orr_status orr_row_server_swap(orr_row_server *server, const char *path, orr_error *err)
{
    ORR_TRY(orr_row_server_prepare(server, path, err));
    orr_row_server_show(server);
    return ORR_OK;
}
