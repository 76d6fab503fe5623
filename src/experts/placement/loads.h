/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_LOADS_H
#define ORR_EXPERTS_PLACEMENT_LOADS_H

#include <orrery/experts.h>

/* Whether loads have the layers of a placement, no more experts than it, and are finite and not
 * negative. INVALID otherwise, naming which. */
orr_status orr_loads_check(const orr_expert_windows *windows, const orr_expert_placement *placement,
                           orr_error *err) ORR_MUST_CHECK;
/* Loads of a layer, summed over the windows; without, counted in the routes. ret: shape (experts),
 * of which those beyond the windows' or the routes' are 0. */
void orr_layer_load(const orr_expert_windows *windows, const orr_routes *routes, uint32_t layer,
                    uint32_t experts, double *ret);

/* Loads of ranks by the shares of a layer: shape (R). Returns the sum. */
double orr_layer_rank_loads(const orr_expert_placement *placement, uint32_t layer,
                            const double *load, double *ret);
/* Ranks that have slots in some layer; the others are dead. */
uint32_t orr_placement_live_ranks(const orr_expert_placement *placement);
/* The largest of n loads over their mean over `live` ranks; 1 where all are 0. */
double orr_loads_imbalance(const double *load, uint32_t n, uint32_t live);

#endif /* ORR_EXPERTS_PLACEMENT_LOADS_H */
