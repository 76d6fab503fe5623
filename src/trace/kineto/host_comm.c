/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdlib.h>
#include <string.h>

/* Ties communications of Gloo to the operators that requested them. Gloo runs a communication on a
 * thread of its own, and nothing records which operator asked for it. But a backend serves requests
 * of one collective and size in order: the first c10d::allreduce_ of a million elements is the
 * first gloo:all_reduce of a million. The request is a CONTROL dependency; its thread may wait for
 * the end, within an operator (SYNC) or between two (HANDOFF). */
typedef struct request {
    const kineto_comm *comm;
    int64_t start_ns;
} request;

typedef orr_array(request) requests;

static int compare_kinds(const request *x, const request *y)
{
    if (x->comm->comm.collective != y->comm->comm.collective)
        return x->comm->comm.collective < y->comm->comm.collective ? -1 : 1;
    if (x->comm->in_elements != y->comm->in_elements)
        return x->comm->in_elements < y->comm->in_elements ? -1 : 1;
    return 0;
}

static int by_kind_and_time(const void *a, const void *b)
{
    const request *x = a, *y = b;
    const int kinds = compare_kinds(x, y);
    if (kinds != 0)
        return kinds;
    if (x->start_ns != y->start_ns)
        return x->start_ns < y->start_ns ? -1 : 1;
    return x->comm->node < y->comm->node ? -1 : x->comm->node > y->comm->node;
}

/* Whether it runs by itself: on a thread, not within the operator that asked. */
static bool stands_alone(const kineto *k, const kineto_comm *c)
{
    const orr_graph_builder *b = k->builder;
    return c->executes && b->lanes.at[b->lane[c->node]].kind == ORR_LANE_HOST &&
           (b->parent[c->node] == ORR_NONE || b->kind[b->parent[c->node]] != ORR_NODE_HOST_OP);
}

static bool asks(const kineto *k, const kineto_comm *c)
{
    const orr_graph_builder *b = k->builder;
    return !c->executes && c->comm.collective != ORR_COLL_UNKNOWN &&
           strncmp(orr_builder_text(b, b->name[c->node]), "c10d::", 6) == 0;
}

static orr_status gather(const kineto *k, requests *asked, requests *done, orr_error *err)
{
    for (size_t i = 0; i < k->comms.n; i++) {
        const kineto_comm *c = &k->comms.at[i];
        const request r = {c, k->builder->start_ns[c->node]};
        if ((stands_alone(k, c) && !orr_array_push(done, r)) ||
            (asks(k, c) && !orr_array_push(asked, r)))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* The innermost operator that is open at a time, given the row of the last one that began
 * before. */
static orr_node_id open_at(const orr_graph_builder *b, uint32_t row, int64_t at_ns)
{
    enum { MOST_LEVELS = 64 };
    orr_node_id v = b->lane_rows.node[row];
    for (int level = 0; v != ORR_NONE && level < MOST_LEVELS; level++, v = b->parent[v])
        if (b->start_ns[v] + b->duration_ns[v] > at_ns)
            return v;
    return ORR_NONE;
}

/* An operator that was busy and happens to end soon did not wait; only one that encloses the
 * request, or is named as a wait, can. */
static bool can_wait(const orr_graph_builder *b, orr_node_id open, orr_node_id asked)
{
    enum { MOST_LEVELS = 64 };
    orr_node_id v = b->parent[asked];
    for (int level = 0; v != ORR_NONE && level < MOST_LEVELS; level++, v = b->parent[v])
        if (v == open)
            return true;
    return strcasestr(orr_builder_text(b, b->name[open]), "wait") != NULL;
}

/* The requesting thread may have waited: nothing more began in the open operator when the
 * communication ended, and it ended, or something else began in it, soon after. */
static orr_status resume(const kineto *k, orr_node_id done, orr_node_id asked, orr_error *err)
{
    static const int64_t soon_ns = 500000;
    orr_graph_builder *b = k->builder;
    const uint32_t lane = b->lane[asked];
    const int64_t end = b->start_ns[done] + b->duration_ns[done];
    uint32_t last, row = orr_lane_rows_at(b, lane, end + 1, &last);
    if (row == b->lane_rows.first[lane])
        return ORR_OK; /* nothing began before */
    const orr_node_id open = open_at(b, row - 1, end);
    while (row < b->lane_rows.first[lane + 1] && b->kind[b->lane_rows.node[row]] == ORR_NODE_MEMORY)
        row++;
    const orr_node_id next = row < b->lane_rows.first[lane + 1] ? b->lane_rows.node[row] : ORR_NONE;
    if (next != ORR_NONE && b->parent[next] == open)
        return b->start_ns[next] - end > soon_ns
                   ? ORR_OK
                   : orr_builder_dep(b, next, done, ORR_DEP_HANDOFF, err);
    if (open == ORR_NONE || !can_wait(b, open, asked))
        return ORR_OK;
    const int64_t late = b->start_ns[open] + b->duration_ns[open] - end;
    return late > soon_ns || late <= k->recovery.rounding_ns
               ? ORR_OK
               : orr_builder_dep(b, open, done, ORR_DEP_SYNC, err);
}

static orr_status pair(kineto *k, const requests *asked, const requests *done, orr_error *err)
{
    size_t a = 0;
    for (size_t d = 0; d < done->n && a < asked->n; d++) {
        while (a < asked->n && compare_kinds(&asked->at[a], &done->at[d]) < 0)
            a++;
        if (a == asked->n || compare_kinds(&asked->at[a], &done->at[d]) != 0 ||
            asked->at[a].start_ns >= done->at[d].start_ns)
            continue; /* requested before the recording began */
        kineto_comm *executed = &k->comms.at[done->at[d].comm - k->comms.at];
        const kineto_comm *operator= asked->at[a++].comm;
        kineto_merge_comm(executed, operator);
        ORR_TRY(orr_builder_dep(k->builder, executed->node, operator->node, ORR_DEP_CONTROL, err));
        ORR_TRY(resume(k, executed->node, operator->node, err));
    }
    return ORR_OK;
}

orr_status kineto_tie_host_comms(kineto *k, orr_error *err)
{
    requests asked = {0}, done = {0};
    orr_status status;
    ORR_TRY_OUT(status, gather(k, &asked, &done, err));
    if (asked.n > 0 && done.n > 0) {
        qsort(asked.at, asked.n, sizeof *asked.at, by_kind_and_time);
        qsort(done.at, done.n, sizeof *done.at, by_kind_and_time);
        status = pair(k, &asked, &done, err);
    }
out:
    orr_array_done(&asked);
    orr_array_done(&done);
    return status;
}
