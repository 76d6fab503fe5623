/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

#include <string.h>

#include "graph/pollers.h"

/* Points of threads. A sweep over the starts and ends of a thread's nodes in order of recorded
 * time (ends before starts, inner ends before outer ones) with a heap of open nodes. Each gives
 * a point, and the time since the previous point becomes the lag of the edge between them,
 * except where the thread waited: before a start, if the thread was idle until something
 * elsewhere happened; and before an end, in a call that blocks on a device or on a transfer.
 * Nodes that overlap without nesting are no problem: a thread is a line of points. */

/* An open node. The heap has the next end on top. */
typedef struct open_node {
    int64_t end_ns;
    uint32_t order; /* order of starts: of equal ends the one that started later is first */
    orr_node_id node;
} open_node;

typedef struct point_writer {
    orr_compiler *c;
    orr_lane_id lane;
    uint32_t first;       /* first point of the lane */
    uint32_t n_transfers; /* open communications */
    uint32_t n_executing; /* open nodes that execute, and do not only name a stretch of time */
    uint32_t order;
    orr_array(open_node) open;
} point_writer;

static bool ends_before(const open_node *a, const open_node *b)
{
    return a->end_ns != b->end_ns ? a->end_ns < b->end_ns : a->order > b->order;
}

static bool open_push(point_writer *l, open_node node)
{
    if (!orr_array_push(&l->open, node))
        return false;
    size_t i = l->open.n - 1;
    for (open_node *at = l->open.at; i > 0 && ends_before(&node, &at[(i - 1) / 2]); i = (i - 1) / 2)
        at[i] = at[(i - 1) / 2];
    l->open.at[i] = node;
    return true;
}

static open_node open_pop(point_writer *l)
{
    open_node *at = l->open.at;
    const open_node top = at[0], last = at[--l->open.n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < l->open.n; i = child) {
        if (child + 1 < l->open.n && ends_before(&at[child + 1], &at[child]))
            child++;
        if (!ends_before(&at[child], &last))
            break;
        at[i] = at[child];
    }
    at[i] = last;
    return top;
}

/* Adds a point to the thread, with the recorded distance from the previous one, unless a
 * transfer takes up that time. */
static orr_point_id lay_point(point_writer *l, int64_t at_ns, orr_node_id inside)
{
    orr_compiler *c = l->c;
    const orr_point_id p = c->n_points++;
    c->at_ns[p] = at_ns;
    c->inside[p] = inside;
    c->chain_ns[p] = p == l->first ? -1 : l->n_transfers > 0 ? 0 : at_ns - c->at_ns[p - 1];
    c->chain_kind[p] = l->n_transfers > 0   ? ORR_EDGE_LATENCY
                       : l->n_executing > 0 ? ORR_EDGE_HOST_WORK
                                            : ORR_EDGE_HOST_GAP;
    return p;
}

/* What posts a transfer. Gloo's record of a send begins when its data have left already, and that
 * of a receive when it is waited for: the partner can go on from the moment that the operator
 * posted it, which the transfer depends on (kineto/host_comm.c). */
static orr_node_id posted_by(const orr_compiler *c, orr_node_id v)
{
    const orr_graph *g = c->g;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_CONTROL && g->lane[g->dep[k]] == g->lane[v] &&
            (g->kind[v] == ORR_NODE_SEND || g->kind[v] == ORR_NODE_RECV) &&
            c->start_point[g->dep[k]] < c->start_point[v])
            return g->dep[k];
    return v;
}

static bool add_transfer(orr_compiler *c, orr_node_id v)
{
    const orr_graph *g = c->g;
    const orr_node_id by = posted_by(c, v);
    return orr_array_push(&c->works,
                          ((orr_sim_work){
                              .node = v,
                              .start = c->start_point[by],
                              .work_class = ORR_WORK_HOST,
                              .device = -1,
                              .duration_ns = c->duration_ns[v],
                              .posted_ns = g->start_ns[by],
                              .comm = g->flags[v] & ORR_FLAG_COMM ? g->detail[v] : ORR_NONE,
                          }));
}

/* Was the thread idle before this start until something else happened? Its own program then does
 * not determine the start. */
static bool wait_before(point_writer *l, orr_node_id v, orr_point_id p)
{
    orr_compiler *c = l->c;
    const orr_graph *g = c->g;
    bool led_to = false, waited = false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        orr_dependency_edge tie;
        if (!orr_compile_dependency(c, v, k, &tie) || !tie.hands_over)
            continue;
        led_to = true;
        waited |= p > l->first && tie.moment_ns != ORR_TIME_NONE &&
                  tie.moment_ns + tie.lag_ns > c->at_ns[p - 1];
    }
    if (waited)
        c->chain_ns[p] = 0;
    else if (p == l->first && led_to)
        c->chain_ns[p] = -2; /* nothing to anchor to */
    return led_to;
}

