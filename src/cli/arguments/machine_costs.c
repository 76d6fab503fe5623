/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/arguments/machine_file.h"

/* Rates of this machine for the planner of embedding tables. */

/* Where this machine was never measured: of a core of a server, assumed. Plans depend on how the
 * rates compare more than on what they are. */
static const double MEMORY_BYTES_PER_S = 1e10, EXCHANGE_BYTES_PER_S = 4e9, EXCHANGE_NS = 2e4;
/* Rows that were touched just before come from a cache of the core: so many times as fast as
 * memory, assumed. */
#define CACHE_FACTOR 3

/* Latency and rate of a collective among as many ranks as were measured nearest to `ranks`: the
 * smallest transfer, and what the largest takes beyond it. */
static void rate_of(const orr_measured *m, orr_collective kind, uint32_t ranks, double *ret_ns,
                    double *ret_bytes_per_s)
{
    const orr_measured_collective *small = NULL, *large = NULL;
    for (uint32_t i = 0; i < m->n_transfers; i++) {
        const orr_measured_collective *t = &m->transfers[i];
        const int far = small == NULL
                            ? 0
                            : abs((int)t->ranks - (int)ranks) - abs((int)small->ranks - (int)ranks);
        if (t->collective != kind || far > 0)
            continue;
        if (small == NULL || far < 0 || t->bytes < small->bytes)
            small = t;
        if (large == NULL || large->ranks != small->ranks || t->bytes > large->bytes)
            large = t;
    }
    if (small == NULL || large->ns <= small->ns)
        return;
    *ret_ns = (double)small->ns;
    *ret_bytes_per_s =
        1e9 * (double)(large->bytes - small->bytes) / (double)(large->ns - small->ns);
}

/* The measurement of a table in fp32 with as many threads as a rank has, or next to it: of the most
 * rows or of the fewest. NULL: none. */
static const orr_measured_table *table_of(const orr_measured *m, bool update, uint32_t threads,
                                          bool large)
{
    const orr_measured_table *best = NULL;
    for (uint32_t i = 0; i < m->n_tables; i++) {
        const orr_measured_table *t = &m->tables[i];
        if (t->update != update || t->format != ORR_ROW_FORMAT_FP32 || t->lookups <= 0 ||
            t->threads > threads)
            continue;
        if (best == NULL || t->threads > best->threads ||
            (t->threads == best->threads && (t->rows > best->rows) == large))
            best = t;
    }
    return best;
}

/* Expected distinct rows of uniformly distributed lookups. */
static double distinct_rows(const orr_measured_table *t)
{
    return -(double)t->rows * expm1(-(double)t->lookups / (double)t->rows);
}

/* The terms of the planner, solved for its rates: a table that caches hold says what they give, one
 * that they do not what memory gives beyond that, and its update what a row takes beside. */
static void take_table_rates(const orr_measured *m, uint32_t threads, orr_table_costs *ret)
{
    const orr_measured_table *small = table_of(m, false, threads, false),
                             *large = table_of(m, false, threads, true),
                             *update = table_of(m, true, threads, true);
    if (small == NULL || update == NULL || large->rows <= small->rows)
        return;
    const double row_bytes = (double)large->columns * sizeof(float), rows = distinct_rows(large),
                 cached_ns = (double)small->ns / (double)small->lookups * (double)large->lookups *
                             large->columns / small->columns;
    if (!((double)large->ns > cached_ns))
        return;
    const double memory_ns = (double)large->ns - cached_ns,
                 record = (row_bytes + (double)orr_row_optimizer_bytes(
                                           (orr_row_optimizer)update->optimizer, update->columns)) /
                          row_bytes;
    ret->cache_bytes_per_s = 1e9 * (double)large->lookups * row_bytes / cached_ns;
    ret->memory_bytes_per_s = fmin(ret->memory_bytes_per_s, 1e9 * rows * row_bytes / memory_ns);
    ret->row_ns =
        fmax(0, ((double)update->ns - cached_ns - 2 * record * memory_ns) / distinct_rows(update));
}

orr_status orr_machine_table_costs(orr_session *session, uint32_t ranks, orr_table_costs *ret)
{
    const char *path;
    orr_measured measured;
    ORR_TRY(orr_machine_file_path(session->settings->machine, false, session->arena, &path,
                                  &session->err));
    *ret = (orr_table_costs){.memory_bytes_per_s = MEMORY_BYTES_PER_S,
                             .exchange_ns = EXCHANGE_NS,
                             .exchange_bytes_per_s = EXCHANGE_BYTES_PER_S,
                             .gather_ns = EXCHANGE_NS,
                             .gather_bytes_per_s = EXCHANGE_BYTES_PER_S,
                             .cache_bytes_per_s = CACHE_FACTOR * MEMORY_BYTES_PER_S,
                             .source = "assumed: this machine was not measured"};
    if (session->settings->machine != NULL || access(path, F_OK) == 0) {
        ORR_TRY(orr_measured_load(path, session->arena, &measured, &session->err));
        ret->memory_bytes_per_s = measured.read_bytes_per_s / ranks;
        rate_of(&measured, ORR_COLL_ALL_TO_ALL, ranks, &ret->exchange_ns,
                &ret->exchange_bytes_per_s);
        rate_of(&measured, ORR_COLL_ALL_GATHER, ranks, &ret->gather_ns, &ret->gather_bytes_per_s);
        ret->source = path;
        ret->cache_bytes_per_s = CACHE_FACTOR * ret->memory_bytes_per_s;
        take_table_rates(&measured, measured.cores > ranks ? measured.cores / ranks : 1, ret);
    } else {
        orr_session_remark(session, "this machine was not measured (orrery bench): its rates "
                                    "are assumed");
    }
    return ORR_OK;
}
