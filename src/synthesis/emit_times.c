/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/emitter.h"

/* Blocks of different steps meet with devices further behind their threads, or less, than they
 * were recorded. Recorded times alone would contradict each other there: waits would be told as
 * work, and dependencies be taken for impossible. */

static const int64_t launch_most_ns = 10000; /* from a launch to work on an idle stream, at most */
static const int64_t return_most_ns =
    20000;                               /* from the end of what is awaited to that of the call */
static const int64_t call_own_ns = 5000; /* of a call that no longer waits */
static const int64_t sleep_ns = 1000000; /* assumed: longer than a thread idles by itself */

static int64_t at_most(int64_t ns, int64_t most_ns)
{
    return ns < 0 ? 0 : ns > most_ns ? most_ns : ns;
}

static int64_t latest(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t end_of_made(const orr_emitter *m, orr_node_id made)
{
    return m->builder->start_ns[made] + m->builder->duration_ns[made];
}

static int64_t recorded_end(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] + g->duration_ns[v];
}

static orr_node_id made_for(const orr_emitter *m, const orr_emitted_run *r, orr_node_id u,
                            orr_dep_kind kind)
{
    const orr_node_id copy = orr_emitted_copy(m, r, u);
    return copy != ORR_NONE ? copy : orr_emitted_stand_in(m, r, u, kind);
}

/* How far the main thread is from its recording: others that merely slept keep to it. */
static int64_t main_shift(const orr_emitter *m)
{
    for (size_t i = 0; i < m->lanes.n; i++)
        if (m->lanes.at[i].kind == ORR_LANE_HOST && m->lanes.at[i].number == 0)
            return m->lanes.at[i].shift_ns;
    return 0;
}

static int64_t device_start(const orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                            const orr_emitted_lane *lane)
{
    const orr_graph *g = r->rank->graph;
    int64_t at = lane->end_ns;
    bool launched = false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        const orr_node_id u = g->dep[k], copy = orr_emitted_copy(m, r, u);
        if (copy == ORR_NONE)
            continue;
        if (g->dep_kind[k] == ORR_DEP_LAUNCH) {
            launched = true;
            at = latest(at, m->builder->start_ns[copy] +
                                at_most(g->start_ns[v] - g->start_ns[u], launch_most_ns));
        } else if (g->dep_kind[k] == ORR_DEP_EVENT) {
            at = latest(at, end_of_made(m, copy));
        }
    }
    const int64_t recorded = m->now_ns + (g->start_ns[v] - r->from_ns) + main_shift(m);
    return launched ? at : latest(at, recorded);
}

/* Moves a thread against its recording; what is open around the node lasts longer, or less long. */
static void shift(orr_emitter *m, orr_emitted_lane *lane, orr_node_id parent, int64_t by_ns)
{
    orr_graph_builder *b = m->builder;
    lane->shift_ns += by_ns;
    for (; parent != ORR_NONE && parent != m->step && b->lane[parent] == lane->id;
         parent = b->parent[parent])
        b->duration_ns[parent] = latest(0, b->duration_ns[parent] + by_ns);
}

/* Recorded time of the last point of the thread before a node, as far as the block tells. */
static int64_t idle_since(const orr_emitted_lane *lane, const orr_emitted_run *r, bool idle)
{
    return lane->latest == ORR_NONE ? r->from_ns
           : idle                   ? lane->latest_end_ns
                                    : lane->latest_start_ns;
}

