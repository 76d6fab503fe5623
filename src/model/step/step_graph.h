/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_STEP_GRAPH_H
#define ORR_MODEL_STEP_STEP_GRAPH_H

#include <orrery/step.h>

#include "model/schedule/schedule.h"
#include "model/step/module_cost.h"

/* The step of one stage as an execution graph: the slots in schedule order, for one kind of
 * rank. */

/* Groupings of ranks that communicate, beside the axes. */
enum {
    ORR_STEP_MIRROR = ORR_AXES, /* DualPipe: a stage and its mirror, which hold the same two
                                 * parts of the model */
    ORR_STEP_WORLD,             /* all ranks */
    ORR_STEP_GROUPINGS
};
/* Ranks of ORR_STEP_WORLD: all; with local steps those of one outer part of dp. */
static inline uint32_t orr_step_world_size(const orr_plan *plan)
{
    const uint32_t parts = plan->local_steps > 1 && plan->dp_outer > 1 ? plan->dp_outer : 1;
    return (uint32_t)orr_plan_ranks(plan) / parts;
}
/* The part of the waterfall that transfers along a grouping belong to. */
orr_waterfall orr_axis_waterfall(uint32_t grouping);

/* A transfer between stages. `boundary`: between virtual stages k and k + 1. */
typedef struct orr_stage_transfer {
    uint32_t from, to; /* stages */
    uint32_t boundary, micro_batch;
    bool back; /* a gradient, on its way back */
} orr_stage_transfer;
/* All transfers by receiving stage; those of one sender and direction in the order in which it
 * sends. */
typedef struct orr_stage_transfers {
    const uint32_t *first; /* shape (stages + 1) */
    const orr_stage_transfer *at;
} orr_stage_transfers;

/* What all stages of a job have in common. */
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
    const orr_price *hops; /* shape (stages): price of a send from each stage to the next,
                            * cyclically */
    orr_price world;       /* of the gradient norm, over all ranks */
    orr_span mirror;
    double copy_bytes_per_s; /* to the host and back */
    orr_stage_transfers passes;
} orr_step_job;

/* Totals of a stage that its graph does not hold. */
typedef struct orr_step_totals {
    int64_t part_ns[ORR_WATERFALLS]; /* time within computation nodes, by part; none of IDEAL and
                                      * KERNELS */
    int64_t exposed_ns[ORR_AXES];    /* of it, by axis */
    int64_t busy_ns[ORR_AXES];
    double sent_bytes[ORR_AXES];
    double summed_bytes[ORR_AXES]; /* of these, gradients on their way to a reduction */
    double flops, again_flops;
} orr_step_totals;

/* The graph of a kind of rank. Shapes: N nodes, C communications. */
typedef struct orr_step_graph {
    const orr_graph *graph;        /* free with orr_graph_free() */
    orr_rendezvous_id *rendezvous; /* shape (C); grouping: orr_axis, or ORR_STEP_MIRROR, ... */
    const int64_t *duration_ns;    /* shape (N) */
    const uint8_t *basis;          /* shape (N) */
    const orr_step_node *nodes;    /* shape (N) */
    const uint8_t *axis;           /* shape (N): axis of a transfer; or ORR_AXIS_NONE */
    orr_step_totals totals;
} orr_step_graph;

/* The rank whose graph is emitted. */
typedef struct orr_step_target {
    uint32_t stage;
    uint32_t rank;                         /* a rank of the stage: its groups are listed */
    const int64_t *start_ns, *duration_ns; /* shape (N): measured times; NULL: not known */
    const uint32_t *group_names;           /* shape (ORR_STEP_GROUPINGS): numbers; NULL: by axis */
} orr_step_target;
/* Emits the graph of a stage. In the arena but for the graph itself. Errors: NO_MEMORY; LIMIT. */
orr_status orr_step_layout_stage(const orr_step_job *job, const orr_step_target *who,
                                 orr_arena *arena, orr_step_graph *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* The transfers between stages of a schedule; of forward slots alone where nothing is trained. */
orr_status orr_step_stage_transfers(const orr_schedule_plan *schedule, bool trains,
                                    orr_arena *arena, orr_stage_transfers *ret,
                                    orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_STEP_STEP_GRAPH_H */
