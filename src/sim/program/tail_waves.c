/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

/* Tail waves (wave quantisation). A device places thread blocks of kernels in the order in which
 * these became ready. While a kernel has more blocks than fit, blocks of the next kernel, from
 * another stream, wait until its last ones are placed: that kernel starts with the last wave.
 * The number of waves follows from the warps of a kernel and those that the device holds, which
 * Kineto records as "warps per SM" and "est. achieved occupancy %" of 64 warps a multiprocessor
 * (CUDA C++ Programming Guide, compute capabilities 7.0, 8.0 and 9.0). */
static const double most_warps = 64;

/* A delay beyond late_ns is more than a launch's usual variation; recorded clocks agree to
 * within skew_ns. Assumed. */
static const int64_t late_ns = 30000, skew_ns = 10000;

static double attr_number(const orr_graph *g, orr_node_id v, const char *name)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, v, name, &attr) || attr.list)
        return 0;
    switch ((orr_attr_kind)attr.kind) {
    case ORR_ATTR_DOUBLE:
        return *(const double *)attr.values;
    case ORR_ATTR_FLOAT:
        return (double)*(const float *)attr.values;
    case ORR_ATTR_INT64:
        return (double)*(const int64_t *)attr.values;
    case ORR_ATTR_INT32:
        return *(const int32_t *)attr.values;
    default:
        return 0;
    }
}

/* Length of the last wave of a kernel's blocks; -1: it does not fill the device, or is unknown. */
static int64_t last_wave_ns(const orr_compiler *c, orr_node_id v)
{
    const double warps = attr_number(c->g, v, "warps per SM");
    const double held = most_warps * attr_number(c->g, v, "est. achieved occupancy %") / 100;
    if (held <= 0 || warps <= held || c->duration_ns[v] < 0)
        return -1;
    return (int64_t)((double)c->duration_ns[v] * held / warps);
}

/* The row of a lane that was running, or had just ended, at a time; or ORR_NONE. */
static uint32_t running_at(const orr_compiler *c, orr_lane_id lane, int64_t at_ns)
{
    uint32_t low = c->streams.lane_first[lane], high = c->streams.lane_first[lane + 1];
    const uint32_t first = low;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (c->g->start_ns[c->streams.node[middle]] < at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > first && orr_recorded_end(c->g, c->streams.node[low - 1]) + skew_ns >= at_ns
               ? low - 1
               : ORR_NONE;
}

bool orr_compile_tail_wave(orr_compiler *c, orr_lane_id lane, uint32_t row, int64_t ready_ns)
{
    enum { MOST_STREAMS = 256 };
    const orr_graph *g = c->g;
    const int64_t start = g->start_ns[c->streams.node[row]];
    if (g->n_lanes > MOST_STREAMS || start == ORR_TIME_NONE || start - late_ns <= ready_ns)
        return true;
    for (orr_lane_id other = 0; other < g->n_lanes; other++) {
        if (other == lane || g->lanes[other].kind != ORR_LANE_STREAM ||
            g->lanes[other].device != g->lanes[lane].device)
            continue;
        const uint32_t full = running_at(c, other, start);
        if (full == ORR_NONE)
            continue;
        const orr_node_id v = c->streams.node[full];
        const int64_t wave = last_wave_ns(c, v);
        if (wave < 0 || start < orr_recorded_end(g, v) - 2 * wave - skew_ns ||
            c->streams.start_ns[full] >= c->streams.start_ns[row])
            continue;
        if (!orr_compile_edge(c, c->n_host + 2 * full, c->n_host + 2 * row,
                              c->duration_ns[v] - wave, ORR_EDGE_LATENCY))
            return false;
    }
    return true;
}
