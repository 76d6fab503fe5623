/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_ENGINE_OPTIONS_H
#define ORR_SIM_ENGINE_OPTIONS_H

#include <orrery/sim.h>

/* Completes options with defaults and checks them. `given` may be NULL, or of an older header.
 * Errors: INVALID. */
orr_status orr_sim_options_complete(const orr_sim_options *given, orr_sim_options *ret,
                                    orr_error *err) ORR_MUST_CHECK;

/* A factor in millionths, rounded to nearest: the simulator computes with integers. */
static inline uint32_t orr_ppm(double factor)
{
    return (uint32_t)(factor * 1e6 + 0.5);
}

#endif /* ORR_SIM_ENGINE_OPTIONS_H */
