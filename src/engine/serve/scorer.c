/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/scorer.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/serve/dense.h"
#include "engine/serve/mapped_tables.h"
#include "engine/serve/metrics.h"
#include "engine/serve/snapshot.h"
#include "engine/serve/wear.h"
#include "kernel/format/row.h"

/* One version of the weights. */
typedef struct weights {
    orr_dense *dense;
    orr_mapped_tables *tables; /* with a snapshot their descriptions alone */
    orr_serve_snapshot rows;   /* server NULL: tables are mapped */
} weights;

struct orr_scorer {
    orr_model model;
    int64_t block;
    const char *store; /* or NULL */
    orr_row_server_options rows;
    weights now;
    pthread_mutex_t writing; /* held by who updates or exchanges: before `lock` */
    pthread_mutex_t lock;    /* of the list of threads */
    orr_score_thread *threads;
    uint64_t swaps;
    uint64_t written; /* bytes that were packed */
    double endurance_bytes_per_day;
    orr_wear wear;
};

/* The lock is held by the thread while it answers, and by who exchanges the weights: threads do not
 * wait for each other. */
struct orr_score_thread {
    orr_scorer *scorer;
    orr_score_thread *next;
    pthread_mutex_t lock;
    uint64_t version; /* of the weights that the runner is of: swaps + 1; 0: none */
    orr_dense_runner runner;
    orr_row_reader *reader; /* of the snapshot's server; NULL: none yet */
    orr_lookup_space space;
    orr_row_bags *bags;        /* shape (tables) */
    _Atomic uint64_t *lookups; /* shape (tables) */
};

static void close_weights(weights *w)
{
    orr_dense_close(w->dense);
    orr_row_server_close(w->rows.server);
    orr_mapped_tables_close(w->tables);
    *w = (weights){0};
}

/* A snapshot of the same rows as now is kept, with what was updated in it. */
static orr_status open_rows(const orr_scorer *s, weights *w, orr_error *err)
{
    if (s->store == NULL)
        return ORR_OK;
    if (s->now.rows.server != NULL && /* which is the server of every version, then */
        orr_mapped_tables_fingerprint(s->now.tables) == orr_mapped_tables_fingerprint(w->tables)) {
        w->rows = s->now.rows;
        return ORR_OK;
    }
    return orr_serve_snapshot_open(s->store, w->tables, s->model.dlrm.n_tables, &s->rows,
                                   s->now.rows.server, &w->rows, err);
}

static orr_status open_weights(const orr_scorer *s, const char *folder, weights *ret,
                               orr_error *err)
{
    char path[4096];
    weights w = {0};
    const int n = snprintf(path, sizeof path, "%s/dense.safetensors", folder);
    if (n < 0 || (size_t)n >= sizeof path)
        return orr_fail(err, ORR_INVALID, "%s: too long a path", folder);
    orr_status status = orr_dense_open(&s->model, path, &w.dense, err);
    if (status == ORR_OK)
        status = orr_mapped_tables_open(folder, s->model.dlrm.tables, s->model.dlrm.n_tables,
                                        s->store == NULL, &w.tables, err);
    if (status == ORR_OK)
        status = open_rows(s, &w, err);
    if (status == ORR_OK)
        *ret = w;
    else
        close_weights(&w);
    return status;
}

orr_status orr_scorer_open(const orr_scorer_options *options, orr_scorer **ret, orr_error *err)
{
    if (options->block < 0 || options->block > ORR_SCORER_BLOCK_MAX)
        return orr_fail(err, ORR_INVALID, "a block of %lld samples: at most %d",
                        (long long)options->block, ORR_SCORER_BLOCK_MAX);
    orr_scorer *s = orr_calloc(1, sizeof *s);
    if (s == NULL)
        return orr_fail_memory(err);
    s->model = *options->model;
    s->block = options->block > 0 ? options->block : ORR_SCORER_BLOCK;
    s->store = options->store;
    s->rows = options->rows;
    (void)pthread_mutex_init(&s->lock, NULL);
    (void)pthread_mutex_init(&s->writing, NULL);
    s->endurance_bytes_per_day = options->endurance_bytes_per_day;
    const orr_status status = open_weights(s, options->weights, &s->now, err);
    s->written = s->now.rows.packed_bytes;
    s->wear = orr_wear_from(orr_clock_now_ns(&orr_clock_monotonic), s->written);
    if (status == ORR_OK)
        *ret = s;
    else
        orr_scorer_close(s);
    return status;
}

