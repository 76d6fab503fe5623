/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_STEP_H
#define ORR_ENGINE_STEP_STEP_H

#include <orrery/model.h>
#include <orrery/team.h>

#include "engine/run/program.h"
#include "engine/record/recorder.h"
#include "model/module/local_shard.h"

/* A training step of one rank as one tape: the modules of its stage, once for each turn of the
 * schedule, sends and receives between stages, gradients summed over micro-batches and reduced over
 * replicas (and gathered weights, with ZeRO), then the optimizer. What is simulated is a row of the
 * same modules in the same turns. */

/* A parameter of this rank: a module of a place, a value of its tape. */
typedef struct orr_parameter {
    const char *name;    /* of the value: "qkv"                                             */
    uint32_t place, nth; /* of the module row; which of those of this name in the module      */
    uint8_t module;      /* orr_module_kind                                                  */
    uint8_t tag;         /* orr_weight_tag                                                   */
    bool frozen;
    orr_local_shard own;
    orr_type type; /* on this rank */
    int64_t n;     /* its numbers  */
    /* Bytes: the master in fp32 (also what is computed with, in fp32), the copy in 16 bits or NULL,
     * gradient in fp32, moments; of what ZeRO shards, numbers shard_begin .. + shard_n only.    */
    float *master, *gradient, *m, *v;
    void *copy;
    int64_t shard_begin, shard_n;
} orr_parameter;

typedef struct orr_step_inputs { /* of one micro-batch: shape (samples, tokens) each, this rank's
                                    tokens */
    const int64_t *tokens, *targets, *positions;
    const float *weights; /* of each token in the loss: 0 masks it; sums over all to 1 or to what
                           * the objective wants */
} orr_step_inputs;

/* What the loss is made of: between the forward and the backward pass of a micro-batch, on ranks
 * that have the head. `loss`: shape (n) minus log-probability of each target; sets `ret_seed`,
 * shape (n): the derivative of what is minimised by each of them. NULL: the weights of the inputs.
 * Slices of tensors (TP) have the same losses and must set the same seeds. */
typedef orr_status orr_objective(void *ctx, uint32_t micro_batch, const float *loss, int64_t n,
                                 float *ret_seed, orr_error *err);

/* Other replicas of the job, each a plan of its own, whose gradients are summed before the update.
 * Sum `op` (from 0, the same in all replicas) is handed in as soon as its numbers are whole in this
 * one, from whichever lane made them; returns at once. `in` (NULL: zeros) stays as it is until the
 * next step begins, `out` is what the update reads. */
typedef struct orr_step_replica_reducer {
    orr_status (*reduce)(void *ctx, uint32_t op, orr_team_dtype dtype, const void *in, void *out,
                         size_t n, orr_error *err);
    void *ctx;
} orr_step_replica_reducer;

typedef struct orr_engine_step orr_engine_step;
typedef struct orr_step_source {
    const orr_model *model;
    const orr_plan *plan; /* completed and checked */
    const orr_workload *workload;
    orr_transport *transport;
    orr_backend *backend;
    orr_workers *workers;
    uint64_t seed; /* of what parameters begin as: the same numbers in every plan */
    orr_objective *objective;
    void *objective_ctx;
    bool check;                           /* every output of every call is looked at for NaN */
    bool sgd;                             /* of what is no table: instead of AdamW; fp32 alone */
    const orr_step_replica_reducer *team; /* NULL: this is the only replica */
} orr_step_source;
orr_status orr_engine_step_make(const orr_step_source *source, orr_engine_step **ret,
                                orr_error *err) ORR_MUST_CHECK;
