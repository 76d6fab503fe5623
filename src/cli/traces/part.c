/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces/part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/alloc.h"

typedef struct reducer {
    orr_session *session;
    const orr_job *job;
    const orr_view **view_of; /* shape (D): of the steps asked for; NULL: the graph has none */
    const uint32_t *ranks;    /* the sample, in order; NULL: all ranks */
    uint32_t n_ranks;
    const char *about;
    uint64_t kept_nodes, all_nodes;
} reducer;

bool orr_part_asked(const orr_settings *settings)
{
    return settings->step || settings->subtree || settings->rank_list;
}

static orr_status wrong_ranks(reducer *r)
{
    return orr_fail(&r->session->err, ORR_INVALID,
                    "--ranks: '%s' is neither a list of ranks, 0,8,16, nor every:8",
                    r->session->settings->rank_list);
}

static orr_status choose_rank(reducer *r, uint8_t *chosen, unsigned long rank)
{
    if (rank >= r->job->n_ranks || r->job->graph_of_rank[rank] == ORR_NONE)
        return orr_fail(&r->session->err, ORR_NOT_FOUND, "--ranks: rank %lu is not among the files",
                        rank);
    chosen[rank] = 1;
    return ORR_OK;
}

/* "0,8,16" or "every:8". */
static orr_status choose_ranks(reducer *r, uint8_t *chosen)
{
    const char *text = r->session->settings->rank_list;
    const bool every = strncmp(text, "every:", 6) == 0;
    char *end;
    if (every) {
        const unsigned long stride = strtoul(text + 6, &end, 10);
        if (text[6] < '1' || text[6] > '9' || *end != '\0')
            return wrong_ranks(r);
        for (unsigned long rank = 0; rank < r->job->n_ranks; rank += stride) {
            if (r->job->graph_of_rank[rank] != ORR_NONE)
                chosen[rank] = 1;
            if (stride >= r->job->n_ranks)
                break;
        }
        return ORR_OK;
    }
    for (;; text = end + 1) {
        const unsigned long rank = strtoul(text, &end, 10);
        if (*text < '0' || *text > '9' || (*end != ',' && *end != '\0'))
            return wrong_ranks(r);
        ORR_TRY(choose_rank(r, chosen, rank));
        if (*end == '\0')
            return ORR_OK;
    }
}

static orr_status sample_ranks(reducer *r)
{
    orr_arena *arena = r->session->arena;
    const uint32_t n = r->job->n_ranks;
    uint8_t *chosen = orr_arena_array(arena, uint8_t, n);
    uint32_t *ranks = orr_arena_array(arena, uint32_t, n);
    if (chosen == NULL || ranks == NULL)
        return orr_fail_memory(&r->session->err);
    ORR_TRY(choose_ranks(r, chosen));
    for (uint32_t rank = 0; rank < n; rank++)
        if (chosen[rank])
            ranks[r->n_ranks++] = rank;
    if (r->n_ranks == 0)
        return orr_fail(&r->session->err, ORR_NOT_FOUND, "--ranks: none of these is recorded");
    r->ranks = ranks;
    return ORR_OK;
}

/* "ProfilerStep 3:4, aten::mm", which the files will say. */
static orr_status describe(reducer *r)
{
    const orr_settings *s = r->session->settings;
    if (s->step == NULL && s->subtree == NULL)
        return ORR_OK;
    r->about = orr_arena_printf(r->session->arena, "%s%s%s%s%s",
                                s->step ? r->session->analysis.annotation : "", s->step ? " " : "",
                                s->step ? s->step : "", s->step && s->subtree ? ", " : "",
                                s->subtree ? s->subtree : "");
    return r->about ? ORR_OK : orr_fail_memory(&r->session->err);
}

/* Host nodes that began in the steps, and device work that they launched; of that without a known
 * launch, what began in them. */
static bool in_steps(const orr_view *view, orr_node_id v)
{
    const orr_graph *g = view->graph;
    const bool unlaunched =
        g->lanes[g->lane[v]].kind == ORR_LANE_STREAM && orr_launch_of(g, v) == ORR_NONE;
    return orr_view_holds(view, v) ||
           (unlaunched && g->start_ns[v] >= view->from_ns && g->start_ns[v] < view->to_ns);
}