void orr_scorer_close(orr_scorer *s)
{
    if (s == NULL)
        return;
    close_weights(&s->now);
    (void)pthread_mutex_destroy(&s->lock);
    (void)pthread_mutex_destroy(&s->writing);
    orr_free(s);
}

const orr_dlrm *orr_scorer_model(const orr_scorer *scorer)
{
    return &scorer->model.dlrm;
}

orr_row_server *orr_scorer_rows(const orr_scorer *s)
{
    return s->now.rows.server;
}

const char *orr_scorer_snapshot_text(const orr_scorer *s)
{
    return s->now.rows.server == NULL ? NULL
           : s->now.rows.replaced     ? "packed in place of one of other weights"
           : s->now.rows.packed       ? "packed"
                                      : "opened";
}

/* All threads are between two answers. */
static void exchange(orr_scorer *s, const weights *fresh)
{
    (void)pthread_mutex_lock(&s->lock);
    for (orr_score_thread *t = s->threads; t != NULL; t = t->next)
        (void)pthread_mutex_lock(&t->lock);
    if (fresh->rows.next) {
        orr_row_server_show(fresh->rows.server);
        s->written += fresh->rows.packed_bytes;
    }
    s->now = *fresh;
    s->now.rows.next = false;
    s->swaps++;
    for (orr_score_thread *t = s->threads; t != NULL; t = t->next)
        (void)pthread_mutex_unlock(&t->lock);
    (void)pthread_mutex_unlock(&s->lock);
}

orr_status orr_scorer_swap(orr_scorer *s, const char *folder, orr_error *err)
{
    weights fresh;
    (void)pthread_mutex_lock(&s->writing);
    weights old = s->now;
    const orr_status status = open_weights(s, folder, &fresh, err);
    if (status == ORR_OK) {
        exchange(s, &fresh);
        old.rows.server = NULL; /* goes on */
        close_weights(&old);    /* runners of it are closed before they run again */
    }
    (void)pthread_mutex_unlock(&s->writing);
    return status;
}

static orr_status write_rows(orr_scorer *s, uint32_t table, const int64_t *rows, int64_t n,
                             const float *values, orr_error *err)
{
    const orr_embedding *about = &orr_mapped_tables_of(s->now.tables)[table];
    const orr_row_format format = (orr_row_format)about->format;
    const size_t bytes = (size_t)orr_row_format_bytes(format, about->columns);
    char *records = orr_malloc(bytes * (size_t)n + 1);
    if (records == NULL)
        return orr_fail_memory(err);
    for (int64_t i = 0; i < n; i++)
        orr_row_from_fp32(format, values + i * about->columns, about->columns,
                          records + (size_t)i * bytes);
    orr_status status = orr_row_server_update(s->now.rows.server, table, rows, n, records, err);
    if (status == ORR_OK)
        status = orr_row_server_sync(s->now.rows.server, err);
    orr_free(records);
    return status;
}

orr_status orr_scorer_update(orr_scorer *s, uint32_t table, const int64_t *rows, int64_t n,
                             const float *values, orr_error *err)
{
    if (s->store == NULL || s->rows.read_only)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "tables are mapped from files, which do not change: serve them from a "
                        "--store");
    (void)pthread_mutex_lock(&s->writing);
    const orr_status status = write_rows(s, table, rows, n, values, err);
    (void)pthread_mutex_unlock(&s->writing);
    return status;
}

