/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_KINETO_READER_H
#define ORR_TRACE_KINETO_READER_H

#include <orrery/graph.h>
#include <orrery/trace.h>

#include "base/array.h"
#include "graph/builder.h"
#include "io/json/layout.h"
#include "io/json/reader.h"
#include "trace/kineto/keys.h"
#include "trace/comm/process_groups.h"
#include "trace/recover/recover.h"

/* Internals of the Kineto reader.
 *
 * A recording is read in one pass. Each event is parsed into a kineto_event on the stack and
 * becomes a node at once; what connects nodes (flows, sync records, collective metadata) is set
 * aside in small tables and used when all events are there. */

/* A pid or tid: a number, or (number INT64_MIN) a text. */
typedef struct kineto_id {
    int64_t number;
    orr_str text;
} kineto_id;

typedef struct kineto_event {
    char ph;
    uint8_t cat; /* kineto_cat */
    bool has_ts, has_id;
    uint16_t keys; /* bit of each kineto_key that was there */
    orr_str name;
    kineto_id pid, tid;
    int64_t ts_ns, dur_ns;
    uint64_t id;
    uint64_t has;                 /* bit a of kineto_arg a: value[a] is there */
    int64_t value[KINETO_N_ARGS]; /* integers, and orr_str of texts; only where `has` says */
    double rate_gb_per_s;
} kineto_event;

static inline bool kineto_has(const kineto_event *e, kineto_arg arg)
{
    return (e->has >> arg & 1) != 0;
}
static inline int64_t kineto_value(const kineto_event *e, kineto_arg arg, int64_t otherwise)
{
    return kineto_has(e, arg) ? e->value[arg] : otherwise;
}
_Static_assert(KINETO_N_ARGS <= 64, "one bit each in kineto_event.has");

/* A communication as far as it is known: of a kernel, or of an operator that led to it. */
typedef struct kineto_comm {
    orr_node_id node;
    bool executes;               /* a kernel, or a host event that is the communication itself */
    orr_comm comm;               /* group and bytes are still open */
    int64_t in_bytes, out_bytes; /* as recorded; -1: not known */
    int64_t in_elements;         /* the same, where the element is not known */
    orr_str group_name, group_desc, group_ranks;
    int64_t global_start, global_stride; /* INT64_MIN: not known */
    int64_t rank;                        /* of the peer or root in the group; -1 */
    int64_t global_peer;                 /* of a peer in the job; -1 */
} kineto_comm;

/* The meaning of a name, determined once per name. */
typedef struct kineto_name {
    bool known;
    uint8_t call_role; /* orr_host_call_role, of runtime calls */
    bool kernel_communicates, host_communicates, host_executes;
    bool vector;
    bool names_range; /* by the framework's own record_function */
    uint8_t kernel_collective, host_collective; /* orr_collective */
} kineto_name;

/* A scalar as it stood before, and what it means: a category or an id. */
enum { KINETO_RECENT = 64 };
typedef struct kineto_recent {
    uint8_t bytes[32];
    uint64_t mask;      /* of the first 8 bytes, those that are of the n */
    uint8_t n, value_n; /* 0: none; `value_n` of them are the value */
    orr_str text;
    int64_t number;
} kineto_recent;

typedef struct kineto_lane_slot {
    kineto_id pid, tid;
    uint8_t kind; /* orr_lane_kind; UINT8_MAX: free */
    uint16_t lane;
} kineto_lane_slot;

typedef struct kineto_arrow { /* one end of a launch flow, in the recording's terms */
    uint64_t id;
    int64_t at_ns, pid, tid;
    bool finish;
} kineto_arrow;

typedef struct kineto_copy_size { /* bytes that a runtime call says it copies */
    orr_node_id node;
    int64_t bytes;
} kineto_copy_size;

typedef struct kineto_label { /* a metadata event that names a process or thread */
    kineto_id pid, tid;
    orr_str name;
    bool of_process;
} kineto_label;

typedef struct kineto_device {
    int64_t id;
    orr_str name;
} kineto_device;

/* The attribute being collected; one of the fields by its kind. */
typedef union kineto_attr_value {
    int64_t int64;
    double real;
    orr_str str;
    uint8_t boolean;
} kineto_attr_value;

