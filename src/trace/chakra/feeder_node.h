/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_FEEDER_NODE_H
#define ORR_TRACE_CHAKRA_FEEDER_NODE_H

#include <orrery/feeder.h>

#include "base/array.h"
#include "io/stream/output.h"
#include "io/stream/stream.h"

/* Fields of the message into the node, whose texts point into it. False: broken. */
bool orr_feeder_node_parse(const uint8_t *message, size_t len, orr_feeder_node *ret);

/* The ids in field `field` of the message (ctrl_deps or data_deps), packed or one by one, one after
 * another. False at the end or where the list is broken. */
typedef struct orr_feeder_deps {
    const uint8_t *at, *end, *packed, *packed_end;
    uint32_t field;
    bool failed;
} orr_feeder_deps;
orr_feeder_deps orr_feeder_deps_of(const orr_feeder_node *node, uint32_t field);
bool orr_feeder_deps_next(orr_feeder_deps *deps, uint64_t *ret);

/* orr_feeder_attr() in a message whose attributes are field `field`. */
bool orr_feeder_find_attr(const orr_feeder_text *message, uint32_t field, const char *name,
                          uint32_t index, orr_feeder_value *ret);

/* A JSON workload (read_json.c) as the protobuf file that says the same, in memory; NULL in *ret:
 * the stream is none, and nothing of it was consumed. Errors: those of reading it. */
orr_status orr_feeder_convert_json(orr_stream *stream, orr_output **ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_CHAKRA_FEEDER_NODE_H */
