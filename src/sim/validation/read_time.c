/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/validation/validation.h"

#include "base/array.h"
#include "sim/program/program.h"
#include "sim/validation/timelines.h"

/* What the span of a replayed rank rests on: from the point that is last, backward, always to the
 * predecessor that the point had to wait for, up to the start of the rank. What lies between is
 * device work, communication, or the lag of an edge, of which the program knows whether it was read
 * from the recording for want of a cause. */

const char *orr_span_basis_name(orr_span_basis basis)
{
    static const char *const names[] = {
#define ORR_SPAN_TEXT_(name, text, read) text,
        ORR_SPAN_MAP(ORR_SPAN_TEXT_)
#undef ORR_SPAN_TEXT_
    };
    return (unsigned)basis < ORR_SPANS ? names[basis] : "unknown";
}

bool orr_span_basis_is_read(orr_span_basis basis)
{
    static const bool reads[] = {
#define ORR_SPAN_READ_(name, text, read) read,
        ORR_SPAN_MAP(ORR_SPAN_READ_)
#undef ORR_SPAN_READ_
    };
    return (unsigned)basis < ORR_SPANS && reads[basis];
}

static orr_span_basis basis_of_edge(uint32_t kind)
{
    switch ((orr_edge_kind)kind) {
    case ORR_EDGE_DEVICE_GAP:
        return ORR_SPAN_DEVICE_GAP;
    case ORR_EDGE_HOST_WORK:
        return ORR_SPAN_HOST;
    case ORR_EDGE_HOST_GAP:
        return ORR_SPAN_HOST_GAP;
    case ORR_EDGE_HOST_WAIT:
        return ORR_SPAN_HOST_WAIT;
    case ORR_EDGE_HOST_ANCHOR:
        return ORR_SPAN_HOST_ANCHOR;
    default:
        return ORR_SPAN_CONSTANT;
    }
}

typedef struct retracer {
    const orr_graph *g;
    const orr_timeline *t;
    const orr_sim_program *program;
    int64_t *at_ns;        /* shape (points): simulated; ORR_TIME_NONE */
    uint32_t *first;       /* shape (points + 1): edges by the point that they lead to */
    uint32_t *edge, *from; /* shape (edges) */
    uint32_t *work_to;     /* shape (points): work that ends there, or ORR_NONE */
} retracer;

static orr_status lay_out(retracer *r, orr_arena *scratch, orr_error *err)
{
    const orr_sim_program *p = r->program;
    const uint32_t n = p->n_points;
    r->at_ns = orr_arena_array(scratch, int64_t, n);
    r->first = orr_arena_array(scratch, uint32_t, (size_t)n + 2);
    r->edge = orr_arena_array(scratch, uint32_t, p->n_edges);
    r->from = orr_arena_array(scratch, uint32_t, p->n_edges);
    r->work_to = orr_arena_array(scratch, uint32_t, n);
    if (!r->at_ns || !r->first || !r->edge || !r->from || !r->work_to)
        return orr_fail_memory(err);
    for (orr_point_id at = 0; at < n; at++) {
        r->at_ns[at] = ORR_TIME_NONE;
        r->work_to[at] = ORR_NONE;
    }
    for (uint32_t w = 0; w < p->n_works; w++)
        r->work_to[p->works[w].end] = w;
    for (orr_node_id v = 0; v < r->g->n_nodes; v++)
        if (p->start_point[v] != ORR_NONE && r->t->start_ns[v] != ORR_TIME_NONE &&
            r->g->kind[v] != ORR_NODE_DEVICE_ANNOTATION) {
            r->at_ns[p->start_point[v]] = r->t->start_ns[v];
            r->at_ns[p->end_point[v]] = r->t->start_ns[v] + r->t->duration_ns[v];
        }
    for (uint32_t k = 0; k < p->n_edges; k++)
        r->first[p->edges[k].to + 2]++;
    for (orr_point_id at = 0; at < n; at++)
        r->first[at + 1] += r->first[at];
    for (orr_point_id at = 0; at < n; at++)
        for (uint32_t k = p->edge_first[at]; k < p->edge_first[at + 1]; k++) {
            const uint32_t slot = r->first[p->edges[k].to + 1]++;
            r->edge[slot] = k;
            r->from[slot] = at;
        }
    return ORR_OK;
}

/* The point at which what executes ends last. */
static orr_point_id last_point(const retracer *r)
{
    orr_point_id last = ORR_NONE;
    for (orr_node_id v = 0; v < r->g->n_nodes; v++) {
        const orr_point_id end = r->program->end_point[v];
        if (end != ORR_NONE && orr_sim_executes(r->g, v) && r->at_ns[end] != ORR_TIME_NONE &&
            (last == ORR_NONE || r->at_ns[end] > r->at_ns[last]))
            last = end;
    }
    return last;
}

