/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TABLE_TABLE_H
#define ORR_REPORT_TABLE_TABLE_H

#include <orrery/report.h>

#include "io/stream/output.h"

/* Write a table. TEXT is for people: aligned, units made readable, names cut to the width
 * (0: not cut), colour when asked. JSON is one object {"schema":..., "columns":[...],
 * "rows":[{...}]}; CSV and MARKDOWN carry machine names and values. */
typedef struct orr_table_style {
    orr_table_format format;
    int width; /* of the terminal; 0: unlimited */
    bool color;
    size_t max_rows;  /* TEXT: then "... and 12 more"; 0: all */
    bool no_formulas; /* CSV: a text that a spreadsheet would run has a ' in front */
} orr_table_style;

void orr_table_write(const orr_table *table, const orr_table_style *style, orr_output *out);

/* Members of a JSON object that is open, a table each; renamed ones under both names. */
void orr_named_tables_write_json(const orr_named_table *tables, size_t n, orr_output *out);

#endif /* ORR_REPORT_TABLE_TABLE_H */
