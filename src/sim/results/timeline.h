/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_RESULTS_TIMELINE_H
#define ORR_SIM_RESULTS_TIMELINE_H

#include "sim/engine/engine.h"

/* Makes timelines of nodes from times of points, in the arena; begin, end and basis sums of the
 * whole. */
orr_status orr_timelines_of(const orr_engine *engine, const orr_fold *fold, orr_arena *arena,
                            orr_simulation *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_RESULTS_TIMELINE_H */
