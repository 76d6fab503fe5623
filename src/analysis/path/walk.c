/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/path/cause.h"
#include "base/alloc.h"

/* The walk: from what ends last, backward in time, always to the one thing that was waited for
 * longest. On a host thread that is what ran before, unless a call waited for device work
 * or another thread handed work over, later than that; at the start of device work it is the
 * latest of its launch, of what its stream did before and of the events it waited for; in a
 * matched communication it is the member that arrived last.
 *
 * What an annotation names is no work of its own: a thread that does nothing that executes is
 * between two operators, and that time is a wait of the one that follows.
 *
 * Every step goes to a moment that is not later, at a place not seen before, so the walk ends. It
 * looks once at each dependency of the nodes that it meets: O(path), after O(N) to lay down the
 * points of the threads. */

enum { SEEN_START = 1, SEEN_END = 2 };

static bool communicates_on_thread(const orr_graph *g, orr_node_id v)
{
    return orr_class_of_kind((orr_node_kind)g->kind[v]) == ORR_CLASS_COMMUNICATION &&
           g->lanes[g->lane[v]].kind == ORR_LANE_HOST;
}

static orr_status find_comms(orr_walker *w, orr_walk_rank *rank)
{
    const orr_graph *g = rank->view->graph;
    size_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += communicates_on_thread(g, v);
    orr_keyed *comms = orr_arena_array(w->scratch, orr_keyed, n);
    if (comms == NULL)
        return orr_fail_memory(w->err);
    n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (communicates_on_thread(g, v) && g->start_ns[v] != ORR_TIME_NONE)
            comms[n++] = (orr_keyed){.key = orr_end_ns(g, v), .id = v};
    rank->comms = comms;
    rank->n_comms = n;
    return orr_sort_keyed(comms, n, w->scratch, w->err);
}

static orr_status visit_rank(orr_walker *w, uint32_t graph)
{
    orr_walk_rank *rank = &w->ranks[graph];
    if (rank->seen_node != NULL)
        return ORR_OK;
    const orr_graph *g = rank->view->graph;
    const int64_t shift_ns = orr_view_job_ns(rank->view, 0);
    const orr_points_filter of = {.kinds = ORR_PATH_EXECUTES | ORR_PATH_NAMES,
                                  .from_ns = w->builder.start_ns - shift_ns,
                                  .to_ns = w->builder.end_ns - shift_ns};
    ORR_TRY(orr_points_build(g, &of, w->scratch, &rank->points, w->err));
    ORR_TRY(find_comms(w, rank));
    rank->seen_point = orr_arena_array(w->scratch, uint8_t, rank->points.n);
    rank->seen_node = orr_arena_array(w->scratch, uint8_t, g->n_nodes);
    return rank->seen_point == NULL || rank->seen_node == NULL ? orr_fail_memory(w->err) : ORR_OK;
}

static int64_t point_ns(const orr_walk_rank *rank, uint32_t point)
{
    return orr_view_job_ns(rank->view, rank->points.time_ns[point]);
}

static bool was_seen(const orr_walker *w, orr_path_place at)
{
    const orr_walk_rank *rank = &w->ranks[at.graph];
    if (at.where == ORR_PATH_PLACE_HOST)
        return rank->seen_point[at.point];
    return rank->seen_node[at.node] &
           (at.where == ORR_PATH_PLACE_DEVICE_END ? SEEN_END : SEEN_START);
}

static void mark_seen(orr_walker *w, orr_path_place at)
{
    orr_walk_rank *rank = &w->ranks[at.graph];
    if (at.where == ORR_PATH_PLACE_HOST)
        rank->seen_point[at.point] = 1;
    else
        rank->seen_node[at.node] |= at.where == ORR_PATH_PLACE_DEVICE_END ? SEEN_END : SEEN_START;
}

