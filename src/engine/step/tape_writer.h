/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_TAPE_WRITER_H
#define ORR_ENGINE_STEP_TAPE_WRITER_H

#include "engine/step/step_state.h"

/* The writer of a step's tape: the schedule slots of a stage, each a copy of its modules' calls
 * with values of its own. The first error is kept in `status`, after which nothing is written. */

/* Lanes beside compute, communication and copies: one for sends and one for receives per neighbour,
 * in the sender's order. */
enum {
    ORR_STEP_LANE_CP = ORR_LANE_COPY + 1,
    ORR_STEP_LANE_EP,
    ORR_STEP_LANE_SEND, /* to the next stage; to the previous one */
    ORR_STEP_LANE_RECV = ORR_STEP_LANE_SEND + 2,
    ORR_STEP_LANES = ORR_STEP_LANE_RECV + 2,
    /* Of recommendation, which has no slices of context and no experts: */
    ORR_STEP_LANE_READ = ORR_LANE_COPY,
    ORR_STEP_LANE_IDS = ORR_STEP_LANE_CP,
    ORR_STEP_LANE_FETCH = ORR_STEP_LANE_EP
};

typedef struct orr_step_receive {
    uint32_t boundary, micro_batch;
    bool back, posted;
    uint8_t lane;
    uint32_t peer;   /* stage */
    orr_value value; /* the received value */
} orr_step_receive;

typedef struct orr_step_writer {
    orr_engine_step *step;
    orr_step_program *to;
    bool trains;
    orr_arena *scratch;
    orr_status status;
    orr_error *err;
    orr_schedule_slot slot; /* the slot that is being written */
    orr_value **maps;   /* shape (micro-batches, row.n): the step's values for those of a module's
                           tape; NULL: not begun */
    orr_value *ends[2]; /* shape (micro-batches, row.n): output of a place; gradient of its input */
    const char ***labels;       /* shape (row.n)(calls of the module) */
    orr_step_receive *messages; /* messages to receive, in the order of their senders */
    uint32_t n_messages;
    uint32_t *last_slot; /* shape (chunks): the last slot that makes gradients of weights */
    orr_value *pending;  /* shape (micro-batches, n_parameters): gradients that are not in a bucket
                            yet; ORR_NONE */
    orr_value *sums;     /* shape (n_parameters): values bound to gradient buffers */
} orr_step_writer;

static inline bool orr_step_writer_ok(const orr_step_writer *w)
{
    return w->status == ORR_OK;
}
static inline void orr_step_writer_fail(orr_step_writer *w, orr_status status)
{
    if (w->status == ORR_OK)
        w->status = status;
}
static inline size_t orr_step_map_index(const orr_step_writer *w, uint32_t micro_batch,
                                        uint32_t place)
{
    return (size_t)micro_batch * w->step->row.n + place;
}

/* Adds a value; `data`: its address, or NULL: in the program's memory. */
orr_value orr_step_value(orr_step_writer *w, orr_value_role role, const orr_type *type,
                         const char *name, void *data);
/* Adds a call to a lane; returns its number. */
uint32_t orr_step_call(orr_step_writer *w, const orr_tape_call *call, uint8_t lane,
                       const char *label);
/* One operator with one output of a type, or none (NULL). */
typedef struct orr_step_op {
    orr_op op;
    uint8_t pass, lane;
    const orr_op_args *args; /* NULL: all 0 */
    uint32_t n_in;
    orr_value in[ORR_CALL_IN];
    const orr_type *out;
    void *data; /* of the output */
    const char *name;
} orr_step_op;
orr_value orr_step_apply(orr_step_writer *w, const orr_step_op *op);
/* The last call written. */
static inline uint32_t orr_step_last(const orr_step_writer *w)
{
    return w->to->tape.n_calls - 1;
}
/* Makes a call wait for another beside its data dependencies. ORR_NONE: for none. */
void orr_step_wait(orr_step_writer *w, uint32_t call, uint32_t on);
/* A slice of a flat value; a view with other dims. */
orr_value orr_step_slice(orr_step_writer *w, orr_value flat, int64_t begin, int64_t count);
orr_value orr_step_view(orr_step_writer *w, orr_value value, const orr_type *type);

