/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_BOUND_H
#define ORR_EXPERTS_POLICY_BOUND_H

#include "experts/policy/cost_model.h"

/* ns of a step that no placement of these layers is below whose ranks have at most room[r] slots
 * (shape (R)) as a mean of the layers; with `copies`, experts may have several. The sum of two
 * bounds:
 *
 *   rows:  of each layer the mean of the ranks, or the hottest expert in a copy on each.
 *   links: rows that must leave their rank, as a mean of the ports. At most so many can stay as in
 *          the Lagrangian relaxation of the assignment of experts to ranks: for prices v >= 0 of a
 *          rank's slots, sum of slots x v + sum over experts of what they keep, less prices, on the
 *          ranks that they take then; prices by subgradient steps. A token's choices on a remote
 *          rank are sent once, so that its dispatches count by min(K, slots of a rank).
 *
 * price, taken: scratch, shape (R). */
double orr_layers_bound(const orr_layer *layer, uint32_t layers, uint32_t top_k,
                        const uint32_t *room, bool copies, double *price, double *taken);

#endif /* ORR_EXPERTS_POLICY_BOUND_H */
