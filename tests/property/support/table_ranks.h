/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TABLE_RANKS_H
#define TESTS_TABLE_RANKS_H

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine/tables/tables_state.h"
#include "table_cases.h"

/* Tables sharded over ranks, which are threads over shared memory: some steps of training, the bags
 * of all samples, and the tables put together from their shards in the end. */
enum { RANKS_MOST = 8 };
static const int64_t table_patient_ns = INT64_C(240) * 1000 * 1000 * 1000;

/* A whole table, as rows are stored; state of numbers and of rows in fp32. */
typedef struct whole_table {
    int64_t row_bytes;
    char *numbers;    /* shape (rows, row_bytes) */
    float *of_number; /* shape (rows, columns): where the optimizer has such a state */
    float *of_row;    /* shape (rows) */
} whole_table;

typedef struct table_run {
    const table_case *c;
    const orr_embedding_plan *plan;
    int threads;
    uint32_t ahead;     /* steps whose ids are exchanged before the update of this one */
    bool ids_in_thread; /* ids are exchanged by a thread of their own */
    bool served;        /* not trained */
    /* Where rows live that the plan does not place in memory: files of each rank in a folder. NULL:
     * all in memory. */
    const char *folder;
    orr_tables_tier tiers[ORR_TIERS];
    uint32_t fetch_ahead; /* steps whose rows are asked for before this one is summed */
    bool visits;          /* rows are read and written as they are between steps */
    /* That a rank fails with is no failure of the test; it is told instead, and why. */
    orr_status refused;
    char why[512];
    orr_store_stats stats[ORR_TIERS]; /* of all ranks, in the end */
    uint64_t steps;
    float *bags;         /* shape (steps, batch, columns) */
    whole_table *tables; /* shape (tables of each group) */
} table_run;

/* One rank: where its two threads stand, and what went wrong. */
typedef struct table_rank {
    table_run *run;
    orr_transport *transport;
    orr_tables *tables;
    orr_arena *arena;
    int64_t samples;
    orr_tables_batch batches[STEPS_MOST];
    pthread_mutex_t lock;
    pthread_cond_t moved;
    uint64_t ids_done, updates_done; /* steps */
    bool failed;
    orr_error err;
    char wrong[200];
} table_rank;

static inline void rank_moves(table_rank *r, uint64_t *counter, bool failed)
{
    pthread_mutex_lock(&r->lock);
    *counter += !failed;
    r->failed |= failed;
    pthread_cond_broadcast(&r->moved);
    pthread_mutex_unlock(&r->lock);
}

/* Waits until the counter is at least `least`; false: the rank failed. */
static inline bool rank_waits(table_rank *r, const uint64_t *counter, uint64_t least)
{
    pthread_mutex_lock(&r->lock);
    while (*counter < least && !r->failed)
        pthread_cond_wait(&r->moved, &r->lock);
    const bool good = !r->failed;
    pthread_mutex_unlock(&r->lock);
    return good;
}

static inline bool exchange_ids_of(table_rank *r, uint64_t step, orr_error *err)
{
    const orr_status status =
        orr_tables_exchange_ids(r->tables, step % ORR_TABLES_AHEAD, &r->batches[step], err);
    rank_moves(r, &r->ids_done, status != ORR_OK);
    return status == ORR_OK;
}

static inline void *run_ids(void *ctx)
{
    table_rank *r = ctx;
    orr_error err = {0};
    for (uint64_t step = 0; step < r->run->steps; step++) {
        const uint64_t least = step > r->run->ahead ? step - r->run->ahead : 0;
        if (!rank_waits(r, &r->updates_done, least) || !exchange_ids_of(r, step, &err))
            break;
    }
    if (err.status != ORR_OK)
        r->transport->abort(r->transport);
    return NULL;
}

static inline int64_t distinct_rows(const table_case *c, const orr_embedding_shard *shard,
                                    const orr_tables_batch *batch, int64_t samples, int64_t skip,
                                    bool *seen, int64_t *ret_lookups)
{
    const int64_t rows = c->tables[shard->table].rows,
                  begin = orr_embedding_range_begin(rows, shard->range_begin),
                  end = orr_embedding_range_begin(rows, shard->range_end);
    const int64_t *id = batch->ids + skip;
    int64_t distinct = 0;
    *ret_lookups = 0;
    for (int64_t s = 0; s < samples; s++)
        for (int32_t k = batch->lengths[shard->table * samples + s]; k > 0; k--, id++)
            if (*id >= begin && *id < end) {
                ++*ret_lookups;
                distinct += !seen[*id];
                seen[*id] = true;
            }
    return distinct;
}

