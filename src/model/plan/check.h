/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_PLAN_CHECK_H
#define ORR_MODEL_PLAN_CHECK_H

#include <orrery/plan.h>

/* Parts of orr_plan_check(): fields on sites and local steps; fields on stages of unequal depth;
 * micro-batches that differ by site.
 * INVALID, with the reason. */
orr_status orr_plan_check_sites(const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;
orr_status orr_plan_check_sections(const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;
orr_status orr_plan_check_site_micro_batches(const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_PLAN_CHECK_H */
