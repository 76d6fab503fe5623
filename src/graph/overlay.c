/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/ensemble.h>

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "graph/job.h"

/* One of the two jobs, while it is copied into the overlay graph of a rank. */
typedef struct telling {
    const orr_job *job;
    const char *label;
    uint32_t graph;    /* ORR_NONE: this job does not have the rank */
    orr_lane_id *lane; /* shape (L): its lanes in the new graph     */
    orr_str *text;     /* shape (strings): its strings there, 0: not yet */
} telling;

static const orr_graph *graph_of(const telling *t)
{
    return t->graph == ORR_NONE ? NULL : t->job->graphs[t->graph];
}

static orr_status open_telling(telling *t, orr_arena *arena, orr_error *err)
{
    const orr_graph *g = graph_of(t);
    if (g == NULL)
        return ORR_OK;
    t->lane = orr_arena_array(arena, orr_lane_id, g->n_lanes);
    t->text = orr_arena_array(arena, orr_str, g->n_strings);
    return t->lane == NULL || t->text == NULL ? orr_fail_memory(err) : ORR_OK;
}

static orr_status carry_text(telling *t, orr_graph_builder *b, orr_str s, orr_str *ret,
                             orr_error *err)
{
    const orr_graph *g = graph_of(t);
    if (s != 0 && t->text[s] == 0)
        ORR_TRY(orr_builder_str(b, orr_graph_str(g, s), orr_graph_str_len(g, s), &t->text[s], err));
    *ret = s == 0 ? 0 : t->text[s];
    return ORR_OK;
}

/* The text of a lane names it for people and says which job it is from. */
static orr_status carry_lane(telling *t, orr_graph_builder *b, orr_lane_id id, orr_error *err)
{
    const orr_graph *g = graph_of(t);
    orr_lane lane = g->lanes[id];
    char name[256];
    const char *own = orr_graph_str(g, lane.name);
    const char *kind = lane.kind == ORR_LANE_STREAM ? "stream" : "thread";
    if (lane.kind == ORR_LANE_STREAM && lane.tid != INT64_MIN)
        snprintf(name, sizeof name, "stream %lld, %s", (long long)lane.tid, t->label);
    else if (lane.tid == INT64_MIN)
        snprintf(name, sizeof name, "%.200s, %s", own, t->label);
    else
        snprintf(name, sizeof name, "%s %lld, %s", kind, (long long)lane.tid, t->label);
    ORR_TRY(carry_text(t, b, lane.process, &lane.process, err));
    ORR_TRY(orr_builder_str(b, name, strlen(name), &lane.name, err));
    lane.tid = INT64_MIN;
    return orr_builder_lane(b, &lane, &t->lane[id], err);
}

static uint32_t n_lanes_of(const telling *t)
{
    return t->graph == ORR_NONE ? 0 : graph_of(t)->n_lanes;
}

/* Equal lane numbers mean the same lane, for both jobs come from one recording. */
static orr_status carry_lanes(telling *upper, telling *lower, orr_graph_builder *b, orr_error *err)
{
    const uint32_t a = n_lanes_of(upper), z = n_lanes_of(lower);
    for (uint32_t l = 0; l < a || l < z; l++) {
        if (l < z)
            ORR_TRY(carry_lane(lower, b, (orr_lane_id)l, err));
        if (l < a)
            ORR_TRY(carry_lane(upper, b, (orr_lane_id)l, err));
    }
    return ORR_OK;
}

static orr_status carry_detail(telling *t, orr_graph_builder *b, orr_node_id v, orr_node_id to,
                               orr_error *err)
{
    const orr_graph *g = graph_of(t);
    const orr_copy *copy = orr_graph_copy(g, v);
    if (copy != NULL)
        return orr_builder_copy(b, to, copy, err);
    if (orr_graph_comm(g, v) == NULL)
        return ORR_OK;
    orr_comm comm = *orr_graph_comm(g, v);
    comm.group = ORR_NONE;
    ORR_TRY(carry_text(t, b, comm.dtype, &comm.dtype, err));
    ORR_TRY(carry_text(t, b, comm.in_splits, &comm.in_splits, err));
    ORR_TRY(carry_text(t, b, comm.out_splits, &comm.out_splits, err));
    return orr_builder_comm(b, to, &comm, err);
}