/* When a thread begins v, and not before its own last point. */
static int64_t thread_start(const orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                            const orr_emitted_lane *lane)
{
    const orr_graph *g = r->rank->graph;
    const int64_t recorded = m->now_ns + (latest(g->start_ns[v], r->from_ns) - r->from_ns);
    int64_t at = recorded + lane->shift_ns, point_ns = lane->point_ns;
    const bool idle = lane->latest == ORR_NONE || lane->latest_end_ns <= g->start_ns[v];
    if (lane->latest != ORR_NONE && idle)
        point_ns = latest(point_ns, end_of_made(m, lane->latest));
    if (lane->number != 0 && idle &&
        (lane->latest == ORR_NONE || g->start_ns[v] - lane->latest_end_ns >= sleep_ns))
        at = recorded + main_shift(m);
    int64_t waited_for = INT64_MIN, done_ns = INT64_MIN;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        const orr_node_id u = g->dep[k];
        const orr_node_id made = made_for(m, r, u, ORR_DEP_HANDOFF);
        const int64_t was_ns = recorded_end(g, u);
        if (g->dep_kind[k] != ORR_DEP_HANDOFF || made == ORR_NONE)
            continue;
        done_ns = latest(done_ns, end_of_made(m, made));
        if (was_ns <= g->start_ns[v] && was_ns > idle_since(lane, r, idle))
            waited_for = latest(waited_for, was_ns);
    }
    if (waited_for != INT64_MIN) /* it went on when that was done */
        at = done_ns + (g->start_ns[v] - waited_for);
    return latest(latest(at, done_ns), point_ns);
}

/* How long a call takes that waits for devices. */
static int64_t call_duration(const orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                             int64_t at, int64_t duration_ns)
{
    const orr_graph *g = r->rank->graph;
    int64_t end_ns = at, waited_for = INT64_MIN;
    bool waited = false, waits = false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++) {
        const orr_node_id u = g->dep[k];
        const orr_node_id made = made_for(m, r, u, ORR_DEP_SYNC);
        if (g->dep_kind[k] != ORR_DEP_SYNC || made == ORR_NONE)
            continue;
        waits = true;
        if (recorded_end(g, u) > g->start_ns[v]) {
            waited = true;
            waited_for = latest(waited_for, recorded_end(g, u));
        }
        end_ns = latest(end_ns, end_of_made(m, made));
    }
    if (!waits)
        return duration_ns;
    if (!waited)
        return latest(duration_ns, end_ns - at);
    const int64_t own_ns = at_most(duration_ns, call_own_ns);
    return latest(own_ns, end_ns + at_most(recorded_end(g, v) - waited_for, return_most_ns) - at);
}

orr_node orr_emitted_times(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                           orr_emitted_lane *lane, orr_node_id parent)
{
    const orr_graph *g = r->rank->graph;
    const int64_t from = latest(g->start_ns[v], r->from_ns);
    const int64_t duration = latest(0, recorded_end(g, v) - from);
    orr_node ret = {.duration_ns = duration};
    if (lane->kind == ORR_LANE_STREAM) {
        ret.duration_ns = g->duration_ns[v];
        ret.start_ns = device_start(m, r, v, lane);
        return ret;
    }
    ret.start_ns = thread_start(m, r, v, lane);
    shift(m, lane, parent, ret.start_ns - (m->now_ns + (from - r->from_ns)) - lane->shift_ns);
    if (g->kind[v] == ORR_NODE_RUNTIME) {
        ret.duration_ns = call_duration(m, r, v, ret.start_ns, duration);
        shift(m, lane, parent, ret.duration_ns - duration);
    }
    return ret;
}

void orr_emitted_note(orr_emitter *m, const orr_emitted_run *r, orr_node_id v,
                      orr_emitted_lane *lane, orr_node_id made)
{
    const orr_graph *g = r->rank->graph;
    const int64_t end_ns = end_of_made(m, made), was_ns = recorded_end(g, v);
    lane->end_ns = latest(lane->end_ns, end_ns);
    if (lane->kind == ORR_LANE_STREAM)
        return;
    lane->point_ns = latest(lane->point_ns, m->builder->start_ns[made]);
    lane->latest = made;
    lane->latest_start_ns = g->start_ns[v];
    lane->latest_end_ns = was_ns;
    if (was_ns >= m->last_ns) {
        m->last_ns = was_ns;
        m->next_ns = m->now_ns + (r->to_ns - r->from_ns) + lane->shift_ns;
    }
}
