/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STEP_H
#define ORR_STEP_H

#include <stdint.h>

#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Vocabulary of a training step: where its time goes, at which detail it is built, and what its
 * nodes are. */

/* The waterfall: a step's time split by cause, from the ideal time of its FLOPs at the device's
 * peak to the whole step. Means over all ranks; the parts add up to the step. */
#define ORR_WATERFALL_MAP(X)                                                                       \
    X(IDEAL, "model FLOPs at peak")  /* of the model, once; see orr_model_flops()    */            \
    X(KERNELS, "kernels below peak") /* what computation takes longer than that      */            \
    X(RECOMPUTE, "computed again")                                                                 \
    X(TP, "tensor-parallel transfers") /* exposed: nothing was computed beside them    */          \
    X(CP, "context-parallel transfers")                                                            \
    X(EP, "expert-parallel transfers")                                                             \
    X(PP, "transfers between stages") X(DP, "gradients and weights")                               \
        X(BUBBLE, "pipeline bubble") /* idle, waiting for another stage              */            \
        X(OPTIMIZER, "optimizer") X(OVERHEAD, "overhead") /* of host and step, jitter         */   \
        X(TIERS, "rows from storage") /* not fetched in time: embedding tables outside memory */
typedef enum orr_waterfall {
#define ORR_WATERFALL_ENUM_(name, text) ORR_WATERFALL_##name,
    ORR_WATERFALL_MAP(ORR_WATERFALL_ENUM_)
#undef ORR_WATERFALL_ENUM_
        ORR_WATERFALLS
} orr_waterfall;
ORR_API const char *orr_waterfall_name(orr_waterfall part);

/* Detail of a step's graph. The step's time is the same in each, to the ns, unless transfers
 * overlap computation within a module. */
#define ORR_DETAIL_MAP(X)                                                                          \
    X(CHUNK, "chunk")       /* a node for each slot of a stage, transfers between them */          \
    X(LAYER, "layer")       /* for each module of a slot                               */          \
    X(OPERATOR, "operator") /* for each call                                           */
typedef enum orr_detail {
#define ORR_DETAIL_ENUM_(name, text) ORR_DETAIL_##name,
    ORR_DETAIL_MAP(ORR_DETAIL_ENUM_)
#undef ORR_DETAIL_ENUM_
} orr_detail;

/* What a node of the ensemble's graphs is: for timelines and for the waterfall. */
typedef struct orr_step_node {
    uint8_t part;  /* orr_waterfall: KERNELS for computation, TP...                     */
    uint8_t phase; /* orr_slot_phase of <orrery/plan.h>                                 */
    uint16_t chunk;
    uint32_t micro_batch; /* ORR_NONE: of the step                                             */
} orr_step_node;

#ifdef __cplusplus
}
#endif

#endif /* ORR_STEP_H */
