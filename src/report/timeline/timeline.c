/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/timeline.h"

#include <stdlib.h>
#include <string.h>

/* Of so many neighbours in a lane the longest are kept when there are too many. */
enum { RUN = 64 };

typedef struct build {
    const orr_job *job;
    orr_arena *arena;
    double keep_frac; /* of the events of each run */
    orr_timeline_event *events;
    orr_timeline_row *rows;
    uint32_t **event_of;
    uint32_t n_events, n_rows, room_rows;
    uint64_t thinned, untimed;
    orr_node_id *lane_nodes; /* of the lane at hand, those that are shown */
    uint8_t *depths;         /* and their rows                            */
} build;

typedef struct lane_order {
    uint16_t lane;
    uint8_t kind;
    int32_t device;
    int64_t tid;
    uint32_t count;
} lane_order;

/* Instants of the allocator are a curve, not boxes; metadata has no duration to show. */
static bool is_drawn(const orr_graph *graph, orr_node_id node)
{
    return graph->kind[node] != ORR_NODE_MEMORY && graph->kind[node] != ORR_NODE_META;
}

/* Streams first, by device and number; then threads, the busiest first. */
static int by_display(const void *a, const void *b)
{
    const lane_order *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind == ORR_LANE_STREAM ? -1 : 1;
    if (x->kind == ORR_LANE_STREAM && x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->kind == ORR_LANE_STREAM && x->tid != y->tid)
        return x->tid < y->tid ? -1 : 1;
    if (x->count != y->count)
        return x->count > y->count ? -1 : 1;
    return (x->lane > y->lane) - (x->lane < y->lane);
}

static lane_order *lanes_by_display(const orr_graph *graph, orr_arena *arena)
{
    lane_order *order = orr_arena_array(arena, lane_order, graph->n_lanes);
    if (!order)
        return NULL;
    for (uint32_t l = 0; l < graph->n_lanes; l++)
        order[l] =
            (lane_order){(uint16_t)l, graph->lanes[l].kind, graph->lanes[l].device,
                         graph->lanes[l].tid, graph->lane_first[l + 1] - graph->lane_first[l]};
    qsort(order, graph->n_lanes, sizeof *order, by_display);
    return order;
}

static int longer_first(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x < y) - (x > y);
}

/* Of nodes[0..n), in place, the `keep` longest, in their order; returns how many. */
static uint32_t keep_longest(const orr_graph *graph, orr_node_id *nodes, uint32_t n, uint32_t keep)
{
    int64_t longest[RUN];
    uint32_t w = 0, ties = keep;
    if (n <= keep)
        return n;
    if (keep == 0)
        return 0;
    for (uint32_t i = 0; i < n; i++)
        longest[i] = graph->duration_ns[nodes[i]];
    qsort(longest, n, sizeof longest[0], longer_first);
    const int64_t least = longest[keep - 1];
    for (uint32_t i = 0; i < n; i++)
        ties -= graph->duration_ns[nodes[i]] > least;
    for (uint32_t i = 0; i < n; i++) {
        const int64_t duration = graph->duration_ns[nodes[i]];
        if (duration > least || (duration == least && ties > 0)) {
            ties -= duration == least;
            nodes[w++] = nodes[i];
        }
    }
    return w;
}

/* The nodes of a lane that are shown, to b->lane_nodes. */
static uint32_t pick_nodes(build *b, const orr_graph *graph, uint32_t lane)
{
    uint32_t n = 0, run = 0;
    double owed = 0; /* fractions of an event carried from run to run */
    for (uint32_t i = graph->lane_first[lane]; i < graph->lane_first[lane + 1]; i++) {
        const orr_node_id node = graph->lane_node[i];
        if (!is_drawn(graph, node) || graph->start_ns[node] == ORR_TIME_NONE)
            continue;
        b->lane_nodes[n++] = node;
        const bool last = i + 1 == graph->lane_first[lane + 1];
        if (b->keep_frac < 1 && (n - run == RUN || last)) {
            owed += (n - run) * b->keep_frac;
            const uint32_t keep = (uint32_t)owed, had = n;
            owed -= keep;
            n = run + keep_longest(graph, b->lane_nodes + run, n - run, keep);
            b->thinned += had - n;
            run = n;
        }
    }
    return n;
}

/* Row of each node: the first whose last event has ended. Children start after their
 * parents and before the parents' ends, so they fall below them. */
static uint32_t assign_rows(build *b, const orr_graph *graph, uint32_t n,
                            uint32_t counts[ORR_TIMELINE_DEPTH_MAX])
{
    int64_t ends[ORR_TIMELINE_DEPTH_MAX];
    uint32_t rows = 0;
    memset(counts, 0, ORR_TIMELINE_DEPTH_MAX * sizeof counts[0]);
    for (uint32_t i = 0; i < n; i++) {
        const orr_node_id node = b->lane_nodes[i];
        const int64_t start = graph->start_ns[node];
        uint32_t row = 0;
        while (row < rows && ends[row] > start)
            row++;
        b->depths[i] = (uint8_t)(row < ORR_TIMELINE_DEPTH_MAX ? row : UINT8_MAX);
        if (row == ORR_TIMELINE_DEPTH_MAX) {
            b->thinned++;
            continue;
        }
        ends[row] = start + graph->duration_ns[node];
        counts[row]++;
        rows = row == rows ? row + 1 : rows;
    }
    return rows;
}

