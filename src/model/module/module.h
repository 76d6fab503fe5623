/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_MODULE_H
#define ORR_MODEL_MODULE_MODULE_H

#include <orrery/cost.h>
#include <orrery/model.h>
#include <orrery/op.h>

#include "model/shard/shard.h"
#include "model/spec/packing.h"

/* Modules: the units that a model is a sequence of (embedding, layers, head), each as a tape of one
 * micro-batch on one rank, already sharded, with collectives as calls. A kind of module is built
 * once, whatever the number of layers.
 *
 * A tape is valid for any rank: arguments that differ between ranks (first row of a vocabulary
 * shard, position of the first token) are 0, and orr_module_specialize() fills them in. A SEND
 * along CP is one round of a ring: the rank sends its keys or values to the next rank and
 * receives those of the previous one. `overlap` of a call: Megatron-LM, or the plan, runs it
 * beside a product; a plan's overlap_tp, which cuts transfers into pieces, is not on the tape.
 * Weights of products in 8 bits or fewer have that dtype on the tape: they are quantised once a
 * step, after the optimizer. */
#define ORR_MODULE_MAP(X)                                                                          \
    X(VISION, "vision encoder")                                                                    \
    X(EMBEDDING, "embedding")                                                                      \
    X(LAYER, "layer")                                                                              \
    X(MOE_LAYER, "expert layer")                                                                   \
    X(CROSS_LAYER, "cross-attention layer")                                                        \
    X(MTP, "multi-token prediction") X(HEAD, "head") X(BODY, "body")
typedef enum orr_module_kind {
#define ORR_MODULE_ENUM_(name, text) ORR_MODULE_##name,
    ORR_MODULE_MAP(ORR_MODULE_ENUM_)
#undef ORR_MODULE_ENUM_
} orr_module_kind;

/* A kernel that does more than one call. */
typedef struct orr_module_kernel {
    bool part;  /* the call is done in the kernel of another call */
    bool chain; /* the kernel of this call does others too; the totals follow */
    double flops, read_bytes, write_bytes; /* of a chain: totals over its calls */
} orr_module_kernel;

/* A packed dim: not equal contiguous pieces of one tensor. */
typedef struct orr_packed_dim {
    uint8_t dim;
    uint8_t joined;  /* > 1: number of tensors side by side (gate and up), each of which is
                      * sharded */
    uint32_t copies; /* > 1: slices that share a group of heads: the group's `lead` columns are
                      * distributed among them, and each has the `shared` columns behind these
                      * (key and value) */
    int64_t lead, shared;
    int64_t real; /* > 0: size without the padding to equal slices */
} orr_packed_dim;

/* Placement on the ranks of a value that no call makes, or of the module's input or output. */
typedef struct orr_value_placement {
    orr_value value;
    orr_type whole; /* on one device, without padding and copies */
    orr_layout layout;
    orr_packed_dim form;
} orr_value_placement;

typedef struct orr_module {
    uint8_t kind; /* orr_module_kind                                             */
    const char *name;
    const orr_tape *tape; /* forward; then, in training, recomputation and backward */
    orr_value in, out;    /* activation from the previous module, and to the next; or ORR_NONE */
    orr_value grad_in, grad_out;      /* gradient that it returns, and gradient that it gets */
    orr_value loss, loss_seed;        /* loss of each token, and its seed: the derivative of the
                                       * minimised loss; or ORR_NONE */
    bool recomputed;                  /* full recomputation before its backward pass */
    const orr_module_kernel *kernels; /* shape (tape->n_calls): where elementwise work is fused;
                                       * NULL: every call is a kernel */
    const orr_value_placement
        *holdings; /* shape (n_holdings): layouts for orr_module_local_shard() */
    uint32_t n_holdings;
    uint32_t members[ORR_AXES]; /* size of each axis; 1 where the module is replicated along it */
    const struct orr_tables_work *tables; /* embedding tables, whose bags are its input; NULL */
    const struct orr_layer_skew *skew;    /* of its experts, in the sizes of the tape; NULL: even */
} orr_module;
/* Work of the kernel that runs at a call (orr_work_of_call()). False, *ret unchanged: no kernel
 * runs there, because another call's kernel includes the call. */
bool orr_module_work(const orr_module *module, uint32_t call, orr_work *ret);

typedef struct orr_module_sequence {
    const orr_module *modules; /* kinds of modules; with plan.recompute_layers each also in its
                                * recomputed form */
    uint32_t n_modules;
    uint32_t n;                   /* length of the sequence */
    const uint8_t *module_of;     /* shape (n): module at each place; recompute=full: the recomputed
                                   * form */
    const uint8_t *recomputed_of; /* shape (n): with recompute=block the recomputed form; else the
                                   * same as module_of */
    int64_t boundary_bytes;       /* what one rank sends to the next stage for one micro-batch */
    double imbalance;             /* of experts: rows of the fullest rank over the mean, mean of
                                   * the layers with experts; already included in the tapes */
    double imbalance_worst;       /* the same of the layer where it is most */
    uint32_t
        expert_slots; /* of the rank and layer that has most; 0: nothing is known of their loads */
    orr_packed_pairs packed[2]; /* attention to documents, in layers that see all of the context
                                 * and in those that see a part of it; in the tapes already */
} orr_module_sequence;

