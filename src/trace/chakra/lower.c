/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/lower.h"

#include <string.h>

#include "base/array.h"
#include "trace/chakra/topological_order.h"

/* Lowering (see lower.h). An operator with children
 *
 *   |---- forward ---------------|        self time      children, each likewise
 *   |    |- linear -| |- relu -| |   -->  [forward][linear][relu]
 *
 * becomes a chain: its self time first, then its subtree in order of start. Waiting for its end is
 * waiting for the last node of the chain. */

typedef struct planner {
    const orr_graph *g;
    orr_arena *arena;
    orr_chakra_lowering *plan;
    uint32_t *place_in_lane; /* shape (N): in g->lane_node            */
    orr_node_id *last;       /* shape (N): last node of the subtree   */
    bool *launches;          /* shape (N): device work is launched by it */
    int64_t *waited_until;   /* shape (N): waiting up to that time has been left out already */
    orr_chakra_edges edges;
} planner;

static bool on_host(const planner *p, orr_node_id v)
{
    return p->g->lanes[p->g->lane[v]].kind == ORR_LANE_HOST;
}

static orr_status make_arrays(planner *p, orr_error *err)
{
    const uint32_t n = p->g->n_nodes;
    p->plan->ctrl = orr_arena_array(p->arena, orr_node_id, n);
    p->plan->self_ns = orr_arena_array(p->arena, int64_t, n);
    p->place_in_lane = orr_arena_array(p->arena, uint32_t, n);
    p->last = orr_arena_array(p->arena, orr_node_id, n);
    p->launches = orr_arena_array(p->arena, bool, n);
    p->waited_until = orr_arena_array(p->arena, int64_t, n);
    return p->plan->ctrl == NULL || p->plan->self_ns == NULL || p->place_in_lane == NULL ||
                   p->last == NULL || p->launches == NULL || p->waited_until == NULL
               ? orr_fail_memory(err)
               : ORR_OK;
}

/* In a lane children come after their parents, so going backwards the first child met is the
 * last. */
static void find_subtrees(planner *p)
{
    const orr_graph *g = p->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        p->last[v] = v;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const orr_node_id v = g->lane_node[i], parent = g->parent[v];
        p->place_in_lane[v] = i;
        if (on_host(p, v) && parent != ORR_NONE && g->lane[parent] == g->lane[v] &&
            p->last[parent] == parent)
            p->last[parent] = p->last[v];
    }
}

/* Full duration; device annotations and instants, which share their stretch with others, take no
 * time. */
static int64_t full_ns(const planner *p, orr_node_id v)
{
    switch ((orr_node_kind)p->g->kind[v]) {
    case ORR_NODE_DEVICE_ANNOTATION:
    case ORR_NODE_MEMORY:
        return 0;
    case ORR_NODE_SYNC:
        return on_host(p, v) ? p->g->duration_ns[v] : 0;
    default:
        return p->g->duration_ns[v];
    }
}

static void take_from(int64_t *self_ns, int64_t ns)
{
    *self_ns = ns >= *self_ns ? 0 : ns > 0 ? *self_ns - ns : *self_ns;
}

static void find_own_times(planner *p)
{
    const orr_graph *g = p->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        p->plan->self_ns[v] = full_ns(p, v);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_node_id parent = g->parent[v];
        if (parent != ORR_NONE && g->lane[parent] == g->lane[v] && on_host(p, v))
            take_from(&p->plan->self_ns[parent], full_ns(p, v));
    }
}

/* The time that call v spent waiting for device work u. */
static int64_t waited_ns(const planner *p, orr_node_id v, orr_node_id u)
{
    const orr_graph *g = p->g;
    if (g->start_ns[v] == ORR_TIME_NONE || g->start_ns[u] == ORR_TIME_NONE)
        return 0;
    int64_t from = g->start_ns[v], to = g->start_ns[u] + g->duration_ns[u];
    if (p->launches[v] && g->start_ns[u] > from)
        from = g->start_ns[u];
    if (to > g->start_ns[v] + g->duration_ns[v])
        to = g->start_ns[v] + g->duration_ns[v];
    return to - from;
}

static int64_t end_ns(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] + g->duration_ns[v];
}

