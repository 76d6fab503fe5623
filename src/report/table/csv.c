/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include <string.h>

#include "report/table/cell.h"

/* RFC 4180 with '\n' between records: quoted where it has to be, quotes doubled. */
static void write_field(const char *text, orr_output *out)
{
    if (!strpbrk(text, ",\"\r\n")) {
        orr_output_text(out, text);
        return;
    }
    orr_output_write(out, "\"", 1);
    for (const char *quote; (quote = strchr(text, '"')); text = quote + 1) {
        orr_output_write(out, text, (size_t)(quote - text));
        orr_output_write(out, "\"\"", 2);
    }
    orr_output_text(out, text);
    orr_output_write(out, "\"", 1);
}

void orr_table_write_csv(const orr_table *table, orr_output *out)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        if (c > 0)
            orr_output_write(out, ",", 1);
        write_field(table->columns[c].name, out);
    }
    orr_output_write(out, "\n", 1);
    for (size_t r = 0; r < table->n_rows; r++) {
        for (size_t c = 0; c < table->n_columns; c++) {
            char buf[ORR_HUMAN_MAX];
            const orr_cell cell = orr_table_cell(table, r, &table->columns[c]);
            if (c > 0)
                orr_output_write(out, ",", 1);
            write_field(orr_cell_exact(&cell, buf), out);
        }
        orr_output_write(out, "\n", 1);
    }
}
