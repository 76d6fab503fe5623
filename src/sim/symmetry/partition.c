/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/symmetry/partition.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

orr_status orr_partition_init(orr_partition *p, const uint32_t *class_of, uint32_t n,
                              uint32_t n_classes, orr_error *err)
{
    const size_t room = (size_t)n + 1;
    *p = (orr_partition){.n = n,
                         .n_classes = n_classes,
                         .order = orr_calloc(room, sizeof *p->order),
                         .place = orr_calloc(room, sizeof *p->place),
                         .class_of = orr_calloc(room, sizeof *p->class_of),
                         .first = orr_calloc(room, sizeof *p->first),
                         .count = orr_calloc(room, sizeof *p->count)};
    if (!p->order || !p->place || !p->class_of || !p->first || !p->count)
        return orr_fail_memory(err);
    for (uint32_t v = 0; v < n; v++) {
        p->class_of[v] = class_of[v];
        p->count[class_of[v]]++;
    }
    for (uint32_t c = 1; c < n_classes; c++)
        p->first[c] = p->first[c - 1] + p->count[c - 1];
    for (uint32_t v = 0; v < n; v++) { /* place: at first the next free one of the class */
        const uint32_t c = class_of[v];
        p->order[p->first[c] + p->place[c]++] = v;
    }
    for (uint32_t i = 0; i < n; i++)
        p->place[p->order[i]] = i;
    return ORR_OK;
}

void orr_partition_done(orr_partition *p)
{
    orr_free(p->order);
    orr_free(p->place);
    orr_free(p->class_of);
    orr_free(p->first);
    orr_free(p->count);
    *p = (orr_partition){0};
}

typedef struct hit_vertex {
    uint32_t vertex, hits;
} hit_vertex;

typedef struct refiner {
    orr_partition *p;
    const uint32_t *first, *to;
    uint32_t *hits;       /* by vertex: neighbours in the splitter */
    uint32_t *class_hits; /* by class: its vertices with a neighbour in the splitter, moved to
                           * its front */
    uint32_t *hit_classes, n_hit_classes;
    uint32_t *todo, n_todo; /* worklist of splitters */
    bool *is_todo;
    uint32_t *splitter;
    hit_vertex *sorted;
} refiner;

static bool take_scratch(refiner *r)
{
    const size_t n = (size_t)r->p->n + 1;
    r->hits = orr_calloc(n, sizeof *r->hits);
    r->class_hits = orr_calloc(n, sizeof *r->class_hits);
    r->hit_classes = orr_calloc(n, sizeof *r->hit_classes);
    r->todo = orr_calloc(n, sizeof *r->todo);
    r->is_todo = orr_calloc(n, sizeof *r->is_todo);
    r->splitter = orr_calloc(n, sizeof *r->splitter);
    r->sorted = orr_calloc(n, sizeof *r->sorted);
    return r->hits && r->class_hits && r->hit_classes && r->todo && r->is_todo && r->splitter &&
           r->sorted;
}

static void give_scratch(refiner *r)
{
    orr_free(r->hits);
    orr_free(r->class_hits);
    orr_free(r->hit_classes);
    orr_free(r->todo);
    orr_free(r->is_todo);
    orr_free(r->splitter);
    orr_free(r->sorted);
}

static void push_todo(refiner *r, uint32_t class)
{
    if (r->is_todo[class])
        return;
    r->is_todo[class] = true;
    r->todo[r->n_todo++] = class;
}

static void put(orr_partition *p, uint32_t place, uint32_t vertex)
{
    p->order[place] = vertex;
    p->place[vertex] = place;
}

/* Counts a neighbour, and moves the vertex to the front of its class the first time. */
static void hit(refiner *r, uint32_t v)
{
    orr_partition *p = r->p;
    if (r->hits[v]++ > 0)
        return;
    const uint32_t c = p->class_of[v];
    if (r->class_hits[c] == 0)
        r->hit_classes[r->n_hit_classes++] = c;
    const uint32_t from = p->place[v], to = p->first[c] + r->class_hits[c]++;
    const uint32_t other = p->order[to];
    put(p, to, v);
    put(p, from, other);
}

