/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

/* Points of device work. The start of a row follows from its launch, from the rows before it on the
 * stream, and from events that it waits for, each with a latency as lag. Where a launch is known,
 * only a tail wave may delay the start further. Where none is known and the row started later than
 * all of these allow, the rest is an unexplained gap, which is added to the lags; where nothing
 * leads to the row, it is anchored to the main thread. A dependency that the recording contradicts
 * is left out. */

static orr_point_id row_start(const orr_compiler *c, uint32_t row)
{
    return c->n_host + 2 * row;
}

static uint8_t class_of(const orr_graph *g, orr_node_id v)
{
    switch ((orr_node_kind)g->kind[v]) {
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return ORR_WORK_COMM;
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return ORR_WORK_MEMORY;
    default:
        return ORR_WORK_COMPUTE;
    }
}

static bool waits_for_event(const orr_compiler *c, orr_node_id v)
{
    orr_dependency_edge tie;
    for (uint32_t k = c->g->dep_first[v]; k < c->g->dep_first[v + 1]; k++)
        if (c->g->dep_kind[k] == ORR_DEP_EVENT && orr_compile_dependency(c, v, k, &tie))
            return true;
    return false;
}

/* A work that is itself a wait has no length where what it waits for is known. */
static int64_t duration_of(const orr_compiler *c, orr_lane_id lane, uint32_t row)
{
    const orr_node_id v = c->streams.node[row];
    if (c->g->kind[v] == ORR_NODE_SYNC &&
        (waits_for_event(c, v) || (row + 1 < c->streams.lane_first[lane + 1] &&
                                   waits_for_event(c, c->streams.node[row + 1]))))
        return 0;
    return c->duration_ns[v];
}

static bool add_work(orr_compiler *c, orr_lane_id lane, uint32_t row)
{
    const orr_graph *g = c->g;
    const orr_node_id v = c->streams.node[row];
    c->start_point[v] = row_start(c, row);
    c->end_point[v] = row_start(c, row) + 1;
    return orr_array_push(&c->works,
                          ((orr_sim_work){
                              .node = v,
                              .start = c->start_point[v],
                              .end = c->end_point[v],
                              .work_class = class_of(g, v),
                              .device = g->lanes[lane].device,
                              .duration_ns = duration_of(c, lane, row),
                              .comm = g->flags[v] & ORR_FLAG_COMM ? g->detail[v] : ORR_NONE,
                          }));
}

/* All that leads to the start of a row, as edges; and the recorded time from which all of it
 * allowed the start. */
typedef struct lead {
    size_t first_edge;
    int64_t ready_ns; /* INT64_MIN: nothing leads to it */
    bool called;      /* by a launch call */
} lead;

static void ready_by(lead *l, int64_t moment_ns, int64_t lag_ns)
{
    if (moment_ns != ORR_TIME_NONE && moment_ns < INT64_MAX - lag_ns &&
        moment_ns + lag_ns > l->ready_ns)
        l->ready_ns = moment_ns + lag_ns;
}

static bool follow_stream(orr_compiler *c, uint32_t row, lead *l)
{
    const orr_streams *s = &c->streams;
    for (uint32_t k = s->first[row]; k < s->first[row + 1] && !c->free_streams; k++) {
        const int64_t gap_ns = orr_compile_gap_after(c, s->before[k]);
        ready_by(l, orr_recorded_end(c->g, s->before[k]), gap_ns);
        if (!orr_compile_edge(c, row_start(c, s->row_of[s->before[k]]) + 1, row_start(c, row),
                              gap_ns, ORR_EDGE_LATENCY))
            return false;
    }
    return true;
}

static bool follow_ties(orr_compiler *c, uint32_t row, lead *l)
{
    const orr_graph *g = c->g;
    const orr_node_id v = c->streams.node[row];
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        orr_dependency_edge tie;
        if (!orr_compile_dependency(c, v, k, &tie))
            continue;
        ready_by(l, tie.moment_ns, tie.lag_ns);
        l->called |= orr_on_thread(g, tie.from);
        const uint32_t from = c->streams.row_of[tie.from];
        const orr_point_id at = from != ORR_NONE
                                    ? row_start(c, from) + tie.from_end
                                    : (tie.from_end ? c->end_point : c->start_point)[tie.from];
        if (!orr_compile_edge(c, at, row_start(c, row) + tie.to_end, tie.lag_ns, ORR_EDGE_LATENCY))
            return false;
    }
    return true;
}

/* An unexplained gap after all that leads to the row. */
static bool keep_gap(orr_compiler *c, const lead *l, int64_t gap_ns)
{
    for (size_t i = l->first_edge; i < c->edges.n; i++) {
        c->edges.at[i].lag_ns += gap_ns;
        c->edges.at[i].kind = ORR_EDGE_DEVICE_GAP;
    }
    return true;
}