/* The first place in a lane whose node starts at or after `ns`, up to `end`. */
static uint32_t place_at(const orr_graph *g, uint32_t lane, int64_t ns, uint32_t end)
{
    uint32_t low = g->lane_first[lane], high = end;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (g->start_ns[g->lane_node[middle]] < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_timed(const orr_graph *g, orr_node_id v)
{
    return v != ORR_NONE && g->start_ns[v] != ORR_TIME_NONE;
}

/* The innermost node that runs in a lane at `ns`; ORR_NONE: the lane is idle. */
static orr_node_id running_at(const orr_graph *g, uint32_t lane, int64_t ns)
{
    const uint32_t place = place_at(g, lane, ns, g->lane_first[lane + 1]);
    if (place == g->lane_first[lane])
        return ORR_NONE;
    orr_node_id v = g->lane_node[place - 1];
    while (is_timed(g, v) && end_ns(g, v) <= ns)
        v = g->parent[v];
    return is_timed(g, v) && g->lane[v] == lane ? v : ORR_NONE;
}

/* The end of what runs in a lane just before `ns`, at most `ns`. */
static int64_t busy_until(const orr_graph *g, uint32_t lane, int64_t ns)
{
    const uint32_t place = place_at(g, lane, ns, g->lane_first[lane + 1]);
    if (place == g->lane_first[lane])
        return INT64_MIN;
    int64_t until = INT64_MIN;
    for (orr_node_id v = g->lane_node[place - 1]; is_timed(g, v); v = g->parent[v])
        until = end_ns(g, v);
    return until < ns ? until : ns;
}

/* The thread of u handed work to that of v. If it then stays idle within an operator (such as a
 * call of backward()), it waits for the other thread, which is not the operator's own time. */
static void leave_out_waiting(planner *p, orr_node_id v, orr_node_id u)
{
    const orr_graph *g = p->g;
    const uint32_t lane = g->lane[u];
    if (!on_host(p, v) || !on_host(p, u) || g->lane[v] == lane || !is_timed(g, v))
        return;
    const orr_node_id waiting = running_at(g, lane, g->start_ns[v]);
    if (waiting == ORR_NONE)
        return;
    int64_t until = end_ns(g, waiting);
    const uint32_t next = place_at(g, lane, g->start_ns[v], g->lane_first[lane + 1]);
    if (next < g->lane_first[lane + 1] && g->start_ns[g->lane_node[next]] < until)
        until = g->start_ns[g->lane_node[next]];
    until = busy_until(g, g->lane[v], until);
    const int64_t from =
        g->start_ns[v] > p->waited_until[waiting] ? g->start_ns[v] : p->waited_until[waiting];
    if (until <= from)
        return;
    take_from(&p->plan->self_ns[waiting], until - from);
    p->waited_until[waiting] = until;
}

static orr_status add(planner *p, orr_node_id v, orr_node_id on, orr_error *err)
{
    if (v == on)
        return ORR_OK;
    const orr_chakra_edge edge = {v, on};
    return orr_array_push(&p->edges, edge) ? ORR_OK : orr_fail_memory(err);
}

/* The node that waits for device work in place of call v: see lower.h. ORR_NONE: none comes after
 * it. */
static orr_node_id sync_waiter(const planner *p, orr_node_id v)
{
    const orr_graph *g = p->g;
    if (!on_host(p, v) || (p->last[v] == v && !p->launches[v]))
        return v;
    const uint32_t next = p->place_in_lane[p->last[v]] + 1;
    return next < g->lane_first[g->lane[v] + 1] ? g->lane_node[next] : ORR_NONE;
}

static orr_status add_sync(planner *p, orr_node_id v, orr_node_id u, int64_t *waited,
                           orr_error *err)
{
    const orr_node_id waiter = sync_waiter(p, v);
    const int64_t ns = waited_ns(p, v, u);
    if (ns > *waited)
        *waited = ns;
    return waiter == ORR_NONE ? ORR_OK : add(p, waiter, u, err);
}

/* Waiting for the start of u is waiting for what comes before u. */
static orr_status add_control(planner *p, orr_node_id v, orr_node_id u, orr_error *err)
{
    const orr_graph *g = p->g;
    for (uint32_t d = g->dep_first[u]; d < g->dep_first[u + 1]; d++)
        if (g->dep_kind[d] == ORR_DEP_THREAD)
            return add(p, v, p->last[g->dep[d]], err);
    return g->parent[u] == ORR_NONE ? ORR_OK : add(p, v, g->parent[u], err);
}

static orr_status plan_node(planner *p, orr_node_id v, orr_error *err)
{
    const orr_graph *g = p->g;
    const orr_node_id parent = g->parent[v];
    orr_node_id launched_by = ORR_NONE;
    bool follows = false;
    int64_t waited = 0;
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        const orr_node_id u = g->dep[d];
        const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[d];
        const bool whole =
            kind == ORR_DEP_THREAD || kind == ORR_DEP_HANDOFF || kind == ORR_DEP_DATA;
        follows |= kind == ORR_DEP_THREAD;
        if (kind == ORR_DEP_LAUNCH)
            launched_by = u;
        if (kind == ORR_DEP_HANDOFF || kind == ORR_DEP_CONTROL)
            leave_out_waiting(p, v, u);
        if (kind == ORR_DEP_SYNC)
            ORR_TRY(add_sync(p, v, u, &waited, err));
        else if (kind == ORR_DEP_CONTROL)
            ORR_TRY(add_control(p, v, u, err));
        else
            ORR_TRY(add(p, v, whole ? p->last[u] : u, err));
    }
    if (!follows && parent != ORR_NONE && on_host(p, v))
        ORR_TRY(add(p, v, parent, err));
    p->plan->ctrl[v] = launched_by != ORR_NONE ? launched_by : parent;
    take_from(&p->plan->self_ns[v], waited);
    return ORR_OK;
}

orr_status orr_chakra_lower(const orr_graph *graph, orr_arena *arena, orr_chakra_lowering *ret,
                            orr_error *err)
{
    planner p = {.g = graph, .arena = arena, .plan = ret};
    orr_status status;
    *ret = (orr_chakra_lowering){0};
    ORR_TRY_OUT(status, make_arrays(&p, err));
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        for (uint32_t d = graph->dep_first[v]; d < graph->dep_first[v + 1]; d++)
            if (graph->dep_kind[d] == ORR_DEP_LAUNCH && graph->kind[v] != ORR_NODE_SYNC)
                p.launches[graph->dep[d]] = true;
    find_subtrees(&p);
    find_own_times(&p);
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        ORR_TRY_OUT(status, plan_node(&p, v, err));
    status = orr_chakra_topological_order(graph, &p.edges, arena, ret, err);
out:
    orr_array_done(&p.edges);
    return status;
}
