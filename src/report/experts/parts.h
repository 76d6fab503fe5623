/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPERTS_PARTS_H
#define ORR_REPORT_EXPERTS_PARTS_H

#include "report/experts/experts.h"

/* A figure by layer, as a function of a row. */
typedef double (*orr_experts_figure)(const orr_expert_layer_statistics *layer);
orr_status orr_experts_spread_of(const orr_expert_statistics *s, orr_experts_figure figure,
                                 bool low_is_bad, orr_arena *arena, orr_expert_spread *ret_all,
                                 orr_expert_spread *ret_without, orr_error *err) ORR_MUST_CHECK;

/* Statistics: figures, spread, layers, kinds, shift, windows. */
orr_status orr_experts_statistics_tables(const orr_experts_report *report, orr_arena *arena,
                                         orr_named_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_experts_kind_table(const orr_experts_report *report, orr_arena *arena,
                                  orr_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_experts_shift_table(const orr_experts_report *report, orr_arena *arena,
                                   orr_table *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_experts_window_table(const orr_experts_report *report, orr_arena *arena,
                                    orr_table *ret, orr_error *err) ORR_MUST_CHECK;
/* Placements: policies, placed layers, ranks, moves. */
orr_status orr_experts_plan_tables(const orr_experts_report *report, orr_arena *arena,
                                   orr_named_table ret[ORR_EXPERTS_PLAN_TABLES],
                                   orr_error *err) ORR_MUST_CHECK;

/* Imbalance of a layer where the report's ranks hold neighbouring experts. */
double orr_experts_linear_imbalance(const orr_experts_report *report, uint32_t layer);
/* The row of statistics->imbalance for the report's ranks; NULL: none. */
const orr_expert_linear_imbalance *orr_experts_imbalance_row(const orr_experts_report *report);
/* Bytes of a step at a level (0: within hosts), dispatch and combine; of all tokens where no costs
 * are known, in rows. */
double orr_experts_step_bytes(const orr_experts_report *report, const orr_expert_quality *quality,
                              int level);

#endif /* ORR_REPORT_EXPERTS_PARTS_H */