static inline orr_type orr_step_flat(orr_dtype dtype, int64_t n)
{
    return (orr_type){.dtype = (uint8_t)dtype, .rank = 1, .dim = {n}};
}

/* Whether a phase of a slot runs a module's calls of this pass. */
static inline bool orr_step_phase_runs_pass(uint8_t pass, uint8_t phase)
{
    switch (phase) {
    case ORR_SLOT_FORWARD:
        return pass == ORR_PASS_FORWARD;
    case ORR_SLOT_INPUT:
        return pass == ORR_PASS_RECOMPUTE || pass == ORR_PASS_INPUT;
    case ORR_SLOT_WEIGHT:
        return pass == ORR_PASS_WEIGHT;
    default:
        return pass == ORR_PASS_RECOMPUTE || pass == ORR_PASS_INPUT || pass == ORR_PASS_WEIGHT;
    }
}

/* Weights (weight_gather.c). */
void orr_step_gather_at_start(orr_step_writer *w);
void orr_step_gather_at_end(orr_step_writer *w);
/* Issues the gathers of a place; *ret, shape (parameters of the place): views of the gathered
 * weights. */
void orr_step_gather(orr_step_writer *w, uint32_t place, uint8_t phase, orr_value *ret);
/* The weights of a place that need no gather at this point, into ret as above. */
void orr_step_weights(orr_step_writer *w, uint32_t place, orr_value *ret);

/* Gradients (gradients.c): output `o` of a call is a gradient of a parameter. */
void orr_step_gradient(orr_step_writer *w, uint32_t parameter, uint32_t call, uint32_t o);
/* All gradients of a place are complete for this slot; `last`: for this step. */
void orr_step_gradients_end(orr_step_writer *w, uint32_t place, bool last);
/* Where a bucket has a tree (gradient_tree.c): the buffer of the slot's micro-batch; its gradients
 * are complete; those of all micro-batches are. */
float *orr_step_block_gradient(orr_step_writer *w, const orr_bucket *b);
void orr_step_end_block(orr_step_writer *w, orr_bucket *b);
void orr_step_join_tree(orr_step_writer *w, orr_bucket *b);
/* Embedding tables (embedding_calls.c): what prepares batches and makes bags, before all slots;
 * what takes gradients of bags, after them; the update. */
void orr_step_write_bags(orr_step_writer *w);
void orr_step_write_bag_gradients(orr_step_writer *w);
void orr_step_write_table_update(orr_step_writer *w);
/* The bags of the slot's micro-batch, and where their gradients go. */
orr_value orr_step_bags(orr_step_writer *w, const orr_type *type);
float *orr_step_bag_gradients(const orr_step_writer *w, const orr_type *type);
/* Where a router's choice of the slot's micro-batch goes (expert_choices.c); NULL: it is not kept,
 * or the value is another one. */
void *orr_step_choice_data(const orr_step_writer *w, uint32_t place, orr_value value);
/* replica_reduction.c: submits to the team what is final when a bucket has been reduced; and what
 * becomes final only after the last micro-batch. */
void orr_step_submit_early(orr_step_writer *w, orr_bucket *b);
void orr_step_submit_late(orr_step_writer *w, orr_bucket *b);
/* The remaining reductions after all slots (optimizer.c). */
void orr_step_write_last_reductions(orr_step_writer *w);
/* The optimizer: parameters with weight decay, then the others. */
void orr_step_write_optimizer(orr_step_writer *w);

/* Transfers between stages (stage_transfers.c). */
void orr_step_list_receives(orr_step_writer *w);
/* Posts the receives that the slot needs. */
void orr_step_post_receives(orr_step_writer *w, const orr_schedule_slot *slot);
orr_value orr_step_received(orr_step_writer *w, uint32_t boundary, bool back, uint32_t micro_batch);
void orr_step_send(orr_step_writer *w, uint32_t boundary, bool back, orr_value value);

/* The loss of each token of a module, or its input; ORR_NONE: the module has no loss. */
orr_value orr_step_loss_value(const orr_module *module, bool input);
/* All slots (schedule_slots.c). */
void orr_step_write_schedule(orr_step_writer *w);

#endif /* ORR_ENGINE_STEP_TAPE_WRITER_H */
