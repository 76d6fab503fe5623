/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/hit_rate.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Hit rates counted in a recorded list of lookups, for all sizes of a cache in one pass. What a
 * cache of x rows has and misses are sums over ranks of rows (static, LFU, look-ahead) or over
 * reuse distances (LRU): counts by rank or distance, added up from the end or the beginning. */

typedef struct trace {
    int64_t n, distinct;
    uint32_t *row; /* shape (n): rows by number of those that occur, from 0 */
    int64_t table_rows;
} trace;

typedef struct lookup {
    int64_t id, at;
} lookup;

static int by_id(const void *a, const void *b)
{
    const lookup *x = a, *y = b;
    return x->id != y->id ? (x->id > y->id) - (x->id < y->id) : (x->at > y->at) - (x->at < y->at);
}

/* Numbers the rows that occur. */
static orr_status number_rows(const int64_t *ids, trace *t, orr_error *err)
{
    lookup *sorted = orr_calloc((size_t)t->n, sizeof *sorted);
    t->row = orr_calloc((size_t)t->n, sizeof *t->row);
    if (sorted == NULL || t->row == NULL) {
        orr_free(sorted);
        return orr_fail_memory(err);
    }
    for (int64_t i = 0; i < t->n; i++)
        sorted[i] = (lookup){ids[i], i};
    qsort(sorted, (size_t)t->n, sizeof *sorted, by_id);
    for (int64_t i = 0; i < t->n; i++) {
        t->distinct += i == 0 || sorted[i].id != sorted[i - 1].id;
        t->row[sorted[i].at] = (uint32_t)(t->distinct - 1);
    }
    orr_free(sorted);
    return ORR_OK;
}

/* --- LRU ------------------------------------------------------------------------------------- */

/* A binary indexed tree over lookups: 1 where a lookup is the last one of its row so far. */
static void tree_add(int32_t *tree, int64_t n, int64_t at, int32_t by)
{
    for (int64_t i = at + 1; i <= n; i += i & -i)
        tree[i] += by;
}

static int64_t tree_sum(const int32_t *tree, int64_t end)
{
    int64_t sum = 0;
    for (int64_t i = end; i > 0; i -= i & -i)
        sum += tree[i];
    return sum;
}

/* hits[d]: lookups whose row was looked up before and d - 1 other rows since. */
static orr_status count_distances(const trace *t, int64_t *hits, orr_error *err)
{
    int32_t *tree = orr_calloc((size_t)t->n + 1, sizeof *tree);
    int64_t *last = orr_calloc((size_t)t->distinct, sizeof *last), held = 0;
    const orr_status status = tree != NULL && last != NULL ? ORR_OK : orr_fail_memory(err);
    for (int64_t i = 0; i < t->n && status == ORR_OK; i++) {
        int64_t *before = &last[t->row[i]]; /* counted from 1; 0: none */
        if (*before > 0) {
            hits[held - tree_sum(tree, *before) + 1]++;
            tree_add(tree, t->n, *before - 1, -1);
            held--;
        }
        tree_add(tree, t->n, i, 1);
        held++;
        *before = i + 1;
    }
    orr_free(tree);
    orr_free(last);
    return status;
}

/* --- by rank --------------------------------------------------------------------------------- */

typedef struct ranked {
    uint32_t row, count;
} ranked;

static int by_count(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count) - (x->count > y->count)
                                : (x->row > y->row) - (x->row < y->row);
}

static orr_status rank_rows(const trace *t, int64_t first_half, uint32_t *rank, orr_error *err)
{
    ranked *order = orr_calloc((size_t)t->distinct, sizeof *order);
    if (order == NULL)
        return orr_fail_memory(err);
    for (int64_t k = 0; k < t->distinct; k++)
        order[k].row = (uint32_t)k;
    for (int64_t i = 0; i < first_half; i++)
        order[t->row[i]].count += order[t->row[i]].count < UINT32_MAX;
    qsort(order, (size_t)t->distinct, sizeof *order, by_count);
    for (int64_t k = 0; k < t->distinct; k++)
        rank[order[k].row] = (uint32_t)k;
    orr_free(order);
    return ORR_OK;
}

static bool has_batches(const orr_hit_terms *terms)
{
    return terms->policy != ORR_HIT_STATIC && terms->batch > 0;
}

