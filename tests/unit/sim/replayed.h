/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_REPLAYED_H
#define TESTS_REPLAYED_H

/* Small recordings by hand (small_job.h), compiled, and the times that the program gives: the
 * longest way to each point, without the engine. */
#include "../analysis/small_job.h"

#include "sim/program/program.h"

typedef struct replayed {
    orr_sim_program program;
    int64_t *at_ns; /* shape (points) */
    uint32_t settled;
} replayed;

static const orr_sim_latencies SMALL_CONSTANTS = {.launch_latency_ns = 7,
                                                  .kernel_gap_ns = 2,
                                                  .sync_return_ns = 5,
                                                  .handoff_ns = 11,
                                                  .event_latency_ns = 3,
                                                  .resume_ns = 13,
                                                  .copy_launch_ns = 7,
                                                  .copy_gap_ns = 2};

static inline void small_dep(small *s, orr_node_id node, orr_node_id on, orr_dep_kind kind)
{
    assert_int_equal(orr_builder_dep(s->builder, node, on, kind, &s->err), ORR_OK);
}

/* Of a recording that never became a job. */
static inline void small_drop(small *s)
{
    for (uint32_t i = 0; i < s->n_graphs; i++)
        orr_graph_free(s->graphs[i]);
    small_end(s);
}

static inline void reach(replayed *r, uint32_t *waits_for, orr_point_id *order, orr_point_id to,
                         int64_t at_ns)
{
    if (at_ns > r->at_ns[to])
        r->at_ns[to] = at_ns;
    if (--waits_for[to] == 0)
        order[r->settled++] = to;
}

static inline void settle(replayed *r, orr_arena *arena)
{
    const orr_sim_program *p = &r->program;
    uint32_t *waits_for = orr_arena_array(arena, uint32_t, p->n_points);
    orr_point_id *order = orr_arena_array(arena, orr_point_id, p->n_points);
    r->at_ns = orr_arena_array(arena, int64_t, p->n_points);
    r->settled = 0;
    for (uint32_t k = 0; k < p->n_edges; k++) {
        assert_true(p->edges[k].lag_ns >= 0);
        waits_for[p->edges[k].to]++;
    }
    for (uint32_t w = 0; w < p->n_works; w++)
        waits_for[p->works[w].end]++;
    for (orr_point_id at = 0; at < p->n_points; at++) {
        r->at_ns[at] = p->floor_ns[at] > 0 ? p->floor_ns[at] : 0;
        if (waits_for[at] == 0)
            order[r->settled++] = at;
    }
    for (uint32_t i = 0; i < r->settled; i++) {
        const orr_point_id at = order[i];
        const uint32_t w = p->work_at[at];
        for (uint32_t k = p->edge_first[at]; k < p->edge_first[at + 1]; k++)
            reach(r, waits_for, order, p->edges[k].to, r->at_ns[at] + p->edges[k].lag_ns);
        if (w != ORR_NONE)
            reach(r, waits_for, order, p->works[w].end, r->at_ns[at] + p->works[w].duration_ns);
    }
}

/* With other durations, shape (N); NULL: the graph's own. */
static inline replayed replay_changed(const orr_graph *graph, const int64_t *duration_ns,
                                      uint32_t queue_depth, orr_arena *arena)
{
    replayed r;
    orr_error err;
    if (orr_sim_program_compile(graph, duration_ns, &SMALL_CONSTANTS, NULL, queue_depth, arena,
                                &r.program, &err) != ORR_OK)
        fail_msg("%s", err.text);
    settle(&r, arena);
    assert_int_equal(r.settled, r.program.n_points); /* no cycle */
    return r;
}

static inline replayed replay_graph(const orr_graph *graph, uint32_t queue_depth, orr_arena *arena)
{
    return replay_changed(graph, NULL, queue_depth, arena);
}

/* The rank that is complete, replayed. */
static inline replayed replay_small(small *s)
{
    return replay_graph(small_rank(s), 1024, s->arena);
}

static inline int64_t start_of(const replayed *r, orr_node_id v)
{
    assert_true(r->program.start_point[v] != ORR_NONE);
    return r->at_ns[r->program.start_point[v]];
}

static inline int64_t end_of(const replayed *r, orr_node_id v)
{
    assert_true(r->program.end_point[v] != ORR_NONE);
    return r->at_ns[r->program.end_point[v]];
}

/* The same graph at the times of the replay. */
static inline const orr_graph *retimed(const replayed *r, orr_arena *arena)
{
    const orr_graph *g = r->program.graph, *ret;
    int64_t *start = orr_arena_array(arena, int64_t, g->n_nodes);
    int64_t *duration = orr_arena_array(arena, int64_t, g->n_nodes);
    const orr_retiming times = {start, duration, 0, ORR_NONE};
    orr_error err;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const bool known = r->program.start_point[v] != ORR_NONE;
        start[v] = known ? start_of(r, v) : ORR_TIME_NONE;
        duration[v] = known ? end_of(r, v) - start_of(r, v) : 0;
    }
    assert_int_equal(orr_graph_retime(g, &times, &ret, &err), ORR_OK);
    return ret;
}

#endif /* TESTS_REPLAYED_H */
