/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/bridge.h"

#include <string.h>

#include "base/array.h"
#include "graph/validate.h"

/* Two passes over the points in the order in which they can come. Backwards: which points have a
 * kept one after them; the others need no list. Forwards: the list of each dropped point, from
 * those of the points that it waits for. A point that waits for one list alone shares it. */
typedef struct finder {
    const orr_graph *g;
    const uint8_t *keep;
    uint8_t *useful;  /* shape (2N): is it kept, or does a kept point come after it? */
    uint8_t *is_node; /* shape (2N) */
    orr_node_id *parent, *child, *sister;
    uint32_t *first, *n;          /* shape (2N) */
    uint32_t *seen;               /* shape (2N): 1 + the point that last listed it */
    orr_array(uint32_t) near;     /* all lists */
    orr_array(uint32_t) gathered; /* of the point at hand */
    uint32_t shared;              /* a point whose list was gathered, or ORR_NONE */
    int64_t begin_ns;             /* first start of a kept node; INT64_MAX: none is known */
    orr_error *err;
} finder;

static bool is_end_tied(uint8_t kind)
{
    return kind != ORR_DEP_CONTROL && kind != ORR_DEP_LAUNCH;
}

static bool in_part(const finder *f, uint32_t p)
{
    return f->keep[p / 2] || f->is_node[p];
}

static void link_children(finder *f)
{
    const orr_graph *g = f->g;
    memset(f->child, 0xff, g->n_nodes * sizeof *f->child);
    for (orr_node_id v = g->n_nodes; v-- > 0;) {
        const orr_node_id up = g->parent[v];
        f->sister[v] = up == ORR_NONE ? ORR_NONE : f->child[up];
        if (up != ORR_NONE)
            f->child[up] = v;
    }
}

/* A point is useful where a point that waits for it is. */
static void find_useful(finder *f, const uint32_t *order)
{
    const orr_graph *g = f->g;
    for (uint32_t i = 2 * g->n_nodes; i-- > 0;) {
        const uint32_t p = order[i];
        const orr_node_id v = p / 2, up = g->parent[v];
        const bool is_end = p % 2;
        f->useful[p] |= f->keep[v] | (is_end && up != ORR_NONE && f->useful[2 * up + 1]);
        if (!f->useful[p])
            continue;
        if (is_end)
            f->useful[2 * v] = 1;
        else if (up != ORR_NONE)
            f->useful[2 * up] = 1;
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
            if ((g->dep_kind[d] == ORR_DEP_SYNC) == is_end)
                f->useful[2 * g->dep[d] + is_end_tied(g->dep_kind[d])] = 1;
    }
}

static bool gather_one(finder *f, uint32_t of, uint32_t p)
{
    if (f->seen[p] == of + 1)
        return true;
    f->seen[p] = of + 1;
    return orr_array_push(&f->gathered, p);
}

/* What stands in the part for the point p, which the point `of` waits for. */
static bool gather(finder *f, uint32_t of, uint32_t p)
{
    if (in_part(f, p))
        return gather_one(f, of, p);
    for (uint32_t i = 0; i < f->n[p]; i++)
        if (!gather_one(f, of, f->near.at[f->first[p] + i]))
            return false;
    if (f->n[p] > 0)
        f->shared = p;
    return true;
}

static bool gather_all(finder *f, uint32_t p)
{
    const orr_graph *g = f->g;
    const orr_node_id v = p / 2, up = g->parent[v];
    const bool is_end = p % 2;
    bool done = true;
    f->gathered.n = 0;
    f->shared = ORR_NONE;
    if (is_end)
        done = gather(f, p, 2 * v);
    else if (up != ORR_NONE)
        done = gather(f, p, 2 * up);
    for (orr_node_id c = is_end ? f->child[v] : ORR_NONE; c != ORR_NONE && done; c = f->sister[c])
        done = gather(f, p, 2 * c + 1);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1] && done; d++)
        if ((g->dep_kind[d] == ORR_DEP_SYNC) == is_end)
            done = gather(f, p, 2 * g->dep[d] + is_end_tied(g->dep_kind[d]));
    return done;
}

/* The start of a node says nothing beside its end. */
static void leave_out_starts(finder *f, uint32_t of)
{
    size_t kept = 0;
    for (size_t i = 0; i < f->gathered.n; i++) {
        const uint32_t p = f->gathered.at[i];
        if (p % 2 || !f->keep[p / 2] || f->seen[p + 1] != of + 1)
            f->gathered.at[kept++] = p;
    }
    f->gathered.n = kept;
}

static orr_status list_dropped(finder *f, uint32_t p)
{
    if (!gather_all(f, p))
        return orr_fail_memory(f->err);
    if (f->shared != ORR_NONE && f->n[f->shared] == f->gathered.n) { /* it holds all of it */
        f->n[p] = f->n[f->shared];
        f->first[p] = f->first[f->shared];
        return ORR_OK;
    }
    leave_out_starts(f, p);
    const size_t n = f->gathered.n;
    f->n[p] = (uint32_t)n;
    f->is_node[p] = n > ORR_BRIDGE_MAX;
    f->first[p] = (uint32_t)f->near.n;
    if (f->near.n + n >= UINT32_MAX)
        return orr_fail(f->err, ORR_LIMIT, "over 2^32 - 2 dependencies in one part");
    if (!orr_array_reserve(&f->near, n))
        return orr_fail_memory(f->err);
    if (n > 0)
        memcpy(f->near.at + f->near.n, f->gathered.at, n * sizeof *f->near.at);
    f->near.n += n;
    return ORR_OK;
}

