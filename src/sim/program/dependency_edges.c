/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

#include <string.h>

bool orr_compile_simulates(const orr_compiler *c, orr_node_id v)
{
    if (orr_on_thread(c->g, v))
        return !c->polls[c->g->lane[v]] && (!c->timed || c->g->start_ns[v] != ORR_TIME_NONE);
    return c->streams.row_of[v] != ORR_NONE;
}

/* Recorded start; of device work, not before its predecessors. */
static int64_t start_of(const orr_compiler *c, orr_node_id v)
{
    const uint32_t row = c->streams.row_of[v];
    return row == ORR_NONE ? c->g->start_ns[v] : c->streams.start_ns[row];
}

/* Does the recording contradict the dependency? An edge between lanes must go forward in time,
 * or cycles could arise; but a call may run the work that it launches at once. */
static bool contradicted(const orr_compiler *c, const orr_dependency_edge *tie, orr_node_id v,
                         bool calls)
{
    const orr_graph *g = c->g;
    const int64_t from = start_of(c, tie->from);
    const int64_t to = tie->to_end ? orr_recorded_end(g, v) : start_of(c, v);
    if (from == ORR_TIME_NONE || to == ORR_TIME_NONE)
        return false;
    return calls ? from > to : from >= to;
}

static bool is_transfer(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COPY || g->kind[v] == ORR_NODE_SET;
}

/* From a launch call to device work on an idle stream. */
static int64_t launch_latency(const orr_compiler *c, orr_node_id v)
{
    return is_transfer(c->g, v) ? c->constants->copy_launch_ns : c->constants->launch_latency_ns;
}

int64_t orr_compile_gap_after(const orr_compiler *c, orr_node_id before)
{
    return is_transfer(c->g, before) ? c->constants->copy_gap_ns : c->constants->kernel_gap_ns;
}

static bool is_evaluation(const orr_graph *g, orr_node_id v)
{
    static const char prefix[] = "autograd::engine::evaluate_function";
    return strncmp(orr_graph_str(g, g->name[v]), prefix, sizeof prefix - 1) == 0;
}

bool orr_is_autograd_wakeup(const orr_graph *g, orr_node_id from, orr_node_id to)
{
    return is_evaluation(g, from) && is_evaluation(g, to);
}

static void by_kind(const orr_compiler *c, orr_node_id v, orr_dep_kind kind, bool from_thread,
                    bool to_thread, orr_dependency_edge *tie)
{
    const orr_sim_latencies *k = c->constants;
    tie->from_end = kind != ORR_DEP_CONTROL && kind != ORR_DEP_LAUNCH;
    tie->to_end = kind == ORR_DEP_SYNC;
    tie->hands_over = to_thread && !tie->to_end;
    if (kind == ORR_DEP_SYNC && from_thread && !orr_communicates(c->g, tie->from))
        tie->lag_ns = k->resume_ns;
    else if (kind == ORR_DEP_SYNC)
        tie->lag_ns = k->sync_return_ns;
    else if (kind == ORR_DEP_HANDOFF || (kind == ORR_DEP_CONTROL && to_thread))
        tie->lag_ns = k->handoff_ns;
    else if (kind == ORR_DEP_LAUNCH || (from_thread && !to_thread))
        tie->lag_ns = kind == ORR_DEP_LAUNCH || kind == ORR_DEP_CONTROL ? launch_latency(c, v) : 0;
    else if (!from_thread && !to_thread)
        tie->lag_ns = k->event_latency_ns;
    else
        tie->lag_ns = to_thread && !from_thread ? k->sync_return_ns : 0;
}

bool orr_compile_dependency(const orr_compiler *c, orr_node_id v, uint32_t dep,
                            orr_dependency_edge *ret)
{
    const orr_graph *g = c->g;
    const orr_node_id u = g->dep[dep];
    const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[dep];
    const bool from_thread = orr_on_thread(g, u), to_thread = orr_on_thread(g, v);
    const bool ordered = from_thread ? c->timed : !c->free_streams;
    if ((g->lane[u] == g->lane[v] && ordered && kind != ORR_DEP_SYNC) ||
        !orr_compile_simulates(c, u) || !orr_compile_simulates(c, v))
        return false;
    *ret = (orr_dependency_edge){.from = u};
    by_kind(c, v, kind, from_thread, to_thread, ret);
    if (kind == ORR_DEP_HANDOFF && orr_is_autograd_wakeup(g, u, v))
        ret->lag_ns = c->constants->sync_return_ns;
    if (!c->timed && from_thread && to_thread) /* a partial order: no times to compare */
        ret->lag_ns = 0;
    if (contradicted(c, ret, v, kind == ORR_DEP_LAUNCH || kind == ORR_DEP_CONTROL))
        return false;
    const int64_t start = start_of(c, u), to = start_of(c, v);
    ret->moment_ns = start == ORR_TIME_NONE || !ret->from_end ? start : orr_recorded_end(g, u);
    return ret->to_end || to == ORR_TIME_NONE || ret->moment_ns == ORR_TIME_NONE ||
           ret->moment_ns <= to;
}

/* A thread that takes longer than this to wake, as a rule, does what is not recorded in between:
 * the constant is then as good as read. Assumed: ten times what a hand-off takes on busy machines.
 */
static const int64_t wakeup_max_ns = 1000000;

static bool tie_node(orr_compiler *c, orr_node_id v)
{
    const orr_graph *g = c->g;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        orr_dependency_edge tie;
        if (!orr_compile_dependency(c, v, k, &tie) ||
            (tie.to_end && !orr_on_thread(g, tie.from) && orr_compile_host_factor(c, v) <= 0))
            continue;
        const orr_point_id from = (tie.from_end ? c->end_point : c->start_point)[tie.from];
        const orr_point_id to = (tie.to_end ? c->end_point : c->start_point)[v];
        const bool wakes = orr_on_thread(g, tie.from) && tie.lag_ns > wakeup_max_ns;
        if (!orr_compile_edge(c, from, to, tie.lag_ns,
                              wakes ? ORR_EDGE_HOST_ANCHOR : ORR_EDGE_LATENCY))
            return false;
    }
    return true;
}

/* Edges for nesting, where no order of the thread implies it. */
static bool nest(orr_compiler *c, orr_node_id v)
{
    const orr_node_id u = c->g->parent[v];
    return u == ORR_NONE || !orr_on_thread(c->g, u) ||
           (orr_compile_edge(c, c->start_point[u], c->start_point[v], 0, ORR_EDGE_LATENCY) &&
            orr_compile_edge(c, c->end_point[v], c->end_point[u], 0, ORR_EDGE_LATENCY));
}

orr_status orr_compile_dependencies(orr_compiler *c)
{
    const orr_graph *g = c->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!orr_on_thread(g, v) || !orr_compile_simulates(c, v))
            continue;
        if (!tie_node(c, v) || (!c->timed && !nest(c, v)))
            return orr_fail_memory(c->err);
    }
    return ORR_OK;
}
