/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_PLAN_CHECK_H
#define ORR_RESCALE_PLAN_CHECK_H

#include <orrery/plan.h>

/* Plans that a recorded or synthetic job can have: data, tensor and pipeline parallelism in the
 * usual order, 1F1B or GPipe, alike stages. Beside what orr_plan_check() says, INVALID: anything
 * else that the plan asks for, by name; layers or vocabulary that do not divide. */
orr_status orr_rescale_check(const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_RESCALE_PLAN_CHECK_H */
