/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TOY_H
#define TESTS_TOY_H

/* Small programs by hand, and the ensembles that play them.
 *
 *   toy t = toy_begin(4);                                  four ranks
 *   uint32_t dp = toy_grouping(&t, "dp", (uint32_t[]){0, 0, 1, 1});
 *   toy_graph(&t);
 *   uint32_t mm = toy_work(&t, ORR_WORK_COMPUTE, 100, 0);  lane 0
 *   uint32_t ar = toy_communicate(&t, 50, 1, dp, 0);              lane 1, ordinal 0
 *   toy_wait(&t, ar, mm, 5);                               5 ns after the end of mm
 *   toy_end_graph(&t);  ... the next graph
 *   toy_all_ranks_run(&t, 0);
 *   toy_simulate(&t);   t.sim
 *   toy_end(&t);
 *
 * Works of a lane run one after the other, without a gap. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "sim/simulate_programs.h"

enum { TOY_LANES = 6, TOY_NODES = 512, TOY_EDGES = 4096, TOY_GRAPHS = 96, TOY_GROUPINGS = 8 };

typedef struct toy_link {
    orr_point_id from;
    orr_edge edge;
} toy_link;

typedef struct toy {
    orr_arena *arena;
    orr_graph_builder *builder;
    orr_ensemble ensemble;
    orr_grouping groupings[TOY_GROUPINGS];
    const orr_graph *graphs[TOY_GRAPHS];
    orr_sim_program programs[TOY_GRAPHS];
    const orr_rendezvous_id *rendezvous[TOY_GRAPHS];
    uint32_t *graph_of_rank;
    int64_t *start_ns;
    uint32_t *slowdown_ppm;
    /* of the graph being made */
    uint32_t n, last[TOY_LANES], n_links, n_comms;
    orr_sim_work works[TOY_NODES];
    toy_link links[TOY_EDGES];
    int64_t floors[2 * TOY_NODES];
    orr_rendezvous_id meets[TOY_NODES];
    orr_sim_options options;
    orr_simulation sim;
    orr_error err;
} toy;

static inline toy *toy_begin(uint32_t n_ranks)
{
    toy *t = orr_calloc(1, sizeof *t);
    assert_non_null(t);
    t->arena = orr_arena_new(0, 0);
    assert_non_null(t->arena);
    t->graph_of_rank = orr_arena_array(t->arena, uint32_t, n_ranks);
    t->start_ns = orr_arena_array(t->arena, int64_t, n_ranks);
    t->slowdown_ppm = orr_arena_array(t->arena, uint32_t, n_ranks);
    for (uint32_t r = 0; r < n_ranks; r++) {
        t->graph_of_rank[r] = ORR_NONE;
        t->slowdown_ppm[r] = 1000000;
    }
    t->ensemble = (orr_ensemble){.n_ranks = n_ranks,
                                 .graphs = t->graphs,
                                 .graph_of_rank = t->graph_of_rank,
                                 .start_ns = t->start_ns,
                                 .slowdown_ppm = t->slowdown_ppm,
                                 .groupings = t->groupings,
                                 .rendezvous = t->rendezvous};
    orr_sim_options_init(&t->options);
    t->options.fold = false;
    return t;
}

/* `group_of`: shape (R), ORR_NONE for none. */
static inline uint32_t toy_grouping(toy *t, const char *name, const uint32_t *group_of)
{
    const uint32_t n = t->ensemble.n_ranks;
    uint32_t *kept = orr_arena_array(t->arena, uint32_t, n), n_groups = 0;
    for (uint32_t r = 0; r < n; r++) {
        kept[r] = group_of[r];
        if (kept[r] != ORR_NONE && kept[r] >= n_groups)
            n_groups = kept[r] + 1;
    }
    assert_true(t->ensemble.n_groupings < TOY_GROUPINGS);
    assert_int_equal(orr_grouping_of(name, kept, n, n_groups, t->arena,
                                     &t->groupings[t->ensemble.n_groupings], &t->err),
                     ORR_OK);
    return t->ensemble.n_groupings++;
}

