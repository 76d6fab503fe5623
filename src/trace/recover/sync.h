/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_RECOVER_SYNC_H
#define ORR_TRACE_RECOVER_SYNC_H

#include "trace/common/idmap.h"
#include "trace/recover/recover.h"

/* Issue order: device work in the order of its launches, per stream and per thread. It decides what
 * an event or a synchronization covers. */

enum {
    ORR_PROMPT_LEAST_NS = 10000, /* see orr_sync_context.prompt_ns; assumed */
    ORR_SYNC_STREAMS_MAX = 256   /* streams searched for one wait; more than a process has */
};

typedef struct orr_issued_work {
    int64_t at_ns;    /* start of the launch */
    orr_node_id node; /* device work */
} orr_issued_work;

/* Sorted by lane, time of launch, node. Lane l has rows first[l] .. first[l + 1] - 1. */
typedef struct orr_issue_order {
    orr_issued_work *row; /* shape (n) */
    uint32_t *first;      /* shape (lanes + 2) */
    uint32_t n;
} orr_issue_order;

typedef struct orr_sync_context {
    orr_graph_builder *b;
    const orr_recovery *r;
    orr_issue_order by_stream; /* by stream lane */
    orr_issue_order by_thread; /* by host lane */
    orr_idmap streams;         /* orr_stream_key() to lane */
    int64_t prompt_ns[2];      /* work that starts within this of the end of other work, a copy or a
                                * set at [1], was waiting for it */
    orr_idmap records;         /* correlation of the call that recorded an event, to that call */
} orr_sync_context;

orr_status orr_sync_open(orr_sync_context *s, orr_graph_builder *b, const orr_recovery *r,
                         orr_error *err) ORR_MUST_CHECK;
void orr_sync_close(orr_sync_context *s);

/* Within which time of the end of this work did what starts wait for it? */
int64_t orr_sync_prompt_ns(const orr_sync_context *s, orr_node_id work);

/* Lane of a stream by its recorded number; device -1: the first device that has it. ORR_NONE:
 * none. */
uint32_t orr_sync_stream(const orr_sync_context *s, int32_t device, int64_t stream);

/* Of a lane's rows: the last issued before a time; the first issued at or after it; ORR_NONE:
 * none. */
orr_node_id orr_issued_before(const orr_issue_order *issues, uint32_t lane, int64_t at_ns);
orr_node_id orr_issued_from(const orr_issue_order *issues, uint32_t lane, int64_t at_ns);

/* Adds the dependency if both nodes exist and the recorded times allow it. *ret_made may be
 * NULL. */
orr_status orr_sync_event(const orr_sync_context *s, orr_node_id before, orr_node_id after,
                          orr_error *err) ORR_MUST_CHECK;
orr_status orr_sync_call(const orr_sync_context *s, orr_node_id work, orr_node_id call,
                         bool *ret_made, orr_error *err) ORR_MUST_CHECK;

/* Infers synchronization from host calls where there are no sync records. */
orr_status orr_sync_by_host_calls(const orr_sync_context *s, orr_error *err) ORR_MUST_CHECK;
/* Infers events from work that started late for no other recorded reason. */
orr_status orr_sync_by_late_start(const orr_sync_context *s, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_RECOVER_SYNC_H */
