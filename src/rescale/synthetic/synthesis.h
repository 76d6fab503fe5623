/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_SYNTHETIC_SYNTHESIS_H
#define ORR_RESCALE_SYNTHETIC_SYNTHESIS_H

#include "rescale/emit/communication.h"
#include "model/plan/plan.h"

/* One rank of a synthetic job in the making. Letters: b samples a micro-batch, s tokens a sample,
 * h hidden, f feed-forward, v vocabulary, n heads, d columns of a head, t slices. */
typedef struct orr_synthesis {
    orr_emit e;
    orr_plan plan;                         /* complete */
    uint32_t stage, rank;                  /* rank ORR_NONE: any of the stage */
    const char *kineto_dtype, *comm_dtype; /* "c10::BFloat16", "BFloat16" */
    int64_t dtype_bytes;
    int64_t b, s, h, f, v, n, d, t;
    int64_t sequence; /* of autograd: next number of a forward operator */
    orr_group_id groups[ORR_PLAN_GROUPINGS];
    int64_t seq[ORR_PLAN_GROUPINGS]; /* next number of a communication */
    orr_rendezvous_ids rendezvous;
} orr_synthesis;

/* Parts of a step, each its operators, kernels and all-reduces. Forward: operators take the numbers
 * from `sequence` up; backward: those that the forward part had, `sequence` being its first. */
typedef struct orr_synthetic_part {
    void (*forward)(orr_synthesis *y);
    void (*backward)(orr_synthesis *y, int64_t sequence);
    uint32_t operators; /* numbers that the forward part takes */
} orr_synthetic_part;
extern const orr_synthetic_part orr_part_embedding, orr_part_layer, orr_part_head;

/* Parameters of a part, in one slice. */
int64_t orr_layer_parameters(const orr_synthesis *y);
int64_t orr_embedding_parameters(const orr_synthesis *y);
int64_t orr_head_parameters(const orr_synthesis *y);

/* The optimizer, over all parameters of the stage. */
void orr_part_optimizer(orr_synthesis *y, int64_t parameters);

/* Builds the graph of a stage of a complete plan; rank ORR_NONE: of any rank of the stage. The
 * caller frees *ret_meetings, whatever happens. */
orr_status orr_synthesis_build(const orr_synthetic *spec, const orr_plan *plan, uint32_t stage,
                               uint32_t rank, const orr_graph **ret,
                               orr_rendezvous_ids *ret_meetings, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_RESCALE_SYNTHETIC_SYNTHESIS_H */
