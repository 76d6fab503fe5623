/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_EXPORT_H
#define ORR_TRACE_CHAKRA_EXPORT_H

#include "trace/chakra/chakra.h"
#include "trace/chakra/lower.h"

/* State of the writer, shared by export.c and export_attrs.c. */
typedef struct orr_chakra_writer {
    const orr_graph *graph;
    orr_chakra_sink *sink;
    orr_chakra_lowering plan;
    uint8_t *role;   /* shape (S): of a string as the name of an attribute */
    int64_t io_form; /* ORR_IO_FORM_... */
    orr_proto_buffer message, text;
} orr_chakra_writer;

/* Start on the recording's clock; 0 where it is not recorded. */
int64_t orr_chakra_absolute_ns(const orr_chakra_writer *w, orr_node_id node);

/* Fields inputs, outputs and attr of the node, into the message. */
void orr_chakra_put_details(orr_chakra_writer *w, orr_node_id node);

/* What restores the graph, see recorded.h: attributes of the metadata; of a node. */
void orr_chakra_find_io_form(orr_chakra_writer *w);
void orr_chakra_put_recording(orr_chakra_writer *w);
void orr_chakra_put_recorded(orr_chakra_writer *w, orr_node_id node);

#endif /* ORR_TRACE_CHAKRA_EXPORT_H */