static inline int64_t ids_before(const table_case *c, const orr_tables_batch *batch, uint32_t table,
                                 int64_t samples)
{
    int64_t n = 0;
    (void)c;
    for (int64_t i = 0; i < table * samples; i++)
        n += batch->lengths[i];
    return n;
}

/* Holds the bytes that the step sent against what is predicted from its lookups. */
static inline bool hold_traffic(table_rank *r, const orr_tables_source *source, uint64_t step)
{
    const table_case *c = r->run->c;
    const orr_embedding_plan *plan = r->run->plan;
    const orr_arena_mark mark = orr_arena_get_mark(r->arena);
    int64_t *lookups = orr_arena_array(r->arena, int64_t, plan->n_shards),
            *rows = orr_arena_array(r->arena, int64_t, plan->n_shards), unused;
    const int64_t group = r->transport->rank / plan->ranks * plan->ranks,
                  all = r->samples * plan->ranks;
    const orr_tables_batch whole = lookups_of_samples(c, step, group * r->samples, all, r->arena);
    for (uint32_t i = 0; i < plan->n_shards; i++) {
        const orr_embedding_shard *shard = &plan->shards[i];
        bool *seen = orr_arena_array(r->arena, bool, (size_t)c->tables[shard->table].rows),
             *none = orr_arena_array(r->arena, bool, (size_t)c->tables[shard->table].rows);
        rows[i] = distinct_rows(c, shard, &whole, all, ids_before(c, &whole, shard->table, all),
                                seen, &unused);
        (void)distinct_rows(c, shard, &r->batches[step], r->samples,
                            ids_before(c, &r->batches[step], shard->table, r->samples), none,
                            &lookups[i]);
    }
    orr_tables_traffic want;
    const orr_tables_traffic got = orr_tables_traffic_of(r->tables);
    const bool good = orr_tables_predict_traffic(source, lookups, rows, &want, &r->err) == ORR_OK &&
                      memcmp(&want, &got, sizeof want) == 0;
    if (!good)
        snprintf(r->wrong, sizeof r->wrong,
                 "sent %lld, %lld, %lld, %lld bytes, predicted %lld, %lld, %lld, %lld",
                 (long long)got.ids, (long long)got.bags, (long long)got.gradients,
                 (long long)got.squares, (long long)want.ids, (long long)want.bags,
                 (long long)want.gradients, (long long)want.squares);
    orr_arena_rewind(r->arena, mark);
    return good;
}

static inline orr_status train_step(table_rank *r, uint64_t step, float *bag, float *gradient,
                                    orr_error *err)
{
    const table_case *c = r->run->c;
    const uint32_t slot = step % ORR_TABLES_AHEAD;
    const int64_t first = r->transport->rank * r->samples;
    const orr_update by = update_of_step(step);
    for (int64_t i = 0; i < r->samples * c->columns; i++)
        bag[i] = NAN;
    ORR_TRY(orr_tables_sum(r->tables, slot, bag, err));
    ORR_TRY(orr_tables_exchange_bags(r->tables, slot, bag, err));
    if (r->run->served) {
        orr_tables_skip(r->tables, slot);
        return ORR_OK;
    }
    for (int64_t s = 0; s < r->samples; s++)
        gradient_of_sample(c, step, first + s, bag + s * c->columns, gradient + s * c->columns);
    ORR_TRY(orr_tables_exchange_gradients(r->tables, slot, gradient, err));
    return orr_tables_update(r->tables, slot, &by, err);
}

/* Rows are asked for of this step and of others whose ids are there. */
static inline bool fetch_ahead(table_rank *r, uint64_t step, uint64_t *fetched)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t known = r->ids_done;
    pthread_mutex_unlock(&r->lock);
    for (; *fetched < known && *fetched <= step + r->run->fetch_ahead; ++*fetched)
        if (orr_tables_fetch(r->tables, (uint32_t)(*fetched % ORR_TABLES_AHEAD), &r->err) != ORR_OK)
            return false;
    return true;
}

/* Reads some rows of each shard and writes them back. */
static inline bool visit_rows(table_rank *r)
{
    for (uint32_t i = 0; r->run->visits && i < orr_tables_n_shards(r->tables); i++) {
        orr_row_store *store;
        (void)orr_tables_shard(r->tables, i, &store);
        const int64_t n = store->rows < 9 ? store->rows : 9, first = store->rows - n;
        char records[9 * 1000];
        if (orr_row_store_read(store, first, n, records, &r->err) != ORR_OK ||
            orr_row_store_write(store, first, n, records, &r->err) != ORR_OK)
            return false;
    }
    return true;
}

