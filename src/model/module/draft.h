/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_DRAFT_H
#define ORR_MODEL_MODULE_DRAFT_H

#include "model/module/module.h"
#include "model/shard/shard.h"

/* Shape of a job: what all modules of a job have in common. */
typedef struct orr_job_shape {
    const orr_model *model;
    const orr_plan *plan; /* complete */
    const orr_workload *workload;
    orr_sharding how;
    int64_t samples;   /* B: samples of a micro-batch */
    int64_t tokens;    /* S: tokens of a sample that are computed */
    int64_t keys;      /* tokens that attention reads: S, and those in the cache */
    orr_dtype stream;  /* dtype of activations between layers */
    orr_dtype product; /* dtype of the inputs of linear layers */
    orr_dtype cached;  /* dtype of cached keys and values, where not executed */
    bool sequence;     /* sequence parallelism: activations between layers are sharded by token
                        * along TP */
    bool fused;        /* elementwise operators are fused */
    bool dropout;      /* as GPT-3 was trained first; no later family has it */
    bool trained;      /* a backward pass follows */
    bool serves;       /* tokens are generated: no loss, logits of the last token */
    bool real;         /* for execution, not simulation: see orr_workload */
    double even_rows;  /* of an expert over its share of tokens: orr_expert_even_rows() */
    orr_packed_pairs packed[2]; /* of layers that see all of the context, and of those that see a
                                 * part (chunks, windows) */
    const struct orr_job_shape *outer; /* in the job of a vision encoder: the job of the model */
} orr_job_shape;
/* Images of a sample. */
uint32_t orr_images_of(const orr_job_shape *job);
/* The job of the model's vision encoder, in the arena. */
orr_status orr_vision_job_of(const orr_job_shape *job, orr_arena *arena, const orr_job_shape **ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Dropout probability: the default of Megatron-LM, with which GPT-3 sizes were measured. */
#define ORR_DROPOUT 0.1
/* The arena is for scratch. */
orr_status orr_job_shape_of(const orr_model *model, const orr_plan *plan,
                            const orr_workload *workload, orr_arena *arena, orr_job_shape *ret,
                            orr_error *err) ORR_MUST_CHECK;

enum { ORR_DRAFT_SHARED_MAX = 2 };
/* A module under construction: the tape of the whole module (one device, no sharding) with the
 * layouts of its inputs and parameters. The first failure is kept: later calls do nothing and
 * return ORR_NONE, so that the code of a model reads as formulas. */
typedef struct orr_draft {
    const orr_job_shape *job;
    orr_tape tape;
    orr_layouts layouts;
    orr_packed_dim *forms; /* by value: how a packed dim is sharded */
    uint32_t room;
    orr_value in, out;                      /* input and output of the module */
    orr_value loss;                         /* its contribution to the step's loss */
    orr_value shared[ORR_DRAFT_SHARED_MAX]; /* weights of another module, INPUTs here */
    uint32_t n_shared;
    bool frozen; /* parameters that are added now have no gradient */
    uint8_t tag; /* orr_weight_tag of parameters that are added now */
    orr_status status;
    orr_error *err;
} orr_draft;
void orr_draft_init(orr_draft *draft, const orr_job_shape *job, orr_arena *arena, orr_error *err);

/* Are products of the same input apart, as torchtitan has them, not one? */
static inline bool orr_draft_apart(const orr_draft *draft)
{
    return draft->job->plan->recompute == ORR_RECOMPUTE_OP && !draft->job->real;
}

/* Dims of a type in one line: ORR_DIMS(samples, tokens, hidden). */
typedef struct orr_dims {
    uint32_t rank;
    int64_t dim[ORR_TYPE_DIMS];
} orr_dims;
#define ORR_DIMS(...)                                                                              \
    ((orr_dims){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = {__VA_ARGS__}})

/* Those of one or two axes that have more than one member. */
orr_axis_set orr_draft_axes(const orr_draft *draft, orr_axis a, orr_axis b);
/* Layout of activations between layers (B, S, D): tokens sharded over CP, and over TP with
 * sequence parallelism. */
orr_layout orr_draft_stream(const orr_draft *draft);

orr_value orr_draft_input(orr_draft *draft, orr_dtype dtype, orr_dims dims,
                          const orr_layout *layout, const char *name);
/* Adds a parameter; `dim` of it is sharded by `axis` (ORR_AXIS_NONE: whole). */
orr_value orr_draft_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis,
                           const char *name);
/* The scale of a quantised weight: a constant scalar. */
orr_value orr_draft_scale(orr_draft *draft, const char *name);
/* Appends a call of one output; of several outputs returns the first. `args` NULL: none. */
orr_value orr_draft_call(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                         uint32_t n_in, const orr_value *in);
#define ORR_CALL(draft, op, args, name, ...)                                                       \
    orr_draft_call((draft), ORR_OP_##op, (args), (name),                                           \
                   sizeof((orr_value[]){__VA_ARGS__}) / sizeof(orr_value),                         \
                   (orr_value[]){__VA_ARGS__})
/* The same with all outputs, shape (n_out of the operator's row). */
void orr_draft_call_all(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                        uint32_t n_in, const orr_value *in, orr_value *ret_out);
/* Fixes the layout of a value. */
orr_value orr_draft_set_layout(orr_draft *draft, orr_value value, const orr_layout *layout);
/* Declares that a dim of the value is packed, so that its shards are not contiguous. */
void orr_draft_packed_dim(orr_draft *draft, orr_value value, const orr_packed_dim *form);
const orr_type *orr_draft_type(const orr_draft *draft, orr_value value);
/* Records the first failure, whose error the caller has filled in. */
void orr_draft_fail(orr_draft *draft, orr_status status);

#endif /* ORR_MODEL_MODULE_DRAFT_H */
