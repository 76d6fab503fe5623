/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_H
#define ORR_RESCALE_H

#include <orrery/cost.h>
#include <orrery/ensemble.h>
#include <orrery/plan.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A recorded job carried over to another plan.
 *
 * Letters: d data-, t tensor-, p pipeline-parallel degree; rank = (stage * d + replica) * t +
 * slice, the default order of a plan. */

/* Where a time comes from that no recording has. */
typedef struct orr_pricing {
    orr_cost_chain chain;
    const orr_device *device;    /* what the kernels run on; NULL: kernels cannot be priced      */
    const orr_cluster *recorded; /* where the job was recorded; NULL: not known                   */
    const orr_cluster *cluster;  /* where it is to run; NULL: collectives cannot be priced        */
    uint8_t algorithm;           /* orr_algorithm                                               */
    bool network_says; /* transfers that have to be priced are left at -1, to the simulator      */
} orr_pricing;

/* What was found, or what was done, in words. */
#define ORR_CONFIDENCE_MAP(X)                                                                      \
    X(UNKNOWN, "not told")  /* could not be found out; the text says why */                        \
    X(INFERRED, "inferred") /* from structure, shapes, repetition        */                        \
    X(NAMED, "named")       /* names or numbers in the recording say so  */                        \
    X(STATED, "stated")     /* by the user                               */
typedef enum orr_confidence {
#define ORR_CONFIDENCE_ENUM_(name, text) ORR_CONFIDENCE_##name,
    ORR_CONFIDENCE_MAP(ORR_CONFIDENCE_ENUM_)
#undef ORR_CONFIDENCE_ENUM_
} orr_confidence;
ORR_API const char *orr_confidence_name(orr_confidence confidence);
typedef struct orr_finding {
    const char *what;     /* "tp", "layers", "collectives repriced"            */
    const char *value;    /* "2"                                               */
    const char *evidence; /* "process groups described as TENSOR_MODEL_..., of 2 ranks" */
    uint8_t confidence;   /* orr_confidence                                  */
} orr_finding;

/* A synthetic job: one training step of a transformer in the plan given (all fields but `ffn`,
 * `vocab` and `schedule` needed; defaults 4 * hidden, 32 * hidden, 1F1B). Host thread with the
 * operators of PyTorch, their shapes and launches, kernels on a compute stream, NCCL on streams of
 * its own: all-reduces of tensor parallelism in each layer, sends and recvs between stages,
 * the all-reduce of each layer's gradients behind the last backward pass. Host lanes carry the
 * times that they have when the host never waits; device work has no start. The transfers of a
 * stage are priced where its first replica stands (or each where it is, by the network). */
typedef struct orr_synthetic {
    orr_plan plan;
    uint8_t dtype; /* orr_dtype: BF16, FP16 or FP32              */
    bool host;     /* host thread and launches; false: device work alone */
} orr_synthetic;

typedef struct orr_rescaled {
    const orr_ensemble *ensemble; /* in the arena                                    */
    orr_plan from, to;            /* as far as known                                 */
    const orr_graph *const *made; /* shape (n_made): graphs made for it; freed by
                                   * orr_rescaled_free(), the others are the job's   */
    uint32_t n_made;
    uint64_t recorded, repriced, priced; /* device nodes of `made` or of the job's graphs: duration
                                          * as recorded; recorded x price(new) / price(old); priced
                                          * alone, for there was no such node               */
    const orr_finding *findings;         /* shape (n_findings) */
    uint32_t n_findings;
    const orr_ensemble *recorded_ensemble; /* of a job with more or fewer replicas: the recording,
                                            * of the same graphs; its transfers have their recorded
                                            * lengths yet, and orr_whatif.recorded changes them.
                                            * NULL: transfers are priced */
} orr_rescaled;
ORR_API void orr_rescaled_free(orr_rescaled *rescaled); /* the graphs; zeroed is allowed */

/* Graphs: one for each kind of rank, i.e. for each stage. Groupings tp, dp, pp. Errors: INVALID: a
 * plan that does not divide (orr_plan_check()), or a price that nobody can give; LIMIT,
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_synthetic_build(const orr_synthetic *spec,
                                                      const orr_pricing *pricing, orr_arena *arena,
                                                      orr_rescaled *ret, orr_error *err);
/* The graph of one rank of it, node for node the one that orr_synthetic_build() gives its stage,
 * but with rank, world size and process groups of its own: what a trace of that rank holds once
 * it is retimed. Free with orr_graph_free(). */
ORR_API ORR_MUST_CHECK orr_status orr_synthetic_rank(const orr_synthetic *spec, uint32_t rank,
                                                     const orr_graph **ret, orr_error *err);

