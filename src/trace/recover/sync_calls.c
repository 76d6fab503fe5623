/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/sync.h"

#include <stdlib.h>

#include "base/alloc.h"

/* Synchronization without sync records. Host calls are recorded, but not which stream or event they
 * refer to; it is inferred from the order of the thread's own calls and the recorded times. A call
 * that waited returns within a prompt time (sync.h) of the end of what it waited for; a call that
 * returns at another time did not wait. */

/* Of the work last issued on each stream before the given time, the one that ended last, but not
 * after `by_ns`. ORR_NONE: none. */
static orr_node_id last_ended_by(const orr_sync_context *s, int64_t issued_before_ns, int64_t by_ns,
                                 uint32_t except_lane)
{
    const orr_graph_builder *b = s->b;
    orr_node_id found = ORR_NONE;
    if (b->lanes.n > ORR_SYNC_STREAMS_MAX)
        return ORR_NONE;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        if (b->lanes.at[lane].kind != ORR_LANE_STREAM || lane == except_lane)
            continue;
        const orr_node_id u = orr_issued_before(&s->by_stream, lane, issued_before_ns);
        if (u != ORR_NONE && orr_recorded_end_ns(b, u) <= by_ns &&
            (found == ORR_NONE || orr_recorded_end_ns(b, u) > orr_recorded_end_ns(b, found)))
            found = u;
    }
    return found;
}

static orr_status sync_device(const orr_sync_context *s, orr_node_id call, orr_error *err)
{
    bool made;
    for (uint32_t lane = 0; lane < s->b->lanes.n; lane++)
        if (s->b->lanes.at[lane].kind == ORR_LANE_STREAM) {
            const orr_node_id work = orr_issued_before(&s->by_stream, lane, s->b->start_ns[call]);
            ORR_TRY(orr_sync_call(s, work, call, &made, err));
        }
    return ORR_OK;
}

/* A call that really waited ended right after what it waited for. */
static orr_status sync_what_just_ended(const orr_sync_context *s, orr_node_id call, orr_error *err)
{
    bool made;
    const orr_graph_builder *b = s->b;
    const orr_node_id work =
        last_ended_by(s, b->start_ns[call], orr_recorded_end_ns(b, call), ORR_NONE);
    if (work == ORR_NONE || orr_recorded_end_ns(b, work) <= b->start_ns[call])
        return ORR_OK;
    return orr_sync_call(s, work, call, &made, err);
}

/* The recorded stream, or the one that the thread used last: aten::item copies, then waits. */
static orr_status sync_stream(const orr_sync_context *s, const orr_host_call *call, orr_error *err)
{
    const orr_graph_builder *b = s->b;
    const int64_t start = b->start_ns[call->node];
    bool made;
    orr_node_id work;
    if (call->stream != INT64_MIN) {
        const uint32_t lane = orr_sync_stream(s, -1, call->stream);
        work = lane == ORR_NONE ? ORR_NONE : orr_issued_before(&s->by_stream, lane, start);
        return orr_sync_call(s, work, call->node, &made, err);
    }
    work = orr_issued_before(&s->by_thread, b->lane[call->node], start);
    if (work != ORR_NONE)
        work = orr_issued_before(&s->by_stream, b->lane[work], start);
    ORR_TRY(orr_sync_call(s, work, call->node, &made, err));
    return made ? ORR_OK : sync_what_just_ended(s, call->node, err);
}

/* cudaStreamWaitEvent: the next work that the thread issues is what waits. It waits for what the
 * thread had issued before recording the event, if that was on another stream; else for what had
 * just ended elsewhere when it started. */
static orr_status stream_wait(const orr_sync_context *s, orr_node_id call, int64_t recorded_ns,
                              orr_error *err)
{
    const orr_graph_builder *b = s->b;
    const uint32_t thread = b->lane[call];
    const orr_node_id after = orr_issued_from(&s->by_thread, thread, b->start_ns[call]);
    if (after == ORR_NONE)
        return ORR_OK;
    orr_node_id before = orr_issued_before(&s->by_thread, thread, recorded_ns);
    if (before == ORR_NONE || b->lane[before] == b->lane[after]) {
        const int64_t start = orr_device_times(b, s->r, after).start_ns;
        before = last_ended_by(s, b->start_ns[call], start, b->lane[after]);
        if (before != ORR_NONE &&
            start - orr_recorded_end_ns(b, before) > orr_sync_prompt_ns(s, before))
            before = ORR_NONE;
    }
    return orr_sync_event(s, before, after, err);
}

static int compare_calls(const void *a, const void *b, void *ctx)
{
    const orr_graph_builder *g = ctx;
    const orr_node_id x = ((const orr_host_call *)a)->node, y = ((const orr_host_call *)b)->node;
    if (g->lane[x] != g->lane[y])
        return g->lane[x] < g->lane[y] ? -1 : 1;
    if (g->start_ns[x] != g->start_ns[y])
        return g->start_ns[x] < g->start_ns[y] ? -1 : 1;
    return x < y ? -1 : x > y;
}

static orr_status follow_calls(const orr_sync_context *s, const orr_host_call *calls, size_t n,
                               orr_error *err)
{
    const orr_graph_builder *b = s->b;
    orr_node_id record = ORR_NONE; /* the thread's last event record */
    for (size_t i = 0; i < n; i++) {
        const orr_host_call *call = &calls[i];
        if (i > 0 && b->lane[call->node] != b->lane[calls[i - 1].node])
            record = ORR_NONE;
        switch ((orr_host_call_role)call->role) {
        case ORR_HOST_CALL_RECORD_EVENT:
            record = call->node;
            break;
        case ORR_HOST_CALL_STREAM_WAIT_EVENT:
            ORR_TRY(stream_wait(s, call->node,
                                b->start_ns[record != ORR_NONE ? record : call->node], err));
            break;
        case ORR_HOST_CALL_SYNC_STREAM:
            ORR_TRY(sync_stream(s, call, err));
            break;
        case ORR_HOST_CALL_SYNC_DEVICE:
            ORR_TRY(sync_device(s, call->node, err));
            break;
        case ORR_HOST_CALL_SYNC_EVENT:
            ORR_TRY(sync_what_just_ended(s, call->node, err));
            break;
        case ORR_HOST_CALL_BLOCKING_COPY: /* waits for its own copy */
        case ORR_HOST_CALL_NONE:
            break;
        }
    }
    return ORR_OK;
}

orr_status orr_sync_by_host_calls(const orr_sync_context *s, orr_error *err)
{
    const size_t n = s->r->calls.n;
    if (s->by_stream.n == 0)
        return ORR_OK;
    orr_host_call *calls = orr_malloc((n + 1) * sizeof *calls);
    if (calls == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        calls[i] = s->r->calls.at[i];
    qsort_r(calls, n, sizeof *calls, compare_calls, s->b);
    const orr_status status = follow_calls(s, calls, n, err);
    orr_free(calls);
    return status == ORR_OK ? orr_sync_by_late_start(s, err) : status;
}
