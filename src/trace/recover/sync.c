/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/sync.h"

#include <stdlib.h>
#include <string.h>

/* Events and synchronization from the records of `cuda_sync`, and blocking copies. */

/* The time up to which issued work is waited for: when the event was recorded, else when the wait
 * was issued. */
static int64_t record_moment(const orr_sync_context *s, const orr_sync_record *sync,
                             orr_node_id call)
{
    const orr_node_id record = sync->record_correlation == 0
                                   ? ORR_NONE
                                   : orr_idmap_get(&s->records, sync->record_correlation);
    return s->b->start_ns[record != ORR_NONE ? record : call];
}

static orr_status wait_on_stream(const orr_sync_context *s, const orr_sync_record *sync,
                                 orr_node_id call, orr_error *err)
{
    const uint32_t from = orr_sync_stream(s, sync->device, sync->wait_stream);
    const uint32_t to = orr_sync_stream(s, sync->device, sync->stream);
    if (from == ORR_NONE || to == ORR_NONE)
        return ORR_OK;
    return orr_sync_event(s, orr_issued_before(&s->by_stream, from, record_moment(s, sync, call)),
                          orr_issued_from(&s->by_stream, to, s->b->start_ns[call]), err);
}

/* A wait that occupies a stream ended when an event of another stream arrived: what follows it
 * depends on the last work of the other stream that had ended by then. */
static orr_status wait_on_device(const orr_sync_context *s, const orr_sync_record *sync,
                                 orr_error *err)
{
    enum { MOST_STEPS = 64 };
    const orr_graph_builder *b = s->b;
    const uint32_t from = orr_sync_stream(s, sync->device, sync->wait_stream);
    if (from == ORR_NONE)
        return ORR_OK;
    const int64_t end = b->start_ns[sync->node] + b->duration_ns[sync->node];
    uint32_t last, row = orr_lane_rows_at(b, from, end, &last);
    orr_node_id before = ORR_NONE;
    for (int step = 0; row > b->lane_rows.first[from] && step < MOST_STEPS; step++) {
        const orr_node_id u = b->lane_rows.node[--row];
        if (orr_occupies_stream(b, s->r, u) && b->start_ns[u] + b->duration_ns[u] <= end) {
            before = u;
            break;
        }
    }
    const uint32_t to = b->lane[sync->node];
    for (row = orr_lane_rows_at(b, to, end, &last); row < b->lane_rows.first[to + 1]; row++)
        if (orr_occupies_stream(b, s->r, b->lane_rows.node[row]))
            return orr_sync_event(s, before, b->lane_rows.node[row], err);
    return ORR_OK;
}

static orr_status sync_context(const orr_sync_context *s, int32_t device, orr_node_id call,
                               orr_error *err)
{
    const orr_graph_builder *b = s->b;
    bool made;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        const orr_lane *l = &b->lanes.at[lane];
        if (l->kind != ORR_LANE_STREAM || (device >= 0 && l->device != device))
            continue;
        const orr_node_id work = orr_issued_before(&s->by_stream, lane, b->start_ns[call]);
        ORR_TRY(orr_sync_call(s, work, call, &made, err));
    }
    return ORR_OK;
}

static orr_status follow_record(const orr_sync_context *s, const orr_sync_record *sync,
                                orr_error *err)
{
    bool made;
    const orr_node_id call = s->r->launch[sync->node];
    if (sync->kind == ORR_SYNC_DEVICE_WAIT)
        return wait_on_device(s, sync, err);
    if (sync->kind == ORR_SYNC_STREAM_WAIT) /* recorded with the call's times */
        return wait_on_stream(s, sync, call != ORR_NONE ? call : sync->node, err);
    if (call == ORR_NONE)
        return ORR_OK;
    if (sync->kind == ORR_SYNC_CONTEXT)
        return sync_context(s, sync->device, call, err);
    const bool event = sync->kind == ORR_SYNC_EVENT;
    const uint32_t lane =
        orr_sync_stream(s, sync->device, event ? sync->wait_stream : sync->stream);
    if (lane == ORR_NONE)
        return ORR_OK;
    const int64_t moment = event ? record_moment(s, sync, call) : s->b->start_ns[call];
    return orr_sync_call(s, orr_issued_before(&s->by_stream, lane, moment), call, &made, err);
}

static int by_node(const void *a, const void *b)
{
    const orr_host_call *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Whether a call returns only when its copy is done: by its own nature, or because the memory is
 * pageable. */
static bool is_blocking(const orr_sync_context *s, orr_node_id copy, orr_node_id call)
{
    const orr_host_call wanted = {.node = call};
    const orr_recovery *r = s->r;
    const orr_host_call *found =
        r->calls.n == 0 ? NULL : bsearch(&wanted, r->calls.at, r->calls.n, sizeof wanted, by_node);
    if (found != NULL && found->role == ORR_HOST_CALL_BLOCKING_COPY)
        return true;
    const char *name = orr_builder_text(s->b, s->b->name[copy]);
    return strstr(name, "DtoH") != NULL && strstr(name, "Pageable") != NULL;
}

static orr_status blocking_copies(const orr_sync_context *s, orr_error *err)
{
    bool made;
    for (uint32_t i = 0; i < s->by_stream.n; i++) {
        const orr_node_id v = s->by_stream.row[i].node;
        const orr_node_id call = s->r->launch[v];
        if (s->b->kind[v] == ORR_NODE_COPY && is_blocking(s, v, call))
            ORR_TRY(orr_sync_call(s, v, call, &made, err));
    }
    return ORR_OK;
}

/* Whether CUDA itself recorded what waited for what. */
static bool has_host_records(const orr_recovery *r)
{
    for (size_t i = 0; i < r->syncs.n; i++)
        if (r->syncs.at[i].kind != ORR_SYNC_DEVICE_WAIT)
            return true;
    return false;
}

orr_status orr_recover_syncs(orr_graph_builder *b, const orr_recovery *r, orr_error *err)
{
    orr_sync_context s;
    orr_status status;
    if (b->n_nodes == 0)
        return ORR_OK;
    ORR_TRY_OUT(status, orr_sync_open(&s, b, r, err));
    for (size_t i = 0; i < r->syncs.n; i++)
        ORR_TRY_OUT(status, follow_record(&s, &r->syncs.at[i], err));
    ORR_TRY_OUT(status, blocking_copies(&s, err));
    if (!has_host_records(r))
        status = orr_sync_by_host_calls(&s, err);
out:
    orr_sync_close(&s);
    return status;
}
