/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_PART_H
#define ORR_GRAPH_PART_H

#include "graph/builder.h"

/* Fills an empty builder with the kept nodes of a graph, in their order, with what they are and
 * have; with lanes that they run in, all groups, and the strings under the same numbers. What is
 * true of the whole recording is copied, too, but for its attributes.
 *
 * Of dependencies on nodes that are left out remains what bridge.h says. Such a dependency is of
 * the kind that led to it where that is still true, else DATA from an end and CONTROL from a start.
 * A dropped point that becomes a node keeps name, lane and moment; it is METADATA of a thread, or
 * SYNC on a stream. `keep`: shape (N). Errors: LIMIT, NO_MEMORY. */
orr_status orr_graph_part(const orr_graph *graph, const uint8_t *keep, orr_graph_builder *builder,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_GRAPH_PART_H */
