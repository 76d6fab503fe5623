/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/validation/validation.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "sim/validation/timelines.h"

/* Validation: the simulation of a recorded job compared with the recording, by rank, lane and
 * profiler step. */

bool orr_simulation_is_of_job(const orr_job *job, const orr_simulation *s)
{
    const orr_ensemble *e = s->ensemble;
    if (e->n_graphs != job->n_graphs || e->n_ranks != job->n_ranks)
        return false;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        if (e->graphs[d] != job->graphs[d])
            return false;
    return true;
}

const orr_timeline *orr_simulation_timeline_of(const orr_job *job, const orr_simulation *s,
                                               uint32_t graph)
{
    const uint32_t c = s->class_of_rank[job->rank_of_graph[graph]];
    return c == ORR_NONE ? NULL : &s->timelines[c];
}

/* Recording and simulation of one rank. */
typedef struct pair {
    const orr_job *job;
    const orr_graph *g;
    const orr_timeline *t;
    uint32_t rank, graph;
    bool device; /* it has device work */
} pair;

/* Errors of a span, while they are collected. */
typedef struct gauge {
    int64_t recorded_from, recorded_to, simulated_from, simulated_to;
    orr_array(int64_t) starts; /* absolute errors */
    int64_t worst;
    orr_node_id worst_node;
} gauge;

static void gauge_clear(gauge *u)
{
    u->recorded_from = u->simulated_from = INT64_MAX;
    u->recorded_to = u->simulated_to = INT64_MIN;
    u->starts.n = 0;
    u->worst = -1;
    u->worst_node = ORR_NONE;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t most(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static bool gauge_add(gauge *u, const pair *p, orr_node_id v, bool start)
{
    const int64_t recorded = orr_job_start_ns(p->job, p->graph, v), simulated = p->t->start_ns[v];
    u->recorded_from = least(u->recorded_from, recorded);
    u->recorded_to = most(u->recorded_to, recorded + p->g->duration_ns[v]);
    u->simulated_from = least(u->simulated_from, simulated);
    u->simulated_to = most(u->simulated_to, simulated + p->t->duration_ns[v]);
    if (!start)
        return true;
    const int64_t error = simulated > recorded ? simulated - recorded : recorded - simulated;
    if (error > u->worst) {
        u->worst = error;
        u->worst_node = v;
    }
    return orr_array_push(&u->starts, error);
}

static int compare(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static orr_validation_span gauge_read(gauge *u)
{
    orr_validation_span span = {.worst = ORR_NONE};
    const size_t n = u->starts.n;
    if (u->recorded_from > u->recorded_to)
        return span;
    span.recorded_ns = u->recorded_to - u->recorded_from;
    span.simulated_ns = u->simulated_to - u->simulated_from;
    if (span.recorded_ns > 0)
        span.error_frac = (double)span.simulated_ns / (double)span.recorded_ns - 1;
    if (n == 0)
        return span;
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)u->starts.at[i];
    qsort(u->starts.at, n, sizeof *u->starts.at, compare);
    span.n_starts = n;
    span.mean_start_ns = sum / (double)n;
    span.p90_start_ns = u->starts.at[(n - 1) * 9 / 10];
    span.worst_start_ns = u->worst;
    span.worst = u->worst_node;
    return span;
}

static bool is_compared(const pair *p, orr_node_id v)
{
    return p->g->start_ns[v] != ORR_TIME_NONE && p->t->start_ns[v] != ORR_TIME_NONE &&
           orr_sim_executes(p->g, v);
}

static bool has_start(const pair *p, orr_node_id v)
{
    return p->device ? !orr_on_thread(p->g, v) : orr_communicates(p->g, v);
}

typedef struct report {
    orr_array(orr_validation_rank) ranks;
    orr_array(orr_validation_lane) lanes;
    orr_array(orr_validation_step) steps;
    gauge rank, lane;
} report;

static bool add_lanes(report *r, const pair *p)
{
    const orr_graph *g = p->g;
    gauge_clear(&r->rank);
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++) {
        gauge_clear(&r->lane);
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
            const orr_node_id v = g->lane_node[i];
            if (is_compared(p, v) && (!gauge_add(&r->lane, p, v, has_start(p, v)) ||
                                      !gauge_add(&r->rank, p, v, has_start(p, v))))
                return false;
        }
        if (r->lane.recorded_from > r->lane.recorded_to)
            continue;
        const orr_validation_lane row = {p->rank, p->graph, lane, gauge_read(&r->lane)};
        if (!orr_array_push(&r->lanes, row))
            return false;
    }
    const orr_validation_rank row = {p->rank, p->graph, gauge_read(&r->rank)};
    return orr_array_push(&r->ranks, row);
}