static orr_status add(orr_walker *w, uint32_t graph, orr_node_id v, orr_bound bound, bool wait,
                      int64_t from_ns)
{
    return orr_path_builder_add(&w->builder, graph, v, bound, wait, from_ns)
               ? ORR_OK
               : orr_fail_memory(w->err);
}

/* Explain [from, cursor) by a node that executes. In a matched communication the time before
 * the last arrival is a wait for it; where the walk may go there, it does: *ret_to is changed. */
static orr_status add_work(orr_walker *w, uint32_t graph, orr_node_id v, orr_bound bound,
                           int64_t from_ns, orr_path_place *ret_to)
{
    int64_t arrival_ns;
    orr_member last;
    if (!orr_last_arrival(w, graph, v, &arrival_ns, &last) || arrival_ns <= from_ns)
        return add(w, graph, v, bound, false, from_ns);
    const bool reached = arrival_ns <= w->builder.cursor_ns;
    ORR_TRY(add(w, graph, v, bound, false, arrival_ns));
    if (reached && w->ranks[last.graph].view != NULL) {
        ORR_TRY(visit_rank(w, last.graph));
        const orr_path_place there = orr_path_place_of(w, last.graph, last.node, false);
        if (there.where != ORR_PATH_PLACE_NONE && !was_seen(w, there)) {
            *ret_to = there;
            w->leads_to = ORR_NONE;
            return ORR_OK;
        }
    }
    return add(w, graph, v, ORR_BOUND_PEER, true, from_ns);
}

static orr_status step_device_end(orr_walker *w, orr_path_place *at)
{
    const uint32_t graph = at->graph;
    const orr_node_id v = at->node;
    at->where = ORR_PATH_PLACE_DEVICE_START;
    return add_work(w, graph, v, orr_bound_of_node(w->job->graphs[graph], v),
                    orr_walk_start_ns(w, graph, v), at);
}

static orr_status step_device_start(orr_walker *w, orr_path_place *at)
{
    const orr_path_place here = *at;
    const int64_t start_ns = orr_walk_start_ns(w, here.graph, here.node);
    orr_cause cause = orr_latest_cause(w, here.graph, here.node, false, start_ns);
    at->where = ORR_PATH_PLACE_NONE;
    if (cause.at_ns == INT64_MIN)
        return ORR_OK;
    if (start_ns - cause.at_ns >= w->queue_gap_ns) {
        if (orr_launch_of(w->job->graphs[here.graph], here.node) == ORR_NONE)
            return ORR_OK; /* it was launched, but the launch was not recorded */
        cause = orr_cause_without_launch(w, here, cause);
    }
    *at = cause.to;
    at->graph = here.graph;
    w->leads_to = here.node;
    at->node = cause.to.where == ORR_PATH_PLACE_NONE ? here.node : cause.to.node;
    return add(w, here.graph, here.node, cause.bound, true, cause.at_ns);
}

/* What the thread waited for elsewhere since it last executed something; or nowhere. */
static orr_cause cause_elsewhere(const orr_walker *w, orr_path_place at)
{
    const orr_walk_rank *rank = &w->ranks[at.graph];
    const orr_points *points = &rank->points;
    const int64_t now_ns = point_ns(rank, at.point);
    const bool of_end = points->end_at[at.node] == at.point;

    /* what only names a stretch of time does not keep a thread from waiting */
    const uint32_t work = points->work_before[at.point];
    const int64_t work_ns = work == ORR_NONE ? INT64_MIN : point_ns(rank, work);
    orr_cause cause = orr_latest_cause(w, at.graph, at.node, of_end, now_ns);
    if (cause.at_ns <= work_ns)
        cause.to.where = ORR_PATH_PLACE_NONE;
    if (cause.to.where == ORR_PATH_PLACE_NONE && !of_end && work != ORR_NONE &&
        now_ns - work_ns >= w->queue_gap_ns && !communicates_on_thread(rank->view->graph, at.node))
        cause = orr_cause_of_idle_thread(w, at, work_ns);
    return cause;
}