void orr_engine_step_free(orr_engine_step *step);
orr_parameter *orr_engine_step_parameters(orr_engine_step *step, uint32_t *ret_n);
/* Masters have been written from outside: what is made of them follows. All ranks together. */
orr_status orr_engine_step_weights_changed(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* Which tokens of a sample this rank has, where it reads any: tokens 0 means that it does not. */
typedef struct orr_step_local_batch {
    int64_t samples, tokens; /* of a micro-batch, on this rank */
    orr_dim_pieces share;    /* of the sample's tokens         */
    bool head;               /* losses come about here         */
} orr_step_local_batch;
void orr_engine_step_local_batch(const orr_engine_step *step, orr_step_local_batch *ret);
/* Where a micro-batch's input of modules lies ("tokens", "targets", ...), for objectives with
 * inputs of their own; NULL: no module of this rank takes one. */
void *orr_engine_step_input(orr_engine_step *step, const char *name, uint32_t micro_batch,
                            orr_type *ret_type);
/* Tables of embedding bags that this rank has, one behind another: parameters without `gradient`,
 * `m` and `v`; for checkpoints the state is one more, "tables_state". Of a lookup is a row of the
 * gradient; those of an id are summed, then row-wise Adagrad takes them. NULL: the model has none.
 */
typedef struct orr_step_table {
    float *table, *state; /* shapes (rows, columns), (rows)          */
    float *gradient;      /* shape (lookups, columns), of one step   */
    int64_t *ids;         /* shape (lookups), of all micro-batches   */
    int64_t rows, columns, lookups;
} orr_step_table;
const orr_step_table *orr_engine_step_table(const orr_engine_step *step);
/* Logits of the samples of the last run, shape (micro-batches, samples); NULL: no recommendation.
 */
const float *orr_engine_step_logits(const orr_engine_step *step);
/* From now on scoring leaves the logits of all tokens, shape (micro-batches) of this type: what the
 * next token is drawn from. Before anything is scored; whole vocabularies only (no tp). NULL in
 * *ret: the head is not here. */
orr_status orr_engine_step_keep_logits(orr_engine_step *step, const void **ret, orr_type *ret_type,
                                       orr_error *err) ORR_MUST_CHECK;
/* Ranks of the plan as one group, for use between steps; NULL: there is one rank. */
orr_communicator *orr_engine_step_world(const orr_engine_step *step);
uint32_t orr_engine_step_calls(const orr_engine_step *step); /* of its program: for recorders */
/* What a step of this plan would hold on this rank, before anything is taken. */
typedef struct orr_step_memory {
    int64_t weights, gradients, optimizer, activations, workspace, buffers, total;
} orr_step_memory;
orr_status orr_engine_step_measure(const orr_step_source *source, orr_step_memory *ret,
                                   orr_error *err) ORR_MUST_CHECK;
orr_step_memory orr_engine_step_memory_of(const orr_engine_step *step);
/* A step that cannot be run: nothing is allocated, nobody is met (the transport says only which
 * rank this is). What it would run is the program of that of a real one. */
orr_status orr_engine_step_make_unallocated(const orr_step_source *source, orr_engine_step **ret,
                                            orr_error *err) ORR_MUST_CHECK;
/* Tape, lanes and waits of a step: the step's, as long as it stands. */
orr_program_source orr_engine_step_program(const orr_engine_step *step);

enum { ORR_STEP_OBJECTIVE_SUMS = 3 };
typedef struct orr_step_result {
    double loss;          /* of all ranks, mean over weighed tokens      */
    double gradient_norm; /* of all parameters of all ranks, before clipping */
    int64_t tokens;       /* weighed ones, of all ranks */
    int64_t step_ns;
    double told[ORR_STEP_OBJECTIVE_SUMS]; /* the objective's own sums, of all ranks
                                             (orr_engine_step_objective_sums()) */
} orr_step_result;
/* Forward, backward, update. `inputs`: shape (micro-batches of this replica). `update`: rate and
 * the rest; clip > 0 bounds the gradient's norm. A loss that is not finite is INVALID: the step is
 * run again with checks to name the first operator that made it; nothing has been updated. */
orr_status orr_engine_step_run(orr_engine_step *step, const orr_step_inputs *inputs,
                               const orr_update *update, double clip, orr_recorder *recorder,
                               orr_step_result *ret, orr_error *err) ORR_MUST_CHECK;
/* The same in two, for teams: forward and backward, all sums handed in behind it; */
orr_status orr_engine_step_compute(orr_engine_step *step, const orr_step_inputs *inputs,
                                   orr_recorder *recorder, orr_error *err) ORR_MUST_CHECK;
/* or nothing but zeros handed in; */
orr_status orr_engine_step_contribute_zeros(orr_engine_step *step, orr_error *err) ORR_MUST_CHECK;
/* then the update, when the sums are there: of so many replicas. The result is of all of them. */
orr_status orr_engine_step_apply(orr_engine_step *step, const orr_update *update, double clip,
                                 uint64_t contributors, orr_step_result *ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* What an objective adds to while a step is computed, from 0: summed over all ranks and replicas.
 */
double *orr_engine_step_objective_sums(orr_engine_step *step);
uint32_t orr_engine_step_reductions(const orr_engine_step *step); /* that a step hands in */
/* All that an update changes, in a fixed order: with it this rank is as another replica's. Written
 * from outside, orr_engine_step_weights_changed(). */
const orr_team_span *orr_engine_step_state(const orr_engine_step *step, uint32_t *ret_n);
/* Forward only: losses of each token, shape (micro-batches, samples, tokens), on ranks with the
 * head. */
orr_status orr_engine_step_score(orr_engine_step *step, const orr_step_inputs *inputs,
                                 float *ret_loss, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_STEP_STEP_H */
