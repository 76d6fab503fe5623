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

#endif /* ORR_TRACE_COMMON_ATTR_NAMES_H */
