/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_EMIT_EMIT_H
#define ORR_RESCALE_EMIT_EMIT_H

#include "base/array.h"
#include "graph/builder.h"

/* Writes the graph of one rank in the order in which its host thread issues it, with the rules of
 * CUDA: work on a stream follows the work issued before it; a stream that waits for an event waits
 * for what was issued on the other stream when the event was recorded, and what is issued
 * next waits with it. Whoever writes a program so, from a model or from pieces of a
 * recording, gets the same dependencies.
 *
 * The first failure stays in `status`, and nothing is written after it: look once, at the end. */
enum {
    ORR_EMIT_COMPUTE = 7, /* the default stream of a PyTorch process */
    ORR_EMIT_DEPTH = 8,
    ORR_EMIT_HOSTS = 8,
    ORR_EMIT_STREAMS = 32
};

typedef orr_array(orr_node_id) orr_node_ids;

typedef struct orr_emit_frame {
    orr_node_id node;  /* ORR_NONE: the thread */
    orr_node_id child; /* the last, or ORR_NONE */
} orr_emit_frame;

typedef struct orr_emit_host {
    orr_lane_id lane;
    int64_t now_ns;
    orr_emit_frame frames[ORR_EMIT_DEPTH];
    uint32_t depth;
    orr_node_id last_root; /* outermost work written last, or ORR_NONE */
} orr_emit_host;

typedef struct orr_emit_stream {
    orr_lane_id lane;
    int64_t number;
    orr_node_ids issued;  /* in order                                    */
    orr_node_ids pending; /* what the next work on it has to wait for    */
} orr_emit_stream;

typedef struct orr_emit {
    orr_graph_builder *b;
    orr_status status;
    orr_error *err;
    bool host; /* threads and launches are written */
    orr_emit_host hosts[ORR_EMIT_HOSTS];
    uint32_t n_hosts, at;    /* at: the thread that runs */
    orr_node_id handed_over; /* outermost work on the thread before, or ORR_NONE */
    orr_emit_stream streams[ORR_EMIT_STREAMS];
    uint32_t n_streams;
    uint64_t correlation, record_function;
    int64_t compute_stream; /* number of the stream that kernels run on */
} orr_emit;

/* Begin; false: out of memory. Whatever happens, orr_emit_done(). */
bool orr_emit_open(orr_emit *e, bool host, orr_error *err);
void orr_emit_done(orr_emit *e);
/* The graph. */
orr_status orr_emit_build(orr_emit *e, const orr_graph **ret, orr_error *err) ORR_MUST_CHECK;

/* The thread or stream of that number, new or not: an index into hosts or streams. */
uint32_t orr_emit_thread(orr_emit *e, const char *name, int64_t number);
uint32_t orr_emit_stream_of(orr_emit *e, int64_t number);
/* From here on another thread runs; what it does first was handed over. */
void orr_emit_switch_thread(orr_emit *e, uint32_t host);

static inline void orr_emit_advance(orr_emit *e, int64_t ns)
{
    e->hosts[e->at].now_ns += ns;
}
orr_str orr_emit_str(orr_emit *e, const char *text);
/* A span of the running thread that holds what comes until orr_emit_end(). Without threads:
 * nothing, and ORR_NONE. */
orr_node_id orr_emit_begin(orr_emit *e, orr_node_kind kind, const char *name);
void orr_emit_end(orr_emit *e);
/* A runtime call of the running thread. */
orr_node_id orr_emit_call(orr_emit *e, const char *name, int64_t duration_ns);
/* Work on a stream, launched by the call (ORR_NONE: by nobody): waits for the stream and for what
 * is pending there. `node`: its lane and times are set here; without any, a stream is in the order
 * of its nodes. */
orr_node_id orr_emit_work(orr_emit *e, uint32_t stream, orr_node_id call, const orr_node *node);
/* `waiting` will wait for what was issued on `on` up to now. */
void orr_emit_wait(orr_emit *e, uint32_t waiting, uint32_t on);
/* The two calls and the record by which CUDA does that, and tells it to the profiler. */
void orr_emit_wait_calls(orr_emit *e, uint32_t waiting, uint32_t on, int64_t call_ns,
                         int64_t between_ns);
/* A call that returns when all streams are done, and its record, which stands on `stream`. */
void orr_emit_sync_calls(orr_emit *e, const char *name, int64_t call_ns, uint32_t stream);
void orr_emit_dep(orr_emit *e, orr_node_id node, orr_node_id on, orr_dep_kind kind);
orr_node_id orr_emit_node(orr_emit *e, const orr_node *node);
/* A node that was written as work of the innermost open span: program order. */
void orr_emit_program_order(orr_emit *e, orr_node_id node);

/* Attributes of a node; at most 8, each a text (JSON or plain) or a number. */
typedef struct orr_emit_attr {
    const char *name;
    const char *json; /* or NULL */
    int64_t number;   /* where there is no text */
} orr_emit_attr;
void orr_emit_attrs(orr_emit *e, orr_node_id node, const orr_emit_attr *attrs, uint32_t n);

static inline orr_node_id orr_emit_tail(const orr_emit *e, uint32_t stream)
{
    const orr_node_ids *issued = &e->streams[stream].issued;
    return issued->n > 0 ? issued->at[issued->n - 1] : ORR_NONE;
}

#endif /* ORR_RESCALE_EMIT_EMIT_H */
