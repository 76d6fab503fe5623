/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/host/recording_costs.h"

const char *orr_recording_cost_name(orr_recording_cost_kind kind)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_RECORDING_COST_MAP(NAME_)
#undef NAME_
    };
    return (unsigned)kind < ORR_RECORDING_COSTS ? names[kind] : "unknown";
}

static int64_t fact(const orr_graph *g, const char *name, int64_t otherwise)
{
    orr_attr attr;
    int64_t value;
    return orr_graph_find_attr(g, ORR_NONE, name, &attr) && orr_attr_int(&attr, &value) ? value
                                                                                        : otherwise;
}

int64_t orr_recording_bare_step_ns(const orr_graph *graph)
{
    return fact(graph, "bare_step_ns", -1);
}

/* Tensors are in execution traces alone: a recording that has them was linked to one. pairs.py
 * notes the observer in the Kineto trace itself. */
orr_recorder orr_recorder_of(const orr_graph *graph)
{
    return (orr_recorder){.shapes = fact(graph, "record_shapes", 0) > 0,
                          .stack = fact(graph, "with_stack", 0) > 0,
                          .trace = graph->n_tensors > 0 || fact(graph, "execution_trace", 0) > 0};
}

uint32_t orr_recording_cost_kinds(const orr_graph *graph, orr_recorder recorder, orr_node_id node)
{
    const bool on_thread = graph->lanes[graph->lane[node]].kind == ORR_LANE_HOST;
    if (!on_thread || graph->start_ns[node] == ORR_TIME_NONE)
        return 0;
    switch ((orr_node_kind)graph->kind[node]) {
    case ORR_NODE_HOST_OP:
        return 1u << ORR_RECORDING_COST_EVENT |
               (recorder.trace ? 1u << ORR_RECORDING_COST_TRACE : 0) |
               (recorder.shapes ? 1u << ORR_RECORDING_COST_SHAPES : 0) |
               (recorder.stack ? 1u << ORR_RECORDING_COST_STACK : 0);
    case ORR_NODE_ANNOTATION:
        return 1u << ORR_RECORDING_COST_EVENT |
               (recorder.trace ? 1u << ORR_RECORDING_COST_TRACE : 0);
    case ORR_NODE_PYTHON:
        return 1u << ORR_RECORDING_COST_PYTHON;
    case ORR_NODE_MEMORY:
        return 1u << ORR_RECORDING_COST_MEMORY;
    case ORR_NODE_RUNTIME:
        return 1u << ORR_RECORDING_COST_CALL;
    default:
        return 0;
    }
}

double orr_recording_cost_ns(const orr_recording_costs *costs, const orr_graph *graph,
                             orr_recorder recorder, orr_node_id node)
{
    const uint32_t kinds = orr_recording_cost_kinds(graph, recorder, node);
    double ns = 0;
    for (int k = 0; k < ORR_RECORDING_COSTS; k++)
        if (kinds >> k & 1)
            ns += costs->ns[k];
    return ns;
}

void orr_recording_costs_count(const orr_graph *graph, double ret_events[ORR_RECORDING_COSTS])
{
    const orr_recorder recorder = orr_recorder_of(graph);
    for (int k = 0; k < ORR_RECORDING_COSTS; k++)
        ret_events[k] = 0;
    for (orr_node_id v = 0; v < graph->n_nodes; v++) {
        const uint32_t kinds = orr_recording_cost_kinds(graph, recorder, v);
        for (int k = 0; k < ORR_RECORDING_COSTS; k++)
            ret_events[k] += kinds >> k & 1;
    }
}

/* Source: the pairs of examples/pairs, of PyTorch 2.15 on a virtual core of an AMD EPYC (family 25,
 * model 17). The cost of shapes and of stacks is within the error of that of events and functions;
 * behind an execution trace, which has shapes, it is part of that cost. */
#define EVENT  [ORR_RECORDING_COST_EVENT]
#define TRACE  [ORR_RECORDING_COST_TRACE]
#define PYTHON [ORR_RECORDING_COST_PYTHON]
static const orr_recording_costs DEFAULT = {
    .ns = {EVENT = 231.3, TRACE = 9969.7, PYTHON = 435.0},
    .covariance = {EVENT = {EVENT = 2008, TRACE = -2008, PYTHON = -2048},
                   TRACE = {EVENT = -2008, TRACE = 115420, PYTHON = 2048},
                   PYTHON = {EVENT = -2048, TRACE = 2048, PYTHON = 11185}},
    .seen = {EVENT = true, TRACE = true,
             PYTHON = true, [ORR_RECORDING_COST_SHAPES] = true, [ORR_RECORDING_COST_STACK] = true},
    .noise_frac = 0.041835,
    .n_pairs = 12,
};

const orr_recording_costs *orr_recording_costs_default(void)
{
    return &DEFAULT;
}
