/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_COMMON_ATTR_NAMES_H
#define ORR_TRACE_COMMON_ATTR_NAMES_H

/* Names of the attributes that readers and writers of different formats share. Inputs and outputs
 * of an operator are text: from a PyTorch execution trace its JSON (kind JSON), from Chakra the
 * strings of its IOInfo (kind STRING, in Python's notation). */
#define ORR_NAME_INPUT_VALUES   "inputs.values"
#define ORR_NAME_INPUT_SHAPES   "inputs.shapes"
#define ORR_NAME_INPUT_TYPES    "inputs.types"
#define ORR_NAME_INPUT_STRIDES  "inputs.strides"
#define ORR_NAME_OUTPUT_VALUES  "outputs.values"
#define ORR_NAME_OUTPUT_SHAPES  "outputs.shapes"
#define ORR_NAME_OUTPUT_TYPES   "outputs.types"
#define ORR_NAME_OUTPUT_STRIDES "outputs.strides"

/* What a Chakra file holds beyond its attributes and our columns, so that it can be rewritten byte
 * for byte. An attribute of a file whose name has the prefix "inputs.", "outputs." or "chakra." is
 * kept as CHAKRA_ATTR. */
#define ORR_NAME_INPUT_EMPTY  "inputs.empty" /* NONE: an IOInfo without content */
#define ORR_NAME_OUTPUT_EMPTY "outputs.empty"
#define ORR_NAME_INPUT_MORE   "inputs.more" /* UNKNOWN: fields of a newer IOInfo             */
#define ORR_NAME_OUTPUT_MORE  "outputs.more"
#define ORR_NAME_CHAKRA_TYPE  "chakra.type"  /* INT32: node type, where `kind` does not say   */
#define ORR_NAME_CHAKRA_START "chakra.start" /* UINT64: start_time_micros, where ...          */
#define ORR_NAME_CHAKRA_DURATION                                                                   \
    "chakra.duration"                            /* ... or duration_micros is not the columns'     \
                                                  */
#define ORR_NAME_CHAKRA_MORE    "chakra.more"    /* UNKNOWN: fields of a newer Node or metadata   */
#define ORR_NAME_CHAKRA_ATTR    "chakra.attr"    /* UNKNOWN: a whole attribute                    */
#define ORR_NAME_CHAKRA_VERSION "chakra.version" /* STRING, of the recording                    */
/* UINT64 list, of the recording: for each control dependency that is not in the graph (on a node
 * that is not in the file, or against its data dependencies): node number, position in its
 * ctrl_deps, id there. */
#define ORR_NAME_CHAKRA_DANGLING "chakra.dangling"

/* What our own Chakra files carry beside Chakra's attributes; see chakra/lower.h. */
#define ORR_NAME_START_NS    "start_ns"    /* INT64, on the recording's clock                 */
#define ORR_NAME_DURATION_NS "duration_ns" /* INT64, with what is nested in it                */
#define ORR_NAME_SELF_NS     "self_ns"     /* INT64, the part that duration_micros holds      */
#define ORR_NAME_ON_HOST     "on_host"     /* BOOL: a communication of a host thread             */
#define ORR_NAME_KIND        "node_kind"   /* STRING, orr_node_kind_name()                    */

/* What a part of a recording says of itself; see orrery/trace.h. */
#define ORR_NAME_SAMPLED_RANKS "sampled_ranks" /* UINT32 list, of the recording */
#define ORR_NAME_PART          "part"          /* STRING, of the recording      */

/* STRING: which of comm_type, comm_size and pg_name the recording does not say. */
#define ORR_NAME_COMM_ASSUMED "comm_assumed"

/* From here on: what restores the graph that was written; see chakra/recorded.h. */
#define ORR_NAME_RECORDED_FORM "recorded_form" /* INT64, of the recording: 1               */
#define ORR_NAME_DEPS_DIGEST   "deps_digest"   /* FIXED64, of the recording                */
#define ORR_NAME_SOURCE        "source"        /* STRING, of the recording                 */
#define ORR_NAME_LANE_PROCESS  "lane_process"  /* STRINGs, of the recording: of the lane ... */
#define ORR_NAME_LANE_NAME     "lane_name"     /* ... that stands before                    */
#define ORR_NAME_IO_FORM       "io_form"       /* INT64, of the recording: ORR_IO_FORM_... */
#define ORR_NAME_ORDER         "order"         /* INT64: number of the node in the graph   */
#define ORR_NAME_LANE                                                                              \
    "lane" /* INT64: number of its lane; of the recording: SINT64 lists, a lane each */
#define ORR_NAME_PARENT      "parent"         /* INT64: id of what it is nested in, or 0  */
#define ORR_NAME_CRITICAL    "critical"       /* BOOL: marked as on the critical path     */
#define ORR_NAME_COMM        "comm"           /* SINT64 list: the row of comms            */
#define ORR_NAME_BANDWIDTH   "bandwidth"      /* DOUBLE, bytes a second, of a copy        */
#define ORR_NAME_MEMORY      "memory"         /* SINT64 list: the row of memories         */
#define ORR_NAME_RECORDED    "recorded"       /* any: an attribute whose name is in `doc` */
#define ORR_NAME_RECORDED_IO "recorded_io"    /* ... that stands in inputs or outputs too   */
#define ORR_NAME_IN_SPLITS   "comm_in_splits" /* STRING */
#define ORR_NAME_OUT_SPLITS  "comm_out_splits"

#endif /* ORR_TRACE_COMMON_ATTR_NAMES_H */
