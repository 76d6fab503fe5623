/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <orrery/machine.h>

#include "base/alloc.h"

static int by_rank(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Without an early exit, so that the loop is vectorised. */
static bool ascending(const uint32_t *ranks, uint32_t n)
{
    uint32_t wrong = 0;
    for (uint32_t i = 1; i < n; i++)
        wrong |= ranks[i - 1] >= ranks[i];
    return wrong == 0;
}

/* State of one pass over ascending ranks: the current unit of each level. */
typedef struct walk_level {
    uint32_t devices;
    uint64_t inverse;     /* reciprocal of `devices`, in parts of 2^64, rounded up: divides any
                           * rank exactly (Granlund and Montgomery, PLDI 1994); 0 stands for 1 */
    const uint32_t *ends; /* of the next unit, where units are uneven; else NULL */
    uint32_t around;      /* lowest uneven level above; n: none */
    uint64_t first, end;  /* of the current unit */
    uint32_t count;       /* units of the level below in it that contain ranks */
    uint32_t most, least; /* of count, over the units that are done */
} walk_level;

typedef struct walk {
    walk_level levels[ORR_LEVELS_MAX];
    uint32_t n;
} walk;

static void walk_init(walk *w, const orr_cluster *cluster)
{
    w->n = cluster->n_levels;
    for (uint32_t l = w->n, around = w->n; l-- > 0;) {
        const orr_level *level = &cluster->levels[l];
        w->levels[l] = (walk_level){.devices = level->devices,
                                    .inverse = UINT64_MAX / level->devices + 1,
                                    .ends = level->ends,
                                    .around = around,
                                    .least = UINT32_MAX};
        if (level->ends != NULL)
            around = l;
    }
}

static uint32_t divided(uint32_t rank, uint64_t inverse)
{
    return inverse == 0 ? rank : (uint32_t)((unsigned __int128)inverse * rank >> 64);
}

/* Moves to the unit that holds the rank; levels above are there already. */
static void enter(walk *w, uint32_t l, uint32_t rank)
{
    walk_level *level = &w->levels[l];
    level->count = 1;
    if (level->ends != NULL) {
        for (level->first = level->end; *level->ends <= rank; level->ends++)
            level->first = *level->ends;
        level->end = *level->ends++;
        return;
    }
    const walk_level *around = level->around < w->n ? &w->levels[level->around] : NULL;
    const uint32_t base = around != NULL ? (uint32_t)around->first : 0;
    level->end = base + ((uint64_t)divided(rank - base, level->inverse) + 1) * level->devices;
    if (around != NULL && level->end > around->end)
        level->end = around->end;
}

static void leave(walk_level *level)
{
    level->most = level->count > level->most ? level->count : level->most;
    level->least = level->count < level->least ? level->count : level->least;
}

static void step(walk *w, uint32_t rank)
{
    uint32_t out = 0; /* number of units that are left */
    for (; out < w->n && rank >= w->levels[out].end; out++)
        if (w->levels[out].end > 0)
            leave(&w->levels[out]);
    for (uint32_t l = out; l-- > 0;)
        enter(w, l, rank);
    if (out < w->n)
        w->levels[out].count++;
}

static void span_of(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n, orr_span *ret)
{
    orr_span span = {.n_ranks = n, .n_levels = cluster->n_levels, .even = true};
    walk w;
    walk_init(&w, cluster);
    for (uint32_t i = 0; i < n; i++) {
        step(&w, ranks[i]);
        /* Skips to the end of the innermost unit if it is full of ranks. */
        const uint64_t left = w.levels[0].end - ranks[i] - 1;
        if (left < n - i && ranks[i + left] == ranks[i] + left) {
            w.levels[0].count += (uint32_t)left;
            i += (uint32_t)left;
        }
    }
    for (uint32_t l = 0; l < w.n; l++) {
        leave(&w.levels[l]);
        span.width[l] = w.levels[l].most;
        span.even &= w.levels[l].most == w.levels[l].least;
        if (span.width[l] > 1)
            span.top = l;
    }
    *ret = span;
}

/* Checks ranks that are sorted; some may be duplicates. */
static orr_status check(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n, bool once,
                        orr_error *err)
{
    if (n == 0)
        return orr_fail(err, ORR_INVALID, "a process group without ranks");
    if (once && ranks[n - 1] < cluster->n_devices)
        return ORR_OK;
    for (uint32_t i = 0; i < n; i++) {
        if (ranks[i] >= cluster->n_devices)
            return orr_fail(err, ORR_INVALID, "rank %u: cluster '%s' has %u devices", ranks[i],
                            cluster->name, cluster->n_devices);
        if (i > 0 && ranks[i] == ranks[i - 1])
            return orr_fail(err, ORR_INVALID, "rank %u is twice in one process group", ranks[i]);
    }
    return ORR_OK;
}

orr_status orr_cluster_span(const orr_cluster *cluster, const uint32_t *ranks, uint32_t n,
                            orr_span *ret, orr_error *err)
{
    uint32_t *sorted = NULL;
    const bool once = ascending(ranks, n);
    if (!once) {
        sorted = orr_calloc(n, sizeof *sorted);
        if (sorted == NULL)
            return orr_fail_memory(err);
        memcpy(sorted, ranks, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, by_rank);
        ranks = sorted;
    }
    const orr_status status = check(cluster, ranks, n, once, err);
    if (status == ORR_OK)
        span_of(cluster, ranks, n, ret);
    orr_free(sorted);
    return status;
}
