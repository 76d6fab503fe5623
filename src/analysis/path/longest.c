/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "analysis/path/graph.h"
#include "base/alloc.h"
#include "base/array.h"

/* The longest path by the rules of HolisticTraceAnalysis (hta/analyzers/critical_path_analysis.py,
 * 2026), which sees a recording as this graph: the start and end of each host operator, runtime
 * call and launched device work are points; edges run along each thread, through device
 * work, from a launch or from the previous work of the stream to its start, and from device work to
 * the end of a call that waited for it. Where only one thread has nodes of autograd, and only one
 * other of a forward pass, both are one. It differs in working in ns, where HTA rounds to us. */

typedef struct edge {
    uint32_t from, to; /* points */
    orr_node_id node;  /* that the time belongs to */
    uint8_t bound;     /* orr_bound; NONE: no weight */
    bool wait;
} edge;

typedef struct finder {
    const orr_view *view;
    const orr_graph *g;
    orr_points points;
    uint32_t n;          /* host points, then start and end of each device node */
    uint32_t *slot;      /* shape (N): the start of a device node as a point, or ORR_NONE */
    orr_node_id *device; /* shape ((n - points.n) / 2) */
    bool synced;         /* cuda_sync was recorded */
    struct {
        edge *at;
        size_t n, room;
    } edges;
    uint32_t *edge_first; /* shape (n + 1): edges by where they lead */
    int64_t *dist_ns;     /* shape (n): longest way there */
    uint32_t *best;       /* shape (n): its last edge, or ORR_NONE */
    orr_arena *scratch;
    orr_error *err;
} finder;

/* HTA gives up the order of a stream over longer gaps: KERNEL_KERNEL_DELAY_THRESHOLD_US. */
static const int64_t gap_max_ns = 1000 * 1000;

static bool name_in(const orr_graph *g, orr_node_id v, const char *const *names)
{
    const char *name = orr_graph_str(g, g->name[v]);
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

/* Calls whose own time HTA takes for waiting, and those it counts as launches. */
static const char *const waiting_calls[] = {"cudaDeviceSynchronize",
                                            "cudaStreamSynchronize",
                                            "cudaEventQuery",
                                            "cudaEventSynchronize",
                                            "cudaMemcpy",
                                            NULL};
static const char *const launch_calls[] = {
    "cudaLaunchKernel",    "cudaLaunchKernelExC",
    "cuLaunchKernel",      "cudaMemcpyAsync",
    "cudaMemsetAsync",     "runFunction - job_prep_and_submit_for_execution",
    "hipLaunchKernel",     "hipExtModuleLaunchKernel",
    "hipMemsetAsync",      "hipMemcpyAsync",
    "hipMemcpyWithStream", NULL};

static int64_t time_of(const finder *f, uint32_t point)
{
    if (point < f->points.n)
        return f->points.time_ns[point];
    const uint32_t at = point - f->points.n;
    const orr_node_id v = f->device[at / 2];
    return at % 2 == 0 ? f->g->start_ns[v] : orr_end_ns(f->g, v);
}

static int64_t weight_of(const finder *f, const edge *e)
{
    if (e->bound == ORR_BOUND_NONE)
        return 0;
    const int64_t weight = time_of(f, e->to) - time_of(f, e->from);
    return weight > 0 ? weight : 0;
}

static orr_status add_edge(finder *f, edge e)
{
    return orr_array_push(&f->edges, e) ? ORR_OK : orr_fail_memory(f->err);
}

/* The only thread with operators or annotations whose name holds a word; ORR_NONE: none or several.
 */
static orr_lane_id only_thread_with(const orr_view *view, const char *word)
{
    const orr_graph *g = view->graph;
    orr_lane_id found = ORR_NONE;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if ((g->kind[v] != ORR_NODE_HOST_OP && g->kind[v] != ORR_NODE_ANNOTATION) ||
            g->lane[v] == found || !orr_view_holds(view, v) ||
            strstr(orr_graph_str(g, g->name[v]), word) == NULL)
            continue;
        if (found != ORR_NONE)
            return ORR_NONE;
        found = g->lane[v];
    }
    return found;
}

