/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_CHAKRA_H
#define ORR_TRACE_CHAKRA_CHAKRA_H

#include <orrery/trace.h>

#include "base/array.h"
#include "io/stream/output.h"
#include "io/protobuf/wire.h"

/* Field numbers of Chakra's schema (mlcommons/chakra, et_def.proto of 1.0.0, unchanged since 0.0.4;
 * Sridharan et al., arXiv 2305.14516). A file is `varint(length) message` repeated: one
 * GlobalMetadata, then Nodes. */
enum orr_chakra_metadata_field { CHAKRA_METADATA_VERSION = 1, CHAKRA_METADATA_ATTR = 2 };

enum orr_chakra_node_field {
    CHAKRA_NODE_ID = 1,
    CHAKRA_NODE_NAME,
    CHAKRA_NODE_TYPE,
    CHAKRA_NODE_CTRL_DEPS,
    CHAKRA_NODE_DATA_DEPS,
    CHAKRA_NODE_START,
    CHAKRA_NODE_DURATION,
    CHAKRA_NODE_INPUTS,
    CHAKRA_NODE_OUTPUTS,
    CHAKRA_NODE_ATTR,
};

enum orr_chakra_io_field {
    CHAKRA_IO_VALUES = 1,
    CHAKRA_IO_SHAPES,
    CHAKRA_IO_TYPES,
    CHAKRA_IO_STRIDES
};

enum orr_chakra_attr_field { CHAKRA_ATTR_NAME = 1, CHAKRA_ATTR_DOC, CHAKRA_ATTR_FIRST_VALUE };

typedef enum orr_chakra_node_type {
    CHAKRA_INVALID,
    CHAKRA_METADATA,
    CHAKRA_MEM_LOAD,
    CHAKRA_MEM_STORE,
    CHAKRA_COMP,
    CHAKRA_COMM_SEND,
    CHAKRA_COMM_RECV,
    CHAKRA_COMM_COLL,
} orr_chakra_node_type;

/* CollectiveCommType <-> orr_collective. A number that Chakra does not have is
 * ORR_COLL_UNKNOWN; a collective that it does not have is -1. */
orr_collective orr_chakra_collective(int64_t comm_type);
int32_t orr_chakra_comm_type(orr_collective collective);

/* Attributes of one record on their way into the builder. Values live in `arena`. */
typedef struct orr_chakra_attrs {
    orr_arena *arena;
    orr_array(orr_attr) list;
} orr_chakra_attrs;

/* One AttributeProto -> an attribute at the end of the list. What has no place in orr_attr
 * (a newer kind, unknown fields, two values) becomes one of kind UNKNOWN under the
 * attribute's name. Errors: PARSE (without a position), NO_MEMORY, LIMIT. */
orr_status orr_chakra_attr_read(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                const uint8_t *bytes, size_t len, orr_error *err) ORR_MUST_CHECK;
/* Appends a text attribute of ours. */
orr_status orr_chakra_attr_text(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                const char *name, orr_attr_kind kind, const void *text, size_t len,
                                orr_error *err) ORR_MUST_CHECK;
/* Appends a numeric attribute of ours; `values` must outlive the call that adds them. */
orr_status orr_chakra_attr_numbers(orr_chakra_attrs *attrs, orr_graph_builder *builder,
                                   const char *name, orr_attr_kind kind, bool list,
                                   const void *values, uint32_t count,
                                   orr_error *err) ORR_MUST_CHECK;
/* Writes an attribute as field `field` of the message. */
void orr_chakra_attr_write(orr_proto_buffer *out, uint32_t field, const orr_graph *graph,
                           const orr_attr *attr);

/* The same for an attribute of a recording, whose kind and name stand in `doc`: as attribute
 * `name`; NULL: its own, and only the kind in `doc`. */
void orr_chakra_attr_write_as(orr_proto_buffer *out, uint32_t field, const orr_graph *graph,
                              const orr_attr *attr, const char *name);

/* That `doc`: "UINT64 Sequence number", or "UINT64". */
void orr_chakra_put_doc(orr_proto_buffer *out, const orr_graph *graph, const orr_attr *attr,
                        bool with_name);

/* A scalar attribute as an integer or a truth value, whatever its kind. False when it is neither
 * nor a text that holds one. */
bool orr_chakra_attr_int(const orr_graph_builder *builder, const orr_attr *attr, int64_t *ret);

/* Whether the name is reserved for us; see attr_names.h. */
bool orr_chakra_is_reserved(const char *name, size_t len);

/* What the attributes of a node say, as far as our columns have a place for it. */
typedef struct orr_chakra_attr_values {
    bool has_cpu_op, is_cpu_op, on_host;
    bool has_comm_type, has_start_ns, has_duration_ns, has_self_ns, has_tid, has_stream;
    int64_t comm_type, comm_size, comm_src, comm_dst, comm_tag; /* -1: not said */
    int64_t in_bytes, out_bytes, seq, root;                     /* -1: not said */
    int64_t tid, stream, start_ns, duration_ns, self_ns;
    int64_t rf_id, correlation, copy_bytes, critical; /* 0: not said */
    int64_t order, lane;                              /* -1: not said */
    bool has_parent;
    int64_t parent;
    orr_str pg_name, kind, dtype, in_splits, out_splits;
} orr_chakra_attr_values;

orr_chakra_attr_values orr_chakra_attr_values_of(const orr_graph_builder *builder,
                                                 const orr_attr *attrs, size_t n);

/* Microseconds as the file has them: rounded, half away from zero. */
int64_t orr_chakra_micros(int64_t ns);

/* Node type <-> kind. The kind of a type depends on where it ran. */
orr_node_kind orr_chakra_kind(int32_t type, bool is_cpu_op, bool is_comm);
orr_chakra_node_type orr_chakra_type_of(orr_node_kind kind);

/* Where messages go, and how: CHAKRA (varint(length) message), JSON or TEXT. */
typedef struct orr_chakra_sink {
    orr_output *out;
    orr_format form;
    bool has_metadata; /* the first message is written */
} orr_chakra_sink;

/* The two writers behind orr_chakra_write(): a graph that came from a Chakra file is rewritten byte
 * for byte, any other is exported (export.c). */
orr_status orr_chakra_rewrite(const orr_graph *graph, orr_chakra_sink *sink,
                              orr_error *err) ORR_MUST_CHECK;
orr_status orr_chakra_export(const orr_graph *graph, orr_chakra_sink *sink,
                             orr_error *err) ORR_MUST_CHECK;
/* The next message, in the sink's form. */
void orr_chakra_put_message(orr_chakra_sink *sink, const orr_proto_buffer *message);
/* For people and scripts: protobuf's JSON, or else its text format (print.c). */
void orr_chakra_print(orr_output *out, bool json, bool is_node, const orr_proto_buffer *message);

#endif /* ORR_TRACE_CHAKRA_CHAKRA_H */
