/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_MODULE_H
#define ORR_MODEL_MODULE_MODULE_H

#include <orrery/cost.h>
#include <orrery/model.h>
#include <orrery/op.h>

#include "model/shard/shard.h"

/* Modules: what a model is a row of (embedding, layers, head), each as a tape of one micro-batch
 * on one rank, already sharded: collectives are calls like others. A kind of module is built
 * once, whatever the number of layers.
 *
 * A tape is that of any rank: what differs from rank to rank (where its rows of a table begin,
 * which position its first token has) is left at 0, and orr_module_specialize() fills it in. A SEND
 * along CP is a turn of a ring: a rank gives its keys or values to the next, and has those of the
 * one before. `overlap` of a call: Megatron-LM runs it beside a product, or the plan says so; a
 * plan's overlap_tp, transfers cut in pieces, is not on the tape. Weights of products in 8 bits or
 * fewer have that dtype on the tape: they are quantised once a step, behind the optimizer. */
#define ORR_MODULE_MAP(X)                                                                          \
    X(VISION, "vision encoder")                                                                    \
    X(EMBEDDING, "embedding") X(LAYER, "layer") X(MOE_LAYER, "expert layer")                       \
        X(CROSS_LAYER, "cross-attention layer") X(MTP, "multi-token prediction") X(HEAD, "head")   \
            X(BODY, "body")
typedef enum orr_module_kind {
#define ORR_MODULE_ENUM_(name, text) ORR_MODULE_##name,
    ORR_MODULE_MAP(ORR_MODULE_ENUM_)
#undef ORR_MODULE_ENUM_
} orr_module_kind;

/* What a kernel does that is more than one call. */
typedef struct orr_module_kernel {
    bool part;  /* the call is done in the kernel of another one                              */
    bool chain; /* the kernel of this call does others too: what all of them come to          */
    double flops, read_bytes, write_bytes; /* of a chain */
} orr_module_kernel;

/* A dim that is not sliced into equal pieces of one tensor. */
typedef struct orr_packed_dim {
    uint8_t dim;
    uint8_t joined; /* > 1: so many tensors side by side (gates and ups), each of which is sliced */
    uint32_t copies; /* > 1: so many slices share a group of heads: `lead` columns of it are dealt
                      * to them, and each has the `shared` ones behind these (key and value) */
    int64_t lead, shared;
    int64_t real; /* > 0: without what pads it to equal slices                                   */
} orr_packed_dim;

/* How a value lies on ranks: of what no call makes, and of what comes in and goes out. */
typedef struct orr_value_placement {
    orr_value value;
    orr_type whole; /* on one device, without padding and copies */
    orr_layout layout;
    orr_packed_dim form;
} orr_value_placement;

typedef struct orr_module {
    uint8_t kind; /* orr_module_kind                                             */
    const char *name;
    const orr_tape *tape; /* forward; then, unless it is inference, recomputation and backward   */
    orr_value in, out;    /* what comes from the module before, and goes to the next; ORR_NONE   */
    orr_value grad_in, grad_out; /* the gradient that it gives back, and the one that it gets  */
    orr_value loss, loss_seed;   /* of each token, and the derivative of what is minimised by it;
                                  * or ORR_NONE                                               */
    bool recomputed; /* what its backward pass needs is computed again (full)            */
    const orr_module_kernel *kernels; /* shape (tape->n_calls): where elementwise work is fused; or
                                       * NULL: every call is a kernel                           */
    const orr_value_placement
        *holdings; /* shape (n_holdings): what orr_module_local_shard() goes by  */
    uint32_t n_holdings;
    uint32_t members[ORR_AXES]; /* of each axis; 1 where this module is on all alike           */
} orr_module;
/* orr_work_of_call() of the kernel that runs at the call. false, *ret as it was: none does, another
 * call's kernel has done it. */
bool orr_module_work(const orr_module *module, uint32_t call, orr_work *ret);

typedef struct orr_module_sequence {
    const orr_module *modules; /* shape (n_modules): kinds, each also as recomputed where only some
                                * layers of a chunk are (plan.recompute_layers)                  */
    uint32_t n_modules;
    uint32_t n;               /* places: what the model is a row of                             */
    const uint8_t *module_of; /* shape (n): module of a place; recompute=full: recomputed       */
    const uint8_t *again_of;  /* shape (n): recompute=block: of a place that is recomputed; else
                               * the same number                                               */
    int64_t boundary_bytes;   /* what goes from stage to stage, of one micro-batch and rank     */
    double imbalance;         /* of experts, already in the tapes                               */
} orr_module_sequence;

/* `model` with the plan's changes, `plan` completed and checked. In the arena. Rows go forward
 * alone with PREFILL and DECODE. PREFILL with a prompt serves: the head gives the last token's
 * logits; without one it scores: the plan's tokens, each with its loss. A vision encoder is
 * several places before the embedding, where the workload has images. Errors: INVALID: what does
 * not divide; UNSUPPORTED: a model or a task that cannot be built so, with the reason;
 * NO_MEMORY. */
orr_status orr_modules_build(const orr_model *model, const orr_plan *plan,
                             const orr_workload *workload, orr_arena *arena,
                             orr_module_sequence *ret, orr_error *err) ORR_MUST_CHECK;

/* Which places of the row each chunk of each stage has. */
typedef struct orr_stage_map {
    uint32_t stages, chunks;
    const uint32_t *first; /* shape (stages * chunks + 1), by virtual stage: places first[k] ..
                            * first[k + 1] - 1                                            */
} orr_stage_map;
/* Layers dealt evenly over virtual stages, a remainder to the middle ones, unless the plan says
 * first_layers and last_layers of the first and last stage, or sections of all; embedding (and
 * vision) with the first, head and MTP with the last. With DualPipe `chunks` is 1: its stages hold
 * virtual stage k of one direction and its counterpart of the other. INVALID: stages that would
 * have nothing, not even an end of the row; more or fewer layers at the ends than there are. */
orr_status orr_stage_map_make(const orr_module_sequence *row, const orr_plan *plan,
                              orr_arena *arena, orr_stage_map *ret, orr_error *err) ORR_MUST_CHECK;

/* One of the transformer's layers. */
static inline bool orr_module_is_layer(uint8_t kind)
{
    return kind == ORR_MODULE_LAYER || kind == ORR_MODULE_MOE_LAYER ||
           kind == ORR_MODULE_CROSS_LAYER;
}
/* What is gathered by itself and may be computed again by itself; all else is FSDP's root. */
static inline bool orr_module_is_fsdp_unit(uint8_t kind)
{
    return orr_module_is_layer(kind) || kind == ORR_MODULE_BODY;
}
static inline bool orr_module_is_fsdp_unit_at(const orr_module_sequence *row, uint32_t place)
{
    return orr_module_is_fsdp_unit(row->modules[row->module_of[place]].kind);
}

#endif /* ORR_MODEL_MODULE_MODULE_H */
