/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_EMITTER_H
#define ORR_MODEL_STEP_EMITTER_H

#include "base/array.h"
#include "model/step/step_graph.h"

/* A stage while it is laid out: what the files step_*.c write with. */

/* Streams of a device. Sends and receives have one for each neighbour and direction of the pass, so
 * that each is in the order of its sender. */
typedef enum orr_step_lane {
    ORR_STEP_COMPUTE,
    ORR_STEP_TP,
    ORR_STEP_CP,
    ORR_STEP_EP,
    ORR_STEP_DP,
    ORR_STEP_REPLICA,
    ORR_STEP_OUT,
    ORR_STEP_IN,   /* copies to the host, and from it */
    ORR_STEP_SEND, /* 4: forward or backward, to the next stage or the one before */
    ORR_STEP_RECV = ORR_STEP_SEND + 4,
    ORR_STEP_LANES = ORR_STEP_RECV + 4
} orr_step_lane;

/* Elements of weights or gradients. */
typedef struct orr_parameter_elements {
    int64_t dense, expert;
} orr_parameter_elements;
/* Turns of a chunk that differ from the others: before the first of them, and after the last. */
typedef struct orr_chunk_slots {
    uint32_t first_forward, last_gradient; /* slots of the schedule; ORR_NONE */
} orr_chunk_slots;

