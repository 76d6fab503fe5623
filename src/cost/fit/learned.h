/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_LEARNED_H
#define ORR_COST_FIT_LEARNED_H

#include "cost/fit/data.h"
#include "cost/models/learned.h"

/* Trees for every family with enough shape groups, errors not filled in yet. remarks: shape
 * (ORR_FAMILIES), NULL where a family was not measured. NULL in *ret: no family had enough. */
orr_status orr_fit_learned(const orr_fit_data *data, orr_arena *arena, orr_fit_progress *progress,
                           orr_cost_learned **ret, const char *remarks[ORR_FAMILIES],
                           orr_error *err) ORR_MUST_CHECK;
/* Number of progress steps that it takes. */
uint64_t orr_fit_learned_steps(const orr_fit_data *data);

#endif /* ORR_COST_FIT_LEARNED_H */