/* The steps of a rank; ids ahead, by this thread or by another. */
static inline void train_rank(table_rank *r, const orr_tables_source *source)
{
    const table_run *run = r->run;
    const table_case *c = run->c;
    const int64_t first = r->transport->rank * r->samples;
    float *gradient = orr_arena_array(r->arena, float, (size_t)(r->samples * c->columns));
    uint64_t asked = 0, fetched = 0;
    for (uint64_t step = 0; step < run->steps; step++) {
        float *bag = run->bags + ((int64_t)step * c->batch + first) * c->columns;
        if (run->ids_in_thread && !rank_waits(r, &r->ids_done, step + 1))
            return;
        for (; !run->ids_in_thread && asked < run->steps && asked <= step + run->ahead; asked++)
            if (!exchange_ids_of(r, asked, &r->err))
                return;
        if (!fetch_ahead(r, step, &fetched) ||
            train_step(r, step, bag, gradient, &r->err) != ORR_OK ||
            !hold_traffic(r, source, step) || !visit_rows(r)) {
            rank_moves(r, &r->updates_done, true);
            return;
        }
        rank_moves(r, &r->updates_done, false);
    }
}

static inline void *run_table_rank(void *ctx)
{
    table_rank *r = ctx;
    const table_run *run = r->run;
    orr_workers *workers = NULL;
    pthread_t ids;
    if (orr_workers_new(run->threads, &workers, &r->err) != ORR_OK)
        return NULL;
    orr_tables_tier tiers[ORR_TIERS];
    char paths[ORR_TIERS][300];
    memcpy(tiers, run->tiers, sizeof tiers);
    for (int i = 0; i < ORR_TIERS; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/rank-%u.%d", run->folder != NULL ? run->folder : "",
                 r->transport->rank, i);
        tiers[i].path = paths[i];
    }
    const orr_tables_source source = {.plan = run->plan,
                                      .transport = r->transport,
                                      .channels = {0, 1},
                                      .workers = workers,
                                      .samples = r->samples,
                                      .seed = run->c->seed,
                                      .trained = !run->served,
                                      .tiers = run->folder != NULL ? tiers : NULL};
    for (uint64_t step = 0; step < run->steps; step++)
        r->batches[step] =
            lookups_of_samples(run->c, step, r->transport->rank * r->samples, r->samples, r->arena);
    if (orr_tables_open(&source, &r->tables, &r->err) == ORR_OK) {
        const bool threaded = run->ids_in_thread && pthread_create(&ids, NULL, run_ids, r) == 0;
        train_rank(r, &source);
        if (r->err.status != ORR_OK || r->wrong[0] != '\0')
            r->transport->abort(r->transport);
        if (threaded)
            pthread_join(ids, NULL);
    } else {
        r->transport->abort(r->transport);
    }
    orr_workers_free(workers);
    return NULL;
}

/* Copies a shard into its table; what another shard has too must be the same there. */
static inline void put_state(float *at, float value, const table_case *c)
{
    if (!isnan(*at) && memcmp(at, &value, sizeof value) != 0)
        seed_fail(c->seed, "shards of a row have states %a and %a", (double)*at, (double)value);
    *at = value;
}

static inline void put_shard(const table_case *c, const orr_embedding_shard *shard,
                             orr_row_store *store, whole_table *whole)
{
    const orr_embedding *table = &c->tables[shard->table];
    const int64_t columns = store->columns, each = whole->row_bytes / table->columns,
                  first = orr_embedding_range_begin(table->rows, shard->range_begin);
    const bool by_number = table->optimizer == ORR_ROW_OPTIMIZER_ADAGRAD ||
                           table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM,
               by_row = table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                        table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    char *records = calloc((size_t)store->rows, (size_t)orr_row_store_bytes(store));
    orr_error err = {0};
    if (orr_row_store_read(store, 0, store->rows, records, &err) != ORR_OK)
        seed_fail(c->seed, "%s", err.text);
    for (int64_t row = 0; row < store->rows; row++) {
        const char *record = records + row * orr_row_store_bytes(store);
        float state[101];
        memcpy(state, record + store->record_bytes, (size_t)store->state_bytes);
        memcpy(whole->numbers + (first + row) * whole->row_bytes + shard->column_begin * each,
               record, (size_t)(columns * each));
        for (int64_t i = 0; by_number && i < columns; i++)
            put_state(&whole->of_number[(first + row) * table->columns + shard->column_begin + i],
                      state[i], c);
        if (by_row)
            put_state(&whole->of_row[first + row], state[by_number ? columns : 0], c);
    }
    free(records);
}

