/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_SINGLE_H
#define ORR_EXPERTS_POLICY_SINGLE_H

#include "experts/policy/merge.h"

/* One copy of each expert of a layer. Letters: E experts, R ranks. */
typedef struct orr_single {
    orr_layer *layer;
    const orr_merge *merge; /* NULL: K is 1 */
    double even;            /* weight of the squares of rows */
    double saving;          /* of a pair that meets: see orr_merge_saving() */
    uint16_t *rank;         /* shape (E): of the copy; UINT16_MAX: missing */
    double *at;     /* shape (R, E): ns of the mean port where an expert's copy is on a rank,
                     * were each choice sent on its own */
    double *row_ns; /* shape (R, E): of a token of the sample, sent on from a rank */
    double *saved;  /* shape (R, E): of `at`, by the pairs with those that are there */
    double *there;  /* shape (R): scratch */
} orr_single;

orr_status orr_single_new(const orr_policy_problem *problem, const orr_merge *merge,
                          orr_arena *arena, orr_single *ret, orr_error *err) ORR_MUST_CHECK;

/* Places one copy of each expert of a layer that is not missing, of least smooth measure: first the
 * hottest experts, each where it costs least, then exchanges of two until none helps. Where tokens
 * have several choices, `merge` has the layer's. room: shape (R): most of a rank. missing: shape
 * (E) or NULL. False: the ranks that may have an expert are full. */
bool orr_single_place(orr_single *single, orr_layer *layer, const uint32_t *room,
                      const bool *missing, const volatile bool *stop);

#endif /* ORR_EXPERTS_POLICY_SINGLE_H */
