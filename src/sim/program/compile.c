/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/compile.h"

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/pollers.h"

/* Do nodes of threads have recorded starts? If none has, threads imply no order. */
static bool has_times(const orr_graph *g)
{
    bool any = false;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (orr_on_thread(g, v)) {
            if (g->start_ns[v] != ORR_TIME_NONE)
                return true;
            any = true;
        }
    return !any;
}

static uint64_t count_host_points(const orr_compiler *c)
{
    const orr_graph *g = c->g;
    uint64_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (orr_on_thread(g, v) && orr_compile_simulates(c, v))
            n += c->timed && g->kind[v] == ORR_NODE_MEMORY ? 1 : 2;
    return n;
}

static orr_status prepare(orr_compiler *c)
{
    const orr_graph *g = c->g;
    c->timed = has_times(g);
    c->polls = orr_lanes_that_poll(g, c->scratch);
    if (c->polls == NULL)
        return orr_fail_memory(c->err);
    ORR_TRY(orr_streams_find(g, c->scratch, &c->streams, c->err));
    const uint64_t host = count_host_points(c), all = host + 2 * (uint64_t)c->streams.n;
    if (all > (1u << 31))
        return orr_fail(c->err, ORR_LIMIT, "%llu points of time are too many for one rank",
                        (unsigned long long)all);
    c->n_host = (uint32_t)host;
    c->start_point = orr_arena_array(c->arena, orr_point_id, g->n_nodes);
    c->end_point = orr_arena_array(c->arena, orr_point_id, g->n_nodes);
    c->floor_ns = orr_arena_array(c->arena, int64_t, all);
    c->at_ns = orr_arena_array(c->scratch, int64_t, host);
    c->chain_ns = orr_arena_array(c->scratch, int64_t, host);
    c->chain_kind = orr_arena_array(c->scratch, uint8_t, host);
    c->inside = orr_arena_array(c->scratch, orr_node_id, host);
    c->host_first = orr_arena_array(c->scratch, uint32_t, (size_t)g->n_lanes + 1);
    if (!c->start_point || !c->end_point || !c->floor_ns || !c->at_ns || !c->chain_ns ||
        !c->chain_kind || !c->inside || !c->host_first)
        return orr_fail_memory(c->err);
    memset(c->start_point, 0xff, g->n_nodes * sizeof *c->start_point);
    memset(c->end_point, 0xff, g->n_nodes * sizeof *c->end_point);
    memset(c->inside, 0xff, host * sizeof *c->inside);
    for (uint64_t p = 0; p < all; p++)
        c->floor_ns[p] = INT64_MIN;
    return ORR_OK;
}

static bool chained(const orr_compiler *c, uint32_t p)
{
    return p + 1 < c->n_host && c->chain_ns[p + 1] >= 0;
}

/* The time of a thread before a point, as it is to be. */
static int64_t chain_ns(const orr_compiler *c, uint32_t p)
{
    if (c->duration_ns == c->g->duration_ns)
        return c->chain_ns[p];
    return llround((double)c->chain_ns[p] * orr_compile_host_factor(c, c->inside[p]));
}

/* Sorts edges into rows by the point that they leave; those along a thread come first. */
static orr_status freeze_edges(const orr_compiler *c, orr_sim_program *ret)
{
    const uint32_t n = c->n_points;
    uint64_t chains = 0;
    for (uint32_t p = 0; p < n; p++)
        chains += chained(c, p);
    if (chains + c->edges.n >= UINT32_MAX)
        return orr_fail(c->err, ORR_LIMIT, "over 2^32 - 1 edges in one rank");
    uint32_t *first = orr_arena_array(c->arena, uint32_t, (size_t)n + 1);
    orr_edge *edges = orr_arena_array(c->arena, orr_edge, chains + c->edges.n);
    uint32_t *at = orr_arena_array(c->scratch, uint32_t, n);
    if (first == NULL || edges == NULL || at == NULL)
        return orr_fail_memory(c->err);
    for (size_t i = 0; i < c->edges.n; i++)
        first[c->edges.at[i].from + 1]++;
    for (uint32_t p = 0; p < n; p++) {
        at[p] = first[p];
        if (chained(c, p))
            edges[at[p]++] = (orr_edge){p + 1, c->chain_kind[p + 1], chain_ns(c, p + 1)};
        first[p + 1] += at[p];
    }
    for (size_t i = 0; i < c->edges.n; i++) {
        const orr_raw_edge *e = &c->edges.at[i];
        edges[at[e->from]++] = (orr_edge){e->to, e->kind, e->lag_ns};
    }
    ret->edge_first = first;
    ret->edges = edges;
    ret->n_edges = first[n];
    return ORR_OK;
}