typedef struct kineto {
    orr_json *json;
    orr_graph_builder *builder;
    const orr_read_options *options;
    orr_read_report *report;
    orr_stream *stream;
    uint64_t event_byte; /* where the event at hand begins */

    kineto_words words;
    orr_json_layout event_layout, arg_layout;
    orr_str arg_name[KINETO_N_ARGS];          /* interned when first seen; 0: not yet */
    orr_str known_name[ORR_JSON_LAYOUT_KEYS]; /* the same, of the remembered keys of arguments */
    kineto_lane_slot lane_cache[256];
    kineto_recent recent_ids[KINETO_RECENT], recent_cats[KINETO_RECENT];
    orr_str recent_lists[1024];   /* by their first bytes; 0: none */
    orr_str recent_texts[1024];   /* by length, ends and middle; 0: none */
    orr_array(kineto_name) names; /* by orr_str */
    orr_array(kineto_label) labels;
    orr_array(kineto_comm) comms;           /* by increasing node */
    orr_array(kineto_copy_size) copy_sizes; /* by increasing node */
    orr_array(kineto_arrow) arrows;
    orr_array(orr_attr) attrs; /* of the event being read */
    orr_array(kineto_attr_value) attr_values;
    orr_array(orr_attr) recording_attrs;
    orr_array(kineto_attr_value) recording_values;

    orr_recovery recovery;
    orr_process_groups groups;

    uint64_t last_correlation; /* of the last node, which flows usually repeat */
    int64_t last_ts_ns;
    uint64_t uncorrelated; /* device work without a correlation */
    bool fractions;        /* some time was not a whole number of microseconds */
    bool is_list;
    bool only_group; /* of all communications: the recording names one */
    int64_t schema_version;
    int32_t first_device;             /* that was active; -1: none yet */
    orr_array(kineto_device) devices; /* of deviceProperties */
} kineto;

/* A reader without events. Another format of the same events (nsight/) makes its own kineto_event
 * of each, calls kineto_add_node() and kineto_finish(). NULL: out of memory. */
kineto *kineto_new(orr_stream *stream, const orr_read_options *options, orr_graph_builder *builder,
                   orr_read_report *report);
void kineto_free(kineto *k); /* NULL is allowed */
/* After the last event: connects nodes by what was set aside. */
orr_status kineto_finish(kineto *k, orr_error *err) ORR_MUST_CHECK;

/* One element of traceEvents: an event, into the builder. */
orr_status kineto_read_event(kineto *k, orr_error *err) ORR_MUST_CHECK;
/* Value of an argument, as an attribute of the event being read. */
orr_status kineto_read_attr(kineto *k, orr_str name, orr_error *err) ORR_MUST_CHECK;
orr_status kineto_add_attr(kineto *k, orr_str name, orr_attr_kind kind, kineto_attr_value value,
                           orr_error *err) ORR_MUST_CHECK;
orr_status kineto_add_text_attr(kineto *k, orr_str name, orr_attr_kind kind, orr_text text,
                                orr_error *err) ORR_MUST_CHECK;
/* The attributes collected so far, to a node (ORR_NONE: the recording). */
orr_status kineto_put_attrs(kineto *k, orr_node_id node, orr_error *err) ORR_MUST_CHECK;

/* A complete event, in the form of its node. */
orr_status kineto_add_node(kineto *k, const kineto_event *e, orr_error *err) ORR_MUST_CHECK;
/* AMD records the bytes of a copy with its launch: completes copies when launches are known. */
orr_status kineto_complete_copies(kineto *k, orr_error *err) ORR_MUST_CHECK;

orr_status kineto_add_flow(kineto *k, const kineto_event *e, orr_error *err) ORR_MUST_CHECK;
/* Passes launch flows to the recovery, if there is device work that needs them. */
orr_status kineto_pass_arrows(kineto *k, orr_error *err) ORR_MUST_CHECK;

orr_status kineto_lane(kineto *k, const kineto_event *e, orr_lane_kind kind, orr_lane_id *ret,
                       orr_error *err) ORR_MUST_CHECK;
orr_status kineto_add_label(kineto *k, const kineto_event *e, orr_error *err) ORR_MUST_CHECK;
void kineto_apply_labels(kineto *k);

/* Metadata of a communication, from arguments or from the shapes of an annotation. */
orr_status kineto_add_comm(kineto *k, const kineto_event *e, orr_node_id node,
                           const kineto_name *name, bool executes, orr_error *err) ORR_MUST_CHECK;
/* Fills in what `to` does not know from an operator that led to it. */
void kineto_merge_comm(kineto_comm *to, const kineto_comm *from);
/* Ties communications run by host threads to the operators that asked for them. */
orr_status kineto_tie_host_comms(kineto *k, orr_error *err) ORR_MUST_CHECK;
/* Gives kernels what their host operators know, once nesting and launches are recovered. */
orr_status kineto_resolve_comms(kineto *k, orr_error *err) ORR_MUST_CHECK;

/* A key of the top-level object other than traceEvents. */
orr_status kineto_read_header(kineto *k, orr_text key, orr_error *err) ORR_MUST_CHECK;
orr_status kineto_finish_header(kineto *k, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_KINETO_READER_H */