/* Builds the module sequence of a model. `model` with the plan's changes, `plan` completed and
 * checked. In the arena. PREFILL and DECODE have forward passes only. PREFILL with a prompt
 * serves: the head gives the last token's logits; without one it scores the plan's tokens, each
 * with its loss. A vision encoder is several places before the embedding, where the workload has
 * images. Errors: INVALID: sizes that do not divide; UNSUPPORTED: a model or a task that cannot
 * be built so, with the reason; NO_MEMORY. */
orr_status orr_modules_build(const orr_model *model, const orr_plan *plan,
                             const orr_workload *workload, orr_arena *arena,
                             orr_module_sequence *ret, orr_error *err) ORR_MUST_CHECK;

/* The pipeline partition: which places of the sequence each chunk of each stage holds. */
typedef struct orr_stage_map {
    uint32_t stages, chunks;
    const uint32_t *first; /* shape (stages * chunks + 1), by virtual stage: places first[k] ..
                            * first[k + 1] - 1 */
} orr_stage_map;
/* Distributes layers evenly over virtual stages, the remainder to those in the middle, unless
 * the plan gives first_layers and last_layers of the first and last stage, or sections of all;
 * embedding (and vision) go with the first, head and MTP with the last. With DualPipe `chunks`
 * is 1: a stage holds virtual stage k of one direction and its counterpart of the other.
 * INVALID: a stage without any module; a number of layers at the ends that does not match. */
orr_status orr_stage_map_make(const orr_module_sequence *row, const orr_plan *plan,
                              orr_arena *arena, orr_stage_map *ret, orr_error *err) ORR_MUST_CHECK;
/* What a module adds to the time of its stage: in each micro-batch, and once a step (reduction of
 * gradients, optimizer). Nominal: on one device for all jobs, so that the split of layers does not
 * depend on the machine, and no better machine gets a worse split. */
typedef struct orr_module_time {
    int64_t micro_batch_ns, update_ns;
} orr_module_time;
orr_module_time orr_module_nominal_time(const orr_module *module);
/* Fills in first_layers and last_layers of a plan that gives neither, nor sections: where the ends
 * of the pipeline are so unlike a layer (embedding, head, MTP, vision) that the step is more than
 * 3 % shorter with fewer or more layers there; else both stay 0, the even split. It is even as well
 * with ZeRO 2 and 3, whose transfers of each micro-batch follow the number of layers; with ZB-V and
 * DualPipe, whose first stage has both ends; and with ZB-H1 of less than 2 pp micro-batches. Memory
 * is not considered. `time`: shape (row->n_modules). The arena is for scratch. INVALID: as
 * orr_stage_map_make(); NO_MEMORY. */
orr_status orr_stages_balance(const orr_module_sequence *row, const orr_module_time *time,
                              orr_arena *arena, orr_plan *plan, orr_error *err) ORR_MUST_CHECK;

/* What modules cost on the devices of a pipeline's stages. */
typedef struct orr_stage_costs {
    uint32_t n_devices;
    const double *module_ns; /* shape (n_devices, row->n_modules): a micro-batch, both ways */
    const double *chunk_ns;  /* shape (n_devices): a micro-batch in a chunk, beside these */
    const uint8_t *device_of_stage; /* shape (pp) */
} orr_stage_costs;
/* Fills in the sections of a plan that says sections=balanced: the split in which the longest time
 * of a micro-batch in any stage is as short as it can be. First stages, which have most
 * micro-batches in flight, are left with less. With several chunks a stage layers count by their
 * mean. The arena is for scratch. INVALID: layers that do not fill the stages, or more than 8
 * sections; NO_MEMORY. */
orr_status orr_stages_split_by_cost(const orr_module_sequence *row, const orr_stage_costs *costs,
                                    orr_arena *arena, orr_plan *plan,
                                    orr_error *err) ORR_MUST_CHECK;

/* Time of a micro-batch in the places before the first layer, in all layers, and after the last. */
typedef struct orr_row_ends {
    uint32_t n_layers;
    int64_t head_ns, layers_ns, tail_ns;
} orr_row_ends;
orr_row_ends orr_row_ends_of(const orr_module_sequence *row, const orr_module_time *time);
/* Whether orr_stages_balance() may find a gain: an end of the pipeline is longer than the mean
 * stage. */
bool orr_stages_are_uneven(const orr_row_ends *ends, const orr_plan *plan);

/* Is it one of the transformer's layers? */
static inline bool orr_module_is_layer(uint8_t kind)
{
    return kind == ORR_MODULE_LAYER || kind == ORR_MODULE_MOE_LAYER ||
           kind == ORR_MODULE_CROSS_LAYER;
}
/* Is it a unit of FSDP, which is gathered and may be recomputed by itself? All else is in FSDP's
 * root unit. */
static inline bool orr_module_is_fsdp_unit(uint8_t kind)
{
    return orr_module_is_layer(kind) || kind == ORR_MODULE_BODY;
}
static inline bool orr_module_is_fsdp_unit_at(const orr_module_sequence *row, uint32_t place)
{
    return orr_module_is_fsdp_unit(row->modules[row->module_of[place]].kind);
}

#endif /* ORR_MODEL_MODULE_MODULE_H */
