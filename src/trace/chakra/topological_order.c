/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/topological_order.h"

#include <stdlib.h>

/* Topological order by Kahn's algorithm, with a heap that yields the ready node of earliest start
 * (ties: the lower number). When nothing is ready, the rest is in or after cycles: the earliest
 * node goes first, and its open dependencies are dropped and counted. */
typedef struct sorter {
    const orr_graph *g;
    orr_chakra_lowering *plan;
    uint32_t *waits;      /* shape (N): dependencies that are not placed yet */
    uint32_t *next_first; /* shape (N + 1): rows of `next` */
    orr_node_id *next;    /* who waits for a node */
    orr_node_id *heap;    /* shape (N): the ready ones */
    uint32_t n_heap, n_placed;
} sorter;

static bool earlier(const orr_graph *g, orr_node_id a, orr_node_id b)
{
    if (g->start_ns[a] != g->start_ns[b])
        return g->start_ns[a] < g->start_ns[b];
    return a < b;
}

static void push(sorter *s, orr_node_id v)
{
    uint32_t at = s->n_heap++;
    while (at > 0 && earlier(s->g, v, s->heap[(at - 1) / 2])) {
        s->heap[at] = s->heap[(at - 1) / 2];
        at = (at - 1) / 2;
    }
    s->heap[at] = v;
}

static orr_node_id pop(sorter *s)
{
    const orr_node_id top = s->heap[0], v = s->heap[--s->n_heap];
    uint32_t at = 0;
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= s->n_heap)
            break;
        if (child + 1 < s->n_heap && earlier(s->g, s->heap[child + 1], s->heap[child]))
            child++;
        if (!earlier(s->g, s->heap[child], v))
            break;
        s->heap[at] = s->heap[child];
        at = child;
    }
    s->heap[at] = v;
    return top;
}

/* Edges, each once, by the node that waits. */
static orr_status make_rows(sorter *s, const orr_chakra_edges *edges, orr_arena *arena,
                            orr_error *err)
{
    const uint32_t n = s->g->n_nodes;
    orr_chakra_lowering *plan = s->plan;
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)n + 1);
    orr_node_id *dep = orr_arena_array(arena, orr_node_id, edges->n);
    uint32_t *end = orr_arena_array(arena, uint32_t, (size_t)n + 1);
    if (first == NULL || dep == NULL || end == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < edges->n; i++)
        first[edges->at[i].node + 1]++;
    for (uint32_t v = 0; v < n; v++)
        first[v + 1] += first[v];
    for (uint32_t v = 0; v < n; v++)
        end[v] = first[v];
    for (size_t i = 0; i < edges->n; i++)
        dep[end[edges->at[i].node]++] = edges->at[i].on;
    plan->dep_first = first;
    plan->dep = dep;
    return ORR_OK;
}

static int by_id(const void *a, const void *b)
{
    const orr_node_id x = *(const orr_node_id *)a, y = *(const orr_node_id *)b;
    return x < y ? -1 : x > y;
}

/* Sorts each row and removes duplicates. */
static void tidy_rows(sorter *s)
{
    orr_chakra_lowering *plan = s->plan;
    uint32_t kept = 0, begin = 0;
    for (orr_node_id v = 0; v < s->g->n_nodes; v++) {
        const uint32_t end = plan->dep_first[v + 1], row = kept;
        if (end - begin > 1)
            qsort(plan->dep + begin, end - begin, sizeof *plan->dep, by_id);
        for (uint32_t d = begin; d < end; d++)
            if (kept == row || plan->dep[kept - 1] != plan->dep[d])
                plan->dep[kept++] = plan->dep[d];
        plan->dep_first[v] = row;
        begin = end;
    }
    plan->dep_first[s->g->n_nodes] = kept;
}

static orr_status make_next(sorter *s, orr_arena *arena, orr_error *err)
{
    const uint32_t n = s->g->n_nodes;
    const orr_chakra_lowering *plan = s->plan;
    const uint32_t n_deps = plan->dep_first[n];
    s->waits = orr_arena_array(arena, uint32_t, n);
    s->next_first = orr_arena_array(arena, uint32_t, (size_t)n + 2);
    s->next = orr_arena_array(arena, orr_node_id, (size_t)n_deps + n);
    s->heap = orr_arena_array(arena, orr_node_id, n);
    if (s->waits == NULL || s->next_first == NULL || s->next == NULL || s->heap == NULL)
        return orr_fail_memory(err);
    /* Counted two places ahead, so that filling leaves the rows where they belong. */
    uint32_t *count = s->next_first + 2;
    for (uint32_t d = 0; d < n_deps; d++)
        count[plan->dep[d]]++;
    for (orr_node_id v = 0; v < n; v++)
        if (plan->ctrl[v] != ORR_NONE)
            count[plan->ctrl[v]]++;
    for (uint32_t v = 2; v <= n + 1; v++)
        s->next_first[v] += s->next_first[v - 1];
    for (orr_node_id v = 0; v < n; v++) {
        for (uint32_t d = plan->dep_first[v]; d < plan->dep_first[v + 1]; d++)
            s->next[s->next_first[plan->dep[d] + 1]++] = v;
        s->waits[v] = plan->dep_first[v + 1] - plan->dep_first[v];
        if (plan->ctrl[v] == ORR_NONE)
            continue;
        s->next[s->next_first[plan->ctrl[v] + 1]++] = v;
        s->waits[v]++;
    }
    return ORR_OK;
}

