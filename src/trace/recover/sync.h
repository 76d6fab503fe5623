/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_RECOVER_SYNC_H
#define ORR_TRACE_RECOVER_SYNC_H

#include "trace/common/idmap.h"
#include "trace/recover/recover.h"

/* Device work in the order in which the host issued it: what synchronisation is about. */

enum {
    ORR_WAKEUP_MAX_NS = 10000, /* work that starts within this of an event came for nothing else */
    ORR_SYNC_STREAMS_MAX = 256 /* to look through for one wait; more than a process makes */
};

typedef struct orr_issued_work {
    int64_t at_ns;    /* start of the launch */
    orr_node_id node; /* of device work      */
} orr_issued_work;

/* By lane, then time of the launch, then node. Lane l has rows first[l] .. first[l + 1] - 1. */
typedef struct orr_issue_order {
    orr_issued_work *row; /* shape (n) */
    uint32_t *first;      /* shape (lanes + 2) */
    uint32_t n;
} orr_issue_order;

typedef struct orr_sync_context {
    orr_graph_builder *b;
    const orr_recovery *r;
    orr_issue_order by_stream; /* rows of each stream lane */
    orr_issue_order by_thread; /* rows of each host lane   */
    orr_idmap streams;         /* orr_stream_key()      -> lane */
    orr_idmap records;         /* correlation of a call that records an event -> that call */
} orr_sync_context;

orr_status orr_sync_open(orr_sync_context *s, orr_graph_builder *b, const orr_recovery *r,
                         orr_error *err) ORR_MUST_CHECK;
void orr_sync_close(orr_sync_context *s);

/* Lane of a stream, by its recorded number; device -1: the first that has one. ORR_NONE. */
uint32_t orr_sync_stream(const orr_sync_context *s, int32_t device, int64_t stream);

/* Of the rows of a lane: the last issued before a moment, the first at or after it; ORR_NONE. */
orr_node_id orr_issued_before(const orr_issue_order *issues, uint32_t lane, int64_t at_ns);
orr_node_id orr_issued_from(const orr_issue_order *issues, uint32_t lane, int64_t at_ns);

/* The dependency, if both exist and the recorded times allow it. *ret_made may be NULL. */
orr_status orr_sync_event(const orr_sync_context *s, orr_node_id before, orr_node_id after,
                          orr_error *err) ORR_MUST_CHECK;
orr_status orr_sync_call(const orr_sync_context *s, orr_node_id work, orr_node_id call,
                         bool *ret_made, orr_error *err) ORR_MUST_CHECK;

/* Where there are no sync records: from the names of the host's calls. */
orr_status orr_sync_by_host_calls(const orr_sync_context *s, orr_error *err) ORR_MUST_CHECK;
/* And from work that began later than anything else accounts for. */
orr_status orr_sync_by_late_start(const orr_sync_context *s, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_RECOVER_SYNC_H */
