/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_STEP_H
#define ORR_ENGINE_STEP_STEP_H

#include <orrery/model.h>
#include <orrery/team.h>

#include "engine/run/program.h"
#include "engine/record/recorder.h"
#include "engine/tables/tables.h"
#include "model/module/local_shard.h"

/* A training step of one rank as one tape: the modules of its stage once for each schedule slot,
 * sends and receives between stages, gradients accumulated over micro-batches and reduced over
 * replicas (and gathered weights, with ZeRO), then the optimizer. The simulator times the same
 * modules in the same slots. */

/* A parameter of this rank: a value of the tape of the module at a place. */
typedef struct orr_parameter {
    const char *name; /* name of the value: "qkv" */
    uint32_t place,
        nth; /* place: in the sequence of modules; nth: among values of this name in the module */
    uint8_t module; /* orr_module_kind                                                  */
    uint8_t tag;    /* orr_weight_tag                                                   */
    bool frozen;
    orr_local_shard own;
    orr_type type; /* on this rank */
    int64_t n;     /* its elements */
    /* Addresses: the fp32 master (also computed with, in fp32 plans), the 16-bit copy or NULL, the
     * fp32 gradient and the moments; of what ZeRO shards, elements shard_begin .. + shard_n
     * only. */
    float *master, *gradient, *m, *v;
    void *copy;
    int64_t shard_begin, shard_n;
} orr_parameter;

typedef struct orr_step_inputs { /* inputs of one micro-batch: shape (samples, tokens) each, this
                                    rank's tokens */
    const int64_t *tokens, *targets, *positions;
    const float *weights; /* weight of each token in the loss: 0 masks it; they sum over all to 1,
                             or to what the objective wants */
} orr_step_inputs;

/* The objective: a callback between the forward and the backward pass of a micro-batch, on ranks
 * that have the head. `loss`, shape (n): minus log-probability of each target. Sets `ret_seed`,
 * shape (n): the derivative of the minimised quantity by each of them. NULL: the weights of the
 * inputs. Tensor-parallel ranks get the same losses and must set the same seeds. */
typedef orr_status orr_step_objective(void *ctx, uint32_t micro_batch, const float *loss, int64_t n,
                                      float *ret_seed, orr_error *err);

/* Reduction over the other replicas of the job, each with a plan of its own, before the update.
 * Reduction `op` (numbered from 0, the same in all replicas) is submitted as soon as its numbers
 * are final in this replica, from whichever lane made them; the call returns at once. `in` (NULL:
 * zeros) stays unchanged until the next step begins; `out` is what the update reads. */
typedef struct orr_step_replica_reducer {
    orr_status (*reduce)(void *ctx, uint32_t op, orr_team_dtype dtype, const void *in, void *out,
                         size_t n, orr_error *err);
    void *ctx;
} orr_step_replica_reducer;

/* A batch of a recommendation model: this rank's samples. */
typedef struct orr_step_batch {
    const float *dense, *targets; /* shapes (samples, features), (samples) */
    orr_tables_batch lookups;
} orr_step_batch;
/* Reads batches, in order, ahead of their steps: from one thread at a time. What it gives stays as
 * it is until batch + orr_tables_steps() of the plan is read. */
typedef struct orr_step_reader {
    orr_status (*read)(void *ctx, uint64_t batch, orr_step_batch *ret, orr_error *err);
    void *ctx;
} orr_step_reader;

typedef struct orr_engine_step orr_engine_step;
typedef struct orr_step_source {
    const orr_model *model;
    const orr_plan *plan;         /* completed and checked */
    const orr_workload *workload; /* placement: of the experts, as orr_engine_step_place_experts()
                                   * takes it */
    orr_transport *transport;
    orr_backend *backend;
    orr_workers *workers;
    uint64_t seed; /* for initial values: the same numbers in every plan */
    orr_step_objective *objective;
    void *objective_ctx;
    bool check;                       /* checks every output of every call for NaN and infinity */
    bool sgd;                         /* instead of AdamW, for all but tables; fp32 only */
    const orr_embedding_plan *tables; /* of recommendation; NULL: orr_embedding_plan_default() */
    const orr_tables_tier *tiers;     /* shape (ORR_TIERS), of their rows; NULL: memory alone */
    const orr_step_reader *reader;    /* of recommendation */
    const orr_step_replica_reducer *team; /* NULL: this is the only replica */
    bool routes;                          /* keeps what routers choose, see
                                           * orr_engine_step_choices() */
} orr_step_source;
orr_status orr_engine_step_make(const orr_step_source *source, orr_engine_step **ret,
                                orr_error *err) ORR_MUST_CHECK;
void orr_engine_step_free(orr_engine_step *step);
/* The part of a placement that a training of this model and plan can have: of the layers with
 * experts; each on one rank of expert parallelism, as many on every rank. INVALID: a placement of
 * another model or other ranks, no expert parallelism; UNSUPPORTED: copies, ranks with different
 * numbers of experts. */
orr_status orr_engine_step_place_experts(const orr_model *model, const orr_plan *plan,
                                         const orr_expert_placement *placement, orr_arena *arena,
                                         orr_expert_placement *ret, orr_error *err) ORR_MUST_CHECK;
orr_parameter *orr_engine_step_parameters(orr_engine_step *step, uint32_t *ret_n);
/* Call after masters were written from outside: updates what is derived from them. All ranks
 * together. */