static orr_status find_points(finder *f)
{
    const orr_graph *g = f->g;
    const orr_lane_id backward = only_thread_with(f->view, "autograd");
    const orr_lane_id forward = only_thread_with(f->view, "forward");
    const orr_points_filter of = {.kinds = ORR_PATH_EXECUTES,
                                  .from_ns = f->view->from_ns,
                                  .to_ns = f->view->to_ns,
                                  .starts_inside = true,
                                  .with_pollers = true,
                                  .duration_min_ns = 1,
                                  .joins = backward != ORR_NONE && forward != ORR_NONE &&
                                           backward != forward,
                                  .joined = backward,
                                  .into = forward};
    ORR_TRY(orr_points_build(g, &of, f->scratch, &f->points, f->err));
    f->slot = orr_arena_array(f->scratch, uint32_t, g->n_nodes);
    f->device = orr_arena_array(f->scratch, orr_node_id, g->n_nodes);
    if (f->slot == NULL || f->device == NULL)
        return orr_fail_memory(f->err);
    f->n = f->points.n;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        f->slot[v] = ORR_NONE;
        f->synced |= g->kind[v] == ORR_NODE_SYNC;
        const orr_node_id call = orr_graph_on_device(g, v) ? orr_launch_of(g, v) : ORR_NONE;
        if (call == ORR_NONE || f->points.start_at[call] == ORR_NONE || g->kind[v] == ORR_NODE_SYNC)
            continue;
        if (f->n >= ORR_NONE - 2)
            return orr_fail(f->err, ORR_LIMIT, "too many nodes for a critical path");
        f->device[(f->n - f->points.n) / 2] = v;
        f->slot[v] = f->n;
        f->n += 2;
    }
    return ORR_OK;
}

static orr_status add_sync_edges(finder *f, orr_node_id call, uint32_t end_point)
{
    const orr_graph *g = f->g;
    for (uint32_t i = g->dep_first[call]; i < g->dep_first[call + 1]; i++) {
        const uint32_t from = f->slot[g->dep[i]];
        if (g->dep_kind[i] == ORR_DEP_SYNC && from != ORR_NONE)
            ORR_TRY(add_edge(f, (edge){.from = from + 1,
                                       .to = end_point,
                                       .node = call,
                                       .bound = ORR_BOUND_NONE,
                                       .wait = true}));
    }
    return ORR_OK;
}

static orr_status add_host_edges(finder *f, orr_lane_id lane)
{
    const orr_points *points = &f->points;
    for (uint32_t p = points->lane_first[lane]; p < points->lane_first[lane + 1]; p++) {
        const orr_node_id v = points->node[p];
        const bool waits = points->end_at[v] == p && name_in(f->g, v, waiting_calls);
        if (p > points->lane_first[lane]) {
            const orr_node_id inside = points->inside[p - 1];
            edge e = {.from = p - 1, .to = p, .node = inside, .bound = ORR_BOUND_CPU};
            if (points->bound[p - 1] == ORR_BOUND_DATA_LOADING)
                e.bound = ORR_BOUND_DATA_LOADING;
            if (inside == ORR_NONE || waits) {
                e.node = v;
                e.bound = ORR_BOUND_NONE;
                e.wait = true;
            }
            ORR_TRY(add_edge(f, e));
        }
        if (waits && f->synced)
            ORR_TRY(add_sync_edges(f, v, p));
    }
    return ORR_OK;
}

/* The events that device work waited for, as edges; the latest end of them. */
static orr_status add_event_edges(finder *f, orr_node_id v, int64_t *ret_latest_ns)
{
    const orr_graph *g = f->g;
    *ret_latest_ns = INT64_MIN;
    for (uint32_t i = g->dep_first[v]; f->synced && i < g->dep_first[v + 1]; i++) {
        const orr_node_id u = g->dep[i];
        if (g->dep_kind[i] != ORR_DEP_EVENT || f->slot[u] == ORR_NONE)
            continue;
        if (orr_end_ns(g, u) > *ret_latest_ns)
            *ret_latest_ns = orr_end_ns(g, u);
        ORR_TRY(add_edge(f, (edge){.from = f->slot[u] + 1,
                                   .to = f->slot[v],
                                   .node = v,
                                   .bound = ORR_BOUND_NONE,
                                   .wait = true}));
    }
    return ORR_OK;
}

