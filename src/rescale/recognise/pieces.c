/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/device_work.h"
#include "rescale/plan/price.h"
#include "rescale/recognise/survey.h"

/* Takes a recorded job apart: the median step of each rank, its top-level operators and calls as
 * pieces in order of time, and the device work that each piece launched. */

static int64_t end_of(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] + g->duration_ns[v];
}

int64_t orr_node_number(const orr_graph *g, orr_node_id v, const char *name, int64_t otherwise)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, v, name, &attr) || attr.kind != ORR_ATTR_INT64 || attr.count != 1)
        return otherwise;
    return *(const int64_t *)attr.values;
}

static const char *node_dims(const orr_graph *g, orr_node_id v)
{
    orr_attr attr;
    if (!orr_graph_find_attr(g, v, "Input Dims", &attr) || attr.count != 1 ||
        (attr.kind != ORR_ATTR_JSON && attr.kind != ORR_ATTR_STRING))
        return NULL;
    return orr_graph_str(g, *(const orr_str *)attr.values);
}

const char *orr_piece_dims(const orr_profiled_step *step, const orr_step_piece *piece,
                           orr_node_id *ret_op)
{
    for (uint32_t i = 0; i < piece->n_nodes; i++) {
        const orr_node_id v = step->nodes[piece->first_node + i];
        const char *dims = node_dims(step->g, v);
        if (dims != NULL) {
            *ret_op = v;
            return dims;
        }
    }
    return NULL;
}

/* A nested annotation, or one repeated on another thread, is the same step. */
static bool is_step(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] != ORR_TIME_NONE && orr_is_step(g, v);
}

typedef struct timed {
    int64_t ns;
    orr_node_id node;
} timed;

static int by_ns(const void *a_, const void *b_)
{
    const timed *a = a_, *b = b_;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* Chooses the step of median length: neither the first, which warms up, nor one that the profiler
 * cut off. */
static orr_status choose_step(orr_survey *s, const char **ret_name, orr_error *err)
{
    const orr_graph *g = s->job->graphs[0];
    orr_array(timed) steps = {0};
    *ret_name = NULL;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (is_step(g, v) && !orr_array_push(&steps, ((timed){g->duration_ns[v], v}))) {
            orr_array_done(&steps);
            return orr_fail_memory(err);
        }
    s->n_steps_seen = (uint32_t)steps.n;
    if (steps.n > 0) {
        qsort(steps.at, steps.n, sizeof *steps.at, by_ns);
        *ret_name = orr_graph_str(g, g->name[steps.at[steps.n / 2].node]);
    }
    orr_array_done(&steps);
    return ORR_OK;
}

static void find_step(orr_profiled_step *step, const char *name)
{
    const orr_graph *g = step->g;
    const orr_str wanted = name == NULL ? ORR_NONE : orr_graph_find_str(g, name);
    step->span = ORR_NONE;
    step->begin_ns = 0;
    step->end_ns = INT64_MAX;
    for (orr_node_id v = 0; v < g->n_nodes && wanted != ORR_NONE; v++)
        if (g->name[v] == wanted && is_step(g, v)) {
            step->span = v;
            step->begin_ns = g->start_ns[v];
            step->end_ns = end_of(g, v);
            return;
        }
}

static bool is_piece_root(const orr_profiled_step *step, orr_node_id v)
{
    const orr_graph *g = step->g;
    const bool works = g->kind[v] == ORR_NODE_HOST_OP || g->kind[v] == ORR_NODE_RUNTIME ||
                       orr_is_communication(g, v);
    return works && (g->parent[v] == ORR_NONE || orr_is_span(g, g->parent[v])) &&
           g->start_ns[v] >= step->begin_ns && g->start_ns[v] < step->end_ns;
}

/* Whether a thread issues device work or takes over from one that does; data loaders and watchdogs
 * do not. */
static bool lane_issues(const orr_profiled_step *step, const uint8_t *launches, uint32_t lane)
{
    const orr_graph *g = step->g;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++)
        if (launches[g->lane_node[i]])
            return true;
    return false;
}

static void mark_launches(const orr_graph *g, uint8_t *launches)
{
    const bool device = orr_graph_has_device_work(g);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!device && g->kind[v] == ORR_NODE_HOST_OP)
            launches[v] = 1;
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
            if (g->dep_kind[d] == ORR_DEP_LAUNCH)
                launches[g->dep[d]] = 1;
    }
}

typedef struct roots {
    orr_array(orr_step_piece) pieces;
    orr_array(orr_node_id) nodes;
} roots;

