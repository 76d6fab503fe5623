/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/streams.h"

#include <string.h>

#include "base/array.h"

/* Is the node one of the four records that Kineto draws on a stream for calls of the host? */
static bool is_sync_record(const orr_graph *g, orr_node_id v)
{
    static const char *const names[] = {"Stream Wait Event", "Stream Sync", "Event Sync",
                                        "Context Sync"};
    const char *name = orr_graph_str(g, g->name[v]);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

bool orr_occupies(const orr_graph *g, orr_node_id v)
{
    const uint8_t kind = g->kind[v];
    return !orr_on_thread(g, v) &&
           ((kind >= ORR_NODE_COMPUTE && kind <= ORR_NODE_SET) || kind == ORR_NODE_MEM_LOAD ||
            kind == ORR_NODE_MEM_STORE || (kind == ORR_NODE_SYNC && !is_sync_record(g, v)));
}

static orr_node_id launch_of(const orr_graph *g, orr_node_id v)
{
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_LAUNCH)
            return g->dep[k];
    return ORR_NONE;
}

typedef struct finder {
    const orr_graph *g;
    orr_node_id *node, *launch;
    int64_t *start_ns;
    uint32_t *first, *row_of;
    uint32_t n;
    orr_array(orr_node_id) before;
    orr_array(uint32_t) running; /* rows without a successor so far */
} finder;

/* May `row`, which starts later, run concurrently with `other`? */
static bool beside(const finder *f, uint32_t other, uint32_t row)
{
    const orr_graph *g = f->g;
    const orr_node_id u = f->node[other], v = f->node[row];
    if (g->start_ns[u] == ORR_TIME_NONE || g->start_ns[v] == ORR_TIME_NONE)
        return false;
    const int64_t end_u = orr_recorded_end(g, u), end_v = orr_recorded_end(g, v);
    const int64_t overlap = (end_u < end_v ? end_u : end_v) - g->start_ns[v];
    const int64_t shorter =
        g->duration_ns[u] < g->duration_ns[v] ? g->duration_ns[u] : g->duration_ns[v];
    if (overlap <= shorter / 2)
        return false;
    return f->launch[other] == f->launch[row];
}

static bool add_before(finder *f, uint32_t row, uint32_t other)
{
    if (f->start_ns[row] != ORR_TIME_NONE && f->start_ns[other] > f->start_ns[row])
        f->start_ns[row] = f->start_ns[other];
    return orr_array_push(&f->before, f->node[other]);
}

/* Work that runs beside other work has the predecessors of that work. */
static bool inherit(finder *f, uint32_t row, uint32_t other)
{
    for (uint32_t k = f->first[other]; k < f->first[other + 1]; k++)
        if (!add_before(f, row, f->row_of[f->before.at[k]]))
            return false;
    return true;
}

static bool follow_running(finder *f, uint32_t row)
{
    enum { MOST_RUNNING = 128 }; /* above what a device runs at once; bounds broken recordings */
    size_t kept = 0;
    const size_t before = f->before.n;
    const uint32_t first_running = f->running.n > 0 ? f->running.at[0] : ORR_NONE;
    for (size_t i = 0; i < f->running.n; i++) {
        const uint32_t other = f->running.at[i];
        if (kept < MOST_RUNNING && beside(f, other, row))
            f->running.at[kept++] = other;
        else if (!add_before(f, row, other))
            return false;
    }
    f->running.n = kept;
    if (f->before.n == before && first_running != ORR_NONE && !inherit(f, row, first_running))
        return false;
    f->first[row + 1] = (uint32_t)f->before.n;
    return orr_array_push(&f->running, row);
}

static bool add_row(finder *f, orr_node_id v)
{
    const orr_graph *g = f->g;
    const uint32_t row = f->n++;
    const orr_node_id call = launch_of(g, v);
    f->node[row] = v;
    f->row_of[v] = row;
    f->launch[row] = call;
    f->start_ns[row] = g->start_ns[v];
    if (call != ORR_NONE && g->start_ns[v] != ORR_TIME_NONE && g->start_ns[call] > g->start_ns[v])
        f->start_ns[row] = g->start_ns[call];
    return follow_running(f, row);
}

static uint32_t count_work(const orr_graph *g)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += orr_occupies(g, v);
    return n;
}

/* Is the call cudaGraphLaunch or alike? Not all that these launch may be recorded. */
static bool launches_graph(const orr_graph *g, orr_node_id call)
{
    return strstr(orr_graph_str(g, g->name[call]), "GraphLaunch") != NULL;
}

/* Rows whose start the launch call does not determine: all work of a CUDA graph; of other calls,
 * all launched work but the first. */
static bool *find_inner(const finder *f, orr_arena *arena)
{
    const orr_graph *g = f->g;
    bool *inner = orr_arena_array(arena, bool, f->n);
    uint32_t *first = orr_arena_array(arena, uint32_t, g->n_nodes);
    if (inner == NULL || first == NULL)
        return NULL;
    memset(first, 0xff, g->n_nodes * sizeof *first);
    for (uint32_t row = 0; row < f->n; row++) {
        const orr_node_id call = f->launch[row];
        if (call == ORR_NONE)
            continue;
        const uint32_t other = first[call];
        const bool later =
            other != ORR_NONE && g->start_ns[f->node[row]] >= g->start_ns[f->node[other]];
        inner[row] = later || launches_graph(g, call);
        if (other != ORR_NONE && !later)
            inner[other] = true;
        if (!later)
            first[call] = row;
    }
    return inner;
}

orr_status orr_streams_find(const orr_graph *g, orr_arena *arena, orr_streams *ret, orr_error *err)
{
    const uint32_t n = count_work(g);
    uint32_t *lane_first = orr_arena_array(arena, uint32_t, (size_t)g->n_lanes + 1);
    finder f = {.g = g,
                .node = orr_arena_array(arena, orr_node_id, n),
                .launch = orr_arena_array(arena, orr_node_id, n),
                .start_ns = orr_arena_array(arena, int64_t, n),
                .first = orr_arena_array(arena, uint32_t, (size_t)n + 1),
                .row_of = orr_arena_array(arena, uint32_t, g->n_nodes)};
    orr_node_id *before = NULL;
    bool *inner = NULL;
    if (!lane_first || !f.node || !f.launch || !f.start_ns || !f.first || !f.row_of)
        goto out;
    memset(f.row_of, 0xff, g->n_nodes * sizeof *f.row_of);
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        lane_first[lane] = f.n;
        f.running.n = 0;
        if (g->lanes[lane].kind != ORR_LANE_STREAM)
            continue;
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++)
            if (orr_occupies(g, g->lane_node[i]) && !add_row(&f, g->lane_node[i]))
                goto out;
    }
    lane_first[g->n_lanes] = f.n;
    inner = find_inner(&f, arena);
    before = inner != NULL ? orr_arena_array(arena, orr_node_id, f.before.n) : NULL;
    if (before == NULL)
        goto out;
    if (f.before.n > 0)
        memcpy(before, f.before.at, f.before.n * sizeof *before);
    *ret = (orr_streams){.n = n,
                         .node = f.node,
                         .lane_first = lane_first,
                         .first = f.first,
                         .before = before,
                         .row_of = f.row_of,
                         .launch = f.launch,
                         .inner = inner,
                         .start_ns = f.start_ns};
out:
    orr_array_done(&f.before);
    orr_array_done(&f.running);
    return before == NULL ? orr_fail_memory(err) : ORR_OK;
}
