/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_RECOVER_RECOVER_H
#define ORR_TRACE_RECOVER_RECOVER_H

#include <orrery/graph.h>

#include "base/array.h"
#include "graph/builder.h"

/* Recovers dependencies that a Kineto recording implies but does not state: nesting and program
 * order on threads, launches, stream order, events, synchronization, hand-offs between threads.
 *
 * Every recovered dependency agrees with the recorded times, as closely as clocks and rounding
 * allow, and together they never form a cycle. Proof: let the points of a node be its start and its
 * end. Then
 *
 *   - nesting, THREAD and STREAM follow the order of one lane,
 *   - LAUNCH goes from a host to a device; device work that seems to start before its launch
 *     counts as starting with it (`orr_device_times`), and what follows it must agree with that,
 *   - EVENT, between streams, goes from an earlier start to a later start,
 *   - SYNC, back to a host, goes from device work to a call that ends after the work started,
 *   - HANDOFF, between threads, goes from an end to a later start;
 *
 * the last three strictly. So along every path the start time never decreases, and it increases
 * wherever the path could return to where it began. */

/* What a synchronization record says. */
typedef enum orr_sync_kind {
    ORR_SYNC_STREAM_WAIT, /* cudaStreamWaitEvent: a stream waits for an event */
    ORR_SYNC_STREAM,      /* a host call waits for a stream ... */
    ORR_SYNC_EVENT,       /* ... for an event ...                 */
    ORR_SYNC_CONTEXT,     /* ... or for all streams */
    ORR_SYNC_DEVICE_WAIT  /* a wait that occupies a stream: takes device time */
} orr_sync_kind;

typedef struct orr_sync_record {
    orr_node_id node;            /* its source_id is the correlation of the host call */
    uint8_t kind;                /* orr_sync_kind */
    int64_t stream, wait_stream; /* recorded stream numbers; INT64_MIN: not recorded */
    int32_t device;
    uint64_t record_correlation; /* of the call that recorded the event; 0: not recorded */
} orr_sync_record;

/* Roles of host calls in synchronization, by their names. */
typedef enum orr_host_call_role {
    ORR_HOST_CALL_NONE,
    ORR_HOST_CALL_RECORD_EVENT,
    ORR_HOST_CALL_STREAM_WAIT_EVENT,
    ORR_HOST_CALL_SYNC_STREAM,
    ORR_HOST_CALL_SYNC_DEVICE,
    ORR_HOST_CALL_SYNC_EVENT,
    ORR_HOST_CALL_BLOCKING_COPY /* returns when the copy it launches is done */
} orr_host_call_role;
orr_host_call_role orr_host_call_role_of(const char *name, size_t len);

typedef struct orr_host_call {
    orr_node_id node;
    uint8_t role;   /* orr_host_call_role */
    int64_t stream; /* recorded argument, or INT64_MIN */
} orr_host_call;

/* One end of a flow arrow: a lane and a time. */
typedef struct orr_flow {
    uint64_t id;
    int64_t at_ns;
    uint32_t lane;
    bool finish;
} orr_flow;

/* A host operator of autograd: sequence numbers tie forward to backward operators. */
typedef struct orr_autograd {
    int64_t sequence;
    orr_node_id node;
    bool backward; /* it names a forward thread */
} orr_autograd;

/* What the reader found beside nodes; filled by the reader, freed by orr_recovery_done(). */
typedef struct orr_recovery {
    orr_array(orr_sync_record) syncs; /* by increasing node */
    orr_array(orr_host_call) calls;   /* by increasing node */
    orr_array(orr_flow) forward;      /* fwdbwd arrows      */
    orr_array(orr_flow) launches;     /* launch arrows, for device work without correlation */
    orr_array(orr_autograd) autograd;
    orr_array(int64_t) lane_stream; /* recorded stream number of lane l where it is not its tid,
                                       else INT64_MIN; may be shorter than the lanes */
    int64_t rounding_ns;            /* rounding error of recorded times */
    uint64_t orphans;               /* out: device work without a launch in the recording */
    uint32_t *launch;               /* out: shape (N), the host call that launched a device node */
} orr_recovery;

/* Runs all steps below in order. Errors: NO_MEMORY, LIMIT. */
orr_status orr_recover(orr_graph_builder *builder, orr_recovery *recovery,
                       orr_error *err) ORR_MUST_CHECK;
void orr_recovery_done(orr_recovery *recovery);

/* The steps; each needs those before it. */
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

/* Hand-offs between threads: forward to backward operators, and threads that resume one another. */
orr_status orr_recover_thread_resumptions(orr_graph_builder *builder,
                                          orr_error *err) ORR_MUST_CHECK;

/* Rows [first, last) of the lane that start at that time: builder->lane_rows.node[row]. */
uint32_t orr_lane_rows_at(const orr_graph_builder *builder, uint32_t lane, int64_t at_ns,
                          uint32_t *ret_last);

/* Start and end of device work; the start not before its launch. */
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

/* Whether the node occupies a stream: COMPUTE to SYNC on a STREAM lane, except CUDA's sync records,
 * whose times are the host's. */
bool orr_occupies_stream(const orr_graph_builder *builder, const orr_recovery *recovery,
                         orr_node_id node);

/* For a node with a recorded start. */
static inline int64_t orr_recorded_end_ns(const orr_graph_builder *b, orr_node_id v)
{
    return b->start_ns[v] + b->duration_ns[v];
}

#endif /* ORR_TRACE_RECOVER_RECOVER_H */