/* The pieces of one thread: its top-level nodes, each with what is nested in it. */
static orr_status take_lane(orr_profiled_step *step, uint32_t lane, roots *r, orr_error *err)
{
    const orr_graph *g = step->g;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (g->start_ns[v] == ORR_TIME_NONE || g->kind[v] == ORR_NODE_MEMORY)
            continue;
        const uint32_t above = g->parent[v] == ORR_NONE ? ORR_NONE : step->piece_of[g->parent[v]];
        if (above == ORR_NONE && (orr_is_span(g, v) || !is_piece_root(step, v)))
            continue;
        if (above == ORR_NONE) {
            const orr_step_piece piece = {.root = v,
                                          .start_ns = g->start_ns[v],
                                          .end_ns = end_of(g, v),
                                          .lane = lane,
                                          .sequence = -1,
                                          .role = ORR_ROLE_WORK,
                                          .layer = -1,
                                          .forward = ORR_NONE,
                                          .micro_batch = -1};
            if (!orr_array_push(&r->pieces, piece))
                return orr_fail_memory(err);
        }
        step->piece_of[v] = above != ORR_NONE ? above : (uint32_t)r->pieces.n - 1;
        if (!orr_array_push(&r->nodes, v))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static int by_start(const void *a_, const void *b_, void *pieces_)
{
    const orr_step_piece *pieces = pieces_;
    const orr_step_piece *a = &pieces[*(const uint32_t *)a_], *b = &pieces[*(const uint32_t *)b_];
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->root > b->root) - (a->root < b->root);
}

