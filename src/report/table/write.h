/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TABLE_WRITE_H
#define ORR_REPORT_TABLE_WRITE_H

#include "report/table/table.h"

/* The formats behind orr_table_write(). Failures are the output's: it remembers them. */
void orr_table_write_text(const orr_table *table, const orr_table_style *style, orr_output *out);
void orr_table_write_json(const orr_table *table, orr_output *out);
void orr_table_write_csv(const orr_table *table, bool no_formulas, orr_output *out);
void orr_table_write_markdown(const orr_table *table, orr_output *out);

#endif /* ORR_REPORT_TABLE_WRITE_H */