/* What a recorded job is made of. */
#define ORR_PHASE_MAP(X)                                                                           \
    X(OTHER, "other") X(FORWARD, "forward") X(BACKWARD, "backward") X(OPTIMIZER, "optimizer")
typedef enum orr_phase {
#define ORR_PHASE_ENUM_(name, text) ORR_PHASE_##name,
    ORR_PHASE_MAP(ORR_PHASE_ENUM_)
#undef ORR_PHASE_ENUM_
} orr_phase;
ORR_API const char *orr_phase_name(orr_phase phase);

#define ORR_DIMENSION_MAP(X)                                                                       \
    X(UNKNOWN, "unknown") X(TP, "tp") X(PP, "pp") X(DP, "dp") X(WORLD, "world")
typedef enum orr_dimension {
#define ORR_DIMENSION_ENUM_(name, text) ORR_DIMENSION_##name,
    ORR_DIMENSION_MAP(ORR_DIMENSION_ENUM_)
#undef ORR_DIMENSION_ENUM_
} orr_dimension;
ORR_API const char *orr_dimension_name(orr_dimension dimension);

/* Consecutive work of one host thread that belongs together. */
typedef struct orr_block {
    uint32_t graph;          /* of the job                                                */
    uint8_t phase;           /* orr_phase                                                 */
    int32_t layer;           /* of the whole model, from 0; -1: before or after them, or none */
    int32_t micro_batch;     /* from 0; -1: none                                          */
    orr_node_id first, last; /* its first and last outermost host nodes                   */
    uint32_t n_kernels;      /* device work launched in it                                */
} orr_block;

typedef struct orr_recognition {
    orr_plan plan;           /* 0: not told                                          */
    uint32_t recorded_ranks; /* ranks that have a graph                        */
    bool whole;              /* blocks of a step were told apart well enough to compose
                              * other plans of them; else only data parallelism can change */
    const char *why_not;     /* NULL when whole                                      */
    const orr_block *blocks; /* shape (n_blocks), of one step, by graph and time     */
    uint32_t n_blocks;
    const uint8_t *dimension_of_group; /* shape (job->n_groups), orr_dimension      */
    const orr_finding *findings;       /* shape (n_findings)                                   */
    uint32_t n_findings;
} orr_recognition;

/* Blocks, degrees and shapes of a recorded job, from names (annotations, modules, process groups),
 * nesting, sequence numbers of autograd, and repetition. `stated` (may be NULL): what the
 * user says of the recording, which wins. INVALID: `stated` contradicts the recording. In
 * the arena; refers to nothing of the job. */
ORR_API ORR_MUST_CHECK orr_status orr_recognise(const orr_job *job, const orr_plan *stated,
                                                orr_arena *arena, orr_recognition *ret,
                                                orr_error *err);

/* A recorded job on more ranks, or fewer, with more data parallelism: the graphs are shared, so a
 * hundred thousand ranks cost a few dozen bytes each. Where the plan is recognised (or
 * stated) rank (stage, replica, slice) behaves as the recorded (stage, replica mod d, slice).
 * Where it is not, the recording is one replica, repeated: rank r behaves as the recorded rank r
 * mod R; a communication among all recorded ranks is one among all ranks, any other stays within
 * its copy. Durations are as recorded: orr_whatif_apply() gives the transfers of groups that grew,
 * shrank or moved theirs, with `recorded_ensemble` as orr_whatif.recorded. `recognition` may be
 * NULL. Errors: INVALID: n_ranks does not divide; LIMIT: over 2^24 ranks; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_rescale_replicas(const orr_job *job,
                                                       const orr_recognition *recognition,
                                                       uint32_t n_ranks, orr_arena *arena,
                                                       orr_rescaled *ret, orr_error *err);

/* A recorded job in another plan. If only the number of replicas changes, orr_rescale_replicas()
 * (but from or to a single replica all-reduces come or go, which is composing where the recording
 * is whole). Else one step is composed anew out of the recorded blocks: stages, schedule, sends and
 * recvs, all-reduces, layers; operators whose shapes change are repriced; communications that did
 * not exist are inserted with assumed host times. Fields of 0 in `to` stay as recorded. Durations
 * of device work are those of the ensemble; the graphs made have none. Errors: INVALID with the
 * reason: a plan that does not divide, a part that was not recognised and is needed, a cluster too
 * small, a price that nobody can give; LIMIT, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_rescale(const orr_job *job,
                                              const orr_recognition *recognition,
                                              const orr_plan *to, const orr_pricing *pricing,
                                              orr_arena *arena, orr_rescaled *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_RESCALE_H */
