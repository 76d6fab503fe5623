/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_NODE_H
#define ORR_TRACE_CHAKRA_NODE_H

#include "trace/chakra/chakra.h"
#include "trace/common/idmap.h"
#include "trace/comm/process_groups.h"
#include "trace/common/reader.h"
#include "trace/common/tensors.h"

/* The nodes of a Chakra file, protobuf or JSON, on their way into the builder.
 * Dependencies name ids that may come later, so they wait in `waiting` until the
 * last node is there. Zero-initialised but for `builder`. */
typedef struct orr_chakra_dep {
    uint64_t on; /* id in the file; of LAUNCH the node */
    orr_node_id node;
    uint8_t kind; /* orr_dep_kind: CONTROL, DATA, or LAUNCH where two correlations are equal */
} orr_chakra_dep;

/* A dependency or a nesting as it was in the graph that was written; see recorded.h. */
typedef struct orr_chakra_recorded_dep {
    uint64_t on; /* id in the file */
    orr_node_id node;
    uint8_t kind; /* orr_dep_kind, or ORR_CHAKRA_PARENT */
} orr_chakra_recorded_dep;
enum { ORR_CHAKRA_PARENT = UINT8_MAX };

/* What restores the graph that a file was written of. */
typedef struct orr_chakra_recorded {
    bool restores;
    uint64_t digest;                         /* of the dependencies of the file */
    int64_t io_form;                         /* ORR_IO_FORM_... */
    orr_array(orr_lane_id) lanes;            /* of the builder, by number in the file */
    orr_array(uint32_t) order;               /* shape (N): number of a node in that graph */
    orr_array(int64_t) self_ns;              /* shape (N): duration without what is nested */
    orr_array(orr_chakra_recorded_dep) deps; /* by node */
    orr_array(orr_node_id) nested;           /* host nodes that name no parent */
    orr_found_tensors tensors;               /* of the current node */
    orr_array(char) text;
} orr_chakra_recorded;

typedef struct orr_chakra_nodes {
    orr_graph_builder *builder;
    int64_t pid;
    orr_idmap ids;       /* id in the file -> node */
    orr_idmap calls;     /* correlation of a host node -> node */
    int64_t launched_by; /* correlation of the last node, if it is of a device; or 0 */
    orr_process_groups groups;
    orr_array(orr_chakra_dep) waiting;
    orr_chakra_recorded recorded;
} orr_chakra_nodes;

typedef struct orr_chakra_node {
    uint64_t id;
    orr_str name;
    int32_t type;
    uint64_t start_us, duration_us;
} orr_chakra_node;

void orr_chakra_nodes_done(orr_chakra_nodes *nodes);

/* Rank, pid, process groups... of the recording, from its attributes. */
orr_status orr_chakra_recording(orr_chakra_nodes *nodes, const orr_chakra_attrs *attrs,
                                orr_error *err) ORR_MUST_CHECK;

/* Columns, attributes and communication of one node. Attributes that only a
 * rewriting needs are put behind those in `attrs`.
 * Errors: INVALID: an id that was there, a time over 2^63 ns. */
orr_status orr_chakra_node_add(orr_chakra_nodes *nodes, const orr_chakra_node *node,
                               orr_chakra_attrs *attrs, orr_error *err) ORR_MUST_CHECK;

/* Is start or duration too long? Errors: INVALID. */
orr_status orr_chakra_check_times(const orr_chakra_node *node, orr_error *err) ORR_MUST_CHECK;
/* The kind that type and attributes say; the lane. */
orr_node_kind orr_chakra_node_kind(const orr_graph_builder *builder, int32_t type,
                                   const orr_chakra_attr_values *facts);
orr_status orr_chakra_set_lane(const orr_chakra_nodes *nodes, const orr_chakra_attr_values *facts,
                               orr_node *ret, orr_error *err) ORR_MUST_CHECK;

/* The last node that was added waits for `on`: CONTROL before DATA. */
orr_status orr_chakra_dep_add(orr_chakra_nodes *nodes, uint64_t on, orr_dep_kind kind,
                              orr_error *err) ORR_MUST_CHECK;
/* All dependencies of the last node are there. If it is device work, and a host node before it has
 * its correlation, that one launched it. */
orr_status orr_chakra_deps_end(orr_chakra_nodes *nodes, orr_error *err) ORR_MUST_CHECK;
/* Notes the correlation of a node that was just added. */
orr_status orr_chakra_note_call(orr_chakra_nodes *nodes, bool host, int64_t correlation,
                                orr_error *err) ORR_MUST_CHECK;

/* All nodes are there: dependencies into the builder. A control dependency on a node that is not in
 * the file (Chakra's own converter makes such), or one that contradicts the data
 * dependencies (older converters; Chakra's feeder never looks at them), goes to the
 * attribute chakra.dangling in `recording` and is counted as ignored. A data dependency on a node
 * that is not there is an error, or, when tolerant, a counted fault. */
orr_status orr_chakra_nodes_finish(orr_chakra_nodes *nodes, orr_chakra_attrs *recording,
                                   bool tolerant, orr_read_report *report,
                                   orr_error *err) ORR_MUST_CHECK;

/* For each node a number that it shares with the nodes that it is in a cycle with. `on`: shape of
 * nodes->waiting, the node depended on or ORR_NONE. Free with orr_free(). */
orr_status orr_chakra_components(const orr_chakra_nodes *nodes, const uint32_t *on, uint32_t **ret,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_CHAKRA_NODE_H */
