/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/validate.h"

/* State of the two points of a node. Open: on the stack, its dependencies are being visited. */
enum { START_OPEN = 1, START_DONE = 2, END_OPEN = 4, END_DONE = 8, HAS_SYNC = 16 };

/* Cycle detection by an iterative depth-first search over points (start and end of each node),
 * along "waits for". A node is on the stack at most once, since its end waits for its start: a
 * visit of the end opens both and finishes the start first. Meeting an open point again means a
 * cycle. Children of a parent are found through two links a node, first child and next sibling,
 * instead of rows of dependants. */
typedef struct walk {
    const orr_graph *graph;
    uint8_t *state;      /* shape (N) */
    uint32_t *next;      /* shape (N): next dependency of the node to visit */
    orr_node_id *child;  /* shape (N): first child whose end is not finished, or ORR_NONE */
    orr_node_id *sister; /* shape (N): next sibling; NULL: no nesting */
    orr_array(orr_node_id) stack;
    uint32_t *order; /* shape (2N): points as they are finished; NULL: not asked for */
    size_t n_ordered;
} walk;

typedef struct point {
    orr_node_id node;
    bool is_end;
} point;

static bool is_done(const walk *w, point p)
{
    return w->state[p.node] & (p.is_end ? END_DONE : START_DONE);
}

/* Whether the node's end is open; it waits for the start too. */
static bool is_open(const walk *w, point p)
{
    return w->state[p.node] & (p.is_end ? START_OPEN | END_OPEN : START_OPEN);
}

/* An unfinished point that the start of v waits for. */
static bool start_waits_for(walk *w, orr_node_id v, point *ret)
{
    const orr_graph *g = w->graph;
    const uint32_t first = g->dep_first[v], n = g->dep_first[v + 1] - first;
    if (w->next[v] == 0) {
        *ret = (point){g->parent[v], false};
        if (ret->node != ORR_NONE && !is_done(w, *ret))
            return true;
        w->next[v] = 1;
    }
    for (; w->next[v] <= n; w->next[v]++) {
        const uint32_t i = first + w->next[v] - 1;
        const uint8_t kind = g->dep_kind[i];
        if (kind == ORR_DEP_SYNC) {
            w->state[v] |= HAS_SYNC;
            continue;
        }
        *ret = (point){g->dep[i], kind != ORR_DEP_CONTROL && kind != ORR_DEP_LAUNCH};
        if (!is_done(w, *ret))
            return true;
    }
    return false;
}

/* The same for the end of v, whose start is finished. */
static bool end_waits_for(walk *w, orr_node_id v, point *ret)
{
    const orr_graph *g = w->graph;
    if (w->sister != NULL) {
        for (; w->child[v] != ORR_NONE; w->child[v] = w->sister[w->child[v]]) {
            *ret = (point){w->child[v], true};
            if (!is_done(w, *ret))
                return true;
        }
    }
    if (!(w->state[v] & HAS_SYNC))
        return false;
    const uint32_t first = g->dep_first[v], n = g->dep_first[v + 1] - first;
    for (; w->next[v] < n; w->next[v]++) {
        const uint32_t i = first + w->next[v];
        *ret = (point){g->dep[i], true};
        if (g->dep_kind[i] == ORR_DEP_SYNC && !is_done(w, *ret))
            return true;
    }
    return false;
}

static bool open_point(walk *w, point p)
{
    uint8_t *state = &w->state[p.node];
    if (!(*state & START_DONE))
        *state |= START_OPEN;
    if (p.is_end)
        *state |= END_OPEN;
    return orr_array_push(&w->stack, p.node);
}

/* Finishes the current point of v. True: the node is finished. */
static bool close_point(walk *w, orr_node_id v)
{
    uint8_t *state = &w->state[v];
    if (w->order != NULL)
        w->order[w->n_ordered++] = 2 * v + !(*state & START_OPEN);
    if (*state & START_OPEN) {
        *state = (uint8_t)((*state & ~START_OPEN) | START_DONE);
        w->next[v] = 0;
        return !(*state & END_OPEN);
    }
    *state = (uint8_t)((*state & ~END_OPEN) | END_DONE);
    return true;
}

/* The cycle as text, with nodes left out if it is long. */
enum { NAME_CHARS = 40, HEAD_NODES = 5, TAIL_NODES = 2 };

