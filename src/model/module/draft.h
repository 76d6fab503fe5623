/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_DRAFT_H
#define ORR_MODEL_MODULE_DRAFT_H

#include "model/module/module.h"
#include "model/shard/shard.h"

/* What all modules of a job are written from. */
typedef struct orr_job_shape {
    const orr_model *model;
    const orr_plan *plan; /* completed */
    const orr_workload *workload;
    orr_sharding how;
    int64_t samples;   /* B: of a micro-batch                                       */
    int64_t tokens;    /* S: of a sample that are computed                          */
    int64_t keys;      /* tokens that attention sees: S, with those in the cache    */
    orr_dtype stream;  /* of activations                                            */
    orr_dtype product; /* of the inputs of linear layers                            */
    bool sequence;     /* the stream's tokens are sliced by TP                      */
    bool fused;        /* elementwise work in few kernels                           */
    bool dropout;      /* GPT-3 as it was trained first; no later family has it     */
    bool trained;      /* a backward pass follows                                   */
    bool serves;       /* tokens are generated: no loss, the last one's logits      */
    bool real;         /* an engine runs it: see orr_workload                       */
    double imbalance;  /* of experts                                                */
    const struct orr_job_shape *outer; /* of a vision encoder's: the model's                   */
} orr_job_shape;
/* Pictures of a sample. */
uint32_t orr_images_of(const orr_job_shape *job);
/* That of the model's vision encoder, in the arena. */
orr_status orr_vision_job_of(const orr_job_shape *job, orr_arena *arena, const orr_job_shape **ret,
                             orr_error *err) ORR_MUST_CHECK;
/* Probability of dropout: the default of Megatron-LM, with which GPT-3 sizes were measured. */
#define ORR_DROPOUT 0.1
orr_status orr_job_shape_of(const orr_model *model, const orr_plan *plan,
                            const orr_workload *workload, orr_job_shape *ret,
                            orr_error *err) ORR_MUST_CHECK;

enum { ORR_DRAFT_SHARED_MAX = 2 };
/* A module as it is written: a tape of the whole, with layouts of what it is given. The first
 * failure stays: calls after it do nothing and give ORR_NONE. */
typedef struct orr_draft {
    const orr_job_shape *job;
    orr_tape tape;
    orr_layouts layouts;
    orr_packed_dim *forms; /* by value                                                  */
    uint32_t room;
    orr_value in, out; /* of the module                                             */
    orr_value loss;    /* what it gives to the step's loss                          */
    orr_value shared[ORR_DRAFT_SHARED_MAX]; /* weights that are another module's: INPUTs here */
    uint32_t n_shared;
    bool frozen; /* parameters written now get no gradient                    */
    uint8_t tag; /* orr_weight_tag of parameters written now                  */
    orr_status status;
    orr_error *err;
} orr_draft;
void orr_draft_init(orr_draft *draft, const orr_job_shape *job, orr_arena *arena, orr_error *err);

/* Types and layouts in one line: ORR_DIMS(samples, tokens, hidden). */
typedef struct orr_dims {
    uint32_t rank;
    int64_t dim[ORR_TYPE_DIMS];
} orr_dims;
#define ORR_DIMS(...)                                                                              \
    ((orr_dims){.rank = sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), .dim = {__VA_ARGS__}})

/* Axes of more than one member among one or two. */
orr_axis_set orr_draft_axes(const orr_draft *draft, orr_axis a, orr_axis b);
/* The stream between layers: (B, S, D), tokens over CP, and over TP with sequence parallelism. */
orr_layout orr_draft_stream(const orr_draft *draft);

orr_value orr_draft_input(orr_draft *draft, orr_dtype dtype, orr_dims dims,
                          const orr_layout *layout, const char *name);
/* A parameter; `dim` of it is sliced by `axis` (ORR_AXIS_NONE: whole). */
orr_value orr_draft_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis,
                           const char *name);
/* The scale of a quantised weight: one number, a constant. */
orr_value orr_draft_scale(orr_draft *draft, const char *name);
/* An operator of one output, or the first of several. `args` NULL: none. */
orr_value orr_draft_call(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                         uint32_t n_in, const orr_value *in);
#define ORR_CALL(draft, op, args, name, ...)                                                       \
    orr_draft_call((draft), ORR_OP_##op, (args), (name),                                           \
                   sizeof((orr_value[]){__VA_ARGS__}) / sizeof(orr_value),                         \
                   (orr_value[]){__VA_ARGS__})
/* All outputs, shape (n_out of the operator's row). */
void orr_draft_call_all(orr_draft *draft, orr_op op, const orr_op_args *args, const char *name,
                        uint32_t n_in, const orr_value *in, orr_value *ret_out);
/* The value shall lie so. */
orr_value orr_draft_set_layout(orr_draft *draft, orr_value value, const orr_layout *layout);
/* A dim of the value is sliced in a way of its own. */
void orr_draft_packed_dim(orr_draft *draft, orr_value value, const orr_packed_dim *form);
const orr_type *orr_draft_type(const orr_draft *draft, orr_value value);
/* First failure: the caller's, or the one that there is. */
void orr_draft_fail(orr_draft *draft, orr_status status);

#endif /* ORR_MODEL_MODULE_DRAFT_H */