static int by_hits(const void *a_, const void *b_)
{
    const hit_vertex *a = a_, *b = b_;
    if (a->hits != b->hits)
        return a->hits < b->hits ? -1 : 1;
    return (a->vertex > b->vertex) - (a->vertex < b->vertex);
}

/* Sorts the counted vertices of a class by count. False: all counts are equal. */
static bool sort_hit(refiner *r, uint32_t from, uint32_t n)
{
    orr_partition *p = r->p;
    bool differ = false;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t v = p->order[from + i];
        r->sorted[i] = (hit_vertex){v, r->hits[v]};
        differ |= r->hits[v] != r->sorted[0].hits;
    }
    if (!differ)
        return false;
    qsort(r->sorted, n, sizeof *r->sorted, by_hits);
    for (uint32_t i = 0; i < n; i++)
        put(p, from + i, r->sorted[i].vertex);
    return true;
}

/* Makes order[from .. from + n) a class of its own. */
static void cut(refiner *r, uint32_t from, uint32_t n)
{
    orr_partition *p = r->p;
    const uint32_t class = p->n_classes++;
    p->first[class] = from;
    p->count[class] = n;
    for (uint32_t i = 0; i < n; i++)
        p->class_of[p->order[from + i]] = class;
    push_todo(r, class);
}

/* Splits a class by counts. The largest piece keeps the class's number and is not a new splitter
 * (Hopcroft's rule); if the class was on the worklist, all pieces are. */
static void split(refiner *r, uint32_t class)
{
    orr_partition *p = r->p;
    const uint32_t from = p->first[class], count = p->count[class], n = r->class_hits[class];
    r->class_hits[class] = 0;
    if (!sort_hit(r, from, n) && n == count)
        return;
    uint32_t largest_at = from + n, largest_n = count - n; /* those without a neighbour in the
                                                            * splitter */
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && r->sorted[k].hits == r->sorted[i].hits; k++)
            ;
        if (k - i > largest_n) {
            largest_at = from + i;
            largest_n = k - i;
        }
    }
    for (uint32_t i = 0, k; i < n; i = k) {
        for (k = i + 1; k < n && r->sorted[k].hits == r->sorted[i].hits; k++)
            ;
        if (from + i != largest_at)
            cut(r, from + i, k - i);
    }
    if (count > n && from + n != largest_at)
        cut(r, from + n, count - n);
    p->first[class] = largest_at;
    p->count[class] = largest_n;
}

static void split_all_by(refiner *r, uint32_t class)
{
    orr_partition *p = r->p;
    const uint32_t n = p->count[class];
    memcpy(r->splitter, p->order + p->first[class], n * sizeof *r->splitter);
    r->n_hit_classes = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = r->first[r->splitter[i]]; e < r->first[r->splitter[i] + 1]; e++)
            hit(r, r->to[e]);
    for (uint32_t i = 0; i < r->n_hit_classes; i++)
        split(r, r->hit_classes[i]);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t e = r->first[r->splitter[i]]; e < r->first[r->splitter[i] + 1]; e++)
            r->hits[r->to[e]] = 0;
}

orr_status orr_partition_refine(orr_partition *p, const uint32_t *first, const uint32_t *to,
                                orr_error *err)
{
    refiner r = {.p = p, .first = first, .to = to};
    const bool room = take_scratch(&r);
    for (uint32_t c = 0; room && c < p->n_classes; c++)
        push_todo(&r, c);
    while (room && r.n_todo > 0) {
        const uint32_t class = r.todo[--r.n_todo];
        r.is_todo[class] = false;
        split_all_by(&r, class);
    }
    give_scratch(&r);
    return room ? ORR_OK : orr_fail_memory(err);
}