static orr_status carry_nodes(telling *t, orr_graph_builder *b, orr_error *err)
{
    const orr_graph *g = graph_of(t);
    const orr_node_id first = orr_builder_n_nodes(b);
    for (orr_node_id v = 0; g != NULL && v < g->n_nodes; v++) {
        orr_node node = {.kind = (orr_node_kind)g->kind[v],
                         .lane = t->lane[g->lane[v]],
                         .start_ns = orr_job_start_ns(t->job, t->graph, v),
                         .duration_ns = g->duration_ns[v],
                         .parent = g->parent[v] == ORR_NONE ? ORR_NONE : g->parent[v] + first,
                         .source_id = g->source_id[v]};
        orr_node_id id;
        ORR_TRY(carry_text(t, b, g->name[v], &node.name, err));
        ORR_TRY(orr_builder_node(b, &node, &id, err));
        ORR_TRY(carry_detail(t, b, v, id, err));
        for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++)
            ORR_TRY(orr_builder_dep(b, id, g->dep[i] + first, (orr_dep_kind)g->dep_kind[i], err));
    }
    return ORR_OK;
}

static orr_status overlay_graph(telling *upper, telling *lower, orr_arena *scratch,
                                const orr_graph **ret, orr_error *err)
{
    const orr_graph *g = graph_of(upper);
    orr_graph_builder *b = orr_graph_builder_new();
    orr_status status = b ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, open_telling(upper, scratch, err));
    ORR_TRY_OUT(status, open_telling(lower, scratch, err));
    orr_recording recording = {.rank = g->rank, .world_size = g->world_size};
    ORR_TRY_OUT(status, carry_text(upper, b, g->source, &recording.source, err));
    ORR_TRY_OUT(status, carry_text(upper, b, g->device_name, &recording.device_name, err));
    orr_builder_recording(b, &recording);
    ORR_TRY_OUT(status, carry_lanes(upper, lower, b, err));
    ORR_TRY_OUT(status, carry_nodes(upper, b, err));
    ORR_TRY_OUT(status, carry_nodes(lower, b, err));
    status = orr_graph_build(b, ret, err);
out:
    orr_graph_builder_free(b);
    return status;
}

static orr_status overlay_all(const orr_job *job, const char *label, const orr_job *other,
                              const char *other_label, const orr_graph **graphs, orr_error *err)
{
    for (uint32_t d = 0; d < job->n_graphs; d++) {
        const uint32_t rank = job->rank_of_graph[d];
        telling upper = {.job = job, .label = label, .graph = d};
        telling lower = {.job = other,
                         .label = other_label,
                         .graph = rank < other->n_ranks ? other->graph_of_rank[rank] : ORR_NONE};
        orr_arena *scratch = orr_arena_new(0, 0);
        const orr_status status = scratch ? overlay_graph(&upper, &lower, scratch, &graphs[d], err)
                                          : orr_fail_memory(err);
        orr_arena_free(scratch);
        ORR_TRY(status);
    }
    return ORR_OK;
}

orr_status orr_job_overlay(const orr_job *job, const char *label, const orr_job *other,
                           const char *other_label, const orr_job **ret, orr_error *err)
{
    const orr_graph **graphs = orr_calloc(job->n_graphs, sizeof *graphs);
    orr_status status =
        graphs ? overlay_all(job, label, other, other_label, graphs, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_job_build_unmatched(graphs, job->n_graphs, ret, err);
    for (uint32_t d = 0; status != ORR_OK && graphs != NULL && d < job->n_graphs; d++)
        orr_graph_free(graphs[d]);
    orr_free(graphs);
    return status;
}
