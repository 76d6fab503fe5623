/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/path/cause.h"

enum { LOOKS_A_NODE = 8 };

static const orr_cause no_cause = {.at_ns = INT64_MIN};

int64_t orr_walk_start_ns(const orr_walker *w, uint32_t graph, orr_node_id v)
{
    return orr_job_start_ns(w->job, graph, v);
}

static int64_t walk_end_ns(const orr_walker *w, uint32_t graph, orr_node_id v)
{
    return orr_walk_start_ns(w, graph, v) + w->job->graphs[graph]->duration_ns[v];
}

static bool on_stream(const orr_graph *g, orr_node_id v)
{
    return g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
}

orr_path_place orr_path_place_of(const orr_walker *w, uint32_t graph, orr_node_id v, bool end)
{
    orr_path_place place = {.graph = graph, .node = v};
    if (on_stream(w->job->graphs[graph], v)) {
        place.where = end ? ORR_PATH_PLACE_DEVICE_END : ORR_PATH_PLACE_DEVICE_START;
    } else {
        const orr_points *points = &w->ranks[graph].points;
        place.point = end ? points->end_at[v] : points->start_at[v];
        place.where = place.point == ORR_NONE ? ORR_PATH_PLACE_NONE : ORR_PATH_PLACE_HOST;
    }
    return place;
}

/* Dependency i of the start (or of the end) of a node as a cause. A host call enqueues work from
 * its start on; what is called runs inside its caller. */
static orr_cause cause_of_dep(const orr_walker *w, uint32_t graph, uint32_t i, bool of_end)
{
    static const int strengths[] = {
        [ORR_DEP_CONTROL] = 0, [ORR_DEP_LAUNCH] = 1, [ORR_DEP_THREAD] = 2, [ORR_DEP_HANDOFF] = 2,
        [ORR_DEP_STREAM] = 2,  [ORR_DEP_SYNC] = 2,   [ORR_DEP_DATA] = 3,   [ORR_DEP_EVENT] = 3,
    };
    const orr_graph *g = w->job->graphs[graph];
    const orr_node_id u = g->dep[i];
    const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[i];
    if (g->start_ns[u] == ORR_TIME_NONE || of_end != (kind == ORR_DEP_SYNC))
        return no_cause;
    const bool from_start = kind == ORR_DEP_LAUNCH || kind == ORR_DEP_CONTROL;
    return (orr_cause){.at_ns =
                           from_start ? orr_walk_start_ns(w, graph, u) : walk_end_ns(w, graph, u),
                       .strength = strengths[kind],
                       .bound = kind == ORR_DEP_LAUNCH ? ORR_BOUND_LAUNCH : ORR_BOUND_KERNEL_GAP,
                       .to = orr_path_place_of(w, graph, u, !from_start)};
}

orr_cause orr_latest_cause(const orr_walker *w, uint32_t graph, orr_node_id v, bool of_end,
                           int64_t limit_ns)
{
    const orr_graph *g = w->job->graphs[graph];
    const bool device = on_stream(g, v);
    orr_cause latest = no_cause;
    for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++) {
        if (!device && g->lane[g->dep[i]] == g->lane[v])
            continue; /* the points of the thread know */
        orr_cause cause = cause_of_dep(w, graph, i, of_end);
        if (cause.at_ns > limit_ns)
            cause.at_ns = limit_ns;
        if (cause.at_ns > latest.at_ns ||
            (cause.at_ns == latest.at_ns && cause.strength > latest.strength))
            latest = cause;
    }
    if (!device)
        latest.bound = ORR_BOUND_CPU;
    return latest;
}

bool orr_walk_may_scan_lanes(orr_walk_rank *rank)
{
    const orr_graph *g = rank->view->graph;
    rank->looks += g->n_lanes;
    return rank->looks <= LOOKS_A_NODE * ((size_t)g->n_nodes + g->n_lanes);
}