/* The edge that the point waited for: it came as late as the point itself allows. ORR_NONE: none,
 * the point has a floor or a partner. */
static uint32_t binding_edge(const retracer *r, orr_point_id at)
{
    uint32_t best = ORR_NONE;
    int64_t latest_ns = INT64_MIN;
    for (uint32_t i = r->first[at]; i < r->first[at + 1]; i++) {
        const int64_t from_ns = r->at_ns[r->from[i]];
        if (from_ns == ORR_TIME_NONE)
            continue;
        const int64_t arrival_ns = from_ns + r->program->edges[r->edge[i]].lag_ns;
        if (arrival_ns > latest_ns && from_ns <= r->at_ns[at]) {
            latest_ns = arrival_ns;
            best = i;
        }
    }
    return best;
}

static void retrace(const retracer *r, orr_span_shares *ret)
{
    orr_point_id at = last_point(r);
    if (at == ORR_NONE)
        return;
    const int64_t end_ns = r->at_ns[at];
    /* Edges without lag can tie points of one moment in a ring of equals only forward: each step
     * goes to a predecessor, and a program has no cycles. */
    while (at != ORR_NONE) {
        const uint32_t work = r->work_to[at], slot = binding_edge(r, at);
        const int64_t now_ns = r->at_ns[at];
        const int64_t by_edge_ns =
            slot == ORR_NONE ? INT64_MIN
                             : r->at_ns[r->from[slot]] + r->program->edges[r->edge[slot]].lag_ns;
        if (work != ORR_NONE && by_edge_ns < now_ns) {
            const orr_sim_work *w = &r->program->works[work];
            const bool meets = w->work_class == ORR_WORK_COMM || w->work_class == ORR_WORK_HOST;
            if (r->at_ns[w->start] == ORR_TIME_NONE)
                break;
            ret->ns[meets ? ORR_SPAN_COMMUNICATION : ORR_SPAN_DEVICE] +=
                now_ns - r->at_ns[w->start];
            at = w->start;
            continue;
        }
        if (slot == ORR_NONE)
            break;
        ret->ns[basis_of_edge(r->program->edges[r->edge[slot]].kind)] +=
            now_ns - r->at_ns[r->from[slot]];
        at = r->from[slot];
    }
    const int64_t begin_ns = r->t->begin_ns;
    if (at != ORR_NONE && r->at_ns[at] > begin_ns) /* a floor: a thread that begins by itself */
        ret->ns[ORR_SPAN_HOST_ANCHOR] += r->at_ns[at] - begin_ns;
    ret->span_ns = end_ns - begin_ns;
    for (int b = 0; b < ORR_SPANS; b++)
        ret->read_ns += orr_span_basis_is_read((orr_span_basis)b) ? ret->ns[b] : 0;
    ret->read_frac = ret->span_ns > 0 ? (double)ret->read_ns / (double)ret->span_ns : 0;
}

static orr_status retrace_graph(const orr_job *job, const orr_simulation *s, uint32_t graph,
                                uint32_t queue_depth, orr_arena *scratch, orr_span_shares *ret,
                                orr_error *err)
{
    const int64_t *const *durations = s->ensemble->duration_ns;
    orr_sim_program program;
    retracer r = {.g = job->graphs[graph],
                  .t = orr_simulation_timeline_of(job, s, graph),
                  .program = &program};
    *ret = (orr_span_shares){.rank = job->rank_of_graph[graph], .graph = graph};
    if (r.t == NULL)
        return ORR_OK;
    ORR_TRY(orr_sim_program_compile(r.g, durations != NULL ? durations[graph] : NULL, &s->constants,
                                    s->recording_costs, queue_depth, scratch, &program, err));
    ORR_TRY(lay_out(&r, scratch, err));
    retrace(&r, ret);
    return ORR_OK;
}

orr_status orr_simulation_read_time(const orr_job *job, const orr_simulation *simulation,
                                    uint32_t queue_depth, orr_arena *arena,
                                    const orr_span_shares **ret, orr_error *err)
{
    if (!orr_simulation_is_of_job(job, simulation))
        return orr_fail(err, ORR_INVALID, "the simulation is not a replay of this recording");
    orr_span_shares *rows = orr_arena_array(arena, orr_span_shares, job->n_graphs);
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = rows == NULL || scratch == NULL ? orr_fail_memory(err) : ORR_OK;
    for (uint32_t d = 0; d < job->n_graphs && status == ORR_OK; d++) {
        status = retrace_graph(job, simulation, d, queue_depth, scratch, &rows[d], err);
        orr_arena_reset(scratch);
    }
    orr_arena_free(scratch);
    if (status == ORR_OK)
        *ret = rows;
    return status;
}
