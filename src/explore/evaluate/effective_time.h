/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H
#define ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H

#include <orrery/fleet.h>

/* Effective training time ratio (goodput): the share of wall time that is training which is not
 * lost to failures, for a job on so many devices in so many copies of the states. It is the better
 * of two recoveries: all ranks stop and restart from a checkpoint, or copies fail independently
 * (fleet.h). Copies beyond the largest number of replicas of a fleet are grouped. The Monte Carlo
 * simulation runs once for each pair and is cached. It takes the step time of the fleet's settings,
 * not the plan's, so that a plan with a shorter step always has the shorter job. Any thread may
 * call. */
typedef struct orr_effective_time orr_effective_time;
orr_status orr_effective_time_new(const orr_fleet_options *options, orr_effective_time **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_effective_time_free(orr_effective_time *effective); /* NULL is allowed */
orr_status orr_effective_time_frac(orr_effective_time *effective, uint32_t devices, uint32_t copies,
                                   double *ret, orr_error *err) ORR_MUST_CHECK;
/* The most that a job on so many devices can have, in any number of copies that divides `ranks`. */
orr_status orr_effective_time_most(orr_effective_time *effective, uint32_t devices, uint32_t ranks,
                                   double *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_EVALUATE_EFFECTIVE_TIME_H */