/* Does a node of the main thread start within [from, to]? */
static bool main_acts(const orr_compiler *c, int64_t from_ns, int64_t to_ns)
{
    const orr_graph *g = c->g;
    uint32_t low = g->lane_first[c->main], high = g->lane_first[c->main + 1];
    const uint32_t end = high;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->start_ns[g->lane_node[middle]] < from_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && g->start_ns[g->lane_node[low]] <= to_ns;
}

/* Did the thread sleep until something that is not recorded woke it? Idle time between two nodes
 * of the main thread is its own; on another thread without an open node somebody else asked for
 * work, unless the main thread did nothing in the meantime: it waits for this one. */
static bool slept_before(const point_writer *l, orr_point_id p)
{
    static const int64_t sleep_ns = 1000000; /* assumed: longer than a thread idles by itself */
    const orr_compiler *c = l->c;
    return l->lane != c->main && p > l->first && l->open.n == 0 && c->chain_ns[p] >= sleep_ns &&
           main_acts(c, c->at_ns[p - 1], c->at_ns[p]);
}

/* Recordings of 2020 have the steps of the profiler as operators. */
static bool is_step(const orr_graph *g, orr_node_id v)
{
    static const char prefix[] = "ProfilerStep";
    return strncmp(orr_graph_str(g, g->name[v]), prefix, sizeof prefix - 1) == 0;
}

static bool executes(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] != ORR_NODE_ANNOTATION && g->kind[v] != ORR_NODE_OVERHEAD &&
           g->kind[v] != ORR_NODE_OTHER && !is_step(g, v);
}

static bool lay_start(point_writer *l, orr_node_id v)
{
    orr_compiler *c = l->c;
    const orr_graph *g = c->g;
    const orr_node_id inside = l->open.n > 0 ? l->open.at[0].node : ORR_NONE;
    const orr_point_id p = lay_point(l, g->start_ns[v], inside);
    c->start_point[v] = p;
    if (!wait_before(l, v, p) && slept_before(l, p)) {
        c->chain_ns[p] = 0;
        if (!orr_array_push(&c->woken, p))
            return false;
    }
    if (g->kind[v] == ORR_NODE_MEMORY) {
        c->end_point[v] = p;
        return true;
    }
    l->n_executing += executes(g, v);
    if (orr_communicates(g, v)) {
        l->n_transfers++;
        if (!add_transfer(c, v))
            return false;
    }
    return open_push(l, (open_node){orr_recorded_end(g, v), l->order++, v});
}

/* Marks the end of a call that blocks on a device, or of an operator that waits for a transfer. */
static bool wait_until(point_writer *l, orr_node_id v, orr_point_id p)
{
    orr_compiler *c = l->c;
    const orr_graph *g = c->g;
    bool waits = false, waited = false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        orr_dependency_edge tie;
        if (!orr_compile_dependency(c, v, k, &tie) || !tie.to_end)
            continue;
        waits = true;
        waited |= tie.moment_ns == ORR_TIME_NONE || tie.moment_ns > c->at_ns[p - 1];
    }
    const char *name = orr_graph_str(g, g->name[v]);
    const bool calls = !waits && g->kind[v] == ORR_NODE_RUNTIME;
    const bool queries = calls && orr_is_query(name);
    const bool unexplained = calls && orr_is_synchronisation(name);
    const orr_blocking_call wait = {.call = v,
                                    .point = p,
                                    .own_ns = waited ? -1 : c->chain_ns[p],
                                    .keeps = !waits,
                                    .waits = waits || unexplained,
                                    .queries = queries};
    return (!waits && !queries && !unexplained) || orr_array_push(&c->waits, wait);
}

static bool lay_end(point_writer *l, open_node ended)
{
    orr_compiler *c = l->c;
    const orr_node_id v = ended.node;
    const orr_point_id p = lay_point(l, ended.end_ns, v);
    c->end_point[v] = p;
    l->n_executing -= executes(c->g, v);
    if (orr_communicates(c->g, v))
        l->n_transfers--;
    return wait_until(l, v, p);
}

static bool lay_thread(point_writer *l)
{
    const orr_graph *g = l->c->g;
    for (uint32_t i = g->lane_first[l->lane]; i < g->lane_first[l->lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] == ORR_TIME_NONE)
            continue;
        while (l->open.n > 0 && l->open.at[0].end_ns <= g->start_ns[v])
            if (!lay_end(l, open_pop(l)))
                return false;
        if (!lay_start(l, v))
            return false;
    }
    while (l->open.n > 0)
        if (!lay_end(l, open_pop(l)))
            return false;
    return true;
}