static void write_mapped_metrics(orr_scorer *s, orr_output *out)
{
    const orr_dlrm *d = &s->model.dlrm;
    orr_metric_head(out, "orrery_serve_table_lookups_total", "counter",
                    "Lookups by table and by where its rows live.");
    for (uint32_t i = 0; i < d->n_tables; i++) {
        uint64_t n = 0;
        for (const orr_score_thread *t = s->threads; t != NULL; t = t->next)
            n += atomic_load_explicit(&t->lookups[i], memory_order_relaxed);
        orr_output_text(out, "orrery_serve_table_lookups_total{table=\"");
        orr_metric_label(out, d->tables[i].name);
        orr_output_printf(out, "\",tier=\"mapped\"} %llu\n", (unsigned long long)n);
    }
}

static void write_stored_metrics(orr_scorer *s, orr_output *out)
{
    const orr_row_server *rows = s->now.rows.server;
    const uint64_t bytes = s->written + orr_row_server_stats_of(rows, UINT32_MAX).bytes_written;
    const double per_day =
        orr_wear_bytes_per_day(&s->wear, orr_clock_now_ns(&orr_clock_monotonic), bytes);
    orr_serve_snapshot_metrics(rows, s->model.dlrm.tables, s->model.dlrm.n_tables, out);
    orr_serve_written_metrics(bytes, per_day, s->endurance_bytes_per_day, out);
}

void orr_scorer_metrics(orr_scorer *s, orr_output *out)
{
    (void)pthread_mutex_lock(&s->lock); /* nothing is exchanged meanwhile */
    if (s->now.rows.server == NULL)
        write_mapped_metrics(s, out);
    else
        write_stored_metrics(s, out);
    const uint64_t swaps = s->swaps;
    (void)pthread_mutex_unlock(&s->lock);
    orr_metric_head(out, "orrery_serve_swaps_total", "counter", "Exchanges of the weights.");
    orr_metric(out, "orrery_serve_swaps_total", NULL, (double)swaps);
}

orr_status orr_score_thread_open(orr_scorer *scorer, orr_score_thread **ret, orr_error *err)
{
    orr_score_thread *t = orr_calloc(1, sizeof *t);
    if (t == NULL)
        return orr_fail_memory(err);
    t->scorer = scorer;
    (void)pthread_mutex_init(&t->lock, NULL);
    t->bags = orr_calloc((size_t)scorer->model.dlrm.n_tables + 1, sizeof *t->bags);
    t->lookups = orr_calloc((size_t)scorer->model.dlrm.n_tables + 1, sizeof *t->lookups);
    if (t->bags == NULL || t->lookups == NULL) {
        orr_score_thread_close(t);
        return orr_fail_memory(err);
    }
    (void)pthread_mutex_lock(&scorer->lock);
    t->next = scorer->threads;
    scorer->threads = t;
    (void)pthread_mutex_unlock(&scorer->lock);
    *ret = t;
    return ORR_OK;
}

void orr_score_thread_close(orr_score_thread *t)
{
    if (t == NULL)
        return;
    (void)pthread_mutex_lock(&t->scorer->lock);
    for (orr_score_thread **at = &t->scorer->threads; *at != NULL; at = &(*at)->next)
        if (*at == t) {
            *at = t->next;
            break;
        }
    (void)pthread_mutex_unlock(&t->scorer->lock);
    orr_dense_runner_close(&t->runner);
    orr_row_reader_close(t->reader);
    orr_lookup_space_done(&t->space);
    (void)pthread_mutex_destroy(&t->lock);
    orr_free(t->bags);
    orr_free(t->lookups);
    orr_free(t);
}

static orr_status bags_of(orr_score_thread *t, const orr_row_bags *bags, uint32_t n, orr_error *err)
{
    const weights *w = &t->scorer->now;
    if (w->rows.server != NULL) {
        if (t->reader == NULL)
            ORR_TRY(orr_row_reader_open(w->rows.server, &t->reader, err));
        return orr_row_reader_bags(t->reader, bags, n, err);
    }
    ORR_TRY(orr_mapped_tables_bags(w->tables, bags, n, &t->space, err));
    for (uint32_t i = 0; i < n; i++) {
        uint64_t lookups = 0;
        for (int64_t s = 0; s < bags[i].samples; s++)
            lookups += (uint64_t)bags[i].lengths[s];
        atomic_fetch_add_explicit(&t->lookups[bags[i].table], lookups, memory_order_relaxed);
    }
    return ORR_OK;
}

