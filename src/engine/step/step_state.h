/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_STEP_STATE_H
#define ORR_ENGINE_STEP_STEP_STATE_H

#include "base/array.h"
#include "engine/step/square_sum.h"
#include "engine/step/step.h"
#include "model/memory/memory.h"
#include "model/plan/groups.h"
#include "model/schedule/schedule.h"

/* Internals of a step, shared by the files of this folder.
 *
 * Parameters are stored in buckets (as in PyTorch DDP and Megatron's distributed optimizer):
 * contiguous numbers that are reduced, gathered and updated at once. Within a bucket, parameters
 * with weight decay come first, and those whose gradients are partial sums over TP ("sliced") are
 * next to the border, so that each of these sets is one range:
 *
 *   plain, decays | sliced, decays | sliced | plain         numbers 0 .. n - 1; the rank's shard is
 * a range of them
 *
 * Every parameter begins at a multiple of ORR_BUCKET_ALIGN numbers; the padding between is zero and
 * stays so. */
enum { ORR_BUCKET_ALIGN = 32 };

typedef struct orr_bucket {
    uint8_t axis; /* axis of the ranks that hold the same numbers: GRADIENT, or EDP for experts */
    uint8_t
        shard_axis; /* axis of the ranks that share the shards: SHARD or EDP; ORR_AXIS_NONE: none */
    bool tied, frozen;
    uint32_t chunk;
    int64_t n, used; /* numbers; used: without padding after the last */
    int64_t sliced_begin, sliced_end, decays_end;
    int64_t shard_begin, shard_n;   /* this rank's shard; all of them where nothing is sharded */
    uint32_t holders, holder_index; /* how many ranks hold this shard, and which of them this is */
    void *compute;                  /* what is computed with, all n; NULL: gathered when used */
    float *master, *m, *v;          /* of the shard */
    void *copy;                     /* of the shard, in 16 bits; or NULL */
    float *gradient;                /* all n, or only the shard (ZeRO 2 and 3) */
    float *summed; /* of the shard, summed over the replicas of a team; NULL: no team */
    struct orr_gradient_tree *tree; /* gradients are summed as a tree (gradient_tree.h); or NULL */
    /* While the tape is written: */
    uint32_t waiting;    /* places that will still add to the gradient this step */
    uint32_t last_write; /* the call that wrote to the gradient last; ORR_NONE */
    orr_value sum;       /* the gradient reduced so far; ORR_NONE */
    orr_value gathered;  /* whole weights, gathered for the step; ORR_NONE */
} orr_bucket;

typedef struct orr_step_parameter {
    uint32_t place;
    orr_value value; /* of the module's tape */
    orr_type type;   /* as it is stored, in the dtype of computation */
    uint32_t
        exported; /* index of the orr_parameter that callers see; of tied parameters the first's */
    uint32_t bucket;
    int64_t at; /* offset in the bucket */
    bool tied;  /* tied: shares the numbers of another parameter of this rank */
    bool decays, sliced;
    bool counted; /* counts in the gradient norm: on one of the ranks that hold it */
    bool written; /* its gradient has been written, while the tape is made */
    orr_value
        compute_value; /* value of the step's tape that is computed with; ORR_NONE: gathered */
} orr_step_parameter;

/* Where the experts of a layer stand (expert_order.c): positions of all ranks, one rank's after the
 * other's. NULL: as numbered. */
typedef struct orr_step_expert_order {
    const uint32_t *expert, *position; /* shape (E): at a position; of an expert */
} orr_step_expert_order;

/* A model input (tokens, targets, ...): one tensor for each micro-batch. */
typedef struct orr_step_input_buffer {
    const char *name;
    orr_type type;
    size_t bytes; /* of one micro-batch, rounded up to 64 */
    char *data;
    orr_local_shard own;
} orr_step_input_buffer;

enum { ORR_STEP_INPUT_BUFFERS = 16 };
typedef struct orr_step_range64 {
    int64_t from, to;
} orr_step_range64;
/* Calls [from, to). */
typedef struct orr_step_range {
    uint32_t from, to;
} orr_step_range;

