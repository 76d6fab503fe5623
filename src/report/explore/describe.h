/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_EXPLORE_DESCRIBE_H
#define ORR_REPORT_EXPLORE_DESCRIBE_H

#include <orrery/report.h>

#include "report/humanize/human.h"

/* Words for what a search says. Texts are in the arena; NULL: out of memory. */

/* A plan without what is the default: short, and the same plan when it is read again. */
const char *orr_plan_short_text(const orr_plan *plan, orr_arena *arena);
/* "pp 16 -> 8, dp 128 -> 256, zero none -> 1"; "nothing" of two that are the same. */
const char *orr_plan_differences(const orr_plan *from, const orr_plan *to, orr_arena *arena);

/* A value of an objective with its unit: "8.210 s", "54.2 days", "12.3 M USD", "1.20 GWh",
 * "16,384". */
char *orr_objective_human(orr_objective objective, double value, char buf[ORR_HUMAN_MAX]);

/* How the search ended: "optimal", "within the gap", "stopped before the gap was reached", "stopped
 * before a plan was found", "interrupted", "no feasible plan". */
const char *orr_explore_status(const orr_explore_report *report);

/* What limits a plan, largest first: parts of its step by what they are, then memory. */
typedef struct orr_explore_bottleneck {
    const char *limit; /* "computation", "pipeline bubble", "gradients and weights", ... */
    const char *where; /* level or cut that it crosses, stage whose memory it is; "" */
    int64_t ns;        /* of the step; 0: none of it */
    double share_frac; /* of the step; of the memory of a device */
} orr_explore_bottleneck;
enum { ORR_EXPLORE_BOTTLENECKS = 11 };
/* Shape (ORR_EXPLORE_BOTTLENECKS); returns how many, 0: out of memory. Memory is the last. */
uint32_t orr_explore_bottlenecks(const orr_outcome *outcome, orr_arena *arena,
                                 orr_explore_bottleneck *ret);
/* What an alternative pays most for, and how much more than the winner; NULL: nothing. */
const char *orr_explore_largest_penalty(const orr_outcome *winner, const orr_outcome *other,
                                        int64_t *ret_ns);
/* "rtt at most 0.41 x, or bandwidth at least 2.3 x"; "": no factor alone, up to 16 either way. */
const char *orr_explore_break_even_text(const orr_sensitivity *sensitivity, uint32_t plan,
                                        orr_arena *arena);

/* The objective of the best plan: found, or else published; NAN: there is neither. */
double orr_explore_best_value(const orr_explore_report *report);
/* The highest published share of the peak of the plan's class, by its precision; NAN: none. */
double orr_explore_record_of(const orr_explore_report *report, const orr_plan *plan);
/* "MFU 61.2 % is above all that was published of dense training on h100 in bf16 (55.5 %)" with the
 * source; "": it is not, or nothing was published. */
const char *orr_explore_record_warning(const orr_explore_report *report, orr_arena *arena);
/* "16 plans cannot be told from the best (...); the least regret over 200 draws of the calibration
 * has plan 2: ..."; "": nothing was decided. `plan` is what stands before a place: "plan ". */
const char *orr_explore_set_text(const orr_explore_report *report, orr_arena *arena);
/* "in fp8 it would take 3.44 s (-21.4 %), with other numerics: --allow fp8"; "": not known. */
const char *orr_explore_fp8_text(const orr_explore_report *report, orr_arena *arena);
/* "deepseek_v3 18.4 s (+5.1 %), place 7, ...; measured 19.9 s". */
const char *orr_explore_published_text(const orr_explore_report *report,
                                       const orr_published_result *published, orr_arena *arena);
/* How many plans of the answer are better than a published one, plus 1. */
uint32_t orr_explore_published_place(const orr_explore_report *report,
                                     const orr_published_result *published);
/* Whether the published plan cannot be told from the best. */
bool orr_explore_published_in_set(const orr_explore_report *report,
                                  const orr_published_result *published);
/* The place of a plan of the answer among those, best first, from 1. */
uint32_t orr_explore_answer_place(const orr_explore_report *report, uint32_t plan);
bool orr_explore_same_plan(const orr_plan *a, const orr_plan *b);

#endif /* ORR_REPORT_EXPLORE_DESCRIBE_H */
