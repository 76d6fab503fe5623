/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/results/energy.h"

typedef struct sums {
    const orr_engine *engine;
    const orr_actor *actor;
    const uint8_t *basis;  /* shape (N), or NULL */
    int64_t ns[ORR_BASES]; /* of one rank */
} sums;

static uint8_t basis_of(const sums *s, orr_node_id v)
{
    if (s->basis == NULL)
        return ORR_BASIS_RECORDED;
    return s->basis[v] < ORR_BASES ? s->basis[v] : ORR_BASIS_NONE;
}

static void add(sums *s, uint8_t basis, int64_t ns)
{
    s->ns[basis] = orr_after_ns(s->ns[basis], ns);
}

static void add_work(sums *s, uint32_t w)
{
    const orr_prepared_program *prepared = s->actor->prepared;
    const orr_sim_work *work = &prepared->program->works[w];
    const int64_t *time_ns = s->engine->time_ns + s->actor->first_point;
    const uint32_t call = prepared->call_of_work[w];
    const uint32_t id =
        call == ORR_NONE ? ORR_NONE : s->engine->rendezvous.of_call[s->actor->first_call + call];
    uint8_t basis = prepared->alone_basis[w];
    int64_t from_ns = time_ns[work->start];
    if (id != ORR_NONE) {
        basis = s->engine->rendezvous.at[id].basis;
        from_ns = s->engine->rendezvous.at[id].start_ns;
    }
    add(s, basis == ORR_BASES ? basis_of(s, work->node) : basis, time_ns[work->end] - from_ns);
}

/* Is it host time of the node itself, and not an annotation over other nodes? */
static bool is_host_work(const orr_graph *graph, orr_node_id v)
{
    if (graph->lanes[graph->lane[v]].kind != ORR_LANE_HOST)
        return false;
    switch (graph->kind[v]) {
    case ORR_NODE_HOST_OP:
    case ORR_NODE_RUNTIME:
    case ORR_NODE_PYTHON:
    case ORR_NODE_OTHER:
    case ORR_NODE_OVERHEAD:
        return true;
    default:
        return false;
    }
}

/* The innermost such node on the same thread that contains it. */
static orr_node_id above(const orr_graph *graph, orr_node_id v)
{
    orr_node_id p = graph->parent[v];
    while (p != ORR_NONE && graph->lane[p] == graph->lane[v] && !is_host_work(graph, p))
        p = graph->parent[p];
    return p != ORR_NONE && graph->lane[p] == graph->lane[v] ? p : ORR_NONE;
}

static void add_host(sums *s, const orr_timeline *timeline)
{
    const orr_graph *graph = s->actor->prepared->program->graph;
    for (orr_node_id v = 0; v < graph->n_nodes; v++) {
        if (timeline->start_ns[v] == ORR_TIME_NONE || !is_host_work(graph, v))
            continue;
        const orr_node_id p = above(graph, v);
        add(s, basis_of(s, v), timeline->duration_ns[v]);
        if (p != ORR_NONE && timeline->start_ns[p] != ORR_TIME_NONE)
            add(s, basis_of(s, p), -timeline->duration_ns[v]);
    }
}

void orr_basis_sums(const orr_engine *engine, const orr_timeline *timelines,
                    int64_t basis_ns[ORR_BASES])
{
    for (uint32_t a = 0; a < engine->n_actors; a++) {
        const orr_actor *actor = &engine->actors[a];
        const uint8_t *const *basis = engine->ensemble->basis;
        sums s = {.engine = engine, .actor = actor, .basis = basis ? basis[actor->graph] : NULL};
        for (uint32_t w = 0; w < actor->prepared->program->n_works; w++)
            add_work(&s, w);
        add_host(&s, &timelines[a]);
        for (int b = 0; b < ORR_BASES; b++) {
            int64_t all_ns;
            if (__builtin_mul_overflow(s.ns[b], (int64_t)actor->n_ranks, &all_ns))
                all_ns = INT64_MAX;
            basis_ns[b] = orr_after_ns(basis_ns[b], all_ns);
        }
    }
}
