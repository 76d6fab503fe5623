/* SPDX-License-Identifier: Apache-2.0 */

#include "cost/host/recording_costs.h"
#include "sim/program/compile.h"

/* Takes away what recording cost. A recorder stamps an event's start after its preparations, and
 * its end before it puts the event away (PyTorch: record_function.h calls it around the operator),
 * so that the cost lies outside the event and inside of what the event is nested in: half of it is
 * taken from the time before the start, half from that after the end. What is longer than that time
 * goes on to the time that follows, up to where the thread waited: a cost before a wait was paid
 * while it waited. With T the recorded time since the wait and C the costs since, a point comes at
 *
 *   T'(p) = max over q <= p of (T(q) - C(q)),
 *
 * so that no lag is negative or grows with any cost, and costs of zero change nothing. */
static double half_cost_ns(const orr_compiler *c, orr_recorder recorder, orr_node_id v)
{
    return orr_recording_cost_ns(c->costs, c->g, recorder, v) / 2;
}

/* Did the thread wait before the point, or did a constant or a transfer take the place of its time?
 */
static bool waited(const orr_compiler *c, orr_lane_id lane, orr_point_id p)
{
    return p == c->host_first[lane] || c->chain_ns[p] < 0 ||
           c->chain_kind[p] == ORR_EDGE_HOST_OWN ||
           (c->chain_ns[p] == 0 && c->at_ns[p] > c->at_ns[p - 1]);
}

static void shorten_thread(orr_compiler *c, orr_lane_id lane, const double *before_ns,
                           const double *after_ns)
{
    double owed_ns = 0;
    for (orr_point_id p = c->host_first[lane]; p < c->host_first[lane + 1]; p++) {
        if (waited(c, lane, p)) {
            owed_ns = 0;
            continue;
        }
        owed_ns += before_ns[p] + after_ns[p - 1];
        const int64_t taken_ns =
            owed_ns < (double)c->chain_ns[p] ? (int64_t)owed_ns : c->chain_ns[p];
        c->chain_ns[p] -= taken_ns;
        owed_ns -= (double)taken_ns;
    }
}

orr_status orr_compile_recording_costs(orr_compiler *c)
{
    const orr_graph *g = c->g;
    if (c->costs == NULL || !c->timed)
        return ORR_OK;
    const orr_recorder recorder = orr_recorder_of(g);
    double *before_ns = orr_arena_array(c->scratch, double, c->n_host);
    double *after_ns = orr_arena_array(c->scratch, double, c->n_host);
    if (before_ns == NULL || after_ns == NULL)
        return orr_fail_memory(c->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!orr_on_thread(g, v) || c->start_point[v] == ORR_NONE)
            continue;
        before_ns[c->start_point[v]] += half_cost_ns(c, recorder, v);
        after_ns[c->end_point[v]] += half_cost_ns(c, recorder, v);
    }
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++)
        shorten_thread(c, lane, before_ns, after_ns);
    return ORR_OK;
}
