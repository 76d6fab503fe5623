/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H
#define ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H

#include <orrery/fleet.h>

/* Share of time that is training that stands, of a job on so many devices in so many copies: the
 * better of all stopping and restarting, and of copies that fail for themselves (fleet.h); copies
 * beyond what a fleet knows are taken together. Simulated once for each pair and remembered; it
 * does not depend on the plan's step: that of the fleet's own times is taken, so that a shorter
 * step is always the shorter job. Any number of threads. */
typedef struct orr_effective_time orr_effective_time;
orr_status orr_effective_time_new(const orr_fleet_options *options, orr_effective_time **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_effective_time_free(orr_effective_time *effective); /* NULL is allowed */
orr_status orr_effective_time_frac(orr_effective_time *effective, uint32_t devices, uint32_t copies,
                                   double *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H */
