/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

/* Launch queues: a stream holds a limited number of launches, and a call that makes one more
 * blocks until the oldest starts. The limit is a constant of the machine. Some entries are not
 * in a recording (events, lost records), so a launch into a queue that is full but for one part
 * in 16 counts as having waited, and its own time is taken from calls of the same name. Assumed. */
enum { NEARLY_FULL_PARTS = 16 };

static orr_point_id row_start(const orr_compiler *c, uint32_t row)
{
    return c->n_host + 2 * row;
}

/* Was the queue nearly full when the row was launched? */
static bool waited(const orr_compiler *c, uint32_t row, uint32_t in_lane)
{
    const orr_streams *s = &c->streams;
    const uint32_t nearly = c->queue_depth - c->queue_depth / NEARLY_FULL_PARTS;
    const orr_node_id call = s->launch[row];
    return in_lane >= nearly && call != ORR_NONE && orr_on_thread(c->g, call) &&
           s->start_ns[row - nearly] != ORR_TIME_NONE &&
           s->start_ns[row - nearly] > c->g->start_ns[call];
}

/* An edge from the start of the oldest work in the queue to the return of the call, unless the
 * recording contradicts it. */
static bool hold_back(orr_compiler *c, uint32_t row)
{
    const orr_streams *s = &c->streams;
    const uint32_t oldest = row - c->queue_depth;
    const orr_node_id call = s->launch[row];
    if (s->launch[oldest] == ORR_NONE || (s->start_ns[oldest] != ORR_TIME_NONE &&
                                          s->start_ns[oldest] > orr_recorded_end(c->g, call)))
        return true;
    return orr_compile_edge(c, row_start(c, oldest), c->end_point[call], 0, ORR_EDGE_LATENCY);
}

static bool queue_lane(orr_compiler *c, uint32_t first, uint32_t end)
{
    bool any = false;
    for (uint32_t row = first; row < end && !any; row++)
        any = waited(c, row, row - first);
    for (uint32_t row = first; row < end; row++) {
        const orr_node_id call = c->streams.launch[row];
        if (call == ORR_NONE || !orr_on_thread(c->g, call) || c->end_point[call] == ORR_NONE)
            continue;
        const bool full = waited(c, row, row - first);
        const orr_point_id p = c->end_point[call];
        const orr_blocking_call wait = {
            .call = call, .point = p, .own_ns = full ? -1 : c->chain_ns[p], .keeps = !full};
        if ((any && !orr_array_push(&c->waits, wait)) ||
            (row - first >= c->queue_depth && !hold_back(c, row)))
            return false;
    }
    return true;
}

orr_status orr_compile_launch_queues(orr_compiler *c)
{
    const orr_streams *s = &c->streams;
    for (orr_lane_id lane = 0; lane < c->g->n_lanes && c->timed; lane++) {
        const uint32_t first = s->lane_first[lane], end = s->lane_first[lane + 1];
        /* A shorter lane can never fill the queue. */
        if (end - first >= c->queue_depth - c->queue_depth / NEARLY_FULL_PARTS &&
            !queue_lane(c, first, end))
            return orr_fail_memory(c->err);
    }
    return ORR_OK;
}