/* Work inside of a CUDA graph began sooner than one kernel follows another elsewhere, or before its
 * predecessor had ended: it keeps its recorded distance from the end, or from the start, of that.
 */
static bool pull_ahead(orr_compiler *c, uint32_t row, const lead *l)
{
    const orr_streams *s = &c->streams;
    const int64_t start = c->g->start_ns[s->node[row]];
    size_t edge = l->first_edge;
    for (uint32_t k = s->first[row]; k < s->first[row + 1] && !c->free_streams; k++, edge++) {
        orr_raw_edge *e = &c->edges.at[edge];
        const orr_node_id u = s->before[k];
        const int64_t after_end = start - orr_recorded_end(c->g, u);
        if (c->g->start_ns[u] == ORR_TIME_NONE || after_end >= e->lag_ns)
            continue;
        e->kind = ORR_EDGE_DEVICE_GAP;
        e->lag_ns = after_end >= 0 ? after_end : start - c->g->start_ns[u];
        if (after_end < 0)
            e->from--; /* the start of the predecessor */
        if (e->lag_ns < 0)
            e->lag_ns = 0;
    }
    return true;
}

static bool compile_row(orr_compiler *c, orr_lane_id lane, uint32_t row)
{
    const int64_t start = c->g->start_ns[c->streams.node[row]];
    lead l = {c->edges.n, INT64_MIN, false};
    if (!add_work(c, lane, row) || !follow_stream(c, row, &l) || !follow_ties(c, row, &l))
        return false;
    if (start == ORR_TIME_NONE)
        return true;
    if (l.called && !c->streams.inner[row])
        return orr_compile_tail_wave(c, lane, row, l.ready_ns);
    if (l.ready_ns == INT64_MIN)
        return orr_compile_anchor(c, row_start(c, row), start);
    const int64_t gap_ns = start - l.ready_ns;
    if (gap_ns <= 0 && !(c->streams.inner[row] && gap_ns < 0))
        return true;
    return gap_ns < 0 ? pull_ahead(c, row, &l) : keep_gap(c, &l, gap_ns);
}

orr_status orr_compile_devices(orr_compiler *c)
{
    const orr_streams *s = &c->streams;
    if (!orr_array_reserve(&c->edges, 2 * (size_t)s->n) || !orr_array_reserve(&c->works, s->n))
        return orr_fail_memory(c->err);
    for (orr_lane_id lane = 0; lane < c->g->n_lanes; lane++)
        for (uint32_t row = s->lane_first[lane]; row < s->lane_first[lane + 1]; row++)
            if (!compile_row(c, lane, row))
                return orr_fail_memory(c->err);
    return ORR_OK;
}

/* Entries on a stream that are no work: annotations last from the first to the last work in
 * them; records of synchronisation as long as the call. */
static void shadow_call(orr_compiler *c, orr_node_id v)
{
    for (uint32_t k = c->g->dep_first[v]; k < c->g->dep_first[v + 1]; k++)
        if (c->g->dep_kind[k] == ORR_DEP_LAUNCH) {
            c->start_point[v] = c->start_point[c->g->dep[k]];
            c->end_point[v] = c->end_point[c->g->dep[k]];
        }
}

/* The first row of [from, to) that starts at or after a time. */
static uint32_t row_from(const orr_compiler *c, uint32_t from, uint32_t to, int64_t at_ns)
{
    while (from < to) {
        const uint32_t middle = from + (to - from) / 2;
        if (c->g->start_ns[c->streams.node[middle]] < at_ns)
            from = middle + 1;
        else
            to = middle;
    }
    return from;
}

static void shadow_work(orr_compiler *c, orr_lane_id lane, orr_node_id v)
{
    const uint32_t first = c->streams.lane_first[lane], last = c->streams.lane_first[lane + 1];
    const uint32_t from = row_from(c, first, last, c->g->start_ns[v]);
    const uint32_t to = row_from(c, from, last, orr_recorded_end(c->g, v));
    if (from < to) {
        c->start_point[v] = row_start(c, from);
        c->end_point[v] = row_start(c, to - 1) + 1;
    }
}

orr_status orr_compile_device_annotations(orr_compiler *c)
{
    const orr_graph *g = c->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (orr_on_thread(g, v))
            continue;
        if (g->kind[v] == ORR_NODE_SYNC && c->streams.row_of[v] == ORR_NONE)
            shadow_call(c, v);
        else if (g->kind[v] == ORR_NODE_DEVICE_ANNOTATION && g->start_ns[v] != ORR_TIME_NONE)
            shadow_work(c, g->lane[v], v);
    }
    return ORR_OK;
}
