/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_TABLES_SOLVE_H
#define ORR_EXPLORE_TABLES_SOLVE_H

#include "explore/tables/planner.h"

typedef struct orr_table_solution {
    orr_table_assignment assignment;
    double ns;               /* without latencies; INFINITY: no plan was found */
    bool optimal;            /* by exhaustion; with `ns` INFINITY: there is none */
    orr_table_budget budget; /* what was spent */
} orr_table_solution;
orr_status orr_table_solve(const orr_table_problem *p, const orr_table_bound *bound,
                           orr_arena *arena, orr_table_solution *ret,
                           orr_error *err) ORR_MUST_CHECK;

/* Fills in plan, times, ranks and choices of a result from an assignment. */
orr_status orr_table_explain(const orr_table_problem *p, const orr_table_assignment *a,
                             double ns_per_byte, orr_arena *arena, orr_table_planning *ret,
                             orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_TABLES_SOLVE_H */