static inline float *not_yet(orr_arena *arena, int64_t n)
{
    float *ret = orr_arena_array(arena, float, (size_t)n);
    for (int64_t i = 0; i < n; i++)
        ret[i] = NAN;
    return ret;
}

static inline void new_wholes(table_run *run, uint32_t groups, orr_arena *arena)
{
    const table_case *c = run->c;
    run->bags = not_yet(arena, (int64_t)run->steps * c->batch * c->columns);
    run->tables = orr_arena_array(arena, whole_table, groups * c->n_tables);
    for (uint32_t i = 0; i < groups * c->n_tables; i++) {
        const orr_embedding *table = &c->tables[i % c->n_tables];
        whole_table *w = &run->tables[i];
        w->row_bytes = orr_row_format_bytes(table->format, table->columns);
        w->numbers = orr_arena_array(arena, char, (size_t)(table->rows * w->row_bytes));
        memset(w->numbers, 0xff, (size_t)(table->rows * w->row_bytes));
        w->of_number = not_yet(arena, table->rows * table->columns);
        w->of_row = not_yet(arena, table->rows);
    }
}

static inline void collect(table_run *run, table_rank *rank)
{
    const uint32_t group = rank->transport->rank / run->plan->ranks;
    for (int tier = 0; tier < ORR_TIERS; tier++)
        if (orr_tables_store(rank->tables, (orr_tier)tier) != NULL) {
            const orr_store_stats s =
                orr_store_stats_of(orr_tables_store(rank->tables, (orr_tier)tier));
            run->stats[tier].lookups += s.lookups;
            run->stats[tier].hits += s.hits;
            run->stats[tier].reads += s.reads;
            run->stats[tier].evictions += s.evictions;
        }
    for (uint32_t i = 0; i < orr_tables_n_shards(rank->tables); i++) {
        orr_row_store *store;
        const orr_embedding_shard *shard = orr_tables_shard(rank->tables, i, &store);
        put_shard(run->c, shard, store, &run->tables[group * run->c->n_tables + shard->table]);
    }
}

/* The first failure that is not another rank's. */
static inline void report_failures(const table_run *run, const table_rank *ranks, uint32_t n)
{
    for (int follows = 0; follows <= 1; follows++)
        for (uint32_t i = 0; i < n; i++)
            if (ranks[i].wrong[0] != '\0' ||
                (ranks[i].err.status != ORR_OK &&
                 (follows || strstr(ranks[i].err.text, "gave up") == NULL)))
                seed_fail(run->c->seed, "rank %u of %u: %s%s", i, n, ranks[i].wrong,
                          ranks[i].err.text);
}

/* Runs the ranks of all groups. */
static inline void run_tables(table_run *run, orr_arena *arena)
{
    const uint32_t groups = run->plan->groups, n = run->plan->ranks * groups;
    table_rank ranks[RANKS_MOST] = {0};
    pthread_t threads[RANKS_MOST];
    orr_transport_shm *shm = NULL;
    orr_error err = {0};
    assert_true(n <= RANKS_MOST && run->steps <= STEPS_MOST);
    new_wholes(run, groups, arena);
    assert_int_equal(orr_transport_shm_new(n, &shm, &err), ORR_OK);
    for (uint32_t i = 0; i < n; i++) {
        ranks[i] = (table_rank){.run = run,
                                .arena = orr_arena_new(0, 0),
                                .samples = run->c->batch / n,
                                .lock = PTHREAD_MUTEX_INITIALIZER,
                                .moved = PTHREAD_COND_INITIALIZER};
        assert_int_equal(
            orr_transport_shm_attach(shm, i, table_patient_ns, &ranks[i].transport, &err), ORR_OK);
    }
    for (uint32_t i = 0; i < n; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_table_rank, &ranks[i]), 0);
    for (uint32_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    bool refused = false;
    for (uint32_t i = 0; i < n; i++)
        if (run->refused != ORR_OK && ranks[i].err.status == run->refused) {
            refused = true;
            snprintf(run->why, sizeof run->why, "%s", ranks[i].err.text);
        }
    if (!refused) {
        run->refused = ORR_OK;
        report_failures(run, ranks, n);
    }
    for (uint32_t i = 0; i < n && !run->served && !refused; i++)
        collect(run, &ranks[i]);
    for (uint32_t i = 0; i < n; i++) {
        orr_tables_close(ranks[i].tables);
        ranks[i].transport->close(ranks[i].transport);
        orr_arena_free(ranks[i].arena);
    }
    orr_transport_shm_free(shm);
}

#endif /* TESTS_TABLE_RANKS_H */
