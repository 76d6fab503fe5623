/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TABLE_RENAMED_H
#define ORR_REPORT_TABLE_RENAMED_H

#include <stddef.h>

/* Columns and tables that have a new name. For one release JSON has both: the old one holds the
 * same and is marked deprecated in the schema (docs/schema.json). The other formats have the new
 * name alone. */
typedef struct orr_renamed_column {
    const char *schema, *now, *before;
} orr_renamed_column;

extern const orr_renamed_column orr_renamed_columns[];
extern const size_t orr_renamed_columns_n;
/* The old name of a column of that schema, or of a table within a document; NULL: it had none. */
const char *orr_renamed_column_before(const char *schema, const char *now);
const char *orr_renamed_table_before(const char *now);

#endif /* ORR_REPORT_TABLE_RENAMED_H */
