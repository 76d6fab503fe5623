/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_REBALANCE_H
#define ORR_ENGINE_GENERATE_REBALANCE_H

#include "engine/generate/experts.h"

/* Moves experts between ranks as the loads of a run change. All ranks call
 * orr_rebalancer_round() between the same two rounds. */
typedef struct orr_rebalance_options {
    uint64_t every;    /* rounds from one look at the loads to the next */
    double step_bytes; /* most bytes of weights that a rank sends or receives between two rounds,
                        * but one expert at least; 0: all at once */
    double tolerance;  /* a placement this much costlier than a fresh one will do */
    uint8_t policy;    /* orr_expert_policy of the fresh one */
} orr_rebalance_options;
typedef struct orr_rebalanced {
    uint64_t looks, plans,
        steps; /* looks at the loads; those after which experts moved; gaps
                * between rounds in which they did. Of rank 0: all have as many */
    uint64_t moved, bytes[ORR_WIRE_LEVELS]; /* experts that this rank sent, and their weights */
    int64_t pause_ns;                       /* longest gap between rounds here */
} orr_rebalanced;

typedef struct orr_rebalancer orr_rebalancer;
orr_status orr_rebalancer_new(orr_generator *g, const orr_rebalance_options *options,
                              orr_rebalancer **ret, orr_error *err) ORR_MUST_CHECK;
void orr_rebalancer_free(orr_rebalancer *rebalancer); /* NULL is allowed */
/* Counts what a backbone chose. */
void orr_rebalancer_count(orr_rebalancer *rebalancer, const orr_generator *g,
                          const orr_backbone *backbone);
/* Looks at the loads, or makes a step of moves. Errors: of the transport; after one the run ends.
 */
orr_status orr_rebalancer_round(orr_rebalancer *rebalancer, orr_generator *g,
                                orr_error *err) ORR_MUST_CHECK;
orr_rebalanced orr_rebalancer_total(const orr_rebalancer *rebalancer);

#endif /* ORR_ENGINE_GENERATE_REBALANCE_H */
