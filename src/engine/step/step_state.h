/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_STEP_STATE_H
#define ORR_ENGINE_STEP_STEP_STATE_H

#include "base/array.h"
#include "engine/step/step.h"
#include "model/memory/memory.h"
#include "model/plan/groups.h"
#include "model/schedule/schedule.h"

/* A rank's part of a step, in pieces: what the files step_*.c share.
 *
 * Parameters lie in buckets: numbers one behind another, reduced, gathered and updated at once.
 * Within a bucket those that decay stand first, and those whose gradient is partial on TP next to
 * the border, so that each of these sets is one range:
 *
 *   plain, decays | sliced, decays | sliced | plain         numbers 0 .. n - 1, rank's shard a part
 *
 * Every parameter begins at a multiple of ORR_BUCKET_ALIGN numbers; what is between is zero and
 * stays so. */
enum { ORR_BUCKET_ALIGN = 32 };

typedef struct orr_bucket {
    uint8_t axis;       /* whose members hold the same numbers: GRADIENT, or EDP of experts */
    uint8_t shard_axis; /* who share the shards: SHARD or EDP; ORR_AXIS_NONE: none          */
    bool tied, frozen;
    uint32_t chunk;
    int64_t n, used; /* numbers; used: without the padding behind the last              */
    int64_t sliced_begin, sliced_end, decays_end;
    int64_t shard_begin, shard_n; /* this rank's; all of them where nothing is shared        */
    uint32_t same, same_index;    /* how many ranks have this shard, and which of them it is */
    void *compute;         /* what is computed with, all n; NULL: gathered when it is used    */
    float *master, *m, *v; /* of the shard                                                  */
    void *copy;            /* of the shard, in 16 bits; or NULL                               */
    float *gradient;       /* all n, or the shard's alone (ZeRO 2 and 3)                      */
    float *summed;         /* of the shard, over the replicas of a team; NULL: there is none  */
    /* While the tape is written: */
    uint32_t waiting;    /* places that will still add to the gradient this step            */
    uint32_t last_write; /* call that wrote to the gradient last; ORR_NONE                  */
    orr_value sum;       /* the gradient, reduced so far; ORR_NONE                          */
    orr_value gathered;  /* weights, whole, that were gathered for the step; ORR_NONE       */
} orr_bucket;

typedef struct orr_step_parameter {
    uint32_t place;
    orr_value value; /* of the module's tape                                            */
    orr_type type;   /* as it is kept, in the dtype of computation                      */
    uint32_t shown;  /* which of the public ones; of a twin the first's                 */
    uint32_t bucket;
    int64_t at; /* in the bucket                                                   */
    bool twin;  /* has its numbers from another parameter of this rank             */
    bool decays, sliced;
    bool counted;  /* in the norm of all gradients: by one rank of those that hold it */
    bool written;  /* its gradient, while the tape is written                         */
    orr_value now; /* of the step's tape: what computes with it; ORR_NONE: gathered   */
} orr_step_parameter;

/* An input of modules, one tensor for each micro-batch: tokens, targets, ... */
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
/* From, to: calls. */
typedef struct orr_step_range {
    uint32_t from, to;
} orr_step_range;

/* Numbers that are summed over the replicas of a team. */
typedef struct orr_step_reduction {
    orr_engine_step *step;
    const float *in;
    float *out;
    size_t n;
} orr_step_reduction;

/* What ranks tell one another after the backward pass. */
typedef struct orr_step_metrics {
    double loss, weight, tokens, squares, told[ORR_STEP_OBJECTIVE_SUMS];
} orr_step_metrics;

/* A tape and how it runs. */
typedef struct orr_step_program {
    orr_tape tape;
    orr_array(orr_program_call) calls;
    orr_array(orr_binding) bindings;
    orr_array(orr_program_dep) deps;
    orr_step_range train, decays, plain, gather; /* parts of the tape, run one after the other */
    orr_program *program;
} orr_step_program;

