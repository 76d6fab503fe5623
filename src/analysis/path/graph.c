/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/path/graph.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "graph/pollers.h"

static bool takes_part(const orr_graph *g, const orr_points_filter *of, orr_node_id v)
{
    const int64_t start = g->start_ns[v], duration = g->duration_ns[v];
    if (!((of->kinds >> g->kind[v]) & 1) || start == ORR_TIME_NONE ||
        duration < of->duration_min_ns || start >= of->to_ns)
        return false;
    return of->starts_inside ? start >= of->from_ns : start + duration >= of->from_ns;
}

bool orr_only_names(const orr_graph *g, orr_node_id v)
{
    static const char step[] = "ProfilerStep";
    return g->kind[v] == ORR_NODE_ANNOTATION ||
           (g->kind[v] == ORR_NODE_HOST_OP &&
            strncmp(orr_graph_str(g, g->name[v]), step, sizeof step - 1) == 0);
}

/* PyTorch's data loader calls its annotation "enumerate(DataLoader)#...". */
static bool loads_data(const orr_graph *g, orr_node_id v)
{
    static const char loader[] = "enumerate(DataLoader)";
    return strncmp(orr_graph_str(g, g->name[v]), loader, sizeof loader - 1) == 0;
}

/* The points as they are laid down, and the nodes that have begun and not ended. */
typedef struct layer {
    const orr_graph *g;
    const bool *polls; /* shape (L): threads to be left out; or NULL */
    int64_t *time_ns;
    orr_node_id *node, *inside;
    uint8_t *bound;
    uint32_t *start_at, *end_at, *work_before;
    uint32_t n;
    uint32_t last_work; /* point of an executing node of this lane, or ORR_NONE */
    struct open {
        orr_node_id node;
        bool loading;
        int64_t end_ns;
    } * open; /* shape (n_open), outermost first */
    size_t n_open;
} layer;

static void lay_point(layer *l, int64_t time_ns, orr_node_id v, uint32_t *at)
{
    l->time_ns[l->n] = time_ns;
    l->node[l->n] = v;
    l->inside[l->n] = ORR_NONE;
    l->bound[l->n] = ORR_BOUND_HOST_GAP;
    if (l->n_open > 0) {
        const struct open *inner = &l->open[l->n_open - 1];
        l->inside[l->n] = inner->node;
        l->bound[l->n] = inner->loading ? ORR_BOUND_DATA_LOADING
                         : orr_only_names(l->g, inner->node)
                             ? ORR_BOUND_HOST_GAP
                             : (uint8_t)orr_bound_of_node(l->g, inner->node);
    }
    l->work_before[l->n] = l->last_work;
    if (((ORR_PATH_EXECUTES >> l->g->kind[v]) & 1) && !orr_only_names(l->g, v))
        l->last_work = l->n;
    at[v] = l->n++;
}

static void close_until(layer *l, int64_t time_ns)
{
    while (l->n_open > 0 && l->open[l->n_open - 1].end_ns <= time_ns) {
        const struct open last = l->open[--l->n_open];
        lay_point(l, last.end_ns, last.node, l->end_at);
    }
}

static void open_node(layer *l, orr_node_id v)
{
    struct open node = {v, loads_data(l->g, v), orr_end_ns(l->g, v)};
    if (l->n_open > 0) {
        const struct open *outer = &l->open[l->n_open - 1];
        node.loading |= outer->loading;
        if (node.end_ns > outer->end_ns)
            node.end_ns = outer->end_ns;
    }
    l->open[l->n_open++] = node;
    lay_point(l, l->g->start_ns[v], v, l->start_at);
}

/* In the order in which nodes of one thread stand: by start, the longer first. */
static bool begins_first(const orr_graph *g, orr_node_id a, orr_node_id b)
{
    return g->start_ns[a] != g->start_ns[b] ? g->start_ns[a] < g->start_ns[b]
                                            : g->duration_ns[a] > g->duration_ns[b];
}

