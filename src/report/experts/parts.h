/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPERTS_PARTS_H
#define ORR_REPORT_EXPERTS_PARTS_H

#include "report/experts/experts.h"

/* A figure by layer. What is worst is the largest value, or where low_is_bad the smallest. of_next:
 * it is about the next layer too, so that without concentrated layers it is so without those that
 * come before one. */
typedef struct orr_experts_figure {
    const char *name;
    double (*get)(const orr_expert_layer_statistics *layer);
    bool low_is_bad, of_next;
} orr_experts_figure;
/* One that exists. */
const orr_experts_figure *orr_experts_figure_find(const char *name);
orr_status orr_experts_spread_of(const orr_expert_statistics *s, const orr_experts_figure *figure,
                                 orr_arena *arena, orr_expert_spread *ret_all,
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
