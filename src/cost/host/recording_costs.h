/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_HOST_RECORDING_COSTS_H
#define ORR_COST_HOST_RECORDING_COSTS_H

#include <orrery/cost.h>

/* What was recorded, as the recording's own facts have it. */
typedef struct orr_recorder {
    bool shapes, stack, trace;
} orr_recorder;
orr_recorder orr_recorder_of(const orr_graph *graph);
/* The kinds of costs of a node, as bits 1 << orr_recording_cost_kind. */
uint32_t orr_recording_cost_kinds(const orr_graph *graph, orr_recorder recorder, orr_node_id node);
/* Nanoseconds that recording the node took of its thread. */
double orr_recording_cost_ns(const orr_recording_costs *costs, const orr_graph *graph,
                             orr_recorder recorder, orr_node_id node);

#endif /* ORR_COST_HOST_RECORDING_COSTS_H */