/* Whether the stream was idle from the call that launched v until v began. */
static bool launched_into_empty(const finder *f, orr_node_id v, orr_node_id next)
{
    const orr_graph *g = f->g;
    if (!name_in(g, orr_launch_of(g, v), launch_calls))
        return false;
    const orr_node_id next_call = next == ORR_NONE ? ORR_NONE : orr_launch_of(g, next);
    return next_call == ORR_NONE || g->start_ns[next_call] >= g->start_ns[v];
}

/* Adds the edges of device work that follows `before` (or ORR_NONE) on its stream. */
static orr_status add_device_edges(finder *f, orr_node_id v, orr_node_id before, orr_node_id next)
{
    const orr_graph *g = f->g;
    const uint32_t start = f->slot[v];
    ORR_TRY(add_edge(f, (edge){.from = start,
                               .to = start + 1,
                               .node = v,
                               .bound = (uint8_t)orr_bound_of_node(g, v)}));
    int64_t event_ns;
    ORR_TRY(add_event_edges(f, v, &event_ns));

    const orr_node_id call = orr_launch_of(g, v);
    const int64_t before_ns = before == ORR_NONE ? INT64_MIN : orr_end_ns(g, before);
    const int64_t call_ns = g->start_ns[call];
    edge e = {.to = start, .node = v, .wait = true};
    if (before_ns < call_ns && event_ns < call_ns && launched_into_empty(f, v, next)) {
        e.from = f->points.start_at[call];
        e.bound = ORR_BOUND_LAUNCH;
    } else if (before != ORR_NONE && (event_ns == INT64_MIN || event_ns < before_ns) &&
               g->start_ns[v] - before_ns <= gap_max_ns) {
        e.from = f->slot[before] + 1;
        e.bound = ORR_BOUND_KERNEL_GAP;
    } else {
        return ORR_OK;
    }
    return add_edge(f, e);
}

static orr_status add_stream_edges(finder *f, orr_lane_id lane)
{
    const orr_graph *g = f->g;
    const uint32_t end = g->lane_first[lane + 1];
    orr_node_id before = ORR_NONE;
    for (uint32_t i = g->lane_first[lane]; i < end; i++) {
        const orr_node_id v = g->lane_node[i];
        if (f->slot[v] == ORR_NONE)
            continue;
        uint32_t next = i + 1;
        while (next < end && (!orr_graph_on_device(g, g->lane_node[next]) ||
                              g->kind[g->lane_node[next]] == ORR_NODE_SYNC))
            next++;
        ORR_TRY(add_device_edges(f, v, before, next < end ? g->lane_node[next] : ORR_NONE));
        before = v;
    }
    return ORR_OK;
}

/* Sorts the edges by their target, stably. */
static orr_status index_edges(finder *f)
{
    if (f->edges.n >= ORR_NONE)
        return orr_fail(f->err, ORR_LIMIT, "too many dependencies for a critical path");
    f->edge_first = orr_arena_array(f->scratch, uint32_t, (size_t)f->n + 2);
    edge *sorted = orr_malloc((f->edges.n + 1) * sizeof *sorted);
    if (f->edge_first == NULL || sorted == NULL) {
        orr_free(sorted);
        return orr_fail_memory(f->err);
    }
    uint32_t *next = f->edge_first + 1; /* becomes the first of the following point */
    for (size_t i = 0; i < f->edges.n; i++)
        next[f->edges.at[i].to + 1]++;
    for (uint32_t p = 0; p < f->n; p++)
        next[p + 1] += next[p];
    for (size_t i = 0; i < f->edges.n; i++)
        sorted[next[f->edges.at[i].to]++] = f->edges.at[i];
    orr_array_done(&f->edges);
    f->edges.at = sorted;
    f->edges.n = f->edges.room = f->edge_first[f->n];
    return ORR_OK;
}

/* Longest path to every point by depth-first search along incoming edges, with an explicit stack.
 * Contradictory times could close a cycle; the edge that would is left out. */
