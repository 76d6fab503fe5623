/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "model/tables/load.h"

/* A plan by rule, for jobs that name none: a table that is more than half of a rank's fair share of
 * all bytes, or of all work, is cut into parts; parts are dealt to the emptiest ranks, largest
 * first (Graham's LPT). */

/* Transfers are as much slower than memory (assumed: NVLink or PCIe beside HBM or DDR). */
enum { TRANSFER_WEIGHT = 8, LEAST_COLUMNS = 32 };

typedef struct dealt_table {
    double bytes, work; /* shares of a rank's mean */
    uint32_t table, parts;
} dealt_table;

typedef struct dealer {
    const orr_embedding *tables;
    uint32_t ranks;
    double *load;   /* shape (ranks) */
    uint32_t *heap; /* shape (ranks): those that may get a part, a binary heap, emptiest first */
    uint32_t n;     /* in the heap */
} dealer;

/* Rows are read, and their gradients; sums travel, and theirs. */
static double work_of(const orr_embedding *t)
{
    return t->columns * (2 * t->pooling + 2 * TRANSFER_WEIGHT);
}

/* The next power of two, as far as rows and ranks suffice. */
static uint32_t parts_of(const orr_embedding *t, double shares, uint32_t ranks)
{
    uint32_t parts = 1;
    while (parts < 2 * shares && 2 * parts <= ranks && 2 * parts <= ORR_EMBEDDING_RANGES &&
           2 * parts <= t->rows)
        parts *= 2;
    return parts;
}

static int by_load_descending(const void *a, const void *b)
{
    const dealt_table *x = a, *y = b;
    const double p = fmax(x->bytes, x->work) / x->parts, q = fmax(y->bytes, y->work) / y->parts;
    return p != q ? (p < q) - (p > q) : (x->table > y->table) - (x->table < y->table);
}

static bool emptier(const dealer *d, uint32_t a, uint32_t b)
{
    return d->load[a] != d->load[b] ? d->load[a] < d->load[b] : a < b;
}

static void push(dealer *d, uint32_t rank)
{
    uint32_t at = d->n++;
    for (; at > 0 && emptier(d, rank, d->heap[(at - 1) / 2]); at = (at - 1) / 2)
        d->heap[at] = d->heap[(at - 1) / 2];
    d->heap[at] = rank;
}

static uint32_t pop(dealer *d)
{
    const uint32_t first = d->heap[0], last = d->heap[--d->n];
    uint32_t at = 0;
    for (uint32_t child; (child = 2 * at + 1) < d->n; at = child) {
        if (child + 1 < d->n && emptier(d, d->heap[child + 1], d->heap[child]))
            child++;
        if (!emptier(d, d->heap[child], last))
            break;
        d->heap[at] = d->heap[child];
    }
    d->heap[at] = last;
    return first;
}

/* The emptiest ranks get a part of the table each. */
static void deal_parts(dealer *d, const dealt_table *t, uint32_t *ret)
{
    for (uint32_t i = 0; i < t->parts; i++)
        ret[i] = pop(d);
    for (uint32_t i = 0; i < t->parts; i++) {
        d->load[ret[i]] += (t->bytes + t->work) / t->parts;
        push(d, ret[i]);
    }
}

/* Column parts send parts of sums, row parts whole ones; but narrow rows are read at the price of
 * wider ones. */
static bool by_column(const orr_embedding *t, uint32_t parts)
{
    return t->columns / parts >= LEAST_COLUMNS && t->columns / parts % ORR_EMBEDDING_BLOCK == 0;
}

static orr_status deal(dealer *d, const dealt_table *t, orr_arena *arena,
                       orr_embedding_placement *ret, orr_error *err)
{
    uint32_t *ranks = orr_arena_array(arena, uint32_t, t->parts);
    if (ranks == NULL)
        return orr_fail_memory(err);
    deal_parts(d, t, ranks);
    const bool columns = t->parts > 1 && by_column(&d->tables[t->table], t->parts);
    *ret = (orr_embedding_placement){.sharding = t->parts == 1 ? ORR_SHARDING_TABLE
                                                 : columns     ? ORR_SHARDING_COLUMN
                                                               : ORR_SHARDING_ROW,
                                     .columns = columns ? t->parts : 1,
                                     .ranks = ranks,
                                     .n_ranks = t->parts};
    return ORR_OK;
}

static void divide(const orr_embedding *tables, uint32_t n, uint32_t ranks, dealt_table *ret)
{
    double bytes = 0, work = 0;
    for (uint32_t t = 0; t < n; t++) {
        bytes += (double)orr_embedding_bytes(&tables[t]) / ranks;
        work += work_of(&tables[t]) / ranks;
    }
    for (uint32_t t = 0; t < n; t++) {
        ret[t] = (dealt_table){.bytes = (double)orr_embedding_bytes(&tables[t]) / bytes,
                               .work = work_of(&tables[t]) / work,
                               .table = t};
        ret[t].parts = parts_of(&tables[t], fmax(ret[t].bytes, ret[t].work), ranks);
    }
    qsort(ret, n, sizeof *ret, by_load_descending);
}

orr_status orr_embedding_plan_rule(const orr_embedding *tables, uint32_t n, uint32_t ranks,
                                   orr_arena *arena, orr_embedding_plan *ret, orr_error *err)
{
    orr_embedding_plan plan = {
        .ranks = ranks, .groups = 1, .synchronize = 1, .n_tables = n, .tables = tables};
    orr_embedding_placement *placements = orr_arena_array(arena, orr_embedding_placement, n);
    dealt_table *order = orr_arena_array(arena, dealt_table, n);
    dealer d = {.tables = tables, .ranks = ranks};
    d.load = orr_arena_array(arena, double, ranks);
    d.heap = orr_arena_array(arena, uint32_t, ranks);
    if (placements == NULL || order == NULL || d.load == NULL || d.heap == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < ranks; r++)
        push(&d, r);
    divide(tables, n, ranks, order);
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(deal(&d, &order[i], arena, &placements[order[i].table], err));
    plan.placements = placements;
    ORR_TRY(orr_embedding_plan_shard(&plan, arena, err));
    *ret = plan;
    return ORR_OK;
}