/* A communication that a dedicated thread takes up after idling was handed to it by another. */
static bool was_handed_over(const orr_walker *w, orr_path_place at)
{
    const orr_walk_rank *rank = &w->ranks[at.graph];
    const orr_points *points = &rank->points;
    return communicates_on_thread(rank->view->graph, at.node) &&
           points->start_at[at.node] == at.point && points->inside[at.point - 1] == ORR_NONE &&
           point_ns(rank, at.point) - point_ns(rank, at.point - 1) >= w->queue_gap_ns;
}

static bool is_between(const orr_graph *g, orr_node_id inside)
{
    return inside == ORR_NONE || orr_only_names(g, inside);
}

/* The node that executes next after this place, as far as the walk has seen. */
static orr_node_id what_follows(const orr_walker *w, orr_path_place here)
{
    const orr_graph *g = w->job->graphs[here.graph];
    return orr_only_names(g, here.node) && w->leads_to != ORR_NONE ? w->leads_to : here.node;
}

static orr_status step_host(orr_walker *w, orr_path_place *at)
{
    const orr_path_place here = *at;
    const orr_walk_rank *rank = &w->ranks[here.graph];
    if (!orr_only_names(rank->view->graph, here.node))
        w->leads_to = here.node;
    const orr_points *points = &rank->points;
    const orr_cause cause = cause_elsewhere(w, here);
    if (cause.to.where != ORR_PATH_PLACE_NONE) {
        *at = cause.to;
        return add(w, here.graph, what_follows(w, here), cause.bound, true, cause.at_ns);
    }
    const uint32_t before = here.point - 1;
    const orr_lane_id lane = rank->view->graph->lane[here.node];
    if (here.point == points->lane_first[lane] || was_handed_over(w, here)) {
        at->where = ORR_PATH_PLACE_NONE;
        return ORR_OK;
    }
    at->point = before;
    at->node = points->node[before];
    const orr_node_id inside = points->inside[before];
    if (is_between(rank->view->graph, inside))
        return add(w, here.graph, what_follows(w, here), (orr_bound)points->bound[before], true,
                   point_ns(rank, before));
    return add_work(w, here.graph, inside, (orr_bound)points->bound[before], point_ns(rank, before),
                    at);
}

