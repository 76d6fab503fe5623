/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_RESULTS_ENERGY_H
#define ORR_SIM_RESULTS_ENERGY_H

#include "sim/engine/engine.h"

/* Energy of one rank's device over the span of the simulation (begin and end of `simulation` are
 * known, and its timelines):
 *
 *   power_w * busy + idle_power_w * (span - busy)
 *
 * busy: while anything runs on any stream of the rank; a rank has one device, and a busy device
 * draws its full power (assumed: an upper bound). Data sheets hardly ever give idle power: 15 %
 * of its power then (assumed). NAN stays where its power is unknown. `device`: of ranks whose
 * graph has none of its own. Errors: NO_MEMORY. */
orr_status orr_energy_of(const orr_engine *engine, const orr_device *device,
                         const orr_simulation *simulation, orr_timeline *timelines,
                         orr_error *err) ORR_MUST_CHECK;

/* Simulated work by the basis of its durations, summed over all ranks: device work and
 * communications by their length (of a rendezvous the transfer, without the wait for its
 * members); host nodes without the nodes nested in them, waits in synchronising calls included.
 * Sums saturate. */
void orr_basis_sums(const orr_engine *engine, const orr_timeline *timelines,
                    int64_t basis_ns[ORR_BASES]);

#endif /* ORR_SIM_RESULTS_ENERGY_H */
