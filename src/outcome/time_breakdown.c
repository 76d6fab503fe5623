/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include <string.h>

/* Time breakdown of a step: for each kind of rank, what its time went to. The computation stream is
 * walked from begin to end. A node is counted as the parts that it was merged from. A gap before a
 * node is a wait, and is divided backwards from its end: the transfer that ended last among the
 * node's dependencies is exposed for as long as it moved bytes, then the transfers before it on its
 * stream; time in which none of them moved is bubble, because some other rank had yet to arrive at
 * a rendezvous or to compute. All parts add up to the step. */

typedef struct stream_walk {
    const orr_step_graph *from;
    const orr_timeline *t;
    uint32_t stage, stages;
    orr_rank_time_breakdown breakdown;
} stream_walk;

static int64_t end_of(const orr_timeline *t, orr_node_id v)
{
    return t->start_ns[v] + t->duration_ns[v];
}

/* The dependency of the node on another stream that ended last; ORR_NONE: none. */
static orr_node_id last_to_end(const stream_walk *w, orr_node_id v)
{
    const orr_graph *g = w->from->graph;
    orr_node_id last = ORR_NONE;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_EVENT &&
            (last == ORR_NONE || end_of(w->t, g->dep[k]) > end_of(w->t, last)))
            last = g->dep[k];
    return last;
}

static orr_node_id before_on_stream(const stream_walk *w, orr_node_id v)
{
    const orr_graph *g = w->from->graph;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_STREAM)
            return g->dep[k];
    return ORR_NONE;
}

static void add_exposed(stream_walk *w, orr_node_id node, int64_t ns)
{
    const uint8_t axis = w->from->axis[node];
    w->breakdown.part_ns[w->from->nodes[node].part] += ns;
    if (axis < ORR_AXES)
        w->breakdown.exposed_ns[axis] += ns;
    if (axis != ORR_AXIS_PP)
        return;
    const uint32_t peer = (uint32_t)orr_graph_comm(w->from->graph, node)->peer;
    *(peer == (w->stage + 1) % w->stages ? &w->breakdown.exposed_next_ns
                                         : &w->breakdown.exposed_prev_ns) += ns;
}

/* Divides the gap [from, to): exposed transfers while they moved, those before them on their
 * stream, and bubble. */
static void divide_gap(stream_walk *w, int64_t from_ns, int64_t to_ns, orr_node_id node)
{
    while (to_ns > from_ns && node != ORR_NONE) {
        const int64_t end_ns = end_of(w->t, node), start_ns = w->t->start_ns[node];
        int64_t moving_ns = end_ns - w->from->duration_ns[node];
        if (moving_ns < start_ns)
            moving_ns = start_ns;
        if (end_ns < to_ns) {
            w->breakdown.part_ns[ORR_WATERFALL_BUBBLE] +=
                to_ns - (end_ns > from_ns ? end_ns : from_ns);
            to_ns = end_ns > from_ns ? end_ns : from_ns;
        }
        if (moving_ns < to_ns) {
            const int64_t begin_ns = moving_ns > from_ns ? moving_ns : from_ns;
            add_exposed(w, node, to_ns - begin_ns);
            to_ns = begin_ns;
        }
        if (start_ns < to_ns) {
            const int64_t begin_ns = start_ns > from_ns ? start_ns : from_ns;
            w->breakdown.part_ns[ORR_WATERFALL_BUBBLE] += to_ns - begin_ns;
            to_ns = begin_ns;
        }
        node = before_on_stream(w, node);
    }
    if (to_ns > from_ns)
        w->breakdown.part_ns[ORR_WATERFALL_BUBBLE] += to_ns - from_ns;
}

/* The parts of merged nodes are known for the stage as a whole; computation is the remainder. */
static void walk_stream(stream_walk *w, int64_t begin_ns, int64_t end_ns)
{
    const orr_graph *g = w->from->graph;
    int64_t at_ns = begin_ns, busy_ns = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (g->kind[v] != ORR_NODE_COMPUTE)
            continue;
        divide_gap(w, at_ns, w->t->start_ns[v], last_to_end(w, v));
        busy_ns += w->t->duration_ns[v];
        at_ns = end_of(w->t, v);
    }
    divide_gap(w, at_ns, end_ns, ORR_NONE);
    for (int part = 0; part < ORR_WATERFALLS; part++) {
        w->breakdown.part_ns[part] += w->from->totals.part_ns[part];
        busy_ns -= w->from->totals.part_ns[part];
    }
    w->breakdown.part_ns[ORR_WATERFALL_KERNELS] += busy_ns;
    for (int axis = 0; axis < ORR_AXES; axis++)
        w->breakdown.exposed_ns[axis] += w->from->totals.exposed_ns[axis];
}

orr_rank_time_breakdown orr_outcome_rank_time_breakdown(const orr_outcome_layout *layout,
                                                        const orr_simulation *simulation,
                                                        uint32_t class_index)
{
    const orr_timeline *t = &simulation->timelines[class_index];
    stream_walk w = {.from = &layout->graphs[t->graph],
                     .t = t,
                     .stage = layout->stage_of[t->graph],
                     .stages = layout->stages};
    walk_stream(&w, simulation->begin_ns, simulation->end_ns);
    return w.breakdown;
}

void orr_outcome_time_breakdown(const orr_outcome_layout *layout, const orr_simulation *simulation,
                                orr_time_breakdown *ret)
{
    orr_time_breakdown sum;
    memset(&sum, 0, sizeof sum);
    for (uint32_t c = 0; c < simulation->n_classes; c++) {
        const orr_timeline *t = &simulation->timelines[c];
        const orr_rank_time_breakdown breakdown =
            orr_outcome_rank_time_breakdown(layout, simulation, c);
        const orr_step_totals *totals = &layout->graphs[t->graph].totals;
        for (int part = 0; part < ORR_WATERFALLS; part++)
            sum.part_ns[part] += (__int128)breakdown.part_ns[part] * t->n_ranks;
        for (int axis = 0; axis < ORR_AXES; axis++) {
            sum.exposed_ns[axis] += (__int128)breakdown.exposed_ns[axis] * t->n_ranks;
            sum.busy_ns[axis] += (__int128)totals->busy_ns[axis] * t->n_ranks;
            sum.sent_bytes[axis] += totals->sent_bytes[axis] * t->n_ranks;
        }
        sum.flops += totals->flops * t->n_ranks;
        sum.again_flops += totals->again_flops * t->n_ranks;
    }
    *ret = sum;
}
