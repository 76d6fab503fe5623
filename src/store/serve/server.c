/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/server.h"

#include <string.h>

#include "base/alloc.h"

enum { DEPTH = 128, READ_BYTES = 32 << 10, STOCK_MAX = 16384, STOCK_SHARE = 16 };

orr_status orr_stocks_open(const orr_row_snapshot *snapshot, orr_slot_stock **ret, orr_error *err)
{
    orr_slot_stock *stocks = orr_calloc(snapshot->n_pools, sizeof *stocks);
    if (stocks == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < snapshot->n_pools; i++) {
        uint32_t room = snapshot->pools[i].n / STOCK_SHARE;
        room = room < 2 ? 2 : room > STOCK_MAX ? STOCK_MAX : room;
        const orr_status status = orr_slot_stock_init(&stocks[i], room, err);
        if (status != ORR_OK) {
            orr_stocks_close(stocks, snapshot->n_pools);
            return status;
        }
    }
    *ret = stocks;
    return ORR_OK;
}

void orr_stocks_close(orr_slot_stock *stocks, uint32_t n)
{
    for (uint32_t i = 0; stocks != NULL && i < n; i++)
        orr_slot_stock_done(&stocks[i]);
    orr_free(stocks);
}

static orr_status open_server(orr_row_server *s, const char *path, const orr_row_file_facts *facts,
                              orr_error *err)
{
    const orr_row_file_options file_options = orr_served_file_options(s);
    orr_row_snapshot *snapshot;
    ORR_TRY(
        orr_row_snapshot_open(path, facts, &s->options, &file_options, &s->epochs, &snapshot, err));
    snapshot->number = 1;
    s->n_tables = snapshot->n_tables;
    atomic_store(&s->snapshot, snapshot);
    s->table_caps = orr_calloc(s->n_tables, sizeof *s->table_caps);
    s->left = orr_calloc(s->n_tables + 1, sizeof *s->left);
    s->updates = orr_calloc(s->n_tables, sizeof *s->updates);
    if (s->table_caps == NULL || s->left == NULL || s->updates == NULL)
        return orr_fail_memory(err);
    orr_rate_cap_init(&s->device_cap, s->options.device_iops);
    for (uint32_t i = 0; i < s->n_tables; i++)
        orr_rate_cap_init(&s->table_caps[i], s->options.table_iops);
    return orr_stocks_open(snapshot, &s->stocks, err);
}

orr_status orr_row_server_open(const char *path, const orr_row_file_facts *facts,
                               const orr_row_server_options *options, orr_row_server **ret,
                               orr_error *err)
{
    orr_row_server *s = orr_malloc_aligned(sizeof *s);
    if (s == NULL)
        return orr_fail_memory(err);
    memset((void *)s, 0, sizeof *s);
    s->options = *options;
    s->clock = options->clock != NULL ? options->clock : &orr_clock_monotonic;
    s->settle_step = -1;
    s->random = 1;
    orr_epochs_init(&s->epochs);
    pthread_mutex_init(&s->readers_lock, NULL);
    s->participant = orr_epochs_join(&s->epochs);
    const orr_status status = open_server(s, path, facts, err);
    if (status != ORR_OK) {
        orr_row_server_close(s);
        return status;
    }
    *ret = s;
    return ORR_OK;
}

void orr_server_forget_next(orr_row_server *server)
{
    if (server->next == NULL)
        return;
    orr_stocks_close(server->next_stocks, server->next->n_pools);
    orr_row_snapshot_close(server->next);
    server->next = NULL;
    server->next_stocks = NULL;
}

void orr_row_server_close(orr_row_server *server)
{
    if (server == NULL)
        return;
    orr_row_snapshot *snapshot = atomic_load(&server->snapshot);
    orr_recording *recording = atomic_load(&server->recording);
    if (recording != NULL)
        orr_recording_abandon(recording);
    if (snapshot != NULL)
        orr_stocks_close(server->stocks, snapshot->n_pools);
    orr_row_snapshot_close(snapshot);
    orr_server_forget_next(server);
    pthread_mutex_destroy(&server->readers_lock);
    orr_free(server->table_caps);
    orr_free(server->left);
    orr_free((void *)server->updates);
    orr_free(server);
}

