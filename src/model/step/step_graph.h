/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_STEP_GRAPH_H
#define ORR_MODEL_STEP_STEP_GRAPH_H

#include <orrery/step.h>

#include "model/schedule/schedule.h"
#include "model/step/module_cost.h"

/* Laying out a step: the slots of one stage, in their order, as the execution graph of a kind of
 * rank. */

/* Who meets whom beside the groups of an axis. */
enum {
    ORR_STEP_MIRROR = ORR_AXES, /* DualPipe: two stages that hold the same two parts of the model */
    ORR_STEP_WORLD,             /* all ranks */
    ORR_STEP_GROUPINGS
};
/* Ranks that meet as ORR_STEP_WORLD: all; with local steps those of an outer part of dp. */
static inline uint32_t orr_step_world_size(const orr_plan *plan)
{
    const uint32_t parts = plan->local_steps > 1 && plan->dp_outer > 1 ? plan->dp_outer : 1;
    return (uint32_t)orr_plan_ranks(plan) / parts;
}
/* Which part of the waterfall transfers among them belong to. */
orr_waterfall orr_axis_waterfall(uint32_t grouping);

/* Where a micro-batch goes from stage to stage. `boundary`: of virtual stages k and k + 1. */
typedef struct orr_stage_transfer {
    uint32_t from, to; /* stages */
    uint32_t boundary, micro_batch;
    bool back; /* a gradient */
} orr_stage_transfer;
/* All of them by receiving stage; those of one sender and direction in its order. */
typedef struct orr_stage_transfers {
    const uint32_t *first; /* shape (stages + 1) */
    const orr_stage_transfer *at;
} orr_stage_transfers;

/* All that the stages of a job have in common. */
typedef struct orr_step_job {
    const orr_plan *plan; /* complete */
    uint8_t task, detail;
    const orr_module_sequence *row;
    const orr_stage_map *map; /* by virtual stage of the schedule */
    const orr_schedule_plan *schedule;
    const orr_module_cost *costs;      /* shape (row->n_modules) */
    const orr_module_weights *weights; /* shape (row->n_modules) */
    const int64_t *kept_bytes;         /* shape (row->n_modules): activations that are offloaded;
                                        * NULL: none */
    const orr_step_prices *prices;
    const orr_price *hops; /* shape (stages): a send from each to the next, all round */
    orr_price world;       /* of the gradients' norm, over all ranks */
    orr_span mirror;
    double copy_bytes_per_s; /* to the host and back */
    orr_stage_transfers passes;
} orr_step_job;

/* What a stage does that its graph alone does not tell. */
typedef struct orr_step_totals {
    int64_t part_ns[ORR_WATERFALLS]; /* inside of nodes that compute; none of IDEAL and KERNELS */
    int64_t exposed_ns[ORR_AXES];    /* of it, by axis */
    int64_t busy_ns[ORR_AXES];
    double sent_bytes[ORR_AXES];
    double summed_bytes[ORR_AXES]; /* of these, of gradients on their way into sums */
    double flops, again_flops;
} orr_step_totals;

/* The graph of a kind of rank. Shapes: N nodes, C communications. */
typedef struct orr_step_graph {
    const orr_graph *graph;        /* orr_graph_free() */
    orr_rendezvous_id *rendezvous; /* shape (C); grouping: orr_axis, or ORR_STEP_MIRROR, ... */
    const int64_t *duration_ns;    /* shape (N) */
    const uint8_t *basis;          /* shape (N) */
    const orr_step_node *nodes;    /* shape (N) */
    const uint8_t *axis;           /* shape (N): of a transfer; ORR_AXIS_NONE */
    orr_step_totals totals;
} orr_step_graph;

/* Whose graph it shall be. */
typedef struct orr_step_target {
    uint32_t stage;
    uint32_t rank; /* one of the stage: its groups are listed              */
    const int64_t *start_ns, *duration_ns; /* shape (N): when it ran; NULL: not known     */
    const uint32_t *group_names; /* shape (ORR_STEP_GROUPINGS): numbers; NULL: by axis     */
} orr_step_target;
/* In the arena but for the graph itself. Errors: NO_MEMORY; LIMIT. */
orr_status orr_step_layout_stage(const orr_step_job *job, const orr_step_target *who,
                                 orr_arena *arena, orr_step_graph *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Of forward slots alone, where nothing is trained. */
orr_status orr_step_stage_transfers(const orr_schedule_plan *schedule, bool trains,
                                    orr_arena *arena, orr_stage_transfers *ret,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_STEP_STEP_GRAPH_H */
