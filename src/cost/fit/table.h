/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_TABLE_H
#define ORR_COST_FIT_TABLE_H

#include "cost/fit/data.h"

/* The table of all families, errors not filled in yet. remarks: shape (ORR_FAMILIES), NULL where
 * a family was not measured. NULL in *ret: there is nothing to put into it. */
orr_status orr_fit_table(const orr_fit_data *data, orr_arena *arena, orr_cost_table **ret,
                         const char *remarks[ORR_FAMILIES], orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_COST_FIT_TABLE_H */
