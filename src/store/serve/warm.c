/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "store/serve/server.h"

/* Recording lookups, and warming the cache with a recording: it is counted in the frequencies of
 * entries, then rows are read in the order of frequencies until the slots are full. */
enum { BLOCK = 4096 };

typedef struct warming {
    orr_row_server *server;
    orr_row_snapshot *snapshot;
} warming;

orr_status orr_row_server_record(orr_row_server *server, const char *path, orr_error *err)
{
    orr_recording *next = NULL;
    if (path != NULL)
        ORR_TRY(orr_recording_open(path, server->n_tables, &next, err));
    orr_recording *recording = atomic_exchange(&server->recording, next);
    if (recording == NULL)
        return ORR_OK;
    orr_server_wait(server, orr_epoch_stamp(&server->epochs));
    /* Readers that are open write to the next one, if any, from now on; what they have kept of this
     * one is theirs to add to when there is a next one. */
    pthread_mutex_lock(&server->readers_lock);
    for (orr_row_reader *r = server->readers; r != NULL && next == NULL; r = r->next)
        if (r->recorder.block != NULL)
            orr_recorder_flush(&r->recorder, recording);
    pthread_mutex_unlock(&server->readers_lock);
    return orr_recording_finish(recording, err);
}

static void count_rows(void *ctx, uint32_t table, const int64_t *rows, int64_t n)
{
    const warming *w = ctx;
    for (int64_t i = 0; i < n; i++) {
        orr_shared_entry *entry = &w->snapshot->tables[table].entries[rows[i]];
        orr_entry_used(entry, atomic_load(entry), orr_next_random(&w->server->random));
    }
}

static bool is_full(const orr_row_snapshot *s, uint32_t table)
{
    const orr_slot_pool *pool = &s->pools[s->tables[table].pool];
    return atomic_load_explicit(&pool->fresh, memory_order_relaxed) >= pool->n;
}

/* Rows of a table with this frequency; those of one block are read at once. */
static orr_status load_rows(orr_row_reader *reader, uint32_t table, uint32_t frequency,
                            int64_t *rows, orr_error *err)
{
    const orr_row_snapshot *s = atomic_load(&reader->server->snapshot);
    const orr_served_table *t = &s->tables[table];
    int64_t n = 0;
    for (int64_t row = 0; row < t->rows && !is_full(s, table); row++) {
        const uint64_t entry = atomic_load(&t->entries[row]);
        if ((entry & ORR_ROW_RESIDENT) == 0 && orr_entry_frequency(entry) == frequency)
            rows[n++] = row;
        if (n == BLOCK || (row + 1 == t->rows && n > 0)) {
            ORR_TRY(orr_reader_load(reader, table, rows, n, err));
            n = 0;
        }
    }
    return ORR_OK;
}

static orr_status load_all(orr_row_server *server, orr_error *err)
{
    const orr_row_snapshot *s = atomic_load(&server->snapshot);
    orr_row_reader *reader;
    int64_t *rows = orr_malloc(BLOCK * sizeof *rows);
    if (rows == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_row_reader_open(server, &reader, err);
    if (status == ORR_OK) {
        for (uint32_t k = ORR_FREQUENCY_MAX; k > 0; k--)
            for (uint32_t i = 0; i < s->n_tables && status == ORR_OK; i++)
                status = load_rows(reader, i, k, rows, err);
        orr_row_reader_close(reader);
    }
    orr_free(rows);
    return status;
}

orr_status orr_row_server_warm(orr_row_server *server, const char *path, orr_error *err)
{
    warming w = {.server = server, .snapshot = atomic_load(&server->snapshot)};
    int64_t *rows = orr_malloc(w.snapshot->n_tables * sizeof *rows);
    bool cut;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < w.snapshot->n_tables; i++)
        rows[i] = w.snapshot->tables[i].rows;
    const orr_status status =
        orr_recording_read(path, w.snapshot->n_tables, rows, count_rows, &w, &cut, err);
    orr_free(rows);
    return status == ORR_OK ? load_all(server, err) : status;
}