typedef struct line {
    char text[512]; /* never full: all that goes in is short */
    size_t n;
} line;

static void add_node(line *to, const walk *w, orr_node_id v)
{
    const char *name = orr_graph_str(w->graph, w->graph->name[v]);
    const bool whole = strlen(name) <= NAME_CHARS;
    to->n += (size_t)snprintf(to->text + to->n, sizeof to->text - to->n, "%u '%.*s%s' -> ", v,
                              whole ? NAME_CHARS : NAME_CHARS - 3, name, whole ? "" : "...");
}

/* `again`, further down the stack, closes the cycle with the top. The cycle is reported in the
 * order of execution, which is the reverse. */
static orr_status fail_cycle(const walk *w, orr_node_id again, orr_error *err)
{
    const size_t top = w->stack.n - 1;
    size_t bottom = top;
    while (w->stack.at[bottom] != again)
        bottom--;
    const size_t n = top - bottom; /* nodes beside `again` */
    line text = {.n = 0};
    add_node(&text, w, again);
    for (size_t i = 0; i < n; i++) {
        if (n > HEAD_NODES + TAIL_NODES && i == HEAD_NODES) {
            const size_t left_out = n - HEAD_NODES - TAIL_NODES;
            text.n += (size_t)snprintf(text.text + text.n, sizeof text.text - text.n,
                                       "(%zu more) -> ", left_out);
            i += left_out;
        }
        add_node(&text, w, w->stack.at[top - i]);
    }
    return orr_fail(err, ORR_INVALID, "cycle: %s%u", text.text, again);
}

static orr_status settle(walk *w, point root, orr_error *err)
{
    if (is_done(w, root))
        return ORR_OK;
    if (!open_point(w, root))
        return orr_fail_memory(err);
    while (w->stack.n > 0) {
        const orr_node_id v = w->stack.at[w->stack.n - 1];
        point on;
        if (w->state[v] & START_OPEN ? start_waits_for(w, v, &on) : end_waits_for(w, v, &on)) {
            if (is_open(w, on))
                return fail_cycle(w, on.node, err);
            if (!open_point(w, on))
                return orr_fail_memory(err);
        } else if (close_point(w, v)) {
            w->stack.n--;
        }
    }
    return ORR_OK;
}

static orr_status list_children(walk *w, orr_error *err)
{
    const orr_graph *g = w->graph;
    uint32_t v = 0;
    while (v < g->n_nodes && g->parent[v] == ORR_NONE)
        v++;
    if (v == g->n_nodes)
        return ORR_OK;
    w->child = orr_malloc(g->n_nodes * sizeof *w->child);
    w->sister = orr_malloc(g->n_nodes * sizeof *w->sister);
    if (w->child == NULL || w->sister == NULL)
        return orr_fail_memory(err);
    memset(w->child, 0xff, g->n_nodes * sizeof *w->child);
    for (v = g->n_nodes; v-- > 0;) {
        const orr_node_id parent = g->parent[v];
        if (parent == ORR_NONE)
            continue;
        w->sister[v] = w->child[parent];
        w->child[parent] = v;
    }
    return ORR_OK;
}

static orr_status walk_all(const orr_graph *graph, uint32_t *order, orr_error *err)
{
    walk w = {.graph = graph,
              .order = order,
              .state = orr_calloc(graph->n_nodes, sizeof *w.state),
              .next = orr_calloc(graph->n_nodes, sizeof *w.next)};
    orr_status status = w.state && w.next ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK)
        status = list_children(&w, err);
    for (uint32_t v = 0; v < graph->n_nodes && status == ORR_OK; v++)
        status = settle(&w, (point){v, true}, err);
    orr_free(w.state);
    orr_free(w.next);
    orr_free(w.child);
    orr_free(w.sister);
    orr_array_done(&w.stack);
    return status;
}

orr_status orr_check_acyclic(const orr_graph *graph, orr_error *err)
{
    return walk_all(graph, NULL, err);
}

orr_status orr_order_points(const orr_graph *graph, uint32_t *ret_order, orr_error *err)
{
    if (graph->n_nodes > INT32_MAX)
        return orr_fail(err, ORR_LIMIT, "over 2^31 - 1 nodes in one graph");
    return walk_all(graph, ret_order, err);
}
