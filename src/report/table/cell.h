/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TABLE_CELL_H
#define ORR_REPORT_TABLE_CELL_H

#include <orrery/report.h>

#include "report/humanize/human.h"

/* One value of a table, widened to one of four shapes. What its column says stands for "not
 * known" (a NULL text, ORR_NONE as a U32, -1 as BYTES, 0 as BYTES_PER_S, a NaN) is CELL_NONE. */
typedef enum orr_cell_kind {
    ORR_CELL_NONE,
    ORR_CELL_TEXT,
    ORR_CELL_BOOL,
    ORR_CELL_INT,
    ORR_CELL_UINT,
    ORR_CELL_DOUBLE
} orr_cell_kind;

typedef struct orr_cell {
    orr_cell_kind kind;
    union {
        const char *text;
        bool truth;
        int64_t i64;
        uint64_t u64;
        double number;
    } as;
} orr_cell;

orr_cell orr_table_cell(const orr_table *table, size_t row, const orr_column *column);

/* As a number to sort by; 0 for what is none. */
double orr_cell_number(orr_cell cell);

/* Exact, for machines: "1234567", "0.123", "true"; the text itself; "" for NONE. `buf` is used for
 * numbers. The result lives in `buf` or in the row. */
const char *orr_cell_exact(const orr_cell *cell, char buf[ORR_HUMAN_MAX]);
/* For people, with unit: "1.235 ms", "yes", short_name() of a text is left to the caller. */
const char *orr_cell_human(const orr_cell *cell, orr_column_type type, char buf[ORR_HUMAN_MAX]);

/* "idle_ns" -> "idle", "overlap_frac" -> "overlap share": the heading for people, whose values show
 * units. */
void orr_column_heading(const orr_column *column, char buf[ORR_HUMAN_MAX]);
/* The table without the columns in which no row says anything, for people. `columns` is where the
 * others go and has to live as long as the result. */
enum { ORR_COLUMNS_MAX = 128 }; /* of any table; a test looks at them all */
orr_table orr_table_without_empty_columns(const orr_table *table,
                                          orr_column columns[ORR_COLUMNS_MAX]);
/* "text", "ns", ...: the type's name in machine formats. */
const char *orr_column_type_name(orr_column_type type);

#endif /* ORR_REPORT_TABLE_CELL_H */