/* A range of numbers that is summed over the replicas of a team. */
typedef struct orr_step_reduction {
    orr_engine_step *step;
    const float *in;
    float *out;
    size_t n;
} orr_step_reduction;

typedef struct orr_step_tables orr_step_tables; /* embedding_tables.h */

/* What ranks sum after the backward pass. */
typedef struct orr_step_metrics {
    double loss, weight, tokens, objective_sums[ORR_STEP_OBJECTIVE_SUMS];
} orr_step_metrics;

/* A tape and its program. */
typedef struct orr_step_program {
    orr_tape tape;
    orr_array(orr_program_call) calls;
    orr_array(orr_binding) bindings;
    orr_array(orr_program_dep) deps;
    orr_step_range train, decays, plain, gather; /* ranges of the tape, run one after the other */
    orr_program *program;
} orr_step_program;

struct orr_engine_step {
    orr_step_source source;
    orr_plan plan;
    orr_arena *arena;
    uint32_t rank, stage;
    orr_coordinates at;
    orr_dtype stream; /* dtype of computation */
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_module *modules;               /* shape (row.n_modules): this rank's own */
    const orr_module *const *at_place; /* shape (row.n); NULL: of another stage */
    orr_step_parameter *parameters;
    orr_parameter *exported;
    orr_bucket *buckets;
    uint32_t n_parameters, n_exported, n_buckets;
    uint32_t *first_of; /* shape (row.n + 1): first parameter of a place */
    orr_step_input_buffer slots[ORR_STEP_INPUT_BUFFERS];
    uint32_t n_slots;
    float *loss, *seed; /* shape (micro-batches, loss_n), on ranks with the head; NULL: not here */
    int64_t loss_n;
    orr_step_metrics *block_losses; /* of recommendation: shape (micro-batches); else NULL */
    float *logits;                  /* like `loss`, for models with one logit per sample; or NULL */
    char *scored;                   /* logits of the scoring program; NULL: not kept */
    orr_step_tables *tables;        /* NULL: none */
    orr_step_expert_order *expert_orders; /* shape (row.n); NULL: no placement */
    orr_step_choice *choices;             /* shape (n_choices) */
    uint32_t n_choices;
    float *zeros;                             /* padding of buckets */
    struct orr_step_objective_call *seedings; /* shape (micro-batches); NULL: no objective */
    bool measures;           /* only measured: nothing is allocated, addresses are made up */
    uint64_t measured_bytes; /* whose addresses are made up */
    orr_array(void *) held;  /* memory of the backend, and how much */
    orr_array(size_t) held_bytes;
    orr_step_memory memory;
    orr_communicator *communicators[ORR_AXES], *world;
    orr_step_program train, score;
    orr_step_reduction *sums; /* shape (n_sums): reductions over replicas, in tape order */
    uint32_t n_sums;
    orr_team_span *spans; /* shape (n_spans) */
    uint32_t n_spans;
    orr_step_metrics tally, summed; /* of this rank; summed over replicas, with a team */
    bool searches;    /* looking for the call that made a NaN: nothing is submitted to the team */
    int64_t begin_ns; /* of the step that was computed; 0: none */
    int64_t *start_ns, *end_ns; /* times of its calls; NULL: not timed */
};

/* Zeroed memory for the life of the step, aligned to 64; *count is increased by its size. */
orr_status orr_step_allocate(orr_engine_step *step, size_t bytes, int64_t *count, void *ret,
                             orr_error *err) ORR_MUST_CHECK;

/* Number of the layer at a place, from 0. */
uint32_t orr_step_layer_of(const orr_engine_step *step, uint32_t place);
/* expert_order.c: the orders of all places; the rows of an expert's parameter by it; the order that
 * a call of the place sorts by. */