/* The second half of a trace, in batches. */
typedef struct walk {
    int64_t begin, batch, window;
    const uint32_t *rank;
    int64_t *last;    /* shape (distinct): the batch that last looked a row up, from 1 */
    double *presence; /* shape (distinct + 1): batches that rows of lower ranks occur in */
} walk;

/* How often rows occur in batches: prefix sums by rank. */
static void count_presence(const trace *t, walk *w)
{
    for (int64_t i = w->begin; i < t->n; i++) {
        const int64_t now = (i - w->begin) / w->batch + 1;
        w->presence[w->rank[t->row[i]] + 1] += w->last[t->row[i]] != now;
        w->last[t->row[i]] = now;
    }
    memset(w->last, 0, (size_t)t->distinct * sizeof *w->last);
    for (int64_t k = 0; k < t->distinct; k++)
        w->presence[k + 1] += w->presence[k];
}

/* Rows of the batch before the window are evicted as the batch goes on, the least popular first:
 * where `at` of it is done, and k ranks are kept for their popularity, the first (1 - at) of the
 * others are still there. From which k on a rank is among them. */
static int64_t ranks_until_there(const walk *w, int64_t distinct, uint32_t rank, double at)
{
    const double bound = w->presence[rank] - (1 - at) * w->presence[distinct];
    int64_t low = -1, high = rank;
    while (high - low > 1) {
        const int64_t k = low + (high - low) / 2;
        *(at * w->presence[k] < bound ? &low : &high) = k;
    }
    return high;
}

/* missed[k], held[k]: lookups that miss if fewer than k + 1 ranks are kept for their popularity,
 * but not if more; batches during which the row of rank k is there because they need it. */
static void count_batches(const trace *t, walk *w, double *missed, double *held)
{
    for (int64_t i = w->begin; i < t->n; i++) {
        const uint32_t row = t->row[i];
        const int64_t now = (i - w->begin) / w->batch + 1, since = now - w->last[row];
        const bool known = w->last[row] > 0, there = known && since <= w->window;
        int64_t until = (int64_t)w->rank[row] + 1;
        if (known && since == w->window + 1)
            until = ranks_until_there(w, t->distinct, w->rank[row],
                                      (double)((i - w->begin) % w->batch) / (double)w->batch);
        if (!there && until > 0)
            missed[until - 1]++;
        if (since > 0 || !known)
            held[w->rank[row]] += there ? (double)since : (double)w->window + 1;
        w->last[row] = now;
    }
}

static orr_status walk_batches(const trace *t, const orr_hit_terms *terms, int64_t batch,
                               const uint32_t *rank, double *missed, double *held, orr_error *err)
{
    walk w = {.begin = t->n / 2,
              .batch = batch,
              .window = (int64_t)fmax(0, terms->window),
              .rank = rank,
              .last = orr_calloc((size_t)t->distinct, sizeof *w.last),
              .presence = orr_calloc((size_t)t->distinct + 1, sizeof *w.presence)};
    const orr_status status = w.last != NULL && w.presence != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK && has_batches(terms)) {
        count_presence(t, &w);
        count_batches(t, &w, missed, held);
    }
    for (int64_t i = w.begin; i < t->n && status == ORR_OK && !has_batches(terms); i++)
        missed[rank[t->row[i]]]++;
    orr_free(w.last);
    orr_free(w.presence);
    return status;
}

/* --- the curve ------------------------------------------------------------------------------- */

static void put(orr_hit_curve *to, double rows, double hit_frac)
{
    if (to->n > 0 && !(rows > to->rows[to->n - 1]))
        return;
    to->rows[to->n] = rows;
    to->hit_frac[to->n] = to->n > 0 ? fmax(hit_frac, to->hit_frac[to->n - 1]) : hit_frac;
    to->n++;
}

static void end(const trace *t, orr_hit_curve *to)
{
    while (to->n > 1 && to->rows[to->n - 1] >= (double)t->table_rows)
        to->n--;
    to->rows[to->n] = (double)t->table_rows;
    to->hit_frac[to->n++] = 1;
}

/* Sizes of a cache in equal ratios, each at least one more than that before. */
static int64_t next_size(int64_t k, int64_t most)
{
    const double ratio = pow((double)most + 1, 1.0 / (ORR_HIT_CURVE_POINTS - 24));
    const int64_t next = (int64_t)ceil((double)k * ratio);
    return next > k ? next : k + 1;
}

