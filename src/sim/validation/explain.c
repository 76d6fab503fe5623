/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/validation/validation.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sim/program/program.h"
#include "sim/validation/timelines.h"

/* Deviations of a simulation from its recording, by cause. Every point of a program has edges
 * from its predecessors. In the recording and in the simulation there is a moment at which the
 * last predecessor was done, and the point follows after a gap. An error arises where the two
 * gaps differ; later points inherit it with equal gaps. */

const char *orr_deviation_cause_name(orr_deviation_cause cause)
{
    static const char *const names[] = {
#define ORR_CAUSE_TEXT_(name, text) text,
        ORR_CAUSE_MAP(ORR_CAUSE_TEXT_)
#undef ORR_CAUSE_TEXT_
    };
    return (unsigned)cause < ORR_CAUSES ? names[cause] : "unknown";
}

/* The last predecessor of a point: when it was done, and which it was (ORR_NONE: none). */
typedef struct ready {
    int64_t at_ns;
    orr_point_id from;
} ready;

typedef struct explainer {
    const orr_job *job;
    const orr_graph *g;
    const orr_timeline *t;
    const orr_sim_program *program;
    orr_streams streams;
    uint32_t graph;
    orr_node_id *node;  /* shape (points): node whose start or end it is; ORR_NONE */
    int64_t *recorded;  /* shape (points), on the job's clock; ORR_TIME_NONE */
    int64_t *simulated; /* shape (points) */
    ready *was, *is;    /* shape (points): in the recording, in the simulation */
    bool *leaps;        /* shape (points): reached by an edge longer than host time: from another
                         * start, when a device was full */
} explainer;

typedef orr_array(orr_deviation) row_list;

static void place_node(explainer *x, orr_node_id v)
{
    const orr_point_id start = x->program->start_point[v], end = x->program->end_point[v];
    if (start == ORR_NONE || x->t->start_ns[v] == ORR_TIME_NONE ||
        (!orr_on_thread(x->g, v) && x->streams.row_of[v] == ORR_NONE)) /* a shadow */
        return;
    const int64_t at = orr_job_start_ns(x->job, x->graph, v);
    x->node[start] = x->node[end] = v;
    x->simulated[start] = x->t->start_ns[v];
    x->simulated[end] = x->t->start_ns[v] + x->t->duration_ns[v];
    x->recorded[start] = at;
    x->recorded[end] = at == ORR_TIME_NONE ? at : at + x->g->duration_ns[v];
}

static void arrive(ready *r, int64_t at_ns, orr_point_id from)
{
    if (at_ns != ORR_TIME_NONE && at_ns > r->at_ns)
        *r = (ready){at_ns, from};
}

static void follow_edges(explainer *x)
{
    const orr_sim_program *p = x->program;
    for (orr_point_id from = 0; from < p->n_points; from++)
        for (uint32_t k = p->edge_first[from]; k < p->edge_first[from + 1]; k++) {
            const orr_point_id to = p->edges[k].to;
            /* A full device: from the start of the work that fills it to the start of this one. */
            if (p->work_at[from] != ORR_NONE && p->work_at[to] != ORR_NONE &&
                !orr_edge_is_host(p->edges[k].kind)) {
                x->leaps[to] = true;
                arrive(&x->was[to], x->recorded[from] + p->edges[k].lag_ns, from);
                arrive(&x->is[to], x->simulated[from] + p->edges[k].lag_ns, from);
                continue;
            }
            arrive(&x->was[to], x->recorded[from], from);
            arrive(&x->is[to], x->simulated[from], from);
        }
}

/* The last arrival among the members of a match, or of this one alone. */
static int64_t last_arrival(const explainer *x, const orr_simulation *s, orr_node_id v,
                            bool recorded)
{
    const uint32_t *match_of = x->job->match_of[x->graph];
    const uint32_t m = match_of == NULL ? ORR_NONE : match_of[v];
    int64_t last = recorded ? orr_job_start_ns(x->job, x->graph, v) : x->t->start_ns[v];
    if (m == ORR_NONE)
        return last;
    const orr_match *match = &x->job->matches[m];
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member member = x->job->members[i];
        const orr_timeline *t = orr_simulation_timeline_of(x->job, s, member.graph);
        const int64_t at = recorded    ? orr_job_start_ns(x->job, member.graph, member.node)
                           : t == NULL ? ORR_TIME_NONE
                                       : t->start_ns[member.node];
        last = at > last ? at : last;
    }
    return last;
}