/* The last work of a stream that ended at or before this time (on the axis of the graph), or
 * ORR_NONE. A stream runs in order; of what overlaps all the same only the last two are seen. */
static orr_node_id ended_before(const orr_graph *g, orr_lane_id lane, int64_t time_ns)
{
    const uint32_t first = g->lane_first[lane];
    uint32_t low = first, high = g->lane_first[lane + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->start_ns[g->lane_node[middle]] <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    const uint32_t end = low - first > 2 ? low - 2 : first;
    for (uint32_t i = low; i > end; i--) {
        const orr_node_id v = g->lane_node[i - 1];
        if (orr_class_of_kind((orr_node_kind)g->kind[v]) != ORR_CLASS_NONE &&
            orr_end_ns(g, v) <= time_ns)
            return v;
    }
    return ORR_NONE;
}

orr_cause orr_cause_without_launch(orr_walker *w, orr_path_place start, orr_cause known)
{
    orr_walk_rank *rank = &w->ranks[start.graph];
    const orr_graph *g = rank->view->graph;
    const orr_lane *stream = &g->lanes[g->lane[start.node]];
    const int64_t start_ns = orr_walk_start_ns(w, start.graph, start.node);
    orr_cause cause = known;
    if (cause.bound != ORR_BOUND_LAUNCH)
        cause.bound = ORR_BOUND_NONE;
    if (!orr_walk_may_scan_lanes(rank))
        return cause;
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        if (g->lanes[lane].kind != ORR_LANE_STREAM || g->lanes[lane].device != stream->device)
            continue;
        const orr_node_id v = ended_before(g, lane, g->start_ns[start.node]);
        const int64_t end_ns = v == ORR_NONE ? INT64_MIN : walk_end_ns(w, start.graph, v);
        if (end_ns > cause.at_ns && start_ns - end_ns < w->queue_gap_ns)
            cause = (orr_cause){.at_ns = end_ns,
                                .bound = ORR_BOUND_KERNEL_GAP,
                                .to = orr_path_place_of(w, start.graph, v, true)};
    }
    return cause;
}

orr_cause orr_cause_of_idle_thread(const orr_walker *w, orr_path_place at, int64_t silent_ns)
{
    const orr_walk_rank *rank = &w->ranks[at.graph];
    const orr_graph *g = rank->view->graph;
    const int64_t wake_ns = rank->points.time_ns[at.point];
    size_t low = 0, high = rank->n_comms; /* the first that ends after the thread woke */
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (rank->comms[middle].key <= wake_ns)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return no_cause;
    const orr_node_id v = rank->comms[low - 1].id;
    const int64_t end_ns = walk_end_ns(w, at.graph, v);
    const int64_t woke_ns = orr_view_job_ns(rank->view, wake_ns);
    if (g->lane[v] == g->lane[at.node] || end_ns <= silent_ns ||
        woke_ns - end_ns > end_ns - silent_ns)
        return no_cause;
    return (orr_cause){
        .at_ns = end_ns, .bound = ORR_BOUND_CPU, .to = orr_path_place_of(w, at.graph, v, true)};
}

bool orr_last_arrival(const orr_walker *w, uint32_t graph, orr_node_id v, int64_t *ret_at_ns,
                      orr_member *ret_last)
{
    const uint32_t *match_of = w->job->match_of[graph];
    if (match_of == NULL || match_of[v] == ORR_NONE)
        return false;
    const orr_match *match = &w->job->matches[match_of[v]];
    int64_t latest_ns = orr_walk_start_ns(w, graph, v);
    bool later = false;
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member *m = &w->job->members[i];
        if (w->job->graphs[m->graph]->start_ns[m->node] == ORR_TIME_NONE ||
            orr_walk_start_ns(w, m->graph, m->node) <= latest_ns)
            continue;
        latest_ns = orr_walk_start_ns(w, m->graph, m->node);
        *ret_last = *m;
        later = true;
    }
    *ret_at_ns = latest_ns;
    return later;
}