/* A thread without times: two points a node, and its duration between them. */
static bool lay_untimed(point_writer *l)
{
    orr_compiler *c = l->c;
    const orr_graph *g = c->g;
    for (uint32_t i = g->lane_first[l->lane]; i < g->lane_first[l->lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        const orr_point_id start = c->n_points++, end = c->n_points++;
        const bool works = g->kind[v] >= ORR_NODE_COMPUTE && g->kind[v] <= ORR_NODE_MEM_STORE &&
                           g->kind[v] != ORR_NODE_SYNC && g->kind[v] != ORR_NODE_MEMORY;
        c->start_point[v] = start;
        c->end_point[v] = end;
        c->chain_ns[start] = -2;
        c->chain_ns[end] = works ? 0 : c->duration_ns[v] < 0 ? 0 : c->duration_ns[v];
        c->chain_kind[end] = works ? ORR_EDGE_LATENCY : ORR_EDGE_HOST_WORK;
        if (works && !add_transfer(c, v))
            return false;
    }
    return true;
}

/* The last point of the main thread at or before a time, or ORR_NONE. */
static orr_point_id main_point(const orr_compiler *c, int64_t at_ns)
{
    if (c->main == ORR_NONE)
        return ORR_NONE;
    uint32_t low = c->host_first[c->main], high = c->host_first[c->main + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->at_ns[middle] <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > c->host_first[c->main] ? low - 1 : ORR_NONE;
}

bool orr_compile_anchor(orr_compiler *c, orr_point_id point, int64_t at_ns)
{
    const bool on_main = c->main != ORR_NONE && point >= c->host_first[c->main] &&
                         point < c->host_first[c->main + 1];
    const orr_point_id from = on_main ? ORR_NONE : main_point(c, at_ns);
    if (from != ORR_NONE)
        return orr_compile_edge(c, from, point, at_ns - c->at_ns[from], ORR_EDGE_HOST_ANCHOR);
    c->floor_ns[point] = at_ns;
    return true;
}

/* The main thread: the one with the profiler's steps; without any, the one with the most nodes. */
static orr_lane_id main_thread(const orr_compiler *c)
{
    const orr_graph *g = c->g;
    static const char step[] = "ProfilerStep";
    orr_lane_id main = ORR_NONE;
    uint32_t most = 0;
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        const uint32_t first = g->lane_first[lane], end = g->lane_first[lane + 1];
        if (g->lanes[lane].kind != ORR_LANE_HOST || c->polls[lane])
            continue;
        for (uint32_t i = first; i < end; i++)
            if (g->kind[g->lane_node[i]] == ORR_NODE_ANNOTATION &&
                strncmp(orr_graph_str(g, g->name[g->lane_node[i]]), step, sizeof step - 1) == 0)
                return lane;
        if (end - first > most) {
            most = end - first;
            main = lane;
        }
    }
    return main;
}

static bool anchor_threads(orr_compiler *c)
{
    for (size_t i = 0; i < c->woken.n; i++)
        if (!orr_compile_anchor(c, c->woken.at[i], c->at_ns[c->woken.at[i]]))
            return false;
    for (orr_lane_id lane = 0; lane < c->g->n_lanes; lane++) {
        const orr_point_id first = c->host_first[lane];
        if (first < c->host_first[lane + 1] && c->chain_ns[first] == -1 &&
            !orr_compile_anchor(c, first, c->at_ns[first]))
            return false;
    }
    return true;
}

orr_status orr_compile_threads(orr_compiler *c)
{
    const orr_graph *g = c->g;
    point_writer l = {.c = c};
    bool done = true;
    c->main = main_thread(c);
    for (orr_lane_id lane = 0; lane < g->n_lanes && done; lane++) {
        c->host_first[lane] = c->n_points;
        l.lane = lane;
        l.first = c->n_points;
        l.n_transfers = l.n_executing = 0;
        if (g->lanes[lane].kind == ORR_LANE_HOST && !c->polls[lane])
            done = c->timed ? lay_thread(&l) : lay_untimed(&l);
    }
    orr_array_done(&l.open);
    c->host_first[g->n_lanes] = c->n_points;
    for (size_t i = 0; i < c->works.n; i++)
        c->works.at[i].end = c->end_point[c->works.at[i].node];
    done = done && (!c->timed || anchor_threads(c));
    return done ? ORR_OK : orr_fail_memory(c->err);
}
