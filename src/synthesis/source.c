/* SPDX-License-Identifier: Apache-2.0 */
#include "synthesis/source.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "graph/job.h"
#include "graph/pollers.h"

/* What of a rank's recording can stand in a generated job: operators, calls, device work and
 * communications of all threads that do not only poll. Python functions and annotations tell whose
 * job it is, and take no time of their own but what a thread spends between operators: they are
 * kept only where something waits for them. Allocations and marks of the profiler are left out. */

typedef struct learner {
    const orr_graph *g;
    const char *annotation;
    orr_arena *arena;
    const bool *polls;
    bool *ties; /* shape (N): something other than its own thread waits for it, or it for that */
    uint32_t *size; /* shape (N): nodes nested in it, itself included */
    bool *kept;
    orr_node_id *parent;
    int64_t *place_ns, *self_ns;
    orr_node_id *order, *divided;
    uint32_t *lane_of;
    uint32_t n_order, n_divided;
} learner;

static bool is_step(const learner *l, orr_node_id v)
{
    return strncmp(orr_graph_str(l->g, l->g->name[v]), l->annotation, strlen(l->annotation)) == 0;
}

static bool keep(const learner *l, orr_node_id v)
{
    const orr_graph *g = l->g;
    if (g->start_ns[v] == ORR_TIME_NONE || l->polls[g->lane[v]] || is_step(l, v))
        return false;
    switch (g->kind[v]) {
    case ORR_NODE_PYTHON:
    case ORR_NODE_ANNOTATION:
        return l->ties[v];
    case ORR_NODE_HOST_OP:
    case ORR_NODE_RUNTIME:
    case ORR_NODE_COMPUTE:
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
    case ORR_NODE_SYNC:
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return true;
    default:
        return false;
    }
}

static bool divides(const learner *l, orr_node_id v)
{
    const uint8_t kind = l->g->kind[v];
    return kind == ORR_NODE_PYTHON || kind == ORR_NODE_ANNOTATION ||
           (kind == ORR_NODE_HOST_OP && l->size[v] > ORR_SYNTHESIS_LARGE);
}

static void find_ties(learner *l)
{
    const orr_graph *g = l->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
            if (g->lane[g->dep[k]] != g->lane[v])
                l->ties[v] = l->ties[g->dep[k]] = true;
}

/* Lanes are in order of starts, longer ones first: what is nested comes later. */
static void count_nested(learner *l)
{
    const orr_graph *g = l->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        l->size[v] = 1;
    for (uint32_t i = g->n_nodes; i-- > 0;) {
        const orr_node_id v = g->lane_node[i], parent = g->parent[v];
        if (parent != ORR_NONE && g->lane[parent] == g->lane[v])
            l->size[parent] += l->size[v];
    }
}

/* The innermost kept node around v; nodes on the way get theirs, so that no way is gone twice. */
static void find_parent(learner *l, orr_node_id v)
{
    static const orr_node_id unknown = ORR_NONE - 1;
    const orr_graph *g = l->g;
    orr_node_id at = v, found;
    if (l->parent[v] != unknown)
        return;
    do
        at = g->parent[at];
    while (at != ORR_NONE && !l->kept[at] && l->parent[at] == unknown);
    found = at == ORR_NONE || l->kept[at] ? at : l->parent[at];
    for (at = v; at != ORR_NONE && l->parent[at] == unknown && (at == v || !l->kept[at]);) {
        const orr_node_id next = g->parent[at];
        l->parent[at] = found;
        at = next;
    }
}

static void find_parents(learner *l)
{
    const orr_graph *g = l->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        l->parent[v] = ORR_NONE - 1;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        find_parent(l, v);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        l->self_ns[v] = g->duration_ns[v];
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_node_id parent = l->parent[v];
        if (l->kept[v] && parent != ORR_NONE && g->lane[parent] == g->lane[v])
            l->self_ns[parent] -= g->duration_ns[v];
    }
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (l->self_ns[v] < 0) /* children that overlap */
            l->self_ns[v] = 0;
}

/* Device work is issued when its launch begins. */
static int64_t place_of(const learner *l, orr_node_id v)
{
    const orr_graph *g = l->g;
    if (!l->kept[v])
        return INT64_MIN;
    if (g->lanes[g->lane[v]].kind == ORR_LANE_STREAM)
        for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
            if (g->dep_kind[k] == ORR_DEP_LAUNCH && l->kept[g->dep[k]])
                return g->start_ns[g->dep[k]];
    return g->start_ns[v];
}

static int compare_order(const void *a_, const void *b_, void *learner_)
{
    const learner *l = learner_;
    const orr_node_id a = *(const orr_node_id *)a_, b = *(const orr_node_id *)b_;
    const orr_graph *g = l->g;
    if (l->place_ns[a] != l->place_ns[b])
        return l->place_ns[a] < l->place_ns[b] ? -1 : 1;
    if (g->start_ns[a] != g->start_ns[b])
        return g->start_ns[a] < g->start_ns[b] ? -1 : 1;
    if (g->duration_ns[a] != g->duration_ns[b])
        return g->duration_ns[a] > g->duration_ns[b] ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void put_in_order(learner *l)
{
    const orr_graph *g = l->g;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        l->place_ns[v] = place_of(l, v);
        if (!l->kept[v])
            continue;
        if (divides(l, v))
            l->divided[l->n_divided++] = v;
        else
            l->order[l->n_order++] = v;
    }
    if (l->n_order > 1)
        qsort_r(l->order, l->n_order, sizeof *l->order, compare_order, l);
    if (l->n_divided > 1)
        qsort_r(l->divided, l->n_divided, sizeof *l->divided, compare_order, l);
}