static void lay_lane(layer *l, const orr_points_filter *of, orr_lane_id lane)
{
    const orr_graph *g = l->g;
    const bool joins = of->joins && lane == of->into;
    uint32_t i = g->lane_first[lane], k = joins ? g->lane_first[of->joined] : 0;
    const uint32_t end = g->lane_first[lane + 1], last = joins ? g->lane_first[of->joined + 1] : 0;
    l->last_work = ORR_NONE;
    while (i < end || k < last) {
        const bool other =
            k < last && (i == end || begins_first(g, g->lane_node[k], g->lane_node[i]));
        const orr_node_id v = g->lane_node[other ? k++ : i++];
        if (!takes_part(g, of, v))
            continue;
        close_until(l, g->start_ns[v]);
        open_node(l, v);
    }
    close_until(l, INT64_MAX);
}

/* Nodes that take part on all host lanes, and the most on one of them. */
static uint32_t count_nodes(const orr_graph *g, const orr_points_filter *of, uint32_t *ret_most)
{
    uint32_t n = 0, most = 0;
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        if (g->lanes[lane].kind != ORR_LANE_HOST)
            continue;
        const uint32_t before = n;
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++)
            n += takes_part(g, of, g->lane_node[i]);
        if (n - before > most)
            most = n - before;
    }
    *ret_most = most;
    return n;
}

orr_status orr_points_build(const orr_graph *g, const orr_points_filter *of, orr_arena *arena,
                            orr_points *ret, orr_error *err)
{
    const bool *polls = of->with_pollers ? NULL : orr_lanes_that_poll(g, arena);
    uint32_t most;
    if (!of->with_pollers && polls == NULL)
        return orr_fail_memory(err);
    const size_t n = 2 * (size_t)count_nodes(g, of, &most);
    if (n >= ORR_NONE)
        return orr_fail(err, ORR_LIMIT, "%zu host nodes are too many for a critical path", n / 2);
    uint32_t *lane_first = orr_arena_array(arena, uint32_t, (size_t)g->n_lanes + 1);
    layer l = {.g = g,
               .polls = polls,
               .time_ns = orr_arena_array(arena, int64_t, n),
               .node = orr_arena_array(arena, orr_node_id, n),
               .inside = orr_arena_array(arena, orr_node_id, n),
               .bound = orr_arena_array(arena, uint8_t, n),
               .work_before = orr_arena_array(arena, uint32_t, n),
               .start_at = orr_arena_array(arena, uint32_t, g->n_nodes),
               .end_at = orr_arena_array(arena, uint32_t, g->n_nodes),
               .open = orr_malloc((2 * (size_t)most + 1) * sizeof *l.open)};
    if (lane_first == NULL || l.time_ns == NULL || l.node == NULL || l.inside == NULL ||
        l.bound == NULL || l.work_before == NULL || l.start_at == NULL || l.end_at == NULL ||
        l.open == NULL) {
        orr_free(l.open);
        return orr_fail_memory(err);
    }
    memset(l.start_at, 0xff, g->n_nodes * sizeof *l.start_at);
    memset(l.end_at, 0xff, g->n_nodes * sizeof *l.end_at);
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        lane_first[lane] = l.n;
        if (g->lanes[lane].kind == ORR_LANE_HOST && !(l.polls && l.polls[lane]) &&
            !(of->joins && lane == of->joined))
            lay_lane(&l, of, lane);
    }
    lane_first[g->n_lanes] = l.n;
    orr_free(l.open);
    *ret = (orr_points){.n = l.n,
                        .time_ns = l.time_ns,
                        .node = l.node,
                        .inside = l.inside,
                        .bound = l.bound,
                        .work_before = l.work_before,
                        .lane_first = lane_first,
                        .start_at = l.start_at,
                        .end_at = l.end_at};
    return ORR_OK;
}

