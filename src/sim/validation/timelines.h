/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_VALIDATION_TIMELINES_H
#define ORR_SIM_VALIDATION_TIMELINES_H

#include <orrery/sim.h>

#include "sim/program/streams.h"

/* What the comparison of a simulation with its recording and the explanation of deviations
 * share. */

/* Is it a simulation of this very job? */
bool orr_simulation_is_of_job(const orr_job *job, const orr_simulation *simulation);
/* Timeline of the rank that a graph of the job was recorded on; NULL: not simulated. */
const orr_timeline *orr_simulation_timeline_of(const orr_job *job, const orr_simulation *simulation,
                                               uint32_t graph);

#endif /* ORR_SIM_VALIDATION_TIMELINES_H */
