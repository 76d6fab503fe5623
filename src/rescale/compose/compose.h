/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_COMPOSE_COMPOSE_H
#define ORR_RESCALE_COMPOSE_COMPOSE_H

#include "rescale/recognise/input_dims.h"
#include "rescale/plan/price.h"

/* Where a node of a composed graph comes from. */
typedef struct orr_origin {
    uint32_t graph; /* of the job; ORR_NONE: inserted */
    orr_node_id node;
    bool changed; /* its shapes are not those recorded */
} orr_origin;
typedef orr_array(orr_origin) orr_origins;

/* One stage of the new plan in the making, out of the pieces of a survey. */
typedef struct orr_composer {
    const orr_survey *s;
    const orr_ensemble *base; /* the recording: durations of transfers without the waiting */
    const orr_pricing *pricing;
    orr_plan from, to;
    orr_transfer_pricer *pricers; /* shape (2): of the recorded network, and of the new one */
    orr_arena *arena;             /* of what is kept */
    orr_findings *findings;
    orr_error *err;

    int64_t compute_stream;              /* number of the stream with most kernels             */
    int64_t role_stream[ORR_COMM_ROLES]; /* as recorded, else the one of an inserted one       */

    orr_emit e;
    uint32_t stage;
    orr_group_id groups[ORR_PLAN_GROUPINGS];
    int64_t seq[ORR_PLAN_GROUPINGS];
    orr_rendezvous_ids rendezvous;
    orr_origins origins;          /* shape (nodes) */
    orr_node_id *made;            /* scratch: recorded node -> its copy in the piece at hand */
    uint32_t micro_batch;         /* of the new plan, of the turn at hand */
    uint64_t inserted, dropped;   /* communications */
    uint64_t unknown_shapes;      /* shapes that were not understood, and stay as recorded */
    const char *first_unknown_op; /* the first of them */
} orr_composer;

/* A copy of the piece behind what was written last. `gradients`: parameters of the part that its
 * all-reduce is for, before and now (0: not of that kind). */
typedef struct orr_ratio {
    int64_t now, before;
} orr_ratio;
orr_status orr_compose_copy_piece(orr_composer *c, const orr_profiled_step *step,
                                  const orr_step_piece *piece, orr_ratio parameters) ORR_MUST_CHECK;
/* A communication that the recording does not have. `like`: a piece whose type of numbers it
 * takes. */
orr_status orr_compose_insert(orr_composer *c, orr_comm_role role, const orr_profiled_step *step,
                              const orr_step_piece *like, int64_t elements,
                              const char *dims) ORR_MUST_CHECK;
/* The same of activations: (samples, tokens, hidden columns). */
orr_status orr_compose_insert_hidden(orr_composer *c, orr_comm_role role,
                                     const orr_profiled_step *step,
                                     const orr_step_piece *like) ORR_MUST_CHECK;
/* Where it meets its partners. */
orr_rendezvous_id orr_compose_rendezvous(const orr_composer *c, orr_comm_role role, int64_t seq);
int64_t orr_compose_next_seq(orr_composer *c, orr_comm_role role);
bool orr_role_is_to_next_stage(orr_comm_role role); /* between this stage and the next */
uint32_t orr_compose_peer(const orr_composer *c, orr_comm_role role);
static inline uint32_t orr_grouping_of_role(orr_comm_role role)
{
    return role == ORR_ROLE_TP   ? ORR_GROUPING_TP
           : role == ORR_ROLE_DP ? ORR_GROUPING_DP
                                 : ORR_GROUPING_PP;
}

/* Parameters of a part of a stage, in one slice, as recorded and in the new plan. */
orr_ratio orr_compose_parameters(const orr_composer *c, const orr_profiled_step *step,
                                 orr_model_part_kind part, int32_t layer);

/* "Input Dims" in the new plan. *ret: the same text where nothing changes. */
orr_status orr_compose_dims(orr_composer *c, const orr_step_piece *piece, const char *op,
                            uint32_t mm, const char *text, orr_ratio parameters,
                            const char **ret) ORR_MUST_CHECK;

/* The whole stage: one step. */
orr_status orr_compose_stage(orr_composer *c, uint32_t stage, const orr_graph **ret) ORR_MUST_CHECK;
/* Durations of its nodes. */
orr_status orr_compose_price(orr_composer *c, const orr_graph *made, int64_t *duration_ns,
                             uint8_t *basis, orr_rescaled *count) ORR_MUST_CHECK;
void orr_compose_done(orr_composer *c);

#endif /* ORR_RESCALE_COMPOSE_COMPOSE_H */