static orr_status find_steps(reducer *r)
{
    orr_session *session = r->session;
    const orr_view *views;
    size_t n;
    ORR_TRY(orr_session_analysis(session));
    ORR_TRY(orr_find_views(r->job, &session->analysis, session->arena, &views, &n, &session->err));
    r->view_of = orr_arena_array(session->arena, const orr_view *, r->job->n_graphs);
    if (r->view_of == NULL)
        return orr_fail_memory(&session->err);
    for (size_t i = 0; i < n; i++)
        r->view_of[views[i].graph_id] = &views[i];
    return ORR_OK;
}

static orr_status mark_steps(reducer *r, uint32_t d, uint8_t *keep)
{
    const orr_view *view = r->view_of[d];
    if (view == NULL)
        return orr_fail(&r->session->err, ORR_NOT_FOUND, "rank %u has no step %s of '%s'",
                        r->job->rank_of_graph[d], r->session->settings->step,
                        r->session->analysis.annotation);
    for (orr_node_id v = 0; v < view->graph->n_nodes; v++)
        keep[v] = in_steps(view, v);
    return ORR_OK;
}

/* Which nodes of the graph are kept; in the arena. */
static orr_status mark(reducer *r, uint32_t d, uint8_t **ret)
{
    const orr_settings *s = r->session->settings;
    const orr_graph *g = r->job->graphs[d];
    uint8_t *keep = orr_arena_array(r->session->arena, uint8_t, g->n_nodes);
    uint8_t *below = orr_arena_array(r->session->arena, uint8_t, g->n_nodes);
    uint32_t n = 0;
    if (keep == NULL || below == NULL)
        return orr_fail_memory(&r->session->err);
    if (s->step)
        ORR_TRY(mark_steps(r, d, keep));
    if (s->subtree)
        ORR_TRY(orr_trace_subtree(g, s->subtree, s->step ? keep : NULL, below, &r->session->err));
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        keep[v] = (!s->step || keep[v]) && (!s->subtree || below[v]);
        n += keep[v];
    }
    if (n == 0 && g->n_nodes > 0)
        return orr_fail(&r->session->err, ORR_NOT_FOUND, "rank %u: no node is in %s",
                        r->job->rank_of_graph[d], r->about);
    r->kept_nodes += n;
    r->all_nodes += g->n_nodes;
    *ret = keep;
    return ORR_OK;
}

static orr_status reduce_rank(reducer *r, uint32_t rank, const orr_graph **ret)
{
    orr_arena *arena = r->session->arena;
    const uint32_t d = r->job->graph_of_rank[rank];
    const orr_arena_mark before = orr_arena_get_mark(arena);
    orr_part part = {.about = r->about,
                     .ranks = r->ranks,
                     .n_ranks = r->n_ranks,
                     .rank = rank,
                     .world_size = r->job->n_ranks};
    uint8_t *keep;
    ORR_TRY(mark(r, d, &keep));
    part.keep = keep;
    const orr_status status = orr_trace_part(r->job->graphs[d], &part, ret, &r->session->err);
    orr_arena_rewind(arena, before);
    return status;
}

/* The graphs of the sample, or of all ranks, as a job. */
static orr_status reduce_all(reducer *r)
{
    const orr_job *job = r->job, *reduced = NULL;
    const uint32_t n = r->ranks ? r->n_ranks : job->n_graphs;
    const orr_graph **graphs = orr_calloc(n > 0 ? n : 1, sizeof *graphs);
    orr_status status = graphs ? ORR_OK : orr_fail_memory(&r->session->err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        status = reduce_rank(r, r->ranks ? r->ranks[i] : job->rank_of_graph[i], &graphs[i]);
    if (status == ORR_OK)
        status = orr_job_build(graphs, n, &reduced, &r->session->err);
    for (uint32_t i = 0; i < n && status != ORR_OK && graphs; i++)
        orr_graph_free(graphs[i]);
    orr_free(graphs);
    if (status == ORR_OK) {
        orr_job_free(job);
        r->session->job = reduced;
    }
    return status;
}

orr_status orr_session_reduce(orr_session *session)
{
    reducer r = {.session = session, .job = session->job};
    if (session->settings->rank_list)
        ORR_TRY(sample_ranks(&r));
    if (session->settings->step)
        ORR_TRY(find_steps(&r));
    ORR_TRY(describe(&r));
    ORR_TRY(reduce_all(&r));
    orr_session_remark(session, "kept %llu of %llu nodes of %u of %u ranks",
                       (unsigned long long)r.kept_nodes, (unsigned long long)r.all_nodes,
                       session->job->n_graphs, session->job->n_ranks);
    return ORR_OK;
}