/* Last point of a thread at or before the cursor, or ORR_NONE. */
static uint32_t point_before(const orr_walker *w, const orr_walk_rank *rank, orr_lane_id lane)
{
    const uint32_t first = rank->points.lane_first[lane];
    uint32_t low = first, high = rank->points.lane_first[lane + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (point_ns(rank, middle) <= w->builder.cursor_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low == first ? ORR_NONE : low - 1;
}

/* The first work of a thread, or device work without a launch: its cause was not recorded. The walk
 * continues with the last earlier work of the rank's threads. */
static orr_status resume(orr_walker *w, orr_path_place stuck, orr_path_place *at)
{
    const uint32_t graph = stuck.graph;
    orr_walk_rank *rank = &w->ranks[graph];
    const orr_points *points = &rank->points;
    at->where = ORR_PATH_PLACE_NONE;
    if (!orr_walk_may_scan_lanes(rank))
        return ORR_OK;
    uint32_t best = ORR_NONE;
    for (orr_lane_id lane = 0; lane < rank->view->graph->n_lanes; lane++) {
        const uint32_t p = point_before(w, rank, lane);
        if (p != ORR_NONE && !rank->seen_point[p] &&
            (best == ORR_NONE || points->time_ns[p] > points->time_ns[best]))
            best = p;
    }
    if (best == ORR_NONE)
        return ORR_OK;
    *at = (orr_path_place){
        .where = ORR_PATH_PLACE_HOST, .graph = graph, .node = points->node[best], .point = best};
    const orr_node_id inside = points->inside[best];
    if (is_between(rank->view->graph, inside))
        return add(w, graph, what_follows(w, stuck), ORR_BOUND_NONE, true, point_ns(rank, best));
    return add(w, graph, inside, (orr_bound)points->bound[best], false, point_ns(rank, best));
}

static orr_status step(orr_walker *w, orr_path_place *at)
{
    if (at->where == ORR_PATH_PLACE_NONE || was_seen(w, *at)) {
        at->where = ORR_PATH_PLACE_NONE;
        return ORR_OK;
    }
    mark_seen(w, *at);
    switch (at->where) {
    case ORR_PATH_PLACE_DEVICE_END:
        return step_device_end(w, at);
    case ORR_PATH_PLACE_DEVICE_START:
        return step_device_start(w, at);
    default:
        return step_host(w, at);
    }
}

static orr_status walk(orr_walker *w, orr_path_place at)
{
    while (w->builder.cursor_ns > w->builder.start_ns) {
        const orr_path_place from = at;
        ORR_TRY(step(w, &at));
        if (at.where == ORR_PATH_PLACE_NONE)
            ORR_TRY(resume(w, from, &at));
        if (at.where == ORR_PATH_PLACE_NONE)
            return add(w, from.graph, what_follows(w, from), ORR_BOUND_NONE, true,
                       w->builder.start_ns);
    }
    return ORR_OK;
}

/* The extent that all views together have to explain; the graph and node where it ends. */
static bool find_extent(const orr_view *views, size_t n, orr_path_builder *builder,
                        orr_path_place *ret_last)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        int64_t start_ns, end_ns;
        orr_node_id last;
        if (!orr_path_time_range(&views[i], &start_ns, &end_ns, &last))
            continue;
        if (!found || start_ns < builder->start_ns)
            builder->start_ns = start_ns;
        if (!found || end_ns > builder->end_ns) {
            builder->end_ns = end_ns;
            *ret_last = (orr_path_place){.graph = views[i].graph_id, .node = last};
        }
        found = true;
    }
    builder->cursor_ns = builder->end_ns;
    return found;
}

/* Size of what is walked on: two points a node, an edge between them and one a dependency. */
static void count_points(const orr_view *views, size_t n, orr_critical_path *ret)
{
    for (size_t i = 0; i < n; i++) {
        const orr_graph *g = views[i].graph;
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            if (g->start_ns[v] != ORR_TIME_NONE && orr_view_holds(&views[i], v)) {
                ret->n_nodes += 2;
                ret->n_edges += 1 + g->dep_first[v + 1] - g->dep_first[v];
            }
    }
}

orr_status orr_path_walk(const orr_job *job, const orr_view *views, size_t n, int64_t queue_gap_ns,
                         orr_arena *arena, orr_critical_path *ret, orr_error *err)
{
    orr_walker w = {.job = job,
                    .queue_gap_ns = queue_gap_ns,
                    .builder = {.job = job, .rank = n == 1 ? views[0].rank : ORR_NONE},
                    .leads_to = ORR_NONE,
                    .err = err};
    orr_critical_path path = {0};
    orr_status status = ORR_OK;
    orr_path_place last = {0};
    if (!find_extent(views, n, &w.builder, &last))
        goto done;
    count_points(views, n, &path);

    w.scratch = orr_arena_new(0, 0);
    if (w.scratch == NULL ||
        (w.ranks = orr_arena_array(w.scratch, orr_walk_rank, job->n_graphs)) == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < n; i++)
        w.ranks[views[i].graph_id].view = &views[i];
    ORR_TRY_OUT(status, visit_rank(&w, last.graph));
    ORR_TRY_OUT(status, walk(&w, orr_path_place_of(&w, last.graph, last.node, true)));
done:
    ORR_TRY_OUT(status, orr_path_builder_finish(&w.builder, arena, &path, err));
    *ret = path;
out:
    orr_path_builder_done(&w.builder);
    orr_arena_free(w.scratch);
    return status;
}
