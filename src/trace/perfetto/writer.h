/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_PERFETTO_WRITER_H
#define ORR_TRACE_PERFETTO_WRITER_H

#include <orrery/graph.h>

#include "base/array.h"
#include "io/stream/output.h"
#include "io/protobuf/wire.h"
#include "trace/common/writer.h"

/* The numbers of Perfetto's schema (perfetto_trace.proto) that we write: a Trace is packets in
 * field 1. */
enum perfetto_trace { TRACE_PACKET = 1 };
enum perfetto_packet {
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_TRACK_DESCRIPTOR = 60,
};
enum perfetto_flags { SEQUENCE_CLEARED = 1, SEQUENCE_NEEDS_STATE = 2 };
enum perfetto_interned { INTERNED_CATEGORIES = 1, INTERNED_NAMES = 2, INTERNED_ANNOTATIONS = 3 };
enum perfetto_interned_entry { ENTRY_ID = 1, ENTRY_NAME = 2 };
enum perfetto_track {
    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
};
enum perfetto_process { PROCESS_PID = 1, PROCESS_NAME = 6 };
enum perfetto_thread { THREAD_PID = 1, THREAD_TID = 2, THREAD_NAME = 5 };
enum perfetto_event {
    EVENT_CATEGORY_IDS = 3,
    EVENT_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_ID = 10,
    EVENT_TRACK = 11,
    EVENT_FLOW_IDS = 47,
    EVENT_TERMINATING_FLOW_IDS = 48,
};
enum perfetto_event_type { SLICE_BEGIN = 1, SLICE_END = 2, INSTANT = 3 };
enum perfetto_annotation {
    ANNOTATION_NAME_ID = 1,
    ANNOTATION_BOOL = 2,
    ANNOTATION_UINT = 3,
    ANNOTATION_INT = 4,
    ANNOTATION_DOUBLE = 5,
    ANNOTATION_STRING = 6,
};

/* One graph on its way out. Names go out once, before their first use. */
typedef struct orr_perfetto {
    const orr_graph *graph;
    orr_output *out;
    orr_arena *arena;
    uint32_t index; /* of the graph in the set; its sequence id is one more */
    uint32_t rank;
    bool several;        /* ranks in one file */
    int64_t shift_ns;    /* to the time stamps of the file */
    bool *named;         /* shape (S): interned as the name of an event       */
    bool *keyed;         /* shape (S): interned as the name of an annotation  */
    bool started;        /* the sequence has its first packet                 */
    uint32_t categories; /* bit k: category of kind k is interned           */
    uint64_t n_tracks;   /* handed out in this graph */
    orr_edges next;      /* who waits for whom: arrows */
    orr_proto_buffer packet;
} orr_perfetto;

/* Number of a new track. */
uint64_t orr_perfetto_track(orr_perfetto *p);

/* A process and, as its child, a thread or stream. */
void orr_perfetto_describe_lane(orr_perfetto *p, uint32_t lane, uint64_t process_track,
                                bool new_process, uint64_t track);
/* One more row for what overlaps in a lane. */
void orr_perfetto_describe_row(orr_perfetto *p, uint64_t parent, uint64_t track);

/* A node begins (or is an instant), a node ends. */
void orr_perfetto_begin(orr_perfetto *p, orr_node_id node, uint64_t track);
void orr_perfetto_end(orr_perfetto *p, int64_t at_ns, uint64_t track);

#endif /* ORR_TRACE_PERFETTO_WRITER_H */