static orr_status add_row(build *b, orr_timeline_row row, orr_error *err)
{
    if (b->n_rows == b->room_rows) {
        const uint32_t room = b->room_rows ? b->room_rows * 2 : 64;
        orr_timeline_row *rows = orr_arena_array(b->arena, orr_timeline_row, room);
        if (!rows)
            return orr_fail_memory(err);
        if (b->n_rows > 0)
            memcpy(rows, b->rows, b->n_rows * sizeof *rows);
        b->rows = rows;
        b->room_rows = room;
    }
    b->rows[b->n_rows++] = row;
    return ORR_OK;
}

/* Numbers the events of a lane, row by row. */
static orr_status add_lane(build *b, uint32_t g, uint16_t lane, orr_error *err)
{
    const orr_graph *graph = b->job->graphs[g];
    const uint32_t n = pick_nodes(b, graph, lane);
    uint32_t counts[ORR_TIMELINE_DEPTH_MAX], next[ORR_TIMELINE_DEPTH_MAX];
    const uint32_t rows = assign_rows(b, graph, n, counts);
    for (uint32_t r = 0; r < rows; r++) {
        next[r] = b->n_events;
        ORR_TRY(add_row(b, (orr_timeline_row){g, lane, (uint16_t)r, b->n_events, counts[r]}, err));
        b->n_events += counts[r];
    }
    for (uint32_t i = 0; i < n; i++)
        if (b->depths[i] != UINT8_MAX) {
            const uint32_t event = next[b->depths[i]]++;
            b->events[event] = (orr_timeline_event){g, b->lane_nodes[i]};
            b->event_of[g][b->lane_nodes[i]] = event;
        }
    return ORR_OK;
}

static orr_status add_graph(build *b, uint32_t g, orr_error *err)
{
    const orr_graph *graph = b->job->graphs[g];
    lane_order *order = lanes_by_display(graph, b->arena);
    b->event_of[g] = orr_arena_array(b->arena, uint32_t, graph->n_nodes);
    if (!order || !b->event_of[g])
        return orr_fail_memory(err);
    memset(b->event_of[g], 0xFF, graph->n_nodes * sizeof(uint32_t)); /* ORR_NONE */
    for (uint32_t l = 0; l < graph->n_lanes; l++)
        ORR_TRY(add_lane(b, g, order[l].lane, err));
    return ORR_OK;
}

/* Events there are, and scratch for the largest lane. */
static orr_status prepare(build *b, uint32_t max_events, orr_error *err)
{
    uint64_t drawn = 0;
    uint32_t widest = 0;
    for (uint32_t g = 0; g < b->job->n_graphs; g++) {
        const orr_graph *graph = b->job->graphs[g];
        for (uint32_t v = 0; v < graph->n_nodes; v++) {
            const bool timed = graph->start_ns[v] != ORR_TIME_NONE;
            drawn += timed && is_drawn(graph, v);
            b->untimed += !timed && is_drawn(graph, v);
        }
        for (uint32_t l = 0; l < graph->n_lanes; l++)
            if (graph->lane_first[l + 1] - graph->lane_first[l] > widest)
                widest = graph->lane_first[l + 1] - graph->lane_first[l];
    }
    /* a hair less, so that rounding never gives one event more than there is room for */
    b->keep_frac = drawn > max_events ? (double)max_events / (double)drawn * (1 - 1e-9) : 1;
    b->events =
        orr_arena_array(b->arena, orr_timeline_event, drawn < max_events ? drawn : max_events);
    b->event_of = orr_arena_array(b->arena, uint32_t *, b->job->n_graphs);
    b->lane_nodes = orr_arena_array(b->arena, orr_node_id, widest);
    b->depths = orr_arena_array(b->arena, uint8_t, widest);
    return b->events && b->event_of && b->lane_nodes && b->depths ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_timeline_build(const orr_job *job, uint32_t max_events, orr_arena *arena,
                              orr_timeline_view *ret, orr_error *err)
{
    build b = {.job = job, .arena = arena};
    ORR_TRY(prepare(&b, max_events, err));
    for (uint32_t g = 0; g < job->n_graphs; g++)
        ORR_TRY(add_graph(&b, g, err));
    *ret = (orr_timeline_view){.events = b.events,
                               .rows = b.rows,
                               .event_of = (const uint32_t *const *)b.event_of,
                               .n_events = b.n_events,
                               .n_rows = b.n_rows,
                               .thinned = b.thinned,
                               .untimed = b.untimed};
    return ORR_OK;
}