orr_status orr_step_order_experts(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_order_rows(const orr_engine_step *step, uint32_t place, orr_parameter *exported);
void orr_step_order_call(const orr_engine_step *step, uint32_t place, orr_tape_call *call);
/* expert_choices.c: takes memory for what routers choose. */
orr_status orr_step_hold_choices(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;

/* Lists the rank's parameters and buckets; takes their memory; sets initial values. */
orr_status orr_step_list_parameters(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_fill_buckets(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_allocate_buckets(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_initialize_parameters(orr_engine_step *step);

/* gradient_tree.c: takes the memory of a bucket's gradients, which will be summed as a tree. */
orr_status orr_step_plant_tree(orr_engine_step *step, orr_bucket *b, orr_error *err) ORR_MUST_CHECK;

/* embedding_tables.c: opens the tables of a recommendation model, and closes them. Before the
 * batch of a step is computed, and after: all that was prepared has been used, or is dropped. */
orr_status orr_step_open_tables(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_close_tables(orr_engine_step *step);
orr_status orr_step_begin_batch(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_end_batch(orr_engine_step *step, bool updated);

/* replica_reduction.c, with a team: buffers of reductions; the spans that an update changes. */
orr_status orr_step_allocate_reductions(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_list_spans(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* Submits this rank's metrics (NULL: zeros) as the last reduction; does nothing without a team. */
orr_status orr_step_submit_metrics(orr_engine_step *step, const orr_step_metrics *mine,
                                   orr_error *err) ORR_MUST_CHECK;

/* The shard's gradients: within the whole buffer, or a buffer of their own. */
static inline float *orr_step_shard_gradient(const orr_engine_step *step, const orr_bucket *b)
{
    return b->gradient + (step->plan.zero < 2 ? b->shard_begin : 0);
}
/* The gradients that the update reads. */
static inline float *orr_step_reduced_gradient(const orr_engine_step *step, const orr_bucket *b)
{
    return b->summed != NULL ? b->summed : orr_step_shard_gradient(step, b);
}
/* Numbers begin .. end - 1 of a bucket, clipped to this rank's shard. */
orr_step_range64 orr_step_in_shard(const orr_bucket *b, int64_t begin, int64_t end);
/* Whether the bucket's gradients are those of a tied head and embedding on two stages. */
bool orr_step_bucket_is_tied(const orr_engine_step *step, const orr_bucket *b);

/* Whether the module is a transformer layer, whose weights ZeRO 3 may drop after the forward
 * pass. */
static inline bool orr_step_is_layer(const orr_module *module)
{
    return orr_module_is_layer(module->kind) || module->kind == ORR_MODULE_BODY;
}
static inline uint32_t orr_step_members(const orr_engine_step *step, uint32_t axis)
{
    return axis < ORR_AXES ? orr_plan_group_size(&step->plan, (orr_axis)axis) : 1;
}

/* The lane that communicates along an axis; communicators of all axes. */
uint8_t orr_step_lane_of(const orr_plan *plan, uint32_t axis);
orr_status orr_step_make_communicators(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;

/* Writes the tape of a step, or of its forward pass alone. */
orr_status orr_step_write(orr_engine_step *step, bool trains, orr_step_program *ret,
                          orr_error *err) ORR_MUST_CHECK;

/* Makes the program of a written tape. */
orr_status orr_step_make_program(orr_engine_step *step, bool trains, orr_error *err) ORR_MUST_CHECK;

/* Calls the objective for the derivatives of a micro-batch's losses. */
typedef struct orr_step_objective_call {
    orr_engine_step *step;
    uint32_t micro_batch;
} orr_step_objective_call;
orr_program_hook orr_step_call_objective;

/* Squares of all gradients that this rank counts. */
orr_square_sum orr_step_gradient_squares(const orr_engine_step *step);
/* metrics.c: the losses of this rank; metrics and squares of all ranks, the same bits on each. */
void orr_step_count_losses(const orr_engine_step *step, const orr_step_inputs *inputs,
                           orr_step_metrics *ret);
orr_status orr_step_reduce_metrics(const orr_engine_step *step, orr_step_metrics *metrics,
                                   orr_square_sum *squares, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_STEP_STEP_STATE_H */
