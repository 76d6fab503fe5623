/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_EFFECTS_FLOW_EFFECTS_H
#define ORR_SIM_EFFECTS_FLOW_EFFECTS_H

#include <orrery/status.h>

/* Published effects once more, by flows over paths (path_flows.h) in place of formulas: the number
 * of the row, in its unit. Errors: NO_MEMORY. */
typedef orr_status orr_flow_effect(double *ret, orr_error *err) ORR_MUST_CHECK;
orr_flow_effect orr_flow_effect_ecmp, orr_flow_effect_queue_pairs, orr_flow_effect_central,
    orr_flow_effect_central_failed, orr_flow_effect_bounded, orr_flow_effect_chunk,
    orr_flow_effect_half_window, orr_flow_effect_plane;
/* Mean time of as many connections, in 16 queue pairs each hashed onto 16 paths, over that of an
 * even load: the same for any bandwidth of the paths, if ports are no narrower than their share. */
orr_status orr_flow_effect_collisions(uint32_t connections, double *ret,
                                      orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_EFFECTS_FLOW_EFFECTS_H */