static void place(sorter *s, orr_node_id v)
{
    s->plan->place[v] = s->n_placed;
    s->plan->order[s->n_placed++] = v;
    for (uint32_t i = s->next_first[v]; i < s->next_first[v + 1]; i++)
        if (--s->waits[s->next[i]] == 0)
            push(s, s->next[i]);
}

static void place_ready(sorter *s)
{
    while (s->n_heap > 0)
        place(s, pop(s));
}

/* Drops v's dependencies on nodes that are not placed. */
static void cut(sorter *s, orr_node_id v)
{
    orr_chakra_lowering *plan = s->plan;
    uint32_t kept = plan->dep_first[v];
    for (uint32_t d = kept; d < plan->dep_first[v + 1]; d++) {
        if (plan->place[plan->dep[d]] != ORR_NONE)
            plan->dep[kept++] = plan->dep[d];
        else
            plan->dropped++;
    }
    for (; kept < plan->dep_first[v + 1]; kept++)
        plan->dep[kept] = ORR_NONE; /* a hole; see close_holes() */
    if (plan->ctrl[v] != ORR_NONE && plan->place[plan->ctrl[v]] == ORR_NONE) {
        plan->ctrl[v] = ORR_NONE;
        plan->dropped++;
    }
    s->waits[v] = UINT32_MAX; /* placed here, not by its count */
}

static void close_holes(orr_chakra_lowering *plan, uint32_t n)
{
    uint32_t kept = 0, begin = 0;
    for (orr_node_id v = 0; v < n; v++) {
        const uint32_t end = plan->dep_first[v + 1];
        plan->dep_first[v] = kept;
        for (uint32_t d = begin; d < end; d++)
            if (plan->dep[d] != ORR_NONE)
                plan->dep[kept++] = plan->dep[d];
        begin = end;
    }
    plan->dep_first[n] = kept;
}

static int by_start(const void *a, const void *b, void *graph)
{
    const orr_node_id x = *(const orr_node_id *)a, y = *(const orr_node_id *)b;
    return earlier(graph, x, y) ? -1 : earlier(graph, y, x);
}

/* Breaks cycles: the earliest remaining node is placed, whatever it waits for. */
static orr_status break_cycles(sorter *s, orr_arena *arena, orr_error *err)
{
    const uint32_t n = s->g->n_nodes;
    uint32_t n_left = 0;
    orr_node_id *left = orr_arena_array(arena, orr_node_id, n - s->n_placed);
    if (left == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < n; v++)
        if (s->plan->place[v] == ORR_NONE)
            left[n_left++] = v;
    qsort_r(left, n_left, sizeof *left, by_start, (void *)s->g);
    for (uint32_t i = 0; i < n_left; i++) {
        if (s->plan->place[left[i]] != ORR_NONE)
            continue;
        cut(s, left[i]);
        place(s, left[i]);
        place_ready(s);
    }
    close_holes(s->plan, n);
    return ORR_OK;
}

orr_status orr_chakra_topological_order(const orr_graph *graph, const orr_chakra_edges *edges,
                                        orr_arena *arena, orr_chakra_lowering *plan, orr_error *err)
{
    sorter s = {.g = graph, .plan = plan};
    const uint32_t n = graph->n_nodes;
    plan->order = orr_arena_array(arena, orr_node_id, n);
    plan->place = orr_arena_array(arena, uint32_t, n);
    if (plan->order == NULL || plan->place == NULL)
        return orr_fail_memory(err);
    ORR_TRY(make_rows(&s, edges, arena, err));
    tidy_rows(&s);
    ORR_TRY(make_next(&s, arena, err));
    for (orr_node_id v = 0; v < n; v++) {
        plan->place[v] = ORR_NONE;
        if (s.waits[v] == 0)
            push(&s, v);
    }
    place_ready(&s);
    return s.n_placed == n ? ORR_OK : break_cycles(&s, arena, err);
}