orr_bound orr_bound_of_node(const orr_graph *g, orr_node_id v)
{
    switch (orr_class_of_kind((orr_node_kind)g->kind[v])) {
    case ORR_CLASS_COMPUTATION:
        return g->lanes[g->lane[v]].kind == ORR_LANE_STREAM ? ORR_BOUND_COMPUTE : ORR_BOUND_CPU;
    case ORR_CLASS_COMMUNICATION:
        return ORR_BOUND_COMMUNICATION;
    case ORR_CLASS_MEMORY:
        return ORR_BOUND_MEMORY;
    default:
        return ORR_BOUND_CPU;
    }
}

bool orr_path_time_range(const orr_view *view, int64_t *ret_start_ns, int64_t *ret_end_ns,
                         orr_node_id *ret_last)
{
    const orr_graph *g = view->graph;
    orr_node_id last = ORR_NONE;
    orr_lane_id lane = ORR_NONE;
    bool polls = false;
    int64_t start = INT64_MAX, end = INT64_MIN;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->lane[v] != lane) {
            lane = g->lane[v];
            polls = orr_lane_only_polls(g, lane);
        }
        if (!((ORR_PATH_EXECUTES >> g->kind[v]) & 1) || g->start_ns[v] == ORR_TIME_NONE || polls ||
            orr_only_names(g, v) || !orr_view_holds(view, v))
            continue;
        if (g->start_ns[v] < start)
            start = g->start_ns[v];
        if (orr_end_ns(g, v) > end) {
            end = orr_end_ns(g, v);
            last = v;
        }
    }
    if (last == ORR_NONE)
        return false;
    if (view->windowed && view->from_ns != INT64_MIN && view->from_ns < start)
        start = view->from_ns;
    *ret_start_ns = orr_view_job_ns(view, start);
    *ret_end_ns = orr_view_job_ns(view, end);
    *ret_last = last;
    return true;
}

/* Does the piece go on where the last one that was added, the next in time, begins? */
static bool joins(const orr_path_piece *later, const orr_path_piece *piece)
{
    return later->graph == piece->graph && later->node == piece->node &&
           later->bound == piece->bound && later->wait == piece->wait;
}

bool orr_path_builder_add(orr_path_builder *builder, uint32_t graph, orr_node_id node,
                          orr_bound bound, bool wait, int64_t from_ns)
{
    if (from_ns < builder->start_ns)
        from_ns = builder->start_ns;
    if (from_ns >= builder->cursor_ns)
        return true;
    const orr_graph *g = builder->job->graphs[graph];
    const uint32_t rank =
        builder->rank == ORR_NONE ? builder->job->rank_of_graph[graph] : builder->rank;
    const orr_path_piece piece = {.rank = rank,
                                  .graph = graph,
                                  .node = node,
                                  .name = orr_graph_str(g, g->name[node]),
                                  .bound = (uint8_t)bound,
                                  .wait = wait,
                                  .from_ns = from_ns,
                                  .to_ns = builder->cursor_ns};
    builder->cursor_ns = from_ns;
    if (builder->n > 0 && joins(&builder->at[builder->n - 1], &piece)) {
        builder->at[builder->n - 1].from_ns = from_ns;
        return true;
    }
    return orr_array_push(builder, piece);
}

orr_status orr_path_builder_finish(orr_path_builder *builder, orr_arena *arena,
                                   orr_critical_path *ret, orr_error *err)
{
    orr_path_piece *pieces = orr_arena_array(arena, orr_path_piece, builder->n);
    if (pieces == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < builder->n; i++) {
        pieces[i] = builder->at[builder->n - 1 - i];
        ret->bound_ns[pieces[i].bound] += pieces[i].to_ns - pieces[i].from_ns;
    }
    ret->pieces = pieces;
    ret->n_pieces = builder->n;
    ret->start_ns = builder->start_ns;
    ret->end_ns = builder->end_ns;
    return ORR_OK;
}

void orr_path_builder_done(orr_path_builder *builder)
{
    orr_array_done(builder);
}