static inline void toy_graph(toy *t)
{
    t->n = t->n_links = t->n_comms = 0;
    memset(t->last, 0xff, sizeof t->last);
    t->builder = orr_graph_builder_new();
    assert_non_null(t->builder);
    for (int64_t i = 0; i < TOY_LANES; i++) {
        orr_lane_id id;
        assert_int_equal(orr_builder_lane(t->builder,
                                          &(orr_lane){.kind = ORR_LANE_STREAM, .tid = 7 + i}, &id,
                                          &t->err),
                         ORR_OK);
        assert_int_equal(id, i);
    }
}

static inline void toy_link_points(toy *t, orr_point_id from, orr_point_id to, int64_t lag_ns,
                                   bool host)
{
    assert_true(t->n_links < TOY_EDGES);
    t->links[t->n_links++] =
        (toy_link){from, {to, host ? ORR_EDGE_HOST_WORK : ORR_EDGE_LATENCY, lag_ns}};
}

static inline uint32_t toy_node(toy *t, orr_work_class class, int64_t duration_ns, uint32_t lane)
{
    static const orr_node_kind kinds[] = {ORR_NODE_COMPUTE, ORR_NODE_COLLECTIVE, ORR_NODE_COPY,
                                          ORR_NODE_COLLECTIVE};
    const uint32_t v = t->n++;
    char name[16];
    orr_str str;
    orr_node_id id;
    assert_true(v < TOY_NODES && lane < TOY_LANES);
    snprintf(name, sizeof name, "n%u", v);
    assert_int_equal(orr_builder_str(t->builder, name, strlen(name), &str, &t->err), ORR_OK);
    assert_int_equal(orr_builder_node(t->builder,
                                      &(orr_node){.name = str,
                                                  .kind = kinds[class],
                                                  .lane = lane,
                                                  .start_ns = v,
                                                  .duration_ns = duration_ns < 0 ? 0 : duration_ns,
                                                  .parent = ORR_NONE},
                                      &id, &t->err),
                     ORR_OK);
    assert_int_equal(id, v);
    t->works[v] = (orr_sim_work){.node = v,
                                 .start = 2 * v,
                                 .end = 2 * v + 1,
                                 .work_class = (uint8_t) class,
                                 .device = class == ORR_WORK_HOST ? -1 : 0,
                                 .duration_ns = duration_ns,
                                 .comm = ORR_NONE};
    t->floors[2 * v] = t->floors[2 * v + 1] = INT64_MIN;
    if (t->last[lane] != ORR_NONE)
        toy_link_points(t, 2 * t->last[lane] + 1, 2 * v, 0, false);
    t->last[lane] = v;
    return v;
}

static inline uint32_t toy_work(toy *t, orr_work_class class, int64_t duration_ns, uint32_t lane)
{
    return toy_node(t, class, duration_ns, lane);
}

static inline uint32_t toy_meet_bytes(toy *t, int64_t duration_ns, uint32_t lane, uint32_t grouping,
                                      uint32_t ordinal, orr_collective collective, int64_t bytes)
{
    const uint32_t v = toy_node(t, ORR_WORK_COMM, duration_ns, lane);
    const orr_comm comm = {.collective = (uint8_t)collective,
                           .group = ORR_NONE,
                           .group_size = -1,
                           .seq = -1,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .in_bytes = bytes,
                           .out_bytes = bytes};
    assert_int_equal(orr_builder_comm(t->builder, v, &comm, &t->err), ORR_OK);
    t->works[v].comm = t->n_comms;
    t->meets[t->n_comms++] = (orr_rendezvous_id){grouping, ordinal};
    return v;
}

static inline uint32_t toy_communicate(toy *t, int64_t duration_ns, uint32_t lane,
                                       uint32_t grouping, uint32_t ordinal)
{
    return toy_meet_bytes(t, duration_ns, lane, grouping, ordinal, ORR_COLL_ALL_REDUCE, 1 << 20);
}

