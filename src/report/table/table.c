/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/table.h"

#include "report/table/cell.h"
#include "report/table/write.h"

void orr_table_write(const orr_table *table, const orr_table_style *style, orr_output *out)
{
    switch (style->format) {
    case ORR_TABLE_TEXT:
        orr_table_write_text(table, style, out);
        break;
    case ORR_TABLE_JSON:
        orr_table_write_json(table, out);
        break;
    case ORR_TABLE_CSV:
        orr_table_write_csv(table, style->no_formulas, out);
        break;
    case ORR_TABLE_MARKDOWN:
        orr_table_write_markdown(table, out);
        break;
    }
}
