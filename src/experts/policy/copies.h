/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_COPIES_H
#define ORR_EXPERTS_POLICY_COPIES_H

#include "experts/policy/cost_model.h"

/* Copies of experts, beyond the one that each has. */

/* Fills the ranks up, one copy after the other, each where the smooth measure falls most: CRAFT's
 * idea (arXiv 2603.28768), by seconds. room: shape (R), slots of a rank in a layer, as a mean over
 * the layers; with `even` in each of them. */
orr_status orr_copies_allot(orr_layer *layer, uint32_t layers, const uint32_t *room, bool even,
                            const volatile bool *stop, orr_arena *arena,
                            orr_error *err) ORR_MUST_CHECK;

/* Lowers the smooth measure by single changes that keep each rank's number of slots: another copy
 * for one that is not the last of its expert, exchanges of two copies. At most `trials` are looked
 * at. */
void orr_copies_improve(orr_layer *layer, uint64_t trials, const volatile bool *stop);
/* Lowers the step's measure by exchanges with the rank whose port or whose rows bound it. */
void orr_copies_relieve(orr_layer *layer, uint64_t trials, const volatile bool *stop);

/* Shares of the copies that even out the rows of ranks: shape (E, R), at the places of
 * layer->copy. */
void orr_copies_share(const orr_layer *layer, double *rows, float *ret);

#endif /* ORR_EXPERTS_POLICY_COPIES_H */