static orr_status curve_of_distances(const trace *t, orr_hit_curve *ret, orr_error *err)
{
    int64_t *hits = orr_calloc((size_t)t->distinct + 1, sizeof *hits);
    if (hits == NULL)
        return orr_fail_memory(err);
    const orr_status status = count_distances(t, hits, err);
    for (int64_t k = 1; k <= t->distinct; k++)
        hits[k] += hits[k - 1];
    put(ret, 0, 0);
    for (int64_t k = 1; k <= t->distinct && ret->n < ORR_HIT_CURVE_POINTS - 1;
         k = next_size(k, t->distinct))
        put(ret, (double)k, (double)hits[k] / (double)t->n);
    orr_free(hits);
    return status;
}

typedef struct by_rank {
    uint32_t *rank;        /* shape (distinct): of each row */
    double *missed, *held; /* shape (distinct): by rank */
} by_rank;

static orr_status count(const trace *t, const orr_hit_terms *terms, int64_t batch, by_rank *ret,
                        orr_error *err)
{
    const int64_t lookups = t->n - t->n / 2;
    const double batches = has_batches(terms) ? ceil((double)lookups / (double)batch) : 1;
    memset(ret->missed, 0, (size_t)t->distinct * sizeof *ret->missed);
    memset(ret->held, 0, (size_t)t->distinct * sizeof *ret->held);
    ORR_TRY(walk_batches(t, terms, batch, ret->rank, ret->missed, ret->held, err));
    for (int64_t k = t->distinct - 1; k >= 0; k--) {
        const bool last = k == t->distinct - 1;
        ret->missed[k] = ret->missed[k] / (double)lookups + (last ? 0 : ret->missed[k + 1]);
        ret->held[k] = ret->held[k] / batches + (last ? 0 : ret->held[k + 1]);
    }
    return ORR_OK;
}

/* A cache that keeps the first k ranks. One too small for the window has shorter batches. */
static orr_status curve_of_ranks(const trace *t, const orr_hit_terms *terms, by_rank *by,
                                 orr_hit_curve *ret, orr_error *err)
{
    const int64_t batch = has_batches(terms) ? (int64_t)fmax(1, fmin(terms->batch, 0x1p40)) : 1;
    put(ret, 0, 0);
    for (int64_t small = 1; small < batch && small < t->n; small = 1 + small * 3 / 2) {
        ORR_TRY(count(t, terms, small, by, err));
        put(ret, by->held[0], 1 - by->missed[0]);
    }
    ORR_TRY(count(t, terms, batch, by, err));
    for (int64_t k = 0; k < t->distinct && ret->n < ORR_HIT_CURVE_POINTS - 1;
         k = next_size(k, t->distinct))
        put(ret, (double)k + by->held[k], 1 - by->missed[k]);
    return ORR_OK;
}

static orr_status curve_of(const trace *t, const orr_hit_terms *terms, orr_hit_curve *ret,
                           orr_error *err)
{
    if (terms->policy == ORR_HIT_LRU)
        return curve_of_distances(t, ret, err);
    by_rank by = {.rank = orr_calloc((size_t)t->distinct, sizeof *by.rank),
                  .missed = orr_calloc((size_t)t->distinct, sizeof *by.missed),
                  .held = orr_calloc((size_t)t->distinct, sizeof *by.held)};
    orr_status status =
        by.rank != NULL && by.missed != NULL && by.held != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = rank_rows(t, t->n / 2, by.rank, err);
    if (status == ORR_OK)
        status = curve_of_ranks(t, terms, &by, ret, err);
    orr_free(by.rank);
    orr_free(by.missed);
    orr_free(by.held);
    return status;
}

orr_status orr_hit_curve_of_trace(const int64_t *ids, int64_t n, int64_t table_rows,
                                  const orr_hit_terms *terms, orr_hit_curve *ret, orr_error *err)
{
    trace t = {.n = n, .table_rows = table_rows};
    orr_hit_curve curve = {.n = 0};
    if (n < 2 || n >= INT32_MAX)
        return orr_fail(err, ORR_INVALID, "a trace of %lld lookups: it needs from 2 to 2^31 - 2",
                        (long long)n);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= table_rows)
            return orr_fail(err, ORR_INVALID, "lookup %lld: id %lld of %lld rows", (long long)i,
                            (long long)ids[i], (long long)table_rows);
    orr_status status = number_rows(ids, &t, err);
    if (status == ORR_OK)
        status = curve_of(&t, terms, &curve, err);
    if (status == ORR_OK) {
        end(&t, &curve);
        *ret = curve;
    }
    orr_free(t.row);
    return status;
}
