/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "explore/tables/planner.h"

/* The differencing method for R ranks. A partial solution has R bins; the two whose bins differ
 * most are merged, the fullest bins of one with the emptiest of the other, until one is left. What
 * is placed already is the first partial solution: its bins are ranks. */

enum { NONE = UINT32_MAX, MOST_BINS = 1 << 22 };

typedef struct bin {
    double ns;
    uint32_t first, last; /* tables, linked by `next`; NONE: empty */
    uint32_t rank;        /* of the first partial solution; else NONE */
} bin;

typedef struct differencer {
    uint32_t ranks;
    bin *bins;      /* shape (solutions, ranks), each in falling order */
    uint32_t *heap; /* of solutions, by spread */
    uint32_t n;     /* solutions that are left */
    uint32_t *next; /* shape (tables) */
    bin *merged;    /* shape (ranks) */
} differencer;

static bin *bins_of(const differencer *d, uint32_t solution)
{
    return d->bins + (size_t)solution * d->ranks;
}

static double spread(const differencer *d, uint32_t at)
{
    const bin *bins = bins_of(d, d->heap[at]);
    return bins[0].ns - bins[d->ranks - 1].ns;
}

static void swap(differencer *d, uint32_t a, uint32_t b)
{
    const uint32_t kept = d->heap[a];
    d->heap[a] = d->heap[b];
    d->heap[b] = kept;
}

static void sift_down(differencer *d, uint32_t at)
{
    for (;;) {
        uint32_t most = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < d->n; child++)
            if (spread(d, child) > spread(d, most))
                most = child;
        if (most == at)
            return;
        swap(d, at, most);
        at = most;
    }
}

static int by_ns_descending(const void *a, const void *b)
{
    const bin *x = a, *y = b;
    return x->ns != y->ns ? (x->ns < y->ns) - (x->ns > y->ns)
                          : (x->rank > y->rank) - (x->rank < y->rank);
}

static bin merge_bins(differencer *d, const bin *a, const bin *b)
{
    bin both = {.ns = a->ns + b->ns,
                .first = a->first != NONE ? a->first : b->first,
                .last = b->last != NONE ? b->last : a->last,
                .rank = a->rank != NONE ? a->rank : b->rank};
    if (a->last != NONE && b->first != NONE)
        d->next[a->last] = b->first;
    return both;
}

/* The two solutions of most spread become one. Only one of them can have ranks. */
static void merge_two(differencer *d)
{
    bin *a = bins_of(d, d->heap[0]);
    const uint32_t second = d->n > 2 && spread(d, 2) > spread(d, 1) ? 2 : 1;
    const bin *b = bins_of(d, d->heap[second]);
    for (uint32_t r = 0; r < d->ranks; r++)
        d->merged[r] = merge_bins(d, &a[r], &b[d->ranks - 1 - r]);
    qsort(d->merged, d->ranks, sizeof *d->merged, by_ns_descending);
    memcpy(a, d->merged, d->ranks * sizeof *a);
    swap(d, second, --d->n);
    sift_down(d, second);
    sift_down(d, 0);
}

static bool is_single(const orr_table_problem *p, const orr_table_assignment *a, uint32_t table)
{
    return p->candidates[a->choice[table]].n == 1;
}

/* The first solution: loads of the ranks without tables of one shard. The others: one such table
 * each. */
static void open_solutions(differencer *d, const orr_table_problem *p, orr_table_assignment *a)
{
    for (uint32_t t = 0; t < p->n; t++) {
        const orr_table_candidate *c = &p->candidates[a->choice[t]];
        d->next[t] = NONE;
        if (c->n != 1)
            continue;
        a->load[orr_table_ranks_of(p, a, t)[0]] -= c->ns[0];
        a->bytes[orr_table_ranks_of(p, a, t)[0]] -= c->bytes[0];
        for (uint32_t r = 0; r < d->ranks; r++)
            bins_of(d, d->n)[r] = (bin){0, NONE, NONE, NONE};
        *bins_of(d, d->n) = (bin){c->ns[0], t, t, NONE};
        d->heap[d->n] = d->n;
        d->n++;
    }
    for (uint32_t r = 0; r < d->ranks; r++)
        bins_of(d, 0)[r] = (bin){a->load[r], NONE, NONE, r};
    qsort(bins_of(d, 0), d->ranks, sizeof(bin), by_ns_descending);
    for (uint32_t at = d->n; at-- > 0;)
        sift_down(d, at);
}

/* Puts the tables of each bin on its rank. False: some rank's memory is exceeded. */
static bool put_back(const differencer *d, const orr_table_problem *p, orr_table_assignment *a)
{
    bool fits = true;
    for (uint32_t i = 0; i < d->ranks; i++) {
        const bin *from = &bins_of(d, d->heap[0])[i];
        for (uint32_t t = from->first; t != NONE; t = d->next[t]) {
            const orr_table_candidate *c = &p->candidates[a->choice[t]];
            orr_table_ranks_of(p, a, t)[0] = from->rank;
            a->load[from->rank] += c->ns[0];
            a->bytes[from->rank] += c->bytes[0];
        }
        fits &= a->bytes[from->rank] + a->shared_bytes <= p->capacity;
    }
    return fits;
}

bool orr_table_difference(const orr_table_problem *p, orr_table_assignment *a,
                          orr_table_assignment *spare)
{
    size_t singles = 0;
    for (uint32_t t = 0; t < p->n; t++)
        singles += is_single(p, a, t);
    const size_t bins = (singles + 1) * p->ranks;
    if (p->ranks < 2 || singles == 0 || bins > MOST_BINS)
        return false;
    differencer d = {.ranks = p->ranks,
                     .n = 1,
                     .bins = orr_calloc(bins, sizeof(bin)),
                     .heap = orr_calloc(singles + 1, sizeof(uint32_t)),
                     .next = orr_calloc(p->n, sizeof(uint32_t)),
                     .merged = orr_calloc(p->ranks, sizeof(bin))};
    bool better = false;
    if (d.bins != NULL && d.heap != NULL && d.next != NULL && d.merged != NULL) {
        orr_table_assignment_copy(p, a, spare);
        const double before = orr_table_assignment_ns(p, a);
        open_solutions(&d, p, a);
        while (d.n > 1)
            merge_two(&d);
        better = put_back(&d, p, a) && orr_table_assignment_ns(p, a) < before;
        if (!better)
            orr_table_assignment_copy(p, spare, a);
    }
    orr_free(d.bins);
    orr_free(d.heap);
    orr_free(d.next);
    orr_free(d.merged);
    return better;
}
