/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/comm/collectives.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

const char *orr_group_label(const orr_graph *g, const orr_group *group)
{
    const char *desc = orr_graph_str(g, group->desc);
    return desc[0] != '\0' && strcmp(desc, "undefined") != 0 ? desc : orr_graph_str(g, group->name);
}

/* Source: "Performance reported by NCCL tests" (doc/PERFORMANCE.md); PARAM uses the same. */
double orr_busbw_factor(orr_collective collective, uint32_t n)
{
    const double ring = n == 0 ? 0 : (n - 1.0) / n;
    switch (collective) {
    case ORR_COLL_ALL_REDUCE:
        return 2 * ring;
    case ORR_COLL_ALL_GATHER:
    case ORR_COLL_ALL_TO_ALL:
    case ORR_COLL_REDUCE_SCATTER:
    case ORR_COLL_GATHER:
    case ORR_COLL_SCATTER:
        return ring;
    default:
        return 1;
    }
}

int64_t orr_comm_bytes(const orr_comm *comm)
{
    return comm->in_bytes > comm->out_bytes ? comm->in_bytes : comm->out_bytes;
}

typedef orr_array(orr_collective_row) row_array;

typedef struct gatherer {
    const orr_job *job;
    const orr_view *views;
    size_t n_views;
    const orr_view **view_of; /* shape (D); NULL: not asked for */
    orr_arena *scratch;
    orr_error *err;
    row_array rows;
} gatherer;

/* Take one member into the row: when it arrived, when it ended, what it knew. */
static void add_member(orr_collective_row *row, const orr_job *job, uint32_t graph, orr_node_id v,
                       int64_t *last_arrival_ns, int64_t *last_end_ns)
{
    const orr_graph *g = job->graphs[graph];
    const orr_comm *comm = orr_graph_comm(g, v);
    if (comm != NULL && orr_comm_bytes(comm) > row->bytes)
        row->bytes = orr_comm_bytes(comm);
    if (comm != NULL && row->group_size == 0 && comm->group_size > 0)
        row->group_size = (uint32_t)comm->group_size;
    if (g->start_ns[v] == ORR_TIME_NONE)
        return;
    const int64_t start = orr_job_start_ns(job, graph, v), end = start + g->duration_ns[v];
    if (row->members == 0 || start < row->start_ns)
        row->start_ns = start;
    if (row->members == 0 || start > *last_arrival_ns) {
        *last_arrival_ns = start;
        row->last_rank = job->rank_of_graph[graph];
    }
    if (row->members == 0 || end > *last_end_ns)
        *last_end_ns = end;
    row->members++;
}

static void finish_row(orr_collective_row *row, orr_collective collective, int64_t last_arrival_ns,
                       int64_t last_end_ns)
{
    row->collective = orr_collective_name(collective);
    row->duration_ns = last_end_ns - row->start_ns;
    row->skew_ns = last_arrival_ns - row->start_ns;
    row->transfer_ns = last_end_ns > last_arrival_ns ? last_end_ns - last_arrival_ns : 0;
    if (row->bytes > 0 && row->transfer_ns > 0) {
        row->algbw_bytes_per_s = (double)row->bytes * 1e9 / (double)row->transfer_ns;
        row->busbw_bytes_per_s =
            row->algbw_bytes_per_s * orr_busbw_factor(collective, row->group_size);
    }
}

static const char *group_of_match(const orr_job *job, uint32_t group, orr_collective_row *row)
{
    if (group == ORR_NONE)
        return "";
    row->group_size = job->groups[group].size;
    return orr_group_label(job->graphs[job->group_graph[group]], &job->groups[group]);
}

static bool is_asked_for(const gatherer *r, const orr_match *match)
{
    for (uint32_t i = match->first; i < match->first + match->count; i++) {
        const orr_member *m = &r->job->members[i];
        if (r->view_of[m->graph] != NULL && orr_view_holds(r->view_of[m->graph], m->node))
            return true;
    }
    return false;
}