enum { NEW, OPEN, DONE };
static orr_status measure(finder *f)
{
    f->dist_ns = orr_arena_array(f->scratch, int64_t, f->n);
    f->best = orr_arena_array(f->scratch, uint32_t, f->n);
    uint8_t *state = orr_arena_array(f->scratch, uint8_t, f->n);
    uint32_t *next = orr_arena_array(f->scratch, uint32_t, f->n);
    uint32_t *stack = orr_arena_array(f->scratch, uint32_t, f->n);
    if (f->dist_ns == NULL || f->best == NULL || state == NULL || next == NULL || stack == NULL)
        return orr_fail_memory(f->err);
    for (uint32_t root = 0; root < f->n; root++) {
        uint32_t depth = 0;
        if (state[root] == NEW)
            stack[depth++] = root;
        while (depth > 0) {
            const uint32_t p = stack[depth - 1];
            if (state[p] == NEW) {
                state[p] = OPEN;
                next[p] = f->edge_first[p];
                f->best[p] = ORR_NONE;
            }
            if (next[p] == f->edge_first[p + 1]) {
                state[p] = DONE;
                depth--;
                continue;
            }
            const edge *e = &f->edges.at[next[p]];
            if (state[e->from] == NEW) {
                stack[depth++] = e->from;
                continue;
            }
            const int64_t dist = orr_saturating_sum(f->dist_ns[e->from], weight_of(f, e));
            if (state[e->from] == DONE && (f->best[p] == ORR_NONE || dist > f->dist_ns[p])) {
                f->dist_ns[p] = dist;
                f->best[p] = next[p];
            }
            next[p]++;
        }
    }
    return ORR_OK;
}

/* Of equally distant points the latest: it may have waited at the end. */
static uint32_t farthest(const finder *f)
{
    uint32_t best = 0;
    for (uint32_t p = 1; p < f->n; p++)
        if (f->dist_ns[p] > f->dist_ns[best] ||
            (f->dist_ns[p] == f->dist_ns[best] && time_of(f, p) >= time_of(f, best)))
            best = p;
    return best;
}

static orr_node_id node_of(const finder *f, uint32_t point)
{
    return point < f->points.n ? f->points.node[point] : f->device[(point - f->points.n) / 2];
}

/* The path as pieces; `builder` has its extent. */
static orr_status lay_out(const finder *f, orr_path_builder *builder)
{
    const uint32_t graph = f->view->graph_id;
    uint32_t p = farthest(f);
    bool ok = orr_path_builder_add(builder, graph, node_of(f, p), ORR_BOUND_NONE, true,
                                   orr_view_job_ns(f->view, time_of(f, p)));
    while (ok && f->best[p] != ORR_NONE) {
        const edge *e = &f->edges.at[f->best[p]];
        p = e->from;
        ok = orr_path_builder_add(builder, graph, e->node, (orr_bound)e->bound, e->wait,
                                  orr_view_job_ns(f->view, time_of(f, p)));
    }
    ok = ok && orr_path_builder_add(builder, graph, node_of(f, p), ORR_BOUND_NONE, true,
                                    builder->start_ns);
    return ok ? ORR_OK : orr_fail_memory(f->err);
}

static orr_status find_path(finder *f, orr_path_builder *builder)
{
    ORR_TRY(find_points(f));
    if (f->n == 0)
        return ORR_OK;
    for (orr_lane_id lane = 0; lane < f->g->n_lanes; lane++)
        ORR_TRY(add_host_edges(f, lane));
    for (orr_lane_id lane = 0; lane < f->g->n_lanes; lane++)
        if (f->g->lanes[lane].kind == ORR_LANE_STREAM)
            ORR_TRY(add_stream_edges(f, lane));
    ORR_TRY(index_edges(f));
    ORR_TRY(measure(f));
    return lay_out(f, builder);
}

orr_status orr_path_longest(const orr_view *view, orr_arena *arena, orr_critical_path *ret,
                            orr_error *err)
{
    finder f = {.view = view, .g = view->graph, .scratch = orr_arena_new(0, 0), .err = err};
    orr_path_builder builder = {.job = view->job, .rank = view->rank};
    orr_critical_path path = {0};
    orr_status status = ORR_OK;
    orr_node_id last;
    if (f.scratch == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (orr_path_time_range(view, &builder.start_ns, &builder.end_ns, &last)) {
        builder.cursor_ns = builder.end_ns;
        ORR_TRY_OUT(status, find_path(&f, &builder));
    } else {
        builder.start_ns = builder.end_ns = builder.cursor_ns = 0;
    }
    path.n_nodes = f.n;
    path.n_edges = f.edges.n;
    ORR_TRY_OUT(status, orr_path_builder_finish(&builder, arena, &path, err));
    *ret = path;
out:
    orr_path_builder_done(&builder);
    orr_array_done(&f.edges);
    orr_arena_free(f.scratch);
    return status;
}