/* A stage in the making. The first failure stays in `status`, and nothing is written after it. */
typedef struct orr_stage_emitter {
    const orr_step_job *job;
    const orr_step_target *who;
    uint32_t stage;
    orr_arena *scratch;
    orr_graph_builder *b;
    orr_status status;
    orr_error *err;
    uint16_t lane[ORR_STEP_LANES];    /* UINT16_MAX: not used yet */
    orr_node_id last[ORR_STEP_LANES]; /* or ORR_NONE */
    uint32_t ordinal[ORR_STEP_GROUPINGS];
    orr_group_id group[ORR_STEP_GROUPINGS]; /* of the graph; ORR_NONE: not used yet */
    orr_array(orr_node_id) waits;           /* of what is computed next */
    orr_array(int64_t) duration_ns;
    orr_array(uint8_t) basis, axis;
    orr_array(orr_step_node) nodes;
    orr_array(orr_rendezvous_id) rendezvous;
    orr_node_id *recv_of;          /* shape (2 x virtual stages x micro-batches); ORR_NONE: none */
    orr_chunk_slots *chunks;       /* shape (chunks) */
    orr_parameter_elements *heads; /* shape (row->n): what is gathered from this place on, and */
    orr_node_id *gather_of;        /* shape (row->n): by whom, for a first forward slot; ORR_NONE */
    orr_step_node now;             /* phase, chunk and micro-batch of the nodes that are written */
    orr_node_id last_slot, before_last_slot; /* what they computed last; ORR_NONE */
    int64_t open_ns;                         /* computation that is not written yet, and merges */
    int64_t open_most_ns;
    uint8_t open_basis; /* of its longest piece */
    bool open;
    char title[48];             /* of the node that it becomes */
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
/* ns of computation: merged with what is open. */
void orr_stage_emit_compute(orr_stage_emitter *l, int64_t ns, uint8_t basis);
/* The same, of another part of the waterfall than computation; in the finest detail a node. */
void orr_stage_emit_waterfall_part(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                   int64_t ns, uint8_t basis);
/* What is open becomes a node. The last node that computes; ORR_NONE: none yet. */
orr_node_id orr_stage_emit_flush(orr_stage_emitter *l);
/* What is computed from here on waits for the node too. */
void orr_stage_emit_wait(orr_stage_emitter *l, orr_node_id node);
/* A node of a lane; nothing is open. It waits for the last of its lane. */
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
/* A node that computes: waits for all that l->waits holds, and empties it. */
orr_node_id orr_stage_emit_compute_node(orr_stage_emitter *l, const char *name, orr_waterfall part,
                                        int64_t ns, uint8_t basis);
/* A transfer along an axis, on a lane, after `after` (or ORR_NONE) and the last of its lane. */
typedef struct orr_emitted_transfer {
    uint32_t grouping; /* orr_axis, or ORR_STEP_MIRROR, ORR_STEP_WORLD */
    orr_collective collective;
    orr_step_lane lane;
    int64_t bytes; /* as orr_collective_price() takes them */
    orr_price price;
    int32_t peer;     /* of a send or recv: rank in the group; else -1 */
    uint32_t ordinal; /* ORR_NONE: the next of the grouping  */
} orr_emitted_transfer;
orr_node_id orr_stage_emit_transfer(orr_stage_emitter *l, const orr_emitted_transfer *transfer,
                                    orr_node_id after);
/* The same after all that was computed, and that computation would wait for, so far. */
orr_node_id orr_stage_emit_transfer_in_order(orr_stage_emitter *l,
                                             const orr_emitted_transfer *transfer);
/* Which stream transfers along an axis belong to. */
orr_step_lane orr_axis_lane(uint32_t grouping);
/* A transfer that computation waits for: a node of its own, or merged into what is open. */
void orr_stage_emit_blocking_collective(orr_stage_emitter *l, orr_axis axis,
                                        orr_collective collective, int64_t bytes);

/* Parts of a step, in order. */
void orr_stage_emit_posted_receives(orr_stage_emitter *l);
void orr_stage_emit_initial_gathers(
    orr_stage_emitter *l); /* weights that the last step's optimizer left in shards */
void orr_stage_emit_slots(orr_stage_emitter *l);
void orr_stage_emit_optimizer(orr_stage_emitter *l); /* what gradients still lack; optimizer */

/* Weights and gradients (step_shards.c). */
/* Of a weight or a gradient kept so. fp8 and fp4 are made of 16-bit weights when they are used. */
static inline double orr_precision_element_bytes(uint8_t precision)
{
    return precision == ORR_PRECISION_FP32 || precision == ORR_PRECISION_TF32 ? 4 : 2;
}
/* Are gradients reduced after each micro-batch, weights gathered for each? */
bool orr_stage_reduces_per_micro_batch(const orr_stage_emitter *l);
bool orr_stage_gathers_per_micro_batch(const orr_stage_emitter *l);
/* Do so many gradients fill a bucket? */
bool orr_stage_fills_bucket(const orr_stage_emitter *l, const orr_parameter_elements *gradients);
/* Gradients set out, after all that is computed so far. `last`: no more will be added to them. */
void orr_stage_emit_gradient_reduction(orr_stage_emitter *l,
                                       const orr_parameter_elements *gradients, bool last);
/* Weights are gathered after all that was computed so far, or `at_once`. The last transfer, or
 * ORR_NONE. */
orr_node_id orr_stage_emit_weight_gather(orr_stage_emitter *l,
                                         const orr_parameter_elements *weights, bool at_once);
/* Computation waits for that. */
void orr_stage_emit_wait_for_gather(orr_stage_emitter *l, const orr_parameter_elements *weights,
                                    orr_node_id gather);
/* Computation spends what it loses to the transfers that set out so far: before a slot, so that
 * what the slot before it sends is not held up. */
void orr_stage_emit_exposed_transfers(orr_stage_emitter *l);
/* Sends what a slot made; gives what a slot needs. */
void orr_stage_emit_receive(orr_stage_emitter *l, const orr_schedule_slot *slot);
void orr_stage_emit_send(orr_stage_emitter *l, const orr_schedule_slot *slot);
/* The calls of one or two sequences of modules, node by node. `modules`: shape (n)(phases of each).
 * */
void orr_stage_emit_operators(orr_stage_emitter *l, const orr_phase_sequence *sequences, uint32_t n,
                              const orr_module *const *const *modules);
/* Bytes to the host or from it, after `after` (or ORR_NONE). */
orr_node_id orr_stage_emit_host_copy(orr_stage_emitter *l, orr_step_lane lane, int64_t bytes,
                                     orr_waterfall part, orr_node_id after);

/* Module of a place of virtual stage k, as it is recomputed there. */
uint32_t orr_step_module_at(const orr_step_job *job, uint32_t k, uint32_t place);

#endif /* ORR_MODEL_STEP_EMITTER_H */
