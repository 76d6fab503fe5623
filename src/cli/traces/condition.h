/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TRACES_CONDITION_H
#define ORR_CLI_TRACES_CONDITION_H

#include <orrery/report.h>

/* A --fail-if condition: TABLE.COLUMN OPERATOR NUMBER, e.g. temporal_breakdown.idle_frac>0.3.
 * Numbers are in the unit of the column (ns, bytes, bytes/s, a fraction), or carry their own:
 * 5us, 80GiB, 400Gbps, 30%. */
typedef struct orr_condition {
    const orr_analysis *analysis; /* NULL: no condition */
    char column[64];
    char op[3];
    char number[64]; /* read when the unit of the column is known */
    bool held;
    bool refused;      /* it does not fit its table: no such column, a number of another unit */
    char finding[256]; /* the first row that held it, in words */
} orr_condition;

/* The error of an option that names no analysis, with the closest name there is. */
orr_status orr_condition_unknown_analysis(const char *option, const char *word, orr_error *err);
/* `text` may be NULL. Errors: INVALID. */
orr_status orr_condition_parse(const char *text, orr_condition *ret, orr_error *err) ORR_MUST_CHECK;
bool orr_condition_applies_to(const orr_condition *condition, const char *analysis);
/* Hold a table against it, if it is the one. Errors: INVALID (no such column, or it is text). */
orr_status orr_condition_check(orr_condition *condition, const char *analysis,
                               const orr_table *table, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_TRACES_CONDITION_H */
