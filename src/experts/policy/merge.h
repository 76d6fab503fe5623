/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_MERGE_H
#define ORR_EXPERTS_POLICY_MERGE_H

#include "experts/policy/cost_model.h"

/* A token is sent once to a rank, however many of its choices are there: what experts save by
 * standing together, counted on the sample of one layer while each expert has one copy. */
typedef struct orr_merge {
    uint32_t n, k;
    const uint16_t *from; /* shape (n) */
    uint16_t *expert;     /* shape (n, K) */
    uint16_t *to;         /* shape (n, K): rank of a choice; UINT16_MAX: nowhere */
    uint32_t *begin; /* shape (E + 1): the tokens of expert e are [begin[e], begin[e + 1]) of */
    uint32_t *token; /* shape (n x K) */
    float *remote, *apart; /* shape (E, R): tokens of an expert that are not on a rank; those of
                            * them that no other choice sends there */
    double rows;           /* of a step, that a token of the sample stands for */
} orr_merge;

/* Room for any layer of the flows; flows->sampled > 0. */
orr_status orr_merge_new(const orr_flows *flows, const orr_layer_costs *costs, orr_arena *arena,
                         orr_merge *ret, orr_error *err) ORR_MUST_CHECK;
/* The tokens of a layer. */
void orr_merge_load(orr_merge *merge, const orr_flows *flows, uint32_t layer);
/* Where choices go by the layer's copies (the own rank's, else one in turn); counts anew and sets
 * layer->apart. */
void orr_merge_place(orr_merge *merge, orr_layer *layer);
/* Moves expert e to rank b and f (UINT32_MAX: none) to rank a; both have one copy. Returns by how
 * many ns the dispatches of all ranks change. Called again with the ranks exchanged it is undone.
 */
double orr_merge_move(orr_merge *merge, orr_layer *layer, uint32_t e, uint32_t b, uint32_t f,
                      uint32_t a);

#endif /* ORR_EXPERTS_POLICY_MERGE_H */
