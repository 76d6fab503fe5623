/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_EMITTER_H
#define ORR_MODEL_STEP_EMITTER_H

#include "base/array.h"
#include "model/plan/plan.h"
#include "model/step/step_graph.h"

/* The emitter: writes the schedule slots of one stage as nodes, lanes and dependencies of an
 * execution graph. The files emit_*.c use it. */

/* Streams of a device. Sends and receives have one stream for each neighbour and direction of
 * the pass, so that each stream has the order of its sender. */
typedef enum orr_step_lane {
    ORR_STEP_COMPUTE,
    ORR_STEP_TP,
    ORR_STEP_CP,
    ORR_STEP_EP,
    ORR_STEP_DP,
    ORR_STEP_REPLICA,
    ORR_STEP_OUT,
    ORR_STEP_IN,   /* copies to the host; copies from it */
    ORR_STEP_SEND, /* 4: forward or backward, to the next stage or the previous one */
    ORR_STEP_RECV = ORR_STEP_SEND + 4,
    ORR_STEP_FETCH = ORR_STEP_RECV + 4, /* rows of tables, from storage and back */
    ORR_STEP_LANES
} orr_step_lane;

/* Elements of weights or gradients, by who holds the same ones. */
typedef struct orr_parameter_elements {
    int64_t dense, expert;
} orr_parameter_elements;
/* Slots of a chunk with extra work: before the first of them, and after the last. */
typedef struct orr_chunk_slots {
    uint32_t first_forward, last_gradient; /* slots of the schedule; or ORR_NONE */
} orr_chunk_slots;

/* State of the emitter. The first failure is kept in `status`; after it nothing is emitted. */
typedef struct orr_stage_emitter {
    const orr_step_job *job;
    const orr_step_target *who;
    uint32_t stage;
    orr_arena *scratch;
    orr_graph_builder *b;
    orr_status status;
    orr_error *err;
    orr_node_id fetched_ahead;        /* last fetch that nothing waits for yet; or ORR_NONE */
    uint16_t lane[ORR_STEP_LANES];    /* UINT16_MAX: no node yet */
    orr_node_id last[ORR_STEP_LANES]; /* last node of each lane, or ORR_NONE */
    uint32_t ordinal[ORR_STEP_GROUPINGS];
    orr_group_id group[ORR_STEP_GROUPINGS]; /* group of the graph; ORR_NONE: no node yet */
    orr_array(orr_node_id) waits;           /* dependencies of the next computation */
    orr_array(int64_t) duration_ns;
    orr_array(uint8_t) basis, axis;
    orr_array(orr_step_node) nodes;
    orr_array(orr_rendezvous_id) rendezvous;
    orr_node_id *recv_of;          /* shape (2 x virtual stages x micro-batches): receive nodes;
                                    * or ORR_NONE */
    orr_chunk_slots *chunks;       /* shape (chunks) */
    orr_parameter_elements *heads; /* shape (row->n): elements that one gather brings, at its
                                    * first place */
    orr_node_id *gather_of;        /* shape (row->n): node of that gather, for a first forward
                                    * slot; or ORR_NONE */
    orr_step_node now;             /* phase, chunk and micro-batch of the nodes that are emitted */
    orr_node_id last_slot, before_last_slot; /* last computation of the last slot and of the one
                                              * before; or ORR_NONE */
    int64_t open_ns;                         /* open computation: not emitted yet, still merging */
    int64_t open_most_ns;
    uint8_t open_basis; /* basis of its longest part */
    bool open;
    char title[48];             /* title of the node that it becomes */
    int64_t exposed_pending_ns; /* see orr_stage_emit_exposed_transfers() */
    uint8_t exposed_pending_basis;
    orr_step_totals totals;
} orr_stage_emitter;

static inline bool orr_stage_emit_ok(const orr_stage_emitter *l)
{
    return l->status == ORR_OK;
}
static inline bool orr_stage_emit_per_operator(const orr_stage_emitter *l)
{
    return l->job->detail == ORR_DETAIL_OPERATOR;
}
/* Adds ns of computation, merged with what is open. */
void orr_stage_emit_compute(orr_stage_emitter *l, int64_t ns, uint8_t basis);
/* The same for another part of the waterfall than computation; in the finest detail a node of
 * its own. */