static bool add_steps(report *r, const pair *p)
{
    static const char step[] = "ProfilerStep";
    const orr_graph *g = p->g;
    for (orr_lane_id lane = 0; lane < g->n_lanes; lane++)
        for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
            const orr_node_id v = g->lane_node[i];
            const char *name = orr_graph_str(g, g->name[v]);
            if (!orr_on_thread(g, v) || strncmp(name, step, sizeof step - 1) != 0 ||
                g->start_ns[v] == ORR_TIME_NONE || p->t->start_ns[v] == ORR_TIME_NONE)
                continue;
            gauge_clear(&r->lane);
            if (!gauge_add(&r->lane, p, v, true))
                return false;
            const orr_validation_step row = {p->rank, p->graph, v, name, gauge_read(&r->lane)};
            if (!orr_array_push(&r->steps, row))
                return false;
        }
    return true;
}

static bool add_rank(report *r, const orr_job *job, const orr_simulation *s, uint32_t graph)
{
    const orr_timeline *t = orr_simulation_timeline_of(job, s, graph);
    if (t == NULL)
        return true;
    pair p = {.job = job,
              .g = job->graphs[graph],
              .t = t,
              .rank = job->rank_of_graph[graph],
              .graph = graph};
    for (orr_node_id v = 0; v < p.g->n_nodes && !p.device; v++)
        p.device = orr_occupies(p.g, v);
    return add_lanes(r, &p) && add_steps(r, &p);
}

/* Mean and maximum of |error_frac| over n rows that are `stride` bytes apart. */
static void sum_up(const orr_validation_span *first, size_t n, size_t stride, double *ret_mean,
                   double *ret_worst)
{
    double sum = 0, worst = 0;
    for (size_t i = 0; i < n; i++) {
        const orr_validation_span *span = (const void *)((const char *)first + i * stride);
        const double error = span->error_frac < 0 ? -span->error_frac : span->error_frac;
        sum += error;
        worst = error > worst ? error : worst;
    }
    *ret_mean = n > 0 ? sum / (double)n : 0;
    *ret_worst = worst;
}

static void *keep(orr_arena *arena, const void *rows, size_t n, size_t row_bytes)
{
    void *kept = orr_arena_alloc(arena, n, row_bytes, _Alignof(max_align_t));
    if (kept != NULL && n > 0)
        memcpy(kept, rows, n * row_bytes);
    return kept;
}

static orr_status finish(const report *r, orr_arena *arena, orr_validation *ret, orr_error *err)
{
    orr_validation e = {
        .ranks = keep(arena, r->ranks.at, r->ranks.n, sizeof *r->ranks.at),
        .lanes = keep(arena, r->lanes.at, r->lanes.n, sizeof *r->lanes.at),
        .steps = keep(arena, r->steps.at, r->steps.n, sizeof *r->steps.at),
        .n_ranks = r->ranks.n,
        .n_lanes = r->lanes.n,
        .n_steps = r->steps.n,
    };
    if (e.ranks == NULL || e.lanes == NULL || e.steps == NULL)
        return orr_fail_memory(err);
    sum_up(&e.ranks->span, e.n_ranks, sizeof *e.ranks, &e.mean_frac, &e.worst_frac);
    sum_up(&e.steps->span, e.n_steps, sizeof *e.steps, &e.mean_step_frac, &e.worst_step_frac);
    *ret = e;
    return ORR_OK;
}

orr_status orr_simulation_validate(const orr_job *job, const orr_simulation *simulation,
                                   orr_arena *arena, orr_validation *ret, orr_error *err)
{
    if (!orr_simulation_is_of_job(job, simulation))
        return orr_fail(err, ORR_INVALID, "the simulation is not a replay of this recording");
    report r = {0};
    bool done = true;
    for (uint32_t d = 0; d < job->n_graphs && done; d++)
        done = add_rank(&r, job, simulation, d);
    const orr_status status = done ? finish(&r, arena, ret, err) : orr_fail_memory(err);
    orr_array_done(&r.ranks);
    orr_array_done(&r.lanes);
    orr_array_done(&r.steps);
    orr_array_done(&r.rank.starts);
    orr_array_done(&r.lane.starts);
    return status;
}