static orr_status freeze(const orr_compiler *c, orr_sim_program *ret)
{
    orr_sim_program program = {.graph = c->g,
                               .n_points = c->n_points,
                               .n_works = (uint32_t)c->works.n,
                               .floor_ns = c->floor_ns,
                               .start_point = c->start_point,
                               .end_point = c->end_point};
    ORR_TRY(freeze_edges(c, &program));
    orr_sim_work *works = orr_arena_array(c->arena, orr_sim_work, c->works.n);
    uint32_t *work_at = orr_arena_array(c->arena, uint32_t, c->n_points);
    if (works == NULL || work_at == NULL)
        return orr_fail_memory(c->err);
    memset(work_at, 0xff, c->n_points * sizeof *work_at);
    for (size_t i = 0; i < c->works.n; i++) {
        works[i] = c->works.at[i];
        work_at[works[i].start] = (uint32_t)i;
    }
    program.works = works;
    program.work_at = work_at;
    *ret = program;
    return ORR_OK;
}

static orr_status run_steps(orr_compiler *c, orr_sim_program *ret)
{
    ORR_TRY(prepare(c));
    ORR_TRY(orr_compile_threads(c));
    ORR_TRY(orr_compile_devices(c));
    c->n_points = c->n_host + 2 * c->streams.n;
    ORR_TRY(orr_compile_dependencies(c));
    ORR_TRY(orr_compile_launch_queues(c));
    ORR_TRY(orr_compile_blocking_calls(c));
    ORR_TRY(orr_compile_recording_costs(c));
    ORR_TRY(orr_compile_device_annotations(c));
    return freeze(c, ret);
}

/* Is the program acyclic? Kahn's algorithm. */
static orr_status is_acyclic(const orr_sim_program *p, orr_arena *scratch, bool *ret,
                             orr_error *err)
{
    uint32_t *waits_for = orr_arena_array(scratch, uint32_t, p->n_points);
    orr_point_id *settled = orr_arena_array(scratch, orr_point_id, p->n_points);
    uint32_t n = 0;
    if (waits_for == NULL || settled == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < p->n_edges; k++)
        waits_for[p->edges[k].to]++;
    for (uint32_t w = 0; w < p->n_works; w++)
        waits_for[p->works[w].end]++;
    for (orr_point_id at = 0; at < p->n_points; at++)
        if (waits_for[at] == 0)
            settled[n++] = at;
    for (uint32_t i = 0; i < n; i++) {
        const orr_point_id at = settled[i];
        for (uint32_t k = p->edge_first[at]; k < p->edge_first[at + 1]; k++)
            if (--waits_for[p->edges[k].to] == 0)
                settled[n++] = p->edges[k].to;
        const uint32_t w = p->work_at[at];
        if (w != ORR_NONE && --waits_for[p->works[w].end] == 0)
            settled[n++] = p->works[w].end;
    }
    *ret = n == p->n_points;
    return ORR_OK;
}

static void drop(orr_compiler *c)
{
    orr_array_done(&c->edges);
    orr_array_done(&c->works);
    orr_array_done(&c->waits);
    orr_array_done(&c->woken);
}

orr_status orr_sim_program_compile(const orr_graph *graph, const int64_t *duration_ns,
                                   const orr_sim_latencies *constants,
                                   const orr_recording_costs *costs, uint32_t queue_depth,
                                   orr_arena *arena, orr_sim_program *ret, orr_error *err)
{
    orr_compiler c = {.g = graph,
                      .duration_ns = duration_ns != NULL ? duration_ns : graph->duration_ns,
                      .constants = constants,
                      .costs = costs,
                      .queue_depth = queue_depth < 1 ? 1 : queue_depth,
                      .arena = arena,
                      .scratch = orr_arena_new(0, 0),
                      .err = err};
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    bool acyclic = true;
    orr_status status = c.scratch == NULL ? orr_fail_memory(err) : run_steps(&c, ret);
    /* In a recording without times, the order of nodes in the file is no order of a stream. */
    if (status == ORR_OK && !c.timed)
        status = is_acyclic(ret, c.scratch, &acyclic, err);
    if (status == ORR_OK && !acyclic) {
        drop(&c);
        orr_arena_rewind(arena, mark);
        c.n_points = 0;
        c.free_streams = true;
        status = run_steps(&c, ret);
    }
    drop(&c);
    orr_arena_free(c.scratch);
    return status;
}
