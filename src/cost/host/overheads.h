/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_HOST_OVERHEADS_H
#define ORR_COST_HOST_OVERHEADS_H

#include <orrery/cost.h>

#include "base/array.h"

/* One observed overhead, before means are taken. */
typedef struct orr_overhead_sample {
    uint8_t kind;  /* orr_overhead_kind          */
    uint32_t name; /* in the caller's strtab */
    double us;
} orr_overhead_sample;
typedef struct orr_overhead_samples {
    orr_array(orr_overhead_sample) rows;
    struct orr_strtab *names;
} orr_overhead_samples;

/* Appends the observations on the host threads of a graph: see overheads_samples.c. */
orr_status orr_overheads_collect(const orr_graph *graph, orr_overhead_samples *samples,
                                 orr_error *err) ORR_MUST_CHECK;
/* Is the node a top-level operator, or the annotation that PyTorch puts around an optimizer
 * step? Nodes that the autograd engine puts around each backward operator are skipped: the
 * model's operators are those inside (AddmmBackward, aten::sum,
 * torch::autograd::AccumulateGrad). */
bool orr_is_top_level_operator(const orr_graph *graph, orr_node_id node);
/* Is the call one that enqueues work: its work was recorded, or its name says so? */
bool orr_is_launch_call(const orr_graph *graph, orr_node_id node, bool launched);

#endif /* ORR_COST_HOST_OVERHEADS_H */
