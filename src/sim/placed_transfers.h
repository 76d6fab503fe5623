/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PLACED_TRANSFERS_H
#define ORR_SIM_PLACED_TRANSFERS_H

#include <orrery/ensemble.h>

#include "cost/collective/transfer.h"

/* The transfers of a recorded job and the ranks that they are among, as recorded and in an ensemble
 * of the same graphs on more or fewer ranks. What one member of a collective did not record another
 * one tells. */
typedef struct orr_transfer_placer {
    const orr_ensemble *recorded, *now;
    const orr_transfer *const *transfers;     /* shape (D)(C_d), of `recorded` */
    const uint32_t *rank_recorded, *rank_now; /* shape (D): the first that runs it, or ORR_NONE */
} orr_transfer_placer;

/* `recorded` NULL: `now` is the recording. In the arena. Errors: NO_MEMORY. */
orr_status orr_transfer_placer_init(orr_transfer_placer *placer, const orr_ensemble *recorded,
                                    const orr_ensemble *now, orr_arena *arena,
                                    orr_error *err) ORR_MUST_CHECK;
/* The communication of node `v` of graph `d`; ranks are in the ensembles or in the arena. */
orr_status orr_place_transfer(const orr_transfer_placer *placer, uint32_t d, orr_node_id v,
                              orr_arena *arena, orr_placed_transfer *ret_was,
                              orr_placed_transfer *ret_is, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_PLACED_TRANSFERS_H */