static void follow_works(explainer *x, const orr_simulation *s)
{
    const orr_sim_program *p = x->program;
    for (uint32_t i = 0; i < p->n_works; i++) {
        const orr_sim_work *w = &p->works[i];
        const bool meets = orr_communicates(x->g, w->node);
        arrive(&x->was[w->end], meets ? last_arrival(x, s, w->node, true) : x->recorded[w->start],
               w->start);
        arrive(&x->is[w->end], meets ? last_arrival(x, s, w->node, false) : x->simulated[w->start],
               w->start);
    }
}

static orr_deviation_cause cause_on_device(const explainer *x, orr_point_id p, int64_t late_ns)
{
    static const int64_t lost_ns = 30000; /* several times a launch; as in trace/ */
    const orr_node_id v = x->node[p];
    const orr_point_id from = x->was[p].from;
    const uint32_t row = x->streams.row_of[v];
    if (p != x->program->start_point[v])
        return ORR_CAUSE_COLLECTIVE;
    if (x->leaps[p])
        return ORR_CAUSE_FULL_DEVICE;
    if (x->streams.launch[row] == ORR_NONE || x->streams.inner[row] || from == ORR_NONE)
        return ORR_CAUSE_UNEXPLAINED;
    const orr_node_id u = x->node[from];
    if (late_ns > lost_ns) {
        const int64_t returned = orr_recorded_end(x->g, x->streams.launch[row]);
        return x->g->start_ns[v] > returned && x->g->start_ns[v] - returned > lost_ns
                   ? ORR_CAUSE_LOST
                   : ORR_CAUSE_LAUNCH; /* the call itself took long */
    }
    if (u == ORR_NONE || orr_on_thread(x->g, u))
        return ORR_CAUSE_LAUNCH;
    return x->g->lane[u] == x->g->lane[v] ? ORR_CAUSE_KERNEL_GAP : ORR_CAUSE_EVENT;
}

static bool waits_for_work(const orr_graph *g, orr_node_id v)
{
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_SYNC)
            return true;
    return false;
}

static orr_deviation_cause cause_on_thread(const explainer *x, orr_point_id p)
{
    const orr_node_id v = x->node[p];
    const orr_point_id from = x->was[p].from;
    const orr_node_id u = from == ORR_NONE ? ORR_NONE : x->node[from];
    if (u == ORR_NONE)
        return ORR_CAUSE_UNEXPLAINED;
    if (p != x->program->start_point[v]) {
        if (orr_communicates(x->g, v))
            return ORR_CAUSE_COLLECTIVE;
        if (!orr_on_thread(x->g, u))
            return x->program->work_at[from] != ORR_NONE ? ORR_CAUSE_QUEUE : ORR_CAUSE_SYNC;
        if (x->g->lane[u] != x->g->lane[v])
            return ORR_CAUSE_SYNC;
        /* Otherwise only a launch into a full queue has another own time than was recorded. */
        return waits_for_work(x->g, v) ? ORR_CAUSE_JITTER : ORR_CAUSE_QUEUE;
    }
    return x->g->lane[u] == x->g->lane[v] ? ORR_CAUSE_JITTER : ORR_CAUSE_HANDOFF;
}

/* The end of a work that is itself a wait says nothing: what it waited for leads to its
 * successors directly. */
static bool is_device_wait(const explainer *x, orr_node_id v, orr_point_id p)
{
    return x->g->kind[v] == ORR_NODE_SYNC && p != x->program->start_point[v];
}

static bool add_rows(explainer *x, row_list *rows)
{
    for (orr_point_id p = 0; p < x->program->n_points; p++) {
        const orr_node_id v = x->node[p];
        if (v == ORR_NONE || x->recorded[p] == ORR_TIME_NONE || x->was[p].at_ns == INT64_MIN ||
            x->is[p].at_ns == INT64_MIN || is_device_wait(x, v, p))
            continue;
        const int64_t recorded = x->recorded[p] - x->was[p].at_ns;
        const int64_t simulated = x->simulated[p] - x->is[p].at_ns;
        if (recorded == simulated)
            continue;
        const orr_deviation_cause cause = orr_on_thread(x->g, v)
                                              ? cause_on_thread(x, p)
                                              : cause_on_device(x, p, recorded - simulated);
        const orr_deviation row = {.rank = x->job->rank_of_graph[x->graph],
                                   .graph = x->graph,
                                   .lane = x->g->lane[v],
                                   .node = v,
                                   .name = orr_graph_str(x->g, x->g->name[v]),
                                   .end = p != x->program->start_point[v],
                                   .cause = (uint8_t)cause,
                                   .recorded_gap_ns = recorded,
                                   .simulated_gap_ns = simulated,
                                   .difference_ns = simulated - recorded};
        if (!orr_array_push(rows, row))
            return false;
    }
    return true;
}

