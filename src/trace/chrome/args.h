/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHROME_ARGS_H
#define ORR_TRACE_CHROME_ARGS_H

#include <orrery/graph.h>

#include "io/json/writer.h"

/* The arguments of a node's event, as an object: its columns under Kineto's names, so that our
 * own reader finds them again, then its attributes. */
void orr_chrome_write_args(orr_json_writer *w, const orr_graph *graph, orr_node_id node);

/* An attribute's value as JSON. Bytes that have no place in JSON are null. */
void orr_chrome_write_attr(orr_json_writer *w, const orr_graph *graph, const orr_attr *attr);

#endif /* ORR_TRACE_CHROME_ARGS_H */
