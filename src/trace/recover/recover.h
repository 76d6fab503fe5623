/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_RECOVER_RECOVER_H
#define ORR_TRACE_RECOVER_RECOVER_H

#include <orrery/graph.h>

#include "base/array.h"
#include "graph/builder.h"

/* Dependencies that a Kineto recording does not state but implies: nesting and program order on
 * threads, launches, order on streams, events, synchronisation, hand-offs between threads.
 *
 * Every dependency made agrees with the recorded times, as close as clocks and rounding
 * allow, and together they are never a cycle. Let the points of a node be its start and its
 * end. Then
 *   - nesting, THREAD and STREAM go along the order of one lane,
 *   - LAUNCH goes from a host to a device; device work that seems to start before its launch
 *     counts as starting with it (`orr_device_times`), and what follows it is asked to agree
 *     with that,
 *   - EVENT, between streams, goes from an earlier start to a later start,
 *   - SYNC, back to a host, goes from device work to a call that ends after the work started,
 *   - HANDOFF, between threads, goes from an end to a later start;
 * the last three are strict. So on every path the time of the starts never falls, and it rises
 * wherever the path could come back to where it began. */

/* What a record of a synchronisation says. */
typedef enum orr_sync_kind {
    ORR_SYNC_STREAM_WAIT, /* a stream waits for an event */
    ORR_SYNC_STREAM,      /* a host call waits for one stream ... */
    ORR_SYNC_EVENT,       /* ... for an event ...                 */
    ORR_SYNC_CONTEXT,     /* ... for all streams                  */
    ORR_SYNC_DEVICE_WAIT  /* work of a stream that waits for another: takes device time */
} orr_sync_kind;

typedef struct orr_sync_record {
    orr_node_id node;            /* its source_id is the correlation of the host call */
    uint8_t kind;                /* orr_sync_kind */
    int64_t stream, wait_stream; /* recorded stream numbers; INT64_MIN: not said */
    int32_t device;
    uint64_t record_correlation; /* of the call that recorded the event; 0: not said */
} orr_sync_record;

/* Host calls that matter for synchronisation, told by their names. */
typedef enum orr_host_call_role {
    ORR_HOST_CALL_NONE,
    ORR_HOST_CALL_RECORD_EVENT,
    ORR_HOST_CALL_STREAM_WAIT_EVENT,
    ORR_HOST_CALL_SYNC_STREAM,
    ORR_HOST_CALL_SYNC_DEVICE,
    ORR_HOST_CALL_SYNC_EVENT,
    ORR_HOST_CALL_BLOCKING_COPY /* returns when the copy that it launches is done */
} orr_host_call_role;
orr_host_call_role orr_host_call_role_of(const char *name, size_t len);

typedef struct orr_host_call {
    orr_node_id node;
    uint8_t role;   /* orr_host_call_role */
    int64_t stream; /* recorded as an argument, or INT64_MIN */
} orr_host_call;

/* One end of a flow arrow, drawn at a time on a lane. */
typedef struct orr_flow {
    uint64_t id;
    int64_t at_ns;
    uint32_t lane;
    bool finish;
} orr_flow;

/* A host operator that belongs to autograd: sequence numbers tie forward to backward. */
typedef struct orr_autograd {
    int64_t sequence;
    orr_node_id node;
    bool backward; /* it names a forward thread */
} orr_autograd;

/* Everything the reader found beside nodes; filled by it, freed by orr_recovery_done(). */
typedef struct orr_recovery {
    orr_array(orr_sync_record) syncs; /* by increasing node */
    orr_array(orr_host_call) calls;   /* by increasing node */
    orr_array(orr_flow) forward;      /* fwdbwd arrows      */
    orr_array(orr_flow) launches;     /* launch arrows that say what correlations do not */
    orr_array(orr_autograd) autograd;
    orr_array(int64_t) lane_stream; /* stream number of lane l where it is not its tid,
                                     * else INT64_MIN; may be shorter than the lanes */
    int64_t rounding_ns;            /* recorded times are right to this */
    uint64_t orphans;               /* out: device work without a launch */
    uint32_t *launch;               /* out: shape (N), the host call that launched a device node */
} orr_recovery;

/* All of the above, in the right order. Errors: NO_MEMORY, LIMIT. */
orr_status orr_recover(orr_graph_builder *builder, orr_recovery *recovery,
                       orr_error *err) ORR_MUST_CHECK;
void orr_recovery_done(orr_recovery *recovery);

/* The steps, each needing those before it. */
orr_status orr_recover_nesting(orr_graph_builder *builder, const orr_recovery *recovery,
                               orr_error *err) ORR_MUST_CHECK;
orr_status orr_recover_launches(orr_graph_builder *builder, orr_recovery *recovery,
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_recover_streams(orr_graph_builder *builder, const orr_recovery *recovery,
                               orr_error *err) ORR_MUST_CHECK;
orr_status orr_recover_syncs(orr_graph_builder *builder, const orr_recovery *recovery,
                             orr_error *err) ORR_MUST_CHECK;
orr_status orr_recover_autograd_handoffs(orr_graph_builder *builder, const orr_recovery *recovery,
                                         orr_error *err) ORR_MUST_CHECK;

/* The forward and the backward operators of one step are on different threads; so is what
 * resumes when they are done. */
orr_status orr_recover_thread_resumptions(orr_graph_builder *builder,
                                          orr_error *err) ORR_MUST_CHECK;

/* Rows [first, last) of the lane that start at that moment: builder->lane_rows.node[row]. */
uint32_t orr_lane_rows_at(const orr_graph_builder *builder, uint32_t lane, int64_t at_ns,
                          uint32_t *ret_last);

/* Start and end of device work, not before its launch. */
typedef struct orr_time_span {
    int64_t start_ns, end_ns;
} orr_time_span;
static inline orr_time_span orr_device_times(const orr_graph_builder *b, const orr_recovery *r,
                                             orr_node_id node)
{
    orr_time_span span = {b->start_ns[node], b->start_ns[node] + b->duration_ns[node]};
    const uint32_t call = r->launch[node];
    if (call != ORR_NONE && b->start_ns[call] > span.start_ns)
        span.start_ns = b->start_ns[call];
    if (span.end_ns < span.start_ns)
        span.end_ns = span.start_ns;
    return span;
}

/* Work that occupies a stream: COMPUTE to SYNC on a STREAM lane, but not the sync records of
 * CUDA, which carry times of the host. */
bool orr_occupies_stream(const orr_graph_builder *builder, const orr_recovery *recovery,
                         orr_node_id node);

/* Of a node whose start was recorded. */
static inline int64_t orr_recorded_end_ns(const orr_graph_builder *b, orr_node_id v)
{
    return b->start_ns[v] + b->duration_ns[v];
}

#endif /* ORR_TRACE_RECOVER_RECOVER_H */