typedef struct lane_use {
    uint32_t lane, count;
    uint32_t group; /* threads, streams that compute, streams that only communicate */
} lane_use;

static int compare_uses(const void *a_, const void *b_)
{
    const lane_use *a = a_, *b = b_;
    if (a->group != b->group)
        return a->group < b->group ? -1 : 1;
    if (a->count != b->count)
        return a->count > b->count ? -1 : 1;
    return a->lane < b->lane ? -1 : a->lane > b->lane;
}

/* Which thread is which in another job: the busiest is the first. The thread that has the steps
 * comes before all others. */
static orr_status number_lanes(learner *l, orr_error *err)
{
    const orr_graph *g = l->g;
    lane_use *uses = orr_arena_array(l->arena, lane_use, g->n_lanes);
    if (uses == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_lanes; i++)
        uses[i] = (lane_use){i, 0, g->lanes[i].kind == ORR_LANE_STREAM ? 2 : 0};
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        lane_use *use = &uses[g->lane[v]];
        use->count += l->kept[v];
        if (l->kept[v] && use->group == 2 && !orr_synthesis_communicates(g, v))
            use->group = 1;
    }
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (uses[g->lane[v]].group == 0 && g->start_ns[v] != ORR_TIME_NONE && is_step(l, v) &&
            uses[g->lane[v]].count > 0)
            uses[g->lane[v]].count = UINT32_MAX;
    qsort(uses, g->n_lanes, sizeof *uses, compare_uses);
    uint32_t n[3] = {0, 0, ORR_COMM_STREAM};
    for (uint32_t i = 0; i < g->n_lanes; i++)
        l->lane_of[uses[i].lane] = uses[i].count > 0 ? n[uses[i].group]++ : ORR_NONE;
    return ORR_OK;
}

orr_status orr_source_rank_learn(const orr_graph *graph, const char *annotation, orr_arena *arena,
                                 orr_source_rank *ret, orr_error *err)
{
    const uint32_t n = graph->n_nodes;
    learner l = {.g = graph,
                 .annotation = annotation,
                 .arena = arena,
                 .polls = orr_lanes_that_poll(graph, arena),
                 .ties = orr_arena_array(arena, bool, n),
                 .size = orr_arena_array(arena, uint32_t, n),
                 .kept = orr_arena_array(arena, bool, n),
                 .parent = orr_arena_array(arena, orr_node_id, n),
                 .place_ns = orr_arena_array(arena, int64_t, n),
                 .self_ns = orr_arena_array(arena, int64_t, n),
                 .order = orr_arena_array(arena, orr_node_id, n),
                 .divided = orr_arena_array(arena, orr_node_id, n),
                 .lane_of = orr_arena_array(arena, uint32_t, graph->n_lanes)};
    if (!l.polls || !l.ties || !l.size || !l.kept || !l.parent || !l.place_ns || !l.self_ns ||
        !l.order || !l.divided || !l.lane_of)
        return orr_fail_memory(err);
    find_ties(&l);
    count_nested(&l);
    for (orr_node_id v = 0; v < n; v++)
        l.kept[v] = keep(&l, v);
    find_parents(&l);
    put_in_order(&l);
    ORR_TRY(number_lanes(&l, err));
    *ret = (orr_source_rank){.graph = graph,
                             .order = l.order,
                             .place_ns = l.place_ns,
                             .self_ns = l.self_ns,
                             .parent = l.parent,
                             .divided = l.divided,
                             .lane_of = l.lane_of,
                             .n_order = l.n_order,
                             .n_divided = l.n_divided};
    return ORR_OK;
}

orr_status orr_source_learn(const orr_job *job, const char *annotation, orr_arena *arena,
                            orr_source *ret, orr_error *err)
{
    orr_source_rank *ranks = orr_arena_array(arena, orr_source_rank, job->n_graphs);
    uint32_t world = job->n_ranks;
    if (ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < job->n_graphs; r++) {
        const orr_graph *g = job->graphs[r];
        ORR_TRY(orr_source_rank_learn(g, annotation, arena, &ranks[r], err));
        ranks[r].clock_ns = orr_ns_add_saturating(g->base_ns, job->clock_offset_ns[r]);
        world = g->world_size > world ? g->world_size : world;
    }
    if (ranks[0].n_order == 0)
        return orr_fail(err, ORR_INVALID,
                        "nothing in it has a time: a job is learnt from what was measured");
    *ret = (orr_source){.job = job, .ranks = ranks, .n_roles = job->n_graphs, .world_size = world};
    return orr_source_find_cuts(ret, annotation, arena, err);
}