const orr_row_file_facts *orr_row_server_facts(const orr_row_server *server)
{
    return atomic_load(&server->snapshot)->facts;
}

/* --- readers --- */

orr_status orr_row_reader_open(orr_row_server *server, orr_row_reader **ret, orr_error *err)
{
    orr_row_reader *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    r->server = server;
    r->pooled.segment = -1;
    r->counts = orr_calloc(server->n_tables, sizeof *r->counts);
    r->bags = orr_malloc(4096 * sizeof *r->bags);
    r->participant = -1;
    if (r->counts == NULL || r->bags == NULL) {
        orr_row_reader_close(r);
        return orr_fail_memory(err);
    }
    r->participant = orr_epochs_join(&server->epochs);
    if (r->participant < 0) {
        orr_row_reader_close(r);
        return orr_fail(err, ORR_LIMIT, "more than %d readers", ORR_EPOCH_PARTICIPANTS - 1);
    }
    r->random = (uint64_t)r->participant + 1;
    pthread_mutex_lock(&server->readers_lock);
    r->next = server->readers;
    server->readers = r;
    pthread_mutex_unlock(&server->readers_lock);
    *ret = r;
    return ORR_OK;
}

static uint64_t get(const _Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

static void add_counts(orr_row_server_stats *to, const orr_row_reader *r, uint32_t table)
{
    const orr_reader_counts *c = &r->counts[table];
    to->lookups += get(&c->lookups);
    to->hits += get(&c->hits);
    to->pooled_lookups += get(&c->pooled_lookups);
    to->pooled_hits += get(&c->pooled_hits);
    to->pooled_rows_saved += get(&c->pooled_rows_saved);
    to->reads += get(&c->reads);
    to->read_bytes += get(&c->read_bytes);
    to->throttled += get(&c->throttled);
}

static void add_reader(orr_row_server_stats *to, const orr_row_reader *r)
{
    to->in_flight += get(&r->in_flight);
    for (int k = 0; k < 64; k++)
        to->read_ns[k] += get(&r->read_ns[k]);
}

/* What the device, buffers and stocks of a snapshot hold. */
static void leave_snapshot(orr_row_reader *r)
{
    if (r->device != NULL)
        r->device->close(r->device);
    orr_stocks_close(r->stocks, r->n_pools);
    orr_free(r->buffer_memory);
    orr_free(r->free_buffers);
    orr_free(r->reads);
    orr_free(r->decoded);
    r->device = NULL;
    r->stocks = NULL;
    r->n_pools = 0;
    r->buffer_memory = r->decoded = NULL;
    r->free_buffers = NULL;
    r->reads = NULL;
    r->snapshot = 0;
    r->pooled.segment = -1; /* it went with its snapshot */
}

/* Slots and a segment that the reader holds go to nobody: the snapshot has so many fewer. */
static void leave_server(orr_row_reader *r)
{
    orr_row_server *server = r->server;
    orr_epoch_enter(&server->epochs, r->participant);
    orr_recording *recording = atomic_load(&server->recording);
    if (recording != NULL && r->recorder.block != NULL)
        orr_recorder_flush(&r->recorder, recording);
    orr_row_snapshot *snapshot = atomic_load(&server->snapshot);
    if (snapshot->number == r->snapshot)
        orr_pooled_leave(&snapshot->pooled, &r->pooled);
    orr_epoch_exit(&server->epochs, r->participant);
    pthread_mutex_lock(&server->readers_lock);
    for (uint32_t i = 0; i < server->n_tables; i++) {
        add_counts(&server->left[i], r, i);
        add_counts(&server->left[server->n_tables], r, i);
    }
    add_reader(&server->left[server->n_tables], r);
    orr_row_reader **at = &server->readers;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    pthread_mutex_unlock(&server->readers_lock);
    orr_epochs_leave(&server->epochs, r->participant);
}

void orr_row_reader_close(orr_row_reader *reader)
{
    if (reader == NULL)
        return;
    if (reader->participant >= 0)
        leave_server(reader);
    leave_snapshot(reader);
    orr_recorder_done(&reader->recorder);
    orr_free(reader->rows);
    orr_free(reader->keys);
    orr_free(reader->misses);
    orr_free(reader->bags);
    orr_free(reader->unplaced);
    orr_free(reader->counts);
    orr_free(reader);
}

static orr_status make_buffers(orr_row_reader *r, const orr_row_snapshot *s, orr_error *err)
{
    uint32_t longest = 0, stored = 1;
    for (uint32_t i = 0; i < s->n_tables; i++)
        stored = s->tables[i].row_bytes > stored ? s->tables[i].row_bytes : stored;
    /* A row lies in at most one sector more than its bytes with hashes need. */
    longest = (stored / (s->sector / 2) + 2) * s->sector;
    r->buffer_bytes = longest > READ_BYTES ? longest : READ_BYTES;
    r->depth = r->server->options.depth != 0 ? r->server->options.depth : DEPTH;
    r->depth = r->depth < r->device->depth ? r->depth : r->device->depth;
    const size_t bytes = (size_t)r->depth * r->buffer_bytes, to = r->device->alignment;
    r->buffer_memory = orr_malloc_aligned(bytes + to);
    r->free_buffers = orr_calloc(r->depth, sizeof *r->free_buffers);
    r->reads = orr_calloc(r->depth, sizeof *r->reads);
    r->decoded = orr_malloc(stored);
    if (r->buffer_memory == NULL || r->free_buffers == NULL || r->reads == NULL ||
        r->decoded == NULL)
        return orr_fail_memory(err);
    r->buffers = (char *)(((uintptr_t)r->buffer_memory + to - 1) / to * to);
    if (r->device->use_memory != NULL)
        ORR_TRY(r->device->use_memory(r->device, r->buffers, bytes, err));
    return orr_stocks_open(s, &r->stocks, err);
}

orr_status orr_reader_follow(orr_row_reader *reader, const orr_row_snapshot *snapshot,
                             orr_error *err)
{
    if (reader->snapshot == snapshot->number)
        return ORR_OK;
    leave_snapshot(reader);
    const orr_block_open how = {.path = snapshot->path,
                                .read_only = true,
                                .sector = snapshot->sector,
                                .depth = reader->server->options.depth,
                                .plain = reader->server->options.plain};
    ORR_TRY(orr_block_device_open(&how, &reader->device, err));
    const orr_status status = make_buffers(reader, snapshot, err);
    if (status != ORR_OK) {
        leave_snapshot(reader);
        return status;
    }
    reader->n_pools = snapshot->n_pools;
    reader->snapshot = snapshot->number;
    return ORR_OK;
}

orr_row_server_stats orr_row_server_stats_of(const orr_row_server *server, uint32_t table)
{
    orr_row_server *s = (orr_row_server *)(uintptr_t)server; /* its lock */
    const bool all = table >= s->n_tables;
    pthread_mutex_lock(&s->readers_lock);
    orr_row_server_stats stats = s->left[all ? s->n_tables : table];
    for (const orr_row_reader *r = s->readers; r != NULL; r = r->next) {
        for (uint32_t i = all ? 0 : table; i < (all ? s->n_tables : table + 1); i++)
            add_counts(&stats, r, i);
        if (all)
            add_reader(&stats, r);
    }
    pthread_mutex_unlock(&s->readers_lock);
    stats.updates = 0;
    for (uint32_t i = all ? 0 : table; i < (all ? s->n_tables : table + 1); i++)
        stats.updates += get(&s->updates[i]);
    if (all) {
        stats.swaps = get(&s->swaps);
        stats.bytes_written = get(&s->bytes_written);
    }
    return stats;
}
