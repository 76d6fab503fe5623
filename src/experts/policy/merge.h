/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_MERGE_H
#define ORR_EXPERTS_POLICY_MERGE_H

#include "experts/policy/cost_model.h"

/* A token is sent once to a rank, however many of its choices are there: what experts save by
 * standing together, from how often the tokens of a sample chose each two of them. */
typedef struct orr_merge {
    uint32_t n, k, experts;
    uint16_t *expert; /* shape (n, K) */
    uint32_t *count;  /* shape (E, E): scratch */
    float *chosen;    /* shape (E): tokens that chose an expert */
    float *pair;      /* shape (E, E): tokens that chose both; 0 on the diagonal */
    double rows;      /* of a step, that a token of the sample stands for */
} orr_merge;

/* Room for any layer of the flows; flows->sampled > 0. */
orr_status orr_merge_new(const orr_flows *flows, const orr_layer_costs *costs, orr_arena *arena,
                         orr_merge *ret, orr_error *err) ORR_MUST_CHECK;
/* Counts the tokens of a layer. */
void orr_merge_load(orr_merge *merge, const orr_flows *flows, uint32_t layer);
/* Of the pairs that meet on a rank, the share that saves a row: all but one of a token's choices
 * there do, and three of them are three pairs. rank_of: shape (E). */
double orr_merge_saving(const orr_merge *merge, const uint16_t *rank_of);
/* Sets layer->apart by the layer's copies, as if a token's choices were independent given one. */
void orr_merge_place(const orr_merge *merge, orr_layer *layer);

#endif /* ORR_EXPERTS_POLICY_MERGE_H */