/* Is the start of u before that of v by nesting alone? It need not be found: levels are bounded. */
static bool is_above(const finder *f, orr_node_id u, orr_node_id v)
{
    for (int levels = 64; levels > 0 && v != ORR_NONE && v != u; levels--)
        v = f->parent[v];
    return v == u;
}

/* The end of v waits for the dropped point p: a start among its nearest cannot be said. */
static void check_end(finder *f, orr_node_id v, uint32_t p)
{
    if (in_part(f, p))
        return;
    for (uint32_t i = 0; i < f->n[p]; i++) {
        const uint32_t near = f->near.at[f->first[p] + i];
        f->is_node[p] |= near % 2 == 0 && f->keep[near / 2] && !is_above(f, near / 2, v);
    }
}

static void check_kept_end(finder *f, orr_node_id v)
{
    const orr_graph *g = f->g;
    for (orr_node_id c = f->child[v]; c != ORR_NONE; c = f->sister[c])
        check_end(f, v, 2 * c + 1);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (g->dep_kind[d] == ORR_DEP_SYNC)
            check_end(f, v, 2 * g->dep[d] + 1);
}

/* A kept node waits for the dropped point p. */
static void check_arrival(finder *f, uint32_t p)
{
    const orr_graph *g = f->g;
    const orr_node_id u = p / 2;
    const bool is_work = p % 2 && g->lanes[g->lane[u]].kind == ORR_LANE_STREAM;
    if (in_part(f, p) || (f->n[p] > 0 && !is_work) || g->start_ns[u] == ORR_TIME_NONE)
        return;
    f->is_node[p] = g->start_ns[u] + (p % 2 ? g->duration_ns[u] : 0) > f->begin_ns;
}

static void check_arrivals(finder *f, orr_node_id v)
{
    const orr_graph *g = f->g;
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        check_arrival(f, 2 * g->dep[d] + is_end_tied(g->dep_kind[d]));
}

static void find_begin(finder *f)
{
    const orr_graph *g = f->g;
    f->begin_ns = INT64_MAX;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (f->keep[v] && g->start_ns[v] != ORR_TIME_NONE && g->start_ns[v] < f->begin_ns)
            f->begin_ns = g->start_ns[v];
}

static orr_status find_lists(finder *f, const uint32_t *order)
{
    const orr_graph *g = f->g;
    for (uint32_t i = 0; i < 2 * g->n_nodes; i++) {
        const uint32_t p = order[i];
        const orr_node_id v = p / 2, up = g->parent[v];
        if (p % 2 == 0 && up != ORR_NONE)
            f->parent[v] = f->keep[up] ? up : f->parent[up];
        if (f->keep[v] && p % 2) {
            check_kept_end(f, v);
            check_arrivals(f, v);
        } else if (!f->keep[v] && f->useful[p]) {
            ORR_TRY(list_dropped(f, p));
        }
    }
    return ORR_OK;
}

orr_status orr_bridges_find(const orr_graph *graph, const uint8_t *keep, orr_arena *arena,
                            orr_bridges *ret, orr_error *err)
{
    const uint32_t n = graph->n_nodes;
    finder f = {.g = graph, .keep = keep, .err = err};
    orr_status status = ORR_OK;
    uint32_t *near = NULL, *order = orr_arena_array(arena, uint32_t, 2 * (size_t)n);
    f.useful = orr_arena_array(arena, uint8_t, 2 * (size_t)n);
    f.is_node = orr_arena_array(arena, uint8_t, 2 * (size_t)n);
    f.parent = orr_arena_array(arena, orr_node_id, n);
    f.child = orr_arena_array(arena, orr_node_id, n);
    f.sister = orr_arena_array(arena, orr_node_id, n);
    f.first = orr_arena_array(arena, uint32_t, 2 * (size_t)n);
    f.n = orr_arena_array(arena, uint32_t, 2 * (size_t)n);
    f.seen = orr_arena_array(arena, uint32_t, 2 * (size_t)n);
    if (!order || !f.useful || !f.is_node || !f.parent || !f.child || !f.sister || !f.first ||
        !f.n || !f.seen)
        return orr_fail_memory(err);
    memset(f.parent, 0xff, n * sizeof *f.parent);
    link_children(&f);
    ORR_TRY_OUT(status, orr_order_points(graph, order, err));
    find_useful(&f, order);
    find_begin(&f);
    ORR_TRY_OUT(status, find_lists(&f, order));
    near = orr_arena_array(arena, uint32_t, f.near.n);
    if (near == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (f.near.n > 0)
        memcpy(near, f.near.at, f.near.n * sizeof *near);
    *ret = (orr_bridges){graph, keep, f.is_node, f.parent, f.first, f.n, near, f.child, f.sister};
out:
    orr_array_done(&f.near);
    orr_array_done(&f.gathered);
    return status;
}