orr_status orr_score_bags(orr_score_thread *t, const orr_row_bags *bags, uint32_t n, orr_error *err)
{
    (void)pthread_mutex_lock(&t->lock);
    const orr_status status = bags_of(t, bags, n, err);
    (void)pthread_mutex_unlock(&t->lock);
    return status;
}

float orr_score_probability(float logit)
{
    return (float)(1 / (1 + exp(-(double)logit)));
}

/* t->bags: those of the first samples of all tables. False: a length that cannot be. */
static bool begin(orr_score_thread *t, const orr_score_batch *batch)
{
    const orr_dlrm *d = &t->scorer->model.dlrm;
    const int64_t *ids = batch->ids;
    int64_t column = 0;
    for (uint32_t i = 0; i < d->n_tables; i++) {
        const int32_t *lengths = batch->lengths + i * batch->samples;
        t->bags[i] = (orr_row_bags){.table = i,
                                    .lengths = lengths,
                                    .ids = ids,
                                    .ret = t->runner.bags + column,
                                    .ret_stride = t->runner.columns};
        for (int64_t s = 0; s < batch->samples; s++) {
            if (lengths[s] < 0)
                return false;
            ids += lengths[s];
        }
        column += d->tables[i].columns;
    }
    return true;
}

/* On to the samples behind those that were scored. */
static void advance(orr_score_thread *t)
{
    for (uint32_t i = 0; i < t->scorer->model.dlrm.n_tables; i++) {
        orr_row_bags *b = &t->bags[i];
        for (int64_t s = 0; s < b->samples; s++)
            b->ids += b->lengths[s];
        b->lengths += b->samples;
    }
}

/* Errors count samples from `first` on. */
static void tell_first(int64_t first, orr_error *err)
{
    char where[64];
    if (first == 0 || err == NULL)
        return;
    snprintf(where, sizeof where, "samples from %lld on", (long long)first);
    orr_error_prefix(err, where);
}

/* Programs of the weights that are served now. */
static orr_status renew_runner(orr_score_thread *t, orr_error *err)
{
    const uint64_t version = t->scorer->swaps + 1;
    if (t->version == version)
        return ORR_OK;
    t->version = 0;
    orr_dense_runner_close(&t->runner);
    ORR_TRY(orr_dense_runner_open(t->scorer->now.dense, t->scorer->block, &t->runner, err));
    t->version = version;
    return ORR_OK;
}

static orr_status logits_of(orr_score_thread *t, const orr_score_batch *batch, float *ret,
                            orr_error *err)
{
    const orr_dlrm *d = &t->scorer->model.dlrm;
    ORR_TRY(renew_runner(t, err));
    if (!begin(t, batch))
        return orr_fail(err, ORR_INVALID, "a bag of less than no lookups");
    for (int64_t at = 0; at < batch->samples; at += t->bags[0].samples) {
        const int64_t left = batch->samples - at;
        const int64_t n = left < t->runner.most ? left : t->runner.most;
        if (at > 0)
            advance(t);
        for (uint32_t i = 0; i < d->n_tables; i++)
            t->bags[i].samples = n;
        const orr_status status = bags_of(t, t->bags, d->n_tables, err);
        if (status != ORR_OK) {
            tell_first(at, err);
            return status;
        }
        memcpy(t->runner.features, batch->dense + at * d->dense_features,
               (size_t)(n * d->dense_features) * sizeof(float));
        ORR_TRY(orr_dense_run(&t->runner, n, err));
        memcpy(ret + at, t->runner.logits, (size_t)n * sizeof *ret);
    }
    return ORR_OK;
}

orr_status orr_score_logits(orr_score_thread *t, const orr_score_batch *batch, float *ret,
                            orr_error *err)
{
    (void)pthread_mutex_lock(&t->lock);
    const orr_status status = logits_of(t, batch, ret, err);
    (void)pthread_mutex_unlock(&t->lock);
    return status;
}