void orr_stage_emit_waterfall_part(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                   int64_t ns, uint8_t basis);
/* Emits open computation as a node. Returns the last node of computation; ORR_NONE: none yet. */
orr_node_id orr_stage_emit_flush(orr_stage_emitter *l);
/* The next computation will wait for the node too. */
void orr_stage_emit_wait(orr_stage_emitter *l, orr_node_id node);
/* A node on a lane, after the last node of that lane. No computation may be open. */
typedef struct orr_emitted_node {
    const char *name;
    orr_node_kind kind;
    orr_step_lane lane;
    orr_waterfall part;
    uint8_t basis;
    int64_t ns;
} orr_emitted_node;
orr_node_id orr_stage_emit_node(orr_stage_emitter *l, const orr_emitted_node *node);
void orr_stage_emit_dependency(orr_stage_emitter *l, orr_node_id node, orr_node_id on);
/* A computation node; it depends on all of l->waits, which it empties. */
orr_node_id orr_stage_emit_compute_node(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                        int64_t ns, uint8_t basis);
/* A transfer along an axis, on a lane, after `after` (or ORR_NONE) and the last node of the
 * lane. */
typedef struct orr_emitted_transfer {
    uint32_t grouping; /* orr_axis, or ORR_STEP_MIRROR, ORR_STEP_WORLD */
    orr_collective collective;
    orr_step_lane lane;
    int64_t bytes; /* as for orr_collective_price() */
    orr_price price;
    int32_t peer;     /* of a send or receive: index in the group; else -1 */
    uint32_t ordinal; /* ORR_NONE: the next of the grouping */
} orr_emitted_transfer;
orr_node_id orr_stage_emit_transfer(orr_stage_emitter *l, const orr_emitted_transfer *transfer,
                                    orr_node_id after);
/* The same, after everything that was computed so far and that computation waits for. */
orr_node_id orr_stage_emit_transfer_in_order(orr_stage_emitter *l,
                                             const orr_emitted_transfer *transfer);
/* The stream of transfers along an axis. */
orr_step_lane orr_axis_lane(uint32_t grouping);
/* A transfer that computation waits for: a node of its own, or merged into open computation. */
void orr_stage_emit_blocking_collective(orr_stage_emitter *l, orr_axis axis,
                                        orr_collective collective, int64_t bytes);

/* Parts of a step, in order. */
void orr_stage_emit_posted_receives(orr_stage_emitter *l);
/* Gathers of weights that the last step's optimizer left sharded. */
void orr_stage_emit_initial_gathers(orr_stage_emitter *l);
void orr_stage_emit_slots(orr_stage_emitter *l);
/* Remaining gradient reductions, and the optimizer. */
void orr_stage_emit_optimizer(orr_stage_emitter *l);

/* Weights and gradients (emit_data_parallel.c). */
/* Are gradients reduced after each micro-batch? Are weights gathered for each? */
bool orr_stage_reduces_in_slots(const orr_stage_emitter *l);
bool orr_stage_gathers_in_slots(const orr_stage_emitter *l);
/* Do these gradients fill a bucket? */
bool orr_stage_fills_bucket(const orr_stage_emitter *l, const orr_parameter_elements *gradients);
/* Starts a gradient reduction, after all that is computed so far. `last`: no more gradients will
 * be added to these. */
void orr_stage_emit_gradient_reduction(orr_stage_emitter *l,
                                       const orr_parameter_elements *gradients, bool last);
/* Starts a gather of weights, after all that was computed so far, or without waiting
 * (`at_once`). Returns the last transfer, or ORR_NONE. */
orr_node_id orr_stage_emit_weight_gather(orr_stage_emitter *l,
                                         const orr_parameter_elements *weights, bool at_once);
/* The next computation waits for the gather. */
void orr_stage_emit_wait_for_gather(orr_stage_emitter *l, const orr_parameter_elements *weights,
                                    orr_node_id gather);
/* Charges computation with the slowdown by the transfers that were started so far: before a
 * slot, so that the sends of the slot before it are not delayed. */
void orr_stage_emit_exposed_transfers(orr_stage_emitter *l);
/* Sends the result of a slot; receives the input of a slot. */
void orr_stage_emit_receive(orr_stage_emitter *l, const orr_schedule_slot *slot);
void orr_stage_emit_send(orr_stage_emitter *l, const orr_schedule_slot *slot);
/* Emits the calls of one or two sequences of modules as nodes. `modules`: shape (n)(phases of
 * each). */
void orr_stage_emit_operators(orr_stage_emitter *l, const orr_phase_sequence *sequences, uint32_t n,
                              const orr_module *const *const *modules);
/* Starts the fetch of a micro-batch's rows, if there is one; the end of the step waits for those of
 * later batches. */
void orr_stage_emit_fetch(orr_stage_emitter *l, const orr_tables_fetch *fetch);
void orr_stage_emit_wait_for_fetch(orr_stage_emitter *l);
/* A copy to the host or from it, after `after` (or ORR_NONE). */
orr_node_id orr_stage_emit_host_copy(orr_stage_emitter *l, orr_step_lane lane, int64_t bytes,
                                     orr_waterfall part, orr_node_id after);

#endif /* ORR_MODEL_STEP_EMITTER_H */