static orr_status gather_matched(gatherer *r)
{
    const orr_job *job = r->job;
    for (uint32_t i = 0; i < job->n_matches; i++) {
        const orr_match *match = &job->matches[i];
        if (!is_asked_for(r, match))
            continue;
        const orr_member *first = &job->members[match->first];
        const orr_graph *g = job->graphs[first->graph];
        orr_collective_row row = {.bytes = -1, .name = orr_graph_str(g, g->name[first->node])};
        int64_t last_arrival = 0, last_end = 0;
        row.group = group_of_match(job, match->group, &row);
        for (uint32_t k = match->first; k < match->first + match->count; k++)
            add_member(&row, job, job->members[k].graph, job->members[k].node, &last_arrival,
                       &last_end);
        if (row.members == 0)
            continue; /* a host trace: no times */
        if (row.group_size == 0 && job->n_graphs == job->n_ranks)
            row.group_size = match->count; /* nobody else could have been in it */
        finish_row(&row, (orr_collective)match->collective, last_arrival, last_end);
        if (!orr_array_push(&r->rows, row))
            return orr_fail_memory(r->err);
    }
    return ORR_OK;
}

/* What has no partner in the job: one recorded rank, or members missing. */
static orr_status gather_unmatched(gatherer *r, const orr_view *view)
{
    const orr_graph *g = view->graph;
    const uint32_t *match_of = r->job->match_of[view->graph_id];
    orr_work_list work;
    ORR_TRY(orr_view_work(view, r->scratch, &work, r->err));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i];
        if (work.class[i] != ORR_CLASS_COMMUNICATION ||
            (match_of != NULL && match_of[v] != ORR_NONE))
            continue;
        const orr_comm *comm = orr_graph_comm(g, v);
        orr_collective_row row = {.bytes = -1, .name = orr_graph_str(g, g->name[v]), .group = ""};
        if (comm != NULL && comm->group != ORR_NONE) {
            row.group = orr_group_label(g, &g->groups[comm->group]);
            row.group_size = g->groups[comm->group].size;
        }
        int64_t last_arrival = 0, last_end = 0;
        add_member(&row, r->job, view->graph_id, v, &last_arrival, &last_end);
        finish_row(&row, comm == NULL ? ORR_COLL_UNKNOWN : (orr_collective)comm->collective,
                   last_arrival, last_end);
        if (!orr_array_push(&r->rows, row))
            return orr_fail_memory(r->err);
    }
    return ORR_OK;
}

static int compare_start(const void *a_, const void *b_)
{
    const orr_collective_row *a = a_, *b = b_;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->last_rank > b->last_rank) - (a->last_rank < b->last_rank);
}

static orr_status gather(gatherer *r, const orr_analysis_options *options)
{
    ORR_TRY(orr_find_views(r->job, options, r->scratch, &r->views, &r->n_views, r->err));
    r->view_of = orr_arena_array(r->scratch, const orr_view *, r->job->n_graphs);
    if (r->view_of == NULL)
        return orr_fail_memory(r->err);
    for (size_t i = 0; i < r->n_views; i++)
        r->view_of[r->views[i].graph_id] = &r->views[i];
    ORR_TRY(gather_matched(r));
    for (size_t i = 0; i < r->n_views; i++) {
        const orr_arena_mark mark = orr_arena_get_mark(r->scratch);
        ORR_TRY(gather_unmatched(r, &r->views[i]));
        orr_arena_rewind(r->scratch, mark);
    }
    if (r->rows.n > 0)
        qsort(r->rows.at, r->rows.n, sizeof *r->rows.at, compare_start);
    return ORR_OK;
}

orr_status orr_analyze_collectives(const orr_job *job, const orr_analysis_options *given,
                                   orr_arena *arena, const orr_collective_row **ret_rows,
                                   size_t *ret_n, orr_error *err)
{
    const orr_analysis_options options = orr_options_complete(given);
    gatherer r = {.job = job, .scratch = orr_arena_new(0, 0), .err = err};
    orr_status status = ORR_OK;
    if (r.scratch == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, gather(&r, &options));
    orr_collective_row *rows = orr_arena_array(arena, orr_collective_row, r.rows.n);
    if (rows == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (r.rows.n > 0)
        memcpy(rows, r.rows.at, r.rows.n * sizeof *rows);
    *ret_rows = rows;
    *ret_n = r.rows.n;
out:
    orr_array_done(&r.rows);
    orr_arena_free(r.scratch);
    return status;
}
