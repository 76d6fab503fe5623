/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_POLLERS_H
#define ORR_GRAPH_POLLERS_H

#include <orrery/graph.h>

/* Threads that only poll, as NCCL's watchdog, which asks every 100 ms whether its events are done.
 * They hand nothing over and nobody waits for them, so that neither a path nor a span rests on
 * them. */

/* Does a call of this name ask whether work is done, without waiting for it? */
bool orr_is_query(const char *name);

/* Does a call of this name return when work of a device is done? */
bool orr_is_synchronisation(const char *name);

/* Does the thread ask at least once, and otherwise only call what neither starts work nor waits? */
bool orr_lane_only_polls(const orr_graph *graph, orr_lane_id lane);

/* The same for each lane: shape (L), in the arena; NULL: out of memory. */
const bool *orr_lanes_that_poll(const orr_graph *graph, orr_arena *arena);

#endif /* ORR_GRAPH_POLLERS_H */
