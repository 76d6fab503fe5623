/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_SINGLE_H
#define ORR_EXPERTS_POLICY_SINGLE_H

#include "experts/policy/merge.h"

/* One copy of each expert of a layer that is not missing, of least smooth measure: first the
 * hottest experts, each where it costs least, then exchanges of two until none helps. merge: NULL
 * where K is 1. room: shape (R): most of a rank. missing: shape (E) or NULL. False: the ranks that
 * may have an expert are full. */
bool orr_place_single(orr_layer *layer, orr_merge *merge, const uint32_t *room, const bool *missing,
                      const volatile bool *stop);

#endif /* ORR_EXPERTS_POLICY_SINGLE_H */