orr_status orr_engine_step_weights_changed(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* The samples and tokens of a micro-batch that this rank has; tokens 0: it reads none. */
typedef struct orr_step_local_batch {
    int64_t samples, tokens; /* of a micro-batch, on this rank */
    orr_dim_pieces share;    /* of the sample's tokens */
    bool head;               /* this rank computes losses */
} orr_step_local_batch;
void orr_engine_step_local_batch(const orr_engine_step *step, orr_step_local_batch *ret);
/* Address of a micro-batch's model input ("tokens", "targets", ...), for objectives with inputs of
 * their own; NULL: no module of this rank takes it. */
void *orr_engine_step_input(orr_engine_step *step, const char *name, uint32_t micro_batch,
                            orr_type *ret_type);
/* Recommendation: the batch that the next step computes, or scores; it is read, if it has not been
 * already. Batches below `end` may be prepared ahead of their steps; those that were, and do not
 * come next, are dropped. All ranks together. */
orr_status orr_engine_step_set_batch(orr_engine_step *step, uint64_t batch, uint64_t end,
                                     orr_error *err) ORR_MUST_CHECK;
/* Its embedding tables, and how they are sharded; NULL: there are none. */
orr_tables *orr_engine_step_tables(const orr_engine_step *step);
const orr_embedding_plan *orr_engine_step_table_plan(const orr_engine_step *step);
/* The experts that a router of this rank chose in the last training run, by layer of the model:
 * `data` has the micro-batches one after the other, `bytes` each, of this type, whose last dim is
 * K. `in`, `in_type`: of the layer's input, (samples, tokens, hidden), to tell which tokens they
 * are. */
typedef struct orr_step_choice {
    uint32_t place, layer;
    orr_value value; /* of the module's tape */
    orr_type type, in_type;
    orr_local_shard in;
    size_t bytes;
    char *data;
} orr_step_choice;
const orr_step_choice *orr_engine_step_choices(const orr_engine_step *step, uint32_t *ret_n);
/* Logits of the last run, shape (micro-batches, samples); NULL: not a recommendation model. */
const float *orr_engine_step_logits(const orr_engine_step *step);
/* Makes scoring keep the logits of all tokens, shape (micro-batches) of this type, for sampling.
 * Call it before anything is scored; whole vocabularies only (no tp). NULL in *ret: the head is not
 * on this rank. */
orr_status orr_engine_step_keep_logits(orr_engine_step *step, const void **ret, orr_type *ret_type,
                                       orr_error *err) ORR_MUST_CHECK;
/* The communicator of all ranks of the plan, for use between steps; NULL: there is one rank. */
orr_communicator *orr_engine_step_world(const orr_engine_step *step);
uint32_t
orr_engine_step_calls(const orr_engine_step *step); /* calls of its program, for recorders */
/* The memory that a step of this plan would hold on this rank, computed without taking any. */
typedef struct orr_step_memory {
    int64_t weights, gradients, optimizer, activations, workspace, buffers, total;
} orr_step_memory;
orr_status orr_engine_step_measure(const orr_step_source *source, orr_step_memory *ret,
                                   orr_error *err) ORR_MUST_CHECK;
orr_step_memory orr_engine_step_memory_of(const orr_engine_step *step);
/* A step that cannot be run: nothing is allocated and no rank is contacted (the transport only
 * tells the rank's number). Its program is the one that a real step would run. */
orr_status orr_engine_step_make_unallocated(const orr_step_source *source, orr_engine_step **ret,
                                            orr_error *err) ORR_MUST_CHECK;
/* Tape, lanes and dependencies of a step; the step owns them. */
orr_program_source orr_engine_step_program(const orr_engine_step *step);

enum { ORR_STEP_OBJECTIVE_SUMS = 3 };
typedef struct orr_step_result {
    double loss;          /* of all ranks, mean over weighted tokens */
    double gradient_norm; /* global norm before clipping */
    int64_t tokens;       /* weighted tokens of all ranks */
    int64_t step_ns;
    double objective_sums[ORR_STEP_OBJECTIVE_SUMS]; /* the objective's own sums over all ranks
                                                       (orr_engine_step_objective_sums()) */
} orr_step_result;
/* Runs forward, backward and update. `inputs`: shape (micro-batches of this replica). `update`:
 * learning rate and other hyperparameters; clip > 0 bounds the gradient norm. A loss that is not
 * finite is INVALID: the step is repeated with checks, to name the first operator that made it;
 * nothing has been updated. */
orr_status orr_engine_step_run(orr_engine_step *step, const orr_step_inputs *inputs,
                               const orr_update *update, double clip, orr_recorder *recorder,
                               orr_step_result *ret, orr_error *err) ORR_MUST_CHECK;
/* The same in parts, for teams: forward and backward, with all reductions submitted; */
orr_status orr_engine_step_compute(orr_engine_step *step, const orr_step_inputs *inputs,
                                   orr_recorder *recorder, orr_error *err) ORR_MUST_CHECK;
/* or zeros submitted instead; */
orr_status orr_engine_step_contribute_zeros(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* then the update, when the reductions of so many contributing replicas are complete. The result is
 * over all of them. */
orr_status orr_engine_step_apply(orr_engine_step *step, const orr_update *update, double clip,
                                 uint64_t contributors, orr_step_result *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Sums that an objective adds to while a step is computed, from 0: summed over all ranks and
 * replicas. */
double *orr_engine_step_objective_sums(orr_engine_step *step);
uint32_t orr_engine_step_reductions(const orr_engine_step *step); /* that a step submits */
/* All that an update changes, in a fixed order: the state of the replica. After it was written from
 * outside, call orr_engine_step_weights_changed(). */
const orr_team_span *orr_engine_step_state(const orr_engine_step *step, uint32_t *ret_n);
/* Forward pass only: losses of each token, shape (micro-batches, samples, tokens), on ranks with
 * the head. */
orr_status orr_engine_step_score(orr_engine_step *step, const orr_step_inputs *inputs,
                                 float *ret_loss, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_STEP_STEP_H */