/* Sorts pieces by time over all threads, and groups the nodes of each. */
static orr_status order_pieces(orr_survey *s, orr_profiled_step *step, roots *r, orr_error *err)
{
    const uint32_t n = (uint32_t)r->pieces.n;
    orr_status status = ORR_OK;
    uint32_t *order = orr_malloc((n + (size_t)1) * sizeof *order);
    uint32_t *rank = orr_malloc((n + (size_t)1) * sizeof *rank);
    step->pieces = orr_arena_array(s->arena, orr_step_piece, n);
    step->nodes = orr_arena_array(s->arena, orr_node_id, r->nodes.n);
    if (order == NULL || rank == NULL || step->pieces == NULL || step->nodes == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    qsort_r(order, n, sizeof *order, by_start, r->pieces.at);
    for (uint32_t i = 0; i < n; i++) {
        step->pieces[i] = r->pieces.at[order[i]];
        rank[order[i]] = i;
    }
    for (size_t i = 0; i < r->nodes.n; i++) {
        uint32_t *of = &step->piece_of[r->nodes.at[i]];
        *of = rank[*of];
        step->pieces[*of].n_nodes++;
    }
    for (uint32_t i = 0, first = 0; i < n; i++) {
        step->pieces[i].first_node = first;
        first += step->pieces[i].n_nodes;
        step->pieces[i].n_nodes = 0;
    }
    for (size_t i = 0; i < r->nodes.n; i++) {
        orr_step_piece *p = &step->pieces[step->piece_of[r->nodes.at[i]]];
        step->nodes[p->first_node + p->n_nodes++] = r->nodes.at[i];
    }
    step->n_pieces = n;
out:
    orr_free(order);
    orr_free(rank);
    return status;
}

static orr_node_id launch_of(const orr_graph *g, orr_node_id v)
{
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (g->dep_kind[d] == ORR_DEP_LAUNCH)
            return g->dep[d];
    return ORR_NONE;
}

/* Device work ordered by launch, then by stream. */
typedef struct issued {
    int64_t launch_ns, start_ns;
    orr_node_id node;
} issued;

static int by_issue(const void *a_, const void *b_)
{
    const issued *a = a_, *b = b_;
    if (a->launch_ns != b->launch_ns)
        return a->launch_ns < b->launch_ns ? -1 : 1;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

typedef orr_array(issued) issues;

/* Work without a recorded launch goes with the work before it on its stream. */
static orr_status take_stream(orr_profiled_step *step, uint32_t lane, issues *all, orr_error *err)
{
    const orr_graph *g = step->g;
    uint32_t piece = ORR_NONE;
    int64_t launch_ns = 0;
    for (uint32_t i = g->lane_first[lane]; i < g->lane_first[lane + 1]; i++) {
        const orr_node_id v = g->lane_node[i];
        if (!orr_graph_on_device(g, v))
            continue;
        const orr_node_id call = launch_of(g, v);
        if (call != ORR_NONE) {
            piece = step->piece_of[call];
            launch_ns = g->start_ns[call];
        }
        const bool waits = call == ORR_NONE && g->kind[v] == ORR_NODE_SYNC;
        step->piece_of[v] = waits ? ORR_NONE : piece;
        if (step->piece_of[v] != ORR_NONE &&
            !orr_array_push(all, ((issued){launch_ns, g->start_ns[v], v})))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* Assigns device work to the pieces that launched it. */
static orr_status take_works(orr_survey *s, orr_profiled_step *step, orr_error *err)
{
    const orr_graph *g = step->g;
    issues all = {0};
    orr_status status = ORR_OK;
    for (uint32_t lane = 0; lane < g->n_lanes; lane++)
        if (g->lanes[lane].kind == ORR_LANE_STREAM)
            ORR_TRY_OUT(status, take_stream(step, lane, &all, err));
    if (all.n > 0)
        qsort(all.at, all.n, sizeof *all.at, by_issue);
    step->works = orr_arena_array(s->arena, orr_node_id, all.n);
    if (step->works == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < all.n; i++)
        step->pieces[step->piece_of[all.at[i].node]].n_works++;
    for (uint32_t i = 0, first = 0; i < step->n_pieces; i++) {
        step->pieces[i].first_work = first;
        first += step->pieces[i].n_works;
        step->pieces[i].n_works = 0;
    }
    for (size_t i = 0; i < all.n; i++) {
        orr_step_piece *p = &step->pieces[step->piece_of[all.at[i].node]];
        step->works[p->first_work + p->n_works++] = all.at[i].node;
    }
out:
    orr_array_done(&all);
    return status;
}

/* What a piece says by itself. */
static void describe(orr_profiled_step *step, orr_step_piece *p)
{
    const orr_graph *g = step->g;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const orr_node_id v = step->nodes[p->first_node + i];
        for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
            p->syncs |= g->dep_kind[d] == ORR_DEP_SYNC;
        if (p->sequence >= 0)
            continue;
        p->sequence = orr_node_number(g, v, "Sequence number", -1);
        if (p->sequence >= 0)
            p->of_backward = orr_node_number(g, v, "Fwd thread id", 0) > 0;
    }
}

static void set_gaps(orr_profiled_step *step)
{
    int64_t last_ns =
        step->span == ORR_NONE && step->n_pieces > 0 ? step->pieces[0].start_ns : step->begin_ns;
    for (uint32_t i = 0; i < step->n_pieces; i++) {
        orr_step_piece *p = &step->pieces[i];
        step->parallel |= i > 0 && p->start_ns < step->pieces[i - 1].end_ns &&
                          p->lane != step->pieces[i - 1].lane && p->n_works > 0 &&
                          step->pieces[i - 1].n_works > 0;
        p->gap_ns = p->start_ns > last_ns ? p->start_ns - last_ns : 0;
        last_ns = p->end_ns > last_ns ? p->end_ns : last_ns;
        describe(step, p);
    }
}

static orr_status survey_step(orr_survey *s, orr_profiled_step *step, orr_error *err)
{
    const orr_graph *g = step->g;
    roots r = {0};
    orr_status status = ORR_OK;
    uint8_t *launches = orr_calloc(g->n_nodes + (size_t)1, 1);
    step->piece_of = orr_arena_array(s->arena, uint32_t, g->n_nodes);
    if (launches == NULL || step->piece_of == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    memset(step->piece_of, 0xff, g->n_nodes * sizeof *step->piece_of);
    mark_launches(g, launches);
    for (uint32_t lane = 0; lane < g->n_lanes; lane++)
        if (g->lanes[lane].kind == ORR_LANE_HOST && lane_issues(step, launches, lane))
            ORR_TRY_OUT(status, take_lane(step, lane, &r, err));
    ORR_TRY_OUT(status, order_pieces(s, step, &r, err));
    ORR_TRY_OUT(status, take_works(s, step, err));
    set_gaps(step);
out:
    orr_free(launches);
    orr_array_done(&r.pieces);
    orr_array_done(&r.nodes);
    return status;
}

orr_status orr_survey_steps(orr_survey *s, orr_error *err)
{
    const char *name;
    s->steps = orr_arena_array(s->arena, orr_profiled_step, s->job->n_graphs);
    if (s->steps == NULL)
        return orr_fail_memory(err);
    ORR_TRY(choose_step(s, &name, err));
    for (uint32_t d = 0; d < s->job->n_graphs; d++) {
        s->steps[d].g = s->job->graphs[d];
        s->steps[d].graph = d;
        find_step(&s->steps[d], name);
        ORR_TRY(survey_step(s, &s->steps[d], err));
    }
    return ORR_OK;
}