/* start(v) >= end(on) + lag */
static inline void toy_wait(toy *t, uint32_t v, uint32_t on, int64_t lag_ns)
{
    toy_link_points(t, 2 * on + 1, 2 * v, lag_ns, false);
}

static inline void toy_end_graph(toy *t)
{
    const uint32_t d = t->ensemble.n_graphs++, n_points = 2 * t->n;
    assert_true(d < TOY_GRAPHS);
    assert_int_equal(orr_graph_build(t->builder, &t->graphs[d], &t->err), ORR_OK);
    orr_graph_builder_free(t->builder);
    uint32_t *first = orr_arena_array(t->arena, uint32_t, n_points + 2);
    orr_edge *edges = orr_arena_array(t->arena, orr_edge, t->n_links);
    int64_t *floors = orr_arena_array(t->arena, int64_t, n_points);
    orr_sim_work *works = orr_arena_array(t->arena, orr_sim_work, t->n);
    uint32_t *work_at = orr_arena_array(t->arena, uint32_t, n_points);
    orr_point_id *start = orr_arena_array(t->arena, orr_point_id, t->n);
    orr_point_id *end = orr_arena_array(t->arena, orr_point_id, t->n);
    orr_rendezvous_id *meets = orr_arena_array(t->arena, orr_rendezvous_id, t->n_comms);
    for (uint32_t i = 0; i < t->n_links; i++)
        first[t->links[i].from + 1]++;
    for (uint32_t p = 0; p < n_points; p++)
        first[p + 1] += first[p];
    for (uint32_t p = 0, i = 0; p < n_points; p++)
        for (uint32_t k = 0; k < t->n_links; k++)
            if (t->links[k].from == p)
                edges[i++] = t->links[k].edge;
    for (uint32_t v = 0; v < t->n; v++) {
        works[v] = t->works[v];
        start[v] = works[v].start;
        end[v] = works[v].end;
        work_at[start[v]] = v;
        work_at[end[v]] = ORR_NONE;
    }
    memcpy(floors, t->floors, n_points * sizeof *floors);
    memcpy(meets, t->meets, t->n_comms * sizeof *meets);
    t->rendezvous[d] = meets;
    t->programs[d] = (orr_sim_program){.graph = t->graphs[d],
                                       .n_points = n_points,
                                       .n_edges = t->n_links,
                                       .n_works = t->n,
                                       .edge_first = first,
                                       .edges = edges,
                                       .floor_ns = floors,
                                       .works = works,
                                       .work_at = work_at,
                                       .start_point = start,
                                       .end_point = end};
}

static inline void toy_all_ranks_run(toy *t, uint32_t graph)
{
    for (uint32_t r = 0; r < t->ensemble.n_ranks; r++)
        t->graph_of_rank[r] = graph;
}

static inline orr_status toy_try(toy *t)
{
    return orr_simulate_programs(&t->ensemble, t->programs, &t->options, t->arena, &t->sim,
                                 &t->err);
}

static inline void toy_simulate(toy *t)
{
    if (toy_try(t) != ORR_OK)
        fail_msg("%s", t->err.text);
}

static inline const orr_timeline *toy_of(const toy *t, uint32_t rank)
{
    return &t->sim.timelines[t->sim.class_of_rank[rank]];
}

static inline int64_t toy_start(const toy *t, uint32_t rank, uint32_t v)
{
    return toy_of(t, rank)->start_ns[v];
}

static inline int64_t toy_stop(const toy *t, uint32_t rank, uint32_t v)
{
    return toy_of(t, rank)->start_ns[v] + toy_of(t, rank)->duration_ns[v];
}

static inline void toy_end(toy *t)
{
    for (uint32_t d = 0; d < t->ensemble.n_graphs; d++)
        orr_graph_free(t->graphs[d]);
    orr_arena_free(t->arena);
    orr_free(t);
}

#endif /* TESTS_TOY_H */
