/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_RESULTS_ROW_H
#define ORR_EXPLORE_RESULTS_ROW_H

#include "io/database/database.h"
#include "explore/results/store.h"

/* Binds a row of the tables of schema.h. `family` NULL: none. */
void orr_results_set_plan(orr_query *q, int64_t search, const char *family, const char *text,
                          const orr_explored *explored);
void orr_results_set_family(orr_query *q, int64_t search, const char *key,
                            const orr_family_result *family);
/* Reads a row with all columns, but for the plan itself. */
void orr_results_get_figures(const orr_query *q, orr_explored *ret);
void orr_results_get_family(const orr_query *q, orr_family_result *ret);

#endif /* ORR_EXPLORE_RESULTS_ROW_H */