struct orr_engine_step {
    orr_step_source source;
    orr_plan plan;
    orr_arena *arena;
    uint32_t rank, stage;
    orr_coordinates at;
    orr_dtype stream; /* what is computed in */
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    orr_module *modules;               /* shape (row.n_modules): this rank's own */
    const orr_module *const *at_place; /* shape (row.n): NULL: of another stage */
    orr_step_parameter *parameters;
    orr_parameter *shown;
    orr_bucket *buckets;
    uint32_t n_parameters, n_shown, n_buckets;
    uint32_t *first_of; /* shape (row.n + 1): parameters of a place */
    orr_step_input_buffer slots[ORR_STEP_INPUT_BUFFERS];
    uint32_t n_slots;
    float *loss, *seed; /* shape (micro-batches, loss_n): of the head; NULL: not here */
    int64_t loss_n;
    float *logits;        /* as `loss`, of a model that gives one a sample; or NULL */
    char *scored;         /* logits of the scoring program; NULL: not kept */
    orr_step_table table; /* rows 0: none */
    float *zeros;         /* what pads buckets */
    struct orr_step_objective_call *seedings; /* shape (micro-batches); NULL: no objective */
    bool measures;                            /* nothing is allocated: addresses are made up */
    orr_array(void *) held;                   /* memory of the backend, and how much */
    orr_array(size_t) held_bytes;
    orr_step_memory memory;
    orr_communicator *communicators[ORR_AXES], *world;
    orr_step_program train, score;
    orr_step_reduction *sums; /* shape (n_sums): of a team's steps, in the order of the tape */
    uint32_t n_sums;
    orr_team_span *spans; /* shape (n_spans) */
    uint32_t n_spans;
    orr_step_metrics tally, summed; /* of this rank; over replicas, with a team */
    bool searches;                  /* for what made a NaN: nothing is handed to the team */
    int64_t begin_ns;               /* of the step that was computed; 0: none was          */
    int64_t *start_ns, *end_ns;     /* where its calls are timed; NULL: they are not  */
};

/* Memory that lasts as long as the step, zeroed, aligned to 64; `count`: what it is counted as. */
orr_status orr_step_allocate(orr_engine_step *step, size_t bytes, int64_t *count, void *ret,
                             orr_error *err) ORR_MUST_CHECK;

/* Which parameters the rank has, in which buckets; then their memory; then what they begin as. */
orr_status orr_step_list_parameters(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_fill_buckets(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_allocate_buckets(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_initialize_parameters(orr_engine_step *step);

/* Tables of embedding bags (step_tables.c): their memory, when inputs have theirs; what they begin
 * as; after an update what padding there is goes back to zero. */
orr_status orr_step_allocate_tables(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
void orr_step_initialize_tables(orr_engine_step *step);
void orr_step_table_clear_padding(orr_engine_step *step);

/* With a team (step_team.c): room for sums; what an update changes. */
orr_status orr_step_allocate_reductions(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
orr_status orr_step_list_spans(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* Hands in what this rank has seen (NULL: nothing), as the last sum; without a team nothing. */
orr_status orr_step_submit_metrics(orr_engine_step *step, const orr_step_metrics *mine,
                                   orr_error *err) ORR_MUST_CHECK;

/* Gradients of the shard: in the whole buffer, or in one of its own. */
static inline float *orr_step_shard_gradient(const orr_engine_step *step, const orr_bucket *b)
{
    return b->gradient + (step->plan.zero < 2 ? b->shard_begin : 0);
}
/* What the update reads of them. */
static inline float *orr_step_reduced_gradient(const orr_engine_step *step, const orr_bucket *b)
{
    return b->summed != NULL ? b->summed : orr_step_shard_gradient(step, b);
}
/* Numbers begin .. end - 1 of a bucket, as far as they are this rank's. */
orr_step_range64 orr_step_in_shard(const orr_bucket *b, int64_t begin, int64_t end);
/* Are its gradients those of a head and an embedding that stand on two stages? */
bool orr_step_bucket_is_tied(const orr_engine_step *step, const orr_bucket *b);

/* Does a transformer's dims of the stream tell that the module is one whose weights are dropped
 * after its forward pass (a layer)? */
static inline bool orr_step_is_layer(const orr_module *module)
{
    return orr_module_is_layer(module->kind) || module->kind == ORR_MODULE_BODY;
}
static inline uint32_t orr_step_members(const orr_engine_step *step, uint32_t axis)
{
    return axis < ORR_AXES ? orr_plan_group_size(&step->plan, (orr_axis)axis) : 1;
}

/* Which lane of programs speaks along an axis; communicators of all of them. */
uint8_t orr_step_lane_of(const orr_plan *plan, uint32_t axis);
orr_status orr_step_make_communicators(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;

/* The program of a step, or of its forward pass alone. */
orr_status orr_step_write(orr_engine_step *step, bool trains, orr_step_program *ret,
                          orr_error *err) ORR_MUST_CHECK;

/* Makes it ready to run. */
orr_status orr_step_make_program(orr_engine_step *step, bool trains, orr_error *err) ORR_MUST_CHECK;

/* Asks the objective for the derivatives of a micro-batch's losses. */
typedef struct orr_step_objective_call {
    orr_engine_step *step;
    uint32_t micro_batch;
} orr_step_objective_call;
orr_program_hook orr_step_call_objective;

/* Sum of squares of all gradients that this rank counts. */
double orr_step_gradient_squares(const orr_engine_step *step);

#endif /* ORR_ENGINE_STEP_STEP_STATE_H */
