/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SIMULATE_PROGRAMS_H
#define ORR_SIM_SIMULATE_PROGRAMS_H

#include "sim/program/program.h"

/* orr_simulate() from programs on. `programs`: shape (D) of the ensemble; options are checked,
 * latencies known. */
orr_status orr_simulate_programs(const orr_ensemble *ensemble, const orr_sim_program *programs,
                                 const orr_sim_options *options, orr_arena *arena,
                                 orr_simulation *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_SIMULATE_PROGRAMS_H */