static orr_status explain_graph(explainer *x, const orr_simulation *s, uint32_t queue_depth,
                                orr_arena *scratch, row_list *rows, orr_error *err)
{
    const int64_t *const *durations = s->ensemble->duration_ns;
    orr_sim_program program;
    ORR_TRY(orr_sim_program_compile(x->g, durations != NULL ? durations[x->graph] : NULL,
                                    &s->constants, s->recording_costs, queue_depth, scratch,
                                    &program, err));
    ORR_TRY(orr_streams_find(x->g, scratch, &x->streams, err));
    const uint32_t n = program.n_points;
    x->program = &program;
    x->node = orr_arena_array(scratch, orr_node_id, n);
    x->recorded = orr_arena_array(scratch, int64_t, n);
    x->simulated = orr_arena_array(scratch, int64_t, n);
    x->was = orr_arena_array(scratch, ready, n);
    x->is = orr_arena_array(scratch, ready, n);
    x->leaps = orr_arena_array(scratch, bool, n);
    if (!x->node || !x->recorded || !x->simulated || !x->was || !x->is || !x->leaps)
        return orr_fail_memory(err);
    for (orr_point_id p = 0; p < n; p++) {
        x->node[p] = ORR_NONE;
        x->recorded[p] = x->simulated[p] = ORR_TIME_NONE;
        x->was[p] = x->is[p] = (ready){INT64_MIN, ORR_NONE};
    }
    for (orr_node_id v = 0; v < x->g->n_nodes; v++)
        place_node(x, v);
    follow_edges(x);
    follow_works(x, s);
    return add_rows(x, rows) ? ORR_OK : orr_fail_memory(err);
}

static int64_t size_of(const orr_deviation *row)
{
    return row->difference_ns < 0 ? -row->difference_ns : row->difference_ns;
}

static int compare(const void *a_, const void *b_)
{
    const orr_deviation *a = a_, *b = b_;
    if (size_of(a) != size_of(b))
        return size_of(a) > size_of(b) ? -1 : 1;
    if (a->rank != b->rank)
        return a->rank < b->rank ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->end - b->end;
}

static orr_status finish(row_list *rows, size_t most, orr_arena *arena, orr_deviations *ret,
                         orr_error *err)
{
    orr_deviations e = {.n = rows->n < most ? rows->n : most};
    orr_deviation *kept = orr_arena_array(arena, orr_deviation, e.n);
    if (kept == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < rows->n; i++) {
        e.count[rows->at[i].cause]++;
        e.difference_ns[rows->at[i].cause] += size_of(&rows->at[i]);
    }
    if (rows->n > 1)
        qsort(rows->at, rows->n, sizeof *rows->at, compare);
    if (e.n > 0)
        memcpy(kept, rows->at, e.n * sizeof *kept);
    e.rows = kept;
    *ret = e;
    return ORR_OK;
}

orr_status orr_simulation_explain(const orr_job *job, const orr_simulation *simulation,
                                  uint32_t queue_depth, size_t most, orr_arena *arena,
                                  orr_deviations *ret, orr_error *err)
{
    if (!orr_simulation_is_of_job(job, simulation))
        return orr_fail(err, ORR_INVALID, "the simulation is not a replay of this recording");
    row_list rows = {0};
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = scratch == NULL ? orr_fail_memory(err) : ORR_OK;
    for (uint32_t d = 0; d < job->n_graphs && status == ORR_OK; d++) {
        explainer x = {.job = job,
                       .g = job->graphs[d],
                       .t = orr_simulation_timeline_of(job, simulation, d),
                       .graph = d};
        if (x.t != NULL)
            status = explain_graph(&x, simulation, queue_depth, scratch, &rows, err);
        orr_arena_reset(scratch);
    }
    if (status == ORR_OK)
        status = finish(&rows, most, arena, ret, err);
    orr_array_done(&rows);
    orr_arena_free(scratch);
    return status;
}
